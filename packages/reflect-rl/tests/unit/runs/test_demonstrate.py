"""Data sets of a run: what the embedded model reads first, beside the demonstrations."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reflect_rl.config import parse
from reflect_rl.envs.corridor import Corridor
from reflect_rl.envs.dangerous_taxi import DangerousTaxi
from reflect_rl.errors import ConfigError, ModelError
from reflect_rl.runs.check import settle
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import PLAYS_IN_HINDSIGHT, demonstrate
from reflect_rl.runs.folder import Unit
from reflect_rl.store import read_jsonl
from reflect_rl.types import Episode, Progress, silent
from tiny_models import save_bytes


def demonstrated_corridor(folder: Path, progress: Progress = silent, **data: Any) -> Unit:
    """Data sets of two starts of the corridor, with these settings of `[data]`."""
    values = {
        "output_dir": str(folder),
        "environment": {"name": "corridor"},
        "methods": ["sft_reflect"],
        "data": {"demonstration_starts": [2], **data},
    }
    unit = Unit(folder, 2, 0)
    demonstrate(unit, unit.folder / "data", parse(RunConfig, values), progress)
    return unit


def table(unit: Unit, name: str) -> list[dict[str, Any]]:
    return list(read_jsonl(unit.dataset(name), ""))


def test_a_random_players_games_are_read_first_and_change_no_demonstration(tmp_path):
    units = {starts: demonstrated_corridor(tmp_path / str(starts), reading_starts=starts) for starts in (0, 9)}
    plain = table(units[0], "policy_plain")
    assert plain == table(units[9], "policy_plain")
    demonstrated = {row["task"] for row in plain}
    assert {row["task"] for row in table(units[0], "base")} == demonstrated
    read = {row["task"] for row in table(units[9], "base")}
    # One game for each of nine starts, the two demonstrated ones among them.
    assert len(read) == 9 > len(read - demonstrated) == 7


def test_each_game_is_told_as_it_ends(tmp_path):
    told = list[tuple[int, int, str]]()
    unit = demonstrated_corridor(tmp_path, lambda *progress: told.append(progress), reading_starts=9)
    demonstrated = sum(json.loads((unit.folder / "data" / "card.json").read_text())["episodes"].values())
    notes = [note for _, _, note in told]
    assert [note for note in notes if note.endswith("demonstrated")][-1] == f"{demonstrated} games demonstrated"
    assert [note for note in notes if note.endswith("read")] == [f"{n} games played to be read" for n in range(1, 10)]
    # The bar never goes back.
    shares = [done / total for done, total, _ in told]
    assert shares == sorted(shares)


def test_short_rows_are_read_with_their_answers(tmp_path):
    unit = demonstrated_corridor(tmp_path / "all")
    rows = table(unit, "policy_plain")
    lengths = sorted({len(row["prompt"]) for row in rows})
    most = lengths[0]
    assert len(lengths) > 1
    short = demonstrated_corridor(tmp_path / "short", reading="short_rows", reading_characters=most)
    assert table(short, "policy_plain") == rows
    assert table(short, "base") == [row for row in rows if len(row["prompt"]) <= most]
    with pytest.raises(ConfigError, match=rf"no prompt has 9 characters .* the shortest has {most}\."):
        demonstrated_corridor(tmp_path / "none", reading="short_rows", reading_characters=9)


def test_random_play_is_read_with_the_answers_that_hindsight_gives(tmp_path, monkeypatch):
    def told(game: Corridor, episode: Episode, rng: np.random.Generator) -> Episode:
        # Every other turn, under a task of its own.
        kept = [
            replace(turn, observation=replace(turn.observation, text=f"told {rng.integers(9)}"))
            for turn in episode.turns[::2]
        ]
        return replace(episode, turns=tuple(kept))

    monkeypatch.setattr(Corridor, "in_hindsight", told, raising=False)
    settings = {"reading": "short_rows", "reading_starts": 9}
    unit = demonstrated_corridor(tmp_path / "told", **settings)
    assert table(unit, "policy_plain") == table(demonstrated_corridor(tmp_path / "all"), "policy_plain")
    rows = table(unit, "base")
    assert len({row["task"] for row in rows}) == 9
    assert all("told " in row["prompt"] and row["completion"].strip() for row in rows)
    assert {row["turn"] for row in rows} >= {0, 1}
    # Nine starts, each played several times by chance.
    first = [row for row in rows if row["turn"] == 0]
    assert len(first) == 9 * PLAYS_IN_HINDSIGHT
    assert len({row["completion"] for row in first}) > 1
    assert rows == table(demonstrated_corridor(tmp_path / "again", **settings), "base")


def test_copies_with_other_numbers_are_added_and_change_no_model(tmp_path):
    without, copied = (demonstrated_corridor(tmp_path / str(n), renumbered_copies=n) for n in (0, 2))
    for name in ("policy_plain", "base", "reflector"):
        assert table(without, name) == table(copied, name)
    for file in ("model.safetensors", "tokenizer.json"):
        assert (without.model("untrained") / file).read_bytes() == (copied.model("untrained") / file).read_bytes()
    for name in ("policy_reflect", "policy_reflect_positive"):
        before, after = table(without, name), table(copied, name)
        assert after[: len(before)] == before
        assert len(after) == 3 * len(before)
        lists = [{row["prompt"].partition("\nActions:")[2] for row in rows} for rows in (before, after)]
        # The actions are always listed in one order, and in copies in others, too.
        assert lists[0] < lists[1]


@pytest.mark.parametrize(
    ("rule", "answer", "sentence"),
    [
        ("line_end", " south", "Actions are listed one to a line, without labels."),
        ("sum", "south", "Actions are not listed: each is scored by its own text."),
        ("token_mean", "south", "Actions are not listed: each is scored by the mean of its text's tokens."),
        ("choice_token", None, ""),
    ],
)
@pytest.mark.parametrize("path", ["bytes", "embedded"])
def test_labels_are_asked_for_and_recorded_only_where_they_are_read(
    tmp_path, monkeypatch, rule, answer, sentence, path
):
    # More than the 52 letters among bytes, and as many as the embedded model has numbers for.
    monkeypatch.setattr(DangerousTaxi, "max_actions", 60)
    folder = str(save_bytes(tmp_path / "bytes")) if path == "bytes" else path
    values = {
        "output_dir": str(tmp_path / "run"),
        "methods": ["sft"],
        "model": {"path": folder, "device": "cpu"},
        "prompt": {"scoring": rule},
        "data": {"demonstration_starts": [2]},
    }
    config, unit = parse(RunConfig, values), Unit(tmp_path / "run", 2, 0)
    if path == "bytes" and answer is None:
        with pytest.raises(ModelError, match="has 52"):
            settle(config, trains=False)
        return
    settle(config, trains=False)
    demonstrate(unit, unit.folder / "data", config, silent)
    card = json.loads((unit.folder / "data" / "card.json").read_text())
    assert card["labels"] == (sentence or "numbers")
    completions = {row["completion"] for row in read_jsonl(unit.dataset("policy_plain"), "")}
    assert answer is None or answer in completions


@pytest.mark.parametrize(
    ("methods", "changes", "message"),
    [
        # The longest prompt of DangerousTaxi has 175 bytes for the policy and 117 for the reflection player.
        (["sft"], {}, ""),
        (
            ["sft"],
            {"context": 150},
            r"whose state begins '(?!.*Action).*' has 175 tokens, the model's context holds 150\. Set model\.path",
        ),
        (["sft"], {"context": 150, "scoring": "line_end"}, r"has 1\d\d tokens, the model's context holds 150\. Set"),
        (["sft_reflect"], {"tokens": 8100}, r"and 8100 are to follow, .* holds 8192\. Lower reflector\.max_new_tokens"),
        # Nobody writes a reflection here.
        (["sft"], {"tokens": 8100}, ""),
    ],
)
def test_a_prompt_too_long_for_the_model_is_refused_before_any_training(tmp_path, methods, changes, message):
    folder = save_bytes(tmp_path / "bytes", changes.get("context", 8192))
    values = {
        "output_dir": str(tmp_path / "run"),
        "methods": methods,
        "model": {"path": str(folder), "device": "cpu"},
        "prompt": {"scoring": changes.get("scoring", "choice_token")},
        "reflector": {"max_new_tokens": changes.get("tokens", 10)},
        "data": {"demonstration_starts": [2]},
    }
    unit = Unit(tmp_path / "run", 2, 0)
    with pytest.raises(ModelError, match=message) if message else nullcontext():
        demonstrate(unit, unit.folder / "data", parse(RunConfig, values), silent)
    assert unit.dataset("policy_plain").exists() is not bool(message)
