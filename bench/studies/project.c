/* project.c: the only file that knows OpenBLAS. */
#include "project.h"

#include <cblas.h>

/* Other libraries with a cblas.h have no such function, and one thread. */
void openblas_set_num_threads(int n) __attribute__((weak));

void project(int64_t rows, int inner, int columns, const float *x, const float *w, float *y)
{
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, columns, inner, 1, x, inner, w, columns, 0, y,
                columns);
}
