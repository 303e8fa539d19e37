# The public headers' comments as Doxygen takes them, so that headers read as plain C.
#  - the first comment of a file is about the file
#  - a comment that begins a line is about what follows, as far as the next comment or empty line
#  - a comment after a declaration is about that declaration
#  - section headings (---- like this ----) are about nothing
function escaped(text) { gsub(/\\/, "\\\\", text); gsub(/[#@%<>&]/, "\\\\&", text); return text }
function begins_comment() { return $0 ~ /^ *\/\*/ && $0 !~ /^ *\/\* ----/ }
/^ *\/\* ----/ { comment = ""; print ""; next }
!in_comment && begins_comment() {
    in_comment = 1
    comment = ""
    text = $0
    sub(/^ *\/\* */, "", text)
    if (!seen_file) text = "\\file\n" text
    seen_file = 1
    sub(/\\file\n[a-z_]*\.h: */, "\\file\n", text)
    $0 = text
    first = 1
}
in_comment {
    line = $0
    if (!first) sub(/^ +/, "", line) # Markdown takes what is set in for code
    done = line ~ /\*\/ *$/
    sub(/ *\*\/ *$/, "", line)
    if (first && line ~ /^\\file/) line = "\\file\n" escaped(substr(line, 7)); else line = escaped(line)
    comment = comment (comment == "" ? "" : "\n") line
    first = 0
    if (done) { in_comment = 0; printf "/** %s */\n", comment; fresh = 1 }
    next
}
/^$/ { comment = "" }
# A neighbour in the same paragraph without a comment of its own has the paragraph's.
/^(HGA_API|typedef|enum|#define) / {
    if (comment != "" && !fresh) printf "/** %s */\n", comment
    fresh = 0
}
# Members of what has no name are the struct's.
/^ +HGA_EXTENSION (union|struct) \{/ { unnamed++; next }
unnamed && /^ +\};/ { unnamed--; next }
# The rows of a list that is a macro.
/^ +X\(/ { sub(/ *\/\*.*\*\/ */, " "); print; next }
/[,;{)0-9A-Z] +\/\* / && !/^ *\/\*/ {
    at = index($0, "/* ")
    text = substr($0, at + 3)
    if (text ~ /\*\/ *\\?$/) { sub(/ *\*\/.*$/, "", text); print substr($0, 1, at - 1) "/**< " escaped(text) " */"; next }
    print substr($0, 1, at - 1) "/**< " escaped(text); in_tail = 1; next
}
in_tail { if ($0 ~ /\*\//) in_tail = 0; print escaped($0); next }
{ print }
