#!/bin/bash
# The installed package works: test_package.sh BUILD SOURCE PLAIN_LIBRARY PLAIN_FILES [CC [CXX]]
# Installs what is built into a folder of its own, moves it, and uses it as a stranger would: by pkg-config, by find_package, from the shell.
set -u
build=$1 source=$2 plain=$3 plain_files=$4 cc=${5:-cc} cxx=${6:-c++}
. "$(dirname "$0")/facts.sh"

cmake --install "$build" --prefix "$scratch/first" >log 2>&1 || { cat log; exit 1; }
mv first moved
prefix=$scratch/moved
lib=$(dirname "$(find "$prefix" -name libhga.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig
unset LD_LIBRARY_PATH

# ---- what is there ----

version=$(sed -n 's/^#define HGA_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/graph/base/hga_base.h" | paste -sd.)
case $version in 0.*) abi=${version%.*} ;; *) abi=${version%%.*} ;; esac
soname() { readelf -d "$lib/$1.so" | grep -qF "soname: [$1.so.$abi]"; }
node() { ! nm -D --defined-only "$lib/$1.so" | awk '$3 ~ /^hga_/' | grep -vF "@@$2_$abi"; }
headers() { [ -f "$prefix/include/hga/hga.h" ] && [ "$(ls "$prefix/include/hga")" = "$(cd "$source" && ls graph/base graph/public msgpass/*/public dist/public builders/public files/public | grep "^hga.*\.h\$" | sort)" ]; }
fact the_soname_is_of_the_version soname libhga
fact and_so_is_the_version_of_every_function node libhga HGA
fact the_same_goes_for_the_files soname libhga-files
fact and_for_their_functions node libhga-files HGA_FILES
fact every_public_header_is_installed_and_no_other headers
fact the_text_of_run_is_installed cmp "$prefix/share/hga/gospels.txt" "$source/examples/gospels.txt"


# A release is installed without what only a debugger reads.
stripped() { for file in "$lib/libhga.so" "$lib/libhga-files.so" "$prefix/bin/hga"; do ! readelf -S "$file" | grep -F .debug_info || return 1; done; }
if grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$build/CMakeCache.txt"; then fact libraries_and_tool_are_stripped stripped; fi

# The names a library defines for others to link.
defined() { nm "$@" 2>/dev/null | awk 'NF == 3 && $2 ~ /[B-Z]/ { sub(/@.*/, "", $3); print $3 }' | sort -u; } # A: the name of a version
defined -D --defined-only "$lib/libhga.so" >shared_names
defined -g --defined-only "$lib/libhga.a" >static_names
grep -v '^hga_' shared_names >foreign
fact the_shared_library_exports_hga_names_only empty foreign
fact both_libraries_export_the_same_names cmp shared_names static_names
defined -D --defined-only "$lib/libhga-files.so" >files_shared_names
defined -g --defined-only "$lib/libhga-files.a" >files_static_names
the_files_names() { grep -qx hga_tree_html files_shared_names && ! grep -v '^hga_' files_shared_names && cmp files_shared_names files_static_names; }
fact libhga_files_exports_its_own_in_both_forms the_files_names
both() { comm -12 shared_names files_shared_names; }
fact no_name_is_in_both_libraries equal "$(both)" ""
needed() { objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' >needed && [ -s needed ]; }
alone() { needed "$lib/libhga.so" && lacks needed '^lib(xml2|zip|md4c|icu|hga)'; }
fact libhga_needs_neither_libxml2_nor_libzip_nor_md4c_nor_icu alone

# ---- as docs/c.md says, word by word: its first block after "Compile it", where ~ is a folder of ours and build/ the build ----

awk '/Compile it/ { found = 1 } found && /^```text$/ { on = 1; next } /^```/ { if (on) exit } on' "$source/docs/c.md" >by_the_page.sh
says_how() { [ "$(wc -l <by_the_page.sh)" -ge 3 ] && shows by_the_page.sh 'cmake --install build --prefix ~/.local'; }
fact the_page_says_how_to_compile says_how
as_it_says() { mkdir -p home clone && cp -r "$source/examples" clone/ && ln -sfn "$build" clone/build && (cd clone && HOME=$scratch/home PATH=$PATH bash -eu ../by_the_page.sh) | grep 'token 0 gets 19.500'; }
fact an_example_compiles_as_it_says_and_runs as_it_says

# ---- by pkg-config ----

# Each program in two spellings: with <hga.h>, and with <hga/hga.h>.
mkdir plain in_folder
cp "$source"/tests/package/use*.c plain
for file in plain/*.c; do sed -E 's,^#include <(hga[a-z_]*\.h)>$,#include <hga/\1>,' "$file" >"in_folder/${file##*/}"; done
fact the_other_spelling_is_another holds in_folder/use_files.c '^#include <hga/hga_files\.h>$'
by_pkg_config() { read -ra flags <<<"$(pkg-config --cflags --libs "$1")" && "$cc" -Wall -Werror "$2" -o by_pc "${flags[@]}" -lm && LD_LIBRARY_PATH="$lib" ./by_pc; }
for spelling in plain in_folder; do
    fact "pkg_config_compiles_with_the_shared_library_$spelling" by_pkg_config hga $spelling/use.c
    fact "and_with_the_files_$spelling" by_pkg_config hga-files $spelling/use_files.c
