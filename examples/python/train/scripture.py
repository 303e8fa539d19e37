"""The King James Bible, as Debian's package bible-kjv has it."""

import shutil
import subprocess
import sys


def verses(where):
    """The verses from one to another, "gen1:1-rev22:21", without their numbers."""
    if not shutil.which("bible"):
        sys.exit("bible-kjv is not installed: apt install bible-kjv, or name another text, --text FILE (examples/gospels.txt is one)")
    lines = subprocess.run(["bible", "-f", where], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split(" ", 1)[1] for line in lines if " " in line]
