"""A communicator of mpi4py's, by its handle, in hga_dist_mpi: handles.py LIBHGA.SO LIBHGA-MPI.SO, under mpirun."""

import ctypes
import sys

from mpi4py import MPI

GATHER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


class Exchange(ctypes.Structure):
    """hga_exchange"""

    _fields_ = [("size", ctypes.c_size_t), ("rank", ctypes.c_int32), ("n_ranks", ctypes.c_int32), ("ctx", ctypes.c_void_p),
                ("start", ctypes.c_void_p), ("test", ctypes.c_void_p), ("wait", ctypes.c_void_p), ("gather", GATHER),
                ("fail", ctypes.c_void_p), ("close", ctypes.c_void_p)]  # fmt: skip


def a_part_of_the_ranks_in_another_order(library, destroy, world):
    part = world.Split(world.rank % 2, -world.rank)
    x = Exchange()
    assert library.hga_dist_mpi(part.py2f(), ctypes.byref(x)) == 0
    assert x.size == ctypes.sizeof(Exchange) and (x.rank, x.n_ranks) == (part.rank, part.size)
    mine, all_ = ctypes.c_int(world.rank), (ctypes.c_int * part.size)()
    assert x.gather(x.ctx, ctypes.addressof(mine), 4, all_) == 0
    assert list(all_) == part.allgather(world.rank), list(all_)
    destroy(ctypes.byref(x))
    assert not x.ctx


def main():
    hga = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    world = MPI.COMM_WORLD
    library = ctypes.CDLL(sys.argv[2])
    a_part_of_the_ranks_in_another_order(library, hga.hga_dist_destroy, world)
    x = Exchange()
    assert library.hga_dist_mpi_world(ctypes.byref(x)) == 0 and x.n_ranks == world.size
    hga.hga_dist_destroy(ctypes.byref(x))
    n = world.allreduce(1)  # MPI runs on, as it was mpi4py that has started it
    if world.rank == 0:
        print(f"the handles of {n} ranks are understood")


main()
