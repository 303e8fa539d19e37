#!/bin/bash
# The documents are true: test_docs.sh HGA SOURCE MAN
# MAN is a folder of the made manual pages. Links resolve, commands run, programs compile and run, parameters and options are those of the tool. Blocks of Python are for
# python/tests/test_package_blocks.py, the site for test_site.sh.
set -u
hga=$1 source=$2 man=$3
. "$(dirname "$0")/facts.sh"
export ARGP_HELP_FMT=rmargin=100000,no-dup-args-note

# ---- links ----

# Relative links of Markdown files, as paths; code is no link.
links() {
    local page
    for page in "$source"/*.md "$source"/docs/*.md "$source"/*/README.md "$source"/bench/results/README.md; do
        awk '/^ *```/ { code = !code } !code' "$page" | sed 's/`[^`]*`//g' | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//; s/#.*//' |
            grep -vE '^(https?:|mailto:|$)' | sed "s,^,$(dirname "$page")/,"
    done
}
links | sort -u >links
while read -r path; do [ -e "$path" ] || echo "$path"; done <links >broken
there_are_links() { [ "$(wc -l <links)" -gt 20 ]; }
fact there_are_links there_are_links
fact every_link_leads_somewhere empty broken
(cd "$source/docs" && ls ./*.md) | sed 's,^\./,,' | grep -v README >pages
grep -oE '\]\([a-z-]+\.md\)' "$source/docs/README.md" | sed 's/^](//; s/)//' >named
fact the_index_names_every_page missing pages named
# Each dated run and study is in the index of results, and what is named there is there.
results=$source/bench/results
(cd "$results" && find . -type f ! -name README.md | sed 's,^\./,,') >results
grep -oE '\]\([^)]+\)' "$results/README.md" | sed 's/^](//; s/)$//' | grep -v '^\.\./' >studies
echo make.sh >>studies
there_are_studies() { [ "$(wc -l <results)" -gt 40 ]; }
fact there_are_studies there_are_studies
fact the_index_of_results_names_every_file missing results studies
fact and_no_other missing studies results
# Every set of kernels is named wherever sets are listed.
grep -ohE '\.isa = "[a-z0-9]+"' "$source"/kernels/isa_*.c | grep -oE '[a-z0-9]+"' | tr -d '"' | sort >sets
there_are_sets() { [ "$(wc -l <sets)" -ge 6 ]; }
fact there_are_sets there_are_sets
sed -n '/hga_id threads;/,/const char \*isa;/p' "$source/msgpass/plan/public/hga_plan.h" >sets.header
grep '^\*\*Instruction set\.\*\*' "$source/docs/glossary.md" >sets.glossary
for command in bench run; do "$hga" help $command --all | grep -A2 -- '--isa=' >sets.$command; done
for list in sets.header sets.glossary sets.bench sets.run; do
    grep -oE '[a-z0-9]+' $list | sort -u >words
    fact "$list names every instruction set" missing sets words
done
# The engine's page names a file at every step.
grep -oE '`[a-z_]+(/[a-z_0-9]+)+\.(c|h|inc)`' "$source/docs/engine.md" | tr -d '`' | sort -u >steps
while read -r path; do [ -e "$source/$path" ] || echo "$path"; done <steps >gone
there_are_steps() { [ "$(wc -l <steps)" -gt 30 ]; }
fact the_engines_page_names_files there_are_steps
fact and_they_are_there empty gone
# A folder's page names each of its sources; what stands in for a package that is left out is named after it.
for page in graph kernels msgpass/{program,semantics,inspect,machine,plan,tiles,execute,execute/attend,gradient,ranks,decode,select} dist builders files; do
    for path in "$source/$page"/*.c "$source/$page"/*.inc; do
        name=${path##*/}
        [ ! -e "$path" ] || [[ $name == without_* ]] || [[ $name == isa_* ]] || grep -q "\b${name//./\\.}" "$source/$page/README.md" || echo "$page/$name"
    done
done >unnamed
fact folders_pages_name_their_sources empty unnamed

# ---- variants ----

