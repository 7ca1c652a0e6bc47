"""Record of a training from Python in its folder: settings, provenance and results, laid out as a run's."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reflect_rl.agent import Agent
from reflect_rl.config import Frozen
from reflect_rl.curricula import modes_of
from reflect_rl.envs.base import SPLITS, EnvSpec
from reflect_rl.errors import RunFolderError, TrainingError
from reflect_rl.evaluation.evaluate import (
    Condition,
    EvaluatedEpisode,
    EvaluationConfig,
    ResultRow,
    TestedGames,
    measured,
    read_rows,
    tasks_digest,
    write_rows,
)
from reflect_rl.launch import process_rank
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.rollout import Reflector
from reflect_rl.runs.folder import CARD, RunCard, Unit, provenance, write_card
from reflect_rl.runs.start import differences
from reflect_rl.store import check_seal, read_json, read_jsonl, seal, write_json, write_jsonl
from reflect_rl.types import Decoding, Episode

FREE = ("checkpoint_every", "keep_checkpoints")
"""Settings that change no result, so that a training may go on with others; batches of other sizes round otherwise."""

LATER = ("tasks", "scoring", "labels")
"""Facts that folders of before they were noted say nothing of."""

REMEDY = "Choose another `out`, or delete the folder."


@contextmanager
def training_folder(out: str | Path | None) -> Iterator[Path]:
    """The folder of a training; one that nothing is kept of (None) has one that goes away."""
    if out is not None:
        yield Path(out)
        return
    # Checkpoints need a place even where the caller wants to keep nothing.
    folder = Path(tempfile.mkdtemp(prefix="reflect-rl-"))
    try:
        yield folder
    except TrainingError:
        # Its message names files in the folder.
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def begin_training(
    folder: Path,
    *,
    training: Frozen,
    start: Agent,
    environment: EnvSpec | None = None,
    stages: Collection[str] = (),
    **facts: str | list[str],
) -> Path:
    """Write the settings of a training, or check that the one that was interrupted in this folder had the same.

    Of several processes that train together the main one does so; the others wait for it when the training begins.

    Args:
        folder: of the training.
        training: its settings.
        start: the agent at its beginning: its weights, and the rule and labels under which it is trained.
        environment: where it plays one.
        stages: those that its curriculum names, as it names them.
        **facts: what else must not change while it is interrupted.

    Returns:
        the file of these settings.

    Raises:
        RunFolderError: the folder holds a training with other settings.
    """
    path = folder / "settings.json"
    if process_rank() != 0:
        return path
    settings: dict[str, object] = {"training": json.loads(training.model_dump_json(exclude=set(FREE)))}
    if environment is not None:
        chosen = json.loads(environment.config.model_dump_json())
        tasks = _tasks(environment, stages)
        settings |= {"environment": environment.identity, "environment_settings": chosen, "tasks": tasks}
    # The weights and not their path: a model that was trained on in between is another start.
    settings |= {"start": start.model.hash(), "scoring": start.scoring, "labels": list(start.labels.texts), **facts}
    if not path.exists():
        write_json(path, settings)
        return path
    # Checkpoints of other settings would be gone on from without a word.
    before = read_json(path, REMEDY)
    changed = sorted(differences({name: settings.get(name) for name in LATER} | before, settings))
    if changed:
        raise RunFolderError(f"{folder} holds a training with other settings: {'; '.join(changed[:5])}. {REMEDY}")
    return path


def _tasks(spec: EnvSpec, stages: Collection[str]) -> dict[str, str]:
    """A hash of the tasks of each split in the modes of the settings and of the stages of a curriculum."""
    trained = {*spec.modes, *(mode for stage in stages for mode in modes_of(stage))}
    # Other modes are not asked for: games of many warn of each that they cannot list.
    modes = [mode for mode in spec.all_modes if mode in trained]
    return {f"{mode}/{split}": tasks_digest(spec, mode, split) for mode in modes for split in SPLITS}


def written_by(reflector: Reflector) -> str:
    """Name of a reflection player, with the weights of one that was trained.

    Of other players only name and class tell one from another, so players of one class with other settings need
    other names.
    """
    if isinstance(reflector, FrozenReflector):
        return f"{reflector.name}, {reflector.model.hash()}, at most {reflector.max_new_tokens} tokens"
    return f"{reflector.name}, {type(reflector).__qualname__}"


def digest(rows: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of supervised rows, in their order."""
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def note_evaluation(
    run: Path,
    agent: Agent,
    spec: EnvSpec,
    config: EvaluationConfig,
    decoding: Decoding,
    played: Mapping[str, tuple[Sequence[Episode], float | None]],
) -> None:
    """Put the results of an agent into the folder of its method and into `results.json`; equal ones are replaced.

    Of several processes that have played the same, the main one writes.

    Args:
        run: the run folder.
        agent: who played.
        spec: what was played.
        config: how it was evaluated, with one horizon.
        decoding: how the agent chose.
        played: episodes of each mode, and turns per second.
    """
    if process_rank() != 0:
        return
    origin, (horizon,) = agent.origin, config.horizons
    rows = [
        ResultRow.of(_condition(agent, spec, config, decoding, mode), measured(episodes, horizon, speed, spec))
        for mode, (episodes, speed) in played.items()
    ]
    # The first evaluation writes it; later ones must not change when the run was created.
    if not (run / CARD).exists():
        made = dict(provenance())
        write_card(run, RunCard(**made, benchmark=spec.name, command="reflect_rl (Python)", seeds=(origin.seed,)))
    folder = Unit(run, origin.starts, origin.seed).evaluation(origin.method)
    mark, path, place = folder / "done", folder / "rows.json", folder / "episodes.jsonl"
    check_seal(mark, f"Delete {folder} and evaluate again.")
    # Gone while the files change: a kill in between must not look like damage.
    mark.unlink(missing_ok=True)
    before = read_rows(path, REMEDY) if path.exists() else ()
    # By key and not by appending: an evaluation that is repeated replaces its rows.
    fresh = {_key(row) for row in rows}
    write_rows(path, [*(row for row in before if _key(row) not in fresh), *rows])
    # Those of earlier versions carry no horizon, so they are replaced whatever it is.
    marks = {(spec.name, config.split, mode, decoding, told) for mode in played for told in (horizon, None)}
    known = read_jsonl(place, REMEDY) if place.exists() else []
    kept = [row for row in known if _mark(row) not in marks]
    # With the horizon: at a longer one nothing is known of an episode that was cut off.
    records = [
        EvaluatedEpisode(episode, mode, decoding, horizon).to_json()
        for mode, (episodes, _) in played.items()
        for episode in episodes
    ]
    write_jsonl(place, [*kept, *records])
    seal(mark, [path, place])
    every = sorted(run.glob("starts-*/seed-*/evaluation/*/rows.json"))
    write_rows(run / "results.json", [row for path in every for row in read_rows(path, REMEDY)])


