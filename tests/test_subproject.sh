#!/bin/bash
# hga inside of another project, where packages are missing, and what commit a tool says it is of: test_subproject.sh SOURCE [CC]. Needs git.
set -u
source=$1 cc=${2:-cc}
. "$(dirname "$0")/facts.sh"
unset CFLAGS CMAKE_BUILD_TYPE CMAKE_GENERATOR # targets are listed as make lists them
jobs=$(nproc)
# The optimiser, most of whose work is the kernels', shows nothing here.
printf '#!/bin/sh\nexec %s "$@" -O0\n' "$cc" >quick-cc
chmod +x quick-cc
cc=$scratch/quick-cc
# To ccache, where it is the launcher, this compiler is the one of the last time, wherever it lies now.
export CCACHE_COMPILERCHECK=content CCACHE_BASEDIR=$scratch

# ---- taken in by FetchContent, with the tool; by add_subdirectory, with nothing asked for ----

mkdir fetch sub
cat >fetch/main.c <<'END'
#include <hga.h>
#include <stdio.h>
int main(void)
{
    hga_dense wish = {.n_tokens = 5};
    hga_graph *g;
    hga_program p;
    char narrow = (char)hga_build_dense(&wish, &g, &p); /* a conversion that our own flags warn of */
    long long edges = narrow ? 0 : hga_graph_relation(g, 0).n_edges;
    printf("%lld edges, hga %s\n", edges, hga_version());
    return edges != 25;
}
END
sed 's,<hga\.h>,<hga/hga.h>,' fetch/main.c >fetch/in_folder.c
printf '#include <hga/hga_files.h>\n#include <hga_files.h>\nint main(void) { return !hga_graph_read; }\n' >fetch/files.c
cp fetch/*.c sub/
cat >fetch/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.22)
project(parent LANGUAGES C)
include(FetchContent)
FetchContent_Declare(hga SOURCE_DIR "$source")
if(NOT BARE)
  set(HGA_TOOL ON)
endif()
FetchContent_MakeAvailable(hga)
if(TARGET hga::files)
  message(STATUS "files are there")
endif()
message(STATUS "type '\${CMAKE_BUILD_TYPE}', flags '\${CMAKE_C_FLAGS}', release '\${CMAKE_C_FLAGS_RELEASE}', standard '\${CMAKE_C_STANDARD}'")
add_executable(user main.c)
target_link_libraries(user PRIVATE hga::hga)
add_executable(in_folder in_folder.c)
target_link_libraries(in_folder PRIVATE hga::hga)
if(TARGET hga::files)
  add_executable(files files.c)
  target_link_libraries(files PRIVATE hga::files)
endif()
END
cat >sub/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.22)
project(parent LANGUAGES C)
add_subdirectory("$source" hga)
enable_testing()
add_executable(user main.c)
target_link_libraries(user PRIVATE hga::hga)
install(TARGETS user)
END
# The larger of the two by Ninja, where it is: make takes as long between these compilations as the compiler for them.
if command -v ninja >/dev/null; then fetch_by=(-G Ninja); else fetch_by=(); fi
configure() { cmake -S "$1" -B "$1/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${@:2}"; }
fact fetchcontent_configures configure fetch "${fetch_by[@]}"
configure fetch >fetched 2>&1
fact the_parents_flags_stay_its_own shows fetched "type '', flags '', release '-O3 -DNDEBUG', standard ''"
fact its_program_and_the_tool_are_built cmake --build fetch/build --parallel "$jobs" --target user in_folder files hga_tool
fact its_program_runs fetch/build/user
fact and_with_the_headers_in_their_folder fetch/build/in_folder
fact so_do_the_files fetch/build/files
users_line() { grep -F 'fetch/main.c' fetch/build/compile_commands.json | grep '"command"'; }
users_line >line
fact and_is_compiled_as_its_project_says lacks line '-Wconversion|-fvisibility|-fPIC|-std=|-O2|-Werror'
tool() { find fetch/build -name hga -type f -perm -u+x; }
fact the_tool_runs_with_its_text "$scratch/$(tool)" run --tokens 64 --variants window --heads 1 --dim 8 --seconds .01 --no-report

fact add_subdirectory_configures configure sub
targets() { cmake --build sub/build --target help | sed -n 's/^\.\.\. //p' | sed 's/ .*//' | sort; }
targets >targets
fact the_library_is_there_to_be_linked holds targets '^hga$'
fact neither_tool_nor_tests_nor_packages_are lacks targets '^(hga_tool|test_|fuzz_|man$|docs$|package|hga_python|example|bench)'
fact no_test_is_added equal "$(cd sub/build && ctest -N | tail -1)" "Total Tests: 0"
plan() { cmake --build sub/build --target all -- -n; }
plan >all 2>&1
fact the_shared_library_is_not_built_for_nobody lacks all 'libhga\.so'
touch sub/build/user # as if it were built: install alone is looked at
installed() { cmake --install sub/build --prefix "$scratch/there" && equal "$(cd there && find . -type f)" ./bin/user; }
fact nothing_of_hga_is_installed installed

