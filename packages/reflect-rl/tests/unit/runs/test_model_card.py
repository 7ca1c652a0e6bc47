"""Cards of saved models: filled from the run, and free of the paths of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reflect_rl.config import parse
from reflect_rl.evaluation.evaluate import ResultRow
from reflect_rl.models.load import load_model
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import units
from reflect_rl.runs.model_card import add_results, card_of_rlft, card_of_sft
from reflect_rl.runs.models import save_whole
from tiny_models import save_tiny


def config(folder: Path, **changes: Any) -> RunConfig:
    values = {"output_dir": str(folder), "environment": {"name": "corridor"}, "methods": ["reflect_rl"]}
    return parse(RunConfig, {**values, "data": {"demonstration_starts": [2]}, "seeds": [7], **changes})


def test_a_card_says_how_the_model_was_made_and_how_it_is_asked(tmp_path):
    run = config(tmp_path)
    (unit,) = units(run)
    card = card_of_rlft(run, unit, "reflect_rl")
    for text in (
        "supervised training on `policy_reflect`, then online RL by ppo",
        "- **environment**: corridor-v1",
        "- **seed**: 7",
        "demonstrations from 2 starts, label source `clean`",
        "(the state) # Analyze:\n(the reflection)\nActions: (label 1) first action (label 2) second action",
        "one token, of those that `labels.json` beside this card lists in order",
    ):
        assert text in card
    written = card_of_sft(run, unit, "reflector_positive")
    assert "supervised training on `reflector_positive` (positive examples only)" in written
    assert "(the state) # Analyze:\n```" in written
    assert "(the reflection)" not in card_of_sft(run, unit, "policy_plain")


def test_a_card_shows_the_prompt_of_its_scoring_rule(tmp_path):
    prompts = {}
    for rule in ("line_end", "sum", "token_mean"):
        run = config(tmp_path, prompt={"scoring": rule})
        prompts[rule] = card_of_sft(run, next(units(run)), "policy_plain").partition("## Prompt")[2]
        assert "label" not in prompts[rule]
    assert "Actions:\n first action\n second action\n # Action:\n```" in prompts["line_end"]
    assert "an action is scored where its line ends" in prompts["line_end"]
    assert prompts["sum"] == prompts["token_mean"]
    assert "(the state)\n # Action:\n```" in prompts["sum"]
    assert "the answer is the text of an action" in prompts["sum"]


def test_a_pretrained_model_is_named_with_its_licence_and_a_folder_by_its_last_part(tmp_path):
    def card(path: str) -> str:
        run = config(tmp_path, model={"path": path})
        return card_of_sft(run, next(units(run)), "policy_plain")

    known = card("smollm2-135m")
    assert "HuggingFaceTB/SmolLM2-135M-Instruct" in known
    assert "Apache-2.0" in known
    (tmp_path / "secret" / "mine").mkdir(parents=True)
    own = card(str(tmp_path / "secret" / "mine"))
    assert "- **base model**: mine\n" in own
    assert "secret" not in own
    assert str(tmp_path) not in own


def row(successes: int, horizon: int) -> ResultRow:
    """Results of ten episodes."""
    return ResultRow(
        benchmark="corridor",
        label_source="clean",
        demonstration_starts=2,
        seed=7,
        method="reflect_rl",
        algorithm="ppo",
        model="embedded",
        mode="far",
        split="test",
        decoding="greedy",
        horizon=horizon,
        episodes=10,
        successes=successes,
        success_rate=successes / 10,
        ci95=(0.49, 0.94),
    )


def test_results_are_added_once_and_replaced(tmp_path):
    add_results(tmp_path, [row(8, 30)])
    assert not (tmp_path / "README.md").exists()
    (tmp_path / "README.md").write_text("# a model\n")
    add_results(tmp_path, [row(3, 15), row(8, 30)])
    add_results(tmp_path, [row(2, 15), row(9, 30)])
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("# a model\n")
    assert text.count("## Results") == 1
    assert "corridor, test split, horizon 30 turns:" in text
    assert text.splitlines()[-1] == "| reflect_rl | far | greedy | 90.0 [49, 94] | 10 |"


def test_results_that_cannot_be_written_leave_the_card(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    (tmp_path / "README.md").write_text("# a model\n")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        add_results(tmp_path, [row(8, 30)])
    assert caught.value.filename == str(tmp_path / "README.md")
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "# a model\n"


def test_an_adapter_is_saved_with_the_card_of_the_run_and_not_with_a_template(tmp_path):
    tiny_folder = save_tiny("gpt2", tmp_path / "tiny")
    run = config(tmp_path, model={"path": str(tiny_folder), "device": "cpu", "lora": {"rank": 2}})
    model = load_model(run.model, trainable=True)
    save_whole(model, tmp_path / "saved", card_of_sft(run, next(units(run)), "policy_plain"))
    text = (tmp_path / "saved" / "README.md").read_text()
    assert text.startswith("# policy_plain for corridor")
    assert str(tmp_path) not in text
    assert str(tiny_folder) not in text
