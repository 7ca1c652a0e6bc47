"""`reflect-rl train_reader TASKS ...`: train the model of `locate --deep` on the questions of task sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from rich.console import Console
from rich.progress import Progress

from reflect_locate.reader_settings import PRETRAINED, ReaderSettings, ReaderTraining
from reflect_rl.cli.arguments import parse_options
from reflect_rl.config import ModelConfig
from reflect_rl.errors import ConfigError
from reflect_rl.store import read_json, write_json

if TYPE_CHECKING:
    from reflect_locate.questions.task_set import Question, TaskSet
    from reflect_locate.reader import Reader

USAGE = "reflect-rl train_reader TASKS ..."
ROWS, ASKED, BEGUN = "readings.jsonl", "validation.jsonl", "options.json"
SETTLED = "settled_precision"
"""Key of the number format that `precision` came to."""
AGAIN = "Delete it, and run the same command again."


class TrainReaderOptions(ReaderTraining):
    """Train a language model to choose among the files that the index found."""

    output_dir: Path = Path("runs/reader")
    """Folder for what is read, the metrics, the checkpoints and the model; the same command goes on there."""
    start_from: str = PRETRAINED
    """Model to begin with: a name of `reflect-rl model list`, a folder, a hub id, or a trained reader (with
    `--rank 0`, and with its candidates, lines and longest given again)."""
    precision: Literal["float32", "mixed", "bfloat16", "auto"] = "auto"
    """Number format; `auto` measures at the start whether bfloat16 is faster here."""
    rank: int = Field(16, ge=0, le=1024)
    """Rank of the adapters; 0 trains all weights, or goes on with the adapter of the reader that is named."""
    questions: int = Field(1600, ge=1)
    """Most questions of the training split of each task set."""
    seed: int = Field(0, ge=0)
    """Draws the questions, their order and the start of the adapters."""
    candidates: int = Field(5, ge=2)
    """Best files of the index that are read."""
    lines: int = Field(8, ge=1)
    """Lines that are read of each; a quarter of them stand before the best one."""
    longest: int = Field(600, ge=100)
    """Characters that are read of each."""
    validation_questions: int = Field(240, ge=0)
    """Most questions of each task set about other projects, on which the weight of the reader and the bound of
    `likely` are chosen; 0 = it gets those of an untrained model, 2 and 0.22."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: folders of task sets, then flags.
        console: where progress is printed.

    Raises:
        UserError: a mistake in the arguments, no task set, or a model that cannot be used.
        SystemExit: the help was asked for (0).
    """
    places, options = parse_train_reader(arguments)

    # Imported late: `--help` must not wait for torch.
    from reflect_locate.questions.task_set import TaskSet
    from reflect_locate.reader import Reader
    from reflect_locate.reader_training import Reading, readings, train_reader
    from reflect_rl.models.load import load_model
    from reflect_rl.runs.workers import silence
    from reflect_rl.store import append_jsonl, read_jsonl, write_jsonl

    silence()
    sets, folder = [TaskSet.load(place) for place in places], options.output_dir
    identities = [tasks.identity for tasks in sets]
    if repeated := [str(tasks.folder) for tasks in sets if identities.count(tasks.identity) > 1]:
        raise ConfigError(f"the task sets {' and '.join(repeated)} are one and the same. Name each once.")
    # Before the candidates are found, which takes minutes.
    # An adapter that is gone on from keeps its own settings, and others are refused.
    adapters = {"rank": options.rank, "alpha": 2 * options.rank, "dropout": 0.0} if options.rank else {}
    settled = _settled_precision(options, console)
    config = ModelConfig.model_validate({"path": options.start_from, "precision": settled, "lora": adapters})
    model = load_model(config, trainable=True, seed=options.seed)
    asked = options.model_dump(mode="json", exclude={"output_dir"})
    _check_begun(folder, {**asked, "tasks": " ".join(identities), SETTLED: settled})
    settings = ReaderSettings(
        candidates=options.candidates,
        lines=options.lines,
        lines_before=options.lines // 4,
        longest=options.longest,
        small_share=0,
    )
    questions = _drawn(sets, "train", options.questions, options.seed)
    path = folder / ROWS
    found = read_jsonl(path, AGAIN, appended=True) if path.is_file() else []
    # A kill may have cut the last line, to which nothing must be appended.
    write_jsonl(path, found)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("finding candidates", total=len(questions), completed=len(found))
        for reading in readings(questions[len(found) :], settings):
            append_jsonl(path, [asdict(reading)])
            bars.advance(bar)
    rows = [row for row in (Reading(**row) for row in read_jsonl(path, AGAIN)) if row.is_choice]
    console.print(
        f"{len(rows)} of {len(questions)} questions have a right and a wrong file among {settings.candidates}"
    )
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("training", total=options.steps)
        train_reader(
            model,
            rows,
            options,
            folder,
            options.seed,
            lambda done, total, note: bars.update(bar, completed=done, description=note),
        )
    reader = Reader(model, settings)
    if held_out := _held_out(sets, options.validation_questions, options.seed, console):
        weight, likely = _chosen_weight(reader, held_out, folder / ASKED, console)
        reader = Reader(model, settings.model_copy(update={"weight": weight, "likely": likely}))
    made = folder / "model"
    reader.save(made)
    console.print(f'reader: {made}  (use it: reflect-rl locate PATH "question" --deep --reader {made})')


def parse_train_reader(arguments: Sequence[str]) -> tuple[list[Path], TrainReaderOptions]:
    """Folders of the task sets and options of a call.

    Raises:
        ConfigError: a wrong flag or value, or no folder.
        SystemExit: the help was asked for (0).
    """
    named, options = parse_options(USAGE, TrainReaderOptions, arguments)
    if not named:
        raise ConfigError(f"name the folder of a task set: {USAGE}")
    return [Path(name) for name in named], options


def _drawn(sets: Sequence[TaskSet], split: str, most: int, seed: int) -> list[tuple[TaskSet, Question]]:
    """Questions of a split, `most` of each set at most: one kind of question must not crowd out another."""
    return [(tasks, question) for tasks in sets for question in tasks.draw(split, most, seed, commits=True)]


def _held_out(sets: Sequence[TaskSet], most: int, seed: int, console: Console) -> list[tuple[TaskSet, Question]]:
    """Questions for validation, about projects that no set trains on; within a set its splits see to that."""
    learned = {question.repository for tasks in sets for question in tasks.questions if question.split == "train"}
    drawn = _drawn(sets, "validation", most, seed)
    kept = [(tasks, question) for tasks, question in drawn if question.repository not in learned]
    if len(kept) < len(drawn):
        shared = sorted({question.repository for _, question in drawn} & learned)
        console.print(
            f"{len(drawn) - len(kept)} validation questions are left out: another set trains on {', '.join(shared)}"
        )
    return kept


def _chosen_weight(
    reader: Reader, questions: Sequence[tuple[TaskSet, Question]], path: Path, console: Console
) -> tuple[float, float]:
    """Weight that is best on these questions, and bound of `likely`; what was read is kept, and not read again."""
    from reflect_locate.places import mean_reciprocal_rank
    from reflect_locate.reader_weight import Asked, ask, best_bound, best_weight
    from reflect_locate.repositories.word_store import WordStore
    from reflect_rl.store import append_jsonl, read_jsonl, write_jsonl

    kept = read_jsonl(path, AGAIN, appended=True) if path.is_file() else []
    write_jsonl(path, kept)
    found = [Asked.model_validate(row) for row in kept]
    stores = {(tasks.folder, question.snapshot): WordStore() for tasks, question in questions}
    reader.model.model.eval()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("choosing the weight", total=len(questions), completed=len(found))
        for tasks, question in questions[len(found) :]:
            entry = next(ask(tasks, question, stores[tasks.folder, question.snapshot], reader))
            append_jsonl(path, [entry.model_dump(mode="json")])
            found.append(entry)
            bars.advance(bar)
    weight = best_weight(found)
    likely = best_bound(found, weight)
    with_model, alone = (mean_reciprocal_rank([entry.place(value)[0] for entry in found]) for value in (weight, 0))
    console.print(
        f"weight {weight:g}, chosen on {len(found)} questions about other projects: mean reciprocal rank "
        f"{with_model:.3f}, with the index alone {alone:.3f}; an answer is likely from {likely:g} on"
    )
    return weight, likely


def _settled_precision(options: TrainReaderOptions, console: Console) -> str:
    """Number format of the training: as asked for, as it began, or as measured now."""
    if options.precision != "auto":
        return options.precision
    begun = options.output_dir / BEGUN
    # Measured again, another format could be the faster one today, and the training would not go on as it began.
    if begun.is_file() and (before := read_json(begun, AGAIN).get(SETTLED)):
        return str(before)

    from reflect_rl.models.load import device_of
    from reflect_rl.models.precision import choose

    found = choose(device_of("auto"), adapters=options.rank > 0)
    console.print(found.sentence)
    return found.precision


def _check_begun(folder: Path, options: Mapping[str, Any]) -> None:
    """Note with which options a training begins, and refuse to go on with others.

    Raises:
        ConfigError: the folder holds a training with other options, or of another task set.
    """
    if not (folder / BEGUN).is_file():
        write_json(folder / BEGUN, options)
        return
    before = read_json(folder / BEGUN, AGAIN)
    if SETTLED not in before:
        raise ConfigError(
            f"{folder} holds a training of an earlier version. Choose another --output-dir, or delete this one."
        )
    if other := [name for name in options if before.get(name) != options[name]]:
        raise ConfigError(
            f"{folder} holds a training with another value of {other[0]} ({before.get(other[0])}, now "
            f"{options[other[0]]}). Choose another --output-dir, or delete this one."
        )
