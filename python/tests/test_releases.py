"""Facts about the releases of other packages: what pyproject.toml asks for, and what hga does with releases that it does not know."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import unittest

from hga import _releases
from since import older

TESTS = pathlib.Path(__file__).resolve().parent
PROJECT = (TESTS.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
HAS_BOTH = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


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
from hga import _releases
q = torch.randn(1, 2, 16, 8)
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20)
make = lambda: LlamaForCausalLM._from_config(config, attn_implementation="hga:dense").eval()
ids = torch.arange(4, 12)[None]
model = make()
def compiled(): return torch.compile(lambda x: hga.torch.flex_attention(x, x, x), backend="eager", fullgraph=True)(q)
class Flex(torch.nn.Module):
    def forward(self, x): return hga.torch.flex_attention(x, x, x)
def exported(): return torch.export.export(Flex(), (q,), strict=False)
def module(): return hga._one_pass.whole("masked", hga._one_pass.Given("dense", [1], [0.0], [q, q, q]))
def in_vmap(): return torch.func.grad(lambda x: torch.tensor(hga._core.as_numpy(x, "x")).sum() + x.sum())(q)
"""
ASKS = {
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


@unittest.skipUnless(HAS_BOTH, "torch or transformers is not installed")
class NextYear(unittest.TestCase):
    def says(self, program):
        done = subprocess.run([sys.executable, "-c", PREPARE + program], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done

    def test_releases_that_nobody_knows_yet_are_silent(self):
        program = """
q.requires_grad_()
hga.window(16, left=4).attention(q, q, q).sum().backward()
with torch.no_grad(): print(model(ids).logits.shape, model.generate(ids, max_new_tokens=3, do_sample=False, pad_token_id=0).shape)
print(hga.transformers.capture(model, 0, ids).q.shape, hga.torch.flex_attention(q, q, q, lambda s, b, h, i, j: s - (i - j).abs()).shape)
"""
        done = self.says(program)
        self.assertIn("torch.Size([1, 8, 20]) torch.Size([1, 11])\ntorch.Size([2, 8, 8]) torch.Size([1, 2, 16, 8])", done.stdout)
        self.assertNotIn("hga", done.stderr)

    def test_a_name_that_is_gone_refuses_its_own_call_with_both_releases(self):
        for path, ask in ASKS.items():
            if not _releases.has(path):
                continue  # this release is older than the name
            with self.subTest(path):
                package = path.partition(".")[0]
                found = self.says(TAKE.format(path=path, take="for c in held.__mro__ if isinstance(held, type) else (held,): name in vars(c) and delattr(c, name)", ask=ask)).stdout
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
        found = self.says(TAKE.format(path=path, take=take, ask=ASKS[path])).stdout
        self.assertIn("which has it with other arguments than generation_config, model_kwargs, max_cache_length", found)

    def test_every_name_is_there_from_the_release_that_is_said(self):
        for path, row in _releases.PRIVATE.items():
            package = path.partition(".")[0]
            if not older(package, row.since) and not row.until:
                self.assertTrue(_releases.has(path), path)


if __name__ == "__main__":
    unittest.main()
