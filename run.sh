#!/bin/sh
# Build hga and run every variant on a text: ./run.sh [TEXT] (without: the Gospels of examples/), options as of `hga run`.
# What is needed and missing is installed from Debian's packages. The table goes to stdout, report.html to the current folder, everything else to stderr.
# BUILD=DIR builds there (default: build/ beside this file), so that the sources may be read only.
# Exit statuses are the tool's: 0 good, 1 a check failed, 2 wrong usage, 3 bad input, 4 no package, no compiler, no memory.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/.ci/debian_first"
build=${BUILD:-$here/build}

without_apt() {
    cat >&2 <<'END'
run.sh: a library or tool is missing, and there is no apt-get here. hga needs a C compiler, CMake, pkg-config, jansson and hwloc; and, unless cmake is told -DHGA_WITH_..=OFF, SuiteSparse (CXSparse),
METIS, ICU, libxml2, libzip, md4c and librsvg.
  Debian: sudo apt-get install build-essential cmake pkg-config libsuitesparse-dev libmetis-dev libhwloc-dev libjansson-dev libicu-dev libxml2-dev libzip-dev libmd4c-dev librsvg2-dev
  Fedora: sudo dnf install gcc make cmake pkgconf-pkg-config suitesparse-devel metis-devel hwloc-devel jansson-devel libicu-devel libxml2-devel libzip-devel md4c-devel librsvg2-devel
  Arch:   sudo pacman -S base-devel cmake suitesparse metis hwloc jansson icu libxml2 libzip md4c librsvg
Then run this again.
END
    exit 4
}

configure() { cmake -S "$here" -B "$build" -DCMAKE_BUILD_TYPE=Release -DHGA_TESTS=OFF; }

# Nothing is installed where everything is there.
mkdir -p "$build" 2>/dev/null || { echo "run.sh: cannot make $build; say BUILD=DIR" >&2; exit 4; }
if ! { command -v cmake && configure; } >"$build/configure.log" 2>&1; then
    command -v apt-get >/dev/null || { tail -n 5 "$build/configure.log" >&2; without_apt; }
    "$here/.ci/install" build || exit 4
    configure >&2 || exit 4
fi
cmake --build "$build" --parallel "$(nproc)" >&2 || exit 4

status=0
"$build/cli/hga" run "$@" || status=$?
[ "$status" = 0 ] || exit "$status"
report=report.html no_report='' before=''
for word in "$@"; do
    case $word in
    --report=*) report=${word#--report=} ;;
    --no-report | --dry-run | --help | -\? | --usage) no_report=1 ;;
    esac
    [ "$before" = --report ] && report=$word
    before=$word
done
{
    [ -n "$no_report" ] || echo "The report: $report"
    echo "The tool:   $build/cli/hga (cmake --install $build --prefix DIR installs it)"
    echo "Next:       $build/cli/hga view $here/README.md -o view.html, then open view.html"
} >&2
