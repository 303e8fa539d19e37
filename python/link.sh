#!/bin/sh
# Links for an older C library than this machine has: CMake's C_LINKER_LAUNCHER in wheel.sh, which calls link.sh COMPILER OPTION.. The compiler's objects are linked by PyPI's ziglang
# (HGA_ZIG: its program) with the names that glibc 2.28 had, which RHEL 8 and Ubuntu 20.04 have. OpenMP's runtime stays the compiler's libgomp, which needs a newer C library
# here, but not where the wheel will run: so what it needs is not asked for.
set -eu
compiler=$1
shift
for option in "$@"; do
    shift
    case $option in
    -fopenmp) set -- "$@" "$("$compiler" -print-file-name=libgomp.so)" ;;
    -O* | -g* | -f*) ;; # of compiling
    --sysroot=*) ;;     # libraries are named by their files
    *) set -- "$@" "$option" ;;
    esac
done
machine=$("$compiler" -dumpmachine)
exec "$HGA_ZIG" cc -target "${machine%%-*}-linux-gnu.2.28" -fno-sanitize=all -Wl,--allow-shlib-undefined "$@" "$("$compiler" -print-libgcc-file-name)"
