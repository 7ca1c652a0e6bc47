"""The stages of a run, each of which plans jobs of one kind and does them.

An installed distribution adds a stage under the entry point group `reflect_rl.stages`: a class over `Stage`, whose name
is then a command, too.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from reflect_rl import registry
from reflect_rl.config import EMBEDDED, ModelConfig
from reflect_rl.data.generate import BASE, DATASETS, LEXICAL_DATASETS, is_reflector, policy_beside
from reflect_rl.errors import ConfigError, RunFolderError
from reflect_rl.launch import process_rank, release
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Job, Unit, check_job, seal_job, units
from reflect_rl.types import Progress


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
        from reflect_rl.runs.demonstrate import demonstrate

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
        # Imported late, as in the other stages: torch takes seconds, and who plans or starts a run needs none of it.
        from reflect_rl.runs.train import train_supervised

        train_supervised(job, run, progress)


def _first_job(settings: ModelConfig, unit: Unit) -> Path:
    """Folder of the job that every training waits for."""
    # Random weights read the game's texts before they learn to play; pretrained ones can read.
    return unit.sft(BASE) if settings.path == EMBEDDED else unit.folder / "data"


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
        from reflect_rl.runs.train import train_online

        train_online(job, run, progress)


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
        from reflect_rl.runs.evaluate import evaluate_method

        evaluate_method(job, run, progress)


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


def taken_stages(*, evaluates: bool = False) -> tuple[str, ...]:
    """Names of the stages whose jobs a run takes from another (`start_from`): those of data and supervised models.

    Args:
        evaluates: whether the run only evaluates. Then it takes what was trained after supervised training, too.
    """
    order = [*stages()]
    return tuple(order[: order.index(EvaluationStage.name if evaluates else RLFTStage.name)])


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
