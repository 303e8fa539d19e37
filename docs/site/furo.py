"""Debian 12's furo, put right: furo.py FOLDER, the site's _static. Its script is a module that pages load as none; its style sheet asks a web server for another
one, and lost the rules for readers whose system is dark."""

import pathlib
import re
import sys


def main(static):
    script = static / "scripts" / "furo.js"
    text = script.read_text(encoding="utf-8")
    if text.startswith("import Gumshoe"):
        script.write_text((static / "scripts" / "gumshoe-patched.js").read_text(encoding="utf-8") + re.sub(r"(?m)^import .*$", "", text), encoding="utf-8")
    style = static / "styles" / "furo.css"
    text = style.read_text(encoding="utf-8")
    plain = pathlib.Path("/usr/share/javascript/normalize.css/normalize.css")
    asked = "@import url(/javascript/normalize.css/normalize.css);"
    if asked in text:
        text = (plain.read_text(encoding="utf-8") if plain.exists() else "") + text.replace(asked, "")
    if "prefers-color-scheme" not in text:
        dark = re.search(r'body\[data-theme="dark"\] (\{[^}]*\})', text)
        text += "\n@media not print { @media (prefers-color-scheme: dark) { body:not([data-theme=\"light\"]) " + dark.group(1) + " } }\n"
    style.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
