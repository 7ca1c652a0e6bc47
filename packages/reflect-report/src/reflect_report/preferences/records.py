"""The file of preferences: JSON lines, each a pair with what was shown and what was chosen, and its only reader.

A line stands for itself: it holds both episodes, so that a reward model needs no run folder. Hashes bind it to what was
shown, and the fingerprint to the rules, texts and tasks of the game (docs/guides/preferences.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from reflect_rl.config import Frozen
from reflect_rl.envs.base import SPLITS, EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.evaluation.evaluate import wilson_interval
from reflect_rl.store import read_jsonl
from reflect_rl.types import Episode, Observation, Task, to_json

Choice = Literal["left", "right", "equal", "skip"]
OTHER_SIDE: dict[Choice, Choice] = {"left": "right", "right": "left", "equal": "equal", "skip": "skip"}
REWARD = "reward"
"""Name of the judge that follows the game's own reward."""


class PreferenceError(UserError):
    """A file of preferences cannot be used."""


class EpisodeSide(Frozen):
    """An episode that was shown."""

    sha256: str
    """Hash of the episode as `hash_of` computes it."""
    method: str
    """Method that played it, which whoever chose did not see."""
    unit: str
    """Folder of the run with its models, for example `starts-100/seed-0`."""
    decoding: str
    episode: Episode

    @property
    def value(self) -> float:
        """Undiscounted return, rounded: sums of the same rewards in another order are the same value."""
        return round(self.episode.total_reward, 9)


class ActionSide(Frozen):
    """An action that was shown, in the state of `Situation`."""

    sha256: str
    """Hash of the situation and the action."""
    index: int = Field(ge=0)
    """Index in `Observation.actions`."""
    value: float | None = None
    """Return from here if the game's solver plays on; None where the game has none."""


class Situation(Frozen):
    """A state in the middle of an episode, and how it was reached."""

    actions_before: tuple[int, ...]
    """Indices of the actions since the start."""
    observation: Observation
    reflection: str | None
    seed: int
    """Seed of the episode, for games that draw."""


class Preference(Frozen):
    """A line of the file: a pair from one start, and which side is better."""

    schema_version: Literal[1] = 1
    pair: str
    """Hash of both sides, whatever their order: the same pair has the same one in every file."""
    environment: str
    """Name and version, for example `dangerous_taxi-v1`."""
    fingerprint: str
    """Fingerprint of the run: rules, texts, prompts, splits."""
    task: Task
    """The start that both sides share."""
    situation: Situation | None = None
    """State of a pair of actions; None for a pair of episodes."""
    left: EpisodeSide | ActionSide
    """The side that stood left, or above; the order was drawn."""
    right: EpisodeSide | ActionSide
    choice: Choice
    """The better side; `skip`: no answer."""
    by: str = Field(min_length=1)
    """Name of the person or program that chose."""
    source: Literal["person", "reward", "judge"]
    noise: float = Field(0, ge=0, le=0.5)
    """Probability with which a choice by the reward was turned round."""
    when: str
    """ISO 8601, UTC."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> Preference:
        wanted = EpisodeSide if self.situation is None else ActionSide
        if not isinstance(self.left, wanted) or not isinstance(self.right, wanted):
            raise ValueError("a pair of actions has a situation and two actions, any other one two episodes")
        return self

    @property
    def kind(self) -> Literal["episodes", "actions"]:
        """Kind of what was compared: two episodes or two actions."""
        return "episodes" if self.situation is None else "actions"

    @property
    def true_choice(self) -> Choice | None:
        """The side with the higher value; None where a value is not known."""
        left, right = self.left.value, self.right.value
        if left is None or right is None:
            return None
        return "equal" if left == right else "left" if left > right else "right"

    @property
    def preferred(self) -> str | None:
        """Hash of the better side; `equal`, or None for a pair without an answer."""
        sides: Mapping[Choice, str | None] = {"left": self.left.sha256, "right": self.right.sha256, "equal": "equal"}
        return sides.get(self.choice)


def hash_of(value: Any) -> str:
    """SHA-256 of a value as JSON with sorted keys and no spaces."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def hash_of_episode(episode: Episode) -> str:
    """Hash of an episode."""
    # Without notes on the settings of its texts: answers of before there were such notes must stay valid.
    bare = replace(episode, texts={})
    # Through JSON and back: a tuple and a list of the same entries are the same episode.
    return hash_of(json.loads(json.dumps(to_json(bare))))


def hash_of_action(task: Task, situation: Situation, index: int) -> str:
    """Hash of an action in its situation."""
    return hash_of([json.loads(json.dumps(asdict(task))), situation.model_dump(mode="json"), index])


def hash_of_pair(left: str, right: str) -> str:
    """Hash of a pair, the same for both orders.

    >>> hash_of_pair("a", "b") == hash_of_pair("b", "a")
    True
    """
    return hash_of(sorted((left, right)))[:16]