done

# A program with functions called as our internal ones.
cat static_names files_static_names | sort >all_static_names
{ defined -g --defined-only "$plain"; defined -g --defined-only "$plain_files"; } | sort -u | comm -23 - all_static_names | grep -E '^[a-z_]+$' | sed 's/.*/int &(void);\nint &(void) { return -1; }/' >clash.c
static_by_pkg_config() { # static_by_pkg_config PACKAGE PROGRAM: the line of docs/installing.md
    read -ra flags <<<"$(pkg-config --cflags --libs --static "$1" | sed -E 's/-l(hga[a-z-]*)/-l:lib\1.a/g')"
    "$cc" "$2" clash.c -fno-builtin -o by_static "${flags[@]}" && ./by_static && ! readelf -d by_static | grep 'NEEDED.*libhga'
}
fact there_are_internal_names grep -q int clash.c
# shellcheck disable=SC2016 # the page's line, not run
fact the_page_says_the_static_line shows "$source/docs/installing.md" '$(pkg-config --cflags --libs --static hga | sed -E '"'s/-l(hga[a-z-]*)/-l:lib\\1.a/g'"')'
for spelling in plain in_folder; do
    fact "static_linking_meets_no_internal_name_and_needs_no_libhga_$spelling" static_by_pkg_config hga $spelling/use.c
    fact "neither_do_the_files_$spelling" static_by_pkg_config hga-files $spelling/use_files.c
done
# What a static library needs is what its shared one says that it needs.
for name in hga hga-files; do
    needed "$lib/lib$name.so" && sed -nE 's/^lib(.*)\.so.*/-l\1/p' needed | grep -vxE -e '-l(c|m)' >needs
    pkg-config --static --libs $name | tr ' ' '\n' >offers
    fact "the_static_lib${name}_says_what_it_needs" missing needs offers
done

includes() { printf '#include <hga.h>\nint main() { return hga_version() == 0; }\n' >plus.cc && "$cxx" -Wall -Wextra -Werror -fsyntax-only -I"$prefix/include/hga" plus.cc; }
fact the_headers_are_cplusplus_too includes

# ---- by find_package ----

for spelling in plain in_folder; do
    fact "find_package_configures_$spelling" cmake -S "$source/tests/package" -B user_$spelling -DSPELLED="$scratch/$spelling" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
    fact "and_builds_$spelling" cmake --build user_$spelling
    fact "the_shared_program_runs_$spelling" user_$spelling/use_shared
    fact "the_static_program_runs_$spelling" user_$spelling/use_static
    fact "so_do_those_with_files_$spelling" sh -c "user_$spelling/use_files && user_$spelling/use_files_static"
done
wants() {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(wants LANGUAGES C)\nfind_package(hga %s)\nif(hga_FOUND)\nmessage(FATAL_ERROR found)\nendif()\n' "$1" >wants/CMakeLists.txt
    cmake -S wants -B wants/build -DCMAKE_PREFIX_PATH="$prefix"
}
mkdir wants
without_files() { # as if the package of the files were not installed
    cp -r "$prefix" bare && rm "$(find bare -name hgaFilesTargets.cmake)" && find bare -name 'libhga-files*' -delete || return 1
    prefix=$scratch/bare wants "0.6 QUIET COMPONENTS files" && ! prefix=$scratch/bare wants "0.6 COMPONENTS static"
}
fact files_that_are_not_installed_are_not_found without_files
fact another_version_is_not_taken wants 99.0
# What a static library needs and what is not there is named when CMake configures, not by the linker.
cat >no_jansson.cmake <<'END'
macro(find_library variable)
  if(NOT "${ARGV}" MATCHES "jansson")
    _find_library(${ARGV})
  endif()
endmacro()
END
names_what_lacks() {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(lacks LANGUAGES C)\nfind_package(hga 0.6 REQUIRED COMPONENTS %s)\n' "$1" >wants/CMakeLists.txt
    cmake -S wants -B lacks -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_PROJECT_lacks_INCLUDE="$scratch/no_jansson.cmake" >lacks_said 2>&1
}
names_it() { ! names_what_lacks static && shows lacks_said 'the static hga needs jansson, which is not found'; }
fact a_static_library_names_what_it_lacks names_it
fact which_the_shared_one_does_not_need names_what_lacks files

# ---- the tool ----

fact the_installed_tool_runs "$prefix/bin/hga" --version
fact and_checks_a_graph_it_made sh -c "'$prefix/bin/hga' build bpt --tokens 50 -o g.json && '$prefix/bin/hga' check g.json"
function_page() { gzip -dc "$prefix/share/man/man3/hga_plan_create.3.gz" | grep -q '^\.SH EXAMPLE' && [ -s "$prefix/share/man/man3/hga_plan.h.3.gz" ]; }
fact functions_have_manual_pages function_page
page() { gzip -dc "$prefix/share/man/man1/hga.1.gz" | grep -q '^.TH HGA 1'; }
fact the_manual_page_is_there page

offers_its_subcommands() { PATH=$prefix/bin:$PATH bash -c 'source "$1" && _hga_subcommands | grep -qx attend' - "$prefix/share/bash-completion/completions/hga"; }
fact completion_is_installed offers_its_subcommands

facts_end
