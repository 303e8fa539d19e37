"""hga installs beside every release that pyproject.toml asks for, and refuses in words what a release that it does not
know has changed."""

import ast
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

import hga
from hga._core import releases as _releases
from shared import needs
from since import older

TESTS = pathlib.Path(__file__).resolve().parent
PROJECT = (TESTS.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
PACKAGE = pathlib.Path(hga.__file__).parent


def pinned(*names):
    """Package -> "major.minor" of files of requirements."""
    text = "".join((TESTS / name).read_text(encoding="utf-8") for name in names)
    return dict(re.findall(r"^(\w+)==(\d+\.\d+)", text, re.M))


class Ranges(unittest.TestCase):
    def test_they_begin_at_the_oldest_that_is_tested_and_never_end(self):
        extras = PROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
        asked = set(re.findall(r'"(\w+)>=([\d.]+)"', extras))
        oldest, newest = pinned("oldest.txt", "jax_oldest.txt"), pinned("requirements.txt", "jax.txt")
        self.assertEqual(asked, {(name, oldest[name]) for name in _releases.TESTED})
        self.assertEqual(_releases.TESTED, {name: (oldest[name], newest[name]) for name in _releases.TESTED})

    def test_nothing_has_an_upper_limit(self):
        wanted = re.findall(r'"([\w-]+[<>=~!][^"]*)"', PROJECT.partition("[project]")[2].partition("[tool.")[0])
        self.assertTrue(wanted)
        self.assertEqual([x for x in wanted if re.search("<|==|~=|!=", x)], [])

    def test_a_set_in_the_middle_has_all_that_the_oldest_has(self):
        self.assertEqual(set(pinned("oldest.txt")) & set(_releases.TESTED), set(pinned("middle.txt")) & set(_releases.TESTED))


# What Python's typing and other modules have had since 3.10 and later: the package takes none of it.
NEWER = {
    "typing": "Concatenate LiteralString Never NotRequired ParamSpec ParamSpecArgs ParamSpecKwargs ReadOnly Required Self TypeAlias TypeAliasType "
    "TypeGuard TypeIs TypeVarTuple Unpack assert_never assert_type clear_overloads dataclass_transform get_overloads get_protocol_members "
    "is_protocol is_typeddict override reveal_type",
    "contextlib": "aclosing chdir AsyncContextDecorator", "itertools": "pairwise batched", "inspect": "get_annotations", "types": "EllipsisType NoneType "
    "NotImplementedType UnionType get_original_bases", "math": "cbrt exp2 fma sumprod", "enum": "StrEnum ReprEnum member nonmember verify",
    "hashlib": "file_digest", "os": "process_cpu_count", "sys": "exception monitoring stdlib_module_names orig_argv", "operator": "call is_none",
}  # fmt: skip
NEWER_ARGUMENTS = {"zip": {"strict"}, "dataclass": {"slots", "kw_only", "weakref_slot"}, "bisect_left": {"key"}, "bisect_right": {"key"}}


def newer_than(tree):
    """What a module has that Python 3.9 has not, behind its grammar."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{a.name}" for a in node.names if a.name in NEWER.get(node.module or "", "").split())
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in NEWER.get(node.value.id, "").split():
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Attribute) and node.attr == "bit_count":
            yield "int.bit_count"
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from (f"{name}({k.arg}=)" for k in node.keywords if k.arg in NEWER_ARGUMENTS.get(name, ()))


def unions(tree):
    """``X | None`` that is computed, not annotated: 3.9 has no such operator of types."""
    kinds = {"None", "int", "str", "float", "bool", "list", "dict", "tuple", "bytes", "Any", "Callable", "Tensor"}
    notes = {id(x) for node in ast.walk(tree) for name in ("annotation", "returns") for x in ast.walk(getattr(node, name, None) or ast.Pass())}
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and id(node) not in notes:
            yield from (ast.unparse(node) for side in (node.left, node.right) if ast.unparse(side) in kinds)


def wheel(folder):
    """The built package as pip gets it, asking for what pyproject.toml asks for."""
    sections = dict(re.findall(r"^\[(project[\w.-]*)\]$(.*?)(?=^\[)", PROJECT, re.M | re.S))
    wants = [f"Requires-Dist: {x}" for x in ast.literal_eval(re.search(r"^dependencies = (\[.*\])$", sections["project"], re.M)[1])]
    for extra, names in re.findall(r"^(\w+) = (\[.*\])$", sections["project.optional-dependencies"], re.M):
        wants += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {x} ; extra == "{extra}"' for x in ast.literal_eval(names))]
    path, info = folder / "hga-99.0-py3-none-any.whl", "hga-99.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(x for x in PACKAGE.rglob("*") if x.is_file() and "__pycache__" not in x.parts):
            archive.write(file, f"hga/{file.relative_to(PACKAGE)}")
        archive.writestr(f"{info}/METADATA", "\n".join(["Metadata-Version: 2.1", "Name: hga", "Version: 99.0", *wants, ""]))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hga\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = archive.namelist()
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*names, f"{info}/RECORD"]))
    return path


@needs("torch", "transformers")
@unittest.skipUnless(importlib.util.find_spec("ensurepip"), "no environments without ensurepip")
class Beside(unittest.TestCase):
    """hga comes beside the releases that are there. Without an index pip could not fetch another one, and would say so."""

    def test_pip_changes_no_version_of_what_is_there(self):
        with tempfile.TemporaryDirectory() as scratch:
            scratch = pathlib.Path(scratch)
            subprocess.run([sys.executable, "-m", "venv", scratch / "env"], check=True, capture_output=True)
            (site,) = (scratch / "env" / "lib").glob("python3*/site-packages")
            own = [x for x in sys.path if pathlib.Path(x).name in ("site-packages", "dist-packages")]
            (site / "there.pth").write_text("\n".join(own), encoding="utf-8")
            python = scratch / "env" / "bin" / "python"
            clean = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"}

            def run(*words):
                done = subprocess.run([python, *words], capture_output=True, text=True, env=clean)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return done.stdout.splitlines()

            before = run("-m", "pip", "freeze", "--all")
            self.assertIn("torch", {line.partition("==")[0] for line in before})
            run("-m", "pip", "install", "--no-index", "--no-compile", wheel(scratch))
            after = run("-m", "pip", "freeze", "--all")
            others, own = ([line for line in after if line.startswith("hga ") is it] for it in (False, True))
            self.assertEqual(others, [line for line in before if not line.startswith("hga ")])  # which may be there, too
            self.assertEqual(len(own), 1)
            says = "import hga.transformers, torch; q = torch.ones(1, 2, 8, 4); print(hga.__file__, hga.dense(8).attention(q, q, q).sum().item())"
            self.assertEqual(run("-c", says), [f"{site}/hga/__init__.py 64.0"])


class OldestPython(unittest.TestCase):
    """hga runs with Python 3.9, which CI's machine need not have: its grammar, its names."""

    def test_the_package_has_its_grammar_and_its_names(self):
        modules = sorted((TESTS.parent / "hga").rglob("*.py"))
        self.assertGreater(len(modules), 40)
        for path in modules:
            text = path.read_text(encoding="utf-8")
            with self.subTest(path.name):
                tree = ast.parse(text, path.name, feature_version=(3, 9))
                self.assertEqual([*newer_than(tree), *unions(tree)], [])
                if any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree)):
                    self.assertIn("from __future__ import annotations", text)  # which are written as newer ones are

    def test_what_is_newer_is_found(self):
        newer = "import itertools\nfrom typing import Self\nzip(a, b, strict=True), itertools.pairwise(a), n.bit_count()\nX = int | None"
        tree = ast.parse(newer)
        self.assertEqual({*newer_than(tree), *unions(tree)}, {"typing.Self", "zip(strict=)", "itertools.pairwise", "int.bit_count", "int | None"})
        with self.assertRaises(SyntaxError):
            ast.parse("match x:\n    case 1: pass", feature_version=(3, 9))

    def test_it_is_what_pip_is_told(self):
        self.assertIn('requires-python = ">=3.9"', PROJECT)
        self.assertIn('wheel.py-api = "cp39"', PROJECT)
        self.assertIn('"numpy>=1.19.3"', PROJECT)  # the first with a wheel for 3.9


