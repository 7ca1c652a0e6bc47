"""Dropout that draws places: the distribution of PyTorch's, its gradient, and where it is used."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models.dropout import PlaceDropout
from reflect_rl.models.load import load_model
from tiny_models import save_tiny


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_each_place_is_dropped_with_probability_p_and_the_rest_is_scaled(p):
    torch.manual_seed(0)
    layer, rounds = PlaceDropout(p), 4000
    kept = torch.stack([layer(torch.ones(3, 5)) for _ in range(rounds)])
    assert set(kept.unique().tolist()) <= {0.0, float(torch.tensor(1.0) / (1 - p))}
    # Six standard deviations of the share of a place, and of a product of two places.
    share, far = (kept != 0).float().mean(0), 6 * (p * (1 - p) / rounds) ** 0.5
    assert ((share - (1 - p)).abs() < far).all()
    both = ((kept[:, 0, 0] != 0) & (kept[:, 2, 4] != 0)).float().mean()
    assert abs(float(both) - (1 - p) ** 2) < 6 * 0.5 / rounds**0.5


def test_the_gradient_is_zero_where_it_dropped_and_scaled_elsewhere():
    torch.manual_seed(0)
    values = torch.randn(40, 30, requires_grad=True)
    # Not contiguous, as rows behind a transposition are.
    out = PlaceDropout(0.3)(values.T)
    out.backward(torch.full((30, 40), 7.0))
    dropped = out.T == 0
    assert 0.2 < float(dropped.float().mean()) < 0.4
    torch.testing.assert_close(values.grad, torch.where(dropped, 0.0, 7.0 / 0.7))


def test_the_generator_of_torch_decides():
    layer, values = PlaceDropout(0.3), torch.ones(100)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(layer(values))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_nothing_is_dropped_outside_training_and_without_a_share():
    values = torch.ones(1000)
    assert torch.equal(PlaceDropout(0.5).eval()(values), values)
    assert torch.equal(PlaceDropout(0.0)(values), values)
    assert torch.equal(PlaceDropout(1.0)(values), torch.zeros(1000))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_adapters_drop_so_new_ones_and_loaded_ones(tmp_path, dropout):
    base = save_tiny("llama", tmp_path / "base")
    config = ModelConfig(path=str(base), device="cpu", lora=LoRAConfig(rank=2, dropout=dropout))
    model = load_model(config, trainable=True)
    model.save(tmp_path / "adapter")
    for found in (model, load_model(config, tmp_path / "adapter", trainable=True)):
        layers = [module for module in found.model.modules() if isinstance(module, nn.Dropout)]
        assert len(layers) == (14 if dropout else 0)
        assert all(type(layer) is PlaceDropout and layer.p == dropout for layer in layers)
