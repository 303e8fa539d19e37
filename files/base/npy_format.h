/* npy_format.h: NumPy's array files: the header of a .npy, and elements as numbers. hga_arrays.h reads whole arrays.
   Any number of threads may call. Not installed: libhga-files exports these functions for the tool. */
#ifndef NPY_FORMAT_H
#define NPY_FORMAT_H

#include "hga_arrays.h"

#include <stdio.h>

enum { HGA_NPY_HEADER_BYTES = 512, HGA_NPY_TYPE_BYTES = 32, HGA_NPY_SHAPE_BYTES = 200 };

/* Read a NumPy file's header, of version 1.0, 2.0 or 3.0; the stream is then at the first element. `name` is the
   stream's name in errors. HGA_EFORMAT for anything but a header of the kinds above, HGA_EIO, HGA_ENOMEM; *out is then
   zeroed. */
HGA_API hga_status hga_npy_read_header(const char *name, FILE *stream, hga_npy *out);
/* Write a NumPy header as bytes of a file, version 1.0; returns their number. `count` and `fortran` are ignored: C
   order. */
HGA_API int hga_npy_header(const hga_npy *h, char bytes[HGA_NPY_HEADER_BYTES]);

/* Read one element from its h->size bytes as a real number. HGA_EFORMAT for an element that is not a number. */
HGA_API hga_status hga_npy_real(const hga_npy *h, const void *element, double *out);
/* Read one element from its h->size bytes as a whole number. HGA_EFORMAT for an element of another kind than i, u and
   b, or that does not fit int64. */
HGA_API hga_status hga_npy_whole(const hga_npy *h, const void *element, int64_t *out);
/* Write a number as the h->size bytes of an element of kind f or V, rounded to the nearest, ties to even. */
HGA_API void hga_npy_put(const hga_npy *h, float value, void *element);

/* Name the type of elements as NumPy does, "float16" ("bfloat16" for V, "bytes" and "text" for S and U). Returns a
   static text, or `text`. */
HGA_API const char *hga_npy_type(const hga_npy *h, char text[HGA_NPY_TYPE_BYTES]);
/* Write sizes as NumPy prints them, "(3, 4)"; returns `text`. */
HGA_API const char *hga_npy_shape(int n_dims, const int64_t *dim, char text[HGA_NPY_SHAPE_BYTES]);
/* Write the index of element i, counted in C's order, likewise. */
HGA_API const char *hga_npy_index(const hga_npy *h, int64_t i, char text[HGA_NPY_SHAPE_BYTES]);

#endif