# What is asked for by each private name, as a program that ends with print(error); models are made before names are taken.
PREPARE = """
import sys, warnings
warnings.simplefilter("error")
import torch, transformers.generation.utils
from transformers import LlamaConfig, LlamaForCausalLM  # whose import makes the module transformers anew
torch.__version__, sys.modules["transformers"].__version__ = "3.7.1", "7.2.0"
import hga, hga.torch, hga.transformers
warnings.simplefilter("ignore")
hga.transformers.register()
from hga._core import releases as _releases
q = torch.randn(1, 2, 16, 8)
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20)
make = lambda: LlamaForCausalLM._from_config(config, attn_implementation="hga:dense").eval()
ids = torch.arange(4, 12)[None]
model = make()


def compiled(): return torch.compile(lambda x: hga.torch.flex_attention(x, x, x), backend="eager", fullgraph=True)(q)


class Flex(torch.nn.Module):
    def forward(self, x): return hga.torch.flex_attention(x, x, x)


def exported(): return torch.export.export(Flex(), (q,), strict=False)


def module(): return hga.torch._one_pass.whole("masked", hga.torch._one_pass.Inputs("dense", [1], [0.0], [q, q, q]))


def in_vmap(): return torch.func.grad(lambda x: torch.tensor(hga._core.arrays.as_numpy(x, "x")).sum() + x.sum())(q)
"""
PREFETCHES = {
    "torch._C._functorch": "in_vmap()",
    "torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack": "in_vmap()",
    "torch.fx.experimental.proxy_tensor.make_fx": "hga.torch.flex_attention(q, q, q, lambda s, b, h, i, j: s + i - j)",
    "torch._higher_order_ops.utils.setup_compilation_env": "exported()",
    "torch._C._ForceDispatchKeyGuard": "module()",
    "torch._C._dispatch_tls_local_include_set": "module()",
    "torch._C._dispatch_tls_local_exclude_set": "module()",
    "torch.compiler.set_stance": "hga.transformers.capture(torch.compile(model, backend='eager'), 0, ids)",
    "transformers.modeling_utils.AttentionInterface._global_mapping": "hga.transformers.register()",
    "transformers.masking_utils.AttentionMaskInterface._global_mapping": "hga.transformers.register()",
    "transformers.generation.GenerationMixin._prepare_cache_for_generation": "model.generate(ids, max_new_tokens=2)",
}
TAKE = """
owner, _, name = {path!r}.rpartition(".")
held = sys.modules.get(owner) or _releases._found(owner)
{take}
try: {ask}
except hga.Error as e: print("refused:", e)
except Exception as e: print("refused:", *str(e).splitlines()) if "hga" in str(e) else print(type(e), e)
else: print("nothing was refused")
"""
END = "==== the end of a process\n"
EACH = (
    """
import os, traceback
for program in {programs!r}:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try: exec(program)
        except BaseException: traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print(end="""
    + repr(END)
    + """, flush=True)
"""
)


