# A public header as a manual page of section 3, hga_plan.h (3): awk -v day=DAY -v version=VERSION -f roff.awk -f header.awk hga_plan.h
# Its first comment is the description; after that comments are text and declarations are code, in the header's order.
BEGIN { page = "/dev/stdout" }
function end_code() { if (in_code) print ".EE"; in_code = 0 }
function put_comment(lines, n) { end_code(); paragraph(); headed = 1; put_text(lines, n) }
function put_head(lines, n,    i, first) {
    first = lines[1]
    for (i = 2; i <= n && first !~ /[.;:]( |$)/; i++) first = first " " lines[i]
    sub(/^[a-z_]*\.h: */, "", first); sub(/^[a-z_]*\.h: */, "", lines[1])
    sub(/[.;:]( .*)?$/, "", first)
    lines[1] = toupper(substr(lines[1], 1, 1)) substr(lines[1], 2)
    name = FILENAME; sub(/.*\//, "", name)
    printf ".TH %s 3 %s \"hga %s\" \"hga in C\"\n.SH NAME\n%s \\- %s\n", toupper(roff(name)), day, version, roff(name), roff(first)
    printf ".SH SYNOPSIS\n.B #include <%s>\n.PP\n.B cc .. $(pkg\\-config \\-\\-cflags \\-\\-libs hga)\n.SH DESCRIPTION\n", name
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
/^HGA_API / && match($0, /hga_[a-z0-9_]+\(/) { functions[++n_functions] = substr($0, RSTART, RLENGTH - 1) }
/^$/ { if (in_code) blank = 1; next }
{
    if (!in_code) { paragraph(); print ".EX"; in_code = 1; blank = 0 }
    if (blank) print ""
    blank = 0
    line = $0; gsub(/HGA_API /, "", line); sub(/ HGA_PRINTF\([0-9], [0-9]\)/, "", line); print roff(line)
}
function put_functions(    i) {
    for (i = 1; i <= n_functions; i++) printf "%s.BR %s (3)", i == 1 ? ".SH FUNCTIONS\n" : ",\n", functions[i]
    if (n_functions) print ""
}
END { end_code(); put_functions() }
