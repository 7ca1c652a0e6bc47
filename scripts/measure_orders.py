"""Train DangerousTaxi's reflection player in several orders of its rows, and count what it gets wrong.

    reflect-rl data configs/taxi/clean.toml --methods sft_reflect --environment.split-seed 4 --output-dir runs/orders
    reflect-rl sft runs/orders     # the base models and the policies; its reflection players are not used
    python scripts/measure_orders.py runs/orders rows.jsonl --orders 0 1 2

A row has the test games won by the pair of players, greedily, and by doing what the reflections say (`full`, 30 turns),
and the wrong states: of all 400 open states, those in which a reflection, after any last action that leads there, ends
with an action that is on no shortest way. Rows that are in the file already are not made again. `--set attempts=3`
tries other settings of the training.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reflect_rl.config import ModelConfig, parse
from reflect_rl.data.generate import BASE
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.dangerous_taxi import ACTIONS, OPEN_STATES, DangerousTaxi, DangerousTaxiConfig, transition_table
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.rollout import Request, play
from reflect_rl.runs.attempts import FILE, play_pair, train_until_good
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Job, units
from reflect_rl.store import read_json, read_jsonl
from reflect_rl.training.config import ReflectorSFTConfig, SFTConfig
from reflect_rl.training.sft import train_sft
from reflect_rl.types import Decision, Progress, View

MODE, TURNS = "full", 30
ADVICE = re.compile(r"(?:Next:|I choose) (\w+)\.")
"""The verdict follows the advice in this game, where `AdvicePolicy` reads the last sentence."""
AGAIN = "Make it again with `reflect-rl data`."
LISTED = tuple(range(len(ACTIONS)))


def main() -> None:
    """Train in each order, and append a row for each."""
    arguments = _arguments()
    run = parse(RunConfig, read_json(arguments.run / "config.json", AGAIN))
    reflector = ReflectorSFTConfig(**run.sft.reflector.model_dump() | arguments.set)
    run = run.model_copy(
        update={"output_dir": arguments.run, "sft": run.sft.model_copy(update={"reflector": reflector})}
    )
    game = DangerousTaxiConfig(**run.environment.model_dump())
    done = [(row["seed"], row["order"], row["settings"]) for row in _rows(arguments.out)]
    for order in arguments.orders:
        for unit in units(run):
            if (unit.seed, order, reflector.model_dump()) in done:
                continue
            began = time.process_time()
            with tempfile.TemporaryDirectory() as scratch:
                job = Job(unit, "sft", "reflector", Path(scratch))
                model = train_until_good(job, run, partial(_train, job, reflector, order), lambda *_: None)
                attempts = json.loads((job.folder / FILE).read_text())
            seconds = round(time.process_time() - began)
            player = FrozenReflector(model, max_new_tokens=96, cache_size=100_000)
            row = {"split_seed": game.split_seed, "seed": unit.seed, "order": order, "settings": reflector.model_dump()}
            row |= {"attempts": attempts, "cpu_seconds": seconds, "test_won": play_pair(job, run, model, "test")}
            row |= {"obeyed": {split: _play(player, game, split) for split in ("validation", "test")}}
            row |= {"wrong_states": _wrong(player, game)}
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("run", type=Path, help="run folder with data and base models")
    parser.add_argument("out", type=Path, help="file of rows, JSON lines")
    parser.add_argument("--orders", type=int, nargs="+", default=[0], help="seeds of the order of rows")
    parser.add_argument("--set", type=_setting, nargs="*", default=[], help="settings of [sft.reflector], NAME=VALUE")
    arguments = parser.parse_args()
    arguments.set = dict(arguments.set)
    if not (arguments.run / "config.json").is_file():
        parser.error(f"{arguments.run} is no run folder. Make one with `reflect-rl data` and `reflect-rl sft`.")
    return arguments


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def _rows(path: Path) -> list[dict[str, Any]]:
    return read_jsonl(path, "Delete it to begin anew.", appended=True) if path.is_file() else []


def _train(job: Job, settings: SFTConfig, order: int, attempt: int, progress: Progress) -> LanguageModel:
    """The reflection player of this order; of further attempts, of an order that no first attempt has."""
    model = load_model(ModelConfig(), job.unit.model(BASE), trainable=True)
    pairs = [(row["prompt"], row["completion"]) for row in read_jsonl(job.unit.dataset("reflector"), AGAIN)]
    seed = order + 1000 * (attempt - 1)
    train_sft(model, pairs, settings, job.folder / str(attempt), seed, ends=True, progress=progress)
    return model


class Obedient:
    """Does what the reflection says last; where that is no action, it drops the passenger off."""

    name = "obedient"
    sees_oracle = False

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The advised action of each view."""
        named = [ADVICE.findall(view.reflection or "") for view in views]
        return [
            Decision(ACTIONS.index(names[-1] if names and names[-1] in ACTIONS else ACTIONS[-1]), self.name)
            for names in named
        ]


def _play(player: FrozenReflector, game: DangerousTaxiConfig, split: str) -> dict[str, int]:
    """Games of a split, and those won by doing what the reflections say."""
    spec = EnvSpec(DangerousTaxi, game)
    requests = [Request(task, 0) for task in DangerousTaxi(game).tasks(MODE, split)]
    episodes = play(spec, requests, player, Obedient(), max_episode_steps=TURNS)
    return {"games": len(episodes), "won": sum(episode.success for episode in episodes)}


def _wrong(player: FrozenReflector, game: DangerousTaxiConfig) -> dict[str, int]:
    """Wrong states among the starts of test and validation games, and among all others."""
    env = DangerousTaxi(game)
    # A state as the first of a game, and after each action that leads there.
    shown: list[tuple[int, View, tuple[int, ...]]] = []
    for state in sorted(OPEN_STATES):
        first = env.reset(env.task_at(MODE, str(state)))
        shown.append((state, View(first, LISTED), env.oracle().optimal))
    for before in sorted(OPEN_STATES):
        for action, (after, _, _) in enumerate(transition_table()[before]):
            if after in OPEN_STATES and after != before:
                env.reset(env.task_at(MODE, str(before)))
                step = env.step(action)
                shown.append((after, View(step.observation, LISTED), env.oracle().optimal))
    texts = player.reflect([view for _, view, _ in shown])
    views = [replace(view, reflection=text) for (_, view, _), text in zip(shown, texts, strict=True)]
    decisions = Obedient().decide(views, ())
    wrong = {state for (state, _, optimal), d in zip(shown, decisions, strict=True) if d.index not in optimal}
    parts = {split: {task.data["state"] for task in env.tasks(MODE, split)} for split in ("test", "validation")}
    counts = {split: len(wrong & states) for split, states in parts.items()}
    return counts | {"other": len(wrong - parts["test"] - parts["validation"])}


if __name__ == "__main__":
    main()
