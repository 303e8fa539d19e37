#!/bin/bash
# Wrong input to the tool: test_bad_input.sh HGA NPY
# Each line of the table is: exit status | text that stderr must contain | arguments. stderr must be exactly one line, stdout empty, and no file may be left.
# Arguments are words of the shell; I is the folder of inputs made below, O the folder where nothing may appear.
# Files are cut short at every fifth byte, and in slow builds (HGA_TEST_QUICK) at every ninth.
set -u
hga=$1 npy=$2
stride=5
[ -n "${HGA_TEST_QUICK:-}" ] && stride=9
. "$(dirname "$0")/facts.sh"
mkdir I O

# wrong STATUS TEXT ARGUMENTS: the tool refuses these words of the shell
refused_words() { eval "refused \"\$1\" \"\$2\" \"\$hga\" $3"; }
wrong() { fact "hga $3" refused_words "$@"; }

# ---- inputs ----

while read -r file dtype shape values; do "$npy" make "I/$file.npy" "$dtype" "$shape" "$values" || exit 1; done <<'END'
x20 f4 20,2,4 random:1
x19 f4 19,2,4 random:2
flat20 f4 20,4 random:2
dim5 f4 20,2,5 random:3
heads3 f4 20,3,4 random:4
rank1 f4 20 random:5
rank4 f4 20,2,4,1 random:6
none f4 0,2,4 1
thin f4 20,2,0 1
nan f4 20,2,4 1,2,nan
inf f8 20,2,4 1,1e300
ints i4 20,2,4 3
three f4 3 1
two_leaves f4 2 0.5
weights f4 3,4 random:7
wide_weights f4 3,7 random:7
nan_weights f4 3,4 nan
bias f4 3 0
rel_key f4 3,4 random:8
rel_bias f4 3,2 random:8
edge_bias f4 7,2 random:8
node_pos f4 9,2 random:8
leaf19 i4 19 0,1,2,3
leaf20 i4 20 0
leaf_out i4 20 0,1,2,9
leaf_negative i4 20 0,1,2,-2
parent i4 6 3,3,5,5,5,-1
parent_ok i4 5 3,3,4,4,-1
cycle i4 4 2,3,3,2
self_parent i4 3 2,2,2
far_parent i4 3 2,7,-1
negative_parent i4 3 2,2,-3
parent_plane i4 3,1 2,2,-1
no_parents i4 0 1
float_parent f4 3 2,2,-1
long_parent i8 3 4294967296,2,-1
lengths i4 2 7,13
short_lengths i4 2 7,12
zero_lengths i4 2 0,0
negative_length i4 2 21,-1
no_lengths i4 0 1
END
printf 'this is not an array\n' >I/text.npy
: >I/empty.npy
head -c 200 I/x20.npy >I/cut.npy
{ cat I/x20.npy; printf x; } >I/long.npy
printf '\223NUMPY\011\000\006\000{}   \n' >I/version.npy
printf '\223NUMPY\001\000\377\377{' >I/header.npy
"$npy" raw I/complex.npy "{'descr': '<c8', 'fortran_order': False, 'shape': (20, 2, 4), }" 1280
"$npy" raw I/negative.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (-20, 2, 4), }" 640
"$npy" raw I/huge.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }" 64
"$npy" raw I/big.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 2, 4), }" 64
"$npy" raw I/shapeless.npy "{'descr': '<f4', 'fortran_order': False, }" 64
"$npy" raw I/unclosed.npy "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 2, 4" 640
printf 'not json' >I/text.json
printf '[]' >I/list.json
printf '{}' >I/nothing.json
printf '\377\376{}' >I/bytes.json
printf 'good text \303\050 bad text\n' >I/latin.txt
: >I/empty.txt
printf ' \n\n ... \n' >I/wordless.txt
"$hga" build htransformer --tokens 6 -p block=2 -o I/g.json || exit 1

q='--query I/x20.npy --key I/x20.npy --value I/x20.npy'

# ---- the table ----

while IFS='|' read -r status text arguments; do
    case $status in '' | '#'*) continue ;; esac
    wrong "$status" "$text" "${arguments//Q20/$q}"
