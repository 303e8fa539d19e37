"""The stub of the functions named after variants says what the registry says, and mypy finds misspelt names by it."""

import ast
import inspect
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import hga
import numpy as np
from hga._core.tables import KEYWORDS, WITHOUT_EDGES
from shared import needed, needs
from since import since

PACKAGE = pathlib.Path(hga.__file__).parent
STUB = PACKAGE / "_graphs" / "functions.pyi"

GOOD = """
import hga
import numpy as np

h = hga.htransformer(64, block=8, causal=True, structure="siblings")
x = np.zeros((1, 64, 8), np.float32)
out, lse = h.attention(x, x, x, layout="bhnd", lse=True)
out = h.attention(x, x, x)
h.attention(x, x, x, scale=0.5, sink=x[0, 0, :1], softcap=np.float32(2), rel_key=None)
h.decoder(heads=1, dim=8, scale=1, slopes=x[0, 0, :1])
hga.dense([3, 4])
hga.dense(np.array([3, 4]), causal=True)
hga.dense(np.int64(3), n_keys=9)
hga.window(3, global_=2)
hga.hsa(64, branching=[2, 4], self=True)
hga.treeformer_fine(4, query_leaf=[0, 0, 1, 1]).coverage()
hga.treeformer_fine(height=1, weights=x, bias=x).hierarchy(x, x)
hga.Graph.from_parents([2, 2, -1]).hierarchy().lower(x)
cache: hga.Cache = h.decoder(heads=1, dim=8, same=True).cache()
cache.append(x, x, x)
cache.fork().cut(len(cache))
"""

WRONG = """
import hga
import numpy as np

x = np.zeros((1, 64, 8), np.float32)
hga.htransfomer(64, block=8)  # attr-defined
hga.htransformer(64, blok=8)  # call-arg
hga.htransformer("64")  # arg-type
hga.htransformer(64, structure="neighbors")  # arg-type
hga.bpt()  # call-arg
hga.dense(64).attention(x, x, x, attn_mask=None)  # call-overload
hga.dense(64).gradient(x, x, x, x, layuot="bhnd")  # call-arg
hga.dense(64).attention(x, x, x, sinks=x)  # call-overload
hga.dense(64).weights(x, x, 1, sofcap=1.0)  # call-arg
hga.dense(64).attention(x, x, x, softcap="2")  # call-overload
hga.dense(64).attention(x, x, x).shapes  # attr-defined
hga.dense(64).attention(x, x, x, lse=True).shape  # attr-defined
hga.dense(64).decoder(heads=1, dim=8, edge_bias=x)  # call-arg
hga.fenwick(64, n_keys=3)  # call-arg
hga.treeformer_fine(4)  # call-overload
hga.grpah  # attr-defined
"""


TENSORS = """
import hga, torch, numpy as np

h, x, a = hga.dense(64), torch.zeros(1, 64, 8), np.zeros((1, 64, 8), np.float32)
h.attention(x, x, x).requires_grad_()
y, lse = h.attention(x, x, x, lse=True, scale=0.5)
lse.requires_grad_()
h.attention(a, a, a).itemsize
h.attention(x, x, x).itemsize_  # attr-defined
h.attention(a, a, a).requires_grad_  # attr-defined
h.attention(x, x, x, lse=True).sum()  # attr-defined
h.attention(x, a, a)  # type-var

cache = h.decoder(heads=1, dim=8).cache()
cache.append(a, a, a).itemsize
y, lse = cache.append(x, x, x, lse=True)
y.requires_grad_()
cache.decoder.append([cache.fork()], x, x, x).requires_grad_()
cache.decoder.append([cache], [a], [a], [a])[0].itemsize
text: str = cache.append(a, a, a)  # assignment
cache.append(a, a, a).requires_grad_  # attr-defined
cache.append(x, x, x).itemsize_  # attr-defined
cache.append(x, x, x, lse=True).sum()  # attr-defined
cache.append(x, a, a)  # type-var
text = cache.decoder.append([cache], [a], [a], [a])  # assignment
"""


