#!/bin/bash
# Outputs that meet each other, standard output, their inputs, or what takes nothing: test_outputs.sh HGA NPY
# Whatever is wrong is one line, and nothing is half-written: all files of a command appear, or none.
set -u
hga=$1 npy=$2
. "$(dirname "$0")/facts.sh"
for name in q k v g; do "$npy" make $name.npy f4 40,2,8 random:1; done
read -ra attend <<<"$hga attend dense --quiet --query q.npy --key k.npy --value v.npy"
read -ra tree <<<"$hga attend hsa -p branching=2,4 --quiet --query q.npy --key k.npy --value v.npy"
"${attend[@]}" --out want.npy --lse want_lse.npy || exit 1

# ---- two outputs are not one file, whatever it is called ----

mkdir there
echo old >there/file
ln -s file there/link
ln -s no there/nothing
mkfifo there/pipe
ln -s pipe there/tube
together() { # together OPTION OPTION COMMAND..: refused wherever both are one place
    local one=$1 other=$2 a b
    shift 2
    while read -r a b; do
        refused 2 "$other: '$b' is $one's file as well" "$@" "$one" "$a" "$other" "$b" || { echo "$one $a $other $b"; return 1; }
    done <<'END'
there/new there/new
there/new ./there/new
there/file there/../there/file
there/file there/link
there/link there/file
there/no there/nothing
there/nothing there/no
there/pipe there/tube
END
    equal "$(cat there/file)" old
}
fact out_and_lse_are_apart together --out --lse "${attend[@]}"
fact two_gradients_are together --grad-query --grad-value "${attend[@]}" --out o.npy --grad-out g.npy
fact out_and_a_gradient_are together --out --grad-key "${attend[@]}" --grad-out g.npy
fact out_and_the_map_of_nodes_are together --out --node-map "${tree[@]}"
fact the_graph_and_the_map_of_nodes_are together --output --node-map "$hga" build hsa -p branching=2,4 --tokens 40 --format npy
fact rows_and_the_cache_are together --out --save "$hga" decode fenwick --query q.npy --key k.npy --value v.npy
fact tables_of_a_bench_are together --json --report "$hga" bench --variants dense --tokens 16
fact a_device_takes_two "${attend[@]}" --out /dev/null --lse /dev/null
two_names() { "${attend[@]}" --out there/new --lse there/other && same_bytes there/new want.npy && same_bytes there/other want_lse.npy && rm there/new there/other; }
fact names_that_differ_are_two_files two_names

# ---- standard output, by any of its names ----

mixed() { # where standard output is a pipe, and where it is a file
    local name
    for name in - /dev/stdout /dev/fd/1 /proc/self/fd/1; do
        "${attend[@]}" --out "$name" --lse - 2>why | cat >got
        [ ! -s got ] && grep -qF -- "--lse: '-' is --out's file as well" why || { echo "$name in a pipe"; cat why; return 1; }
        "${attend[@]}" --out - --lse "$name" 2>why >got
        [ ! -s got ] && grep -qF -- "--lse: '$name' is --out's file as well" why || { echo "$name in a file"; cat why; return 1; }
    done
}
fact standard_output_takes_one_array mixed
behind() { # what is in the file already stays there
    local name
    for name in - /dev/stdout /dev/fd/1 /proc/self/fd/1; do
        { printf old && "${attend[@]}" --out "$name" && printf new; } >got && cmp got <(printf old && cat want.npy && printf new) || { echo "$name"; return 1; }
        printf old >got
        "${attend[@]}" --out "$name" >>got && cmp got <(printf old && cat want.npy) || { echo "$name, appended"; return 1; }
    done
}
fact it_is_written_where_it_stands behind
another() { "${attend[@]}" --out /dev/fd/7 7>got && same_bytes got want.npy; }
fact so_is_another_descriptor another
not_open() { refused 4 "cannot write /dev/fd/7" "${attend[@]}" --out /dev/fd/7 --lse l.npy; }
fact one_that_is_not_open_is_named not_open
for name in - /dev/stdout; do fact "a_table_is_there_already_$name" refused 2 "standard output has the table" "$hga" decode fenwick --query q.npy --key k.npy --value v.npy --out "$name"; done

# closed COMMAND..: standard output is closed, and its number goes to no other file
closed() {
    "$@" 2>why >&-
    equal "$?" 4 && equal "$(wc -l <why)" 1 && shows why 'standard output' && [ ! -e l.npy ] && [ ! -e o.npy ]
}
fact a_closed_one_is_told closed "${attend[@]}" --out - --lse l.npy
fact of_a_graph_too closed "$hga" build dense --tokens 5 --format npy -o -
fact of_a_table_too closed "$hga" inspect dense --tokens 8
without_input() { "$hga" attend dense --quiet --query - --key k.npy --value v.npy --out o.npy 2>why <&-; equal $? 3 && equal "$(wc -l <why)" 1 && [ ! -e o.npy ]; }
fact a_closed_input_is_told without_input
without_errors() { "${attend[@]}" --out got 2>&- && same_bytes got want.npy; }
fact where_nobody_hears_errors_the_file_is_whole without_errors

# ---- what takes nothing ----

