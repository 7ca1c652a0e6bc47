"""Supervised training: the loss is that of the completion tokens, by hand; interruption changes nothing."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from reflect_rl.config import ModelConfig
from reflect_rl.errors import ConfigError, ModelError, TrainingError
from reflect_rl.models import score as score_module
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.score import score
from reflect_rl.prompts import parts_of
from reflect_rl.training import trainer
from reflect_rl.training.checkpoint import CheckpointWarning
from reflect_rl.training.config import SFTConfig
from reflect_rl.training.sft import _order, train_sft
from reflect_rl.training.trainer import checkpoints_in
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


def train(
    model: LanguageModel, examples, folder: Path, *, ends=True, progress=None, rule="choice_token", **settings
) -> list[dict]:
    config = SFTConfig(**{"steps": 1, "batch_size": len(examples), "warmup_steps": 0, **settings})
    train_sft(model, examples, config, folder, 0, ends=ends, progress=progress or (lambda *_: None), rule=rule)
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


LINES = [
    ("A red door.\nActions:\nopen red\nopen blue\nwait\n # Action:\n", "open red"),
    ("A blue door.\nActions:\nopen red\nopen blue\nwait\n # Action:\n", "open blue"),
    ("A red door.\nActions:\nwait\nopen blue\nopen red\n # Action:\n", "open red"),
    ("A blue door.\nActions:\nopen blue\nwait\n # Action:\n", "open blue"),
]


def test_a_model_learns_to_choose_lines_and_its_loss_is_that_of_the_score(tmp_path):
    model, _ = tiny_player(hidden_size=32)
    parts = [model.encode_lines(*parts_of(prompt)) for prompt, _ in LINES]
    chosen = [parts_of(prompt)[1].index(line) for prompt, line in LINES]

    def losses() -> list[float]:
        with torch.no_grad():
            table = score(model, [ids for ids, _ in parts], [[[e] for e in ends] for _, ends in parts], "line_end")
        return [-float(row[place]) for row, place in zip(table.log_probs, chosen, strict=True)]

    before = losses()
    rows = train(model, LINES, tmp_path, ends=False, steps=60, learning_rate=1e-2, rule="line_end")
    assert rows[0]["loss"] == pytest.approx(np.mean(before), abs=1e-4)
    model.model.eval()
    assert max(losses()) < 0.1 < min(before)


def assert_same_training(one: tuple[list, dict], other: tuple[list, dict]) -> None:
    """Two trainings took the same steps, up to rounding: rows of metrics, and weights."""
    for row, theirs in zip(one[0], other[0], strict=True):
        assert theirs["loss"] == pytest.approx(row["loss"], rel=1e-4)
        assert theirs["gradient_norm"] == pytest.approx(row["gradient_norm"], rel=1e-3)
    for name, weight in one[1].items():
        torch.testing.assert_close(other[1][name], weight, atol=2e-4, rtol=0)


@pytest.mark.parametrize("tokens", [1, 60])
def test_a_batch_that_goes_in_parts_is_the_same_step(tmp_path, monkeypatch, tokens):
    trained, shapes = [], []
    for limit in (10_000, tokens):
        monkeypatch.setattr(trainer, "token_budget", lambda _, limit=limit: limit)
        model, rows = tiny_player()[0], []
        model.model.requires_grad_(True)
        model.model.get_input_embeddings().register_forward_pre_hook(lambda _, words, rows=rows: rows.append(words[0]))
        found = train(model, EXAMPLES, tmp_path / str(limit), steps=3, learning_rate=1e-2)
        trained.append((found, dict(model.model.named_parameters())))
        shapes.append([tuple(ids.shape) for ids in rows])
    assert len(shapes[0]) == 3 < len(shapes[1])
    assert all(rows == 1 or rows * width <= tokens for rows, width in shapes[1])
    assert_same_training(*trained)


@pytest.mark.parametrize(("tokens", "most"), [(10_000, 0.7), (40, 0.85)])
def test_rows_put_together_are_read_once_where_they_begin_alike(tmp_path, monkeypatch, tokens, most):
    examples = [(prompt + more, answer) for prompt, answer in EXAMPLES for more in ("", "Actions: 0 left", "Actions")]
    monkeypatch.setattr(trainer, "token_budget", lambda _: tokens)
    trained, read = [], []
    for least in (10_000, 2):
        monkeypatch.setattr(score_module, "REUSE_TOKENS", least)
        model, sizes = tiny_player()[0], []
        model.model.requires_grad_(True)
        model.model.get_input_embeddings().register_forward_pre_hook(
            lambda _, words, sizes=sizes: sizes.append(words[0].numel())
        )
        found = train(model, examples, tmp_path / str(least), steps=3, learning_rate=1e-2, rows_together=3)
        trained.append((found, dict(model.model.named_parameters())))
        read.append(sum(sizes))
    assert read[1] < most * read[0]
    assert_same_training(*trained)


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


class InterruptedRunError(Exception):
    pass


def interrupted(model: LanguageModel, folder: Path, at: int, **settings) -> None:
    def stop(done: int, *_) -> None:
        if done == at:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        train(model, EXAMPLES, folder, progress=stop, **settings)


def without_time(rows: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if not k.startswith(("time/", "memory/"))} for row in rows]


def test_an_interrupted_training_ends_like_an_uninterrupted_one(tmp_path):
    settings = {"steps": 9, "save_steps": 4, "batch_size": 2, "learning_rate": 1e-2}
    whole, _ = tiny_player()
    expected = train(whole, EXAMPLES, tmp_path / "whole", **settings)
    interrupted(tiny_player()[0], tmp_path / "parts", 6, **settings)
    second, _ = tiny_player(seed=5)
    found = train(second, EXAMPLES, tmp_path / "parts", **settings)
    # Steps 5 and 6 were done before the interruption and again after it; each is listed once.
    assert [row["step"] for row in found] == list(range(1, 10))
    assert without_time(found) == without_time(expected)
    assert second.hash() == whole.hash()
    # The clock goes on as well.
    seconds = [row["time/seconds"] for row in found]
    assert seconds == sorted(seconds)


def test_a_mean_over_several_steps_survives_an_interruption_between_them(tmp_path):
    """Of 250 steps every second one is logged; the checkpoint of step 3 holds the loss of step 3."""
    settings = {"steps": 250, "save_steps": 3, "batch_size": 1}
    every, _ = tiny_player()

    def first_rows(folder: Path) -> list[dict]:
        interrupted(tiny_player()[0], folder, 6, **settings)
        return without_time(metrics(folder))

    expected = first_rows(tmp_path / "whole")
    interrupted(every, tmp_path / "parts", 4, **settings)
    assert first_rows(tmp_path / "parts") == expected
    assert [row["step"] for row in expected] == [2, 4, 6]


def test_a_corrupt_checkpoint_is_refused_and_the_one_before_gives_the_same(tmp_path):
    settings = {"steps": 5, "save_steps": 2, "batch_size": 2}
    whole, _ = tiny_player()
    expected = train(whole, EXAMPLES, tmp_path, **settings)
    places = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert places == ["step-00000004", "step-00000005"]
    (tmp_path / "checkpoints" / "step-00000005" / "weights.safetensors").write_bytes(b"torn")
    again, _ = tiny_player(seed=5)
    with pytest.warns(CheckpointWarning, match="step-00000005 is corrupt"):
        found = train(again, EXAMPLES, tmp_path, **settings)
    assert without_time(found) == without_time(expected)
    assert again.hash() == whole.hash()


def test_a_finished_training_is_not_done_again(tmp_path):
    settings = {"steps": 3, "batch_size": 1}
    first, _ = tiny_player()
    rows = train(first, EXAMPLES, tmp_path, **settings)
    second, _ = tiny_player(seed=5)
    assert train(second, EXAMPLES, tmp_path, **settings) == rows
    assert second.hash() == first.hash()


def test_checkpoints_hold_no_pickles(tmp_path):
    train(tiny_player()[0], EXAMPLES, tmp_path)
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    inside = ("optimizer.safetensors", "sha256.json", "state.json", "weights.safetensors")
    assert files == {"metrics.jsonl", *(f"checkpoints/step-00000001/{name}" for name in inside)}


def dropping(tmp_path: Path) -> LanguageModel:
    """A model with dropout in its layers and in its adapters."""
    path = tmp_path / "dropping"
    if not path.exists():
        save_tiny("gpt2", path)
    return load_model(ModelConfig(device="cpu", lora={"rank": 2, "dropout": 0.3}), path, trainable=True, seed=1)


def random_states() -> tuple:
    return random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()  # noqa: NPY002


def test_the_same_seed_gives_the_same_weights_whatever_was_drawn_before(tmp_path):
    models = []
    for name in "ab":
        model = dropping(tmp_path)
        before = random_states()
        train(model, EXAMPLES, tmp_path / name, steps=3, batch_size=2)
        assert random_states() == before
        models.append(model)
        random.random(), np.random.rand(), torch.rand(1)  # noqa: NPY002
    assert metrics(tmp_path / "a")[0]["loss"] == metrics(tmp_path / "b")[0]["loss"]
    assert models[0].hash() == models[1].hash() != dropping(tmp_path).hash()


def test_the_seed_decides_the_dropout_and_the_order(tmp_path):
    losses = []
    for seed in (0, 1):
        config = SFTConfig(steps=1, batch_size=len(EXAMPLES))
        train_sft(dropping(tmp_path), EXAMPLES, config, tmp_path / str(seed), seed, ends=True, progress=print)
        losses.append(metrics(tmp_path / str(seed))[0]["loss"])
    # All rows are in the batch, so only dropout can make the difference.
    assert losses[0] != pytest.approx(losses[1], rel=1e-4)
    ten = SFTConfig(steps=5, batch_size=2)
    orders = [_order(seed, [(letter, "") for letter in "abcd"], ten) for seed in (0, 1)]
    assert orders[0] != orders[1]
    assert all(sorted(order[k : k + 4]) == [0, 1, 2, 3] for order in orders for k in (0, 4))
    assert all(len(order) == 10 for order in orders)


def test_dropout_of_a_training_ends_with_it(tmp_path):
    def player() -> LanguageModel:
        save_tiny("gpt2", tmp_path / "gpt2")
        return load_model(ModelConfig(device="cpu"), tmp_path / "gpt2", trainable=True, seed=1)

    def shares(model: LanguageModel) -> set[float]:
        return {module.p for module in model.model.modules() if isinstance(module, torch.nn.Dropout)}

    first, second, none = player(), player(), player()
    own = shares(first)
    met: list[set[float]] = []
    for name, model in (("a", first), ("b", second)):
        progress = lambda *_, model=model: met.append(shares(model))  # noqa: E731
        train(model, EXAMPLES, tmp_path / name, steps=2, dropout=0.5, progress=progress)
    assert met == [{0.5}] * 4
    assert shares(first) == own != {0.5}
    # Masks follow from the seed; without masks the first loss is another one.
    assert first.hash() == second.hash()
    train(none, EXAMPLES, tmp_path / "none", steps=2)
    assert metrics(tmp_path / "a")[0]["loss"] != pytest.approx(metrics(tmp_path / "none")[0]["loss"], rel=1e-4)


def test_dropout_needs_a_layer_that_drops(tmp_path):
    save_tiny("llama", tmp_path / "llama")
    model = load_model(ModelConfig(device="cpu"), tmp_path / "llama", trainable=True, seed=1)
    with pytest.raises(ConfigError, match=r"dropout is 0\.5, and this model has no layer that drops"):
        train(model, EXAMPLES, tmp_path / "sft", dropout=0.5)


def test_rows_with_rare_completions_are_drawn_more_often_where_that_is_wanted():
    completions = ["1"] * 90 + ["2"] * 9 + ["3"]
    examples = [("", completion) for completion in completions]

    def drawn_by(balance: float, count: int, seed: int = 0) -> list[int]:
        return _order(seed, examples, SFTConfig(steps=count // 10, batch_size=10, balance=balance))

    def shares(balance: float) -> list[float]:
        drawn = [completions[row] for row in drawn_by(balance, 30_000)]
        return [drawn.count(label) / len(drawn) for label in ("1", "2", "3")]

    assert shares(0) == pytest.approx([0.90, 0.09, 0.01])
    roots = np.sqrt([90, 9, 1])
    assert shares(0.5) == pytest.approx(roots / roots.sum(), abs=0.02)
    assert shares(1) == pytest.approx([1 / 3] * 3, abs=0.02)
    assert drawn_by(0.5, 50) == drawn_by(0.5, 50) != drawn_by(0.5, 50, seed=1)


def test_rows_that_begin_alike_are_drawn_side_by_side_and_each_as_often_as_the_others():
    # Episodes of five turns each, whose states grow, in no order.
    examples = [(f"game {game}" + " turn" * turn, "0") for turn in (3, 0, 4, 1, 2) for game in range(12)]
    config = SFTConfig(steps=30, batch_size=10, rows_together=4)
    order = _order(0, examples, config)
    assert order == _order(0, examples, config) != _order(1, examples, config)
    for pass_ in (order[start : start + 60] for start in range(0, 300, 60)):
        assert sorted(pass_) == list(range(60))
        prompts = [examples[row][0] for row in pass_]
        neighbours = [longer.startswith(shorter) for shorter, longer in pairwise(prompts)]
        # Of four rows side by side three follow one; some of these are of the next game.
        assert 0.5 < np.mean(neighbours) < 0.75
    firsts = {tuple(order[start : start + 4]) for start in range(0, 300, 60)}
    assert len(firsts) > 1
    assert len(_order(0, examples, config.model_copy(update={"steps": 7}))) == 70


def test_rows_are_drawn_side_by_side_or_by_the_weight_of_their_completions():
    with pytest.raises(ValidationError, match=r"balance = 0\.5 draws each row by itself, and rows_together = 4"):
        SFTConfig(balance=0.5, rows_together=4)


def test_the_model_keeps_its_own_forward(tmp_path):
    model = dropping(tmp_path)
    inner = model.model.get_base_model()
    train(model, EXAMPLES, tmp_path / "sft")
    assert "forward" not in vars(model.model)
    assert "forward" not in vars(inner)


def test_a_row_that_is_longer_than_the_context_is_named(tmp_path):
    model, _labels = tiny_player()  # whose context holds 256 tokens
    with pytest.raises(ModelError, match=r"begins 'wait .*' has \d+ tokens, the model's context holds 256"):
        train(model, [*EXAMPLES, ("wait " * 256, "0")], tmp_path)


def test_metrics_of_an_earlier_training_without_a_checkpoint_are_replaced(tmp_path):
    for _ in range(2):
        model, _labels = tiny_player()
        assert [row["step"] for row in train(model, EXAMPLES, tmp_path, steps=2)] == [1, 2]
        checkpoints_in(tmp_path).clear()


@pytest.mark.parametrize("rule", ["line_end", "choice_token"])
def test_a_list_of_actions_that_is_longer_than_the_context_is_named(tmp_path, rule):
    model, _labels = tiny_player()
    start, after = (" ", "\n") if rule == "line_end" else (" 0 ", "")
    row = f"Say b.\nActions:{after}" + after.join(f"{start}wait left" for _ in range(200)) + "\n # Action:\n"
    answer = " wait left" if rule == "line_end" else "0"
    counted = r"200 actions" if rule == "line_end" else "actions"
    with pytest.raises(ModelError, match=rf"begins 'Say b\.' has \d+ tokens, \d+ of them in its list of {counted}, "):
        train_sft(model, [(row, answer)], SFTConfig(steps=1), tmp_path, 0, ends=False, progress=print, rule=rule)


def test_checkpoints_are_named_only_where_there_are_some(tmp_path):
    for every, named in ((1, True), (5, False)):
        folder, (model, _) = tmp_path / str(every), tiny_player()
        with pytest.raises(TrainingError, match=r"at step 1|at step 2") as failure:
            train(model, EXAMPLES, folder, steps=6, save_steps=every, batch_size=2, learning_rate=1.0, stop_grad_norm=2)
        assert (f"checkpoints in {folder / 'checkpoints'} are kept" in str(failure.value)) == named
        assert checkpoints_in(folder).exist == named


def test_a_loss_that_is_not_finite_stops_the_training(tmp_path):
    model, _ = tiny_player()
    # Settings refuse such a rate, so it is put in behind their back.
    config = SFTConfig(steps=10, batch_size=len(EXAMPLES), warmup_steps=0)
    config = config.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(TrainingError, match=r"loss is (nan|inf) at step 2, .* Lower learning_rate .* \[sft\]"):
        train_sft(model, EXAMPLES, config, tmp_path, 0, ends=True, progress=lambda *_: None)


def test_a_gradient_that_explodes_stops_before_the_step_and_its_batch_is_saved(tmp_path):
    # A step of this size makes the gradients larger: 1.8, 8.9, 14.1, ...
    settings = {"steps": 6, "save_steps": 1, "batch_size": 2, "learning_rate": 1.0}
    model, _ = tiny_player()
    rows = train(model, EXAMPLES, tmp_path / "usual", **settings)
    norms = [row["gradient_norm"] for row in rows]
    first, limit = 2, norms[1] * 1.0001
    assert norms[first] > limit > norms[0]
    folder = tmp_path / "stopped"
    stopped, _ = tiny_player()
    with pytest.raises(TrainingError, match=rf"at step {first + 1}, .*{folder}.*offending_batch\.jsonl"):
        train(stopped, EXAMPLES, folder, stop_grad_norm=limit, **settings)
    assert without_time(metrics(folder)) == without_time(rows[:first])
    assert (folder / "checkpoints" / "step-00000002").exists()
    offending = [json.loads(line) for line in (folder / "offending_batch.jsonl").read_text().splitlines()]
    order = _order(0, EXAMPLES, SFTConfig(steps=6, batch_size=2))
    assert [row["row"] for row in offending] == order[2 * first : 2 * first + 2]
    for row in offending:
        assert (row["prompt"], row["completion"]) == EXAMPLES[row["row"]]
        assert stopped.decode(row["input_ids"]) == row["prompt"] + row["completion"]
        assert len(row["input_ids"]) == len(row["completion_mask"])
    # The weights are those before the step.
    before, _ = tiny_player()
    interrupted(before, tmp_path / "before", first, **settings)
    assert stopped.hash() == before.hash()
    # Nothing else of the training depends on the limit.
    unlimited, _ = tiny_player()
    train(unlimited, EXAMPLES, tmp_path / "unlimited", stop_grad_norm=0, **settings)
    assert unlimited.hash() == model.hash()
