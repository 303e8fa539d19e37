#!/bin/bash
# The documents are true: test_docs.sh HGA SOURCE MAN [DOXYFILE]
# MAN is a folder of the made manual pages. Links resolve, commands run, parameters and options are those of the tool, public functions have comments.
set -u
hga=$1 source=$2 man=$3 doxyfile=${4-}
. "$(dirname "$0")/facts.sh"
export ARGP_HELP_FMT=rmargin=100000,no-dup-args-note

# ---- links ----

# Relative links of Markdown files, as paths; code is no link.
links() {
    local page
    for page in "$source"/*.md "$source"/docs/*.md "$source"/*/README.md; do
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
# The engine's page names a file at every step.
grep -oE '`[a-z_]+(/[a-z_0-9]+)+\.(c|h|inc)`' "$source/docs/engine.md" | tr -d '`' | sort -u >steps
while read -r path; do [ -e "$source/$path" ] || echo "$path"; done <steps >gone
there_are_steps() { [ "$(wc -l <steps)" -gt 30 ]; }
fact the_engines_page_names_files there_are_steps
fact and_they_are_there empty gone

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

# ---- commands: the sh blocks of the pages, in the index's order, in one folder ----

mkdir run bin
ln -s "$hga" bin/hga
# The C blocks of a page that makes a program are its file; pkg-config speaks of the library in the build folder.
awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$source/docs/adding-a-variant.md" >run/fenwick.c
awk '/^```c$/ && !seen++ { on = 1; next } /^```/ { on = 0 } on' "$source/docs/c.md" >first.c
library=$(dirname "$hga")/../libhga.so
cat >bin/pkg-config <<END
#!/bin/sh
echo $(for folder in "$source"/graph/base "$source"/*/public "$source"/msgpass/*/public; do echo "-I$folder"; done | tr '\n' ' ') "$library" -Wl,-rpath,$(dirname "$library") $(ldd "$library" | grep -q libasan && echo -fsanitize=address,undefined)
END
chmod +x bin/pkg-config
the_first_program_runs() {
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror first.c $(bin/pkg-config --cflags --libs hga) -o first && ./first | grep -q '^token 10 sees [0-9.]*, token 990 [0-9.]*$'
}
fact the_first_program_in_C_compiles_as_pasted_and_runs the_first_program_runs
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
awk '/^```json$/ { on = 1; next } /^```/ { on = 0 } on' "$source/docs/formats.md" >example.json
checks() { "$hga" check example.json && "$hga" explain graph=example.json; }
fact the_example_of_the_format_is_a_graph checks
# What the readers accept, by their own lists of members.
sed -n '/_members\[\]/,/;/p' "$source"/graph/*json*.c "$source"/msgpass/program/json.c | grep -oE '"[a-z_]+"' | tr -d '"' | sort -u >members
grep -oE '`[a-z_]+`' "$source/docs/formats.md" | tr -d '`' | sort -u >told
there_are_members() { [ "$(wc -l <members)" -gt 25 ]; }
fact the_readers_have_members there_are_members
fact the_format_tells_every_member missing members told

# ---- manual pages ----

mkdir pages.d
for page in "$man"/*.1.gz; do gzip -dc "$page" >"pages.d/$(basename "$page" .gz)"; done
"$hga" help | awk '/^  [a-z]/ { print "hga-" $1 ".1" } END { print "hga.1" }' >wants_manual
ls pages.d >manuals
fact every_subcommand_has_a_manual_page missing wants_manual manuals
fact and_no_page_is_too_much missing manuals wants_manual
words() { sed 's/^\.SS "\(.*\)"$/\1/; s/\\-/-/g; s/\\f[A-Z]//g; s/\\&//g; s/\\e/\\/g' "$1" | tr -s ' \n' '\n'; }
while read -r page; do
    name=${page%.1} name=${name#hga} name=${name#-}
    [ -n "$name" ] || continue
    words "pages.d/$page" >page_words
    "$hga" help "$name" | sed 's/^Usage: //' | tr -s ' \n' '\n' | grep -vE '^(\[.*|.*\]|Usage:|hga|Variants|and|their|parameters:|)$' | sed 's/:$//' | sort -u >help_words
    sed 's/:$//' page_words | sort -u >page_set
    comm -23 help_words page_set | sed "s/^/$name: /"
done <wants_manual >unsaid
fact manual_pages_say_all_that_help_says empty unsaid
examples() { sed 's/\\-/-/g' pages.d/*.1 | awk '/^\.EX/ { on = 1; next } /^\.EE/ { on = 0 } on' >examples.sh && [ "$(wc -l <examples.sh)" -gt 5 ] && (cd run && PATH=$scratch/bin:$PATH bash -euo pipefail ../examples.sh); }
fact their_examples_run examples
# Section 3: a page a header, and one for each function that leads there.
for page in "$man"/*.3.gz; do gzip -dc "$page" >"pages.d/$(basename "$page" .gz)"; done
cat "$source"/graph/base/hga*.h "$source"/*/public/*.h "$source"/msgpass/*/public/*.h | sed -n 's/^HGA_API .*[ *]\(hga_[a-z0-9_]*\)(.*/\1/p' | sort -u >functions
leads_to_its_declaration() {
    while read -r function; do
        [ -s "pages.d/$function.3" ] || { echo "$function has no page"; return 1; }
        page=$(sed -n 's,^\.so man3/,,p' "pages.d/$function.3")
        grep -qE "^[^.].*[ *]$function\(" "pages.d/${page:-$function.3}" || { echo "${page:-$function.3} does not declare $function"; return 1; }
    done <functions
}
there_are_functions() { [ "$(wc -l <functions)" -gt 100 ]; }
fact there_are_functions there_are_functions
fact every_functions_page_declares_it leads_to_its_declaration
rm -f $(grep -l '^\.so' pages.d/*.3)
if command -v mandoc >/dev/null; then
    lint() { mandoc -T lint -W warning pages.d/*.[13]; }
    fact mandoc_has_nothing_against_them lint
fi

# ---- the headers ----

if [ -n "$doxyfile" ]; then
    sed "s,$(dirname "$doxyfile"),$scratch/doxygen,g; s,^WARN_LOGFILE .*,WARN_LOGFILE = $scratch/warnings," "$doxyfile" >Doxyfile
    fact the_gallery_is_made silent sh "$source/docs/gallery.sh" "$hga" "$source" "$scratch/doxygen/gallery"
    doxygen -q Doxyfile >/dev/null 2>&1
    # Plain names may speak for themselves in structs, enumerations and opaque types; functions may not.
    grep -vE 'warning: (Compound|Member) .*(\((variable|enumeration value|enumeration|typedef|macro definition)\) of .*)?is not documented' warnings >other
    grep -E '\(function\).*is not documented' warnings >>other
    ran() { [ -s doxygen/html/index.html ] && [ -e warnings ]; }
    fact doxygen_runs ran
    fact every_public_function_is_documented_without_warnings empty other
    cat "$source"/graph/base/*.h "$source"/*/public/*.h "$source"/msgpass/*/public/*.h | sed -n 's/^HGA_API .*[ *]\(hga_[a-z0-9_]*\)(.*/\1/p' | sort -u >declared
    cat doxygen/html/*_8h.html | grep -oE 'hga_[a-z0-9_]+' | sort -u >shown
    # The site: every page of docs/, every picture and link of them, a live page for each hierarchy of the gallery.
    fact the_readme_comes_first shows doxygen/html/index.html 'hierarchical graph attention'
    (cd "$source/docs" && ls ./*.md) | grep -v README | sed 's,^\./,,; s/-/_/g; s/^/md_docs_/; s/md$/html/' >wants_html
    ls doxygen/html >html
    fact every_page_is_in_the_site missing wants_html html
    cat doxygen/html/index.html doxygen/html/md_*.html doxygen/html/gallery.html | grep -oE '(src|href)="[^"#:]+["#]' | sed 's/.*="//; s/["#]$//' | sort -u >leads
    leads_on() { while read -r path; do [ -e "doxygen/html/$path" ] || { echo "$path"; return 1; }; done <leads; }
    there_are_leads() { [ "$(wc -l <leads)" -gt 40 ]; }
    fact its_pages_link_and_show there_are_leads
    fact every_link_and_picture_of_the_site_is_there leads_on
    same_number() { equal "$(ls doxygen/html/view-*.html | wc -l)" "$(grep -c '^## ' doxygen/gallery/gallery.md)"; }
    fact every_hierarchy_of_the_gallery_has_a_live_page same_number
    fact its_pages_show_every_public_function missing declared shown
    # the_site_is_drawn: the pages that show pictures, and every live page of the gallery
    for file in doxygen/html/gallery.html doxygen/html/view-*.html $(grep -lE '<(img|object|iframe)[^>]* (src|data)="[^"]*\.(svg|png)"' doxygen/html/md_*.html doxygen/html/index.html); do
        echo "site_$(basename "$file" .html | tr - _)|$file"
    done >site
    fact the_site_has_pages_with_pictures sh -c '[ "$(grep -c "view_" site)" -gt 5 ] && [ "$(grep -vc "view_" site)" -gt 3 ]'
    in_browser site
else
    echo "skipped: the site, since doxygen is not installed"
fi

facts_end
