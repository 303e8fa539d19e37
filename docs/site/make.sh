#!/bin/sh
# The site: make.sh HGA SOURCE PYTHONPATH FOLDER writes FOLDER/html, from the pages of docs/, the tool's help, the public headers and the docstrings.
# HGA_SITE_VERSIONS="0.4.0 0.3.0" names the versions whose sites stand in folders beside FOLDER/html, this one among them: every page leads to them.
# It says which Debian packages it needs and misses. What Sphinx warns of ends it.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
hga=$1 source=$2 packages=$3 out=$4
here=$source/docs/site
missing=$(command -v doxygen >/dev/null || echo doxygen)
while read -r module package; do python3 -c "import $module" 2>/dev/null || missing="$missing $package"; done <<END
sphinx python3-sphinx
myst_parser python3-myst-parser
sphinx_copybutton python3-sphinx-copybutton
furo furo
numpy python3-numpy
cffi python3-cffi
END
[ -z "$missing" ] || { echo "the site needs what is not installed: apt-get install ${missing# }" >&2; exit 4; }
HGA_VERSION=$("$hga" --version --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')
HGA_COMMIT=$("$hga" --version --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["commit"])')
export HGA_VERSION HGA_COMMIT PYTHONDONTWRITEBYTECODE=1 OMP_WAIT_POLICY=passive
rm -rf "$out/pages" "$out/xml" "$out/html"
mkdir -p "$out/pages/static" "$out/pages/live" "$out/pages/templates" "$out/xml"

# The headers, as Doxygen reads them.
headers=$(echo "$source"/graph/base/hga_base.h "$source"/*/public/hga*.h "$source"/msgpass/*/public/hga*.h)
HGA_SITE_XML=$out/xml HGA_SITE_SOURCE=$source HGA_SITE_HEADERS=$headers doxygen -q "$here/Doxyfile"
# shellcheck disable=SC2086 # names
sh "$source/docs/man/examples.sh" $headers >"$out/xml/examples.txt"
python3 "$here/c_pages.py" "$source" "$out/xml/xml" "$out/xml/examples.txt" "$out/pages/c"
PYTHONPATH=$packages:$source/docs python3 "$here/python_pages.py" "$source" "$out/pages/python-reference"
python3 "$here/tool_pages.py" "$hga" "$source" "$out/pages/tool"
# Live pages are files of the site; the pictures beside them are of the page that shows them.
PYTHONPATH=$packages sh "$source/docs/gallery.sh" "$hga" "$source" "$out/pages/live"
mv "$out/pages/live/gallery.md" "$out/pages/gallery.md"
python3 "$here/pages.py" "$source" "$out/pages"
cp "$here/conf.py" "$out/pages/conf.py"
cp "$here/versions.html" "$out/pages/templates/versions.html"
cp "$here/site.css" "$out/pages/static/site.css"
status=0
python3 -m sphinx -q -E -b html -W --keep-going -d "$out/doctrees" "$out/pages" "$out/html" || status=$?
python3 "$here/furo.py" "$out/html/_static"
exit $status
