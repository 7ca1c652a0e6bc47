"""Passes that a GPU replays, run here as they are: their tensors stay, and gradients add up."""

from __future__ import annotations

import copy

import pytest
import torch

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models.graphs import SEEN, Graphs
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.network import Tree, backbone
from tiny_models import save_tiny

LOWEST = torch.finfo(torch.bfloat16).min
WEIGHTS = torch.linspace(-1, 1, 400, dtype=torch.float64)


@pytest.fixture(params=["llama", "gpt2", "qwen"])
def model(request, tmp_path) -> LanguageModel:
    """A tiny model with adapters, on a processor also where there is a GPU."""
    config = ModelConfig(device="cpu", lora=LoRAConfig(rank=2))
    model = load_model(config, save_tiny(request.param, tmp_path / "model"), trainable=True)
    for name, weight in model.model.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(generator=torch.Generator().manual_seed(len(name)))
    model.model.double()  # so that sums may be compared closely
    return model


def plain(model: LanguageModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    mask = {} if "attention_mask" in inputs else {"attention_mask": None}
    return backbone(model.model)(**inputs, **mask, use_cache=False).last_hidden_state


def rows(seed: int, count: int = 3, tokens: int = 20) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(5, 40, (count, tokens), generator=torch.Generator().manual_seed(seed))}


def trees(seed: int) -> dict[str, torch.Tensor]:
    tree = Tree.of([[-1, 0, 1, 1, 3, 2], [-1, 0, 0, 2]], torch.device("cpu"))
    return rows(seed, 2, 6) | {"attention_mask": tree.mask.double(), "position_ids": tree.depths}


