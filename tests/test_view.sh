#!/bin/bash
# The page of `hga view` and the report of `hga run`: test_view.sh HGA NPY JSON FOLDER, FOLDER being where browser.py, view_check.js, report_check.js and beside_check.js lie.
# What a file can show is always checked; what only a browser can show needs chromium, and is skipped with a message where there is none.
set -u
hga=$1 npy=$2 json=$3 folder=$4
. "$(dirname "$0")/facts.sh"

# Every tag that was opened is closed again, in order: well_formed FILE. What is inside <script> and <style> is not markup.
well_formed() {
    awk '
        { text = text $0 "\n" }
        END {
            split("area base br col hr img input link meta source wbr", names, " ")
            for (i in names) empty[names[i]] = 1
            while (match(text, /<[^<>]*>/)) {
                tag = substr(text, RSTART + 1, RLENGTH - 2)
                text = substr(text, RSTART + RLENGTH)
                if (tag ~ /^!/) continue
                name = tag
                sub(/[ \n\/].*/, "", name)
                if (tag ~ /^\//) {
                    name = substr(tag, 2)
                    if (open[depth] != name) { print "</" name "> where <" open[depth] "> is open"; exit 1 }
                    depth--
                } else if (!(name in empty) && tag !~ /\/$/) open[++depth] = name
                if (name == "script" || name == "style") {
                    at = index(text, "</" name ">")
                    if (tag !~ /^\//) text = substr(text, at)
                }
            }
            if (depth) { print "<" open[depth] "> is not closed"; exit 1 }
        }' "$1"
}
self_contained() { lacks "$1" "(src|href)=[\"'](http|//|file)|url\\([\"']?(http|//)|@import|fetch\\(|XMLHttpRequest|WebSocket"; }
data_of() { sed -n '/<script type="application\/json"/,/<\/script>/p' "$1" | sed '1d;$d'; }
edges_of() { "$npy" print "$1" | tail -n +2 | awk '{ printf("%s[%d,%d,%d]", (NR > 1 ? "," : "["), $1, $2, $3) } END { print "]" }'; }

# ---- graphs: name | edges of how many | reach facts | words of `hga build` ----

"$npy" make leaf.npy i4 40 0,1,2,3,1,1,2 || exit 1
"$npy" make parent.npy i4 31 20,20,20,21,21,22,22,22,22,23,24,24,24,25,26,26,26,26,26,26,27,27,28,28,29,29,29,30,30,30,-1 || exit 1
cat >graphs <<'END'
bpt|all|[[3,1,48],[40,1,48]]|bpt --tokens 48 -p k=2
window|all|[[20,1,6],[20,2,11],[0,1,3]]|window --tokens 40 -p left=3 -p right=2
htransformer|all|[[5,1,45]]|htransformer --tokens 45 -p block=4
causal|all|[[0,1,1],[20,1,21]]|htransformer --tokens 45 -p block=4 -p causal=1
hsa|all|[[7,1,19],[7,2,20]]|hsa -p parent=@parent.npy
fine|scattered|[[0,1,6],[0,2,6],[1,1,17]]|treeformer-fine --tokens 40 -p query-leaf=@leaf.npy
million|none|[[500000,1,1000000]]|bpt --tokens 1000000 -p k=4
END
number() { "$json" "$@"; }
has_names() { # DATA NAME ..
    local data=$1 name
    shift
    for name; do grep -qF "\"$name\"" "$data" || { echo "$name is not among the names"; return 1; }; done
}

while IFS='|' read -r name listed reach words; do
    # shellcheck disable=SC2086 # words
    fact build_$name silent "$hga" build $words -o $name.json
    fact view_$name silent "$hga" view $name.json -o $name.html
    fact ${name}_is_well_formed well_formed $name.html
    fact ${name}_needs_no_network self_contained $name.html
    data_of $name.html >$name.data
    fact ${name}_holds_json "$json" $name.data schema
    fact ${name}_has_the_relations_blocks equal "$(number $name.data relations 0 n_blocks)" "$(number $name.json relations 0 blocks)"
    fact ${name}_has_the_levels equal "$(number $name.data levels 0)" "$(number $name.json levels 0)"
    edges=null scattered=false
    # shellcheck disable=SC2086
    if [ "$listed" != none ]; then
        "$hga" build $words -o $name.npy
        edges=$(edges_of $name.npy)
        fact ${name}_tells_how_many_edges_there_are equal "$(number $name.data relations 0 n_edges)" "$("$npy" print $name.npy | tail -n +2 | wc -l)"
    fi
    [ "$listed" = scattered ] && scattered=true
    n_edges=$(number $name.data relations 0 n_edges)
    echo "const expected = {relation: 0, scattered: $scattered, n_edges: $n_edges, reach: $reach, edges: $edges};" >$name.expected
done <graphs
fact a_million_tokens_take_little_room below "$(wc -c <million.html)" 200000

# ---- explicit edges: as a person writes them; a name that would end the script ----

cat >'own <script>&.json' <<'END'
{"format": "hga-graph", "schema": 4, "levels": [4, 2], "names": [[0, "a <b> & \"c\""], [4, "above"]], "kinds": [[0, 2, "te<xt"], [4, 1, "part"]], "families": [[4, 0, 4, 2]],
 "relations": [{"name": "</script><b>", "edges": [[0, 1, 2, 0.5], [1, 0], [5, 0], [2, 3], [3, 3]]},
               {"name": "second", "blocks": [{"dst": 0, "n_dst": 2, "src": 2, "n_src": 2}]}]}
END
fact a_graph_without_a_program silent "$hga" view 'own <script>&.json' -o own.html
fact names_are_escaped well_formed own.html
fact the_title_is_the_files_name shows own.html '<title>own &lt;script&gt;&amp;.json - hga view</title>'
mkdir deep
cp window.json deep/
fact a_file_in_a_folder silent "$hga" view deep/window.json -o deep/window.html
fact is_called_by_its_name shows deep/window.html '<title>window.json - hga view</title>'
data_of own.html >own.data
fact names_come_back equal "$("$json" own.data relations 0 name)" '</script><b>'
fact kinds_are_there equal "$("$json" own.data kinds names 0)" 'te<xt'
fact with_colours_of_their_own equal "$("$json" own.data kinds colours 1)" '#e0812b'
fact a_name_of_a_node_is_there equal "$("$json" own.data names text 0)" 'a <b> & "c"'
fact explicit_edges_are_there equal "$("$json" own.data relations 0 explicit src)" 5
fact a_weight_is_there equal "$("$json" own.data relations 0 n_explicit)" 5
echo 'const expected = {relation: 0, n_edges: 5, reach: [], edges: [[0,1,2],[1,0,0],[5,0,0],[2,3,0],[3,3,0]], scattered: true};' >own.expected
fact too_many_explicit_edges_are_left_out silent "$hga" view 'own <script>&.json' --max-edges 4 -o capped.html
data_of capped.html >capped.data
fact and_still_counted equal "$("$json" capped.data relations 0 n_explicit)" 5
fact and_not_sent bash -c '! "$0" capped.data relations 0 explicit' "$json"

# ---- a graph without levels: edges pull its nodes together ----

cat >cliques.json <<'END'
{"format": "hga-graph", "schema": 1, "levels": [8], "relations": [{"name": "near", "edges": [[0, 2], [0, 4], [2, 4], [2, 6], [4, 6], [0, 6], [1, 3], [1, 5], [3, 5], [3, 7], [5, 7], [1, 7], [6, 1]]}], "program": "attend"}
END
fact view_cliques silent "$hga" view cliques.json -o cliques.html
"$hga" build cliques.json -o cliques.npy
echo "const expected = {relation: 0, n_edges: 13, reach: [], scattered: true, edges: $(edges_of cliques.npy), together: [[0, 2, 4, 6], [1, 3, 5, 7]]};" >cliques.expected
echo '{"format": "hga-graph", "schema": 1, "levels": [3], "relations": [{"name": "self", "edges": [[0, 0], [1, 1], [2, 2]]}], "program": "attend"}' >loops.json
fact view_loops silent "$hga" view loops.json -o loops.html
echo "const expected = {relation: 0, n_edges: 3, reach: [], scattered: true, edges: [[0, 0, 0], [1, 1, 0], [2, 2, 0]]};" >loops.expected

# ---- weights: the page's against the engine's own, which gives them where values are the identity ----

"$npy" make q.npy f4 24,2,4 random:1
"$npy" make k.npy f4 24,1,4 random:2
"$npy" make one.npy f4 24,1,24 "1$(printf ',0%.0s' $(seq 24))"
"$npy" make twenty.npy f4 20,2,4 random:1
"$npy" make many.npy f4 1200,1,4 random:1
paid() { "$npy" print "$1" | tail -n +2 | tr -s '[:space:]' '\n' | awk 'NF { printf("%s%s", (n++ ? "," : "["), $1) } END { print "]" }'; }
for words in 'dense' 'htransformer -p block=2' 'hsa -p branching=2,3'; do
    name=weighed_${words%% *}
    # shellcheck disable=SC2086 # words
    fact ${name}_by_the_engine "$hga" attend $words --query q.npy --key k.npy --value one.npy --out paid.npy
    # shellcheck disable=SC2086
    fact view_$name silent "$hga" view $words -n 24 --query q.npy --key k.npy --quiet -o $name.html
    fact ${name}_is_well_formed well_formed $name.html
    data_of $name.html >$name.data
    fact ${name}_has_both_heads equal "$("$json" $name.data weights heads)" 2
    # shellcheck disable=SC2086
    "$hga" build $words -n 24 -o $name.npy
    echo "const expected = {relation: 0, scattered: false, n_edges: $("$npy" print $name.npy | tail -n +2 | wc -l), reach: [], edges: $(edges_of $name.npy), paid: $(paid paid.npy)};" >$name.expected
done
# shellcheck disable=SC2086
fact one_head silent "$hga" view dense -n 24 --query q.npy --key k.npy --head 1 --quiet -o one.html
data_of one.html >one.data
fact one_head_is_that_head equal "$("$json" one.data weights heads 0)" 1
fact as_many_weights_as_edges equal "$("$json" one.data weights value)" 576
fact queries_without_keys refused 2 "go together" "$hga" view dense -n 24 --query q.npy -o x.html
fact a_head_without_queries refused 2 "--head" "$hga" view dense -n 24 --head 0 -o x.html
fact a_head_that_is_not_there refused 2 "heads 0 .. 1" "$hga" view dense -n 24 --query q.npy --key k.npy --head 2 --quiet -o x.html
fact too_few_queries refused 3 "(20, 2, 4)" "$hga" view dense -n 24 --query twenty.npy --key k.npy -o x.html
fact more_weights_than_a_page_holds refused 2 "1440000 edges of 1200 tokens" "$hga" view dense -n 1200 --query many.npy --key many.npy --quiet -o x.html
fact weights_without_a_program refused 3 "no program" "$hga" view 'own <script>&.json' --query q.npy --key k.npy -o x.html

# ---- headings and words on the axes; a folder ----

printf '# One\n\n%s\n\n# Two\n\n%s\n\n## Below\n\n%s\n' "$(seq -s ' ' 40)" "$(seq -s ' ' 30)" "$(seq -s ' ' 50)" >headed.md
fact view_of_markdown silent "$hga" view headed.md -o headed.html
seq 1 40 | sed 's/^/word/' >words.txt
fact view_with_words silent "$hga" view window.json --words words.txt -o words.html
mkdir -p folder/deep/deeper folder/empty
touch folder/b.txt folder/a.txt folder/deep/c.txt folder/deep/deeper/d.txt folder/deep/deeper/e.txt
ln -s a.txt folder/link
fact a_folder silent "$hga" view folder -o folder.html
data_of folder.html >folder.data
fact its_files_are_the_tokens equal "$("$json" folder.data levels 0)" 6
fact in_the_order_of_their_names equal "$(for i in 0 1 2 3 4 5; do "$json" folder.data names text $i; done | xargs)" 'a.txt b.txt c.txt d.txt e.txt link'
mkdir odd && touch odd/a "odd/b$(printf '\377')" && mkfifo odd/pipe
fact names_that_are_no_text_are_mended silent "$hga" view odd -o odd.html
data_of odd.html >odd.data
fact and_pipes_are_files_as_in_python equal "$(for i in 0 1 2; do "$json" odd.data names text $i; done | xargs)" 'a b? pipe'
fact folders_stand_above_them has_names folder.data folder deep deeper
fact the_same_folder_is_inspected shows <("$hga" inspect folder/) '6 query tokens'
fact a_folder_without_files refused 3 "folder/empty: has no files" "$hga" view folder/empty -o x.html

# ---- wrong use ----

fact no_graph refused 2 GRAPH "$hga" view -o x.html
mkdir unnamed
fact without_o_the_page_is_view_html bash -c 'cd unnamed && "$0" view ../window.json && cmp view.html ../window.html' "$hga"
cp bpt.html unnamed/page.html
fact a_page_does_not_replace_what_it_shows refused 2 "page.html: is what is to be viewed" bash -c 'cd unnamed && "$0" view page.html -o page.html' "$hga"
fact no_file refused 3 missing.json "$hga" view missing.json -o x.html
echo '{"format": "hga-graph"' >half.json
fact half_a_file refused 3 half.json "$hga" view half.json -o x.html
fact a_folder_that_is_not_there refused 4 nowhere/x.html "$hga" view window.json -o nowhere/x.html
fact a_negative_number_of_edges refused 2 --max-edges "$hga" view window.json --max-edges -1 -o x.html
fact a_pipe bash -c 'set -o pipefail; "$0" view - -o - <window.json | tail -1 | grep -q "</html>"' "$hga"

fact two_hierarchies_are_one_page exits 0 "$hga" view window.json --beside window.json -o both.html
fact each_in_a_frame equal "$(grep -c '<iframe name="[a-z]*" title=' both.html)" 2
fact a_second_that_is_missing refused 3 missing.json "$hga" view window.json --beside missing.json -o x.html

# ---- the report ----

cat >'tale <1>.txt' <<'END'
CHAPTER I

It was late. Nobody came, or so it <b>seemed</b> & was said.

Then somebody did.

CHAPTER II

He knocked. Twice! And once more, for the door was thick.
END
mkdir here
fact a_run_writes_its_report_to_the_current_folder bash -c 'cd here && "$0" run "../tale <1>.txt" >table && test -s report.html' "$hga"
fact the_report_is_all_it_writes equal "$(ls here | tr '\n' ' ')" 'report.html table '
fact the_report_is_well_formed well_formed here/report.html
fact the_report_needs_no_network self_contained here/report.html
sed '/<script/,/<\/script>/d' here/report.html >here/bare.html
fact without_its_script_the_report_has_table_charts_and_patterns sh -c 'for want in "<tbody>" "hga chart" "error: relative L2" "class=\"pattern\"" "exactly once"; do grep -q -- "$want" here/bare.html || exit 1; done'
rm here/bare.html
# A speed is in a sentence only where neither its row nor dense attention's was disturbed.
headline='times as fast as dense attention on these'
calm() { # how many rows of the table have an undisturbed time over an undisturbed dense one
    awk '$1 == "dense" && !/!$/ { calm[/causal=1/] = 1 } NR > 3 && NF && $1 != "!" && $1 != "dense" && !/!$/ { n[/causal=1/]++ }
         END { print calm[0] * n[0] + calm[1] * n[1] }' here/table
}
if [ "$(calm)" -gt 0 ]; then
    fact the_report_says_what_it_found_in_a_sentence shows here/report.html "$headline"
else
    fact of_disturbed_rows_alone_the_report_has_no_headline bash -c '! grep -q "$1" here/report.html && grep -q "no speed is worth a headline" here/report.html' sh "$headline"
fi
fact the_report_tells_coverage_in_words shows here/report.html '<p>Every pair of words exactly once; words see later ones.</p>'
fact the_report_has_the_texts_words shows here/report.html '"somebody"'
fact the_report_names_the_text shows here/report.html 'tale &lt;1&gt;.txt'
for name in $(awk 'NR > 2 && NF && $1 != "!" { print $1 }' here/table | sed 1d | sort -u); do fact the_report_has_$name shows here/report.html ">$name</a>"; done
rows=$(awk 'NR > 3 && NF && $1 != "!"' here/table | wc -l)
fact the_report_has_all_rows equal "$(grep -cE '^<tr( class="disturbed")?><td' here/report.html)" "$rows"
fact each_variant_has_two_pictures equal "$(grep -c '<svg class="pattern"' here/report.html)" $((2 * rows))
fact each_variant_has_its_viewer equal "$(grep -c '^<script type="application/json" id="view[0-9]*">{' here/report.html)" "$rows"
fact a_link_leads_there_when_there_are_scripts equal "$(grep -c '<a class="look" href="#view=[0-9]*" hidden>' here/report.html)" "$rows"
fact each_variant_has_its_plan equal "$(grep -c '<summary>The plan</summary>' here/report.html)" "$rows"
fact all_three_charts_are_there equal "$(grep -c ' class="hga chart"' here/report.html)" 3
fact no_number_is_wrong lacks here/report.html '[^a-z](nan|inf)[^a-z]'
fact the_report_tells_the_version shows here/report.html "hga $("$json" <("$hga" --version --json) version)"
mv here/report.html report.html
fact a_report_elsewhere bash -c 'cd here && "$0" run "../tale <1>.txt" --report other.html >table && test -s other.html -a ! -e report.html' "$hga"
fact no_report bash -c 'cd here && "$0" run "../tale <1>.txt" --no-report >table && ! test -e report.html' "$hga"
fact a_report_that_has_no_place refused 4 nowhere/r.html "$hga" run 'tale <1>.txt' --report nowhere/r.html
fact a_report_on_standard_output refused 2 --report "$hga" run 'tale <1>.txt' --report -

# ---- in the browser: all pages in one, each with its checks; every line that the driver says is a fact ----

{
    for name in bpt window htransformer causal hsa fine million own cliques loops weighed_dense weighed_htransformer weighed_hsa; do
        echo "$name|$name.html|$folder/view_check.js|$name.expected"
    done
    echo "both|both.html|$folder/beside_check.js"
    echo "report|report.html|$folder/report_check.js"
    echo "capped|capped.html|capped_check.js"
    for name in headed words; do echo "$name|$name.html|axes_check.js|$name.expected"; done
} >jobs
echo 'const expected = ["One", "Two", "Below"], absent = ["4 "];' >headed.expected
echo 'const expected = ["word7", "word39"], absent = [];' >words.expected
cat >axes_check.js <<'END'
{
  const drawn = new DOMParser().parseFromString(window.hga.svg(), "image/svg+xml"), texts = [...drawn.querySelectorAll("text")].map((e) => e.textContent);
  const lines = [];
  const fact = (name, holds, detail) => lines.push(holds ? `true ${name}` : `FALSE ${name}: ${JSON.stringify(detail)}`);
  for (const want of ["attends", "is attended"]) fact(`an_axis_is_called_${want.replace(" ", "_")}`, texts.filter((t) => t === want).length === 1, texts);
  for (const want of expected) fact(`both_axes_have_${want}`, texts.filter((t) => t === want).length === 2, texts);
  for (const not of absent) fact(`no_number_stands_there`, !texts.some((t) => t.startsWith(not)), texts);
  document.body.insertAdjacentHTML("beforeend", `<pre id="verdict"></pre>`);
  document.getElementById("verdict").textContent = lines.join("\n") + "\nend\n";
}
END
cat >capped_check.js <<'END'
document.body.insertAdjacentHTML("beforeend", `<pre id="verdict">${document.body.textContent.includes("too many for a page") ? "true " : "FALSE "} says_so\nend\n</pre>`);
END
in_browser jobs

facts_end
