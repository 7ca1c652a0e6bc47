"""The policy's rows, with reflections by the trained reflection player in place of its teacher's.

A small player makes slips that its teacher never made: a wrong number behind the right name, a place overlooked. A
policy that only ever read the teacher believes both halves of such a text. Where it reads the player itself while it
learns, labels unchanged, it learns what can be relied on (`sft.policy_hears = "player"`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from accelerate import PartialState

from reflect_rl.errors import RunFolderError
from reflect_rl.players.base import Reflector
from reflect_rl.seeding import stream
from reflect_rl.store import append_jsonl, read_jsonl, write_jsonl
from reflect_rl.types import Episode, View
from reflect_rl.data.annotate import Note, as_played
from reflect_rl.data.generate import rows
from reflect_rl.runs.annotation import read_annotations
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import action_labels, demonstrated, excluded_states, is_lexical
from reflect_rl.runs.folder import Unit
from reflect_rl.rollout import blind
from reflect_rl.training.engine import process_rank

__all__ = ["JOURNAL", "examples_heard", "weights_of"]

Progress = Callable[[int, int, str], None]

JOURNAL = "reflections.jsonl"
"""What the player wrote, turn by turn; an interrupted job goes on behind the last line by the same weights."""

CHUNK = 128
"""Turns between two entries of the journal."""


def examples_heard(
    config: RunConfig,
    unit: Unit,
    dataset: str,
    player: Callable[[], Reflector],
    weights: str,
    count: int,
    progress: Progress,
) -> list[tuple[str, str]]:
    """Prompt and completion of turns drawn at random from the demonstrations.

    In games whose reflections name the advised action, rows are left out in which the player advises another one than
    the label, as with the lexical player (`data.generate.LEXICAL_DATASETS`). Where what it advises cannot be done, the
    row stays: there the policy has to see for itself.

    Args:
        config: the run.
        unit: whose demonstrations.
        dataset: the policy's data set.
        player: loads the trained reflection player; not called where everything is in the journal.
        weights: identity of the player's weights; what others wrote is written anew.
        count: turns to draw at most, one for each row that training will see.
        progress: is told after each chunk.

    Raises:
        RunFolderError: the journal is not readable, or annotations are missing.
    """
    excluded = excluded_states(config)
    kinds = demonstrated(config, unit, excluded)
    pool = kinds["positive"] + ([] if dataset.endswith("_positive") else kinds["negative"])
    turns = [
        (number, place)
        for number, episode in enumerate(pool)
        for place, turn in enumerate(episode.turns)
        if turn.observation.state not in excluded
    ]
    drawn = stream(unit.seed, "heard", dataset).permutation(len(turns))[:count]
    chosen = [turns[index] for index in drawn]
    with PartialState().main_process_first():  # the others find everything in the journal
        texts = _written(unit.sft(dataset) / JOURNAL, pool, chosen, player, weights, progress)
    said = {(id(pool[number]), place): text for (number, place), text in zip(chosen, texts, strict=True)}

    annotations = read_annotations(config, kinds["positive"] + kinds["negative"], excluded)
    taught = as_played if annotations is None else annotations.note

    def note(episode: Episode, place: int) -> Note:
        return Note(said.get((id(episode), place)), taught(episode, place).target)

    table = rows(
        dataset, pool, action_labels(config), excluded, config.prompt.scoring, note, agreeing=is_lexical(config)
    )
    return [(row.prompt, row.completion) for row in table]


def weights_of(folder: Path) -> str:
    """A short hash of the weights in a folder; empty where there are none."""
    digest = hashlib.sha256()
    files = sorted(folder.glob("*.safetensors"))
    for path in files:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16] if files else ""


def _written(
    path: Path,
    pool: Sequence[Episode],
    chosen: Sequence[tuple[int, int]],
    player: Callable[[], Reflector],
    weights: str,
    progress: Progress,
) -> list[str]:
    """The player's text on each chosen turn, from the journal as far as it goes."""
    remedy = f"Delete {path} and run the same command again."
    lines = read_jsonl(path, remedy) if path.exists() else []
    try:
        lines = [line for line in lines if line["player"] == weights]
        texts = [str(line["reflection"]) for line in lines]
    except (KeyError, TypeError):
        raise RunFolderError(f"{path} holds a row without player or reflection. {remedy}") from None
    if len(texts) >= len(chosen):
        return texts
    if process_rank() == 0:
        write_jsonl(path, lines)  # without a half-written line
    reflector = player()
    while len(texts) < len(chosen):
        turns = [pool[number].turns[place] for number, place in chosen[len(texts) : len(texts) + CHUNK]]
        fresh = [
            text or "" for text in reflector.reflect([blind(View(turn.observation, turn.order)) for turn in turns])
        ]
        written = zip(turns, fresh, strict=True)
        if process_rank() == 0:
            append_jsonl(
                path, [{"player": weights, "state": t.observation.state, "reflection": text} for t, text in written]
            )
        texts += fresh
        progress(len(texts), len(chosen), "reflections by the player")
    return texts