# ---- what is missing is said in one line, with the command that brings it ----

cat >pkg-config-without <<'END'
#!/bin/sh
for word; do case $word in "$WITHOUT"*) exit 1 ;; esac; done
exec pkg-config "$@"
END
chmod +x pkg-config-without
# lacks_package TEXT CMAKE OPTION..
lacks_package() {
    local text=$1
    shift
    rm -rf missing
    ! cmake -S "$source" -B missing -DCMAKE_C_COMPILER="$cc" "$@" >said_by_cmake 2>&1 && sed 's/^ *//' said_by_cmake | grep -qxF "$text" || { cat said_by_cmake; false; }
}
without() { WITHOUT=$1 lacks_package "$2" -DPKG_CONFIG_EXECUTABLE="$scratch/pkg-config-without" -DHGA_INSTALLER_apt-get=/bin/true "${@:3}"; }
fact a_missing_jansson_is_one_line without jansson "jansson is missing: sudo apt-get install libjansson-dev"
fact on_fedora_with_its_names without jansson "jansson is missing: sudo dnf install jansson-devel" -DHGA_INSTALLER_apt-get=OFF -DHGA_INSTALLER_dnf=/bin/true
fact on_arch_with_its_names without jansson "jansson is missing: sudo pacman -S jansson" -DHGA_INSTALLER_apt-get=OFF -DHGA_INSTALLER_dnf=OFF -DHGA_INSTALLER_pacman=/bin/true
fact elsewhere_with_all_names without jansson "jansson is missing: Debian's package is libjansson-dev, Fedora's jansson-devel, Arch's jansson" -DHGA_INSTALLER_apt-get=OFF -DHGA_INSTALLER_dnf=OFF -DHGA_INSTALLER_pacman=OFF
while read -r module package option; do
    fact "a_missing_${module}_too" without "$module" "$module is missing: sudo apt-get install $package; or, without: -DHGA_WITH_$option=OFF"
