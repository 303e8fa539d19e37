#!/bin/sh
# Programs linked to the last library still run with this one: names may be added; what is there keeps its name, its
# arguments and the layout of its structs.
#   test_abi.sh compare|record LIBHGA.SO RECORDED HEADER_FOLDER..
what=$1 library=$2 recorded=$3
shift 3
if ! command -v abidw >/dev/null; then
  echo "not tried: abidiff (Debian's abigail-tools) is not there"
  exit 77
fi
folders=$(for folder in "$@"; do printf ' --headers-dir %s' "$folder"; done)
describe() { abidw --no-corpus-path --no-comp-dir-path --no-show-locs --drop-private-types $folders --out-file "$1" "$library"; }
if [ "$what" = record ]; then
  # Where the sources lie is nobody's business.
  root=$(cd "$(dirname "$0")/.." && pwd)
  describe "$recorded" && sed -i "s,'$root/,'../../,g" "$recorded"
  exit
fi
now=$(mktemp) || exit 1
trap 'rm -f "$now"' EXIT
describe "$now" || exit 1
abidiff --no-added-syms "$recorded" "$now" && exit 0
echo
echo "The binary interface is not the recorded one. If that is meant, say so in CHANGELOG.md and record it anew:"
echo "  cmake --build BUILD --target record_abi"
exit 1
