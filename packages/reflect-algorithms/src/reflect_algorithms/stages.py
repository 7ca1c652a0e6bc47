"""Two stages of a run: `log` plays the episodes to learn from, `learn` trains a policy for each method of this package.

What there is in the folder of a unit:

    log/episodes.jsonl     the log
    learn/<method>/        metrics, checkpoints and the result (`model`) of a training
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from reflect_algorithms.cards import card_of_learned
from reflect_algorithms.methods import STAGE, LearnedMethod
from reflect_algorithms.preferences.stages import comparisons_of_unit, reward_of_unit
from reflect_algorithms.settings import offline_config
from reflect_rl import registry
from reflect_rl.data.generate import demonstration_tasks
from reflect_rl.data.recorded import read_episodes
from reflect_rl.evaluation.methods import find_method
from reflect_rl.launch import process_rank
from reflect_rl.models.labels import find_labels
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import excluded_states
from reflect_rl.runs.folder import Job, Unit, units
from reflect_rl.runs.models import as_trained, load_of_run, metrics_log, save_whole, start_of_policy
from reflect_rl.runs.stages import Stage
from reflect_rl.store import write_json, write_jsonl
from reflect_rl.types import Episode, Progress, seed_for, to_json

EPISODES = "episodes.jsonl"


def learned_methods(run: RunConfig) -> dict[str, LearnedMethod]:
    """The methods of this package that a run trains: those that it names, each after the one that it goes on from."""
    found: dict[str, LearnedMethod] = {}

    def add(name: str) -> None:
        method = find_method(name)
        if isinstance(method, LearnedMethod):
            if method.start:
                add(method.start)
            found.setdefault(name, method)

    for name in run.methods:
        add(name)
    return found


class LogStage(Stage):
    """One job for each unit: the log of episodes that its methods learn from."""

    name = "log"
    help = "Play the episodes that offline methods learn from (package reflect-algorithms)."
    before = STAGE

    def concerns(self, run: RunConfig) -> bool:
        """Tell whether a method learns from a log."""
        return any(method.log for method in learned_methods(run).values())

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """One job for each unit."""
        for unit in units(run):
            yield Job(unit, self.name, "", unit.folder / self.name)

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Play the log, or read the recorded one."""
        # Imported late, here and below: a run is planned without torch.
        from reflect_algorithms.log import play_log

        config, unit = offline_config(run).log, job.unit
        tasks = demonstration_tasks(run.data, run.env, unit.budget, unit.seed)
        total, ended = len(tasks) * config.episodes_per_start, list[bool]()

        def told(episode: Episode) -> None:
            ended.append(episode.success)
            progress(len(ended), total, f"{sum(ended) / len(ended):.2f} won")

        log = play_log(
            config,
            run.env,
            tasks,
            seed_for(unit.seed, "log"),
            shuffle_labels=run.prompt.shuffle_labels,
            limits=run.limits,
            on_episode=told,
        )
        write_jsonl(job.folder / EPISODES, map(to_json, log))
        write_json(job.folder / "card.json", _facts(log))

    def refusal(self, run: RunConfig) -> str:
        """The reason why no log is played."""
        return "" if self.concerns(run) else _NO_METHOD


class LearnStage(Stage):
    """A job for each method of this package."""

    name = STAGE
    help = "Train the methods that learn from logs, solvers or preferences (package reflect-algorithms)."
    before = "eval"
    launched = "together"

    def concerns(self, run: RunConfig) -> bool:
        """Tell whether the run has a method of this package."""
        return bool(learned_methods(run))

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """A job after the model that its method goes on from, and after the log where it learns from one."""
        for unit in units(run):
            for name, method in learned_methods(run).items():
                yield Job(unit, self.name, name, _folder(unit, name), (_start_of(method, run, unit)[1],))

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Train one policy and save it."""
        from reflect_algorithms.training import Learner, Training
        from reflect_rl.training.trainer import checkpoints_in

        method = learned_methods(run)[job.name]
        folder, made_by = _start_of(method, run, job.unit)
        load = partial(load_of_run, run.model, folder, made_by)
        seed = seed_for(job.unit.seed, self.name, job.name)
        model = load(trainable=True, seed=seed_for(seed, "adapters"))
        kind: type[Learner] = registry.find("methods", method.learner)
        learned, held_out = comparisons_of_unit(run, job.unit) if method.pairs else ((), ())
        training = Training(
            model,
            find_labels(model, run.env.max_actions, run.prompt.scoring),
            partial(load, trainable=False),
            run.env,
            read_episodes(job.unit.folder / LogStage.name / EPISODES) if method.log else (),
            demonstration_tasks(run.data, run.env, job.unit.budget, job.unit.seed),
            offline_config(run).training,
            job.folder,
            seed,
            progress,
            metrics_log(job, run),
            run.prompt.scoring,
            run.prompt.shuffle_labels,
            excluded_states(run),
            run.limits,
            comparisons=learned,
            held_out=held_out,
            reward=partial(reward_of_unit, run, job.unit) if method.reward else None,
        )
        kind.for_run(run).train(training)
        save_whole(as_trained(model, run), job.folder / "model", card_of_learned(run, job, method, training))
        # After the model is whole on the disk: a kill in between must find one of the two.
        if process_rank() == 0:
            checkpoints_in(training.folder).clear()

    def refusal(self, run: RunConfig) -> str:
        """The reason why nothing is trained."""
        return "" if self.concerns(run) else _NO_METHOD


_NO_METHOD = (
    "no method of the run learns from a log. Add one to methods, such as 'bc' or 'a_lol' (docs/guides/offline.md)."
)


def _folder(unit: Unit, name: str) -> Path:
    """Folder of a training, where evaluation looks for its model."""
    return unit.folder / STAGE / name


def _start_of(method: LearnedMethod, run: RunConfig, unit: Unit) -> tuple[Path | None, Path]:
    """Folder of the model that a method goes on from (None: the configured one), and of the job that makes it."""
    if method.start:
        return _folder(unit, method.start) / "model", _folder(unit, method.start)
    folder, made_by = start_of_policy(method, run.model, unit)
    return folder, unit.folder / "data" if folder is None else made_by


def _facts(log: list[Episode]) -> dict[str, object]:
    """Facts about a log: who played it, and how well."""
    players = dict.fromkeys(turn.decision.player for episode in log for turn in episode.turns)
    return {
        "episodes": len(log),
        "turns": sum(len(episode.turns) for episode in log),
        "won": sum(episode.success for episode in log),
        "mean_return": sum(episode.total_reward for episode in log) / len(log),
        "players": list(players),
        "with_probabilities": all(t.decision.log_probs is not None for e in log for t in e.turns),
    }
