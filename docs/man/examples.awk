# A place where each public function is called: awk -f examples.awk HEADER.h.. PROGRAM.. (C, or Markdown with blocks of C); the first program that calls it counts.
# Writes a line "=FUNCTION PROGRAM" and behind it the lines of the call, with what stands beside them as far as the next empty line.
function set_in(i) { match(line[i], /^ */); return RLENGTH }
# May line i stand beside the call's statement, which is set in by so much?
function beside(i, indent) { return i > 0 && i <= n && line[i] ~ /[^ ]/ && set_in(i) >= indent && indent > 0 && line[i] !~ /^ *}/ }
function begins(i) { return line[i - 1] !~ /[^ ]/ || line[i - 1] ~ /[;{}:]( *\/[\/*].*)?$/ } # a statement
function put_call(name, at,    from, to, indent, i) {
    for (from = at; from > 1 && line[from - 1] ~ /[^ ;{}:]$/; from--); # where its statement begins ..
    for (to = at; to < n && line[to] !~ /[;{}]$/ && line[to] !~ /; *\/[\/*]/; to++); # .. and ends
    indent = set_in(from); first = from; last = to
    while (from > first - 2 && beside(from - 1, indent) && begins(from - 1)) from--
    while (to < last + 2 && beside(to + 1, indent)) to++
    print "=" name " " program
    for (i = from; i <= to; i++) print substr(line[i], indent + 1)
}
function put(    name) {
    for (name in wanted) { put_call(name, wanted[name]); delete function_of[name] }
    split("", wanted)
    n = 0
}
FNR == 1 { if (program != "") put(); program = FILENAME; sub(source "/", "", program); header = FILENAME ~ /\/public\/.*\.h$|hga_base\.h$/; code = FILENAME !~ /\.md$/ }
header { if ($0 ~ /^HGA_API /) pending = 1; if (pending && match($0, /hga_[a-z0-9_]+\(/)) { function_of[substr($0, RSTART, RLENGTH - 1)] = 1; pending = 0 } next }
/^```/ && FILENAME ~ /\.md$/ { put(); code = $0 == "```c"; next }
!code { next }
{
    line[++n] = $0
    if ($0 ~ /^[^ ]/ || $0 ~ /^ *(\/\/|\/?\*)/) if (FILENAME !~ /\.md$/) next # declarations, definitions, comments
    rest = $0
    sub(/\/[\/*].*/, "", rest)
    while (match(rest, /hga_[a-z0-9_]+\(/)) {
        name = substr(rest, RSTART, RLENGTH - 1)
        before = substr(rest, RSTART - 1, 1)
        rest = substr(rest, RSTART + RLENGTH)
        if (before !~ /[A-Za-z0-9_"]/ && (name in function_of) && !(name in wanted)) wanted[name] = n
    }
}
END { put() }
