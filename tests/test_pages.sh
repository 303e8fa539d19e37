#!/bin/bash
# Every page and picture that anything writes is opened in a browser: nothing on the console, nothing asked of the network, something drawn.
# test_pages.sh HGA NPY SOURCE. What is in the pages is for test_view.sh; the Python package's are opened by its own tests, the site's by test_site.sh.
set -u
hga=$1 npy=$2 source=$3
. "$(dirname "$0")/facts.sh"

# Who writes pages or pictures of its own | a page or picture that it wrote, as it is called below; or the test that opens what it writes, and its name there
writers() {
    cat <<'END'
cli/draw/view/view.html|bpt
cli/draw/view/view_svg.js|saved
cli/draw/view/beside.html|beside
cli/draw/view/report.html|report
cli/report.c|report
cli/draw/svg.c|export_bpt
bench/results/*.html|results
docs/pictures/*.svg|shown_bpt
docs/benchmarks.py|shown_benchmarks
docs/language_model.py|shown_models-smollm
docs/models.py|shown_models-characters
docs/models_recall.py|shown_models-recall
bench/compare.py|python/tests/test_package_pages.py|test_comparisons_are_of_right_results
bench/graphs.py|python/tests/test_package_pages.py|test_graphs_are_compared_by_right_results
examples/python/tutorial.ipynb|python/tests/test_package_pages.py|test_the_tutorial_runs_as_a_notebook
examples/python/rank_map.py|rank_map
examples/python/gallery.py|python/tests/test_package_pages.py|test_the_gallery_has_every_variant
python/hga/_graphs/looking.py|python/tests/test_package_pages.py|test_notebooks_draw
python/hga/_graphs/looking.py|python/tests/test_package_pages.py|test_pictures_are_drawn
docs/gallery.sh|tests/test_site.sh|the_site_is_drawn
END
}
# What begins a page, a frame or a picture, or has somebody else begin one. Comments may speak of them. What ./run.sh leaves is no source.
begins='<!doctype html|<html[ >]|<iframe |<svg[ >]|2000/svg|hga" view '
(cd "$source" && find . \( -name .git -o -path ./report.html -o -name 'build*' -o -path ./tests -o -path ./fuzz -o -path ./python/tests \) -prune -o -type f ! -name '*.md' -print |
    sed 's,^\./,,' | sort | tr '\n' '\0' | xargs -0 grep -nIiE -- "$begins" | grep -vE '^[^:]*:[0-9]+: *(/\*|//|#)' | sed 's/:.*//' | sort -u) >writing
writers | cut -d'|' -f1 >known
is_known() { # is_known FILE: it is a line of `known`, where * stands for any name
    local pattern
    while read -r pattern; do
        # shellcheck disable=SC2053 # a pattern
        [[ $1 == $pattern ]] && return
    done <known
    return 1
}
while read -r file; do is_known "$file" || echo "$file writes pages or pictures that no test opens"; done <writing >unopened
fact every_writer_has_a_test empty unopened
while read -r pattern; do
    # shellcheck disable=SC2254 # a pattern
    while read -r file; do case $file in $pattern) continue 2 ;; esac done <writing
    echo "$pattern writes nothing"
done <known >idle
fact every_writer_that_is_named_writes empty idle
while IFS='|' read -r _ test name; do [ -z "$name" ] || grep -qw -- "$name" "$source/$test" || echo "$test has no $name"; done < <(writers) >lost
fact the_tests_of_others_are_there empty lost

# ---- the pages: NAME|FILE[|CHECK|EXPECTED], opened at the end ----

: >pages
page() { # page NAME FILE COMMAND..: a command that writes FILE in silence, or as $how says
    local name=$1 file=$2
    shift 2
    fact "${name}_is_written" "${how-silent}" "$@"
    echo "$name|$file" >>pages
}

# Of a graph's file one line tells which names were understood.
tells_names() { "$@" 2>stderr && ! grep -v '^hga: [^ ]*: understood: ' stderr; }