def _condition(agent: Agent, spec: EnvSpec, config: EvaluationConfig, decoding: Decoding, mode: str) -> Condition:
    """Condition of the rows: the games that an agent played in a mode, and its making."""
    origin, (horizon,) = agent.origin, config.horizons
    return Condition(
        benchmark=spec.name,
        tested=TestedGames.of(spec, mode, config.split),
        label_source=origin.label_source,
        demonstration_starts=origin.starts,
        seed=origin.seed,
        method=origin.method,
        algorithm=origin.algorithm,
        model=Path(agent.model.name).name or "embedded",
        mode=mode,
        split=config.split,
        decoding=decoding,
        horizon=horizon,
        fingerprint=spec.identity,
    )


def _mark(row: Mapping[str, Any]) -> tuple[object, ...]:
    """Key of an episode, as its line tells it; a later evaluation replaces episodes of equal keys."""
    # Without its version, as rows name it.
    game = row["environment"].rpartition("-v")[0]
    return game, row["task"]["split"], row["mode"], row["decoding"], row.get("horizon")


def _key(row: ResultRow) -> tuple[object, ...]:
    """Key of a row; a later evaluation of the same player replaces rows of equal keys."""
    played = (row.benchmark, row.mode, row.split, row.decoding, row.horizon)
    return (*played, row.method, row.algorithm, row.seed, row.demonstration_starts)
