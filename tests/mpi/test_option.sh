#!/bin/bash
# -DHGA_WITH_MPI=ON, with the MPI that one names: test_option.sh SOURCE CC MPI..
set -u
unset CMAKE_GENERATOR # flags are read where make has them
source=$1 cc=$2
shift 2
. "$(dirname "$0")/../facts.sh"
configure() { rm -rf build && cmake -S "$source" -B build -DCMAKE_C_COMPILER="$cc" -DHGA_TESTS=OFF -DHGA_PYTHON=OFF -DHGA_INSTALL=OFF "$@" >said_by_cmake 2>&1; }

for mpi; do
    fact "it_is_configured_with_$mpi" configure -DHGA_WITH_MPI=ON -DMPI_C_COMPILER="mpicc.$mpi"
    compiles() { cmake --build build --target hga_mpi_folder >log 2>&1 || { tail log; false; }; }
    fact "and_its_file_compiles_with_$mpi" compiles
    holds_its() { grep -h '^LIBRARY_LINK\|^C_INCLUDES' build/CMakeFiles/hga_mpi_folder.dir/flags.make >flags && shows flags "$mpi"; }
    fact "which_is_$mpi" holds_its
done

is_missing() { ! configure -DHGA_WITH_MPI=ON -DMPI_C_COMPILER=/nowhere/mpicc -DHGA_INSTALLER_apt-get=/bin/true && sed 's/^ *//' said_by_cmake | grep -qxF "MPI is missing: sudo apt-get install libopenmpi-dev openmpi-bin; or, without: -DHGA_WITH_MPI=OFF" || { cat said_by_cmake; false; }; }
fact a_missing_mpi_is_one_line is_missing
off() { configure && cmake --build build --target help >targets && lacks targets hga_mpi; }
fact it_is_off_where_nobody_asks off
facts_end
