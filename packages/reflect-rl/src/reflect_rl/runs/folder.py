"""Contents of a run folder: units, jobs with their marks and progress, and `run.json`, the run card.

The card says who made the folder, with what, and how long each job took. The mark `done` of a job holds checksums,
which later jobs and reports compare. A job that runs has a file of its progress, which `reflect-rl status` reads from
another terminal; one that failed or was killed leaves it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import psutil
from filelock import FileLock, Timeout
from pydantic import Field, ValidationError

from reflect_rl.config import Frozen
from reflect_rl.data.generate import BASE, DATASETS, LEXICAL_DATASETS
from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.evaluate import ResultRow, read_rows, write_rows
from reflect_rl.launch import peak_bytes, process_count
from reflect_rl.runs.config import RunConfig
from reflect_rl.store import check_seal, read_json, seal, sha256_of, write_json
from reflect_rl.types import Progress
from reflect_rl.watchdog import HANGS

CARD = "run.json"
PROGRESS = "progress.json"
PLAYED = "played.jsonl"
"""File of an evaluation at work: the episodes that have ended."""
LOCK = ".lock"
"""File of a run folder that the process at work in it locks."""

SCHEMA_VERSION: Final = 2
"""2: a typed card. Cards of 1 carry no version."""

PACKAGES = ("reflect-rl", "torch", "transformers", "peft", "accelerate", "tokenizers", "gymnasium", "numpy")

COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")

REMEDY = "Delete the file; the command of the run writes it again."


class StageTime(Frozen):
    """Duration and memory of a job."""

    unit: str
    job: str
    seconds: float
    peak_gib: float = 0.0
    """Most memory that its process, which may have done other jobs before, had taken; of several the main one. 0 = not
    known."""


class Spent(NamedTuple):
    """Cost of a job."""

    seconds: float
    peak_gib: float

    @classmethod
    def since(cls, started: float) -> Spent:
        """The cost until now of a job of this process.

        Args:
            started: `time.perf_counter()` of its beginning.
        """
        return cls(time.perf_counter() - started, peak_bytes() / 2**30)


class TakenJobs(Frozen):
    """Jobs that were taken from another run, and what they were made with there."""

    folder: str
    config_hash: str | None = None
    fingerprint: str | None = None
    git_commit: str | None = None
    versions: dict[str, str | None] = Field(default_factory=dict)
    hardware: str | None = None
    jobs: tuple[str, ...] = ()


class Provenance(Frozen):
    """Time, software and hardware with which something was made."""

    versions: dict[str, str | None] = Field(default_factory=dict)
    """Installed version by package; None: not installed."""
    git_commit: str | None = None
    """Commit of the checkout that this package was installed from."""
    code_sha256: str | None = None
    """Hash of the package's own code: equal code has it, changed or not since the commit."""
    created: str | None = None
    """ISO 8601, UTC."""
    hardware: str | None = None
    processes: int = 1
    """Processes of the launch."""


EARLIER = ("reflection_server", "endpoint")
"""Fields of earlier cards."""


class RunCard(Provenance):
    """The card of a run folder."""

    schema_version: Literal[2] = SCHEMA_VERSION
    benchmark: str
    command: str = ""
    config_hash: str | None = None
    """Hash of the settings that change results."""
    fingerprint: str | None = None
    """Hash of rules, texts, prompts, splits and demonstrations."""
    seeds: tuple[int, ...] = ()
    finished: str | None = None
    servers: dict[str, str] = Field(default_factory=dict)
    """Hosts of the servers that the run may ask, by the section of the settings that names each."""
    start_from: TakenJobs | None = None
    stages: tuple[StageTime, ...] = ()

    def with_stage(self, stage: StageTime) -> RunCard:
        """The card with the duration of a job, which replaces an earlier one."""
        # A job that is done again has one duration, the one of what is now in its folder.
        others = (s for s in self.stages if (s.unit, s.job) != (stage.unit, stage.job))
        return self.model_copy(update={"stages": (*others, stage)})