@needs("torch", "transformers")
class NextYear(unittest.TestCase):
    def says(self, program):
        done = subprocess.run([sys.executable, "-c", PREPARE + program], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done

    def each_says(self, programs):
        """What each prints in a process of its own, behind one import of torch; on one thread, which a fork leaves as it is."""
        with unittest.mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):
            found = self.says(EACH.format(programs=programs)).stdout.split(END)
        self.assertEqual(len(found), len(programs) + 1)
        return found[:-1]

    def test_releases_that_nobody_knows_yet_are_silent(self):
        program = """
q.requires_grad_()
hga.window(16, left=4).attention(q, q, q).sum().backward()
with torch.no_grad(): print(model(ids).logits.shape, model.generate(ids, min_new_tokens=3, max_new_tokens=3, do_sample=False, pad_token_id=0).shape)
print(hga.transformers.capture(model, 0, ids).q.shape, hga.torch.flex_attention(q, q, q, lambda s, b, h, i, j: s - (i - j).abs()).shape)
"""
        done = self.says(program)
        self.assertIn("torch.Size([1, 8, 20]) torch.Size([1, 11])\ntorch.Size([2, 8, 8]) torch.Size([1, 2, 16, 8])", done.stdout)
        self.assertNotIn("hga", done.stderr)

    def test_a_name_that_is_gone_refuses_its_own_call_with_both_releases(self):
        take = "for c in held.__mro__ if isinstance(held, type) else (held,): name in vars(c) and delattr(c, name)"
        paths = [path for path in PREFETCHES if _releases.has(path)]  # others are younger than this release
        self.assertGreater(len(paths), 5)
        for path, found in zip(paths, self.each_says([TAKE.format(path=path, take=take, ask=PREFETCHES[path]) for path in paths])):
            with self.subTest(path):
                package = path.partition(".")[0]
                installed, newest = {"torch": "3.7.1", "transformers": "7.2.0"}[package], _releases.TESTED[package][1]
                self.assertIn("refused:", found)
                self.assertRegex(found, rf"is not known with {package} {installed}, which has no {re.escape(path)}")
                self.assertIn(f"install {package} {newest}, or a newer hga", found)

    def test_and_no_other(self):
        program = """
for name in ("_ForceDispatchKeyGuard", "_are_functorch_transforms_active", "_get_tracing_state"): delattr(torch._C, name)
h = hga.dense(16)
print(torch.equal(h.attention(q, q, q), hga.torch.attention(h, q, q, q)))
"""
        self.assertIn("True", self.says(program).stdout)

    def test_other_arguments_are_as_good_as_gone(self):
        take = "setattr(held, name, lambda self, config, kwargs: None)"
        path = "transformers.generation.GenerationMixin._prepare_cache_for_generation"
        found = self.says(TAKE.format(path=path, take=take, ask=PREFETCHES[path])).stdout
        self.assertIn("which has it with other arguments than generation_config, model_kwargs, max_cache_length", found)

    def test_every_name_is_there_from_the_release_that_is_said(self):
        for path, row in _releases.PRIVATE.items():
            package = path.partition(".")[0]
            if not older(package, row.since) and not row.until:
                self.assertTrue(_releases.has(path), path)
