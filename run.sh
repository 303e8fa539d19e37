#!/bin/sh
# Install what is missing, build, and run every variant on a text: ./run.sh [TEXT] (without: the Gospels of examples/).
# The table goes to stdout, report.html to the current folder, everything else to stderr.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/.ci/debian_first"

"$here/.ci/install" build
cmake -S "$here" -B "$here/build" -DCMAKE_BUILD_TYPE=Release -DHGA_TESTS=OFF >&2
cmake --build "$here/build" --parallel "$(nproc)" >&2
exec "$here/build/cli/hga" run "$@"
