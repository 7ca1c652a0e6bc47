"""The stages of a run, each of which plans jobs of one kind and does them.

An installed distribution adds a stage under the entry point group `reflect_rl.stages`: a class over `Stage`, whose name
is then a command, too.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, Literal

from filelock import FileLock

from reflect_rl import registry
from reflect_rl.config import EMBEDDED, ModelConfig, Rule
from reflect_rl.data.generate import BASE, DATASETS, LEXICAL_DATASETS, is_reflector, policy_beside
from reflect_rl.envs.base import EnvSpec, NamesGames
from reflect_rl.errors import ConfigError, RunFolderError
from reflect_rl.evaluation.evaluate import (
    NO_ALGORITHM,
    Condition,
    EvaluatedEpisode,
    ResultRow,
    TestedGames,
    costs_of,
    evaluate,
    is_metered,
    measured,
    origin_of,
    progress_of,
    reset_usage,
    write_rows,
)
from reflect_rl.evaluation.methods import Decoding, Measure, Method
from reflect_rl.launch import process_rank, release
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import LISTED
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.rollout import Policy, Reflector, RunsElsewhere
from reflect_rl.runs.attempts import attempt_of, clear_checkpoints, seed_of, train_until_good
from reflect_rl.runs.config import BuiltForRun, ChoosesDecodings, RunConfig, TakesTurns, result_mark
from reflect_rl.runs.demonstrate import demonstrate, examples_of, excluded_states
from reflect_rl.runs.folder import PLAYED, Job, Unit, check_job, seal_job, units
from reflect_rl.runs.model_card import add_results, card_of_rlft, card_of_sft
from reflect_rl.runs.models import (
    base_folder,
    load_of_run,
    maker_of,
    metrics_log,
    reflector_of,
    save_whole,
    start_of_policy,
)
from reflect_rl.runs.played import PlayedEpisodes
from reflect_rl.store import write_json, write_jsonl
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.training.sft import train_sft
from reflect_rl.types import Progress, seed_for


class Stage(ABC):
    """Plans jobs of one kind, and does them."""

    name: ClassVar[str]
    """The kind of its jobs, and the command that does them."""
    help: ClassVar[str] = ""
    """One sentence for the help of the command."""
    before: ClassVar[str] = ""
    """Stage whose jobs wait for this one's, and whose command does them, too (empty: none)."""
    annotator: ClassVar[str] = ""
    """Annotator whose work it is: runs without it have no jobs of this stage (empty: it concerns every run)."""
    launched: ClassVar[Literal["alone", "together", "dealt"]] = "alone"
    """Processes of a launch that do a job: the main one `alone`, all of them `together`, or any one (`dealt` out)."""

    def concerns(self, run: RunConfig) -> bool:
        """Tell whether a run may have jobs of this stage."""
        return self.annotator in ("", run.data.annotator)

    @abstractmethod
    def plan(self, run: RunConfig) -> Iterator[Job]:
        """Its jobs, each after what it needs of the same stage."""

    @abstractmethod
    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Do a job: all it leaves but the mark, which comes after it."""

    def refusal(self, run: RunConfig) -> str:
        """The reason why its command has nothing to do in this run; empty where it has."""
        return ""

    def summary(self, run: RunConfig) -> str:
        """Text to show when its jobs are done; empty for none."""
        return ""


class DataStage(Stage):
    """One job for each unit."""

    name = "data"

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """One job for each unit."""
        for unit in units(run):
            yield Job(unit, self.name, "", unit.folder / "data")

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Play the demonstrations and write the data sets."""
        demonstrate(job.unit, job.folder, run, progress)


