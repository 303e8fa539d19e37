/* lapack.h: the singular values of a real matrix. */
#ifndef CLI_LAPACK_H
#define CLI_LAPACK_H

#include "complain.h"

/* sigma[0 .. min(m, n)) in decreasing order, on the calling thread alone. `a` is [m][n] by rows, finite, and is
   overwritten. */
int singular_values(hga_id m, hga_id n, double *a, double *sigma);

#endif
