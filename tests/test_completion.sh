#!/bin/bash
# What TAB offers: test_completion.sh HGA COMPLETIONS
set -u
hga=$1 completions=$2
. "$(dirname "$0")/facts.sh"

# What TAB offers at the end of a line; readline puts it after the last `=`.
offers() (
    PATH=$(dirname "$hga"):$PATH
    source "$completions"
    COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
    _hga
    printf '%s\n' "${COMPREPLY[@]}"
)
has() { local want=$1; shift; offers "$@" | grep -qx -- "$want" || { echo "offered:"; offers "$@"; false; }; }
offers_not() { local other=$1; shift; ! offers "$@" | grep -qx -- "$other"; }
fact completion_offers_subcommands has 'attend' hga a
fact after_help_too has 'attend' hga help at
fact and_long_options has '--relation=' hga build --re
fact options_without_a_value_end_the_word has '--json' hga check --js
fact other_subcommands_options_are_not_offered offers_not '--causal' hga build --c
fact variants_are_offered has 'htransformer' hga build h
fact and_graph_files has 'graph=' hga attend gr
fact parameters_are_the_variants_own has 'k=' hga build bpt -p ''
fact parameters_of_another_variant_are_not_offered offers_not 'k=' hga build window -p ''
fact words_of_a_parameter_are_offered has 'algorithm1' hga build bpt -p rule=a
fact after_the_long_option_too has 'text' hga build bpt --parameter=rule=t
fact a_variant_before_the_parameter_counts has 'frontier' hga explain --heads 2 hsa -p mode=f
touch mine.json f32.npy avx2.npy
fact files_are_offered_for_graphs has 'mine.json' hga check mi
fact and_after_graph has 'mine.json' hga attend graph=mi
fact and_for_arrays has '@mine.json' hga build hsa -p parent=@mi
fact words_not_files_for_the_instruction_set has 'avx2' hga attend dense --isa a
fact nor_for_precisions has 'bf16' hga bench --precision=b
fact files_are_not_among_them offers_not 'f32.npy' hga attend dense --precision f
fact layouts_have_words_too has 'bhnd' hga attend dense --layout b
fact what_takes_a_file_has_files has 'f32.npy' hga attend dense --query f
fact options_that_help_leaves_out_are_offered has '--grad-query=' hga attend --grad-q
fact so_are_subcommands has 'topo' hga to

# ---- help, which completion is made of ----

"$hga" help >commands
"$hga" help --all >all_commands
for name in flops topo tensor; do fact "${name}_is_under_all" lacks commands "^  $name "; fact "${name}_is_there" holds all_commands "^  $name "; done
for name in help version; do "$hga" help $name >own_help; fact "help_of_${name}_is_the_tools" cmp own_help commands; done
fact help_tells_how_many_there_are_more shows commands '3 more: `hga help --all`'
"$hga" help attend >few
"$hga" help attend --all >every
options() { sed -nE 's/^ *(-[a-zA-Z], )?--([a-z-]+).*/\2/p' "$1" | sort -u; }
a_dozen() { equal "$(options few | tr '\n' ' ')" 'help key layout lse out parameter precision query scale threads tokens value '; }
fact help_shows_a_dozen_options a_dozen
all_of_them() { options every >have_all && options few >have_few && [ "$(wc -l <have_all)" -ge 45 ] && [ -z "$(comm -13 have_all have_few)" ]; }
fact all_shows_every_option all_of_them
counts() { shows few "$(($(options every | grep -vx normalizer | wc -l) - $(options few | wc -l))) more options: \`hga help attend --all\`"; }
fact it_counts_the_others counts
same() { "$hga" attend --help | cmp - few && "$hga" attend --help-all | cmp - every; }
fact the_options_print_the_same same
one_group() { sed -n '/^ Scores:$/,/^$/p' every | grep -oE -- '^      --[a-z-]+' | tr -d ' \n'; }
fact options_of_scores_are_one_group equal "$(one_group)" --additive--edge-bias--edge-key--edge-value--node-pos--normaliser--rel-bias--rel-key--scale--sink--slopes--softcap
fact what_is_left_out_still_works "$hga" explain dense -n 8 --softcap 3
fact a_variants_help_takes_all "$hga" help bpt --all
fact and_nothing_else refused 2 "unexpected argument 'more'" "$hga" help bpt more
facts_end