class SFTStage(Stage):
    """A job for each data set that a method learns from; random weights first read plain text."""

    name = "sft"
    launched = "together"

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """The base, then each model that goes on from it; methods that learn from the same data set share its model."""
        methods = [run.method(name) for name in run.methods]
        wanted = [d for d in (*DATASETS, *LEXICAL_DATASETS) if any(d in method.datasets for method in methods)]
        repeats = [d for d in wanted if is_reflector(d) and run.sft.reflector.attempts > 1]
        # RL with reflections, the longer way, begins sooner; and attempts are judged by games, which need the policy.
        wanted.sort(key=lambda d: (d.startswith("policy_plain"), d in repeats))
        for unit in units(run):
            if run.model.path == EMBEDDED and any(method.model for method in methods):
                yield Job(unit, self.name, BASE, unit.sft(BASE), (unit.folder / "data",))
            for dataset in wanted:
                policy = (unit.sft(policy_beside(dataset)),) if dataset in repeats else ()
                yield Job(unit, self.name, dataset, unit.sft(dataset), (_first_job(run.model, unit), *policy))

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Train one model and save it."""
        if is_reflector(job.name) and run.sft.reflector.attempts > 1:
            model = train_until_good(job, run, partial(self._train, job, run), progress)
        else:
            model = self._train(job, run, 1, progress)
        save_whole(model, job.unit.model(job.name), card_of_sft(run, job.unit, job.name))
        # After the model is whole on the disk: a kill in between must find one of the two.
        if process_rank() == 0:
            clear_checkpoints(job, run)

    def _train(self, job: Job, run: RunConfig, attempt: int, progress: Progress) -> LanguageModel:
        """A model, from its beginning."""
        part, place = job.name.removesuffix("_positive"), attempt_of(job, attempt)
        examples, rule = examples_of(job.unit, job.name), _rule_of(run, part)
        folder, made_by = base_folder(run.model, job.unit), job.unit.sft(BASE)
        # Every other training begins with the base; the base itself with random weights, which `data` has saved.
        if job.name == BASE:
            folder, made_by = job.unit.model("untrained"), job.unit.folder / "data"
        model = load_of_run(run.model, folder, made_by, trainable=True)
        train_sft(
            model,
            examples,
            run.sft.of(job.name),
            place.folder,
            seed_of(job, attempt),
            # A label or a line is chosen; reflections and texts of actions must learn where to stop.
            ends=part == "reflector" or rule not in LISTED,
            progress=progress,
            metrics=metrics_log(place, run),
            rule=rule,
        )
        return model


def _first_job(settings: ModelConfig, unit: Unit) -> Path:
    """Folder of the job that every training waits for."""
    # Random weights read the game's texts before they learn to play; pretrained ones can read.
    return unit.sft(BASE) if settings.path == EMBEDDED else unit.folder / "data"


def _rule_of(run: RunConfig, part: str) -> Rule:
    """Rule by which the completions of a data set are scored: reflections and plain text are written, not chosen."""
    written = part == "reflector" or (part == BASE and run.data.reading == "text")
    return "choice_token" if written else run.prompt.scoring


class RLFTStage(Stage):
    """A job for each method with online RL."""

    name = "rlft"
    launched = "together"

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """A job after the supervised models of its method; without any, after what all trainings begin with."""
        for unit in units(run):
            for name in run.methods:
                if (method := run.method(name)).online:
                    parts = tuple(unit.sft(part) for part in method.datasets)
                    yield Job(unit, self.name, name, unit.rlft(name), parts or (_first_job(run.model, unit),))

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Train one policy and save it."""
        reflector = reflector_of(run, job.unit, job.name)
        # Before training: an interrupted one has already learned from these reflections.
        if process_rank() == 0 and (origin := origin_of(reflector)):
            write_json(job.folder / "reflection_server.json", origin.model_dump(exclude_none=True))
        trainer = online_trainer(job, run, reflector)
        trainer.train(progress)
        save_whole(trainer.model, job.folder / "model", card_of_rlft(run, job.unit, job.name))


