"""Attention with a backward pass of its own, against attention written out, and a model's gradients with PyTorch's."""

import math

import pytest
import torch

from reflect_rl.config import EmbeddedConfig
from reflect_rl.models.attention import ATTENTION, attend
from reflect_rl.models.embedded import build_embedded
from reflect_rl.models.network import Network


def written_out(query, key, value, scale):
    """The definition, one position at a time."""
    rows = []
    for place in range(query.shape[2]):
        scores = (query[:, :, place : place + 1] * key[:, :, : place + 1]).sum(-1) * scale
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        rows.append((weights[..., None] * value[:, :, : place + 1]).sum(2))
    return torch.stack(rows, 1)


@pytest.mark.parametrize("heads_of_keys", [4, 2, 1])
@pytest.mark.parametrize("scaling", [None, 0.3])
def test_values_and_gradients_are_those_of_the_definition(heads_of_keys, scaling):
    torch.manual_seed(0)
    shapes = [(2, 4, 5, 3), (2, heads_of_keys, 5, 3), (2, heads_of_keys, 5, 3)]
    parts = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    goal = torch.randn(2, 5, 4, 3, dtype=torch.float64)
    ours, _ = attend(torch.nn.Module(), *parts, None, scaling=scaling)
    spread = [parts[0], *(part.repeat_interleave(4 // heads_of_keys, 1) for part in parts[1:])]
    theirs = written_out(*spread, 1 / math.sqrt(3) if scaling is None else scaling)
    assert torch.allclose(ours, theirs)
    for mine, wanted in zip(*(torch.autograd.grad((x * goal).sum(), parts) for x in (ours, theirs)), strict=True):
        assert torch.allclose(mine, wanted)


def test_a_mask_is_obeyed():
    query, key, value = (torch.randn(1, 1, 3, 2, requires_grad=True) for _ in range(3))
    mask = torch.eye(3, dtype=torch.bool)[None, None]
    # Each position may see itself alone, so it reads its own value.
    assert torch.allclose(attend(torch.nn.Module(), query, key, value, mask)[0], value.transpose(1, 2))


def test_values_and_gradients_under_a_mask_of_numbers_are_those_of_the_definition():
    torch.manual_seed(0)
    query, key, value = parts = [torch.randn(2, 3, 4, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    # Two branches behind the first position: the third does not see the second.
    sees = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)
    mask = torch.where(sees, 0.0, torch.finfo(torch.bfloat16).min)[None, None].double()
    goal = torch.randn(2, 4, 3, 2, dtype=torch.float64)
    ours, _ = attend(torch.nn.Module(), *parts, mask)
    weights = ((query @ key.transpose(-1, -2)) / math.sqrt(2)).exp() * sees
    theirs = (weights / weights.sum(-1, keepdim=True) @ value).transpose(1, 2)
    assert torch.allclose(ours, theirs)
    for mine, wanted in zip(*(torch.autograd.grad((x * goal).sum(), parts) for x in (ours, theirs)), strict=True):
        assert torch.allclose(mine, wanted)


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_a_model_has_the_gradients_that_it_has_with_the_attention_of_pytorch(architecture):
    """Rows of several lengths: padding on the right changes nothing before it."""
    shape = EmbeddedConfig(architecture=architecture, hidden_size=32, layers=2)
    model = build_embedded(["a b c 1 2 3"], shape, 0)
    assert model.model.config._attn_implementation == ATTENTION
    ids = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, model.pad_id, model.pad_id]])
    found = []
    for name in (ATTENTION, "sdpa"):
        model.model.set_attn_implementation(name)
        model.model.zero_grad()
        Network(model)(ids, torch.tensor([0, 1]), torch.tensor([4, 2])).logits.square().sum().backward()
        found.append([weight.grad.clone() for weight in model.model.parameters() if weight.grad is not None])
    for mine, theirs in zip(*found, strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5 * float(theirs.abs().max()))


def test_a_saved_model_does_not_name_it(tmp_path):
    build_embedded(["a b c"], EmbeddedConfig(), 0).save(tmp_path)
    assert ATTENTION not in (tmp_path / "config.json").read_text()
