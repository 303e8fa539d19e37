# The .md pages as Doxygen takes them: awk -v pages=" a.md b.md " -f pages.awk FILE. Links to what is no page of the site are their words alone.
/^ *```/ { code = !code }
code { print; next }
{
    rest = $0; line = ""
    while (match(rest, /!?\[[^][]*\]\([^)]*\)/)) {
        line = line substr(rest, 1, RSTART - 1)
        link = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
        image = link ~ /^!/
        words = link; sub(/^!?\[/, "", words); sub(/\]\(.*/, "", words)
        target = link; sub(/.*\]\(/, "", target); sub(/\)$/, "", target)
        file = target; sub(/#.*/, "", file); sub(/.*\//, "", file)
        if (image) line = line "<img src=\"" file "\" alt=\"" words "\"/>"
        else if (target ~ /^https?:/) line = line link
        else if (target ~ /\.md$/ && target !~ /(^|\/)(README|CONTRIBUTING)\.md$/ && index(pages, " " file " ")) line = line "[" words "](" target ")"
        else line = line words
    }
    # Outside of code an @ is a command.
    n = split(line rest, part, "`")
    for (i = 1; i <= n; i++) {
        if (i % 2) gsub(/@FILE/, "\\@FILE", part[i])
        printf "%s%s", part[i], i < n ? "`" : "\n"
    }
}