def online_trainer(job: Job, run: RunConfig, reflector: Reflector) -> OnlineTrainer:
    """Make the online training of the policy of the method that a job is named after."""
    folder, made_by = start_of_policy(run.method(job.name), run.model, job.unit)
    model = load_of_run(run.model, folder, made_by, trainable=True)
    # The KL term compares with the weights at the start, and training changes `model` in place: a second copy.
    needs_reference = run.rlft.algorithm.needs_reference
    return OnlineTrainer(
        model,
        find_labels(model, run.env.max_actions, run.prompt.scoring),
        reflector,
        run.env,
        run.rlft,
        job.folder,
        seed_for(job.unit.seed, "rlft", job.name),
        reference=load_of_run(run.model, folder, made_by, trainable=False) if needs_reference else None,
        rule=run.prompt.scoring,
        shuffle_labels=run.prompt.shuffle_labels,
        excluded=excluded_states(run),
        modes=run.evaluated_modes,
        limits=run.limits,
        metrics=metrics_log(job, run),
    )


class EvaluationStage(Stage):
    """A job for each method."""

    name = "eval"
    launched = "dealt"

    def plan(self, run: RunConfig) -> Iterator[Job]:
        """A job after the training of its method."""
        for unit in units(run):
            for name in run.methods:
                method = run.method(name)
                # Players without a model have nothing to wait for, so free workers evaluate them at once.
                needs: tuple[Path, ...] = ()
                if method.trainer:
                    needs = (unit.folder / method.trainer / name,)
                elif method.model:
                    # A method without supervised training begins with the model that all others begin with.
                    needs = tuple(unit.sft(part) for part in method.datasets) or (_first_job(run.model, unit),)
                yield Job(unit, self.name, name, unit.evaluation(name), needs)

    def do(self, job: Job, run: RunConfig, progress: Progress) -> None:
        """Evaluate one method and write its rows and episodes."""
        method = run.method(job.name)
        with _in_turn(run, job.name):
            if method.measure is not None:
                rows, episodes = _eval_measured(job, run, method.measure), list[EvaluatedEpisode]()
            else:
                rows, episodes = _eval_players(job, run, progress)
        # The mark comes after both files, each written whole, so a kill never leaves rows without episodes.
        write_jsonl(job.folder / "episodes.jsonl", [played.to_json() for played in episodes])
        write_rows(job.folder / "rows.json", rows)
        (job.folder / PLAYED).unlink(missing_ok=True)
        policy = _trained_policy(run.method(job.name), job.unit)
        if policy is not None:
            add_results(policy, rows)


def load_players(config: RunConfig, unit: Unit, name: str, decoding: Decoding) -> tuple[Reflector, Policy]:
    """The two players of a method, as they are after its training.

    Raises:
        RunFolderError: the method is not trained yet.
    """
    method = config.method(name)
    if not method.model:
        found = registry.find("policies", method.script)
        scripted: Policy = found.for_run(config, name, decoding) if isinstance(found, BuiltForRun) else found()
        return reflector_of(config, unit, name), scripted
    folder, made_by = start_of_policy(method, config.model, unit)
    if method.trainer:
        made_by = unit.folder / method.trainer / name
        folder = made_by / "model"
    # With the mark but without the model the folder is damaged, and `load_of_run` says how to make it good.
    if folder is not None and not (folder.exists() or (made_by / "done").exists()):
        raise RunFolderError(
            f"no model of the method {name!r} in {folder}. Run `reflect-rl {maker_of(made_by)}` first."
        )
    model = load_of_run(config.model, folder, made_by, trainable=False)
    labels = find_labels(model, config.env.max_actions, config.prompt.scoring)
    policy = LanguageModelPolicy(model, labels, decoding, config.prompt.scoring, name=name)
    return reflector_of(config, unit, name), policy


def _decodings_of(config: RunConfig, name: str) -> Sequence[Decoding]:
    """The decodings in which a method is evaluated."""
    method = config.method(name)
    if method.model:
        return config.evaluation.decodings
    found: object = registry.find("policies", method.script) if method.script else None
    return found.decodings(config) if isinstance(found, ChoosesDecodings) else (method.decoding,)


def _trained_policy(method: Method, unit: Unit) -> Path | None:
    """Folder of the policy that a method trained for itself; None where it plays another's."""
    if method.trainer:
        return unit.folder / method.trainer / method.name / "model"
    # A card holds results of the method that trained the model, not of others that play it.
    return unit.model(method.policy) if method.model and method.policy in method.datasets else None


