"""A mask of hga.torch's modules, in each of its types, gives what torch's own module gives, forward and backward, or is
refused by its sentence."""

import unittest
import warnings

import hga
from shared import needs, package, refused, refused_each, torch

ht, F = package("hga.torch"), package("torch.nn.functional")
INF = float("-inf")
BATCH, TOKENS, WIDTH, HEADS = 2, 12, 16, 2


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def hidden():
    """Two samples, of 12 and of 8 tokens."""
    return torch.arange(TOKENS) >= torch.tensor([[TOKENS], [8]])


def biases():
    return torch.randn(BATCH, TOKENS)


def later():
    return torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)


def as_numbers(mask):
    return torch.zeros(mask.shape).masked_fill(mask, INF)


def pair(spec="dense"):
    """torch's module, and hga's with its parameters."""
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = ht.MultiheadAttention(WIDTH, HEADS, batch_first=True, spec=spec)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


if torch is not None:
    # Masks that torch's module and hga's both take, of tokens and of pairs, each in each type.
    TAKEN = {
        "padding, bool": lambda: dict(key_padding_mask=hidden()),
        "padding, bool, all there": lambda: dict(key_padding_mask=torch.zeros(BATCH, TOKENS, dtype=torch.bool)),
        "padding, 0 and -inf": lambda: dict(key_padding_mask=as_numbers(hidden())),
        "padding, 0 and the least number": lambda: dict(key_padding_mask=as_numbers(hidden()).clamp(min=torch.finfo(torch.float32).min)),
        "padding, biases": lambda: dict(key_padding_mask=biases()),
        "padding, biases and -inf": lambda: dict(key_padding_mask=biases().masked_fill(hidden(), INF)),
        "padding, ones": lambda: dict(key_padding_mask=torch.ones(BATCH, TOKENS)),
        "padding, large biases": lambda: dict(key_padding_mask=30 * biases()),
        "pairs, bool": lambda: dict(attn_mask=later()),
        "pairs, 0 and -inf": lambda: dict(attn_mask=as_numbers(later())),
        "pairs, by head": lambda: dict(attn_mask=later().expand(BATCH * HEADS, TOKENS, TOKENS)),
        "pairs, bool, a hint": lambda: dict(attn_mask=later(), is_causal=True),
        "both, bool": lambda: dict(key_padding_mask=hidden(), attn_mask=later()),
        "both, bool, a hint": lambda: dict(key_padding_mask=hidden(), attn_mask=later(), is_causal=True),
        "both, -inf": lambda: dict(key_padding_mask=as_numbers(hidden()), attn_mask=as_numbers(later())),
        "both, biases and -inf": lambda: dict(key_padding_mask=biases().masked_fill(hidden(), INF), attn_mask=as_numbers(later())),
    }
    # Masks that hga refuses, and what it says; None: torch refuses them, too.
    REFUSED = {
        "padding of whole numbers": (lambda: dict(key_padding_mask=hidden().long()), "key_padding_mask holds torch.int64, neither truth values"),
        "padding of bytes": (lambda: dict(key_padding_mask=hidden().byte()), r"key_padding_mask holds torch.uint8.*key_padding_mask.bool\(\)"),
        "padding, transposed": (lambda: dict(key_padding_mask=hidden().T), r"key_padding_mask has shape \(12, 2\), not \[2, 12\]"),
        "padding, flat": (lambda: dict(key_padding_mask=hidden().flatten()), r"key_padding_mask has shape \(24,\), not \[2, 12\]"),
        "padding, a list": (lambda: dict(key_padding_mask=hidden().tolist()), "key_padding_mask is a list, not a tensor"),
        "padding, on meta": (lambda: dict(key_padding_mask=hidden().to("meta")), "key_padding_mask is on meta, the rows are on cpu"),
        "padding, sparse": (lambda: dict(key_padding_mask=biases().to_sparse()), "key_padding_mask has layout torch.sparse"),
        "padding, NaN": (lambda: dict(key_padding_mask=biases().index_fill(1, torch.tensor(3), float("nan"))), "adds nan to the scores of token 3 of sample 0"),
        "padding, inf": (lambda: dict(key_padding_mask=-as_numbers(hidden())), "adds inf to the scores of token 8 of sample 1"),
        "padding with a hole": (lambda: dict(key_padding_mask=torch.arange(TOKENS).eq(3).expand(BATCH, TOKENS)), "key_padding_mask: dense: token 3 of sample 0 is padding between"),
        "pairs of whole numbers": (lambda: dict(attn_mask=later().int()), "attn_mask holds torch.int32, neither truth values"),
        "pairs of another text": (lambda: dict(attn_mask=later()[:5]), r"attn_mask has shape \(5, 12\), not \[12, 12\] or \[4, 12, 12\]"),
        "pairs by sample": (lambda: dict(attn_mask=later().expand(BATCH, TOKENS, TOKENS)), r"attn_mask has shape \(2, 12, 12\), not"),
        "pairs, on meta": (lambda: dict(attn_mask=later().to("meta")), "attn_mask is on meta"),
        "pairs, biases": (lambda: dict(attn_mask=torch.ones(TOKENS, TOKENS)), "attn_mask: dense: the mask adds 1 to the score of token 0 for token 0.*score_mod"),
        "pairs, a prefix": (lambda: dict(attn_mask=later() & (torch.arange(TOKENS) > 4)), "attn_mask: dense: the mask lets token 0 see token 1"),
        "weights": (lambda: dict(need_weights=True), "never has"),
    }  # fmt: skip


