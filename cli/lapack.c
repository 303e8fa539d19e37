/* lapack.c: the one file that knows LAPACK. */
#include "lapack.h"

#include <lapacke.h>

/* The system's LAPACK may be OpenBLAS, which would take every core; other implementations have no such function. */
void openblas_set_num_threads(int n) __attribute__((weak));

/* a matrix by rows is its transpose by columns, which has the same singular values */
int singular_values(hga_id m, hga_id n, double *a, double *sigma)
{
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    lapack_int info = LAPACKE_dgesdd(LAPACK_COL_MAJOR, 'N', n, m, a, n, sigma, NULL, 1, NULL, 1);
    if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
        return complain(CLI_OUTSIDE, "out of memory: the singular values of %d x %d numbers", m, n);
    if (info) return complain(CLI_OUTSIDE, "LAPACK: dgesdd returned %lld for %d x %d numbers", (long long)info, m, n);
    return CLI_GOOD;
}