"$hga" variants | awk '/^[a-z]/ { sub(/[:=].*/, ""); name = $0; next } /^  [a-z]/ { sub(/^ */, ""); sub(/=.*/, ""); print name, $0 }' >parameters
awk '{ print $1 ".md" }' parameters >wants_page
fact every_variant_has_a_page missing wants_page pages
# TC-attention's page sends the reader to TF-attention's.
while read -r variant parameter; do
    cat "$source/docs/$variant.md" "$(sed -n 's/.*with all its parameters.*/x/p' "$source/docs/$variant.md" | sed "s,x,$source/docs/treeformer-fine.md,;q" | grep . || echo /dev/null)" |
        grep -qE "^\|.*\`$parameter\`" || echo "$variant: $parameter"
done <parameters >untold
fact every_page_has_every_parameter empty untold
default_is_told() { # the defaults that the tool prints and the pages' tables agree
    "$hga" variants | awk '/^[a-z]/ { sub(/[:=].*/, ""); name = $0 } /^  [a-z].*\(default: / {
        p = $1; sub(/=.*/, "", p); d = $0; sub(/.*\(default: /, "", d); sub(/\).*/, "", d); print name, p, d }' >defaults
    [ -s defaults ] || return 1
    while read -r variant parameter default; do
        [ "$variant" = treeformer-coarse ] || grep -qE "^\|[^|]*\`$parameter\`[^|]*\| $default \|" "$source/docs/$variant.md" || echo "$variant: $parameter is $default"
    done <defaults >wrong
    empty wrong
}
fact and_its_default default_is_told

# What is for study is said to be on its variant's page, and is not on the front page.
"$hga" variants | awk '/^[a-z]/ { sub(/[:=].*/, ""); name = $0 } /is for study\)$/ { p = $1; sub(/=.*/, "", p); v = $(NF - 3); sub(/^\(/, "", v); print name, p, v }' >studied
while read -r variant parameter value; do
    grep -qE "^\|.*\`$parameter\`.*\(for study\)" "$source/docs/$variant.md" || echo "$variant: $parameter=$value"
    ! grep -q -- "$parameter=$value" "$source/README.md" || echo "README: $parameter=$value"
done <studied >not_said
fact something_is_for_study [ "$(wc -l <studied)" = 4 ]
fact and_said_to_be empty not_said

# What tests/README.md says to run is there.
sed -n "/^    what you changed/,/^\$/p" "$source/tests/README.md" | grep -oE "test_\\([^)]*\\)" | sed 's/^test_(//; s/)$//' | tr '|' '\n' >named_tests
while read -r name; do ls "$source/tests/test_$name"*.c >/dev/null 2>&1 || echo "test_$name"; done <named_tests >nowhere
fact tests_are_named [ "$(wc -l <named_tests)" -gt 60 ]
fact and_are_there empty nowhere

# ---- commands: the sh blocks of the pages, in the index's order, in one folder ----

