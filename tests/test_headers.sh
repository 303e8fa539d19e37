#!/bin/sh
# The public headers as callers of every sort compile them: C11 by gcc and clang, C++20 by g++ and clang++, warnings being
# errors, and each header by itself.   test_headers.sh USE.c HEADER_FOLDER..
set -e
use=$1
shift
folders=$(for folder in "$@"; do printf ' -I%s' "$folder"; done)
warnings="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"
as() { # as COMPILER LANGUAGE STANDARD
  if ! command -v "$1" >/dev/null; then
    echo "not tried: $1 is not there"
    return 0
  fi
  "$1" $warnings $folders -std="$3" -x "$2" "$use"
  for folder in $folders; do
    for header in "${folder#-I}"/*.h; do
      printf '#include "%s"\n' "${header##*/}" | "$1" $warnings -Wno-unused -x "$2" -std="$3" $folders -
    done
  done
  echo "$1 -std=$3: good"
}
as gcc c c11
as clang c c11
as g++ c++ c++20
as clang++ c++ c++20
