#!/bin/bash
# Tests run the programs that packages.txt installs, whatever stands first in the caller's PATH: test_path.sh
# ctest has put Debian's programs first (debian_first.cmake); what facts.sh does again for scripts run by hand comes after.
set -u
found=$(command -v python3 cmake pkg-config gcc | xargs)
. "$(dirname "$0")/facts.sh"
fact ctest_finds_debians_programs_first equal "$found" "/usr/bin/python3 /usr/bin/cmake /usr/bin/pkg-config /usr/bin/gcc"
fact python_has_what_tests_and_pages_import python3 -c 'import numpy, scipy, networkx, igraph'
facts_end
