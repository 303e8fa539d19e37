#!/bin/bash
# Exports opened by other people's programs, and pictures against counting: test_exports.sh HGA SCRIPTS
set -u
hga=$1 scripts=$2
. "$(dirname "$0")/facts.sh"
check() { python3 "$scripts/exports.py" "$@"; }

# a graph of somebody's own: types, weights, an edge twice, a self loop, ragged families, a name that XML must escape
cat >own.json <<'END'
{"format": "hga-graph", "schema": 1, "levels": [6, 2], "families": [[6, 0, 2, 2], [7, 2, 4, 4]],
 "relations": [{"name": "a<b&\"c\"", "blocks": [{"dst": 0, "n_dst": 6, "src": 6, "n_src": 2, "type": 1, "type_src": 1}],
   "edges": [[0, 1, 0, 0.5], [1, 0, 0, 2], [0, 0, 3], [5, 2, 0, 1], [5, 2, 1, 1]]}]}
END
# queries and keys apart
cat >cross.json <<'END'
{"format": "hga-graph", "schema": 1, "levels": [5, 1], "queries": [3, 2], "keys": [0, 3], "families": [[5, 0, 3, 3]], "side": [[5, 1, "key"]],
 "relations": [{"name": "near", "blocks": [{"dst": 3, "n_dst": 2, "src": 0, "n_src": 3}], "edges": [[5, 3]]}]}
END
$hga build bpt --tokens 60 -p k=2 -o bpt.json || exit 1
$hga build htransformer --tokens 50 -p block=4 -o ht.json || exit 1

for g in own cross bpt ht; do
    for suffix in npy csv mtx graphml gexf graph dot; do $hga export $g.json -o $g.$suffix || exit 1; done
    fact "networkx_igraph_scipy_and_graphviz_read_$g" check readers $g
    fact "graphchk_accepts_the_graph_file_of_$g" graphchk $g.graph
    fact "xml_of_${g}_is_well_formed" xmllint --noout $g.graphml $g.gexf
done

# kinds of tokens: a strip of their colours beside each axis, and their names
$hga build window --tokens 8 -p left=3 -p right=3 -o kinds.json || exit 1
sed -i 's/"schema": 1/"schema": 4, "kinds": [[0, 5, "text"], [5, 2, "picture"]]/' kinds.json
$hga export kinds.json -o kinds.svg && $hga export kinds.json -o kinds.png || exit 1
grep -o 'class="kind"' kinds.svg >strips
fact each_axis_has_a_strip_for_each_run_of_a_kind test "$(wc -l <strips)" = 4
fact and_kinds_are_named holds kinds.svg "picture</text>"
fact kinds.svg_is_well_formed xmllint --noout kinds.svg

# pictures
variant() { # variant NAME WORDS..: every edge covers the span of its destination x the span of its source
    local name=$1
    shift
    for suffix in json npy graphml svg png; do $hga build "$@" -o $name.$suffix || exit 1; done
    $hga build "$@" -o $name.small.png --width 360 && $hga build "$@" -o $name.small.svg --width 360 || exit 1
    fact "colours_of_${name}_are_the_counted_ones" check pictures $name
    fact "${name}.svg_is_well_formed" xmllint --noout $name.svg $name.small.svg
}
variant dense dense --tokens 30 -p causal=1
variant window window --tokens 200 -p left=7 -p right=3 -p global=2
variant bpt64 bpt --tokens 64 -p k=2
variant bpt_twice bpt --tokens 220 -p k=2 -p rule=algorithm1
variant ht64 htransformer --tokens 64 -p block=4
variant ht250 htransformer --tokens 250 -p block=4 -p causal=1
variant hsa64 hsa --tokens 64 -p branching=4,4,4
variant hsa_causal hsa --tokens 230 -p branching=3,4 -p causal=1
variant nearly_all bpt --tokens 420 -p k=8