@contextmanager
def _in_turn(config: RunConfig, name: str) -> Iterator[None]:
    """Evaluations whose players share something wait for each other.

    The operating system releases the lock when a process ends, however it ends.
    """
    method = config.method(name)
    chosen: list[tuple[registry.Kind, str]] = [("policies", method.script)] if method.script else []
    chosen += [("reflectors", method.writer)] if method.writer else []
    found = [registry.find(kind, part) for kind, part in chosen]
    files = {player.lock_file(config) for player in found if isinstance(player, TakesTurns)}
    with ExitStack() as stack:
        # Sorted: two evaluations that lock the same files in another order would wait for each other for ever.
        for file in sorted(files):
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(file))
        yield


def _eval_players(job: Job, config: RunConfig, progress: Progress) -> tuple[list[ResultRow], list[EvaluatedEpisode]]:
    """Every mode and decoding, played once to the largest horizon."""
    method = config.method(job.name)
    results, records = list[ResultRow](), list[EvaluatedEpisode]()
    modes, decodings = config.evaluated_modes, _decodings_of(config, job.name)
    mark = result_mark(config, learned=method.model)
    total = len(modes) * len(decodings)
    # The decoding is a part of the player, so one model is loaded for each and then plays all modes.
    before = PlayedEpisodes(job, config)
    for decoding in decodings:
        reflector, policy = load_players(config, job.unit, job.name, decoding)
        own = config.model.path if method.model else "none"
        model = policy.model_name if isinstance(policy, RunsElsewhere) else own
        for mode in modes:
            # Players live through all modes, and costs are those of one row.
            reset_usage(reflector, policy)
            done = len(results) // len(config.horizons)
            # Players elsewhere keep a bill of whole evaluations, and may have changed since.
            here = not is_metered(reflector, policy) and origin_of(reflector, policy) is None
            known = before.known(mode, decoding) if here else {}
            show = progress_of(partial(progress, done, total), mode, reflector, policy, known=known.values())
            episodes, speed = evaluate(
                config.env,
                config.evaluation,
                mode,
                decoding,
                reflector,
                policy,
                shuffle_labels=config.prompt.shuffle_labels,
                limits=config.limits,
                known=known,
                on_episode=before.noting(mode, decoding, show) if here else show,
            )
            for horizon in config.horizons:
                condition = _condition(job, config, mode, decoding, horizon, mark, model)
                condition = condition.model_copy(update={"remote": origin_of(reflector, policy)})
                costs = costs_of(episodes, horizon, reflector, policy)
                results.append(ResultRow.of(condition, measured(episodes, horizon, speed, config.env, costs)))
            records += [EvaluatedEpisode(episode, mode, decoding) for episode in episodes]
            rate = sum(episode.success for episode in episodes) / len(episodes)
            progress(done + 1, total, f"{mode} {decoding} {rate:.2f}")
    return results, records


def _eval_measured(job: Job, config: RunConfig, measure: Measure) -> list[ResultRow]:
    """The rows of a method that measures tasks without playing them; they are the same at every horizon."""
    mark = result_mark(config, learned=False)
    found = {mode: measure(config.env, mode, config.evaluation.split) for mode in config.evaluated_modes}
    return [
        ResultRow.of(_condition(job, config, mode, "greedy", horizon, mark), measurement)
        for mode, measurement in found.items()
        for horizon in config.horizons
    ]


def _condition(
    job: Job, config: RunConfig, mode: str, decoding: Decoding, horizon: int, mark: str, model: str = "none"
) -> Condition:
    """The condition of a row of results.

    Args:
        job: the evaluation.
        config: of the run.
        mode: that was evaluated.
        decoding: how actions were chosen.
        horizon: in turns.
        mark: fingerprint of the result.
        model: language model of the policy, or `none`.
    """
    method = config.method(job.name)
    return Condition(
        benchmark=config.environment.name,
        tested=_tested(config.env, mode, config.evaluation.split),
        label_source=config.data.label_source,
        demonstration_starts=job.unit.budget,
        seed=job.unit.seed,
        method=job.name,
        algorithm=config.rlft.algorithm.name if method.online else NO_ALGORITHM,
        model=model,
        mode=mode,
        split=config.evaluation.split,
        decoding=decoding,
        horizon=horizon,
        fingerprint=mark,
    )


