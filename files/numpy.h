/* numpy.h: a NumPy array in memory. Only files/ includes this. */
#ifndef NUMPY_H
#define NUMPY_H

#include "hga_arrays.h"

typedef struct numpy {
    const char *name; /* of the file, or of the file and its member */
    const uint8_t *data;
    hga_npy has;
} numpy;

/* Opens n bytes; the view points into them. HGA_EFORMAT for more axes than `most_axes`. */
hga_status numpy_open(const char *name, void *bytes, int64_t n, int most_axes, numpy *out);
/* Element i in storage order. HGA_EFORMAT when it is not an integer that fits int64. */
hga_status numpy_integer(const numpy *x, int64_t i, int64_t *out);
/* Element i in storage order. HGA_EFORMAT when it is not a number. */
hga_status numpy_real(const numpy *x, int64_t i, double *out);

#endif
