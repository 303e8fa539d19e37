#!/bin/sh
# The gallery of the site: PYTHONPATH=PACKAGE gallery.sh HGA SOURCE FOLDER makes FOLDER/gallery.md, and a picture and a live page of each hierarchy.
set -eu
hga=$1 source=$2 out=$3
mkdir -p "$out"
cd "$source"
# NAME | what it says beside the picture | what `hga view` is given
list() {
    cat <<'END'
dense|Every token sees every token: what the others are compared with.|dense -n 64
window|A window with two global tokens.|window -n 64 -p left=6 -p right=6 -p global=2
bpt|BP-Transformer: near tokens one by one, far ones as larger and larger spans.|bpt -n 64 -p k=2
htransformer|H-Transformer-1D: blocks that grow with the distance.|htransformer -n 64 -p block=4
htransformer-causal|The same, looking back only.|htransformer -n 64 -p block=4 -p causal=1
hsa|HSA on hopping windows of four.|hsa -n 64 -p branching=4
fenwick|Log-linear attention's partition of the past.|fenwick -n 64
dilated|LongNet: longer segments, sparser tokens.|dilated -n 64 -p segments=8,32 -p dilations=1,4
neighbourhood|NATTEN: the nearest tokens of an image of 8 x 8.|neighbourhood -p shape=8,8 -p kernel=3
draft|Drafts of speculative decoding after a prefix of 24 tokens.|draft -p prefix=24 -p parent=-1,0,0,1,1,2,3,-1,7,7,8
two-levels|A hierarchy of your own, as JSON.|docs/gallery/two-levels.json
page|This project's index page as a tree of its headings, lists, sentences and words.|docs/README.md
sources|A folder of sources: folders, files, functions, lines. `python3 examples/python/source_folder.py builders -o sources.json` made the file.|sources.json
END
}
python3 examples/python/source_folder.py builders -o "$out/sources.json" >/dev/null
{
    printf '# Gallery of live hierarchies\n\nEach picture leads to a live page: zoom, click a row, press Play. Queries down, keys across, coloured by level; the command under it made the page.\n\n'
    list | while IFS='|' read -r name says words; do
        given=$words
        [ "$name" != sources ] || given=$out/sources.json
        # shellcheck disable=SC2086 # words
        "$hga" view $given -o "$out/view-$name.html"
        # shellcheck disable=SC2086
        "$hga" export $given -o "$out/gallery-$name.svg" --width 620
        printf '## %s\n\n%s\n\n<p class="gallery"><a href="view-%s.html"><img src="gallery-%s.svg" alt="%s: who sees whom"/></a></p>\n\n```sh\nhga view %s -o %s.html\n```\n\n' \
            "$name" "$says" "$name" "$name" "$name" "$words" "$name"
    done
} >"$out/gallery.md"