# Variants, with all the kinds of graphs among them; a million tokens; the fewest.
"$npy" make leaf.npy i4 40 0,1,2,3,1,1,2
"$npy" make segment.npy i4 40 0,0,0,0,1,1,1,1,1,1,1,1,1,1,2,2,2,2,2,2,2,2,2,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3,3
"$npy" make choice.npy i4 1,40,3 0,5,9
"$npy" make alpha.npy f4 4 0.25
while IFS='|' read -r name words; do
    # shellcheck disable=SC2086 # words
    page $name $name.html "$hga" view $words -o $name.html
    # shellcheck disable=SC2086
    [ $name = million ] || page export_$name export_$name.svg "$hga" export $words -o export_$name.svg
done <<'END'
dense|dense -n 12
one|dense -n 1
causal|dense -n 40 -p causal=1
window|window -n 40 -p left=3 -p right=2 -p global=2
bpt|bpt -n 48 -p k=2
htransformer|htransformer -n 45 -p block=4
hsa|hsa -n 64 -p branching=4
fenwick|fenwick -n 40
dilated|dilated -n 64 -p segments=8,32 -p dilations=1,4
segments|segments -n 40 -p query-segment=@segment.npy
neighbourhood|neighbourhood -p shape=6,7 -p kernel=3 -p dilation=2,1
routed|routed -n 40 -p block=4 -p choice=@choice.npy
draft|draft -p parent=-1,0,0,1,1,2 -p prefix=20
fine|treeformer-fine -n 40 -p query-leaf=@leaf.npy -p height=3
coarse|treeformer-coarse -n 40 -p query-leaf=@leaf.npy -p height=3 -p alpha=@alpha.npy
million|bpt -n 1000000 -p k=4
END
"$hga" variants | sed -n 's/^\([a-z][a-z-]*\).*/\1/p' | sort >variants
awk -F'|' '{ print $1 }' pages | sort >opened
all_variants() { for name in $(grep -v '^graph$' variants); do grep -qE "^(${name#treeformer-})$" opened || { echo "$name"; return 1; }; done; }
fact every_variant_is_among_them all_variants

# Weights, all heads and one; words as names.
"$npy" make q.npy f4 24,2,4 random:1
"$npy" make k.npy f4 24,1,4 random:2
"$npy" make v.npy f4 24,1,4 random:3
for i in $(seq 24); do echo "word-$i"; done >words
page weights weights.html "$hga" view htransformer -p block=2 -n 24 --query q.npy --key k.npy --quiet -o weights.html
page one_head one_head.html "$hga" view dense -n 24 --query q.npy --key k.npy --head 1 --quiet -o one_head.html
page words words.html "$hga" view bpt -n 24 --words words -o words.html
page words_and_weights both_of.html "$hga" view hsa -p branching=2,3 -n 24 --words words --query q.npy --key k.npy --quiet -o both_of.html
page drawn_weights drawn_weights.svg "$hga" export htransformer -p block=2 -n 24 --query q.npy --key k.npy --quiet -o drawn_weights.svg

# Graphs of other programs, a tree of parents, documents, nodes without names and edges, a relation too large to be listed.
fact json_is_exported silent "$hga" export htransformer -n 30 -p block=3 -o graph.json
# METIS's format has no edges from a node to itself.
loops_are_left_out() { "$hga" export htransformer -n 30 -p block=3 -o graph.graph --relation near 2>stderr && shows stderr "30 edges from a node to itself are left out"; }
fact graph_is_exported loops_are_left_out
for end in json csv mtx graphml graph npy; do
    [ $end = json ] || [ $end = graph ] || fact ${end}_is_exported silent "$hga" export htransformer -n 30 -p block=3 -o graph.$end --relation near
    how=tells_names page from_$end from_$end.html "$hga" view graph.$end -o from_$end.html