@needs("torch")
class Padding(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        warnings.simplefilter("ignore")

    def seen(self, masks):
        """Rows of tokens that are there: others are 0 here, and what they happen to be in torch."""
        padding = masks.get("key_padding_mask")
        return slice(None) if padding is None else ~padding if padding.dtype == torch.bool else padding > -1e4

    def same(self, a, b, what, tolerance=1e-5):
        self.assertLess(float((a - b).abs().max()), tolerance * max(1.0, float(a.abs().max())), what)

    def test_each_mask_in_each_type_is_torchs_forwards_and_backwards(self):
        theirs, ours = pair()
        for name, make in TAKEN.items():
            masks, x = make(), torch.randn(BATCH, TOKENS, WIDTH)
            masks = {n: m.requires_grad_() if n == "key_padding_mask" and m.is_floating_point() else m for n, m in masks.items()}
            seen, weights, found = self.seen(masks), torch.randn(BATCH, TOKENS, WIDTH), []
            for module in (theirs, ours):
                y = x.clone().requires_grad_()
                out = module(y, y, y, need_weights=False, **masks)[0][seen]
                wanted = [y, *module.parameters(), *(m for m in masks.values() if isinstance(m, torch.Tensor) and m.requires_grad)]
                found.append((out, *torch.autograd.grad((out * weights[seen]).sum(), wanted)))
            for a, b in zip(*found):
                self.same(a, b, name, 2e-5)

    def test_compiled_masks_are_eager_ones(self):
        _, ours = pair()
        x = torch.randn(BATCH, TOKENS, WIDTH)
        for name in ("padding, bool", "padding, biases and -inf", "padding, 0 and -inf", "both, biases and -inf"):
            masks = TAKEN[name]()
            run = torch.compile(lambda x, masks: ours(x, x, x, **masks)[0], fullgraph=True, backend="aot_eager")  # noqa: B023
            found = []
            for call in (run, lambda x, masks: ours(x, x, x, **masks)[0]):
                y = x.clone().requires_grad_()
                more = {n: m.detach().clone().requires_grad_() if n == "key_padding_mask" and m.is_floating_point() else m for n, m in masks.items()}
                out = call(y, more)
                found.append((out, *torch.autograd.grad(out.square().sum(), [y, *(m for m in more.values() if m.requires_grad)])))
            for a, b in zip(*found):
                self.assertTrue(torch.equal(a, b), name)
            torch._dynamo.reset()

    def test_other_types_and_lengths_without_a_batch(self):
        theirs, ours = pair()
        x, bias = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS)
        for mask in (bias, torch.arange(TOKENS) >= 9, bias.masked_fill(torch.arange(TOKENS) >= 9, INF)):
            seen = ~mask if mask.dtype == torch.bool else mask > INF
            self.same(theirs(x, x, x, mask, False)[0][seen], ours(x, x, x, mask)[0][seen], mask.dtype)
        self.same(ours(x, x, x, bias.double())[0], ours(x, x, x, bias)[0], "double")  # torch takes its query's type alone
        theirs, ours, x = theirs.bfloat16(), ours.bfloat16(), torch.randn(BATCH, TOKENS, WIDTH).bfloat16()
        for mask in (biases().bfloat16(), biases()):
            self.same(theirs(x, x, x, mask.bfloat16(), False)[0].float(), ours(x, x, x, mask)[0].float(), mask.dtype, 0.03)

    def test_what_is_refused_is_refused_by_its_name(self):
        _, ours = pair()
        x = torch.randn(BATCH, TOKENS, WIDTH)
        for name, (make, says) in REFUSED.items():
            with self.subTest(name), self.assertRaisesRegex(hga.Error, says):
                ours(x, x, x, **make())
        y = torch.randn(BATCH, 7, WIDTH)
        for masks, says in ((dict(key_padding_mask=torch.zeros(BATCH, 7, dtype=torch.bool)), "key_padding_mask of cross-attention"),
                            (dict(attn_mask=torch.zeros(TOKENS, 7)), "attn_mask of cross-attention"), (dict(is_causal=True), "is_causal of cross")):  # fmt: skip
            refused(self, f"dense: {says}.*from_mask", lambda: ours(x, y, y, **masks))

    def test_numbers_reach_windows_and_relative_tables_but_not_means(self):
        x, bias = leaf(BATCH, 40, WIDTH), torch.randn(BATCH, 40, requires_grad=True)
        m = ht.Attention("window:left=3:right=2", WIDTH, HEADS)
        at = torch.arange(40)
        back = at[:, None] - at
        q, k, v = (t.transpose(1, 2) for t in m.project(x).view(BATCH, 40, 6, 8).split(2, 2))
        seen = torch.where((back <= 3) & (back >= -2), bias[:, None, None, :], INF)
        want = m.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(BATCH, 40, WIDTH))
        out, weights = m(x, key_padding_mask=bias), torch.randn(BATCH, 40, WIDTH)
        for a, b in zip((want, *torch.autograd.grad((want * weights).sum(), (x, bias))), (out, *torch.autograd.grad((out * weights).sum(), (x, bias)))):
            self.same(a, b, "window", 2e-5)
        for spec, does in (("htransformer:block=4", "attends to means of tokens"), ("fenwick", "attends to means of tokens"), ("routed:block=4:k=1", "chooses keys")):
            for module, call in ((ht.Attention(spec, WIDTH, HEADS), lambda m: m(x, key_padding_mask=bias)),
                                 (ht.MultiheadAttention(WIDTH, HEADS, batch_first=True, spec=spec), lambda m: m(x, x, x, key_padding_mask=bias))):  # fmt: skip
                with self.subTest(spec), self.assertRaisesRegex(hga.Error, f"key_padding_mask adds .* to the scores of token 0 of sample 0, and {spec} {does}.*'dense'"):
                    call(module)
                hides = as_numbers(torch.arange(40) >= torch.tensor([[40], [21]]))  # hides no token by a number that is added
                self.same(call_with(module, x, hides), call_with(module, x, hides < 0), spec, 1e-7)

    def test_relative_keys_and_numbers(self):
        m = ht.Attention("htransformer:block=16:relative=1", WIDTH, HEADS, relative_keys=True, relative_bias=True, tokens=24)
        for p in (m.rel_key, m.rel_bias):
            torch.nn.init.normal_(p)
        x, none = torch.randn(1, 20, WIDTH), torch.full((1, 20), 0.75)  # which softmax does not see
        self.same(m(x), m(x, key_padding_mask=none), "relative")
        grads = [torch.autograd.grad(m(x, **more).square().sum(), (m.rel_key, m.rel_bias)) for more in ({}, dict(key_padding_mask=none))]
        for a, b in zip(*grads):
            self.same(a, b, "relative", 1e-4)

    def test_attention_takes_torchs_mask(self):
        m, x = ht.Attention("dense", WIDTH, HEADS, causal=True), torch.randn(BATCH, TOKENS, WIDTH)
        bias = biases().masked_fill(hidden(), INF)
        q, k, v = (t.transpose(1, 2) for t in m.project(x).view(BATCH, TOKENS, 6, 8).split(2, 2))
        mask = bias[:, None, None, :] + as_numbers(later())
        want = m.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))
        self.same(want[~hidden()], m(x, key_padding_mask=bias)[~hidden()], "causal")
        for name, (make, says) in REFUSED.items():
            masks = make()
            if "key_padding_mask" in masks:
                with self.subTest(name), self.assertRaisesRegex(hga.Error, says):
                    m(x, **masks)
        with self.assertRaisesRegex(hga.Error, "lengths and key_padding_mask go with a name"):
            ht.Attention(hga.dense(TOKENS), WIDTH, HEADS)(x, key_padding_mask=biases())

    def test_layers_of_torch_pass_their_masks_on(self):
        """src_mask, src_key_padding_mask, is_causal, tgt_mask and memory_mask of torch's layers."""
        x = torch.randn(BATCH, TOKENS, WIDTH)
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=True)
        own = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=True)
        own.load_state_dict(layer.state_dict())
        own.self_attn = ht.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        own.self_attn.load_state_dict(layer.self_attn.state_dict())
        names = {"key_padding_mask": "src_key_padding_mask", "attn_mask": "src_mask", "is_causal": "is_causal"}
        for name, make in TAKEN.items():
            masks = make()
            if len({m.dtype for m in masks.values() if isinstance(m, torch.Tensor)}) < 2:
                given = {names[n]: m for n, m in masks.items()}
                self.same(layer(x, **given)[self.seen(masks)], own(x, **given)[self.seen(masks)], name)
        decoder = torch.nn.TransformerDecoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=True)
        like = torch.nn.TransformerDecoderLayer(WIDTH, HEADS, 32, dropout=0.0, batch_first=True)
        like.load_state_dict(decoder.state_dict())
        for part in ("self_attn", "multihead_attn"):
            attention = ht.MultiheadAttention(WIDTH, HEADS, batch_first=True)
            attention.load_state_dict(getattr(decoder, part).state_dict())
            setattr(like, part, attention)
        memory = torch.randn(BATCH, 7, WIDTH)
        self.same(decoder(x, memory, tgt_mask=later()), like(x, memory, tgt_mask=later()), "decoder")
        with self.assertRaisesRegex(hga.Error, "key_padding_mask of cross-attention is not understood.*from_mask"):
            like(x, memory, memory_key_padding_mask=torch.zeros(BATCH, 7, dtype=torch.bool))

    def test_masks_of_functions(self):
        """flex_attention's, and keywords of others' masks."""
        q = torch.randn(1, 2, TOKENS, 8)
        refused_each(self, (
            (lambda: ht.flex_attention(q, q, q, None, later()), "block_mask is a Tensor, not a BlockMask"),
            (lambda: ht.flex_attention(q, q, q, later()), "score_mod is .*, not a function"),
            (lambda: hga.dense(TOKENS).attention(q, q, q, attn_mask=later()), "attention has no attn_mask=.*from_scipy"),
            (lambda: hga.dense(TOKENS).attention(q, q, q, key_padding_mask=later()), "attention has no key_padding_mask=.*lengths"),
            (lambda: hga.Graph.from_mask(as_numbers(later())), "the mask holds float32, not truth values"),
            (lambda: hga.Graph.from_mask(later().int()), "the mask holds int32, not truth values"),
            (lambda: hga.Graph.from_mask(later()[0]), "the mask has shape"),
        ))  # fmt: skip
        for kind in (lambda b, h, i, j: (i >= j).int(), lambda b, h, i, j: (i >= j).float()):
            with self.assertRaisesRegex(hga.Error, "mask_mod"):
                ht.flex_attention(q, q, q, None, ht.create_block_mask(kind, None, None, TOKENS, TOKENS))


def call_with(module, x, mask):
    return module(x, x, x, key_padding_mask=mask)[0] if isinstance(module, ht.MultiheadAttention) else module(x, key_padding_mask=mask)
