"""A folder of sources as a graph: folders, files, functions and classes (by universal-ctags, where it is there), and lines, which
are the tokens.

    python3 examples/python/source_folder.py FOLDER -o sources.json

In the hierarchy that is written siblings attend to each other and lines to themselves, too: for ``hga view sources.json``,
``inspect``, ``export`` and ``attend graph=sources.json``. ``hga.hsa(parent=graph.parents(), leaves="id")`` is HSA on the tree."""

import argparse
import sys

import hga


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("-o", dest="out", metavar="FILE.json", required=True)
    a = p.parse_args()
    try:
        graph = hga.Graph.from_folder(a.folder, lines=True)
        graph.hierarchy().write(a.out)
    except hga.Error as e:
        sys.exit(str(e))
    print(f"{graph.n_tokens} lines in {graph.n_nodes - graph.n_tokens} functions, files and folders")


if __name__ == "__main__":
    main()
