"""Supervised training: the loss is that of the completion tokens, by hand; interruption changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from reflect_rl.core.errors import TrainingError
from reflect_rl.models.load import LanguageModel, ModelConfig, load_model
from reflect_rl.training.sft import SFTConfig, train_sft
from tiny_models import KINDS, save_tiny
from toy import tiny_player

EXAMPLES = [
    ("The goal is at 4. # Analyze:\n", "I begin. Next: right."),
    (
        "You are at 3. The goal is at 0. Last action: wait. # Analyze:\n",
        "The last action wait was a mistake. Next: left.",
    ),
    ("0 # Analyze:\n", "left."),
]
CHOICES = [("You are at 1.\nActions: 0 left 1 right\n # Action:\n", "1"), ("You are at 12. # Action:\n", "0")]


def train(model: LanguageModel, examples, folder: Path, *, ends: bool = True, progress=None, **settings) -> list[dict]:
    config = SFTConfig(**{"steps": 1, "batch_size": len(examples), "warmup_steps": 0, **settings})
    train_sft(model, examples, config, folder, 0, ends=ends, progress=progress or (lambda *_: None))
    return metrics(folder)


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@torch.no_grad()
def loss_by_hand(model: LanguageModel, examples, *, ends: bool) -> float:
    """Mean of -log p over all completion tokens, from whole forward passes of one row each."""
    losses: list[float] = []
    for prompt, completion in examples:
        head = model.encode(prompt)
        body = model.encode_after(prompt, completion) + ([model.end_id] if ends else [])
        table = model.model(torch.tensor([head + body])).logits[0].double().log_softmax(-1)
        losses += [-float(table[len(head) - 1 + j, token]) for j, token in enumerate(body)]
    return sum(losses) / len(losses)


@pytest.fixture(params=KINDS)
def family(request, tmp_path) -> LanguageModel:
    model = load_model(ModelConfig(device="cpu"), save_tiny(request.param, tmp_path / "model"), trainable=True)
    for module in model.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


@pytest.mark.parametrize(("examples", "ends"), [(EXAMPLES, True), (CHOICES, False)])
def test_the_first_loss_is_that_of_the_completion_tokens_alone(family, tmp_path, examples, ends):
    with torch.no_grad():
        for weight in family.model.parameters():
            weight.mul_(3 if weight.dim() > 1 else 1)
    expected = loss_by_hand(family, examples, ends=ends)
    other = loss_by_hand(family, examples, ends=not ends)
    (row,) = train(family, examples, tmp_path / "sft", ends=ends)
    assert row["loss"] == pytest.approx(expected, rel=1e-4)
    # The end token makes a difference, so that its presence is tested too.
    assert abs(other - expected) > 2e-3


def test_a_model_learns_its_rows_and_where_a_reflection_ends(tmp_path):
    from reflect_rl.models.generate import generate_greedy

    model, _ = tiny_player(hidden_size=32)
    rows = train(model, EXAMPLES, tmp_path, steps=80, learning_rate=2e-2)
    assert rows[-1]["loss"] < 0.05 < rows[0]["loss"]
    model.model.eval()
    texts = generate_greedy(model, [model.encode(prompt) for prompt, _ in EXAMPLES], 60)
    assert texts == [completion for _, completion in EXAMPLES]


def test_progress_and_metrics_follow_the_schedule(tmp_path):
    model, _ = tiny_player()
    seen: list[tuple[int, int]] = []
    rows = train(
        model,
        EXAMPLES,
        tmp_path,
        steps=8,
        warmup_steps=2,
        learning_rate=1e-2,
        progress=lambda done, total, _: seen.append((done, total)),
    )
    assert [row["step"] for row in rows] == list(range(1, 9))
    assert seen == [(step, 8) for step in range(1, 9)]
    rates = [row["learning_rate"] for row in rows]
    # Up for two steps, then a cosine down to a tenth of the peak.
    assert rates[0] < rates[1] < rates[2] == pytest.approx(1e-2)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[-1] >= 1e-3


def weights(model: LanguageModel) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.model.named_parameters()}


class InterruptedRunError(Exception):
    pass


def test_an_interrupted_training_ends_like_an_uninterrupted_one(tmp_path):
    settings = {"steps": 9, "save_steps": 4, "batch_size": 2, "learning_rate": 1e-2}
    whole, _ = tiny_player()
    expected = train(whole, EXAMPLES, tmp_path / "whole", **settings)

    def stop(done: int, *_) -> None:
        if done == 6:
            raise InterruptedRunError

    first, _ = tiny_player()
    with pytest.raises(InterruptedRunError):
        train(first, EXAMPLES, tmp_path / "parts", progress=stop, **settings)
    second, _ = tiny_player(seed=5)
    found = train(second, EXAMPLES, tmp_path / "parts", **settings)
    # Steps 5 and 6 were done before the interruption and again after it; each is listed once.
    assert [row["step"] for row in found] == list(range(1, 10))
    assert [row["loss"] for row in found] == [row["loss"] for row in expected]
    assert all(torch.equal(weights(whole)[name], tensor) for name, tensor in weights(second).items())


def test_the_same_seed_gives_the_same_weights(tmp_path):
    models = []
    for name in "ab":
        model, _ = tiny_player()
        train(model, EXAMPLES, tmp_path / name, steps=3, batch_size=1)
        models.append(model)
    assert models[0].hash() == models[1].hash() != tiny_player()[0].hash()


def test_metrics_of_an_earlier_training_without_a_checkpoint_are_replaced(tmp_path):
    for _ in range(2):
        model, _labels = tiny_player()
        assert [row["step"] for row in train(model, EXAMPLES, tmp_path, steps=2)] == [1, 2]
        for path in tmp_path.glob("checkpoint-*"):
            path.rename(tmp_path / f"gone-{path.name}-{len(list(tmp_path.iterdir()))}")


def test_a_loss_that_is_not_finite_stops_the_training(tmp_path):
    model, _ = tiny_player()
    with pytest.raises(TrainingError, match=r"loss is (nan|inf) at step \d+; lower sft.learning_rate"):
        train(model, EXAMPLES, tmp_path, steps=10, learning_rate=1e30)
