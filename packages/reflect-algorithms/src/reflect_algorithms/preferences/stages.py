"""Two stages of a run: `pairs` makes or reads the preferences, `reward` trains a reward model on them.

What there is in the folder of a unit:

    pairs/preferences.jsonl    the preferences, in the format of docs/guides/preferences.md
    pairs/card.json            how many there are, contradict each other, or are left out
    reward/                    metrics, `card.json` with the accuracy on held-out starts, and the reward model

Comparisons are read with reflect-report, an optional part of this package: it is imported when a stage needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reflect_algorithms.cards import card_of_reward
from reflect_algorithms.comparisons import Comparison, split_by_start
from reflect_algorithms.methods import STAGE, LearnedMethod
from reflect_algorithms.preferences.methods import POLICY
from reflect_algorithms.preferences.settings import preferences_config
from reflect_rl.data.generate import demonstration_tasks
from reflect_rl.launch import process_rank
from reflect_rl.models.labels import find_labels
from reflect_rl.rollout import NoReflector, Request, play
from reflect_rl.runs.config import RunConfig, fingerprint
from reflect_rl.runs.demonstrate import excluded_states
from reflect_rl.runs.folder import Job, Unit, units
from reflect_rl.runs.models import load_of_run, metrics_log, policy_of, save_whole
from reflect_rl.runs.stages import Stage
from reflect_rl.store import write_json, write_jsonl
from reflect_rl.types import Episode, Progress, Task, seed_for

if TYPE_CHECKING:
    from reflect_algorithms.preferences.pairs import Source
    from reflect_algorithms.preferences.reward_model import RewardModel

PREFERENCES = "preferences.jsonl"
_NO_METHOD = "no method of the run learns from preferences. Add one to methods, such as 'dpo' (docs/guides/rlhf.md)."


def _methods(run: RunConfig) -> list[LearnedMethod]:
    found = (run.method(name) for name in run.methods)
    return [method for method in found if isinstance(method, LearnedMethod)]


class PairsStage(Stage):
    """One job for each unit: the preferences that its methods learn from."""

    name = "pairs"
    help = "Make or read the preferences that methods learn from (package reflect-algorithms)."
    before = STAGE

    def concerns(self, run: RunConfig) -> bool:
        """Tell whether a method learns from preferences."""
        return any(method.pairs for method in _methods(run))

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """One job for each unit, after the supervised policy that plays the pairs."""
        for unit in units(run):
            yield Job(unit, self.name, "", _pairs_folder(unit), (unit.sft(POLICY),))

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Read the file of preferences, or play episodes and let the reward choose."""
        from reflect_algorithms.preferences.pairs import comparisons_of, made_pairs, read_pairs

        config = preferences_config(run).pairs
        if config.file is not None:
            found = read_pairs(config.file, config, run.env, fingerprint(run))
        else:
            tasks, play_round = _player(job.unit, run, progress)
            found = made_pairs(config, _source(job.unit, run), tasks, play_round)
        kept, counts = comparisons_of(found, config, excluded_states(run))
        seed = seed_for(job.unit.seed, "pairs")
        learned, held_out = split_by_start(kept, config.held_out, seed, counts.left_out(config))
        write_jsonl(job.folder / PREFERENCES, [one.model_dump(mode="json") for one in found])
        write_json(job.folder / "card.json", asdict(counts) | {"learned": len(learned), "held_out": len(held_out)})

    def refusal(self, run: RunConfig) -> str:
        """The reason why no pairs are made."""
        return "" if self.concerns(run) else _NO_METHOD


def _source(unit: Unit, run: RunConfig) -> Source:
    from reflect_algorithms.preferences.pairs import Source

    compare = preferences_config(run).pairs.compare
    return Source(run.env, fingerprint(run), compare, seed_for(unit.seed, "pairs"), unit=unit.name)


