"""Trees come in wherever people have them: linkages, Markdown, HTML, folders, tables of node and parent."""

import os
import pathlib
import subprocess
import sys
import time
import unittest

import hga
import numpy as np
from shared import ROOT, TOOL, refused, scratch

EXAMPLE = ROOT / "examples" / "python" / "source_folder.py"
TEXT = "# Head\n\nOne two. Three four.\n\n- five\n- six seven\n"


def ancestors(graph, token):
    """Names of a token and of what is above it."""
    parent, found = graph.parents(), []
    while token >= 0:
        found.append(graph.name(token))
        token = int(parent[token])
    return found


class Trees(unittest.TestCase):
    def test_a_linkage_is_its_clusters(self):
        g = hga.Graph.from_linkage([[0, 2, 0.5, 2], [1, 3, 0.7, 2], [4, 5, 1.0, 4]])
        self.assertEqual((g.n_tokens, g.level_sizes, g.parents().tolist()), (4, [4, 2, 1], [4, 5, 4, 5, 6, 6, -1]))
        h = g.hierarchy()
        self.assertEqual((h.coverage().once, h.coverage().more), (16, 0))
        self.assertEqual(hga.hsa(parent=g.parents(), leaves="id").graph.parents().tolist(), g.parents().tolist())

    def test_documents_have_names_and_kinds(self):
        page = "<html><head><title>Page</title></head><body><h1>Head</h1><p>One two. Three four.</p><ul><li>five</li><li>six seven</li></ul></body></html>"
        path = scratch(self) / "text.md"
        path.write_text(TEXT, encoding="utf-8")
        for g in (hga.Graph.from_markdown(TEXT), hga.Graph.from_markdown(path), hga.Graph.from_html(page), hga.Graph.from_html(page.encode())):
            words = [g.name(v) for v in range(g.n_tokens)]
            for word in ("One", "four", "five", "seven"):
                self.assertIn(word, [w.strip(".") for w in words])
            self.assertIn("word", g.kind_names)
            self.assertTrue(all(g.kind_names[k] == "word" for k in g.kinds()[: g.n_tokens]))
            self.assertEqual(g.hierarchy().coverage().once, g.n_tokens**2)

    def test_a_folder_is_its_files(self):
        root = scratch(self) / "root"
        for name in ("b/deep/x.txt", "b/a.txt", "a.txt", "c/none/"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                (root / name).write_text("")
        (root / "b" / "again").symlink_to(root)
        g = hga.Graph.from_folder(root)
        self.assertEqual([ancestors(g, v) for v in range(g.n_tokens)],
                         [["a.txt", "root"], ["a.txt", "b", "root"], ["again", "b", "root"], ["x.txt", "deep", "b", "root"]])  # fmt: skip
        self.assertEqual({g.kind_names[k] for k in g.kinds()[: g.n_tokens]}, {"file"})
        self.assertEqual(hga.Graph.from_folder(str(root)), g)

    def sources(self):
        root = scratch(self) / "root"
        for name, text in (
            ("deep/a.py", b"import os\n\n\nclass A:\n    def f(self):\n        x = 1\n\n        return x\n\n    y = 2\nz = 3\n"),
            ("deep/none.txt", b"\n  \n"), ("b.txt", "one\n\n  zwei ü  \r\n".encode()), (".hidden", b"x"), ("binary", b"a\0b"), ("latin", b"\xfc\n"),
            ("large.txt", b"x\n" * (1 << 21) + b"x"), ("empty/none", b""),
        ):  # fmt: skip
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(text)
        (root / "link").symlink_to(root / "b.txt")
        return root

    def test_a_folder_is_its_files_lines(self):
        root = self.sources()
        g = hga.Graph.from_folder(root, lines=True)
        found = sorted(ancestors(g, v) for v in range(g.n_tokens))
        has_ctags = "Universal" in os.popen("ctags --version 2>/dev/null").read()
        a, f = (["A"], ["f"]) if has_ctags else ([], [])
        file = ["a.py", "deep", "root"]
        want = [["one", "b.txt", "root"], ["zwei ü", "b.txt", "root"], ["import os", *file], ["z = 3", *file], ["class A:", *a, *file], ["y = 2", *a, *file]]
        self.assertEqual(found, sorted([*want, *([line, *f, *a, *file] for line in ("def f(self):", "x = 1", "return x"))]))
        self.assertEqual({g.kind_names[k] for k in g.kinds()}, {"line", "file", "folder"} | ({"function"} if has_ctags else set()))
        os.mkfifo(root / "pipe")  # nobody writes to it
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(root)
        for path in (".", "deep/..", root):
            g = hga.Graph.from_folder(path, lines=True)
            self.assertEqual(sorted(ancestors(g, v) for v in range(g.n_tokens)), found, path)
        refused(self, "lines is 2, neither True nor False", lambda: hga.Graph.from_folder(root, lines=2))
        refused(self, "empty: has no file of text", lambda: hga.Graph.from_folder(root / "empty", lines=True))

    @unittest.skipUnless(EXAMPLE.exists() and os.environ.get("HGA_TOOL"), "the example or the tool is not here")
    def test_the_tool_reads_what_the_example_writes(self):
        root = self.sources()
        out = root.parent / "sources.json"
        subprocess.run([sys.executable, EXAMPLE, root, "-o", out], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([TOOL, "inspect", out, "--row", "0"], check=True, capture_output=True, text=True)
        self.assertIn("import os", out.read_text())
        self.assertIn("one", done.stdout)
        subprocess.run([TOOL, "export", root, "-o", out], check=True)
        its, own = hga.Graph.read(out), hga.Graph.from_folder(root)
        self.assertEqual([its.name(v) for v in range(its.n_nodes)], [own.name(v) for v in range(own.n_nodes)])

    def test_a_table_names_nodes_and_parents(self):
        path = scratch(self) / "tree.csv"
        path.write_text('node,parent\nroot,\nleft,root\n"a, b",left\nc,left\n\nd,root\n', encoding="utf-8")
        g = hga.Graph.from_parents(path)
        self.assertEqual([ancestors(g, v) for v in range(g.n_tokens)], [["a, b", "left", "root"], ["c", "left", "root"], ["d", "root"]])
        path.write_text("1,3\n2,3\n3,-1\n", encoding="utf-8")
        self.assertEqual(hga.Graph.from_parents(str(path)).parents().tolist(), [2, 2, -1])

    def test_a_tables_first_line_says_which_column_is_the_parent(self):
        path = scratch(self) / "tree.csv"
        want = [["y", "x", "top"]]
        for header in ("node,parent", "id,parent", "child,parent", "Child , Parent", "name,parent_id", "x_id,Parent Name"):
            for before in ("", "\n", " \n,\n\n"):
                path.write_text(f"{before}{header}\nx,top\n\ny,x\n", encoding="utf-8")
                g = hga.Graph.from_parents(path)
                self.assertEqual([ancestors(g, v) for v in range(g.n_tokens)], want)
                path.write_text(f"{before}{','.join(reversed(header.split(',')))}\ntop,x\nx,y\n,top\n", encoding="utf-8")
                g = hga.Graph.from_parents(path)
                self.assertEqual([ancestors(g, v) for v in range(g.n_tokens)], want)
        path.write_text("x,top\ny,x\n", encoding="utf-8")  # without names of columns
        self.assertEqual([ancestors(hga.Graph.from_parents(path), 0)], want)
        for table, words in (
            ("employee,manager\nAnn,Bob\nBob,\n", "line 1: nothing else is called 'employee' or 'manager': if these are columns, call one of them parent; if they are nodes, "),
            ("source,target\n1,2\n2,-1\n", "line 1: nothing else is called 'source' or 'target'"),
            ("\nparent,Parents\n1,2\n", "line 2: both columns, 'parent' and 'Parents', are called parents"),
            ("id,parent,name\n1,2,x\n", "line 1: 'id,parent,name' is not a node and its parent"),
            ("parent,child\nx,\n", "line 2: 'x,' is not a node and its parent"),
        ):
            path.write_text(table, encoding="utf-8")
            refused(self, words, lambda: hga.Graph.from_parents(path))
        for table, names in (("a,b\n", ["a", "b"]), ("a,\nb,\n", ["a", "b"]), ("7,9\n8,6\n", ["7", "8", "9", "6"]), ("node,parent\na,b\nc,d\n", ["a", "c", "b", "d"])):
            path.write_text(table, encoding="utf-8")
            g = hga.Graph.from_parents(path)
            self.assertEqual([g.name(v) for v in range(g.n_nodes)], names)

    def test_what_git_lfs_has_not_fetched_is_said(self):
        path = scratch(self) / "tree.csv"
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", encoding="utf-8")
        for read in (hga.Graph.from_parents, hga.Graph.from_markdown, hga.Graph.from_html, hga.Graph.read):
            with self.assertRaisesRegex(hga.Error, "tree.csv: is a pointer of Git LFS in place of the file: `git lfs pull` fetches that"):
                read(path)

    def test_a_table_may_begin_with_the_mark_of_unicode(self):
        path = scratch(self) / "tree.csv"
        path.write_text("node,parent\nroot,\na,root\n", encoding="utf-8-sig")
        self.assertEqual(ancestors(hga.Graph.from_parents(path), 0), ["a", "root"])

    def test_a_folder_may_be_deeper_than_pythons_stack(self):
        folder, here = scratch(self), os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(folder)
        deep = 1500
        for _ in range(deep):
            os.mkdir("d")
            os.chdir("d")
        pathlib.Path("file").write_text("")
        os.chdir(folder)
        g = hga.Graph.from_folder(folder)
        self.assertEqual((g.n_nodes, g.n_tokens, g.name(0), g.name(1)), (deep + 2, 1, "file", "d"))
        for _ in range(deep):  # what removes it is recursive, too
            os.chdir("d")
        os.remove("file")
        for _ in range(deep):
            os.chdir("..")
            os.rmdir("d")

    def test_families_see_each_other_whatever_their_numbers(self):
        rng = np.random.default_rng(6)
        for seed in range(30):
            n = int(rng.integers(1, 60))
            parent = np.array([int(rng.integers(max(-1, v - (3 if seed % 2 else n)), v)) if v else -1 for v in range(n)])
            order = rng.permutation(n) if seed % 3 else np.arange(n)
            told = np.full(n, -1)
            told[order] = np.where(parent < 0, -1, order[parent])
            g = hga.Graph.from_parents(told)
            up, edges = g.parents(), g.edges()
            want = {(u, v) for v in range(n) for u in range(n) if (up[u] == up[v] >= 0 and u != v) or (u == v and v < g.n_tokens)}
            self.assertEqual({(int(u), int(v)) for u, v, _ in edges}, want)
            self.assertEqual(len(edges), len(want))

    def test_a_large_family_is_blocks(self):
        n = 10000
        before = time.process_time()
        g = hga.Graph.from_parents([-1] + [0] * n)
        self.assertEqual(g.n_edges(), n * n)
        self.assertLess(time.process_time() - before, 5)  # one by one they took a quarter of an hour
        self.assertLess(g.hierarchy().inspect()["bytes"], 100 * n)

    def test_what_is_no_tree_is_refused(self):
        folder = scratch(self)
        table = folder / "tree.csv"
        (folder / "empty").mkdir()
        for error, text, f in (
            (ValueError, r"a linkage has shape \(3,\): \[merges\]\[4\]", lambda _: hga.Graph.from_linkage([1, 2, 3])),
            (hga.Error, "merge 0 joins 0, which merge 0 has joined", lambda _: hga.Graph.from_linkage([[0, 0, 1, 2]])),
            (TypeError, "Markdown comes as text or as a pathlib.Path, not as 3", lambda _: hga.Graph.from_markdown(3)),
            (FileNotFoundError, "no such file", lambda _: hga.Graph.from_html(folder / "no such file")),
            (hga.Error, "word", lambda _: hga.Graph.from_markdown("")),
            (ValueError, "not a folder", lambda _: hga.Graph.from_folder(table)),
            (ValueError, "empty: has no files", lambda _: hga.Graph.from_folder(folder / "empty")),
            (ValueError, "line 2: 'b' is not a node and its parent", lambda _: table.write_text("a,\nb\n") and hga.Graph.from_parents(table)),
            (ValueError, "line 3: node 'b' has a parent already", lambda _: table.write_text("a,\nb,a\nb,a\n") and hga.Graph.from_parents(table)),
            (ValueError, "has no nodes", lambda _: table.write_text("node,parent\n") and hga.Graph.from_parents(table)),
            (ValueError, "line 2: no node is called -1", lambda _: table.write_text("a,\n-1,a\n") and hga.Graph.from_parents(table)),
            (ValueError, "tree.csv: is not UTF-8: .* at byte 1", lambda _: table.write_bytes(b"a\xe9,\n") and hga.Graph.from_parents(table)),
            (ValueError, "tree.csv, line 1: field larger", lambda _: table.write_text("a" * 200000 + ",\n") and hga.Graph.from_parents(table)),
            (ValueError, "a linkage: could not convert", lambda _: hga.Graph.from_linkage([["a", "b", "c", "d"]])),
            (ValueError, r"parents have shape \(1, 2\): one list is needed", lambda _: hga.Graph.from_parents([[-1, 0]])),
            (ValueError, "Markdown: '\\\\udc80' is not a character of UTF-8", lambda _: hga.Graph.from_markdown("a \udc80")),
            (ValueError, "parents: node 'b' is its own ancestor", lambda _: table.write_text("a,b\nb,c\nc,b\n") and hga.Graph.from_parents(table)),
            (ValueError, "parents: node 1 is its own ancestor", lambda _: hga.Graph.from_parents([1, 2, 1])),
            (ValueError, "parents: node 1 is its own ancestor", lambda _: hga.Graph.from_edges([0], [1], 3, parents=[1, 2, 1])),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                f(None)