FLEX = """
import hga.torch, torch
from torch.nn.attention.flex_attention import AuxOutput, AuxRequest
from typing import Tuple

x = torch.zeros(1, 1, 8, 4)
mask = hga.torch.create_block_mask(lambda b, h, q, k: q >= k, None, None, 8, 8, BLOCK_SIZE=(8, 8), device="cpu")
out: torch.Tensor = hga.torch.flex_attention(x, x, x, lambda s, b, h, q, k: s, mask, 0.5)
pair: Tuple[torch.Tensor, torch.Tensor] = hga.torch.flex_attention(x, x, x, return_lse=True)
more: Tuple[torch.Tensor, AuxOutput] = hga.torch.flex_attention(x, x, x, block_mask=mask, return_aux=AuxRequest(lse=True))
hga.torch.flex_hierarchy(x, x, None, mask, head=0).coverage()
hga.torch.flex_attention(x, x, x).shapes  # attr-defined
hga.torch.flex_attention(x, x, x, return_lse=True).shape  # attr-defined
hga.torch.flex_attention(x, x, x, return_aux=AuxRequest())[1].lses  # attr-defined
hga.torch.flex_attention(x, x, x, 2)  # call-overload
hga.torch.flex_attention(x, x, x, None, x)  # call-overload
hga.torch.flex_attention(x, x, x, block_masks=mask)  # call-overload
hga.torch.flex_hierarchy(x, x, None, mask).coverages()  # attr-defined
hga.torch.flex_hierarchy(x, x, mask)  # arg-type
hga.torch.create_block_mask(None, None, None, 8, 8)  # arg-type
hga.torch.create_block_mask(lambda b, h, q, k: q, None, None, 8, 8, BLOCK_SIZE="8")  # arg-type
"""


def stub_functions():
    """Every function of the stub: its name, and for each of its lines the parameters with their written defaults."""
    found = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            a = node.args
            first = [(x.arg, None) for x in a.args[: len(a.args) - len(a.defaults)]]
            first += [(x.arg, d) for x, d in zip(a.args[len(first) :], a.defaults)]
            parameters = first + list(zip((x.arg for x in a.kwonlyargs), a.kw_defaults))
            found.setdefault(node.name, []).append(({n: d for n, d in parameters}, ast.get_docstring(node), node))
    return found


