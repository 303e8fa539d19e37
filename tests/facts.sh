# Sourced by the test scripts after they have taken their arguments: a scratch folder to work in, Debian's programs, and facts.
# `fact NAME COMMAND..` is one fact; the command's exit status says whether it is true. A script's last line is `facts_end`.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PYTHONDONTWRITEBYTECODE=1 # nothing is left beside the sources
tests_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
: >stdout
: >stderr
: >said
n_facts=0 n_failed=0

fact() {
    local name=$1
    shift
    n_facts=$((n_facts + 1))
    if ! "$@" >said 2>&1; then
        n_failed=$((n_failed + 1))
        echo "not true: $name ($*)"
        sed 's/^/    /' said | head -20
    fi
}
facts_end() {
    echo "$n_facts facts, $n_failed not true"
    [ "$n_facts" -gt 0 ] && [ $n_failed = 0 ]
}

# ---- what facts are made of ----

equal() { [ "$1" = "$2" ] || { echo "$1 is not $2"; false; }; }
below() { [ "$1" -lt "$2" ] || { echo "$1 is not less than $2"; false; }; }
same_bytes() { cmp "$1" "$2"; }
# holds FILE REGEX, shows FILE TEXT, lacks FILE REGEX
holds() { grep -qE -- "$2" "$1" || { echo "$1 does not hold $2"; head -30 "$1"; false; }; }
shows() { grep -qF -- "$2" "$1" || { echo "$1 does not show $2"; false; }; }
lacks() { ! grep -noE -- "$2" "$1"; }
empty() { [ ! -s "$1" ] || { cat "$1"; false; }; }
# Every line of the first file is one of the second.
missing() { sort -u "$1" >wanted && sort -u "$2" >have && comm -23 wanted have >lacking && empty lacking; }
silent() { "$@" 2>stderr && [ ! -s stderr ] || { cat stderr; false; }; }
# exits STATUS COMMAND..
exits() {
    local want=$1 got
    shift
    "$@"
    got=$?
    [ $got = "$want" ] || { echo "exit status $got, not $want"; false; }
}
# refused STATUS TEXT COMMAND..: that exit status, one line on stderr that holds TEXT, nothing on stdout, no new file here or in the folders below
refused() {
    local want=$1 text=$2 got before
    shift 2
    before=$(ls -AR)
    "$@" >stdout 2>stderr </dev/null
    got=$?
    [ $got = "$want" ] || { echo "exit status $got, not $want"; cat stderr; return 1; }
    [ "$(wc -l <stderr)" = 1 ] && grep -qF -- "$text" stderr || { echo "stderr does not say: $text"; cat stderr; return 1; }
    [ ! -s stdout ] || { echo "something on stdout"; return 1; }
    equal "$(ls -AR)" "$before"
}

# in_browser JOBS: pages opened in Chromium by browser.py; each line that it says is a fact. SHOTS=FOLDER keeps screenshots
in_browser() {
    local truth name
    python3 "$tests_folder/browser.py" ${SHOTS:+--shots "$SHOTS"} <"$1" >seen 2>browser.log
    case $? in
    0) ;;
    77) echo "skipped: what only a browser can show, since chromium is not installed" && return ;;
    *) fact "${1}_were_opened" empty browser.log ;;
    esac
    fact "${1}_were_opened_to_the_last" equal "$(tail -1 seen)" end
    while read -r truth name; do
        [ "$truth" = end ] || fact "${name%%:*}" equal "$truth ${name#*: }" "true ${name#*: }"
    done <seen
}