def _tested(spec: EnvSpec, mode: str, split: str) -> TestedGames:
    """The rules, and the games where a split alone does not tell which they are."""
    game = spec.capability(NamesGames)
    return TestedGames(version=spec.version, facts={} if game is None else dict(game.games_tested(mode, split)))


@cache
def stages() -> dict[str, Stage]:
    """All stages by name, in the order of a run: an installed one stands before the stage that waits for it, or last.

    Raises:
        ConfigError: what is installed under `reflect_rl.stages` is no stage.
    """
    order: list[Stage] = [DataStage(), SFTStage(), RLFTStage(), EvaluationStage()]
    for name in registry.names("stages"):
        found: object = registry.find("stages", name)()
        if not isinstance(found, Stage):
            raise ConfigError(f"reflect_rl.stages: {name!r} is no class over reflect_rl.runs.stages.Stage.")
        place = next((k for k, stage in enumerate(order) if stage.name == found.before), len(order))
        order.insert(place, found)
    return {stage.name: stage for stage in order}


def stages_of(verb: str) -> tuple[str, ...]:
    """Names of the stages that a command does, in the order of a run."""
    every = stages()
    return tuple(name for name, stage in every.items() if verb in ("run", name, stage.before))


def plan(config: RunConfig) -> list[Job]:
    """List the jobs of a run, unit by unit, each after what it needs."""
    jobs: list[Job] = []
    for stage in (stage for stage in stages().values() if stage.concerns(config)):
        earlier = [job for job in jobs if stages()[job.kind].before == stage.name]
        for job in stage.plan(config):
            awaited = tuple(other.folder for other in earlier if other.is_of_run or other.unit == job.unit)
            jobs.append(replace(job, needs=(*job.needs, *awaited)))
    place = {unit: number for number, unit in enumerate(units(config))}
    # A unit is finished before the next begins, so that an interrupted run has whole results; the sort is stable.
    return sorted(jobs, key=lambda job: place[job.unit])


def missing_needs(job: Job) -> list[Path]:
    """Folders that must be done before the job and are not."""
    return [folder for folder in job.needs if not (folder / "done").exists()]


def unmet(job: Job, folder: Path, jobs: Sequence[Job]) -> RunFolderError:
    """Make the error of a job that cannot begin without `folder`; `jobs` are those of the run."""
    verb = _maker(folder, jobs)
    return RunFolderError(f"{job.title} needs {folder}, which is not finished. Run `reflect-rl {verb}` first.")


def _maker(folder: Path, jobs: Sequence[Job]) -> str:
    """The command that does the job of this folder."""
    return next((job.kind for job in jobs if job.folder == folder), "run")


def execute(job: Job, config: RunConfig, progress: Progress) -> None:
    """Do a job and leave its mark.

    Raises:
        RunFolderError: something it needs is missing.
    """
    # A launch deals jobs out to processes that see the folder by themselves, so each job looks again.
    jobs = plan(config)
    for folder in missing_needs(job):
        raise unmet(job, folder, jobs)
    for folder in job.needs:
        check_job(folder, _maker(folder, jobs))
    stage = stages()[job.kind]
    stage.do(job, config, progress)
    if process_rank() == 0 or stage.launched == "dealt":
        # Last: a process that is killed before this line repeats the job, and no half of one counts as finished.
        seal_job(job)
        # It is of an earlier attempt, and would read as if this one had failed.
        (job.folder / "error.txt").unlink(missing_ok=True)
    # The worker takes other jobs after this one. Reference cycles can keep a model alive until a collection,
    # and what is freed stays with glibc until it is asked for it (`memory.py`).
    gc.collect()
    release()