done <<'END'
icu-uc libicu-dev ICU
libxml-2.0 libxml2-dev XML
libzip libzip-dev ZIP
md4c libmd4c-dev MD4C
hwloc libhwloc-dev HWLOC
librsvg-2.0 librsvg2-dev LIBRSVG
END
# Inside of another project the library goes without its files, and says so in one line.
# It is the project above without the tool: what does not change is not compiled again.
configure_bare() { rm -f fetch/build/CMakeCache.txt fetch/build/user && configure fetch "${fetch_by[@]}" -DBARE=ON -DHGA_INSTALLER_apt-get=/bin/true "$@" >bare_said 2>&1; }
says_without() { # says_without MODULE PACKAGE
    WITHOUT=$1 configure_bare -DPKG_CONFIG_EXECUTABLE="$scratch/pkg-config-without" && equal "$(grep -c '^-- without ' bare_said)" 1 &&
        shows bare_said "-- without hga::files: $1 is missing: sudo apt-get install $2" && lacks bare_said 'files are there'
}
fact a_project_goes_without_libxml2 says_without libxml-2.0 libxml2-dev
fact or_libzip says_without libzip libzip-dev
fact or_md4c says_without md4c libmd4c-dev
fact or_icu says_without icu-uc libicu-dev
fact and_its_program_is_built cmake --build fetch/build --parallel "$jobs" --target user
fact and_runs fetch/build/user
has_files() { configure_bare && shows bare_said 'files are there' && lacks bare_said 'without '; }
fact where_all_are_there_it_has_the_files has_files
# The shared library is of the same objects.
shared() {
    configure_bare -DBUILD_SHARED_LIBS=ON && rm -f fetch/build/in_folder && cmake --build fetch/build --parallel "$jobs" --target user in_folder files &&
        fetch/build/user && fetch/build/in_folder && fetch/build/files && readelf -d fetch/build/in_folder | grep -F 'NEEDED' | grep -F libhga.so
}
fact as_a_shared_library_it_has_both_spellings_too shared
told_not_to() { configure_bare -DHGA_FILES=OFF && lacks bare_said 'files are|icu|xml|zip|md4c'; }
fact but_not_where_it_is_told_not_to told_not_to
tool_wants() { ! cmake -S "$source" -B missing -DCMAKE_C_COMPILER="$cc" -DHGA_FILES=OFF >said_by_cmake 2>&1 && shows said_by_cmake 'need libhga-files: HGA_FILES is OFF'; }
fact the_tool_needs_the_files tool_wants
fact and_what_only_the_tests_need without cmocka "cmocka is missing: sudo apt-get install libcmocka-dev"
fact and_pkg_config_itself lacks_package "pkg-config is missing: sudo apt-get install pkg-config" -DPKG_CONFIG_EXECUTABLE=/nowhere/pkg-config -DHGA_INSTALLER_apt-get=/bin/true
cat >no_metis.cmake <<'END'
macro(find_library variable name)
  if(NOT "${name}" STREQUAL "metis")
    _find_library(${ARGV})
  endif()
endmacro()
END
fact and_a_library_without_a_pc_file lacks_package "metis is missing: sudo apt-get install libmetis-dev; or, without: -DHGA_WITH_METIS=OFF" -DCMAKE_PROJECT_hga_INCLUDE="$scratch/no_metis.cmake" -DHGA_INSTALLER_apt-get=/bin/true

# ---- the commit ----

mkdir clone
(cd "$source" && cp -r --parents cmake/commit.txt cli/version.cmake cli/version.h.in .gitattributes "$scratch/clone")
as_somebody() { git -c user.name=a -c user.email=a@b -c init.defaultBranch=x -c safe.directory='*' "$@"; }
(cd clone && as_somebody init -q . && as_somebody add -A && as_somebody commit -qm one) || exit 1
head=$(as_somebody -C clone rev-parse HEAD)
mkdir -p plain archive parent/inside
as_somebody -C clone archive HEAD | tar x -C archive
as_somebody -C clone archive HEAD | tar x -C parent/inside
cp -r clone/cli clone/cmake plain
(cd parent && as_somebody init -q . && as_somebody commit -q --allow-empty -m other) || exit 1
commit_of() { cmake -DSOURCE="$scratch/$1" -DTEMPLATE="$scratch/clone/cli/version.h.in" -DHEADER="$scratch/version.h" "${@:2}" -P "$scratch/clone/cli/version.cmake" && sed -n 's/^#define BUILD_COMMIT "\(.*\)"/\1/p' version.h; }
fact a_clone_knows_its_commit equal "$(commit_of clone)" "${head:0:12}"
fact an_archive_of_git_too equal "$(commit_of archive)" "${head:0:12}"
fact inside_of_another_clone_it_is_not_that_ones equal "$(commit_of parent/inside)" "${head:0:12}"
fact whoever_packs_may_say_it equal "$(commit_of plain -DHGA_COMMIT=v1-2)" v1-2
fact without_any_of_these_it_is_unknown equal "$(commit_of plain)" unknown
facts_end
