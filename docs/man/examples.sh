#!/bin/sh
# Where public functions are called: examples.sh HEADER.. writes what examples.awk says of programs that the tests compile: the examples first, then the tool, the tests, the builders.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
for name in tutorial quickstart two_levels custom_hierarchy user_message generate llama; do set -- "$@" "$source/examples/$name.c"; done
for name in howto-c c adding-a-variant; do set -- "$@" "$source/docs/$name.md"; done
awk -v source="$source" -f "$here/examples.awk" "$@" "$source"/cli/*.c "$source"/cli/*/*.c "$source"/tests/*.c "$source"/bench/*.c "$source"/builders/*.c "$source"/files/*.c
