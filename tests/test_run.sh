#!/bin/bash
# run.sh on machines that lack things: test_run.sh SOURCE. What it calls is stood in for: cmake, the installer, the tool; its PATH holds these and a few
# programs that every machine has, and apt-get only where a fact says so.
set -u
source=$1
. "$(dirname "$0")/facts.sh"
mkdir -p house/.ci bare with_apt
cp "$source/run.sh" house/
: >house/.ci/debian_first
for program in sh dirname mkdir tail cat nproc ln chmod; do ln -s "$(command -v $program)" bare/; done
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1"; }
stand_in with_apt/apt-get 'exit 0'
run() { env -i PATH="$scratch/bare${with:-}" BUILD="$scratch/built" ./house/run.sh "$@" >out 2>err; }
forget() { rm -rf built; }

# ---- no apt-get ----

fact without_cmake_and_apt_it_ends_with_4 exits 4 run
fact and_says_that_apt_is_not_there shows err 'there is no apt-get here'
for distribution in Debian Fedora Arch; do fact and_names_the_packages_of_$distribution holds err "^ *$distribution: +sudo "; done
fact nothing_is_on_stdout empty out
names_of() { sed -n "s/^ *$1: *sudo [a-z-]* [a-zA-Z-]* //p" err | tr ' ' '\n' | sort; }
sed '/^# tests/,$d; s/#.*//; /^$/d' "$source/packages.txt" | sort >wants
names_of Debian >debian
fact the_names_for_debian_are_those_of_packages_txt same_bytes wants debian
as_many() { equal "$(names_of Fedora | grep -c devel)" 9; }
fact fedora_has_a_package_for_each_library as_many
stand_in bare/cmake 'echo "-- checking"; echo "CMake Error: jansson was not found" >&2; exit 1'
forget
fact a_missing_library_ends_with_4 exits 4 run
fact and_cmakes_own_words_are_shown shows err 'jansson was not found'

# ---- apt-get is there ----

with=:$scratch/with_apt
stand_in house/.ci/install 'echo "install $*" >>installed; exit 4'
forget
fact an_installation_that_fails_ends_with_4 exits 4 run
fact only_what_a_build_needs_is_installed equal "$(cat installed)" 'install build'
stand_in house/.ci/install 'echo again >>installed; ln -sf ../good bare/cmake'
stand_in good 'case "$1" in --build) mkdir -p "$2/cli"; printf "#!/bin/sh\necho table \"\$@\"\nexit %s\n" "$(cat status)" >"$2/cli/hga"; chmod +x "$2/cli/hga" ;; esac'
forget
echo 0 >status
fact what_was_installed_is_used exits 0 run
fact once equal "$(grep -c again installed)" 1

# ---- everything is there ----

forget
fact with_everything_there_nothing_is_installed exits 0 run tale.txt --tokens 12
fact and_that_is_so equal "$(grep -c again installed)" 1
fact the_tool_is_given_what_was_typed equal "$(cat out)" 'table run tale.txt --tokens 12'
closing() { tail -n 3 err | sed "s,$scratch/,,g"; }
fact three_lines_say_where_things_are equal "$(closing | cut -d: -f1 | tr '\n' ' ')" 'The report The tool Next '
run --report=page.html
fact the_reports_name_is_told shows err 'The report: page.html'
run --report other.html
fact in_either_spelling shows err 'The report: other.html'
for option in --no-report --dry-run; do
    run $option
    fact with_${option#--}_there_is_no_report lacks err '^The report'
done
echo 3 >status
forget
fact the_tools_exit_status_is_its_own exits 3 run missing.txt
: >file
fact a_folder_that_cannot_be_made_ends_with_4 exits 4 env -i PATH="$scratch/bare" BUILD="$scratch/file/built" ./house/run.sh

facts_end
