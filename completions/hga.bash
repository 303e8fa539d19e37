# Bash completion of hga: subcommands, options, variants and their parameters, all taken from what the tool's own help says.
# shellcheck shell=bash disable=SC2207

# Help of everything, every option on one line.
_hga_help() { ARGP_HELP_FMT=rmargin=100000,no-dup-args-note command hga help "$@" --all 2>/dev/null; }

_hga_subcommands() { _hga_help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'; }

# Long options, `=` after those that take a value.
_hga_options() { _hga_help "$1" | sed -n 's/^ *\(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*=\{0,1\}\).*/\2/p'; }

# The words that an option takes, where its help begins with them: "ref, avx2 or avx512: the instruction set": _hga_words SUBCOMMAND OPTION
_hga_words() {
    _hga_help "$1" | sed -nE "s/^ *(-[a-zA-Z], )?$2=[A-Z]+ +(([a-z0-9]+(, | or ))+[a-z0-9]+): .*/\2/p" | sed 's/, / /g; s/ or / /g' | tr ' ' '\n'
}

# "bpt: BP-Transformer; ..", with graph= for graph=FILE. Subcommands that take one say so in their help.
_hga_variants() {
    case " $(_hga_help "$1") " in *'Variants ('*) ;; *) return ;; esac
    command hga variants 2>/dev/null | sed -n 's/^\([a-z][a-z-]*=\{0,1\}\)[A-Z]*: .*/\1/p'
}

# NAME= of the parameters of a variant, and the words of those that are choices: _hga_parameters SUBCOMMAND VARIANT
_hga_parameters() {
    command hga variants 2>/dev/null | awk -v variant="${2%%=*}" '
        /^[a-z]/ { name = $1; sub(/[:=].*/, "", name); on = name == variant; next }
        on && /^  [a-z]/ { split($1, part, "="); print part[1] "=" }
        on && /^  [a-z-]*=0\|1/ { print part[1] "=0\n" part[1] "=1" }
        # "structure=WORD (default: neighbours)  neighbours (section 5) or siblings (appendix A)"
        on && /=WORD/ {
            text = $0; sub(/^  [^ ]* *(\(default: [^)]*\))? */, "", text); sub(/^.*: /, "", text); gsub(/\([^)]*\)/, "", text); gsub(/,| or /, " ", text)
            n = split(text, word, / +/); for (i = 1; i <= n; i++) if (word[i] != "") print part[1] "=" word[i]
        }'
}

# The first of the words that is a variant: _hga_variant_among SUBCOMMAND WORD..
_hga_variant_among() {
    local known word
    known=" $(_hga_variants "$1" | tr '\n' ' ')"
    for word in "${@:2}"; do
        case $known in *" $word "* | *" ${word%%=*}= "*) echo "$word"; return ;; esac
    done
}

# Files and folders, after what stands before their name.
_hga_files() { compgen -P "$1" -f -- "$2"; }

# What may be typed: _hga_candidates WORD hga SUBCOMMAND .. (the words before it)
_hga_candidates() {
    local word=$1 value=$1 subcommand=${3-} option='' prefix=''
    shift
    if [ $# = 1 ]; then
        compgen -W "$(_hga_subcommands; printf '%s\n' help version --version --help)" -- "$word"
        return
    elif [ "$subcommand" = help ]; then
        [ $# -gt 2 ] || compgen -W "$(_hga_subcommands; _hga_variants build)" -- "$word"
        [ $# -le 2 ] || compgen -W --all -- "$word"
        return
    fi
    case $word in
    --*=*) option=${word%%=*} value=${word#*=} prefix=$option= ;;
    *) case ${*: -1} in -p | --*) option=${*: -1} ;; -?) option=-o ;; esac ;;
    esac
    # The word after an option without a value is an argument.
    case $option in --*) _hga_options "$subcommand" | grep -qx -- "$option=" || option='' ;; esac
    case $option in
    -p | --parameter)
        compgen -P "$prefix" -W "$(_hga_parameters "$subcommand" "$(_hga_variant_among "$subcommand" "${@:3}")")" -- "$value"
        case $value in *=@*) _hga_files "$prefix${value%%@*}@" "${value#*@}" ;; esac ;;
    --variants) compgen -P "$prefix" -W "$(_hga_variants build)" -- "$value" ;;
    --peers) compgen -P "$prefix" -W $'openblas\npasses\ngraphblas\nall\nnone' -- "$value" ;;
    --*)
        local words
        words=$(_hga_words "$subcommand" "$option")
        if [ -n "$words" ]; then compgen -P "$prefix" -W "$words" -- "$value"; else _hga_files "$prefix" "$value"; fi ;;
    -*) _hga_files "$prefix" "$value" ;;
    *)
        case $word in
        -*) compgen -W "$(_hga_options "$subcommand")" -- "$word" ;;
        graph=*) _hga_files graph= "${word#graph=}" ;;
        *) compgen -W "$(_hga_variants "$subcommand")" -- "$word"; _hga_files '' "$word" ;;
        esac ;;
    esac
}

_hga() {
    local line=${COMP_LINE:0:COMP_POINT} word words IFS=$' \t\n'
    word=${line##* }
    read -ra words <<<"${line% *}"
    IFS=$'\n'
    COMPREPLY=($(_hga_candidates "$word" "${words[@]}"))
    # Readline breaks words at `=` and replaces what follows the last one.
    case $COMP_WORDBREAKS,$word in *=*,*=*) COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*=}"}"}") ;; esac
    case ${COMPREPLY[*]-} in *=) compopt -o nospace 2>/dev/null || true ;; esac
}

complete -o filenames -F _hga hga
