"""Every golden case (tests/golden: other people's code and literal transcriptions of the papers, in double) through
Python: outputs, edges and gradients. numpy alone; gradients also through torch where it is installed."""

import json
import unittest

import hga
import numpy as np
from shared import ROOT, needs, splitmix, torch

GOLDEN = ROOT / "tests" / "golden"


def drawn(seed, scale, *shape):
    """The large cases' inputs."""
    z = splitmix(seed, int(np.prod(shape))) >> np.uint64(40)
    return ((z.astype(np.float64) * 2.0**-24 * 2 - 1) * scale).astype(np.float32).reshape(shape)


class Case:
    def __init__(self, folder):
        self.name, self.folder = folder.name, folder
        self.about = json.loads((folder / "case.json").read_text())
        self.near = self.about["tolerance"].get("float32_compute_max_abs", 0.0)
        text = self.about.get("inputs", "")
        self.seed = int(text.split("seeds ")[1].split("+")[0].split(",")[0]) if "seeds " in text else None

    def has(self, name):
        return (self.folder / f"{name}.npy").exists()

    def __getitem__(self, name):
        return np.load(self.folder / f"{name}.npy")


class Golden(unittest.TestCase):
    def cases(self, family, prefix="", at_least=1):
        found = [Case(f) for f in sorted((GOLDEN / family).iterdir()) if f.name.startswith(prefix)]
        self.assertGreaterEqual(len(found), at_least, family)
        for case in found:
            with self.subTest(family=family, case=case.name):
                yield case

    def assert_near(self, c, got, want, factor=1.0):
        self.assertEqual(got.shape, want.shape, c.name)
        self.assertLessEqual(abs(got - want).max(), c.near * factor, c.name)

    def assert_large(self, c, got, rows, sums):
        """Chosen rows, and sums over the whole output."""
        self.assert_near(c, got[c["rows"]], c[rows].reshape(len(c["rows"]), -1))
        x, s, each = got.reshape(-1).astype(np.float64), c.about[sums], c.near
        found = {"sum": x.sum(), "sum_abs": abs(x).sum(), "max_abs": abs(x).max(),
                 "dot_with_splitmix_seed999": x @ drawn(999, 1, x.size)}  # fmt: skip
        for name, value in found.items():
            self.assertLess(abs(value - s[name]), each * np.sqrt(x.size), f"{c.name} {name}")

    # ---- BP-Transformer ----

    def assert_edges(self, c, h, want):
        key = lambda e: e[np.lexsort((e[:, 2], e[:, 0], e[:, 1]))]  # noqa: E731
        self.assertTrue(np.array_equal(key(h.edges("near")), key(want.astype(np.int32))), c.name)

    def test_bpt_graphs_edge_for_edge(self):
        for c in self.cases("bpt_graph", at_least=65):
            h = hga.bpt(c.about["n"], k=c.about["k"], clip=c.about["clip_dist"], causal=c.about["causal(triu)"])
            rows = c["edges_src_dst_type"]
            if c.has("buggy_edge_rows"):
                rows = np.delete(rows, c["buggy_edge_rows"], axis=0)
            self.assertEqual(h.graph.n_nodes, c.about["num_nodes"])
            self.assert_edges(c, h, rows)

    def test_bpt_readings_edge_for_edge(self):
        for c in self.cases("bpt_graph_readings", at_least=22):
            rule = "text" if c.name.startswith("text") else "algorithm1"
            h = hga.bpt(c.about["n"], k=c.about["k"], clip=c.about["clip_dist"], causal=c.about["causal"], rule=rule)
            self.assert_edges(c, h, c["edges_src_dst_type"])

    def test_bpt_attention(self):
        for c in self.cases("bpt_gsa", at_least=15):
            h = hga.bpt(c.about["n"], k=c.about["k"], clip=c.about["clip_dist"], causal=c.about["causal"])
            if c.name.startswith("large"):
                n = h.rows
                q, k, v = (drawn(c.seed + i, 2, n, 1, 8) for i in range(3))
                types = (2 * c.about["k"] + 1) * (c.about["clip_dist"] + 1)
                out = h.attention(q, k, v, layout="bnhd", rel_key=drawn(c.seed + 3, 1, types, 8))
                self.assert_large(c, out[:, 0], "out_rows_f64", "checksums_full_output")
                continue
            self.assert_edges(c, h, c["edges_fixed"])
            given = (c["q"], c["k"], c["v"])
            self.assert_near(c, h.attention(*given, layout="bnhd"), c["out_fixed_graph_norel_f64"])
            self.assert_near(c, h.attention(*given, layout="bnhd", rel_key=c["rel_k"]), c["out_fixed_graph_f64"])

    # ---- H-Transformer-1D ----

    def test_htransformer_of_the_authors(self):
        for c in self.cases("htransformer_neighbours", at_least=33):
            a = c.about
            more = {"block": a.get("num_clusters", a.get("num_clusters_effective")), "relative": True,
                    "causal": c.name.startswith(("dec", "large_dec")),
                    "interpolation": "linear" if a.get("interpolation") == "linear" else "constant"}  # fmt: skip
            if more["causal"] and more["interpolation"] == "linear":
                with self.assertRaises(hga.Error) as refused:
                    hga.htransformer(a["n"], **more)
                self.assertEqual(refused.exception.status, "HGA_EUNSUPPORTED")
                continue
            h = hga.htransformer(a["n"], n_keys=a["n"] if c.name.startswith("cross") else None, **more)
            if c.name.startswith("large"):
                q, k, v = (drawn(seed, 2, a["n"], a["heads"], a["head_dim"]) for seed in self.seeds(c))
                out = h.attention(q, k, v, layout="bnhd")
                self.assert_large(c, out.reshape(a["n"], -1), "out_rows_f64", "checksums_full_output")
                continue
            bias = None
            if c.has("rpb_bias"):
                bias = np.ascontiguousarray(np.broadcast_to(c["rpb_bias"], (c["rpb_bias"].shape[0], a["heads"])))
            scale = 1 / (a.get("softmax_temperature", 1.0) * np.sqrt(a["head_dim"]))
            out = h.attention(c["q"], c["k"], c["v"], layout="bnhd", rel_bias=bias, scale=scale)
            self.assert_near(c, out, c["out_exact_f64" if c.has("out_exact_f64") else "out_f64"])

    def seeds(self, c):
        return [int(x) for x in c.about["inputs"].split("seeds ")[1].split(" ")[0].strip(",").split(",")]

    def test_htransformer_of_the_appendix(self):
        for c in self.cases("htransformer_siblings", at_least=12):
            h = hga.htransformer(c.about["n"], block=c.about["Nr"], structure="siblings", causal=c.name.startswith("causal"))
            first = np.cumsum([0] + h.graph.level_sizes)
            want = c["edges_level_qidx_kidx"]
            pairs = sorted(zip((first[want[:, 0]] + want[:, 1]).tolist(), (first[want[:, 0]] + want[:, 2]).tolist()))
            self.assertEqual([(d, s) for s, d, _ in h.edges("near").tolist()], pairs)
            self.assert_near(c, h.attention(c["q"], c["k"], c["v"]), c["out_f64"])

    # ---- HSA ----

    def test_hsa_is_the_papers(self):
        for c in self.cases("hsa", at_least=31):
            pos = {"node_pos": c["pos_emb"]} if c.has("pos_emb") else {}
            h = hga.hsa(parent=c["parent"])
            if c.name.startswith("large"):
                q, k, v = (drawn(c.seed + i, 2, c.about["num_leaves"], c.about["d"]) for i in range(3))
                pos = drawn(c.seed + 3, 1, c.about["num_nodes"], 4)
                self.assert_large(c, h.attention(q, k, v, node_pos=pos), "attn_v_rows_f64", "checksums_full_attn_v")
            elif c.has("attn_v_f64"):
                self.assert_near(c, h.attention(c["q"], c["k"], c["v"], **pos), c["attn_v_f64"])
            elif c.has("theta_hat_f64"):  # Theorem 3.2 by numerical minimisation
                v = drawn(32, 1, *c["k"].shape)
                self.assert_near(c, h.attention(c["q"], c["k"], v, **pos), c["theta_hat_f64"] @ v.astype(np.float64))
            else:  # four trees under a root that nobody asked for: without it each attends by itself
                parent = c["parent"]
                root = int(np.flatnonzero(parent < 0)[0])
                own = np.where(parent == root, -1, parent - (parent > root))
                h = hga.hsa(parent=np.delete(own, root))
                if pos:
                    pos["node_pos"] = np.ascontiguousarray(np.delete(c["pos_emb"], root, axis=0))
                self.assert_near(c, h.attention(c["q"], c["k"], c["v"], **pos), c["attn_v_separate_f64"])

    def test_causal_hsa(self):
        for c in self.cases("hsa_causal", at_least=5):
            given = (c["q"], c["k"], c["v"])
            pos = {"node_pos": c["pos_emb"]} if c.has("pos_emb") else {}
            for parameters, want in (({"self": True}, "noncausal_self"), ({"causal": True, "self": True, "mode": "self"}, "self"),
                                     ({"causal": True, "mode": "frontier"}, "frontier")):  # fmt: skip
                h = hga.hsa(parent=c["parent"], **parameters)
                self.assert_near(c, h.attention(*given, **pos), c[f"attn_v_{want}_f64"])

    # ---- Treeformer ----

    def hyperplanes(self, c):
        """(parameters, heads): trees of two children a node by head, or of many children a node."""
        if "branching" in c.about:
            levels = range(len(c.about["branching"]))
            w = np.concatenate([c[f"w_level{i}"].reshape(-1, c.about["d"]) for i in levels])
            b = np.concatenate([c[f"b_level{i}"].reshape(-1) for i in levels])
            return {"branching": c.about["branching"], "weights": w, "bias": b}, 1
        h, heads = c.about["height"], c.about["heads"]
        w, b = (c["tree_w"], c["tree_b"]) if h else (np.zeros((heads, 0, c.about["d"]), np.float32), np.zeros((heads, 0), np.float32))
        return {"height": h, "weights": w, "bias": b}, heads

    def test_treeformer(self):
        for c in self.cases("treeformer", at_least=14):
            if c.name.startswith("large"):
                self.large_treeformer(c)
                continue
            parameters, heads = self.hyperplanes(c)
            given = [c[x] if c[x].ndim == 3 else c[x][None] for x in "qkv"]
            for build, want, more in ((hga.treeformer_fine, "out_tfa_f64", {}),
                                      (hga.treeformer_coarse, "out_tca_f64", {"alpha": c["alpha"]})):  # fmt: skip
                wanted = c[want] if c[want].ndim == 3 else c[want][None]
                if not c.has("key_mask"):
                    self.assert_near(c, build(**parameters, **more).attention(*given), wanted)
                # the same, given leaves, some keys in none
                shape = {n: x for n, x in parameters.items() if n in ("height", "branching")}
                leaves = [np.ascontiguousarray(np.moveaxis(np.atleast_3d(c[x]) if c[x].ndim == 3 else c[x][None], 0, 1)[..., -1])
                          for x in ("node_q", "node_k")]  # fmt: skip
                if c.has("key_mask"):
                    leaves[1] = np.where(c["key_mask"][:, None] != 0, leaves[1], -1)
                if heads == 1:
                    leaves = [x[:, 0].copy() for x in leaves]
                h = build(query_leaf=leaves[0], key_leaf=leaves[1], **shape, **more)
                self.assert_near(c, h.attention(*given), wanted)

    def large_treeformer(self, c):
        n, d, height = c.about["n"], c.about["d"], c.about["height"]
        w = np.concatenate([drawn(c.seed + 3 + i, 1, 2**i, d) for i in range(height)])
        b = np.concatenate([drawn(c.seed + 13 + i, 0.5, 2**i) for i in range(height)])
        q, k, v = (drawn(c.seed + i, 2, 1, n, d) for i in range(3))
        fine = hga.treeformer_fine(height=height, weights=w, bias=b).attention(q, k, v)
        self.assert_large(c, fine[0], "out_tfa_rows_f64", "checksums_tfa")
        coarse = hga.treeformer_coarse(height=height, weights=w, bias=b, alpha=drawn(c.seed + 20, 1, height + 1))
        self.assert_large(c, coarse.attention(q, k, v)[0], "out_tca_rows_f64", "checksums_tca")

    # ---- gradients ----

    def slopes(self, at_least=9):
        """(case, hierarchy, tables, where its gradients are found)"""
        for c in self.cases("gradients", at_least=at_least):
            a, tables = c.about, {}
            if c.name.startswith("bpt"):
                h = hga.bpt(a["n"], k=a["k"], clip=a["clip_dist"], causal=c.name.startswith("bpt_causal"))
                tables["rel_key"] = c["rel_k"]
            elif c.name.startswith("h1d"):
                h = hga.htransformer(a["n"], block=a["num_clusters"], relative=True, causal=c.name.startswith("h1d_dec"))
                tables["rel_bias"] = c["rpb_bias"][:, None].copy()
            else:
                h = hga.hsa(parent=c["parent"], causal=a["causal"], self=a["self_leaf"], mode="self")
                tables["node_pos"] = c["pos_emb"]
            yield c, h, tables

    WANT = {"query": "dq_f64", "key": "dk_f64", "value": "dv_f64", "rel_key": "drel_k_f64", "rel_bias": "dbias_f64",
            "node_pos": "dpos_f64"}  # fmt: skip

    def test_gradients_in_numpy(self):
        for c, h, tables in self.slopes():
            found = h.gradient(c["q"], c["k"], c["v"], c["g"], **tables)
            self.assertEqual(set(found), {"query", "key", "value"} | set(tables))
            for name, x in found.items():
                want = c[self.WANT[name]]
                self.assert_near(c, x.reshape(want.shape), want)

    @needs("torch")
    def test_gradients_in_torch(self):
        for c, h, tables in self.slopes():
            q, k, v = (torch.from_numpy(c[x]).requires_grad_() for x in "qkv")
            leaves = {n: torch.from_numpy(x).requires_grad_() for n, x in tables.items()}
            out = h.attention(q, k, v, **leaves)
            self.assert_near(c, out.detach().numpy(), c["out_f64"])
            (out * torch.from_numpy(c["g"])).sum().backward()
            for name, x in {"query": q, "key": k, "value": v, **leaves}.items():
                want = c[self.WANT[name]]
                self.assert_near(c, x.grad.numpy().reshape(want.shape), want)
