#!/bin/sh
# The library is silent and keeps to its names: test_symbols.sh LIBHGA.A SOURCE_FOLDER [CC]
#  - no object calls what prints, ends the process, raises or jumps; the environment is read by isa.c alone, stdin and stdout by the files that read and write
#  - a shared library of these objects exports what the headers declare with HGA_API, all of it and nothing else
set -eu
library=$1 source=$2 cc=${3:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fact() { # fact NAME FILE: the file lists the offenders, so it must be empty
    if [ -s "$2" ]; then
        echo "not true: $1"
        sed 's/^/    /' "$2"
        failed=1
    else
        echo "ok: $1"
    fi
}
# Undefined symbols as "object symbol"; versions and glibc's checked variants are the same function.
nm -A -u "$library" | awk '{ n = split($1, path, ":"); print path[n - 1] ? path[n - 1] : path[n], $NF }' |
    sed -e 's/@.*//' -e 's/ __\([a-z]*\)_chk$/ \1/' -e 's/ __isoc99_/ /' >"$scratch/needs"
[ -s "$scratch/needs" ] || { echo "nm found nothing in $library"; exit 1; }

grep -E ' (exit|_exit|_Exit|quick_exit|atexit|abort|raise|kill|signal|sigaction|longjmp|_?setjmp|__assert_fail)$' "$scratch/needs" >"$scratch/out" || true
fact the_library_never_ends_the_process "$scratch/out"

grep -E ' (printf|vprintf|puts|putchar|perror|psignal|dprintf|vdprintf|syslog|stderr|error|warnx?|errx?)$' "$scratch/needs" >"$scratch/out" || true
fact the_library_never_prints "$scratch/out"

grep -E ' (stdout|stdin)$' "$scratch/needs" | grep -vE '^(write|json_values)\.c\.o ' >"$scratch/out" || true
fact only_readers_and_writers_know_stdin_and_stdout "$scratch/out"

grep -E ' (secure_)?(getenv|setenv|putenv|environ)$' "$scratch/needs" | grep -v '^isa\.c\.o ' >"$scratch/out" || true
fact only_isa_c_reads_the_environment "$scratch/out"

grep -E ' (rand|srand|random|srandom|rand_r|strtok|setlocale|system|popen|fork|tmpnam|gets|strcpy|strcat|sprintf|vsprintf)$' "$scratch/needs" >"$scratch/out" || true
fact no_call_with_hidden_state_or_without_bounds "$scratch/out"

# One word per declared function; declarations begin a line with HGA_API.
cat "$source"/graph/base/*.h "$source"/*/public/*.h "$source"/msgpass/*/public/*.h | sed -n 's/^HGA_API .*[ *]\(hga_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$scratch/declared"
"$cc" -shared -fopenmp -o "$scratch/libhga.so" -Wl,--whole-archive "$library" -Wl,--no-whole-archive
nm -D --defined-only "$scratch/libhga.so" | awk '{ print $NF }' | grep -vE '^(_init|_fini|_edata|_end|__bss_start)$' | sort -u >"$scratch/exported"

comm -13 "$scratch/declared" "$scratch/exported" >"$scratch/out"
fact every_exported_symbol_is_declared_in_a_public_header "$scratch/out"
comm -23 "$scratch/declared" "$scratch/exported" >"$scratch/out"
fact every_declared_function_is_exported "$scratch/out"

# Static storage that can change, as "object symbol": a lock is no state, and thread-local storage is in .tbss.
objdump -t "$library" | awk '/file format/ { object = $1 } $4 ~ /^\.(data|bss)/ || $3 ~ /^\.(data|bss)/ || $5 ~ /^\.(data|bss)/ { print object, $0 }' |
    grep -vE '\.data\.rel\.ro| d  |(mutex|lock)[.0-9]*$' | awk '{ print $1, $NF }' | sort -u >"$scratch/out" || true
fact the_library_has_no_global_state_but_locks "$scratch/out"

echo "$(wc -l <"$scratch/declared") functions declared in public headers"
exit $failed