@unittest.skipIf("HGA_WITHOUT_TYPES" in os.environ, "this build makes no types: it is cross-compiled or sanitized")
class Stub(unittest.TestCase):
    def test_the_stub_has_every_variant_with_every_parameter_default_and_word(self):
        found = stub_functions()
        self.assertEqual(set(found), {v.replace("-", "_") for v in hga.variants()})
        for v in hga.variants().values():
            lines = found[v.name.replace("-", "_")]
            named = set().union(*(parameters for parameters, _, _ in lines))
            own = {p.python_name for p in v.parameters}
            self.assertEqual(named, own | {"n_tokens"} | ({"n_keys"} if v.can_cross else set()))
            for parameters, says, node in lines:
                self.assertEqual(says, f"{v.says} ({v.paper}).")
                self.assertEqual(ast.unparse(node.returns), "RoutedHierarchy" if "weights" in parameters else "ChosenHierarchy" if v.name == "routed" else "Hierarchy")
                types = {x.arg: ast.unparse(x.annotation) for x in node.args.kwonlyargs}
                for p in v.parameters:
                    if p.python_name not in parameters:
                        continue
                    default = parameters[p.python_name]
                    if default is not None:
                        self.assertEqual(ast.literal_eval(default), p.default, p.name)
                    self.assertEqual("Literal" in types[p.python_name], p.type == "str")
                    for word in (p.words or "").split():
                        self.assertIn(repr(word), types[p.python_name])

    def test_the_keywords_of_calls_are_the_librarys_rows(self):
        found = {}
        for node in ast.parse((PACKAGE / "_core" / "keywords.pyi").read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = {x.target.id for x in node.body}
        self.assertEqual(found["DecoderTables"], set(WITHOUT_EDGES))
        self.assertEqual(found["DecoderTables"] | found["CallTables"], set(KEYWORDS))

    def test_signatures_are_the_stubs(self):
        for name, lines in stub_functions().items():
            signature = inspect.signature(getattr(hga, name)).parameters
            self.assertEqual(set(signature), set().union(*(parameters for parameters, _, _ in lines)))
            for parameters, _, _ in lines:
                for x, default in parameters.items():
                    if default is not None:
                        self.assertEqual(signature[x].default, ast.literal_eval(default), (name, x))
                    elif x == "n_tokens":
                        self.assertIs(signature[x].default, inspect.Parameter.empty)

    def test_a_default_that_is_written_out_is_the_one_that_is_left_out(self):
        for v in hga.variants().values():
            f = getattr(hga, v.name.replace("-", "_"))
            given = needed(300).get(v.name, {})
            written = {p.python_name: p.default for p in v.parameters if p.default is not None and p.python_name not in given}
            self.assertEqual(f(300, **given, **written), f(300, **given), v.name)


@needs("mypy")
@unittest.skipIf("HGA_WITHOUT_TYPES" in os.environ, "this build makes no types: it is cross-compiled or sanitized")
class Mypy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def mypy(self, *arguments, skipped=()):
        """What mypy finds, with the package that is tested here as its only source."""
        config, cache = pathlib.Path(self.folder.name, "mypy.ini"), pathlib.Path(self.folder.name, "cache")
        others = ("jax", "scipy", "networkx", "igraph", "transformers", "matplotlib", "tqdm") + skipped
        config.write_text("[mypy]\n" + "".join(f"[mypy-{m}.*]\nignore_missing_imports = True\nfollow_imports = skip\n" for m in others))
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file", config, "--cache-dir", cache, *arguments]
        where = dict(os.environ, MYPYPATH=str(PACKAGE.parent))
        return subprocess.run(command, capture_output=True, text=True, env=where, cwd=self.folder.name).stdout

    def found_in(self, text, skipped=("torch",)):
        """(line, kind) of everything that mypy finds in a program."""
        path = pathlib.Path(self.folder.name, "program.py")
        path.write_text(text)
        found = []
        for line in self.mypy("--follow-imports=silent", path, skipped=skipped).splitlines():
            if line.startswith("program.py:") and ": error:" in line:
                found.append((int(line.split(":")[1]), line.rsplit("[", 1)[1].rstrip("]")))
        return list(dict.fromkeys(found))  # where no overload fits, mypy may say so of each union's part

    @staticmethod
    def wanted(text):
        return [(i, line.split("# ")[1]) for i, line in enumerate(text.splitlines(), 1) if "# " in line]

    def test_mypy_finds_misspelt_variants_parameters_and_words(self):
        self.assertEqual(self.found_in(WRONG), self.wanted(WRONG))

    def test_mypy_finds_nothing_in_a_good_program(self):
        self.assertEqual(self.found_in(GOOD), [])
        exec(compile(GOOD.replace("hga.treeformer_fine(height=1, weights=x, bias=x).hierarchy(x, x)", ""), "good", "exec"), {})

    @needs("torch")
    def test_attention_of_tensors_gives_tensors(self):
        self.assertEqual(self.found_in(TENSORS, skipped=()), self.wanted(TENSORS))

    @needs("torch")
    @since("torch", "2.9")  # which has AuxRequest
    def test_flex_attention_gives_what_it_is_asked_for(self):
        self.assertEqual(self.found_in(FLEX, skipped=()), self.wanted(FLEX))

    @needs("torch")
    def test_the_package_passes_strictly(self):
        # numpy before 2 has no default for what an array holds
        loose = ["--allow-any-generics"] if np.__version__.startswith("1.") else []
        out = self.mypy(*loose, "--no-warn-unused-ignores", "-p", "hga")
        self.assertIn("Success", out, out)
