# Read by ctest before any test runs, also when ctest is called by hand: as .ci/debian_first for the scripts, Debian's programs come first.
set(ENV{PATH} "/usr/sbin:/usr/bin:/sbin:/bin:$ENV{PATH}")
unset(ENV{PYTHONHOME})
unset(ENV{PYTHONPATH})