mkdir run bin
ln -s "$hga" bin/hga
# The C blocks of a page that makes a program are its file; pkg-config speaks of the library in the build folder.
awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$source/docs/adding-a-variant.md" >run/fenwick.c
library=$(dirname "$hga")/../libhga.so
cat >bin/pkg-config <<END
#!/bin/sh
echo $(for folder in "$source"/graph/base "$source"/*/public "$source"/msgpass/*/public; do echo "-I$folder"; done | tr '\n' ' ') "$library" -Wl,-rpath,$(dirname "$library") $(ldd "$library" | grep -q libasan && echo -fsanitize=address,undefined)
END
chmod +x bin/pkg-config
# A C block that has a main is a program: it compiles as pasted, without a warning, and runs. programs PAGE writes PAGE-1.c, ..
programs() { awk -v name="$(basename "$1" .md)" '/^```c$/ { on = 1; text = ""; next } /^```/ { if (on && text ~ /int main\(/) printf "%s", text >(name "-" ++n ".c"); on = 0 } on { text = text $0 "\n" }' "$1"; }
mkdir programs
for page in "$source/README.md" "$source"/docs/*.md; do [ "$page" = "$source/docs/adding-a-variant.md" ] || (cd programs && programs "$page"); done
compiles_and_runs() { # its status is the program's
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror "programs/$1.c" $(bin/pkg-config --cflags --libs hga) -lm -o "programs/$1" && "programs/$1"
}
# .. and so does the one in hga.h, which is read in ten minutes and names nothing that the other headers do not have.
first=$source/builders/public/hga.h
sed -n '/^ *#include <hga.h>$/,/^       }$/s/^       //p' "$first" >programs/hga_h.c
ls "$source"/graph/base/hga*.h "$source"/{graph,msgpass/*,builders,dist,files}/public/*.h | grep -v /hga.h >others
grep -oE '\bhga_[a-z_]+\b' "$first" | sort -u | while read -r name; do xargs grep -qwh "$name" <others || echo "$name"; done >unknown
fact hga_h_has_250_lines_at_most [ "$(wc -l <"$first")" -le 250 ]
fact and_names_what_is_there empty unknown
there_are_programs() { [ "$(ls programs/howto-c-*.c | wc -l)" -gt 10 ] && [ -e programs/c-1.c ] && grep -q 'int main' programs/hga_h.c; }
fact there_are_programs there_are_programs
for program in programs/*.c; do fact "the_program_${program//[^A-Za-z0-9]/_}_compiles_as_pasted_and_runs" compiles_and_runs "$(basename "$program" .c)"; done
# What is code says which: something runs blocks of each of these, but for `text`, which is shown only.
awk 'FNR == 1 { on = 0 } /^ *```/ { if (!on && $0 !~ /^ *```(sh|c|python|json|text)$/) print FILENAME ":" FNR ": " $0; on = !on; next }
     !on && /^    / && last == "" { print FILENAME ":" FNR ": code by indentation" } { last = $0 }' "$source"/docs/*.md >unnamed
fact every_block_of_code_names_its_language empty unnamed
commands() { awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$1"; }
runs() { (cd run && commands "$source/docs/$1" >"../$1.sh" && PATH=$scratch/bin:$PATH bash -eu "../$1.sh"); }
# README's second block is of the tool; the first one builds.
readme() { (cd run && awk '/^## From the shell/ { found = 1 } found && /^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$source/README.md" >../readme.sh && [ "$(wc -l <../readme.sh)" -ge 5 ] && PATH=$scratch/bin:$PATH bash -eu ../readme.sh); }
fact the_commands_of_the_front_page_run readme
for page in README.md $(awk '!seen[$0]++' named); do
    if grep -q '^```sh$' "$source/docs/$page"; then fact "the_commands_of_${page}_run" runs "$page"; fi
done
every_variant_is_drawn() { for page in $(sort -u wants_page); do commands "$source/docs/$page" | grep -q 'hga export .*\.svg' || { echo "$page"; return 1; }; done; }
fact every_variants_page_draws_it every_variant_is_drawn
# What an issue is asked for, the tool prints.
for template in "$source"/.github/ISSUE_TEMPLATE/*.md; do commands "$template" | grep '^hga ' | sed "s,^,$(basename "$template" .md) ,"; done >asked
both_ask() { [ "$(cut -d' ' -f1 asked | sort -u | paste -sd' ')" = "bug question" ]; }
fact both_kinds_of_issue_ask_the_tool both_ask
asked_for() { while read -r _ command; do PATH=$scratch/bin:$PATH $command >answer && [ -s answer ] || { echo "$command"; return 1; }; done <asked; }
fact and_it_answers asked_for
awk '/^```json$/ { on = 1; next } /^```/ { on = 0 } on' "$source/docs/formats.md" >example.json
checks() { "$hga" check example.json && "$hga" explain graph=example.json; }
fact the_example_of_the_format_is_a_graph checks
# What the readers accept, by their own lists of members.
sed -n '/_members\[\]/{:more;/;/!{N;b more};p}' "$source"/graph/*json*.c "$source"/msgpass/program/json.c | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u >members
grep -oE '`[a-z_]+`' "$source/docs/formats.md" | tr -d '`' | sort -u >told
there_are_members() { [ "$(wc -l <members)" -gt 25 ]; }
fact the_readers_have_members there_are_members
fact the_format_tells_every_member missing members told

# ---- manual pages ----

mkdir pages.d
for page in "$man"/*.1.gz; do gzip -dc "$page" >"pages.d/$(basename "$page" .gz)"; done
"$hga" help --all | awk '/^  [a-z]/ { print "hga-" $1 ".1" } END { print "hga.1" }' >wants_manual
ls pages.d >manuals
fact every_subcommand_has_a_manual_page missing wants_manual manuals
fact and_no_page_is_too_much missing manuals wants_manual
words() { sed 's/^\.SS "\(.*\)"$/\1/; s/\\-/-/g; s/\\f[A-Z]//g; s/\\&//g; s/\\e/\\/g' "$1" | tr -s ' \n' '\n'; }
while read -r page; do
    name=${page%.1} name=${name#hga} name=${name#-}
    [ -n "$name" ] || continue
    words "pages.d/$page" >page_words
    "$hga" help "$name" --all | sed 's/^Usage: //' | tr -s ' \n' '\n' | grep -vE '^(\[.*|.*\]|Usage:|hga|Variants|and|their|parameters:|)$' | sed 's/:$//' | sort -u >help_words
    sed 's/:$//' page_words | sort -u >page_set
    comm -23 help_words page_set | sed "s/^/$name: /"
done <wants_manual >unsaid
fact manual_pages_say_all_that_help_says empty unsaid
examples() { sed 's/\\-/-/g' pages.d/*.1 | awk '/^\.EX/ { on = 1; next } /^\.EE/ { on = 0 } on' >examples.sh && [ "$(wc -l <examples.sh)" -gt 5 ] && (cd run && PATH=$scratch/bin:$PATH bash -euo pipefail ../examples.sh); }
fact their_examples_run examples
# Section 3: a page a header, and one a function.
for page in "$man"/*.3.gz; do gzip -dc "$page" >"pages.d/$(basename "$page" .gz)"; done
cat "$source"/graph/base/hga*.h "$source"/*/public/*.h "$source"/msgpass/*/public/*.h | sed -n 's/^HGA_API .*[ *]\(hga_[a-z0-9_]*\)(.*/\1/p' | sort -u >functions
there_are_functions() { [ "$(wc -l <functions)" -gt 100 ]; }
fact there_are_functions there_are_functions
section() { awk -v name="$2" '/^\.SH/ { on = $0 == ".SH " name || $0 == ".SH \"" name "\""; next } on' "pages.d/$1.3"; }
while read -r function; do
    [ -s "pages.d/$function.3" ] || { echo "$function has no page"; continue; }
    section "$function" SYNOPSIS | grep -qE "^[^.].*[ *]$function\(" || echo "the page of $function does not declare it"
    for name in DESCRIPTION ARGUMENTS "RETURN VALUE" EXAMPLE; do section "$function" "$name" | grep -q '^[^.]' || echo "the page of $function has no $name"; done
    section "$function" EXAMPLE | grep -q "$function(" || echo "the example of $function does not call it"
