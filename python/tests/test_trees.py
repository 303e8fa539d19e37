"""Trees come in wherever people have them: linkages, Markdown, HTML, folders, tables of node and parent."""

import pathlib
import tempfile
import unittest

import hga
import numpy as np

TEXT = "# Head\n\nOne two. Three four.\n\n- five\n- six seven\n"


def ancestors(graph, token):
    """Names of a token and of what is above it."""
    parent, found = graph.parents(), []
    while token >= 0:
        found.append(graph.name(token))
        token = int(parent[token])
    return found


class Trees(unittest.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def test_a_linkage_is_its_clusters(self):
        g = hga.Graph.from_linkage([[0, 2, 0.5, 2], [1, 3, 0.7, 2], [4, 5, 1.0, 4]])
        self.assertEqual((g.n_tokens, g.level_sizes, g.parents().tolist()), (4, [4, 2, 1], [4, 5, 4, 5, 6, 6, -1]))
        h = g.hierarchy()
        self.assertEqual((h.coverage().once, h.coverage().more), (16, 0))
        self.assertEqual(hga.hsa(parent=g.parents(), leaves="id").graph.parents().tolist(), g.parents().tolist())

    def test_documents_have_names_and_kinds(self):
        page = "<html><head><title>Page</title></head><body><h1>Head</h1><p>One two. Three four.</p><ul><li>five</li><li>six seven</li></ul></body></html>"
        path = self.folder() / "text.md"
        path.write_text(TEXT, encoding="utf-8")
        for g in (hga.Graph.from_markdown(TEXT), hga.Graph.from_markdown(path), hga.Graph.from_html(page), hga.Graph.from_html(page.encode())):
            words = [g.name(v) for v in range(g.n_tokens)]
            for word in ("One", "four", "five", "seven"):
                self.assertIn(word, [w.strip(".") for w in words])
            self.assertIn("word", g.kind_names)
            self.assertTrue(all(g.kind_names[k] == "word" for k in g.kinds()[: g.n_tokens]))
            self.assertEqual(g.hierarchy().coverage().once, g.n_tokens**2)

    def test_a_folder_is_its_files(self):
        root = self.folder() / "root"
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

    def test_a_table_names_nodes_and_parents(self):
        path = self.folder() / "tree.csv"
        path.write_text('node,parent\nroot,\nleft,root\n"a, b",left\nc,left\n\nd,root\n', encoding="utf-8")
        g = hga.Graph.from_parents(path)
        self.assertEqual([ancestors(g, v) for v in range(g.n_tokens)], [["a, b", "left", "root"], ["c", "left", "root"], ["d", "root"]])
        path.write_text("1,3\n2,3\n3,-1\n", encoding="utf-8")
        self.assertEqual(hga.Graph.from_parents(str(path)).parents().tolist(), [2, 2, -1])

    def test_what_is_no_tree_is_refused(self):
        folder = self.folder()
        table = folder / "tree.csv"
        (folder / "empty").mkdir()
        for error, text, f in (
            (ValueError, r"a linkage has shape \(3,\): \[merges\]\[4\]", lambda _: hga.Graph.from_linkage([1, 2, 3])),
            (hga.Error, "merge 0 joins 0, which merge 0 has joined", lambda _: hga.Graph.from_linkage([[0, 0, 1, 2]])),
            (TypeError, "Markdown comes as text or as a pathlib.Path, not as 3", lambda _: hga.Graph.from_markdown(3)),
            (FileNotFoundError, "no such file", lambda _: hga.Graph.from_html(folder / "no such file")),
            (hga.Error, "word", lambda _: hga.Graph.from_markdown("")),
            (ValueError, "is no folder", lambda _: hga.Graph.from_folder(table)),
            (ValueError, "empty: has no files", lambda _: hga.Graph.from_folder(folder / "empty")),
            (ValueError, "line 2: 'b' is not a node and its parent", lambda _: table.write_text("a,\nb\n") and hga.Graph.from_parents(table)),
            (ValueError, "line 3: node 'b' has a parent already", lambda _: table.write_text("a,\nb,a\nb,a\n") and hga.Graph.from_parents(table)),
            (ValueError, "has no nodes", lambda _: table.write_text("node,parent\n") and hga.Graph.from_parents(table)),
            (ValueError, "the parents have a circle", lambda _: table.write_text("a,b\nb,a\n") and hga.Graph.from_parents(table)),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                f(None)


if __name__ == "__main__":
    unittest.main()
