"""Models of python/tests/architectures.py, and what they are given."""

import torch
import transformers as tf
from architectures import Size, kinds, side_of
from hga._core.releases import asks


def made(name, numbers):
    torch.manual_seed(1)
    return tf.AutoModel.from_config(tf.AutoConfig.for_model(name, **numbers)).eval()


def given(kind, size=Size(), batch=2):
    """What a model of the kind reads."""
    ids = torch.randint(4, 90, (batch, size.tokens))
    if kind in ("image", "sound"):
        side = 4 * side_of(size)
        return {"pixel_values": torch.randn(batch, 3, side, side)} if kind == "image" else {"input_values": torch.randn(batch, 20 * size.tokens + 15)}
    read = {"input_features": torch.randn(batch, 4, 2 * size.tokens)} if kind == "speech" else {"input_ids": ids}
    return {**read, "decoder_input_ids": ids[:, :40]} if kind in ("two texts", "speech") else read


def padding_of(batch, tokens):
    """An attention_mask of texts of different lengths, the first the longest."""
    lengths = torch.linspace(1, 0.3, batch).mul(tokens).long()
    return (torch.arange(tokens) < lengths[:, None]).long()


def models(size=Size(), only=()):
    """(kind, type, model) of those that this transformers has and that ask for attention by its name."""
    for kind, types in kinds(size).items():
        for name, numbers in types.items():
            if name not in tf.CONFIG_MAPPING or (only and name not in only):
                continue
            model = made(name, numbers)
            if asks(type(model)):
                yield kind, name, model
