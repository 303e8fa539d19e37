/* hga_npy.h: NumPy's array files: the header of a .npy, and elements as numbers. hga_arrays.h reads whole arrays. Any
   number of threads may call. */
#ifndef HGA_NPY_H
#define HGA_NPY_H

#include "hga_base.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HGA_NPY_DIMS = 8, HGA_NPY_HEADER_BYTES = 512, HGA_NPY_TYPE_BYTES = 32, HGA_NPY_SHAPE_BYTES = 200 };

/* The type and shape of an array; set it to zeros, then fill in what you write. */
typedef struct hga_npy {
    char
        kind; /* 'f', 'i', 'u', 'b' (truth values), 'V' (bfloat16, for which NumPy has no name) or the texts 'S', 'U' */
    int size; /* bytes of an element: f 2, 4, 8; i and u 1, 2, 4, 8; b 1; V 2; S and U any */
    int swapped; /* the highest byte comes first */
    int fortran; /* the first index runs fastest */
    int n_dims;
    int64_t dim[HGA_NPY_DIMS], count; /* the product of the sizes; at most INT64_MAX / 16 */
    uint64_t reserved[4];
} hga_npy;

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

#ifdef __cplusplus
}
#endif
#endif
