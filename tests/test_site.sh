#!/bin/bash
# The site of `docs`: test_site.sh HGA SOURCE PYTHONPATH. It is made without a warning; every page, function, picture and link is there; what it draws is drawn.
set -u
hga=$1 source=$2 packages=$3
. "$(dirname "$0")/facts.sh"
for program in doxygen sphinx-build; do
    command -v "$program" >/dev/null || { echo "skipped: the site, since $program is not installed"; exit 77; }
done
python3 -c 'import furo, myst_parser, sphinx_copybutton, numpy' 2>/dev/null || { echo "skipped: the site, since furo, myst_parser, sphinx_copybutton or numpy is not installed"; exit 77; }

# As where an older version's site stands beside this one.
version=$("$hga" --version --json | sed -n 's/.*"version": "\(.*\)".*/\1/p')
mkdir -p site/0.0.1 && echo older >site/0.0.1/index.html
export HGA_SITE_VERSIONS="$version 0.0.1"
fact the_site_is_made_without_a_warning silent sh "$source/docs/site/make.sh" "$hga" "$source" "$packages" "$scratch/site"
html=$scratch/site/html
# Modules that cannot be imported are named by their packages, before anything is written.
mkdir hidden && for module in furo myst_parser; do echo 'raise ImportError' >hidden/$module.py; done
without() { PYTHONPATH=hidden exits 4 sh "$source/docs/site/make.sh" "$hga" "$source" "$packages" "$scratch/none" 2>stderr && shows stderr "apt-get install python3-myst-parser furo" && [ ! -e none ]; }
fact what_the_site_misses_is_named without

# Plain names may speak for themselves in structs, enumerations and opaque types; functions may not.
grep -vE 'warning: (Compound|Member) .*(\((variable|enumeration value|enumeration|typedef|macro definition)\) of .*)?is not documented' site/xml/warnings.txt >other
grep -E '\(function\).*is not documented' site/xml/warnings.txt >>other
fact every_public_function_is_documented_without_warnings empty other

# ---- what is there ----

fact the_readme_comes_first shows "$html/index.html" 'hierarchical graph attention'
fact pages_show_the_version shows "$html/python.html" "hga $version"
fact and_lead_to_the_versions_beside_them shows "$html/c/hga_plan_create.html" 'href="../../0.0.1/index.html"'
fact which_are_there test -e "$html/../0.0.1/index.html"
(cd "$source/docs" && ls ./*.md) | sed 's,^\./,,; s/md$/html/' | grep -vE '^(README|python-reference)\.' >wants_html
(cd "$html" && find . -name '*.html') | sed 's,^\./,,' | sort >pages
fact every_page_is_in_the_site missing wants_html pages
cat "$source"/graph/base/hga*.h "$source"/*/public/*.h "$source"/msgpass/*/public/*.h | sed -n 's/^HGA_API .*[ *]\(hga_[a-z0-9_]*\)(.*/c\/\1.html/p' | sort -u >wants_c
there_are() { [ "$(wc -l <"$1")" -gt "$2" ] || { wc -l "$1"; false; }; }
fact there_are_functions there_are wants_c 100
fact every_public_function_has_a_page missing wants_c pages
has_examples() { for page in hga_build hga_builder_add_level hga_plan_create hga_halo; do grep -q '<h2>Example' "$html/c/$page.html" && grep -q "$page" <(sed -n '/<h2>Example/,/<\/pre>/p' "$html/c/$page.html") || { echo "$page has no example"; return 1; }; done; }
fact and_an_example has_examples
# What to read first, what next, and everything by header.
sed -n 's/^## \(.*\)/\1/p' site/pages/c/index.md >c_parts
fact the_c_reference_has_three_parts equal "$(tr '\n' '|' <c_parts)" 'Run a published hierarchy|A hierarchy of your own|Everything|'
PYTHONPATH=$packages python3 -c 'import hga, inspect
print(*(f"python-reference/hga.{name.replace(chr(45), chr(95))}.html" for name in hga.variants()), sep="\n")
print(*(f"python-reference/hga.Hierarchy.{name}.html" for name, f in vars(hga.Hierarchy).items() if inspect.isfunction(f) and name[0] != "_"), sep="\n")' >wants_python
fact there_are_functions_of_python there_are wants_python 20
fact every_function_of_python_has_a_page missing wants_python pages
"$hga" help --all | sed -n 's/^  \([a-z][a-z-]*\) .*/tool\/hga-\1.html/p' >wants_tool
fact every_subcommand_has_a_page missing wants_tool pages
same_number() { equal "$(ls "$html"/view-*.html | wc -l)" "$(grep -c '^## ' site/pages/gallery.md)"; }
fact every_hierarchy_of_the_gallery_has_a_live_page same_number

# ---- links: every file, and every place in it, of every page of ours ----

python3 - "$html" <<'END' >broken
import pathlib, re, sys, urllib.parse

root = pathlib.Path(sys.argv[1])
said = {p: p.read_text(encoding="utf-8") for p in root.rglob("*.html") if not p.name.startswith("view-")}
places = {p: set(re.findall(r'\bid="([^"]+)"', text)) for p, text in said.items()}
count = 0
for page, text in said.items():
    for link in re.findall(r'(?:href|src)="([^"]+)"', text):
        if re.match(r"[a-z]+:", link):
            continue
        count += 1
        file, _, place = urllib.parse.unquote(link).partition("#")
        to = (page.parent / file.split("?")[0]).resolve() if file else page
        if not to.exists():
            print(f"{page.name}: {link} leads nowhere")
        elif place and to in places and place not in places[to]:
            print(f"{page.name}: {link} names no place there")
if count < 1000:
    print(f"only {count} links")
END
fact every_link_and_picture_of_the_site_is_there empty broken

# ---- the_site_is_drawn: pages that show pictures, and every live page of the gallery ----

for file in "$html"/gallery.html "$html"/view-*.html $(grep -lE '<img[^>]* src="[^"]*\.(svg|png)"' "$html"/*.html); do
    echo "site_$(basename "$file" .html | tr - _)|$file"
done | sort -u >site_pages
fact the_site_has_pages_with_pictures sh -c '[ "$(grep -c "view_" site_pages)" -gt 5 ] && [ "$(grep -vc "view_" site_pages)" -gt 2 ]'
in_browser site_pages

facts_end