done <<'END'
# subcommands and options
2|segments needs -p query-segment=LIST or @FILE.npy|build segments -o O/x.npy
2|segments needs -p query-segment=LIST or @FILE.npy|build segments -n 5 -o O/x.npy
2|draft needs -p parent=LIST or @FILE.npy|explain draft
2|segments needs -p key-segment=@FILE.npy: the 19 keys are not the 20 queries|attend segments -p query-segment=@I/leaf20.npy --query I/x20.npy --key I/x19.npy --value I/x19.npy --out O/x.npy
2|frobnicate|frobnicate
2|nosuch|build nosuch --tokens 5 -o O/x.npy
2|--nonsense|build window --tokens 5 --nonsense -o O/x.npy
2|-z|build window --tokens 5 -z -o O/x.npy
2|--tokens|build window -o O/x.npy --tokens
2|'-yz'|build window -o O/x.npy --tokens 5 -yz
2|'-yz'|build window -yz --tokens 5 -o O/x.npy
2|--to needs a value|build window -o O/x.npy --to
2|--t: which option, --tokens or --threads?|attend window Q20 --out O/x.npy --t 5
2|--norm needs a value|attend window Q20 --out O/x.npy --norm
2|--normalizer needs a value|attend window Q20 --out O/x.npy --normalizer
2|--js=3: the option takes no value|inspect window --js=3 --tokens 5
2|unknown option '-h'; --help prints the options|attend -h
2|unknown option '--=3'|inspect window --tokens 5 --=3
2|tokens|build window -o O/x.npy
2|stray|build window stray --tokens 5 -o O/x.npy
2|nosuch|help nosuch
2|'nosuch'|variants nosuch
2|`hga help bpt` has that variant alone|variants bpt
2|unknown option '--querry'; did you mean 'query'? if it is a parameter|attend window --querry I/no.npy
2|no variant 'window=3'; parameters follow a variant after colons: window:NAME=VALUE|explain window=3 --tokens 8
2|--threads: 5000 is not in 1 .. 4096|explain window --tokens 8 --threads 5000
2|unknown option '--left=2'; if it is a parameter of a VARIANT, write -p left=2|build window --tokens 5 --left=2 -o O/x.npy
3|I/no_parents.npy|explain I/no_parents.npy
2|window: left is given twice|explain window:left=3:left=5 --tokens 8
2|no variant ''|explain :window:left=3 --tokens 8
2|left: '3:' is not a whole number|explain window:left=3: --tokens 8
2|window: left is given twice|build window -p left=3 -p left=3 --tokens 8 -o O/x.npy
2|window: left is given twice|inspect window:left=3 -p left=5 --tokens 8
2|window: tokens is given twice|build window --tokens 5 -p tokens=5 -o O/x.npy
2|order is given twice|explain graph=I/g.json -p order=rcm -p order=none
2|random: degree is given twice|bench --variants random:degree=3:degree=4 --tokens 16
2|bpt: k is given twice|bench --variants bpt:k=3:k=4 --tokens 16
2|did you mean 'htransformer'|explain htransfomer:block=4 --tokens 8
2|has no parameter 'blok'|explain htransformer:blok=4 --tokens 8
2|'block' is not name=value|explain htransformer:block --tokens 8
2|causal is given twice|explain htransformer:causal:causal=1 --tokens 8
2|no variant 'longformer': here it is window|explain longformer --tokens 8
2|unexpected argument '--quiet' beside version|version --quiet
2|graph=I/no_parents.npy is one|check I/no_parents.npy -p parents=@I/no_parents.npy
2|nosuch|attend nosuch Q20 --out O/x.npy
2|VARIANT|build
2|VARIANT|attend
# numbers that are none, or out of range
2|abc|build window --tokens abc -o O/x.npy
2|3.5|build window --tokens 3.5 -o O/x.npy
2|0|build window --tokens 0 -o O/x.npy
2|-5|build window --tokens -5 -o O/x.npy
2|5x|build window --tokens 5x -o O/x.npy
2|3000000000|build window --tokens 3000000000 -o O/x.npy
2|99999999999999999999|build window --tokens 99999999999999999999 -o O/x.npy
2|tokens|build window --tokens "" -o O/x.npy
2|2000000000|build bpt --tokens 2000000000 -o O/x.npy
2|left|build window --tokens 5 -p left=x -o O/x.npy
2|left|build window --tokens 5 -p left=3000000000 -o O/x.npy
2|left|build window --tokens 5 -p left -o O/x.npy
2|stride|build window --tokens 5 -p stride=0 -o O/x.npy
2|stride|build window --tokens 5 -p stride=-1 -o O/x.npy
2|global|build window --tokens 5 -p global=-1 -o O/x.npy
2|causal|build window --tokens 5 -p causal=maybe -o O/x.npy
2|causal|build dense --tokens 5 -p causal=2 -o O/x.npy
2|width|build window --tokens 5 -p width=3 -o O/x.npy
2|block|build window --tokens 5 -p block=3 -o O/x.npy
2|k|build bpt --tokens 5 -p k=0 -o O/x.npy
2|clip|build bpt --tokens 5 -p clip=-1 -o O/x.npy
2|rule|build bpt --tokens 5 -p rule=odd -o O/x.npy
2|block|build htransformer --tokens 5 -p block=0 -o O/x.npy
2|structure|build htransformer --tokens 5 -p structure=ring -o O/x.npy
2|interpolation|build htransformer --tokens 5 -p interpolation=cubic -o O/x.npy
2|relative|build htransformer --tokens 5 -p relative=oui -o O/x.npy
2|linear|build htransformer --tokens 50 -p interpolation=linear -p causal=1 -o O/x.npy
2|branching|build hsa --tokens 5 -o O/x.npy
2|branching|build hsa --tokens 5 -p branching=1 -o O/x.npy
2|branching|build hsa --tokens 5 -p branching=2,x -o O/x.npy
2|branching|build hsa --tokens 5 -p branching= -o O/x.npy
2|branching|build hsa --tokens 5 -p branching=2,0 -o O/x.npy
2|mode|build hsa --tokens 5 -p branching=2 -p causal=1 -p mode=other -o O/x.npy
2|parent|build hsa -p branching=2 -p parent=@I/parent_ok.npy -o O/x.npy
2|leaf|build treeformer-fine --tokens 20 -o O/x.npy
2|leaf|build treeformer-coarse --tokens 20 -p height=2 -o O/x.npy
# files
3|I/missing.npy|attend window --query I/missing.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I|attend window --query I --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/text.npy|attend window --query I/text.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/empty.npy|attend window --query I/x20.npy --key I/empty.npy --value I/x20.npy --out O/x.npy
3|I/cut.npy|attend window --query I/x20.npy --key I/x20.npy --value I/cut.npy --out O/x.npy
3|I/long.npy|attend window --query I/x20.npy --key I/x20.npy --value I/long.npy --out O/x.npy
3|I/version.npy|attend window --query I/version.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/header.npy|attend window --query I/header.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/complex.npy|attend window --query I/complex.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/negative.npy|attend window --query I/negative.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/huge.npy|attend window --query I/huge.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/big.npy|attend window --query I/big.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/shapeless.npy|attend window --query I/shapeless.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/unclosed.npy|attend window --query I/unclosed.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/ints.npy|attend window --query I/ints.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|NaN|attend window --query I/nan.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/inf.npy|attend window --query I/x20.npy --key I/x20.npy --value I/inf.npy --out O/x.npy
4|O/no/x.npy|build window --tokens 5 -o O/no/x.npy
4|O/no/x.npy|attend window Q20 --out O/no/x.npy
4|O/no/l.npy|attend window Q20 --out O/x.npy --lse O/no/l.npy
2|O/x.xyz|build window --tokens 5 -o O/x.xyz
2|xyz|build window --tokens 5 --format xyz -o O/x.npy
2|nosuch|build window --tokens 5 --relation nosuch -o O/x.npy
# shapes
3|19|attend window --query I/x20.npy --key I/x20.npy --value I/x19.npy --out O/x.npy
3|19|attend bpt --query I/x19.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|dim5|attend window --query I/x20.npy --key I/dim5.npy --value I/x20.npy --out O/x.npy
3|heads|attend window --query I/x20.npy --key I/heads3.npy --value I/heads3.npy --out O/x.npy
3|heads|attend window --query I/x20.npy --key I/x20.npy --value I/flat20.npy --out O/x.npy
3|I/rank1.npy|attend window --query I/rank1.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/rank4.npy|attend window --query I/rank4.npy --key I/x20.npy --value I/x20.npy --out O/x.npy
3|I/none.npy: has the shape (0, 2, 4), which holds no numbers|attend window --query I/none.npy --key I/none.npy --value I/none.npy --out O/x.npy
3|I/thin.npy|attend window --query I/thin.npy --key I/thin.npy --value I/x20.npy --out O/x.npy
3|19|attend hsa -p branching=2 --query I/x20.npy --key I/x19.npy --value I/x19.npy --out O/x.npy
2|causal|attend htransformer -p causal=1 --query I/x20.npy --key I/x19.npy --value I/x19.npy --out O/x.npy
3|19|attend window -p tokens=19 Q20 --out O/x.npy
# what attend is given besides
2|--query|attend window --key I/x20.npy --value I/x20.npy --out O/x.npy
2|--value|attend window --query I/x20.npy --key I/x20.npy --out O/x.npy
2|--out|attend window Q20
2|threads|attend window Q20 --out O/x.npy --threads -1
2|threads|attend window Q20 --out O/x.npy --threads many
2|pentium|attend window Q20 --out O/x.npy --isa pentium
2|off on auto|attend window Q20 --out O/x.npy --bind maybe
2|off on auto|bench --bind 1
2|f16|attend window Q20 --out O/x.npy --precision f16
2|scale|attend window Q20 --out O/x.npy --scale nan
2|scale|attend window Q20 --out O/x.npy --scale big
3|I/rel_key.npy|attend bpt -p k=2 Q20 --rel-key I/rel_key.npy --out O/x.npy
3|I/rel_bias.npy|attend htransformer -p relative=1 -p block=4 Q20 --rel-bias I/rel_bias.npy --out O/x.npy
3|I/edge_bias.npy|attend window -p left=2 -p right=2 Q20 --edge-bias I/edge_bias.npy --out O/x.npy
3|I/node_pos.npy|attend hsa -p branching=2 Q20 --node-pos I/node_pos.npy --out O/x.npy
2|--grad|attend window Q20 --out O/x.npy --grad-query O/g.npy
2|lse|attend hsa -p branching=2 Q20 --out O/x.npy --lse O/l.npy
2|lse|attend treeformer-coarse -p height=2 -p weights=@I/weights.npy -p bias=@I/bias.npy -p alpha=@I/three.npy Q20 --out O/x.npy --lse O/l.npy
2|--lse|attend window Q20 --out O/x.npy --lse O/../O/x.npy
2|height|build treeformer-fine -p height=31 -p query-leaf=@I/leaf19.npy -o O/x.npy
2|causal|attend treeformer-coarse -p height=2 -p weights=@I/weights.npy -p bias=@I/bias.npy -p alpha=@I/three.npy -p causal=1 Q20 --out O/x.npy
3|I/two_leaves.npy|attend treeformer-coarse -p height=2 -p weights=@I/weights.npy -p bias=@I/bias.npy -p alpha=@I/two_leaves.npy Q20 --out O/x.npy
# trees
3|I/wide_weights.npy|attend treeformer-fine -p height=2 -p weights=@I/wide_weights.npy -p bias=@I/bias.npy Q20 --out O/x.npy
3|I/weights.npy|attend treeformer-fine -p height=3 -p weights=@I/weights.npy -p bias=@I/bias.npy Q20 --out O/x.npy
3|I/nan_weights.npy|attend treeformer-fine -p height=2 -p weights=@I/nan_weights.npy -p bias=@I/bias.npy Q20 --out O/x.npy
2|height|attend treeformer-fine -p height=-2 -p weights=@I/weights.npy -p bias=@I/bias.npy Q20 --out O/x.npy
3|I/weights.npy|attend treeformer-fine -p height=40 -p weights=@I/weights.npy -p bias=@I/bias.npy Q20 --out O/x.npy
3|I/leaf19.npy|attend treeformer-fine -p query-leaf=@I/leaf19.npy Q20 --out O/x.npy
3|9|attend treeformer-coarse -p height=2 -p alpha=@I/three.npy -p query-leaf=@I/leaf_out.npy Q20 --out O/x.npy
3|-2|attend treeformer-fine -p query-leaf=@I/leaf_negative.npy Q20 --out O/x.npy
3|parent|build hsa -p parent=@I/cycle.npy -o O/x.npy
3|parent|build hsa -p parent=@I/self_parent.npy -o O/x.npy
3|7|build hsa -p parent=@I/far_parent.npy -o O/x.npy
3|-3|build hsa -p parent=@I/negative_parent.npy -o O/x.npy
3|I/parent_plane.npy|build hsa -p parent=@I/parent_plane.npy -o O/x.npy
3|I/no_parents.npy|build hsa -p parent=@I/no_parents.npy -o O/x.npy
3|I/float_parent.npy|build hsa -p parent=@I/float_parent.npy -o O/x.npy
3|4294967296|build hsa -p parent=@I/long_parent.npy -o O/x.npy
3|I/missing.npy|build hsa -p parent=@I/missing.npy -o O/x.npy
2|7|build hsa --tokens 7 -p parent=@I/parent_ok.npy -o O/x.npy
2|parent|build hsa -p parent=I/parent_ok.npy -o O/x.npy
# ragged batches
3|19|attend window -p tokens=@I/short_lengths.npy Q20 --out O/x.npy
3|all 2 lengths are 0|attend window -p tokens=@I/zero_lengths.npy Q20 --out O/x.npy
3|-1|attend window -p tokens=@I/negative_length.npy Q20 --out O/x.npy
3|I/no_lengths.npy|attend window -p tokens=@I/no_lengths.npy Q20 --out O/x.npy
# graphs of the user's own
3|I/missing.json|attend graph=I/missing.json Q20 --out O/x.npy
3|I/text.json|attend graph=I/text.json Q20 --out O/x.npy
3|I/list.json|check I/list.json
3|I/nothing.json|check I/nothing.json
3|I/bytes.json|check I/bytes.json
3|I/empty.npy|check I/empty.npy
3|20|attend graph=I/g.json Q20 --out O/x.npy
2|block|attend graph=I/g.json -p block=2 Q20 --out O/x.npy
3|I/missing.json|export I/missing.json -o O/x.npy
2|O/x.xyz|export I/g.json -o O/x.xyz
2|-o|export I/g.json
2|nosuch|export I/g.json --relation nosuch -o O/x.npy
# the other subcommands
3|I/missing.txt|run I/missing.txt
3|I/latin.txt|run I/latin.txt
3|I/empty.txt|run I/empty.txt
3|I/wordless.txt|run I/wordless.txt
2|nosuch|explain nosuch --tokens 5
2|block|explain htransformer --tokens 5 -p block=-3
2|nonsense|topo --synthetic nonsense
2|nosuch|bench --variants nosuch --tokens 8
2|x|bench --variants dense --tokens x
2|pentium|bench --variants dense --tokens 8 --isa pentium
END