fact pngtopnm_decodes_a_png pngtopnm bpt64.png
check tensors 40 2 4 q.npy k.npy
$hga build dense --tokens 40 -p causal=1 -o dense40.json && $hga export dense40.json -o weights.svg --query q.npy --key k.npy --head 1 || exit 1
fact weights_are_the_softmax check weights weights.svg q.npy k.npy 1
$hga export dense40.json -o mean.svg --query q.npy --key k.npy || exit 1
fact weights_without_a_head_are_the_mean check weights mean.svg q.npy k.npy -1
check tensors 300 1 4 q300.npy k300.npy
$hga build dense --tokens 300 -p causal=1 -o dense300.json && $hga export dense300.json -o cells.svg --width 400 --query q300.npy --key k300.npy || exit 1
fact weights_of_cells_are_sums check weights cells.svg q300.npy k300.npy 0
python3 - <<'END'
import json
g = json.load(open("dense40.json"))
g["words"] = ["word%d" % i for i in range(39)] + ["<last> & w\u00f6rd"]
json.dump(g, open("words.json", "w"))
g["words"][:2] = ["a\ufffeb", "\uffff"]
json.dump(g, open("odd.json", "w"))
g["words"].pop()
json.dump(g, open("short.json", "w"))
END
$hga export words.json -o words.svg && $hga export words.json -o words.png || exit 1
fact words_name_the_tokens grep -q '>word0<' words.svg
fact words_are_escaped grep -q '&lt;last&gt; &amp; w' words.svg
$hga export odd.json -o odd.svg || exit 1
fact what_xml_has_no_character_for_is_replaced grep -q $'>a\xef\xbf\xbdb<' odd.svg
fact and_painted $hga export odd.json -o odd.png
for format in graphml gexf; do fact "a_${format}_has_none_either" refused 2 "the name of node 0: XML has no character 65534" $hga export odd.json -o odd.$format; done
fact a_picture_has_a_title_and_axes grep -q 'key token' dense.svg

# words of a text
printf 'In the beginning was the Word. And the Word was with God.\n\nThe same was in the beginning with God.\n' >text.txt
$hga build hsa --text text.txt -o text.json && $hga export text.json -o text.svg && $hga build hsa --text text.txt -o direct.svg || exit 1
fact the_words_of_a_text_come_through_json grep -q '"words": \["In", "the", "beginning"' text.json
fact the_words_of_a_text_name_the_tokens grep -q '>beginning<' text.svg
fact a_text_gives_the_picture_its_words grep -q '>beginning<' direct.svg
fact hsa_keeps_the_tree_of_a_text $hga check text.json
$hga export text.json -o again.json || exit 1
fact words_survive_an_export grep -q '"words": \["In", "the", "beginning"' again.json
$hga build bpt -p k=2 --tokens 7 --text text.txt -o seven.svg || exit 1
fact a_text_is_cut_at_tokens grep -q 'data-tokens="7 7"' seven.svg
fact a_text_must_be_there refused 3 "nothing.txt" $hga build hsa --text nothing.txt -o refused.json
printf 'a\377b' >bad.txt
fact a_text_must_be_utf_8 refused 3 "bad.txt" $hga build dense --text bad.txt -o refused.json

fact a_picture_needs_a_program refused 3 "own.json: has no program" $hga export own.json -o refused.svg
fact words_must_be_as_many_as_tokens refused 3 "words: 39 for 40 tokens" $hga export short.json -o refused.png
fact query_needs_key refused 2 "--key" $hga export dense40.json -o refused.png --query q.npy
fact head_must_exist refused 2 "--head: 2" $hga export dense40.json -o refused.png --query q.npy --key k.npy --head 2
fact rows_must_fit refused 3 "has 300 rows, the graph needs 40" $hga export dense40.json -o refused.png --query q300.npy --key k300.npy
fact pictures_options_are_for_pictures refused 2 "--width" $hga export dense40.json -o refused.csv --width 500
fact a_picture_has_a_least_width refused 2 "--width" $hga export dense40.json -o refused.png --width 20
fact an_unknown_suffix_is_refused refused 2 "graphml" $hga export dense40.json -o refused.xyz
fact a_picture_shows_every_relation refused 2 "--relation" $hga export dense40.json -o refused.png --relation near
fact a_folder_that_is_not_there_is_refused refused 4 "cannot" $hga export dense40.json -o nowhere/refused.png
facts_end
