"""Attention whose backward pass is made of matrix products, for processors.

PyTorch's fused attention is fast forwards and slow backwards on a CPU: for rows of 200 tokens its backward pass takes
more time than all matrix products of the layer (docs/reference/speed.md). Here the forward pass is PyTorch's, and
the backward pass computes the attention weights once more and follows the equations of FlashAttention (Dao et al. 2022,
appendix B.2) without its tiling. Nothing of the size tokens x tokens is kept between the two.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "reflect_rl_cpu"
"""Name under which models ask for it (`attn_implementation`)."""


class _CausalAttention(torch.autograd.Function):
    """softmax(Q Kᵀ / √d + mask) V of (N, heads, T, d) tensors; without a mask a position sees none after itself."""

    @staticmethod
    def forward(context: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, mask: Tensor | None) -> Tensor:
        context.save_for_backward(query, key, value, mask)
        context.scale = scale
        attention, causal = nn.functional.scaled_dot_product_attention, mask is None
        return attention(query, key, value, attn_mask=mask, is_causal=causal, scale=scale)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, key, value, mask = context.saved_tensors
        (gradient,) = gradients
        later = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).triu_(1)
        # The scale goes into the smaller factor; the products stay in their format, which is half the memory to move.
        scores = (query * context.scale) @ key.transpose(-1, -2)
        weights = torch.softmax(scores.masked_fill_(later, -torch.inf) if mask is None else scores.add_(mask), -1)
        # dS = P ∘ (dP - rowsum(P ∘ dP)), with dP = dO Vᵀ.
        slope = torch.ops.aten._softmax_backward_data(gradient @ value.transpose(-1, -2), weights, -1, weights.dtype)
        slope = slope * context.scale
        return slope @ key, slope.transpose(-1, -2) @ query, weights.transpose(-1, -2) @ gradient, None, None


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it: ours where a gradient flows through a whole row, else theirs."""
    plain = not dropout and query.shape[-2] == key.shape[-2] > 1
    causal = options.get("is_causal") is not False and getattr(module, "is_causal", True)
    # A mask of numbers, as trees have it, says alone what a position sees. Where it is learned, it needs a gradient.
    constant = attention_mask is not None and attention_mask.is_floating_point() and not attention_mask.requires_grad
    known = causal if attention_mask is None else constant
    if not (plain and known and torch.is_grad_enabled() and query.device.type == "cpu"):
        theirs: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
        return theirs
    # Several heads of queries may share one of keys and values (Ainslie et al. 2023).
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    # Rotation leaves queries and keys in float32 under autocast, which PyTorch's own attention casts as well.
    mask = None if attention_mask is None else attention_mask.to(value.dtype)
    result = _CausalAttention.apply(query.to(value.dtype), key.to(value.dtype), value, scale, mask)
    return result.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, attend)
# Without a mask function of its own, transformers would hand over no mask at all.
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
