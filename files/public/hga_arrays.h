/* hga_arrays.h: the arrays of a file by their names: of a .npy, which is one, of a .npz, or of a .safetensors.
   Everything in the file is checked before it is used. An open file serves one thread at a time. */
#ifndef HGA_ARRAYS_H
#define HGA_ARRAYS_H

#include "hga_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hga_arrays hga_arrays;

enum { HGA_NPY_DIMS = 8 };

/* The type of an array's elements, as NumPy has it, and its shape. */
typedef struct hga_npy {
    /* 'f', 'i', 'u', 'b' (truth values), 'V' (bfloat16, for which NumPy has no name) or the texts 'S', 'U' */
    char kind;
    int size;    /* bytes of an element: f 2, 4, 8; i and u 1, 2, 4, 8; b 1; V 2; S and U any */
    int swapped; /* the highest byte comes first */
    int fortran; /* the first index runs fastest */
    int n_dims;
    int64_t dim[HGA_NPY_DIMS], count; /* the product of the sizes; at most INT64_MAX / 16 */
    uint64_t reserved[4];
} hga_npy;

/* One array of a file. */
typedef struct hga_array {
    const char *name; /* as long as the file is open; "" of a .npy */
    const char *type; /* of a .safetensors as the file has it, such as "F8_E4M3"; else NULL */
    hga_npy has;      /* kind 0: a type of a .safetensors other than F16 BF16 F32 F64 I32 I64, which is not read */
    uint64_t reserved[2];
} hga_array;

/* Open a file, whose format is detected by its first bytes; "-" is stdin, and a pipe is read to its end. HGA_EIO,
   HGA_ENOMEM; HGA_EFORMAT for a file of another format, and for tensors that overlap or leave bytes between them;
   HGA_EUNSUPPORTED for a .npz without libzip. *out is yours: hga_arrays_close. */
HGA_API hga_status hga_arrays_open(const hga_allocator *a, const char *path, hga_arrays **out);
/* Close a file, which invalidates its names; NULL is accepted. */
HGA_API void hga_arrays_close(hga_arrays *x);
/* Return the number of arrays of a file. */
HGA_API int64_t hga_arrays_count(const hga_arrays *x);
/* Find the array of that name, -1 without. */
HGA_API int64_t hga_arrays_find(const hga_arrays *x, const char *name);
/* Get the type and shape of array i by its header and size alone: a .npz that is corrupt after the header is reported
   when elements are read. HGA_EINVAL: there is no array i; HGA_EFORMAT: it has more or fewer bytes than its shape says.
   */
HGA_API hga_status hga_arrays_look(hga_arrays *x, int64_t i, hga_array *out);
/* Return the value of a key of a .safetensors' __metadata__, valid while the file is open; NULL if there is none. */
HGA_API const char *hga_arrays_about(const hga_arrays *x, const char *word);

/* Read elements [first, first + n) of array i, counted in C's order, as float32: of kind f or V. With n = 0 it only
   checks type and size. HGA_EFORMAT names what is wrong: another kind, more or fewer bytes than the shape says, a
   corrupt archive, a finite number beyond float32. HGA_EINVAL for a range of an array in Fortran order, which can only
   be read whole. */
HGA_API hga_status hga_arrays_real(hga_arrays *x, int64_t i, int64_t first, int64_t n, float *out);
/* Read all of array i likewise, to memory that the file owns until it is closed; later calls return the same memory. */
HGA_API hga_status hga_arrays_floats(hga_arrays *x, int64_t i, const float **out);
/* Read whole numbers of 4 or 8 bytes, kind i, likewise as int32; HGA_EFORMAT names one that does not fit. */
HGA_API hga_status hga_arrays_whole(hga_arrays *x, int64_t i, int64_t first, int64_t n, int32_t *out);

#ifdef __cplusplus
}
#endif
#endif
