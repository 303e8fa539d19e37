/* without_mpi.c: replaces mpi.c in programs built without MPI. */
#include "hga_mpi.h"

#include <string.h>

static hga_status refuse_mpi(hga_exchange *out)
{
    memset(out, 0, sizeof *out);
    return hga_fail(HGA_EUNSUPPORTED, "ranks need MPI, which this program was built without (HGA_WITH_MPI=OFF)");
}

hga_status hga_dist_mpi(int fortran_comm, hga_exchange *out)
{
    (void)fortran_comm;
    return refuse_mpi(out);
}

hga_status hga_dist_mpi_world(hga_exchange *out) { return refuse_mpi(out); }
