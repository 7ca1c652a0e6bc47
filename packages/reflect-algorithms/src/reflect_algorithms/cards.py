"""The model cards of this package: those of the core, with the settings of the method and what it measured itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflect_algorithms.methods import LearnedMethod
from reflect_rl.evaluation.methods import find_method
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.model_card import model_card
from reflect_rl.store import read_json

if TYPE_CHECKING:
    from reflect_algorithms.training import Training
    from reflect_rl.runs.folder import Job

CARD = "card.json"
"""File of what a training measured itself, in the folder of its job."""
HEADED = "the head `head.safetensors` in the folder above reads its end and scores each listed action"


def card_of_learned(run: RunConfig, job: Job, method: LearnedMethod, training: Training) -> str:
    """The card of a policy of the stage `learn`.

    Args:
        run: the run.
        job: the training, which has come to its end.
        method: that was trained.
        training: what it learned from.
    """
    start = f"supervised training on `{method.policy}`, then " if method.policy else ""
    if method.start:
        start = f"{find_method(method.start).title} (method `{method.start}`), then "
    steps = f"{start}{method.title} (method `{method.name}`)"
    if "rlft" in method.settings:
        steps += f" with online RL of {run.rlft.total_turns:,} turns"
    role = method.policy or "policy_plain"
    if method.writer:
        role, steps = "policy_reflect", f"{steps}; in place of a reflection it reads what `{method.writer}` writes"
    return model_card(run, job.unit, role, steps, _data(method, training)) + _own(run, job.folder, method.settings)


def card_of_reward(run: RunConfig, job: Job, policy: str, training: Training) -> str:
    """The card of the reward model.

    Args:
        run: the run.
        job: the training, which has come to its end.
        policy: data set of the supervised policy that it goes on from.
        training: what it learned from.
    """
    steps = f"supervised training on `{policy}`, then ranking of pairs"
    card = model_card(run, job.unit, "reward model", steps, _pairs(training), HEADED)
    return card + _own(run, job.folder, ("preferences.training", "preferences.reward"))


def _data(method: LearnedMethod, training: Training) -> str:
    """Data that a policy learned from, and its players."""
    if method.pairs:
        return _pairs(training)
    if method.log:
        players = dict.fromkeys(turn.decision.player for episode in training.episodes for turn in episode.turns)
        won = sum(episode.success for episode in training.episodes)
        return f"log of {len(training.episodes):,} episodes, {won:,} of them won, played by {', '.join(players)}"
    labels = ", and the labels of its solver" if method.needs else ""
    return f"episodes that it played itself, from {len(training.tasks):,} starts{labels}"


def _pairs(training: Training) -> str:
    return f"{len(training.comparisons):,} preferences; {len(training.held_out):,} others were held out"


def _own(run: RunConfig, folder: Path, settings: Sequence[str]) -> str:
    """Settings of a training, and what it measured at its end."""
    lines, path = list[str](), folder / CARD
    if path.is_file():
        measured = read_json(path, "Delete it and train again.")
        lines += [
            "",
            "## Measured in training",
            "",
            *(f"- `{key}`: {json.dumps(value)}" for key, value in measured.items()),
        ]
        lines += [""]
    return card_of_settings(run, settings) + "\n".join(lines)


def card_of_settings(run: RunConfig, settings: Sequence[str]) -> str:
    """The part of a card that shows the sections of a run's settings that a training has read."""
    lines = ["", "## Settings", "", "```toml", *_toml(run.model_dump(mode="json"), settings), "```", ""]
    return "\n".join(lines)


def _toml(values: Mapping[str, Any], settings: Sequence[str]) -> Iterator[str]:
    for name in settings:
        # The card has the turns of online RL; its many settings are in the run's `config.json`.
        if name == "rlft":
            continue
        yield f"[{name}]"
        part = values
        for key in name.split("."):
            part = part[key]
        # JSON writes texts, numbers and truth values as TOML does.
        yield from (f"{key} = {json.dumps(value)}" for key, value in part.items())