done
"$npy" make parents.npy i4 7 4,4,5,5,6,6,-1
printf 'source,destination,type,weight\n0,1,0,0.5\n2,3,1,2\n5,0,0,1\n' >edges.csv
how=tells_names page parents parents.html "$hga" view edges.csv --parents parents.npy -o parents.html
printf 'graph [ directed 1 node [ id 0 ] node [ id 1 ] node [ id 2 ] edge [ source 0 target 1 ] edge [ source 2 target 1 ] ]\n' >other.gml
page from_gml from_gml.html "$hga" view other.gml -o from_gml.html
printf '<html><title>A page</title><h1>One</h1><p>Here is text. And more.<ul><li>an item</ul></html>' >other.html
page from_html from_html.html "$hga" view other.html -o from_html.html
page from_markdown from_markdown.html "$hga" view "$source/docs/README.md" -o from_markdown.html
echo '{"format": "hga-graph", "schema": 1, "levels": [9, 2], "relations": [{"name": "none", "edges": [[0, 8]]}, {"name": "more", "blocks": [{"dst": 0, "n_dst": 2, "src": 2, "n_src": 2}]}]}' >bare.json
page bare bare.html "$hga" view bare.json -o bare.html
page capped capped.html "$hga" view bare.json --max-edges 0 -o capped.html

# Two side by side, of different sizes and kinds.
page beside beside.html "$hga" view bpt -n 48 -p k=2 --beside graph.json -o beside.html
page beside_weights beside_weights.html "$hga" view dense -n 24 --query q.npy --key k.npy --quiet --beside bare.json -o beside_weights.html

# Reports, benchmarks, what is chosen, ranks.
printf 'CHAPTER I\n\nIt was late. Nobody came, or so it <b>seemed</b> & was said.\n\nThen somebody did.\n\nCHAPTER II\n\nHe knocked. Twice!\n' >tale.txt
page report report.html "$hga" run tale.txt --report report.html
tiny=(--tokens 64,128 --heads 2 --dim 8 --seconds 0.01)
page bench bench.html "$hga" bench --variants dense,bpt:k=4 --threads 1,2 --peers passes --json bench.json --report bench.html "${tiny[@]}"
page bench_again again.html "$hga" bench --from bench.json --report again.html
page bench_back back.html "$hga" bench --gradient --variants dense,hsa:branching=4 --report back.html "${tiny[@]}"
page choose choose.svg "$hga" choose --quiet --query q.npy --key k.npy --value v.npy --seconds 0 -o choose.svg
rank_map() { /usr/bin/python3 "$source/examples/python/rank_map.py" "$@" >said; }
page rank_map ranks.svg rank_map --example -o ranks.svg
page rank_map_of_tensors tensors.svg rank_map --query q.npy --key k.npy --block 3 -o tensors.svg
for file in "$source"/bench/results/*.html; do echo "results|$file" >>pages; done
for file in "$source"/docs/pictures/*.svg; do echo "shown_$(basename "$file" .svg)|$file" >>pages; done

# What the viewer's button saves is a picture, too.
cat >saved.js <<'END'
(async () => {
  const text = window.hga.svg(), image = new Image(), canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  image.src = "data:image/svg+xml," + encodeURIComponent(text);
  const loaded = await image.decode().then(() => true, () => false);
  [canvas.width, canvas.height] = [image.width, image.height];
  if (loaded) pen.drawImage(image, 0, 0);
  const shades = new Set(loaded ? new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer) : []);
  const line = (holds, name) => (holds ? "true  " : "FALSE ") + name + "\n";
  document.body.insertAdjacentHTML("beforeend", `<pre id="verdict">${line(loaded, "is_read_as_a_picture")}${line(shades.size > 8, "has_colours")}end</pre>`);
})();
END
echo "saved|bpt.html|saved.js" >>pages

writers | awk -F'|' '!$3 { print $2 }' | sort -u >wanted_pages
cut -d'|' -f1 pages | sort -u >opened
fact every_writers_page_is_opened missing wanted_pages opened
in_browser pages

facts_end