def write_card(folder: Path, card: RunCard) -> None:
    """Write the card of a run folder."""
    write_json(folder / CARD, card.model_dump(mode="json"))


def read_card(folder: Path) -> RunCard:
    """The card of a run folder.

    Raises:
        RunFolderError: it is missing or corrupt, or the folder was written by another version of this program.
    """
    path = folder / CARD
    values = read_json(path, REMEDY)
    # Before validation, which would name the first unknown key instead of the cause.
    if "benchmark" in values and values.get("schema_version") != SCHEMA_VERSION:
        raise RunFolderError(
            f"{folder} is a run folder of another version of this program (schema {values.get('schema_version', 1)}, "
            f"and {SCHEMA_VERSION} is read here). Choose another --output-dir, or delete the folder."
        )
    # Cards had a field for each of two servers once; both are empty in all runs that asked none.
    values = {key: value for key, value in values.items() if key not in EARLIER or value is not None}
    try:
        return RunCard.model_validate(values)
    except ValidationError as error:
        # One is enough: the remedy is the same for all.
        first = error.errors()[0]
        raise RunFolderError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}. {REMEDY}") from None


def provenance() -> Provenance:
    """Note the time, software and hardware of what this process makes now."""
    return Provenance(
        versions={"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        git_commit=_git_commit(),
        code_sha256=code_sha256(),
        created=now(),
        hardware=f"{platform.machine()}, {os.cpu_count()} cores",
        processes=process_count(),
    )


def now() -> str:
    """The present second, ISO 8601, UTC."""
    # UTC: folders are compared that were made on machines in different places.
    return datetime.now(UTC).isoformat(timespec="seconds")


def _version(package: str) -> str | None:
    try:
        return version(package)
    # Optional packages are noted as absent, because results depend on what is there.
    except PackageNotFoundError:
        return None


def code_sha256() -> str:
    """Hash of this package's own code, whichever way it was installed."""
    digest, package = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _git_commit() -> str | None:
    """Commit of the checkout that this package was installed from (`pip install -e`); None elsewhere.

    No git is started: the package may lie in a virtual environment inside a stranger's checkout, whose settings name
    programs. The note that it was installed from a checkout is the installer's and not the checkout's.
    """
    try:
        origin = json.loads(distribution(PACKAGES[0]).read_text("direct_url.json") or "{}")
        if not origin.get("dir_info", {}).get("editable"):
            return None
        project = Path(url2pathname(urlsplit(origin["url"]).path))
        git = next(path / ".git" for path in (project, *project.parents) if (path / ".git").exists())
        if git.is_file():  # a worktree
            git = git.parent / git.read_text("utf-8").removeprefix("gitdir:").strip()
        shared = git / (git / "commondir").read_text("utf-8").strip() if (git / "commondir").is_file() else git
        head = (git / "HEAD").read_text("utf-8").strip()
        if head.startswith("ref: "):
            name = head.removeprefix("ref: ")
            packed = shared / "packed-refs"
            lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
            loose = shared / name
            # A reference stands in a file of its own, or in the list of all since they were packed.
            head = loose.read_text("utf-8").strip() if loose.is_file() else _named(lines, name)
    except (OSError, ValueError, KeyError, StopIteration, PackageNotFoundError):
        return None
    return head if COMMIT.fullmatch(head) else None


def _named(lines: Sequence[str], name: str) -> str:
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {name}")), "")


@dataclass(frozen=True)
class Unit:
    """Demonstration budget and seed, for which everything below is trained from scratch."""

    run: Path
    budget: int
    seed: int

    @property
    def name(self) -> str:
        """Name of the unit's folder, for example `starts-100/seed-0`."""
        return f"starts-{self.budget}/seed-{self.seed}"

    @property
    def folder(self) -> Path:
        """Folder of the unit's files."""
        return self.run / self.name

    def dataset(self, name: str) -> Path:
        """A supervised data set."""
        # A misspelt name would make a file that no training ever reads.
        assert name in (BASE, *DATASETS, *LEXICAL_DATASETS)  # noqa: S101 (an invariant of this program)
        return self.folder / "data" / f"{name}.jsonl"

    def model(self, name: str) -> Path:
        """A trained model, named after its data set; `untrained` = the embedded one with random weights."""
        return self.folder / "models" / name

    def sft(self, name: str) -> Path:
        """Metrics and checkpoints of a supervised training."""
        return self.folder / "sft" / name

    def rlft(self, method: str) -> Path:
        """Metrics, checkpoint and result (`model`) of an online training."""
        return self.folder / "rlft" / method

    def evaluation(self, method: str) -> Path:
        """Rows and episodes of an evaluation."""
        return self.folder / "evaluation" / method


def units(config: RunConfig) -> Iterator[Unit]:
    """Units of a run: each budget with each seed."""
    for budget in config.data.demonstration_starts:
        for seed in config.seeds:
            yield Unit(config.output_dir, budget, seed)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two runs at work in one folder would tear each other's files, so the second is refused.

    The operating system releases the lock when a process ends, however it ends.

    Raises:
        RunFolderError: another process is at work in the folder.
    """
    # Not a file with a process number: after kill -9 it would lock the folder for good.
    lock = FileLock(folder / LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        raise RunFolderError(
            f"another process is at work in {folder}. Wait for it, or choose another --output-dir."
        ) from None
    except (OSError, NotImplementedError):  # some network file systems have no locks; a run there is still useful
        pass
    try:
        yield
    finally:
        lock.release()


def write_results(folder: Path, finished: Sequence[Path], *, is_whole: bool) -> tuple[ResultRow, ...]:
    """Write `results.json` from evaluations, and return its rows.

    Where there are none, nothing is written, so that a `results.json` that came without them stays. Nor is anything
    written that stands there already, so that a finished run may lie where nobody may write.

    Args:
        folder: the run folder.
        finished: folders of the evaluations that are finished, in the order of the rows.
        is_whole: no other one is asked for. An interrupted run has results, too, but its card keeps no finishing time
            until all of them are there.

    Raises:
        RunFolderError: the rows of an evaluation are not readable.
    """
    rows: list[ResultRow] = []
    for place in finished:
        check_job(place, "eval")
        rows += read_rows(place / "rows.json", f"Delete {place} and evaluate again with `reflect-rl eval`.")
    if finished:
        written: tuple[ResultRow, ...] | None = None
        with suppress(RunFolderError):
            written = read_rows(folder / "results.json", "")
        if is_new := written != tuple(rows):
            write_rows(folder / "results.json", rows)
        if is_whole:
            _close_run(folder, is_new)
    return tuple(rows)


def _close_run(folder: Path, is_new: bool) -> None:
    """Note when the run was finished, unless it was with the same results."""
    if (folder / CARD).exists() and (is_new or read_card(folder).finished is None):
        write_card(folder, read_card(folder).model_copy(update={"finished": now()}))


@dataclass(frozen=True)
class Job:
    """Piece of work; one that left `done` in its folder is never redone."""

    unit: Unit
    """Its unit; the first one for a job of all units at once."""
    kind: str
    """Name of the stage."""
    name: str
    """The data set whose model is trained (`sft`), or the method (`rlft`, `eval`)."""
    folder: Path
    """Folder in which the job leaves its mark."""
    needs: tuple[Path, ...] = ()
    """Folders that must be done before."""

    @property
    def is_of_run(self) -> bool:
        """True = the job is done once, for all units."""
        return not self.folder.is_relative_to(self.unit.folder)

    @property
    def title(self) -> str:
        """Name of the job in progress bars and logs."""
        return self.kind if self.is_of_run else f"{self.unit.name} {self.kind} {self.name}".rstrip()

    @property
    def done(self) -> bool:
        """True = the job was finished."""
        return (self.folder / "done").exists()


UNSEALED = ("done", PROGRESS, PLAYED, "error.txt", "tracking.json", "README.md", LOCK)
"""Files of a job that nobody reads later, or that change."""


def seal_job(job: Job) -> None:
    """Leave the mark of a finished job."""
    seal(job.folder / "done", _made_by(job))


def check_job(folder: Path, verb: str, skipped: str = "") -> None:
    """Compare what a finished job has made with its checksums.

    Args:
        folder: of the job.
        verb: the command that does it.
        skipped: see `check_seal`.

    Raises:
        RunFolderError: a file is damaged; the message says how to make it again.
    """
    check_seal(folder / "done", f"Delete {folder / 'done'} and run `reflect-rl {verb}` again.", skipped)


def _made_by(job: Job) -> Iterator[Path]:
    """Files of a finished job that later ones, reports or players read."""
    name = "untrained" if job.kind == "data" else job.name
    models = [job.unit.model(name)] if job.kind in ("data", "sft") else []
    for folder in (job.folder, *models):
        for path in folder.rglob("*"):
            # Checkpoints have sums of their own, and the model card gets results later.
            is_free = (
                path.name in UNSEALED or path.match(HANGS) or {"checkpoints", "tensorboard"}.intersection(path.parts)
            )
            if path.is_file() and not is_free and path.suffix != ".new":
                yield path


SECONDS = 1.0
"""Least time between two writings."""

WARNINGS = 3
"""Number of warnings that are kept, the last ones."""

SILENCE = 600.0
"""Seconds without a word after which a job on another machine counts as stopped."""


class JobProgress(Frozen):
    """Progress of a job that has begun and is not done."""

    done: int = 0
    total: int = 0
    """0: not known yet."""
    note: str = ""
    began: float
    """Seconds since 1970."""
    updated: float
    process: int = Field(ge=0)
    """Number of the process; 0: the job failed."""
    machine: str
    """Tells machines apart without naming them."""
    memory_gib: float = 0.0
    """Peak of the process."""
    warnings: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """True if its process is still at work."""
        if self.process and self.machine != _machine():
            return time.time() - self.updated < SILENCE
        with suppress(psutil.Error):
            # A number is given again to another process, which then is younger than the job.
            return bool(self.process) and psutil.Process(self.process).create_time() <= self.began + 1
        return False


@contextmanager
def written_progress(folder: Path, tell: Progress, writes: bool = True) -> Iterator[Progress]:
    """Progress that is told and written, with the warnings of the block.

    Args:
        folder: folder of the job.
        tell: gets every call as well.
        writes: whether this process writes the file; of several, one does.
    """
    if not writes:
        yield tell
        return
    state = JobProgress(began=time.time(), updated=0.0, process=os.getpid(), machine=_machine())
    show = warnings.showwarning

    def write(**changes: Any) -> None:
        nonlocal state
        memory = round(peak_bytes() / 2**30, 3)
        state = state.model_copy(update={"updated": time.time(), "memory_gib": memory} | changes)
        # A full disk is told by what the job writes; its progress is no reason to end it.
        with suppress(OSError):
            write_json(folder / PROGRESS, state.model_dump(mode="json"))

    def progress(done: int, total: int, note: str) -> None:
        tell(done, total, note)
        if done == total or time.time() - state.updated > SECONDS:
            write(done=done, total=total, note=note)

    def warned(message: Warning | str, *rest: Any) -> None:
        write(warnings=(*state.warnings, str(message))[-WARNINGS:])
        show(message, *rest)

    write(note="starting")
    warnings.showwarning = warned  # type: ignore[assignment]
    try:
        yield progress
    except BaseException as error:
        write(process=0, warnings=(*state.warnings, str(error) or type(error).__name__)[-WARNINGS:])
        raise
    finally:
        warnings.showwarning = show
    (folder / PROGRESS).unlink(missing_ok=True)


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:12]
