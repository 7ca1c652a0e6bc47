"""A step of supervised training, measured: all ways take the gradient of the same loss."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig

from reflect_bench import step
from reflect_bench.step import measure, random_model, steps_of

TINY = LlamaConfig(
    hidden_size=16, num_hidden_layers=2, intermediate_size=32, num_attention_heads=2, num_key_value_heads=1,
    vocab_size=400,
)  # fmt: skip


def test_all_ways_take_the_same_gradient():
    model = random_model(TINY)
    rows = torch.randint(0, 400, (6, 12), generator=torch.Generator().manual_seed(0))
    model.model.eval()
    found = []
    for way in steps_of(model, rows, 4).values():
        model.model.zero_grad()
        way()
        found.append(torch.cat([w.grad.flatten() for w in model.model.parameters() if w.grad is not None]))
    for other in found[1:]:
        # Products are in bfloat16 in one way and not in the other.
        assert (other - found[0]).norm() < 0.05 * found[0].norm()
    assert found[0].norm() > 0


def test_the_first_step_is_not_counted():
    model = random_model(TINY, checkpointing=True)
    assert len(measure(model, "ours", torch.zeros(4, 12, dtype=torch.long), 4, 2)) == 2


def test_the_command_prints_one_line(monkeypatch, capsys):
    monkeypatch.setattr(step, "SHAPES", {"SmolLM2-135M": TINY})
    monkeypatch.setattr(step, "ROWS", 4)
    threads = torch.get_num_threads()
    step.main(["plain", "--repeats", "1", "--threads", "1", "--precision", "float32"])
    torch.set_num_threads(threads)
    assert capsys.readouterr().out.startswith("plain, SmolLM2-135M, float32, 1 threads: ")


def test_all_weights_of_the_small_shape_are_trained():
    model = random_model(step.SMALL, "mixed")
    assert model.mixed
    assert all(weight.requires_grad and weight.dtype is torch.float32 for weight in model.model.parameters())


def test_an_unknown_way_is_refused(capsys):
    with pytest.raises(SystemExit):
        step.main(["fast"])
    assert "invalid choice" in capsys.readouterr().err
