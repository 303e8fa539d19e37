# A manual page of section 3 for each public function: awk -v day=DAY -v version=VERSION -v folder=FOLDER -f roff.awk -f function.awk EXAMPLES HEADER.h..
# What it does is its comment in the header; what it takes and returns follows from its declaration, the example is a line of EXAMPLES (examples.awk).
function name_of(declaration) { match(declaration, /hga_[a-z0-9_]+\(/); return substr(declaration, RSTART, RLENGTH - 1) }
# As much of a comment as a title has room for: up to the first . ; or : that is not in brackets.
function sentence(text,    i, c, depth) {
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        depth += (c == "(" || c == "[") - (c == ")" || c == "]")
        if (c ~ /[.;:]/ && !depth && substr(text, i - 1, 1) != "." && substr(text, i + 1, 1) ~ /^ ?$/) return substr(text, 1, i - 1)
    }
    return text
}
function forget() { n_text = 0; joined = "" }
function keep_type(name,    i) { type_body[name] = body; type_says[name] = joined; forget() }

FNR == 1 { at_examples = FILENAME !~ /\.h$/; header = FILENAME; sub(/.*\//, "", header); forget(); pending = in_type = in_comment = 0 }
at_examples && /^=/ { example_of = substr($1, 2); from[example_of] = $2; next }
at_examples { example[example_of] = example[example_of] roff($0) "\n"; next }

/^\/\* ----/ { forget(); next }
/^\/\*/ && !in_comment && !in_type { forget(); in_comment = 1 }
in_comment {
    line = $0; last = line ~ /\*\/ *$/
    sub(/^\/\* */, "", line); sub(/ *\*\/ *$/, "", line); sub(/^   /, "", line)
    text[++n_text] = line; joined = joined (joined == "" ? "" : " ") line
    if (last) in_comment = 0
    next
}
/^HGA_API / { pending = 1; declaration = "" }
pending {
    line = $0; sub(/^HGA_API /, "", line); sub(/ HGA_PRINTF\([0-9], [0-9]\)/, "", line); sub(/^ +/, "", line)
    declaration = declaration (declaration == "" ? "" : " ") line
    if (line ~ /;$/) {
        pending = 0; f = name_of(declaration); functions[++n_functions] = f
        declared[f] = declaration; declared_in[f] = header; says[f] = joined
        for (i = 1; i <= n_text; i++) described[f, i] = text[i]
        described[f, 0] = n_text; forget()
    }
    next
}
/^typedef struct [a-z_0-9]+ [a-z_0-9]+;/ { name = $4; sub(/;/, "", name); opaque[name] = 1; forget(); next }
/^typedef (int32_t|int64_t) / { name = $3; sub(/;.*/, "", name); line = $0; sub(/.*\/\* */, "", line); sub(/ *\*\/.*/, "", line); type_says[name] = line; next }
/^typedef [a-z_ 0-9]+ \*?\(\*/ { match($0, /\(\*[a-z_0-9]+/); name = substr($0, RSTART + 2, RLENGTH - 2); body = roff($0) "\n"; if ($0 ~ /;$/) keep_type(name); else in_type = 1; next }
/^typedef (struct|enum) [a-z_0-9]+ \{/ { name = $3; body = roff($0) "\n"; if ($0 ~ /;$/) keep_type(name); else in_type = 1; next }
in_type { body = body roff($0) "\n"; if ($0 ~ /^}.*;$/ || ($0 ~ /\);$/ && body !~ /\{/)) { in_type = 0; keep_type(name) } next }
/^$/ { forget() }

# What an argument of a type is to who calls.
function argument_says(type, stars, constant, word,    gives_back) {
    if (type == "hga_allocator") return "where memory comes from; NULL: the C library"
    if (word == "context") return "handed on to the function that you give"
    if (type == "char" && stars == 2 && !constant) return "gets a text, which is yours: hga_text_free frees it"
    if (type == "char" && stars == 1 && constant) return "a text, read during the call"
    if (type in opaque) {
        if (stars == 2 && !constant) return "gets a new " type ", which is yours: " type "_destroy gives it back"
        return stars == 2 ? "as many of them, read during the call" : constant ? "read; it stays yours" : "the call may change it; it stays yours"
    }
    if (stars && constant) return "read during the call" ((type in type_body) ? ", see below" : "")
    gives_back = (type "_clear") in declared ? "; " type "_clear frees what it then holds" : ""
    if (stars) return "the call writes to it" ((type in type_body) ? ", see below" gives_back : "")
    if (type in type_body) return type_body[type] ~ /^typedef enum/ ? "one of the values below" : "see below"
    return type ~ /^(float|double)$/ ? "a number" : "a whole number"
}
function shows(type) { if ((type in type_body) && !(type in shown)) { shown[type] = 1; order[++n_shown] = type } }
function put_argument(what,    word, type, stars, constant) {
    word = type = what
    sub(/\[.*/, "", word); sub(/.*[ *]/, "", word)
    constant = what ~ /^const /; stars = gsub(/\*/, "*", what) + (what ~ /\[/)
    sub(/^const /, "", type); sub(/^struct /, "", type); sub(/[ *].*/, "", type)
    print ".TP\n.B " roff(what) "\n" (what == "..." ? "what the format asks for, as in printf(3)" : argument_says(type, stars, constant, word)) "." > page
    shows(type)
}
function put_arguments(f,    inside, list, n, i) {
    inside = declared[f]; sub(/^[^(]*\(/, "", inside); sub(/\);$/, "", inside)
    if (inside == "void") { print "None." > page; return }
    n = split(inside, list, /, */)
    for (i = 1; i <= n; i++) put_argument(list[i])
}
function put_returns(f,    type) {
    type = substr(declared[f], 1, index(declared[f], f "(") - 1); sub(/ +$/, "", type)
    if (type == "void") print "Nothing." > page
    else if (type == "hga_status") print "HGA_OK, which is 0, or a status that says what kind of failure it was;\n.BR hga_error_detail (3)\nsays which." > page
    else {
        print roff(type) ": what DESCRIPTION says." > page
        sub(/^const /, "", type); sub(/[ *].*/, "", type)
        shows(type)
    }
}
function put_types(    i) {
    heading("TYPES")
    for (i = 1; i <= n_shown; i++) {
        if (type_says[order[i]] != "") { paragraph(); print roff(type_says[order[i]]) > page }
        paragraph(); printf ".EX\n%s.EE\n", type_body[order[i]] > page
    }
}
function put_see_also(f,    words, name) {
    heading("SEE ALSO")
    words = says[f]
    while (match(words, /hga_[a-z0-9_]+/)) {
        name = substr(words, RSTART, RLENGTH); words = substr(words, RSTART + RLENGTH)
        if ((name in declared) && name != f && !((f, name) in seen)) { seen[f, name] = 1; print ".BR " name " (3)," > page }
    }
    print ".BR " declared_in[f] " (3)" > page
}
function put_page(f,    i, words) {
    page = folder "/" f ".3"; split("", shown); n_shown = 0
    printf ".TH %s 3 %s \"hga %s\" \"hga in C\"\n.SH NAME\n%s \\- %s\n", toupper(f), day, version, f, roff(sentence(says[f])) > page
    printf ".SH SYNOPSIS\n.B #include <%s>\n.PP\n.EX\n%s\n.EE\n", declared_in[f], roff(wrapped(declared[f])) > page
    heading("DESCRIPTION")
    for (i = 1; i <= described[f, 0]; i++) words[i] = described[f, i]
    put_text(words, described[f, 0])
    heading("ARGUMENTS"); put_arguments(f)
    heading("RETURN VALUE"); put_returns(f)
    if (n_shown) put_types()
    if (f in example) printf ".SH EXAMPLE\nFrom %s:\n.PP\n.EX\n%s.EE\n", roff(from[f]), example[f] > page
    put_see_also(f)
    close(page)
}
# A declaration in lines of at most 76 columns, broken behind commas.
function wrapped(s,    out, cut, indent) {
    indent = ""
    while (length(indent s) > 76 && match(substr(indent s, 1, 76), /.*, /)) {
        cut = RLENGTH
        out = out substr(indent s, 1, cut - 1) "\n"; s = substr(indent s, cut + 1); indent = "    "
        if (out ~ /^ *$/) break
    }
    return out indent s
}
END { for (i = 1; i <= n_functions; i++) put_page(functions[i]) }
