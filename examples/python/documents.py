"""A hierarchical transformer encoder (HSA's appendix F) on nested documents of text and pictures, which are made from a seed.

    python3 examples/python/documents.py [--steps 100] [--seed 1]

A document has sections, these have paragraphs of words and pictures of patches, and a picture's patches lie in rows. Words tell a
topic, patches show another one, each in its own language of vectors, and the class is the difference of the two topics: who reads one
kind alone cannot know it. Families of leaves are pooled behind the first layer. It prints how many documents that no step has seen are
classified right: with a projection for each kind, with one for both, and with a projection for each kind and no pictures."""

import argparse

import hga
import hga.torch
import numpy as np
import torch
import torch.nn.functional as F

KINDS = ("word", "patch")
TOPICS, SIZE, WIDTH, HEADS = 3, 12, 24, 4


class Languages:
    """What words and patches of each topic are like: [kinds][topics][size]. Patches of topic t look like words of topic t + 1."""

    def __init__(self, rng):
        words = rng.standard_normal((TOPICS, SIZE))
        self.of = np.stack([words, np.roll(words, -1, axis=0)]).astype(np.float32)

    def draw(self, rng, kind, topic, n):
        return self.of[kind, topic] + 0.7 * rng.standard_normal((n, SIZE)).astype(np.float32)


class Documents:
    """A batch: one tree with a root for each document, what its leaves are like, and classes."""

    def __init__(self, rng, languages, n, pictures=True):
        self.parent, self.kind, rows, self.label = [], [], [], []
        for _ in range(n):
            topic = rng.integers(TOPICS, size=2)
            root = self.node(-1)
            for _ in range(rng.integers(2, 4)):
                section = self.node(root)
                for _ in range(rng.integers(1, 3)):
                    rows.append(self.leaves(self.node(section), 0, languages.draw(rng, 0, topic[0], rng.integers(3, 6))))
                picture = self.node(section)
                for _ in range(2):
                    of = languages.draw(rng, 1, topic[1], 2)
                    rows.append(self.leaves(self.node(picture), 1, of if pictures else 0 * of))
            self.label.append(int(topic[0] - topic[1]) % TOPICS)
        self.hierarchy = hga.hsa(parent=np.array(self.parent, np.int32), leaves="id").with_kinds(self.kind)
        self.x = torch.from_numpy(np.concatenate(rows))[None]
        self.label = torch.tensor(self.label)

    def node(self, parent, kind=None):
        self.parent.append(parent), self.kind.append(kind)
        return len(self.parent) - 1

    def leaves(self, parent, kind, rows):
        for _ in rows:
            self.node(parent, KINDS[kind])
        return rows


class Classifier(torch.nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.embed = hga.torch.KindLinear(SIZE, WIDTH, kinds)
        self.encoder = hga.torch.HierarchicalEncoder(WIDTH, HEADS, 2, kinds, pool=[0], hidden=2 * WIDTH)
        self.classes = torch.nn.Linear(WIDTH, TOPICS)

    def forward(self, batch):
        return self.classes(self.encoder(self.embed(batch.x, batch.hierarchy), batch.hierarchy))[0]


def learn(kinds, steps, seed, pictures=True, batch=16, check=200):
    """The share of documents that are classified right, and the losses."""
    rng = np.random.default_rng(seed)
    languages = Languages(rng)
    torch.manual_seed(seed)
    model, losses = Classifier(kinds), []
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        documents = Documents(rng, languages, batch, pictures)
        loss = F.cross_entropy(model(documents), documents.label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    with torch.no_grad():
        held_out = Documents(rng, languages, check, pictures)
        right = (model(held_out).argmax(-1) == held_out.label).float().mean()
    return float(right), losses


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    for name, kinds, pictures in (("a projection for each kind", KINDS, True), ("one projection for both", ("token",), True), ("each kind, no pictures", KINDS, False)):
        right, losses = learn(kinds, a.steps, a.seed, pictures)
        print(f"{name:28} {100 * right:5.1f} % right, loss {losses[0]:.2f} to {np.mean(losses[-10:]):.2f}; by chance {100 / TOPICS:.0f} %")


if __name__ == "__main__":
    main()
