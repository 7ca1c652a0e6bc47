"""Recorded episodes: the file format, and supervised examples from what was played instead of from a solver.

A file holds one JSON object per line, the fields of `reflect_rl.types.Episode`; docs/start/environments.md lists them.
The label of a turn is the action that an annotator recommended (`decision.target`), else the action that was played.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from reflect_rl.envs.base import SPLITS, EnvSpec, VariesTexts
from reflect_rl.errors import UserError
from reflect_rl.rollout import Reflector, blind, written
from reflect_rl.store import may_be_cut, read_jsonl
from reflect_rl.types import NO_ACTION, Episode, Task, Turn, episode_from_json


@dataclass(frozen=True, slots=True)
class Note:
    """Reflection and label that supervised training learns from one turn."""

    reflection: str | None
    """None: the turn has none, so its row is left out where one is needed."""
    target: int | None
    """Index of the action that is the label; None: as above."""


Notes = Callable[[Episode, int], Note]
"""The note on a turn of an episode."""


def as_played(episode: Episode, number: int) -> Note:
    """The reflection and the label that were noted during play."""
    turn = episode.turns[number]
    return Note(turn.reflection, turn.decision.target)


ROW = TypeAdapter(Episode)

HELD_OUT = ("validation", "test")

REMEDY = "Name a file that `reflect-rl play --record` or `reflect_rl.write_episodes` has written."


def read_episodes(path: str | Path) -> list[Episode]:
    """The episodes of a JSONL file, in its order.

    Raises:
        RunFolderError: the file is missing, or a line is no JSON.
        UserError: a line is no episode; the message names the line and what it lacks. Or there is something else.
    """
    episodes = []
    for number, row in enumerate(read_jsonl(Path(path), REMEDY, appended=True), start=1):
        try:
            _check_types(row)
            episodes.append(_checked(episode_from_json(row)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UserError(f"{path}: row {number} is no episode ({type(error).__name__}: {error}). {REMEDY}") from None
    # Half a last line is left out, as a kill leaves it; a single line may be anything else, and must not be replaced.
    if not episodes and not may_be_cut(Path(path).read_bytes().strip(), ROW_BEGINS):
        raise UserError(f"{path} holds no episodes. {REMEDY}")
    return episodes


ROW_BEGINS = b'{"task": '


def _check_types(row: object) -> None:
    """Refuse a value of another type, which would be read as something else: the text `"no"` as a won game.

    Raises:
        ValueError: there is one, or a text holds half a character.
    """
    try:
        # By way of JSON, where a list may stand for a tuple; in Python strict rules would refuse it.
        ROW.validate_json(json.dumps(row), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}" if place else str(first["msg"])) from None


ABOVE_ZERO = 1e-3
"""Largest rounding error of a log-probability."""


def _checked(episode: Episode) -> Episode:
    if episode.task.split not in SPLITS:
        # Training would leave it out as one that is held out, without a word.
        raise ValueError(f"the split {episode.task.split!r} is none of {', '.join(SPLITS)}")
    for number, turn in enumerate(episode.turns, start=1):
        known, chosen = set(range(len(turn.observation.actions))), turn.decision
        if sorted(turn.order) != sorted(known):
            raise ValueError(f"turn {number}: order {list(turn.order)} does not list each of {len(known)} actions once")
        if chosen.index not in known | {NO_ACTION} or chosen.target not in known | {None}:
            raise ValueError(
                f"turn {number}: index {chosen.index} or target {chosen.target} is none of {len(known)} actions"
            )
        if not math.isfinite(turn.reward):
            raise ValueError(f"turn {number}: the reward {turn.reward} is no finite number")
        _check_log_probs(turn, number)
    if not episode.turns:
        raise ValueError("it has no turns")
    return episode


def _check_log_probs(turn: Turn, number: int) -> None:
    log_probs, count = turn.decision.log_probs, len(turn.observation.actions)
    if log_probs is None:
        return
    if len(log_probs) != count:
        raise ValueError(f"turn {number}: log_probs has {len(log_probs)} numbers for {count} actions")
    # Asked so that nan is refused, too.
    if not all(value <= ABOVE_ZERO for value in log_probs):
        raise ValueError(f"turn {number}: log_probs {list(log_probs)!s:.100} are no logarithms of probabilities")


def of_environment(episodes: Iterable[Episode], environment: str) -> list[Episode]:
    """The episodes, all of them of this environment, in any version.

    Args:
        episodes: recorded ones.
        environment: its name and version, as `Episode.environment`.

    Raises:
        UserError: one is of another environment.
    """
    kept = list(episodes)
    other = next((entry.environment for entry in kept if _name(entry.environment) != _name(environment)), None)
    if other is not None:
        raise UserError(
            f"an episode is of the environment {other!r}, and {environment!r} is trained. Leave such episodes out, or "
            "name their environment."
        )
    return kept


def _name(environment: str) -> str:
    """The name without its version."""
    return re.sub(r"-v\d+$", "", environment)


def refuse_held_out(episodes: Sequence[Episode], spec: EnvSpec, source: str) -> None:
    """Refuse episodes of tasks that this environment holds out, and those whose texts are not its own.

    What split a task had when it was recorded does not matter, nor do texts that an older file says nothing about.

    Args:
        episodes: to be learned from.
        spec: the environment that is trained. Only its validation and test tasks are listed, so its training tasks may
            be without end.
        source: where the episodes come from, for the message.

    Raises:
        UserError: one is of such a task: with the same key, mode and data; or of a mode that the environment does not
            have; or one was recorded with other texts.
    """
    _refuse_other_texts(episodes, spec, source)
    modes = dict.fromkeys(episode.task.mode for episode in episodes)
    for mode in modes:
        # Its held-out tasks are in no list, so an episode of them would pass.
        if mode not in spec.all_modes:
            raise UserError(
                f"{source}: an episode is of the mode {mode!r}, which {spec.name} does not have, only "
                f"{', '.join(spec.all_modes)}. Correct the mode, or leave such episodes out."
            )
    held_out = {_identity(task): task for mode in modes for split in HELD_OUT for task in spec.tasks(mode, split)}
    found = [task for episode in episodes if (task := held_out.get(_identity(episode.task))) is not None]
    if found:
        raise UserError(
            f"{source}: {len(found)} of {len(episodes)} episodes are of tasks that are held out here, such as "
            f"{found[0].key!r}, a {found[0].split} task of {spec.name} with these settings. Leave such episodes out, "
            "or set the environment as it was when they were recorded."
        )


def _refuse_other_texts(episodes: Sequence[Episode], spec: EnvSpec, source: str) -> None:
    game = spec.capability(VariesTexts)
    if game is None:
        return
    here = game.text_settings()
    found = [changes for episode in episodes if (changes := [*_other_texts(episode, here)])]
    if found:
        raise UserError(
            f"{source}: {len(found)} of {len(episodes)} episodes were recorded with other texts: "
            f"{'; '.join(found[0])}. Set the environment as it was when they were recorded, or leave such episodes out."
        )


def _other_texts(episode: Episode, here: Mapping[str, str]) -> Iterator[str]:
    """Name each difference, for example `wording is '2.1.1' there and '2.1.2' here`."""
    for key in sorted(episode.texts.keys() & here.keys()):
        # Where no reflection was written, nobody knows how full it would have been.
        if episode.texts[key] != here[key] and (key != "advice" or has_reflections([episode])):
            yield f"{key} is {episode.texts[key]!r} there and {here[key]!r} here"


def _identity(task: Task) -> tuple[str, str, str]:
    """Identity of a task: a generator may give the same key to another game."""
    return task.mode, task.key, json.dumps(dict(task.data), sort_keys=True, default=str)


RECORD_MORE = "Record more of them, or learn from lost ones, too (Python: lost=True, run file: data.lost_episodes)."


def usable(episodes: Sequence[Episode], *, lost: bool = False, remedy: str = RECORD_MORE) -> list[Episode]:
    """The episodes that supervised training may imitate, with their labels: won ones of training tasks.

    Args:
        episodes: any.
        lost: take those that were lost, too.
        remedy: sentence that says what to do where none was won.

    Raises:
        UserError: there is none.
    """
    kept = [episode for episode in episodes if episode.task.split == "train" and (lost or episode.success)]
    if not kept:
        what = "is of a training task" if lost else "is a won one of a training task"
        raise UserError(
            f"none of the {len(episodes)} episodes {what}, so there is nothing to imitate. "
            f"{'Record more of them.' if lost else remedy}"
        )
    return labelled(kept)


def imitated(episode: Episode, number: int) -> Note:
    """Make the note that supervised training learns from a recorded turn; a turn without an action has no label."""
    turn = episode.turns[number]
    # A chat player may have named no action that exists.
    played = None if turn.decision.index == NO_ACTION else turn.decision.index
    return Note(turn.reflection, played if turn.decision.target is None else turn.decision.target)


def labelled(episodes: Iterable[Episode]) -> list[Episode]:
    """The episodes with the label of each turn written into its decision."""
    return [
        replace(
            episode,
            turns=tuple(
                replace(turn, decision=replace(turn.decision, target=imitated(episode, number).target))
                for number, turn in enumerate(episode.turns)
            ),
        )
        for episode in episodes
    ]


def has_reflections(episodes: Iterable[Episode]) -> bool:
    """Tell whether some turn carries a reflection."""
    return any(turn.reflection for episode in episodes for turn in episode.turns)


def reflected(episodes: Sequence[Episode], reflector: Reflector) -> list[Episode]:
    """The episodes with the reflections that this player writes on their states; what was played stays.

    Args:
        episodes: any.
        reflector: one that needs no solver.

    Raises:
        FaultyPlayerError: it called `sys.exit`, or wrote something else than a text or None for each state.
    """
    # As in play, the reflection player does not see the actions.
    views = [blind(turn.plain_view) for episode in episodes for turn in episode.turns]
    texts = iter(written(reflector, views) if views else [])
    return [
        replace(episode, turns=tuple(replace(turn, reflection=next(texts)) for turn in episode.turns))
        for episode in episodes
    ]
