"""Linear layers with an adapter (LoRA, Hu et al. 2022), computed by matrix products alone.

PEFT computes W x, then s B A x, scales it and adds it: three tensors of the full size, and as many again in the
backward pass. Here the small products are added to the large one while they are computed, which saves a seventh of a
training step with SmolLM2-135M (docs/reference/speed.md). Weights, files and names stay PEFT's.
"""

from __future__ import annotations

from typing import Any

import torch
from peft.tuners import lora
from torch import Tensor, nn

FEWEST_ROWS = 64
"""Tokens of a pass from which it pays; with one token of each text, PEFT's way is a tenth faster."""


class _AdaptedProduct(torch.autograd.Function):
    """x Wᵀ + b + s x Aᵀ Bᵀ of (N, in) rows x, in their format; W and b are frozen."""

    @staticmethod
    def forward(
        context: Any, rows: Tensor, weight: Tensor, bias: Tensor | None, down: Tensor, up: Tensor, scale: float
    ) -> Tensor:
        inner = rows @ down.to(rows.dtype).T
        # The weights as they are stored: copies in the format of the rows would stay until the backward pass.
        context.save_for_backward(rows, inner, weight, down, up)
        context.scale = scale
        result = nn.functional.linear(rows, weight.to(rows.dtype), None if bias is None else bias.to(rows.dtype))
        return result.addmm_(inner, (scale * up).to(rows.dtype).T)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        rows, inner, weight, down, up = context.saved_tensors
        (gradient,) = gradients
        small = gradient @ (context.scale * up).to(rows.dtype)
        below = None
        # Nothing below the lowest adapters is trained.
        if context.needs_input_grad[0]:
            below = (gradient @ weight.to(rows.dtype)).addmm_(small, down.to(rows.dtype))
        up_gradient = context.scale * (gradient.T @ inner).to(up.dtype)
        return below, None, None, (small.T @ rows).to(down.dtype), up_gradient, None


class AdaptedLinear(lora.Linear):  # type: ignore[misc, unused-ignore]
    """PEFT's layer; one adapter on frozen weights, without dropout, takes the short way."""

    def forward(self, x: Tensor, *args: Any, **options: Any) -> Tensor:
        """W x + b + s B A x over the last dimension of x."""
        rows, base, names = x.reshape(-1, x.shape[-1]), self.base_layer, self.active_adapters
        other = args or options or self.disable_adapters or self.merged or self.lora_variant
        if len(rows) >= FEWEST_ROWS and not other and len(names) == 1 and names[0] in self.lora_A:
            down, up, dropout = (part[names[0]] for part in (self.lora_A, self.lora_B, self.lora_dropout))
            frozen = not any(weight.requires_grad for weight in base.parameters()) and up.bias is None
            drops = dropout.training and not isinstance(dropout, nn.Identity)
            # What watches or gathers the weights of an inner layer (FSDP) must see its pass.
            hooked = any(part._forward_pre_hooks or part._forward_hooks for part in (base, down, up))
            mixed = torch.is_autocast_enabled(x.device.type)
            same = x.dtype == base.weight.dtype == down.weight.dtype == up.weight.dtype
            if frozen and (mixed or same) and not (drops or hooked):
                rows = rows.to(torch.get_autocast_dtype(x.device.type) if mixed else x.dtype)
                weights = (base.weight, base.bias, down.weight, up.weight)
                return _AdaptedProduct.apply(rows, *weights, self.scaling[names[0]]).view(*x.shape[:-1], -1)
        return super().forward(x, *args, **options)


def accelerate(model: Any, *, mixed: bool) -> None:
    """Let the adapters of a model take the short way, and leave their inputs in bfloat16 for passes under autocast.

    PEFT turns inputs into float32 and autocast turns them back, at every layer; the backward pass kept both.
    """
    for layer in model.modules():
        if mixed and isinstance(layer, lora.LoraLayer):
            layer.cast_input_dtype_enabled = False
        # Exactly these: quantised layers and GPT-2's transposed ones have a forward pass of their own.
        if type(layer) is lora.Linear and type(layer.base_layer) is nn.Linear:
            layer.__class__ = AdaptedLinear