def read_preferences(
    path: Path,
    *,
    spec: EnvSpec | None = None,
    fingerprint: str | None = None,
    kind: Literal["episodes", "actions"] | None = None,
    pairs: int = 0,
) -> tuple[Preference, ...]:
    """Read and check a file of preferences.

    Args:
        path: the file. Half a line at its end, which a kill leaves, is left out.
        spec: the game that they must be about, with its tasks (None: any).
        fingerprint: that of the run they must be about (None: any).
        kind: what must have been compared (None: either).
        pairs: least number of pairs with an answer.

    Raises:
        PreferenceError: a line is damaged, contradicts another, is about another game or start, or there are too few.
        RunFolderError: the file is missing, or a line is no JSON object.
    """
    rows = read_jsonl(path, "Collect preferences with `reflect-rl prefer`.", appended=True)
    found = [_parsed(path, number, row) for number, row in enumerate(rows, start=1)]
    known = None if spec is None else _starts(spec)
    for number, preference in enumerate(found, start=1):
        mistake = _mistake(preference, spec, known, fingerprint, kind)
        if mistake:
            raise PreferenceError(f"{path}, line {number}: {mistake}")
    _refuse_contradictions(path, found)
    answered = {preference.pair for preference in found if preference.choice != "skip"}
    if len(answered) < pairs:
        raise PreferenceError(
            f"{path} holds {len(answered)} pairs with an answer, and {pairs} are asked for. Collect more with "
            "`reflect-rl prefer`, or ask for fewer."
        )
    return tuple(found)


def _parsed(path: Path, number: int, row: Mapping[str, Any]) -> Preference:
    try:
        return Preference.model_validate(row)
    except ValidationError as error:
        # The union of the two sides reports each of its halves; the first mistake is enough to find the line.
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise PreferenceError(
            f"{path}, line {number}: {place or 'the line'}: {first['msg'].removeprefix('Value error, ')}."
        ) from None


def _starts(spec: EnvSpec) -> dict[tuple[str, str], Task]:
    return {task.unique_key: task for mode in spec.all_modes for split in SPLITS for task in spec.tasks(mode, split)}


def _mistake(
    preference: Preference,
    spec: EnvSpec | None,
    known: Mapping[tuple[str, str], Task] | None,
    fingerprint: str | None,
    kind: str | None,
) -> str:
    """A sentence on what is wrong with a line; empty where nothing is."""
    if spec is not None and preference.environment != spec.identity:
        return f"it is about {preference.environment}, and {spec.identity} is needed."
    if fingerprint is not None and preference.fingerprint != fingerprint:
        return (
            f"its fingerprint {preference.fingerprint!r} is that of other rules, texts or tasks than {fingerprint!r}, "
            "the run's."
        )
    if kind is not None and preference.kind != kind:
        return f"it compares {preference.kind}, and {kind} are needed."
    if known is not None and _plain(known.get(preference.task.unique_key)) != _plain(preference.task):
        return f"the start {preference.task.key!r} is no task of this environment. Are its settings the same?"
    return _damage(preference)


def _plain(task: Task | None) -> Any:
    return None if task is None else json.loads(json.dumps(asdict(task)))


def _damage(preference: Preference) -> str:
    for name, side in (("left", preference.left), ("right", preference.right)):
        if isinstance(side, EpisodeSide):
            actual = hash_of_episode(side.episode)
            if _plain(side.episode.task) != _plain(preference.task):
                return f"the {name} episode begins at {side.episode.task.key!r} and not at {preference.task.key!r}."
        elif preference.situation is not None:
            actual = hash_of_action(preference.task, preference.situation, side.index)
            if side.index >= len(preference.situation.observation.actions):
                return f"the {name} action has the number {side.index}, which the state does not list."
        if actual != side.sha256:
            return f"the {name} side has changed since it was shown (by its SHA-256 sum)."
    if hash_of_pair(preference.left.sha256, preference.right.sha256) != preference.pair:
        return "its hash is that of another pair."
    if preference.left.sha256 == preference.right.sha256:
        return "both sides are the same."
    return ""


def _refuse_contradictions(path: Path, found: Sequence[Preference]) -> None:
    """People may disagree with each other; one who answers a pair twice and differently gives no label."""
    answers: dict[tuple[str, str], tuple[int, str]] = {}
    for number, preference in enumerate(found, start=1):
        if preference.preferred is None:
            continue
        key = (preference.by, preference.pair)
        before, answer = answers.setdefault(key, (number, preference.preferred))
        if answer != preference.preferred:
            raise PreferenceError(
                f"{path}, lines {before} and {number} contradict each other: {preference.by!r} answered the same pair "
                "differently. Delete one of them."
            )


@dataclass(frozen=True, slots=True)
class Agreement:
    """Answers compared with the higher value, where that is known."""

    agreeing: int
    decided: int
    """Pairs with a better side both by the answer and by the value."""
    equal: int
    """Answers `equal`."""
    skipped: int
    left: int
    """Answers `left`, of all that chose a side: about half of them where the place does not matter."""
    sides: int

    @property
    def sentence(self) -> str:
        """The agreement in words."""
        text = f"{self.sides} answers chose a side ({self.left} the left one), {self.equal} said equal, "
        text += f"{self.skipped} were skipped."
        if not self.decided:
            return f"{text} There is no true reward to compare them with."
        lo, hi = wilson_interval(self.agreeing, self.decided)
        rate = 100 * self.agreeing / self.decided
        return (
            f"{text} {rate:.1f}% [{100 * lo:.0f}, {100 * hi:.0f}] of {self.decided} agree with the true reward, where "
            "it tells the two apart."
        )


def agreement(preferences: Iterable[Preference]) -> Agreement:
    """Compare answers with the true reward."""
    found = list(preferences)
    sides = [one for one in found if one.choice in ("left", "right")]
    decided = [one for one in sides if one.true_choice in ("left", "right")]
    return Agreement(
        agreeing=sum(one.choice == one.true_choice for one in decided),
        decided=len(decided),
        equal=sum(one.choice == "equal" for one in found),
        skipped=sum(one.choice == "skip" for one in found),
        left=sum(one.choice == "left" for one in sides),
        sides=len(sides),
    )
