# What the pages of section 3 share, printed to `page`.
# Text that roff takes as it is.
function roff(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); if (s ~ /^[.']/) s = "\\&" s; return s }
# A paragraph, unless a heading came right before.
function paragraph() { if (!headed) print ".PP" > page; headed = 0 }
function heading(words) { print ".SH " (words ~ / / ? "\"" words "\"" : words) > page; headed = 1 }
# Lines with columns of their own stay as they are.
function put_text(lines, n,    i, formatted, now, owed) {
    for (i = 1; i <= n; i++) {
        now = lines[i] ~ /[^ .]  +[^ ]/ || lines[i] ~ /^  / || (formatted && lines[i] == "" && lines[i + 1] ~ /  /)
        if (now && !formatted) { paragraph(); print ".EX" > page }
        if (!now && formatted) print ".EE" > page
        if (!now && (formatted || lines[i] == "")) owed = 1
        formatted = now
        if (lines[i] == "" && !formatted) continue
        if (owed && !formatted) print ".PP" > page
        owed = headed = 0
        print lines[i] ~ /^- / && !formatted ? ".br\n" roff(lines[i]) : roff(lines[i]) > page
    }
    if (formatted) print ".EE" > page
}