def _player(unit: Unit, run: RunConfig, progress: Progress) -> tuple[list[Task], Callable[[int], list[Episode]]]:
    """The starts of the pairs, and a function that plays each of them once with the supervised policy, sampled."""
    tasks = demonstration_tasks(run.data, run.env, unit.budget, unit.seed)
    model = load_of_run(run.model, unit.model(POLICY), unit.sft(POLICY), trainable=False)
    policy = policy_of(run, model, "sampled", "sft")

    def play_round(number: int) -> list[Episode]:
        requests = [Request(task, seed_for(unit.seed, "pairs", task.key, number)) for task in tasks]
        progress(number, number + 1, f"{number * len(tasks)} episodes")
        return play(
            run.env, requests, NoReflector(), policy, shuffle_labels=run.prompt.shuffle_labels, limits=run.limits
        )

    return tasks, play_round


class RewardStage(Stage):
    """One job for each unit: the reward model."""

    name = "reward"
    help = "Train the reward model on the preferences (package reflect-algorithms)."
    before = STAGE
    launched = "together"

    def concerns(self, run: RunConfig) -> bool:
        """Tell whether a method learns from a learned reward."""
        return any(method.reward for method in _methods(run))

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """One job for each unit, after its pairs."""
        for unit in units(run):
            yield Job(unit, self.name, "", reward_folder(unit), (unit.sft(POLICY), _pairs_folder(unit)))

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Train a copy of the supervised policy as the reward model, and save it."""
        from reflect_algorithms.preferences.reward_model import train_reward
        from reflect_algorithms.training import Training
        from reflect_rl.training.trainer import checkpoints_in

        settings, unit = preferences_config(run), job.unit
        load = partial(load_of_run, run.model, unit.model(POLICY), unit.sft(POLICY))
        model = load(trainable=True)
        learned, held_out = comparisons_of_unit(run, unit)
        training = Training(
            model,
            find_labels(model, run.env.max_actions, run.prompt.scoring),
            partial(load, trainable=False),
            run.env,
            episodes=(),
            tasks=(),
            config=settings.training,
            folder=job.folder,
            seed=seed_for(unit.seed, self.name),
            progress=progress,
            metrics=metrics_log(job, run),
            rule=run.prompt.scoring,
            comparisons=learned,
            held_out=held_out,
        )
        made = train_reward(training, settings.reward)
        save_whole(model, job.folder / "model", card_of_reward(run, job, POLICY, training))
        if process_rank() == 0:
            made.save(job.folder)
            checkpoints_in(training.folder).clear()

    def refusal(self, run: RunConfig) -> str:
        """The reason why no reward model is trained."""
        return "" if self.concerns(run) else _NO_METHOD


def comparisons_of_unit(run: RunConfig, unit: Unit) -> tuple[list[Comparison], list[Comparison]]:
    """The comparisons that a unit's methods learn from, and those of held-out starts.

    Raises:
        PreferenceError: the file of the stage `pairs` is damaged.
    """
    from reflect_algorithms.preferences.pairs import comparisons_of
    from reflect_report.preferences.records import read_preferences

    config = preferences_config(run).pairs
    kept, _ = comparisons_of(read_preferences(_pairs_folder(unit) / PREFERENCES), config, excluded_states(run))
    return split_by_start(kept, config.held_out, seed_for(unit.seed, "pairs"))


def reward_of_unit(run: RunConfig, unit: Unit) -> RewardModel:
    """The reward model of a unit.

    Raises:
        RunFolderError: it is missing or damaged.
    """
    from reflect_algorithms.preferences.reward_model import RewardModel

    folder = reward_folder(unit)
    model = load_of_run(run.model, folder / "model", folder, trainable=False)
    labels = find_labels(model, run.env.max_actions, run.prompt.scoring)
    return RewardModel.load(folder, model, labels, run.prompt.scoring)


def _pairs_folder(unit: Unit) -> Path:
    return unit.folder / "pairs"


def reward_folder(unit: Unit) -> Path:
    """Folder of the reward model."""
    return unit.folder / "reward"
