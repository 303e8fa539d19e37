/* hga_npy.h: NumPy's array files: what the header of a .npy says, elements as numbers, and the arrays of a .npz. Any
   number of threads may call, but for one .npz one at a time. */
#ifndef HGA_NPY_H
#define HGA_NPY_H

#include "hga_base.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HGA_NPY_DIMS = 8, HGA_NPY_HEADER_BYTES = 512 };

/* What the elements are and how many; set it to zeros, then fill in what you write. */
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

/* Read a NumPy file's header, of version 1.0, 2.0 or 3.0; the stream then stands at the first element. `name` is what
   errors call the stream. HGA_EFORMAT for anything else than a header of the kinds above, HGA_EIO, HGA_ENOMEM; *out is
   then zeroed. */
HGA_API hga_status hga_npy_read_header(const char *name, FILE *stream, hga_npy *out);
/* Write a NumPy header as bytes of a file, version 1.0; returns how many. `count` and `fortran` are not looked at: C
   order. */
HGA_API int hga_npy_header(const hga_npy *h, char bytes[HGA_NPY_HEADER_BYTES]);

/* Read one element from its h->size bytes as a real number. HGA_EFORMAT for an element of a kind that is no number. */
HGA_API hga_status hga_npy_real(const hga_npy *h, const void *element, double *out);
/* Read one element from its h->size bytes as a whole number. HGA_EFORMAT for an element of another kind than i, u and
   b, or that does not fit int64. */
HGA_API hga_status hga_npy_whole(const hga_npy *h, const void *element, int64_t *out);
/* Write a number as the h->size bytes of an element of kind f or V, rounded to the nearest, ties to even. */
HGA_API void hga_npy_put(const hga_npy *h, float value, void *element);

/* An archive of arrays, .npz, packed or not. */
typedef struct hga_npz hga_npz;
/* Open the archive `path`, or, where `bytes` is not NULL, the n bytes of one that `path` is only the name of in errors;
   they must stay until it is closed. HGA_EFORMAT for anything else, and where two arrays have one name;
   HGA_EUNSUPPORTED in a build without libzip. *out is yours: hga_npz_close. */
HGA_API hga_status hga_npz_open(const hga_allocator *a, const char *path, const void *bytes, int64_t n, hga_npz **out);
/* Close an archive and forget what it knew; NULL is accepted. */
HGA_API void hga_npz_close(hga_npz *z);
/* Tell how many arrays an archive has. */
HGA_API int64_t hga_npz_count(const hga_npz *z);
/* Tell the name of an array, without ".npy", which lives as long as the archive is open; NULL: there is no array i. */
HGA_API const char *hga_npz_name(const hga_npz *z, int64_t i);
/* Unpack array i, which is a .npy file: all of its bytes, or as soon as there are `most` no more. They are yours, *n of
   them in *room bytes that hga_delete takes with the archive's allocator. HGA_EFORMAT for an array that ends too early
   or has a wrong checksum. */
HGA_API hga_status hga_npz_unpack(hga_npz *z, int64_t i, int64_t most, uint8_t **bytes, int64_t *n, int64_t *room);

#ifdef __cplusplus
}
#endif
#endif