done <functions >lacking
fact every_functions_page_says_what_it_does_takes_and_returns_with_an_example empty lacking
for name in DESCRIPTION NAME; do
    while read -r function; do section "$function" "$name" | tr -s ' \n' ' ' | sed "s/^$function .- //"; echo; done <functions | sort | uniq -d
done | grep . >shared
fact no_two_functions_have_one_description empty shared
# What the README counts, and what the index of the C reference names.
(cd "$source/docs/site" && PYTHONDONTWRITEBYTECODE=1 python3 -c 'import c_pages
print(*(name for _, _, names in c_pages.PARTS for name in names), sep="\n")') >parts
fact the_parts_of_the_c_reference_name_functions missing parts functions
fact and_each_once empty <(sort parts | uniq -d)
counts() {
    local numbers
    numbers=$(cd "$source/docs/site" && PYTHONDONTWRITEBYTECODE=1 python3 -c 'import c_pages; print(*(f"{len(names)} {word}" for (_, _, names), word in zip(c_pages.PARTS, ("run a published hierarchy and", "make one of your own"))))')
    shows "$source/README.md" "Of $(wc -l <functions) functions $numbers" && shows "$source/README.md" "the parameters of all $(grep -vc '^graph$' <(cut -d' ' -f1 parameters | sort -u)) hierarchies"
}
fact the_readme_counts_functions_and_variants counts
rm -f $(grep -l '^\.so' pages.d/*.3)
if command -v mandoc >/dev/null; then
    lint() { mandoc -T lint -W warning pages.d/*.[13]; }
    fact mandoc_has_nothing_against_them lint
fi

facts_end
