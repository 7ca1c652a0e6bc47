"""Tiny models on which mistakes show, and what goes through them."""

from __future__ import annotations

import pytest
import torch

from reflect_rl.config import ModelConfig
from reflect_rl.models.load import LanguageModel, load_model
from tiny_models import KINDS, save_tiny


@pytest.fixture(params=KINDS)
def scaled_model(request, tmp_path) -> LanguageModel:
    """One of each family, with gradients."""
    found = load_model(ModelConfig(device="cpu"), save_tiny(request.param, tmp_path), trainable=True)
    # Weights of the usual size give nearly uniform distributions, on which mistakes would not show.
    with torch.no_grad():
        for weight in found.model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    return found


@pytest.fixture
def passes(monkeypatch):
    """A function that lists rows and columns of each pass through a model's backbone, as they happen."""

    def record(model: LanguageModel) -> list[tuple[int, ...]]:
        backbone = getattr(model.model, model.model.base_model_prefix)
        shapes: list[tuple[int, ...]] = []
        original = backbone.forward

        # With the signature of the original, which says what a model can be told and can go on from.
        def forward(*args, position_ids=None, past_key_values=None, **kwargs):
            shapes.append(tuple((args[0] if args else kwargs["input_ids"]).shape))
            if past_key_values is not None:
                kwargs["past_key_values"] = past_key_values
            return original(*args, position_ids=position_ids, **kwargs)

        monkeypatch.setattr(backbone, "forward", forward)
        return shapes

    return record
