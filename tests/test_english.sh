#!/bin/bash
# Words that pages, public headers and the tool's help no longer use, since readers stumbled over them: test_english.sh HGA SOURCE
set -u
hga=$1 source=$2
. "$(dirname "$0")/facts.sh"
export ARGP_HELP_FMT=rmargin=100000,no-dup-args-note

# What readers meet, a line a file, so that no phrase hides at the end of a line; then what the tool says.
for file in "$source"/{README,CONTRIBUTING}.md "$source"/docs/*.md "$source"/graph/base/hga_base.h "$source"/*/public/*.h "$source"/msgpass/*/public/*.h; do
    echo "${file#"$source"/}: $(tr -s ' \n' '  ' <"$file")"
done >prose
"$hga" help --all | awk '/^  [a-z]/ { print $1 }' >commands
while read -r command; do echo "hga help $command: $("$hga" help "$command" --all | tr -s ' \n' '  ')"; done <commands >>prose
there_is_prose() { [ "$(wc -l <prose)" -gt 70 ]; }
fact there_is_prose there_is_prose

# A pattern, and what to write instead.
cat >words <<'END'
hang(s|ing)? (on|only|little)	depends on
there and back	forward and backward
(goes|go|going|went) back (through|as|a head|together)	runs backward
(the|no) way back	the backward pass
gone on (with|from)	continued
by chance	at random
who(so)?ever	you, or who acts
somebody|anybody	who acts
shares? out	divides among
keepsakes?|limbs?|crew|kin	results, parts, threads, siblings
END
cut -d: -f1 prose >names
used() {
    while IFS=$'\t' read -r word instead; do
        grep -noiE -- ".{0,40}\b($word)\b.{0,30}" prose | while IFS=: read -r line text; do echo "$(sed -n "${line}p" names):$text -> $instead"; done
    done <words
}
used >found
fact none_of_these_words_is_used empty found
# ---- names of the sources ----

# Words of which no name is made: the field has others, which names use. Comments and strings are left out.
cat >retired <<'END'
rooms?|given|wanted|told|lent|apart	capacity or bytes, input, requested or needs_grad, declared, borrowed, disjoint
pieces?|strips?|strays?	split or run, row range, columns without rows
gift|tray|brings|brought|meanings?	grad_out, staging, has, semantics
keeper|leaks|curves	cache, leaky_relu, nonlinear
END
find "$source"/{graph,kernels,msgpass,dist,builders,files,cli} -name '*.[ch]' -o -name '*.inc' | sort | while read -r file; do
    perl -0777 -ne 's{/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"}{ }gs; print "$1\n" while /\b([A-Za-z_]\w*)\b/g' "$file" | sort -u | sed "s,^,${file#"$source"/}: ,"
done >named
there_are_names() { [ "$(wc -l <named)" -gt 20000 ]; }
fact there_are_names there_are_names
retired_names() {
    while IFS=$'\t' read -r words instead; do grep -iE ": (.*_)?($words)(_.*)?\$" named | sed "s;\$; -> $instead;"; done <retired
}
retired_names >found
fact no_name_is_made_of_a_retired_word empty found
facts_end
