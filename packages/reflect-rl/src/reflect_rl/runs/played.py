"""Episodes of an evaluation that ended before it was interrupted; the same command plays only the others.

An episode follows from its task, its seed and its players, so the order in which episodes are played changes none of
them, but for the rounding of batches of another size.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.evaluate import EvaluatedEpisode
from reflect_rl.runs.config import RunConfig, result_mark
from reflect_rl.runs.folder import PLAYED, Job, code_sha256
from reflect_rl.store import read_jsonl, write_jsonl
from reflect_rl.types import Episode, episode_from_json

FOLLOWS_FROM = {"environment", "prompt", "model", "reflector", "evaluation"}
"""Parts of the configuration that the episodes of finished players follow from."""


class PlayedEpisodes:
    """File of the episodes that have ended, beginning with a mark of what they follow from.

    Episodes of other settings, players or code are forgotten, and so is a file that is not readable.

    Args:
        job: the evaluation.
        config: of the run.
    """

    def __init__(self, job: Job, config: RunConfig) -> None:
        self.path = job.folder / PLAYED
        mark = {"follows_from": players_mark(job, config)}
        try:
            rows = read_jsonl(self.path, "", appended=True)
        except RunFolderError:
            rows = []
        self.rows = rows if rows[:1] == [mark] and all(map(_is_episode, rows[1:])) else [mark]
        # Written anew, as a kill can have cut the last line short, which the next one would go on.
        write_jsonl(self.path, self.rows)

    def known(self, mode: str, decoding: str) -> dict[int, Episode]:
        """Episodes of a mode and decoding, by their seeds."""
        rows = (row for row in self.rows[1:] if (row["mode"], row["decoding"]) == (mode, decoding))
        return {episode.seed: episode for episode in map(episode_from_json, rows)}

    def noting(self, mode: str, decoding: str, tell: Callable[[Episode], None]) -> Callable[[Episode], None]:
        """Make a callback that writes down an episode that has ended, and tells of it."""

        def on_episode(episode: Episode) -> None:
            row = json.dumps(EvaluatedEpisode(episode, mode, decoding).to_json(), ensure_ascii=False)
            # Lines that a process has handed over outlive it. A power failure costs episodes, and no result.
            with self.path.open("a", encoding="utf-8") as file:
                file.write(row + "\n")
            tell(episode)

        return on_episode


def _is_episode(row: dict[str, Any]) -> bool:
    try:
        episode_from_json(row)
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return {"mode", "decoding"} <= row.keys()


def players_mark(job: Job, config: RunConfig) -> str:
    """A hash of what the episodes of an evaluation follow from besides their tasks and seeds.

    It covers settings, game, code and the trained players.

    Raises:
        FileNotFoundError: a training that the job needs is not finished.
    """
    method = config.method(job.name)
    # The marks of finished trainings hold sums of their models.
    players = [(folder / "done").read_text(encoding="utf-8") for folder in job.needs]
    parts = [config.model_dump_json(include=FOLLOWS_FROM), result_mark(config, learned=method.model), code_sha256()]
    return hashlib.sha256(json.dumps([*parts, *players]).encode()).hexdigest()
