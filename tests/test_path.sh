#!/bin/sh
# Tests run the programs that packages.txt installs, whatever stands first in the caller's PATH: test_path.sh
set -eu
for program in python3 cmake pkg-config; do
    found=$(command -v $program)
    [ "$found" = /usr/bin/$program ] || { echo "not true: $program is $found, not Debian's"; exit 1; }
done
python3 -c 'import numpy, scipy, networkx, igraph'
