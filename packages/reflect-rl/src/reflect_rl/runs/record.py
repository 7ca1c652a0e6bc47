"""What a training from Python leaves in its folder: settings, provenance and results, laid out as a run's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reflect_rl.agent import Agent
from reflect_rl.config import Frozen
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.evaluate import EvaluationConfig, result_row
from reflect_rl.runs.folder import Unit, differences, provenance
from reflect_rl.store import read_json, read_jsonl, write_json, write_jsonl
from reflect_rl.types import Episode, to_json

__all__ = ["begin_training", "note_evaluation"]

FREE = ("checkpoint_every", "keep_checkpoints", "num_envs", "micro_batch_tokens")
"""Settings that change no result, so that a training may go on with others."""

REMEDY = "Choose another `out`, or delete the folder."


def begin_training(folder: Path, spec: EnvSpec, config: Frozen, start: str, reflector: str) -> None:
    """Write the settings of a training, or check that the one that was interrupted in this folder had the same.

    Args:
        folder: of the training.
        spec: the environment.
        config: of the training.
        start: hash of the weights at its beginning.
        reflector: name of the reflection player.

    Raises:
        RunFolderError: the folder holds a training with other settings.
    """
    settings = {
        "environment": spec.identity,
        "environment_settings": json.loads(spec.config.model_dump_json()),
        "training": json.loads(config.model_dump_json(exclude=set(FREE))),
        "start": start,
        "reflector": reflector,
    }
    path = folder / "settings.json"
    if not path.exists():
        write_json(path, settings)
        return
    changed = sorted(differences(read_json(path, REMEDY), settings))
    if changed:
        raise RunFolderError(f"{folder} holds a training with other settings: {'; '.join(changed[:5])}. {REMEDY}")


def note_evaluation(
    run: Path,
    agent: Agent,
    spec: EnvSpec,
    config: EvaluationConfig,
    decoding: str,
    played: Mapping[str, tuple[Sequence[Episode], float]],
) -> None:
    """Put the results of an agent into `results.json` and its episodes beside them; equal ones are replaced.

    Args:
        run: the run folder.
        agent: who played.
        spec: what was played.
        config: how it was evaluated, with one horizon.
        decoding: how the agent chose.
        played: episodes of each mode, and turns per second.
    """
    origin, (horizon,) = agent.origin, config.horizons
    rows = [
        {
            "benchmark": spec.name,
            "tested": {"version": spec.version},
            "label_source": origin.label_source,
            "mode": mode,
            "split": config.split,
            "model": Path(agent.model.name).name or "embedded",
            "method": origin.method,
            "algorithm": origin.algorithm,
            "seed": origin.seed,
            "demonstration_starts": origin.starts,
            "decoding": decoding,
            **result_row(episodes, horizon, speed, spec),
            "fingerprint": spec.identity,
        }
        for mode, (episodes, speed) in played.items()
    ]
    path = run / "results.json"
    before = read_json(path, REMEDY) if path.exists() else []
    fresh = {_key(row) for row in rows}
    write_json(path, [*(row for row in before if _key(row) not in fresh), *rows])
    if not (run / "run.json").exists():
        card = {"benchmark": spec.name, "command": "reflect_rl (Python)", "seeds": [origin.seed]}
        write_json(run / "run.json", card | provenance())
    place = Unit(run, origin.starts, origin.seed).evaluation(origin.method) / "episodes.jsonl"
    marks = {(mode, decoding) for mode in played}
    kept = [row for row in (read_jsonl(place, REMEDY) if place.exists() else []) if _mark(row) not in marks]
    records = [
        to_json(episode) | {"mode": mode, "decoding": decoding}
        for mode, (episodes, _) in played.items()
        for episode in episodes
    ]
    write_jsonl(place, [*kept, *records])


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("mode", "split", "method", "algorithm", "seed", "demonstration_starts", "decoding", "horizon")
    return tuple(row[name] for name in names)


def _mark(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["mode"], row["decoding"]
