"""How many keys each head of a model needs, found once on a text (``calibrate``): the error that fewer keys would make is weighed by the
gradient of the loss, and keys go where they save most."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._core.arguments import answering, listed, number, path_of, shown, whole
from .._core.library import refuse, refuse_type
from .._core.releases import is_older, refuse_older
from .._graphs.settings import values_of
from .._graphs.shares import blocks_of, tokens_at_once
from .._graphs.spec import Spec, spec_of
from ._attention import PREFIX, words_of
from ._budgets import FORMAT, hash_of, identity_of
from ._capture import Watch, _require_one_text, inputs_of, watched_by
from ._pieces import Seen, run, starts_of, weights_of

Tensor = torch.Tensor
SINCE = "4.56"  # whose caches are made of layers
_IMPLEMENTATION = "_attn_implementation_internal"  # of a configuration, set without a look at those inside it
SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0)


class _Choice(NamedTuple):
    """The attention whose numbers are looked for, in calls of n tokens."""

    words: str
    spec: Spec
    settings: Dict[str, Any]
    shares: Tuple[float, ...]
    n: int

    @property
    def block(self) -> int:
        return int(self.settings["block"])

    @property
    def rows_at_once(self) -> int:
        return tokens_at_once(self.settings)

    @property
    def blocks(self) -> List[int]:
        """Of each share."""
        return blocks_of(self.shares, self.n, self.settings)

    def costs(self) -> Tensor:
        """Of each share: the keys that a token sees on average."""
        keys = torch.tensor([min(k * self.block, self.n) for k in self.blocks], dtype=torch.float64)
        return keys - keys**2 / (2 * self.n)


def _number(x: Any, what: str) -> float:
    """Python's own, of numpy's numbers and tensors, too."""
    if isinstance(x, (str, bytes)):
        raise refuse_type(f"calibrate: {what} is {shown(x)}, not a number")
    return number(x.tolist() if hasattr(x, "tolist") else x, f"calibrate: {what}")


def _choice_of(attention: str, shares: Sequence[float], n: int) -> _Choice:
    if not isinstance(attention, str):
        raise refuse_type(f"calibrate: attention is {shown(attention)}, not a text")
    words = words_of(attention) if attention.startswith(PREFIX) else attention
    spec = spec_of(words)
    settings = values_of(spec.settings) if spec.chooses else {}
    if not spec.chooses or spec.shares or spec.settings.declared & {"k", "threshold"} or settings["score"] == "given":
        raise refuse(f"calibrate: attention is {attention!r}: routed, without k and threshold, by scores of its own")
    if settings["coarse"]:
        raise refuse(f"calibrate: coarse in {attention!r}: a head that chooses all blocks would not be dense")
    found = tuple(sorted({_number(s, "a share") for s in listed(shares, "calibrate: shares", "numbers")}))
    if 1 not in found or not all(0 < s <= 1 for s in found):
        raise refuse(f"calibrate: shares are {list(found)}: numbers above 0, up to 1, which is among them")
    return _Choice(words, spec, settings, found, n)


# ---- errors ----


def _table(c: _Choice, k: int, seen: Seen) -> Tensor:
    """[choosers][rows][blocks]: which blocks the piece's rows attend to. Queries before the piece choose nothing that counts."""
    (heads, rows, dim), n, step = seen.q.shape, seen.k.shape[1], c.rows_at_once
    q = seen.q.new_zeros(heads, n, dim)
    q[:, n - rows :] = seen.q
    table = torch.from_numpy(spec_of(f"{c.words}:k={k}").build(n, True).choice(q, seen.k, scale=seen.scale))  # type: ignore[attr-defined]
    table = table[:, (n - rows) // step :].long()
    n_blocks = -(-n // c.block)
    chosen = torch.zeros(*table.shape[:2], n_blocks + 1, dtype=torch.bool).scatter_(2, table.where(table >= 0, n_blocks), True)
    return chosen[:, :, :n_blocks].repeat_interleave(step, 1)[:, :rows]


def _errors(c: _Choice, seen: Seen) -> Tensor:
    """[shares][heads]: the sum over a piece's rows of (gradient . (output with so many blocks - output))^2."""
    (heads, rows, _), (shared, n, _) = seen.q.shape, seen.k.shape
    w, more = weights_of(seen.q, seen.k, seen.scale, seen.tables, seen.window)
    along = (seen.gradient.reshape(shared, -1, seen.v.shape[2]) @ seen.v.float().transpose(1, 2)).view(heads, rows, n)
    missing = -n % c.block
    mass, moment = (torch.nn.functional.pad(x, (0, missing)).view(heads, rows, -1, c.block).sum(-1) for x in (w, w * along))
    dense, found = moment.sum(-1) / (mass.sum(-1) + more[..., 0]), []
    for k in c.blocks:
        if k * c.block >= c.n:
            found.append(torch.zeros(heads))
            continue
        chosen = _table(c, k, seen)
        chosen = chosen.repeat_interleave(heads // len(chosen), 0)
        own = (moment * chosen).sum(-1) / ((mass * chosen).sum(-1) + more[..., 0])
        found.append(((own - dense) ** 2).sum(-1))
    return torch.stack(found)


def _by_chooser(c: _Choice, errors: Tensor, kv_heads: int) -> Tensor:
    """[choosers][shares]: of the heads that choose together."""
    share = c.settings["share"]
    choosers = {"head": errors.shape[1], "group": kv_heads, "all": 1}[share]
    return errors.view(len(errors), choosers, -1).sum(-1).T.double()


# ---- division ----


def divide(errors: Tensor, costs: Tensor, mean: float) -> Tensor:
    """Of each chooser [..] the option whose errors [..][options] and costs make the least sum at that mean of costs: bisection of the price
    of a key."""
    low, high = 1e-18, 1e18
    for _ in range(300):
        price = (low * high) ** 0.5
        if float(costs[(errors + price * costs).argmin(-1)].mean()) > mean:
            low = price
        else:
            high = price
    return (errors + high * costs).argmin(-1)


# ---- the model ----


def _configs(config: Any) -> List[Any]:
    """A configuration and those inside it."""
    inner = (getattr(config, name, None) for name in config.sub_configs)
    return [config, *(one for c in inner if c is not None for one in _configs(c))]


@contextlib.contextmanager
def _frozen(model: Any) -> Iterator[None]:
    """Evaluated, by hga's dense attention, and without gradients of weights; afterwards it is as it was."""
    training, configs = [m for m in model.modules() if m.training], [m.config for m in model.modules() if hasattr(m, "config")]
    before = [(c, getattr(c, _IMPLEMENTATION)) for config in configs if hasattr(config, _IMPLEMENTATION) for c in _configs(config)]
    learned = [p for p in model.parameters() if p.requires_grad]
    try:
        model.eval()
        for p in learned:
            p.requires_grad_(False)
        model.set_attn_implementation(f"{PREFIX}dense")
        yield
    finally:
        for p in learned:
            p.requires_grad_(True)
        for m in training:
            m.training = True
        for config, implementation in before:  # whose file, if it names one, is not read again
            setattr(config, _IMPLEMENTATION, implementation)


class _Causal(Watch):
    """Is each attention that is seen causal?"""

    def before(self, attend: Callable[..., Any]) -> Callable[..., Any]:
        def watched(module: Any, *arguments: Any, **more: Any) -> Any:
            self.seen = getattr(self, "seen", True) and bool(getattr(module, "is_causal", True))
            return attend(module, *arguments, **more)

        return watched


def _check_causal(model: Any, ids: Tensor) -> None:
    """Does the model tell the next token? One token shows it."""
    watch = _Causal()
    with torch.no_grad(), watched_by(watch, model):
        logits = getattr(model(input_ids=ids[:, :1]), "logits", None)
    if not getattr(watch, "seen", False) or logits is None or logits.dim() != 3 or logits.shape[2] <= int(ids.max()):
        raise refuse(f"calibrate: {type(model).__name__}: a causal language model is needed, whose tokens attend to those before them and give logits")


def _ids(text: Any, tokenizer: Any) -> Tensor:
    inputs = inputs_of(text, tokenizer)
    given = inputs.get("input_ids")
    ids: Optional[Tensor] = None if given is None else inputs_of(given, None)["input_ids"].long().clone()
    if ids is None or ids.dim() != 2 or len(ids) != 1:
        raise refuse("calibrate: one text is needed, a str with a tokenizer, or the ids of its tokens")
    _require_one_text(inputs)
    return ids


def _measured(model: Any, ids: Tensor, c: _Choice, starts: Sequence[int], rows: int) -> Dict[int, Tensor]:
    """The errors [choosers][shares] of each layer, a row's mean over pieces that begin there."""
    found: Dict[int, Tensor] = {}
    types = getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ()
    shortest = c.n if all(t == "sliding_attention" for t in types) else math.inf  # beside layers that do not, one that slides is dense
    for _, layers in run(model, ids, starts, rows):
        for seen in layers:
            if seen.layer < 0:
                raise refuse(f"calibrate: {type(model).__name__}'s attention does not say which layer it is")
            own = _by_chooser(c, _errors(c, seen), len(seen.k)) / (len(starts) * rows)
            if seen.window is None or seen.window >= shortest:
                found[seen.layer] = found[seen.layer] + own if seen.layer in found else own
    if not found:
        raise refuse(f"calibrate: all layers of {type(model).__name__} slide")
    return found


@answering
def calibrate(
    model: Any, tokenizer: Any, text: Any = None, keys: float = 0.25, *, path: Any = None, attention: str = "routed:block=16:prefill=16",
    pieces: int = 4, rows: int = 64, shares: Sequence[float] = SHARES,
) -> Dict[str, Any]:  # fmt: skip
    """How many blocks each head of a causal model needs, so that it sees a share ``keys`` of what dense attention sees:
    ``calibrate(model, tokenizer, text, path="budgets.json")``, or ids of tokens in place of both; then
    attn_implementation="hga:routed:block=16:prefill=16:budgets=@budgets.json". Take a text as long as those that the model will read, and
    none that you measure it on. It is one dense pass, and pieces of its last half once more with gradients of the loss by each head's output:
    what a head's fewer keys would change of the loss, to second order, decides. A head that gets all keys is dense.

    attention: whose numbers are looked for, routed without k. pieces, rows: how many pieces of how many tokens are looked at. shares: what
    a head may get of all blocks. The dict is what the file has; layers that slide are not counted and stay as they are."""
    if text is None:
        tokenizer, text = None, tokenizer
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise refuse_type(f"model is a {type(model).__name__}, not a model of transformers")
    if is_older("transformers", SINCE):
        raise refuse_older("transformers", SINCE, "hga.transformers.calibrate")
    if any(p.is_inference() for p in model.parameters()):
        raise refuse("calibrate: the model's parameters were made under torch.inference_mode, where nothing has gradients: make it outside")
    keys, path = _number(keys, "keys"), None if path is None else _path(path)
    if not 0 < keys <= 1:
        raise refuse(f"calibrate: keys is {keys:g}; it must be above 0 and at most 1")
    with torch.inference_mode(False):
        ids = _ids(text, tokenizer)
        c, rows, pieces = _choice_of(attention, shares, ids.shape[1]), whole(rows, "rows", least=1), whole(pieces, "pieces", least=1)
        rows = -(-rows // c.rows_at_once) * c.rows_at_once
        starts, fewest, mean = starts_of(c.n, pieces, rows, c.rows_at_once), float(c.costs().min()), keys * c.n / 2
        if fewest > mean:
            raise refuse(f"calibrate: the fewest blocks are already {fewest:.0f} keys a token, and {mean:.0f} are asked for")
        with _frozen(model):
            _check_causal(model, ids)
            errors = _measured(model, ids, c, starts, rows)
        made = _made(model, c, errors, keys)
    made["made_of"] = {"tokens": c.n, "ids_sha256": hashlib.sha256(ids.numpy().tobytes()).hexdigest(), "pieces": starts, "rows": rows}
    if path is not None:
        _write(made, path)
    return made


def _made(model: Any, c: _Choice, errors: Dict[int, Tensor], keys: float) -> Dict[str, Any]:
    costs, layers, identity = c.costs(), sorted(errors), identity_of(model.config)
    every = torch.stack([errors[layer] for layer in layers])
    pick = divide(every, costs, keys * c.n / 2)
    choosers, n_layers = every.shape[1], max(int(identity["num_hidden_layers"] or 0), layers[-1] + 1)
    of_layer = {layer: [c.shares[int(i)] for i in row] for layer, row in zip(layers, pick)}
    all_shares = [of_layer.get(layer, [1.0] * choosers) for layer in range(n_layers)]
    return {
        "format": FORMAT, "schema": 1,
        "model": {"name": getattr(model.config, "_name_or_path", "") or type(model).__name__, "class": type(model).__name__,
                  "config": identity, "config_hash": hash_of(identity)},
        "attention": c.words, "n": c.n, "block": c.block, "share": c.settings["share"], "layers": n_layers, "choosers": choosers,
        "keys": keys, "mean_keys": float(costs[pick].mean()), "expected_error": float(every.gather(-1, pick[..., None]).sum()),
        "calibrated_layers": layers, "shares": all_shares, "k": [blocks_of(own, c.n, c.settings) for own in all_shares],
        "candidates": [{"share": s, "k": k, "keys": cost} for s, k, cost in zip(c.shares, c.blocks, costs.tolist())],
        "errors": every.tolist(),
    }  # fmt: skip


def _path(path: Any) -> str:
    """Of a file that can be written, and that a name of attention can have."""
    found = os.path.expanduser(path_of(path))
    folder = os.path.dirname(found) or "."
    if ":" in found:
        raise refuse(f"calibrate: path={found!r}: budgets=@FILE in a name of attention cannot have a colon in it")
    if os.path.isdir(found) or not os.access(folder, os.W_OK):
        raise refuse(f"calibrate: path={found!r}: no file can be written there")
    return found


def _write(made: Dict[str, Any], path: str) -> None:
    """It appears whole, or not at all."""
    new = f"{path}.new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            json.dump(made, file, indent=1)
            file.write("\n")
        os.replace(new, path)
    except OSError as e:
        raise refuse(f"calibrate: path={path!r}: {e.strerror or e}") from None
    finally:
        with contextlib.suppress(OSError):  # there is none once it was replaced
            os.remove(new)