def loss(states: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    count, tokens = inputs["input_ids"].shape
    own = states[:count, :tokens]
    return (own * WEIGHTS[: own.numel() % 300 + 1].mean()).square().mean() + own[:, -1].sum()


def seen(graphs: Graphs, model: LanguageModel, inputs: dict[str, torch.Tensor], most: int = 1000) -> None:
    for _ in range(SEEN):
        graphs.states(backbone(model.model), inputs, most, LOWEST)
    assert not graphs.passes


@pytest.mark.parametrize("make", [rows, trees])
def test_states_are_those_of_the_pass_itself(model, make):
    graphs = Graphs()
    with torch.no_grad():
        seen(graphs, model, make(0))
        for number in range(3):
            inputs = make(number)
            tokens = inputs["input_ids"].shape[1]
            states = graphs.states(backbone(model.model), inputs, 1000, LOWEST)
            expected = plain(model, inputs)
            real = (0, slice(None)), (1, slice(4))
            for row, places in real:
                torch.testing.assert_close(states[row, :tokens][places], expected[row][places])


@pytest.mark.parametrize("make", [rows, trees])
def test_gradients_of_several_passes_add_up(model, make):
    graphs, parameters = Graphs(), [weight for weight in model.model.parameters() if weight.requires_grad]
    seen(graphs, model, make(0))
    for first in range(2):
        found = []
        for replays in (True, False):
            model.model.zero_grad(set_to_none=True)
            for number in range(first, first + 3):
                inputs = make(number)
                own = graphs.states(backbone(model.model), inputs, 1000, LOWEST) if replays else plain(model, inputs)
                loss(own, inputs).backward()
            found.append([None if weight.grad is None else weight.grad.clone() for weight in parameters])
        for ours, theirs in zip(*found, strict=True):
            torch.testing.assert_close(ours, theirs)
        assert any(part is not None and part.abs().sum() > 0 for part in found[0])
        with torch.no_grad():
            for weight in parameters:
                weight.add_(0.01)


def test_a_second_pass_before_the_first_has_gone_back_runs_as_it_is(model):
    graphs = Graphs()
    seen(graphs, model, rows(0))
    inside, parameters = backbone(model.model), [w for w in model.model.parameters() if w.requires_grad]
    first = graphs.states(inside, rows(0), 1000, LOWEST)
    second = graphs.states(inside, rows(1), 1000, LOWEST)
    assert graphs.busy
    (loss(first, rows(0)) + loss(second, rows(1))).backward()
    found = [weight.grad.clone() for weight in parameters]
    assert not graphs.busy
    model.model.zero_grad(set_to_none=True)
    (loss(plain(model, rows(0)), rows(0)) + loss(plain(model, rows(1)), rows(1))).backward()
    for ours, theirs in zip(found, parameters, strict=True):
        torch.testing.assert_close(ours, theirs.grad)


def test_a_pass_whose_loss_is_dropped_blocks_none(model):
    graphs = Graphs()
    seen(graphs, model, rows(0))
    states = loss(graphs.states(backbone(model.model), rows(0), 1000, LOWEST), rows(0))
    assert graphs.busy
    del states
    assert not graphs.busy


def test_other_trained_weights_and_weights_elsewhere_are_other_passes(model):
    graphs, inside = Graphs(), backbone(model.model)
    adapters = [weight for name, weight in inside.named_parameters() if "lora_" in name]
    for freeze in (adapters[:2], adapters[2:4]):
        for weight in adapters:
            weight.requires_grad_(not any(weight is one for one in freeze))
        for _ in range(SEEN + 1):
            model.model.zero_grad(set_to_none=True)
            loss(graphs.states(inside, rows(0), 1000, LOWEST), rows(0)).backward()
        assert all((weight.grad is not None) == weight.requires_grad for weight in adapters)
    assert len(graphs.passes) == 2
    with torch.no_grad():
        adapters[-1].data = adapters[-1].data.clone() + 1
        states = graphs.states(inside, rows(0), 1000, LOWEST)
        torch.testing.assert_close(states[0, :20], plain(model, rows(0))[0])


def test_inference_mode_leaves_nothing_that_could_not_be_written_to(model):
    graphs, inside = Graphs(), backbone(model.model)
    with torch.inference_mode():
        for _ in range(SEEN + 2):
            graphs.states(inside, rows(0), 1000, LOWEST)
    assert not graphs.passes


def test_rows_and_columns_are_rounded_up_but_not_over_the_models_positions(model):
    graphs, inside = Graphs(), backbone(model.model)
    with torch.no_grad():
        for _ in range(SEEN + 2):
            assert graphs.states(inside, rows(0, 5, 70), 1000, LOWEST).shape[:2] == (6, 128)
            assert graphs.states(inside, rows(0, 7, 70), 100, LOWEST).shape[:2] == (8, 100)
    assert len(graphs.passes) == 2


def test_another_rate_of_dropout_is_another_pass(model):
    graphs = Graphs()
    inside = backbone(model.model).train()
    for _ in range(SEEN + 1):
        loss(graphs.states(inside, rows(0), 1000, LOWEST), rows(0)).backward()
    assert len(graphs.passes) == 1
    inside.one_more = torch.nn.Dropout(0.3)
    for _ in range(SEEN + 1):
        loss(graphs.states(inside, rows(0), 1000, LOWEST), rows(0)).backward()
    assert len(graphs.passes) == 2


def test_a_copy_of_a_model_has_no_passes_of_the_first(model):
    graphs = Graphs()
    with torch.no_grad():
        seen(graphs, model, rows(0))
        graphs.states(backbone(model.model), rows(0), 1000, LOWEST)
    assert graphs.passes
    assert not copy.deepcopy(graphs).passes


def test_checkpointed_activations_are_computed_as_they_are(model):
    backbone(model.model).gradient_checkpointing = True
    graphs = Graphs()
    for number in range(SEEN + 2):
        graphs.states(backbone(model.model), rows(number), 1000, LOWEST)
    assert not graphs.passes


@pytest.mark.parametrize(("unused", "kept"), [(100, [1, 2]), (SEEN, [2, 3])])
def test_a_captured_shape_gives_way_to_another_only_when_it_is_out_of_use(model, monkeypatch, unused, kept):
    monkeypatch.setattr("reflect_rl.models.graphs.KEPT_SHAPES", 2)
    monkeypatch.setattr("reflect_rl.models.graphs.UNUSED", unused)
    graphs, inside = Graphs(), backbone(model.model)
    with torch.no_grad():
        for count in (1, 2, 3):
            for _ in range(SEEN + 1):
                graphs.states(inside, rows(0, count), 1000, LOWEST)
    assert [rows for rows, *_ in graphs.passes] == kept


def test_a_captured_shape_of_weights_that_lie_elsewhere_gives_way_at_once(model, monkeypatch):
    monkeypatch.setattr("reflect_rl.models.graphs.KEPT_SHAPES", 1)
    graphs, inside = Graphs(), backbone(model.model)
    with torch.no_grad():
        for _ in range(SEEN + 1):
            graphs.states(inside, rows(0, 1), 1000, LOWEST)
        for weight in inside.parameters():
            weight.data = weight.data.clone()
        for _ in range(SEEN + 1):
            graphs.states(inside, rows(0, 2), 1000, LOWEST)
    assert [rows for rows, *_ in graphs.passes] == [2]
