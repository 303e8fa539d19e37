/* npy.h: arrays in files: numpy's .npy, members of .npz, tensors of .safetensors; everything in them checked. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdint.h>

#include "hga.h"
#include "npy_format.h"
#include "outfile.h"

enum { NPY_MAX_DIMS = HGA_NPY_DIMS };

/* ---- types of numbers ---- */

/* Kind and size of a header, whose other members are 0. NumPy writes bfloat16 as two bytes without a meaning, V2. */
typedef hga_npy element;
#define ELEMENT_F32 ((element){.kind = 'f', .size = 4})
#define ELEMENT_I32 ((element){.kind = 'i', .size = 4})

/* ---- arrays ---- */

/* An array in C order. Exactly one of `real` and `whole` is set, unless there are no elements. */
typedef struct npy {
    int n_dims;
    int64_t dim[NPY_MAX_DIMS], count;
    element type; /* in the file */
    float *real;
    int32_t *whole;
    char *path;
} npy;

/* Some indices of one axis. */
typedef struct npy_part {
    int axis;
    int64_t n_intervals;
    const hga_interval *interval; /* [n_intervals], ascending; of the axis */
} npy_part;

/* What an array must hold, and is read as: int32 of int32 or int64; or float32 of float16, bfloat16, float32 or
   float64, of either byte order, which are finite, or also -inf. SIZES: real ones, which are not read. */
typedef enum npy_content { NPY_WHOLE, NPY_REAL, NPY_ENDLESS, NPY_SIZES } npy_content;
/* Read an array ("-" is stdin, FILE:NAME one of several); what it must not hold is refused with its position. */
int npy_read(const char *path, npy_content wish, npy *out);
/* The same of a part of an array of real numbers, whose dim[axis] is then as many as it has there. What is not of the
   part is not read, but in Fortran's order, out of a .npz and from a pipe. */
int npy_read_part(const char *path, const npy_part *part, npy *out);
void npy_clear(npy *a);
/* "(3, 4)", for a complaint that names no more than two. */
const char *npy_shape(const npy *a);
/* CLI_DATA: "FILE: WHAT, not the shape (3, 4)". */
int npy_complain_of_shape(const npy *a, const char *what);

/* Write an array in C order: whole numbers as int32, real ones in a type; what does not fit is refused. */
int npy_write_whole(outfile *out, const int32_t *data, int n_dims, const int64_t *dim);
int npy_write_as(outfile *out, element type, const float *data, int n_dims, const int64_t *dim);

/* Writes a range of an array of sizes `dim` at its offset, `data` holding it alone; the header too, if `first` says
   that this range is the first to be written. The stream must be seekable. */
int npy_write_part(outfile *out, element type, const float *data, int n_dims, const int64_t *dim, const npy_part *part,
                   int first);

#endif
