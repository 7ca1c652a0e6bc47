"""Dropout of adapters on processors: draws the places that are dropped instead of a number for every place.

PyTorch draws one number after the other on a CPU. With SmolLM2-135M and adapters on all linear layers that took a third
of a training step (docs/reference/speed.md).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class _DropPlaces(torch.autograd.Function):
    """x / (1 - p) with some places set to zero."""

    @staticmethod
    def forward(context: Any, values: Tensor, p: float) -> Tensor:
        # A place that is hit Poisson(λ) times stays with probability exp(-λ) = 1 - p, whatever happens to the others.
        expected = -math.log1p(-p) * values.numel()
        hits = int(torch.poisson(torch.tensor(expected, dtype=torch.float64)))
        context.places, context.p = torch.randint(values.numel(), (hits,)), p
        return _without(values, context.places, p)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return _without(gradient, context.places, context.p), None


def _without(values: Tensor, places: Tensor, p: float) -> Tensor:
    scaled = values.contiguous() / (1 - p)
    scaled.view(-1).index_fill_(0, places, 0)
    return scaled


class PlaceDropout(nn.Dropout):
    """The distribution of `nn.Dropout`, drawn from torch's global generator."""

    def forward(self, values: Tensor) -> Tensor:
        """Values (any shape) with each place zero with probability p, and the others divided by 1 - p, in training."""
        if not self.training or not 0 < self.p < 1 or values.device.type != "cpu" or not values.numel():
            return super().forward(values)
        dropped: Tensor = _DropPlaces.apply(values, self.p)
        return dropped


def draw_places(model: Any) -> None:
    """Let the adapters of a model drop in this way."""
    from peft.tuners.lora import LoraLayer

    layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLayer)]
    for layer in layers:
        for name, module in layer.lora_dropout.items():
            # A layer without dropout has an identity there.
            if type(module) is nn.Dropout:
                layer.lora_dropout[name] = PlaceDropout(module.p)
