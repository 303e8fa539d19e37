/* hga_arrays.h: the arrays of a file by their names: of a .npy, which is one, of a .npz, or of a .safetensors. Nothing
   in the file is believed before it was checked. An open file serves one thread at a time. */
#ifndef HGA_ARRAYS_H
#define HGA_ARRAYS_H

#include "hga_npy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hga_arrays hga_arrays;

/* What an array is. */
typedef struct hga_array {
    const char *name; /* as long as the file is open; "" of a .npy */
    const char *type; /* of a .safetensors as the file has it, such as "F8_E4M3"; else NULL */
    hga_npy has;      /* kind 0: a type of a .safetensors other than F16 BF16 F32 F64 I32 I64, which is not read */
    uint64_t reserved[2];
} hga_array;

/* Open a file, which is what its first bytes say; "-" is stdin, and a pipe is read to its end. HGA_EIO, HGA_ENOMEM;
   HGA_EFORMAT for a file of another kind, and for tensors that overlap or leave bytes between them; HGA_EUNSUPPORTED
   for a .npz without libzip. *out is yours: hga_arrays_close. */
HGA_API hga_status hga_arrays_open(const hga_allocator *a, const char *path, hga_arrays **out);
/* Close a file, whose names are then gone; NULL is accepted. */
HGA_API void hga_arrays_close(hga_arrays *x);
/* Tell how many arrays a file has. */
HGA_API int64_t hga_arrays_count(const hga_arrays *x);
/* Find the array of that name, -1 without. */
HGA_API int64_t hga_arrays_find(const hga_arrays *x, const char *name);
/* Tell what array i is, by its header and its size alone: whether a .npz is broken behind that is told when elements
   are read. HGA_EINVAL: there is no array i; HGA_EFORMAT: it has more or fewer bytes than its shape says. */
HGA_API hga_status hga_arrays_look(hga_arrays *x, int64_t i, hga_array *out);
/* Tell what a .safetensors says of itself by a word (its __metadata__), as long as it is open; NULL without. */
HGA_API const char *hga_arrays_about(const hga_arrays *x, const char *word);

/* Read elements [first, first + n) of array i, counted in C's order, as float32: of kind f or V. n 0 reads none, and
   tells whether type and size are right. HGA_EFORMAT names what is wrong: another kind, more or fewer bytes than the
   shape says, a broken archive, a number that is finite and float32 has none for. HGA_EINVAL for a part of an array in
   Fortran's order, which is read whole. */
HGA_API hga_status hga_arrays_real(hga_arrays *x, int64_t i, int64_t first, int64_t n, float *out);
/* Read all of array i likewise, to memory that stays until the file is closed; a second time it is there. */
HGA_API hga_status hga_arrays_floats(hga_arrays *x, int64_t i, const float **out);
/* Read whole numbers of 4 or 8 bytes, kind i, likewise as int32; HGA_EFORMAT names one that does not fit. */
HGA_API hga_status hga_arrays_whole(hga_arrays *x, int64_t i, int64_t first, int64_t n, int32_t *out);

#ifdef __cplusplus
}
#endif
#endif
