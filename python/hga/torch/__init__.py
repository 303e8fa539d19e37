"""hga in torch: attention as a custom operator, differentiable and opaque to torch.compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from .._core.releases import needs

needs("torch", "torch")

from .._core.arguments import meant  # noqa: E402
from .._core.later import later  # noqa: E402
from .._graphs.hierarchy import OF_TORCH  # noqa: E402
from ._attention import attention as attention, of_tensors  # noqa: E402
from ._convolutions import GATConv as GATConv, GATv2Conv as GATv2Conv, TransformerConv as TransformerConv  # noqa: E402
from ._encoder import (  # noqa: E402
    HierarchicalEncoder as HierarchicalEncoder, HierarchicalEncoderLayer as HierarchicalEncoderLayer, KindLinear as KindLinear,
    pool_leaves as pool_leaves, pool_samples as pool_samples,
)  # fmt: skip
from ._flops import count  # noqa: E402
from ._modules import (  # noqa: E402
    BPT as BPT,
    Attention as Attention,
    MultiheadAttention as MultiheadAttention,
    NodeRows as NodeRows,
)
from ._natten import na1d as na1d, na2d as na2d, na3d as na3d  # noqa: E402
from ._sdpa import scaled_dot_product_attention as scaled_dot_product_attention  # noqa: E402
from ._treeformer import Treeformer as Treeformer, bootstrap as bootstrap  # noqa: E402

OF_TORCH.append(of_tensors)  # for hierarchies
count()

# FlexAttention's half of torch takes a while to import, and that of several processes is not everywhere, so they wait until
# somebody asks.
if TYPE_CHECKING:
    from ._distributed import distributed as distributed
    from .._flex.call import flex_attention as flex_attention, flex_hierarchy as flex_hierarchy
    from .._flex.masks import create_block_mask as create_block_mask
else:
    _LATER = {
        "distributed": "torch._distributed", "flex_attention": "_flex.call", "flex_hierarchy": "_flex.call", "create_block_mask": "_flex.masks",
    }  # fmt: skip

    def __getattr__(name):
        if name in _LATER:
            found = globals()[name] = getattr(later(_LATER[name]), name)
            return found
        raise AttributeError(f"module 'hga.torch' has no attribute {name!r}{meant(name, __all__)}")


__all__ = [
    "Attention", "BPT", "GATConv", "GATv2Conv", "HierarchicalEncoder", "HierarchicalEncoderLayer", "KindLinear", "MultiheadAttention",
    "NodeRows", "TransformerConv", "Treeformer", "attention", "bootstrap", "create_block_mask", "distributed", "flex_attention",
    "flex_hierarchy", "na1d", "na2d", "na3d", "pool_leaves", "pool_samples", "scaled_dot_product_attention",
]  # fmt: skip


def __dir__() -> List[str]:
    return __all__
