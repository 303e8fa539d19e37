#!python
"""The command `hga` of a wheel: it starts the tool, which lies in the package. pip puts its own Python into the first line."""

import importlib.util
import os
import sys


def main():
    found = importlib.util.find_spec("hga")
    for folder in found.submodule_search_locations if found else ():
        tool = os.path.join(folder, "bin", "hga")
        if os.path.exists(tool):
            os.execv(tool, ["hga", *sys.argv[1:]])
    sys.exit("hga: the Python package hga is not here, or has no tool: install it again with pip")


main()
