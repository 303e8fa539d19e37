# A public header as a manual page of section 3: awk -v day=DAY -v version=VERSION -v functions="a, b" -f header.awk hga_plan.h
# Its first comment is the description; after that comments are text and declarations are code, in the header's order.
function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.']/) s = "\\&" s; return s }
function end_code() { if (in_code) print ".EE"; in_code = 0 }
# A paragraph, unless a heading came right before.
function paragraph() { if (!headed) print ".PP"; headed = 0 }
# Lines with columns of their own stay as they are.
function put_text(lines, n,    i, formatted, now) {
    for (i = 1; i <= n; i++) {
        now = lines[i] ~ /[^ .]  +[^ ]/ || lines[i] ~ /^  / || (formatted && lines[i] == "" && lines[i + 1] ~ /  /)
        if (now && !formatted) { paragraph(); print ".EX" }
        if (!now && formatted) print ".EE\n.PP"
        formatted = now
        if (lines[i] != "" || formatted) print lines[i] ~ /^- / && !formatted ? ".br\n" roff(lines[i]) : roff(lines[i])
        headed = 0
    }
    if (formatted) print ".EE"
}
function put_comment(lines, n) { end_code(); paragraph(); headed = 1; put_text(lines, n) }
function put_head(lines, n,    i, first) {
    first = lines[1]
    for (i = 2; i <= n && first !~ /[.;:]( |$)/; i++) first = first " " lines[i]
    sub(/^[a-z_]*\.h: */, "", first); sub(/^[a-z_]*\.h: */, "", lines[1])
    sub(/[.;:]( .*)?$/, "", first)
    lines[1] = toupper(substr(lines[1], 1, 1)) substr(lines[1], 2)
    name = FILENAME; sub(/.*\//, "", name); sub(/\.h$/, "", name)
    printf ".TH %s 3 %s \"hga %s\" \"hga in C\"\n.SH NAME\n%s%s \\- %s\n", toupper(roff(name)), day, version, roff(name), functions == "" ? "" : ", " roff(functions), roff(first)
    printf ".SH SYNOPSIS\n.B #include <%s.h>\n.PP\n.B cc .. $(pkg\\-config \\-\\-cflags \\-\\-libs hga)\n.SH DESCRIPTION\n", name
    headed = 1
    put_text(lines, n)
    print ".SH DECLARATIONS"
    seen_head = headed = 1
}
function done_comment() { if (!seen_head) put_head(text, n); else put_comment(text, n); in_comment = 0 }
/^\/\* ---- / { end_code(); line = $0; sub(/^\/\* -+ */, "", line); sub(/ *-* *\*\/ *$/, "", line); print ".SS " roff(toupper(substr(line, 1, 1)) substr(line, 2)); headed = 1; next }
/^\/\*/ && !in_comment { in_comment = 1; n = 0; sub(/^\/\* */, "") }
in_comment {
    line = $0; last = line ~ /\*\/ *$/
    sub(/ *\*\/ *$/, "", line); sub(/^   /, "", line)
    text[++n] = line
    if (last) done_comment()
    next
}
!seen_head { next }
/^#(ifndef|ifdef|endif|if|else)/ { cplusplus = /__cplusplus/ ? 1 : /^#endif/ ? 0 : cplusplus; next }
/^#define HGA_[A-Z]*_H$/ || cplusplus { next }
/^#include/ || /^#define HGA_(API|PRINTF)/ { next }
/^$/ { if (in_code) blank = 1; next }
{
    if (!in_code) { paragraph(); print ".EX"; in_code = 1; blank = 0 }
    if (blank) print ""
    blank = 0
    line = $0; gsub(/HGA_API /, "", line); sub(/ HGA_PRINTF\([0-9], [0-9]\)/, "", line); print roff(line)
}
END { end_code() }