full() { refused 4 "cannot write /dev/full: No space left on device" "$@"; }
grads="--grad-out g.npy --grad-query a.npy --grad-key b.npy"
for option in --out --lse --grad-query --grad-key; do
    # shellcheck disable=SC2086 # words
    fact "a_full_device_as_$option" full "${attend[@]}" --out o.npy --lse l.npy $grads $option /dev/full
done
for option in --out --node-map; do fact "a_full_device_as_${option}_of_a_tree" full "${tree[@]}" --out o.npy --node-map m.npy $option /dev/full; done
for option in --output --node-map; do fact "a_full_device_as_${option}_of_a_graph" full "$hga" build hsa -p branching=2,4 --tokens 40 --format npy --output g2.npy --node-map m.npy $option /dev/full; done
png=png # where the tool is built with librsvg
"$hga" export dense -n 2 --format png -o has.png 2>why || { grep -q 'png needs librsvg' why && png=''; }
for format in json npy mtx dot graphml gexf graph csv svg $png; do fact "a_full_device_as_$format" full "$hga" build dense --tokens 40 --format $format -o /dev/full; done
fact a_full_device_as_a_page full "$hga" view dense -n 40 -o /dev/full
fact a_full_device_as_random_numbers full "$hga" tensor --random 99x99 -o /dev/full
for option in --out --lse --save; do fact "a_full_device_as_${option}_of_tokens" full "$hga" decode fenwick --quiet --query q.npy --key k.npy --value v.npy --out o.npy $option /dev/full; done
for option in --choice --block-weights; do fact "a_full_device_as_$option" full "$hga" attend routed -p k=2 -p block=8 --quiet --query q.npy --key k.npy --value v.npy --out o.npy $option /dev/full; done
behind_a_table() { # the table is there; the file is not, and one line says why
    "$@" >table 2>why
    equal $? 4 && equal "$(cat why)" "hga: cannot write ${*: -1}: No space left on device"
}
ln -s /dev/full full.svg
ln -s /dev/full full.png
echo 'A text of a few words.' >text.txt
fact a_full_device_as_a_report_of_run behind_a_table "$hga" run text.txt --variants window --report /dev/full
for option in --json --report; do fact "a_full_device_as_${option}_of_a_bench" behind_a_table "$hga" bench --variants dense --tokens 16 $option /dev/full; done
for end in svg $png; do
    fact "a_full_device_as_a_plot_$end" behind_a_table "$hga" choose --variants dense,window --quiet --query q.npy --key k.npy --value v.npy --output full.$end
    fact "a_full_device_as_a_plot_of_ranks_$end" behind_a_table "$hga" explain fenwick --tokens 40 --ranks 1,2 -o full.$end
done
printed() { # one line about standard output, and the status of what is outside of us
    "$hga" "$@" >/dev/full 2>why
    equal $? 4 && equal "$(wc -l <why)" 1 && shows why 'standard output'
}
for words in 'inspect dense -n 8' 'inspect dense -n 8 --json' 'inspect dense -n 8 --row 3' 'inspect dense -n 8 --ascii' 'export dense -n 8 --format csv -o -' 'export dense -n 8 --format svg -o -' \
    ${png:+"export dense -n 8 --format png -o -"} 'view dense -n 8 -o -' 'help' 'help attend' 'attend --help' 'help dense' 'variants' '--version' 'check dense -n 8' 'flops dense -n 8' 'tensor q.npy'; do
    # shellcheck disable=SC2086 # words
    fact "a_full_device_behind_${words// /_}" printed $words
done
for place in there q.npy/x.npy there/ no/x.npy; do
    fact "an_output_at_$place" refused 4 "cannot write $place" "${attend[@]}" --lse l.npy --out "$place"
    fact "a_map_of_nodes_at_$place" refused 4 "cannot write $place" "${tree[@]}" --out o.npy --node-map "$place"
    fact "a_graph_at_$place" refused 4 "$place" "$hga" export dense -n 8 --format csv -o "$place"
done

# ---- over its own input ----

over() { cp q.npy own.npy && "$hga" attend dense --quiet --query own.npy --key k.npy --value v.npy --out own.npy && same_bytes own.npy want.npy; }
fact an_input_may_be_replaced over
graph_over() { "$hga" build dense --tokens 5 -o own.json && cp own.json before.json && "$hga" export own.json -o own.json && "$hga" export before.json -o want.json && same_bytes own.json want.json; }
fact so_may_a_graph graph_over

# ---- what a format has no place for is said ----

printf 'source,target,weight,relation\n0,1,0.5,near\n1,1,1,far\n' >weighted.csv
exported() { "$hga" export weighted.csv -o "$1" --relation "$2" 2>stderr; }
for suffix in npy dot graph; do
    exported weights.$suffix near
    fact "weights_are_left_out_of_$suffix" shows stderr "weights.$suffix: weights of edges are left out"
    exported ones.$suffix far
    fact "ones_are_not_weights_in_$suffix" lacks stderr 'weights of edges'
done
exported all.dot all
fact some_of_all_have_weights shows stderr 'all.dot: weights of edges are left out'
for suffix in csv mtx graphml gexf; do
    exported weights.$suffix near
    fact "${suffix}_has_weights" lacks stderr 'weights of edges'
done

facts_end
