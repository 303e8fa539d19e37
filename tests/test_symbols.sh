#!/bin/bash
# The libraries are silent and keep to their names: test_symbols.sh LIBHGA.A LIBHGA-FILES.A LIBHGA.SO LIBHGA-FILES.SO SOURCE_FOLDER [CC]
#  - no object calls what prints, ends the process, raises or jumps; the environment is read by isa.c alone, stdin and stdout by the files that read and write
#  - a shared library of these objects exports what its headers declare with HGA_API, all of it and nothing else
#  - libhga needs none of the packages that libhga-files is for
set -u
library=$1 files=$2 library_so=$3 files_so=$4 source=$5 cc=${6:-cc}
. "$(dirname "$0")/facts.sh"

# Undefined symbols as "object symbol"; versions and glibc's checked variants are the same function.
nm -A -u "$library" "$files" | awk '{ n = split($1, path, ":"); print path[n - 1] ? path[n - 1] : path[n], $NF }' |
    sed -e 's/@.*//' -e 's/ __\([a-z]*\)_chk$/ \1/' -e 's/ __isoc99_/ /' >needs
[ -s needs ] || { echo "nm found nothing in $library"; exit 1; }
grep -q '^write_csv\.c\.o ' needs || { echo "nm found nothing in $files"; exit 1; }

grep -E ' (exit|_exit|_Exit|quick_exit|atexit|abort|raise|kill|signal|sigaction|longjmp|_?setjmp|__assert_fail)$' needs |
    grep -vE '^cut_in_two\.c\.o (raise|sigaction)$' >out # a SIGTERM that METIS took for its own is sent on
fact the_library_never_ends_the_process empty out

grep -E ' (printf|vprintf|puts|putchar|perror|psignal|dprintf|vdprintf|syslog|stderr|error|warnx?|errx?)$' needs >out
fact the_library_never_prints empty out

grep -E ' (stdout|stdin)$' needs | grep -vE '^(file|load)\.c\.o ' >out
fact only_readers_and_writers_know_stdin_and_stdout empty out

grep -E ' (secure_)?(getenv|setenv|putenv|environ)$' needs | grep -v '^isa\.c\.o ' >out
fact only_isa_c_reads_the_environment empty out

# What pays on this machine is looked up, not timed; and but for its row nothing depends on which machine it is.
grep -E ' (clock|clock_gettime|gettimeofday|time|timespec_get|omp_get_wtime)$' needs | grep -vE '^(peaks|in_process|interrupt|cut_in_two)\.c\.o ' >out
fact only_peaks_delays_and_interrupts_look_at_a_clock empty out
grep -E ' (sysconf|get_nprocs|getauxval|__cpu_model)$' needs | grep -vE '^(isa|processor|route)\.c\.o ' >out
fact only_the_machines_room_asks_what_processor_it_is empty out

grep -E ' (rand|srand|random|srandom|rand_r|strtok|setlocale|system|popen|fork|tmpnam|gets|strcpy|strcat|sprintf|vsprintf)$' needs >out
fact no_call_with_hidden_state_or_without_bounds empty out

# One word per declared function; declarations begin a line with HGA_API.
declared() { sed -n 's/^HGA_API .*[ *]\(hga_[a-z0-9_]*\)(.*/\1/p' | sort -u; }
exported() { # exported ARCHIVE: what a shared library of its objects would have
    "$cc" -shared -fopenmp -o all.so -Wl,--whole-archive "$1" -Wl,--no-whole-archive
    nm -D --defined-only all.so | awk '{ print $NF }' | grep -vE '^(_init|_fini|_edata|_end|__bss_start)$' | sort -u
}
cat "$source"/files/{public,base}/*.h | declared >declared_files
cat "$source"/graph/base/*.h "$source"/{graph,dist,builders}/public/*.h "$source"/msgpass/*/public/*.h | declared >declared
exported "$library" >exported
exported "$files" >exported_files

comm -13 declared exported >out
fact every_exported_symbol_is_declared_for_export empty out
comm -23 declared exported >out
fact every_declared_function_is_exported empty out
fact libhga_files_exports_what_its_headers_declare_and_nothing_else cmp declared_files exported_files

needed() { objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' >needed && [ -s needed ]; }
needs_none() { needed "$library_so" && lacks needed '^lib(xml2|zip|md4c|icu|hga)'; }
fact libhga_needs_neither_libxml2_nor_libzip_nor_md4c_nor_icu needs_none
on_top() { needed "$files_so" && holds needed '^libhga\.so'; }
fact libhga_files_stands_on_libhga on_top
grep -rlE '^ *# *include *<(libxml/|zip\.h|md4c\.h|unicode/)' "$source"/{graph,kernels,msgpass,dist,builders} >out
fact no_source_of_libhga_includes_them empty out

# Static storage that can change, as "object symbol": a lock is no state, and thread-local storage is in .tbss. The names of temporary files are the process's.
objdump -t "$library" "$files" | awk '/file format/ { object = $1 } $4 ~ /^\.(data|bss)/ || $3 ~ /^\.(data|bss)/ || $5 ~ /^\.(data|bss)/ { print object, $0 }' |
    grep -vE '\.data\.rel\.ro| d  |(mutex|lock)[.0-9]*$' | awk '{ print $1, $NF }' | sort -u | grep -vx 'file\.c\.o:* temporaries' >out
fact the_library_has_no_global_state_but_locks empty out

echo "$(cat declared declared_files | wc -l) functions declared for export"
facts_end