# ---- a good graph with one thing changed: status | text | what | into what ----

base='{"format": "hga-graph", "schema": 1, "levels": [4, 2, 1], "families": [[4, 0, 4, 2], [6, 4, 2, 2]], "mass": [[1, 1, 2]],
  "relations": [{"name": "near", "blocks": [{"dst": 0, "n_dst": 4, "src": 0, "n_src": 3, "type": 2}], "edges": [[3, 5, 0, 1.5], [6, 0]]}]}'
printf '%s\n' "$base" >I/changed.json
"$hga" check I/changed.json >stdout 2>stderr || { cat stderr; exit 1; }
while IFS='|' read -r status text what into; do
    [ -n "$status" ] || continue
    printf '%s\n' "${base/"$what"/"$into"}" >I/changed.json
    wrong "$status" "$text" "check I/changed.json"
done <<'END'
3|format|"hga-graph"|"other"
3|format|"format": "hga-graph", |
3|schema|"schema": 1|"schema": 99
3|schema|"schema": 1|"schema": "1"
3|schema|"schema": 1|"schema": 1, "schema": 1
3|levels|"levels": [4, 2, 1]|"levels": 7
3|families|[4, 2, 1]|[]
3|levels|[4, 2, 1]|[4, -2, 1]
3|levels|[4, 2, 1]|[2147483647, 2147483647, 1]
3|levels|[4, 2, 1]|[4000000000, 2, 1]
3|levels|[4, 2, 1]|[4.5, 2, 1]
3|9|[4, 0, 4, 2]|[9, 0, 4, 2]
3|families|[4, 0, 4, 2]|[4, 0, 40, 2]
3|families|[4, 0, 4, 2]|[4, 0, 4]
3|families|[4, 0, 4, 2]|[4, 0, 4, 0]
3|families|[4, 0, 4, 2]|[4, 0, 4, 1]
3|parent 4|[6, 4, 2, 2]|[4, 5, 1, 1]
3|parent 6|[6, 4, 2, 2]|[6, 6, 1, 1]
3|parent 0|[6, 4, 2, 2]|[0, 4, 2, 2]
3|mass|[1, 1, 2]|[1, 1, -2]
3|mass|[1, 1, 2]|[1, 9, 2]
3|mass|[1, 1, 2]|[1, 1, "two"]
3|name|"name": "near"|"name": ""
3|name|"name": "near", |
3|block 0|"n_dst": 4|"n_dst": -4
3|block 0|"n_dst": 4|"n_dst": 400
3|block 0|"n_src": 3|"n_src": 3, "count": 2147483647, "src_step": 2147483647
3|shape|"n_src": 3|"n_src": 3, "shape": "round"
3|band|"n_src": 3|"n_src": 3, "shape": "band"
3|type|"type": 2|"type": -1
3|type|"type": 2|"type": 3000000000
3|typ|"type": 2|"typ": 2
3|weight|"type": 2|"type": 2, "weight": -1
3|7|[6, 0]|[7, 0]
3|-1|[6, 0]|[-1, 0]
3|edges|[6, 0]|[6]
3|edges|[6, 0]|[6, 0, 0, 1, 2]
3|edges|[6, 0]|"6 to 0"
3|weight|1.5|0
3|1e999|1.5|1e999
3|other|"relations": [|"other": [
3|dst_order|"edges"|"dst_order": [1, 1], "edges"
3|src_order|"edges"|"src_order": [9], "edges"
3|queries|"mass"|"queries": [0, 2], "mass"
3|queries|"mass"|"queries": [0, 9], "keys": [2, 2], "mass"
3|keys|"mass"|"queries": [0, 3], "keys": [2, 2], "mass"
3|claims|"mass"|"claims": ["everything"], "mass"
3|parents|"mass"|"parents": [4, 4], "mass"
3|near|"relations": [|"relations": [{"name": "near"}, 
END

# ---- every prefix of an array is refused ----

"$npy" make I/small.npy f4 2,2 1,2,3,4
size=$(wc -c <I/small.npy)
for ((n = 0; n < size; n += stride)); do
    head -c "$n" I/small.npy >I/prefix.npy
    wrong 3 I/prefix.npy 'attend dense --query I/small.npy --key I/prefix.npy --value I/small.npy --out O/x.npy'
done

# ---- every prefix of a graph is refused; only blanks may follow its last brace ----

printf '%s' "$(cat I/g.json)" >I/small.json
size=$(wc -c <I/small.json)
step=$((stride * (size / 400 + 1)))
for ((n = 0; n < size; n += n > size - 40 ? 1 : step)); do
    head -c "$n" I/small.json >I/prefix.json
    wrong 3 I/prefix.json 'check I/prefix.json'
done

there_are_many() { [ $n_facts -ge 150 ]; }
fact there_are_many_wrong_commands there_are_many
facts_end
