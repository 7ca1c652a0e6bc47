"""Supervised training beside a plain loop of transformers."""

import pytest
import torch

from reflect_bench.shapes import build, examples_of, texts_of
from reflect_bench.supervised import BATCH, measure_supervised
from reflect_rl.config import EmbeddedConfig
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.dangerous_taxi import DangerousTaxi

SPEC = EnvSpec.of(DangerousTaxi)


@pytest.fixture
def model():
    shape = EmbeddedConfig(hidden_size=16, layers=1, heads=2)
    return build("embedded", texts_of(SPEC, seed=0, starts=2), 0, shape, torch.device("cpu"), "float32")


def test_both_loops_take_the_gradient_of_the_same_loss(model):
    figures = measure_supervised(model, examples_of(SPEC, seed=0, starts=2), 2, lambda note: None)
    assert figures["sft_gradient_difference"] < 1e-5
    seconds = {name: min(values) for name, values in figures["sft_seconds"].items()}
    assert figures["sft_ratio"] == seconds["plain"] / seconds["ours"]
    assert figures["sft_rows_per_second"] == {name: BATCH / value for name, value in seconds.items()}
    assert [len(values) for values in figures["sft_seconds"].values()] == [2, 2]


def test_measuring_leaves_weights_and_gradients_as_they_were(model):
    before = model.hash()
    measure_supervised(model, examples_of(SPEC, seed=0, starts=2), 1, lambda note: None)
    assert model.hash() == before
    assert all(weight.grad is None for weight in model.model.parameters())
    assert not model.model.training
