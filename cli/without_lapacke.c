/* without_lapacke.c: in place of lapack.c where LAPACKE is left out. */
#include "lapack.h"

int singular_values(hga_id m, hga_id n, double *a, double *sigma)
{
    (void)a, (void)sigma;
    return complain(CLI_OUTSIDE,
                    "the singular values of %d x %d numbers need LAPACKE, which this tool was built without "
                    "(HGA_WITH_LAPACKE=OFF)",
                    m, n);
}
