"""Adapt a player to one repository, and measure what that changed.

The questions come from the repository itself (`questions`): its docstrings and documents, and the subjects of its
commits. Where the history is long enough, the newest commits are the test, and the tree is the one before them;
otherwise some files are. Training goes on from the player: supervised, then online, as a run like any other (`run/`),
so it goes on where it was interrupted. Before and after are measured as `locate` works, on the whole tree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reflect_locate.envs import autoexplore
from reflect_locate.finder import SearchOptions, locate
from reflect_locate.questions.build import build_task_set
from reflect_locate.questions.config import TasksConfig
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import forget_indexes
from reflect_locate.trained_player import Player, PlayerSettings
from reflect_rl.config import parse
from reflect_rl.errors import RunFolderError, UserError
from reflect_rl.evaluation.compare import PairedDifference, paired_difference
from reflect_rl.evaluation.evaluate import wilson_interval
from reflect_rl.models.load import load_model
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import units
from reflect_rl.store import append_jsonl, read_jsonl, write_json, write_jsonl
from reflect_rl.types import stream

SIZES = (32, 16, 8)
"""Numbers of files of the trees of a depth, the first that enough questions fit is trained."""
DEPTHS = (1, 2, 3)
FEWEST_QUESTIONS = 10
"""Training questions that a mode needs, and test questions that a comparison needs."""
TOP = 5
LEAKS = ("none", "tokens", "name")
METHODS = {"lexical": "reflect_rl_lexical", "none": "sft_rlft"}
"""Writer of a player's reflections -> the method that trains it further."""
STAGES = {"reflect_rl_lexical": "policy_lexical", "sft_rlft": "policy_plain"}
"""Method -> its supervised stage."""


@dataclass(frozen=True, slots=True)
class TrainingAmount:
    """Amount of training."""

    starts: int = 200
    """Most questions that are demonstrated."""
    sft_steps: int = 300
    rlft_turns: int = 6000
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one held-out question."""

    key: str
    rank: int
    """Place of the best accepted file in the ranking, 0 = it is not there."""
    leak: str
    files: int
    """Length of the ranking."""

    @property
    def first(self) -> bool:
        """Tell whether the first file is an accepted one."""
        return self.rank == 1

    @property
    def near(self) -> bool:
        """Tell whether one of the first five files is an accepted one."""
        return 1 <= self.rank <= TOP


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """Comparison of before and after on some of the held-out questions."""

    name: str
    questions: int
    before: tuple[int, tuple[float, float]]
    """Successes, and the 95% interval of their rate."""
    after: tuple[int, tuple[float, float]]
    difference: PairedDifference

    @property
    def is_clear(self) -> bool:
        """Tell whether the interval of the difference is on one side of nought."""
        return self.difference.lo > 0 or self.difference.hi < 0


def task_set_of(source: str, folder: Path, tell: Callable[[str], None], seed: int = 0) -> TaskSet:
    """The questions about a repository: those that were made before in this folder, or new ones.

    Args:
        source: a folder, an archive or `FOLDER@REVISION`.
        folder: of the task set.
        tell: is told what is read.
        seed: of everything that is drawn.

    Raises:
        RunFolderError: the folder holds questions about another repository.
        UserError: the repository cannot be read, or there are too few questions.
    """
    # Absolute, so that the same folder is recognised from another working directory.
    absolute = str(Path(source).expanduser().absolute())
    if (folder / "questions.jsonl").exists():
        tasks = TaskSet.load(folder)
        known = tasks.card.get("settings", {}).get("corpora")
        # Going on with another repository's questions would measure the wrong thing without a word.
        if known != [absolute]:
            raise RunFolderError(
                f"{folder} holds questions about {known}, not {absolute}. Choose another --output-dir."
            )
        tell(f"{folder}: {len(tasks.questions)} questions, made before (delete the folder to ask about new files)")
        return tasks
    return build_task_set(TasksConfig(output_dir=folder, corpora=(absolute,), seed=seed), tell)


def run_config(
    settings: PlayerSettings, policy: Path, tasks: TaskSet, folder: Path, amount: TrainingAmount
) -> RunConfig:
    """The run that trains a player further.

    Args:
        settings: of the player.
        policy: folder of its model.
        tasks: the questions.
        folder: of the run.
        amount: how much is trained.

    Raises:
        UserError: the questions are too few, or the player's reflections are written by a model.
    """
    method = METHODS.get(settings.reflector)
    if method is None:
        raise UserError(
            "this player's reflections are written by a model, which adapt does not train. Use a player with lexical "
            "reflections, for example the one that comes with this package."
        )
    # Masked, as they are measured: nobody asks with the words of the file.
    environment = settings.environment.model_copy(
        update={"tasks": tasks.folder, "leaks": LEAKS, "sources": (), "unsupported": False, "hard": True}
    )
    modes = trained_modes(environment)
    # A mode with fewer questions than `starts` would end the training with an error.
    starts = min(len(autoexplore.tasks(environment, mode, "train")) for mode in modes)
    values: dict[str, Any] = {
        "output_dir": str(folder),
        "seeds": [amount.seed],
        "methods": [method],
        "workers": 1,
        "threads": amount.threads,
        "environment": environment.model_dump(mode="json") | {"modes": modes},
        "prompt": {"scoring": settings.scoring},
        "model": {"path": str(policy.resolve())},
        "data": {
            "demonstration_starts": [min(starts, amount.starts)],
            "modes": modes,
            "perturbed_episodes_per_start": 2,
            "restarts_per_start": 1,
            # A state names its question, so no state of training is the start of a held-out task.
            "exclude_held_out_states": False,
        },
        # A tenth of the learning rates from scratch: the player knows the game, and learns where things are.
        "sft": {
            STAGES[method]: {
                "steps": amount.sft_steps,
                "learning_rate": 3e-4,
                "warmup_steps": min(30, amount.sft_steps),
            }
        },
        "rlft": {
            "total_turns": amount.rlft_turns,
            "learning_rate": 1e-4,
            "validate_every": 0,
            "curriculum": {"name": "uniform", "modes": modes},
        },
        # The measurement is `measure`; this only says which modes are trained.
        "evaluation": {"modes": modes, "split": "train", "horizons": [environment.max_episode_steps]},
    }
    return parse(RunConfig, values)


def trained_modes(environment: autoexplore.Config) -> list[str]:
    """Modes to train: for each depth the largest sampled trees that enough questions fit, and whole folders.

    Raises:
        UserError: no mode has enough questions.
    """
    modes = []
    for depth in DEPTHS:
        # Large trees are nearer to use; small ones are taken only where a repository has no more files.
        sampled = next((mode for size in SIZES if _has_enough(environment, mode := f"d{depth}k{size}")), None)
        whole = f"d{depth}raw" if _has_enough(environment, f"d{depth}raw") else None
        modes += [mode for mode in (sampled, whole) if mode is not None]
    if not modes:
        raise UserError(
            f"the repository gives too few questions to learn from (fewer than {FEWEST_QUESTIONS} about files in "
            "folders). The player as it is may still find files: use `reflect-rl locate`."
        )
    return modes


def _has_enough(environment: autoexplore.Config, mode: str) -> bool:
    # Each training question gives one task for each of its variants.
    questions = FEWEST_QUESTIONS * environment.variants_per_question
    return mode in autoexplore.MODES and len(autoexplore.tasks(environment, mode, "train")) >= questions


def drop_long_rows(config: RunConfig) -> tuple[int, int]:
    """Leave out supervised examples that the model has no room for; returns how many, and of how many.

    Raises:
        UserError: more than half of them are too long.
    """
    model = load_model(config.model, trainable=False)
    context = getattr(model.model.config, "max_position_embeddings", None)
    files = [unit.dataset(STAGES[config.methods[0]]) for unit in units(config)]
    tables = {file: read_jsonl(file, "Delete the run folder.") for file in files}
    fitting = {
        file: [row for row in rows if context is None or len(model.encode_prompt(row["prompt"])) < context]
        for file, rows in tables.items()
    }
    total, kept = (sum(map(len, entries.values())) for entries in (tables, fitting))
    # Training on the short half would fit a player to paths that are not the usual ones here.
    if 2 * kept < total:
        raise UserError(
            f"{total - kept} of {total} examples are too long for this player, which reads {context} tokens at once. "
            "The paths of this repository are long; use a player with a longer context."
        )
    for file, rows in fitting.items():
        if len(rows) < len(tables[file]):
            write_jsonl(file, rows)
    return total - kept, total


def held_out(tasks: TaskSet, most: int, seed: int = 0) -> list[Question]:
    """The test questions that are measured: all, or as many as wanted, drawn by the seed; in the order of the set.

    Raises:
        UserError: there are too few to compare anything.
    """
    # Unsupported questions say nothing about the file, so no player could be right for a reason.
    questions = [question for question in tasks.questions if question.split == "test" and question.supported]
    if len(questions) < FEWEST_QUESTIONS:
        raise UserError(
            f"the repository gives {len(questions)} held-out questions, and a comparison needs {FEWEST_QUESTIONS}. "
            "The player as it is may still find files: use `reflect-rl locate`."
        )
    # Drawn and then sorted: a sample of the whole set, asked in an order that groups equal snapshots.
    chosen = sorted(stream(seed, "held out").permutation(len(questions))[:most].tolist())
    return [questions[index] for index in chosen]


def measure(
    player: Player,
    tasks: TaskSet,
    questions: Sequence[Question],
    effort: SearchOptions,
    file: Path,
    progress: Callable[[int, int], None],
) -> list[Outcome]:
    """Ask the player every question, and write down what came of it; what was measured before is not measured again.

    Args:
        player: who is asked.
        tasks: the task set, with the trees.
        questions: what is asked.
        effort: how long to search for each answer.
        file: JSONL file of the outcomes.
        progress: called with (done, total).
    """
    known = {
        row["key"]: Outcome(**row) for row in (read_jsonl(file, "Delete it.", appended=True) if file.exists() else [])
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    for question, tree in _with_trees(tasks, [q for q in questions if q.key not in known]):
        # Threshold 0 ranks all candidates: a withheld answer could be right, and is counted.
        answer = locate(player, tree, question.text, effort, threshold=0.0)
        paths = [entry.path for entry in answer.files]
        ranks = [paths.index(target) + 1 for target in question.targets if target in paths]
        outcome = Outcome(question.key, min(ranks, default=0), question.leak, len(paths))
        # Written at once: measuring takes minutes, and goes on here after an interrupt.
        append_jsonl(file, [asdict(outcome)])
        known[question.key] = outcome
        progress(len(known), len(questions))
    return [known[question.key] for question in questions]


def _with_trees(tasks: TaskSet, questions: Sequence[Question]) -> Iterator[tuple[Question, Tree]]:
    """Pairs of a question and its whole tree, in which the sentence that it was made from is blanked out."""
    # Questions without a masked sentence share one tree per snapshot; they come first, so its index is made once.
    shared: dict[str, Tree] = {}
    for question in sorted(questions, key=lambda question: bool(question.spans)):
        if not question.spans:
            if question.snapshot not in shared:
                shared[question.snapshot] = Tree(tasks.snapshot(question.snapshot))
            yield question, shared[question.snapshot]
        else:
            yield question, Tree(tasks.snapshot(question.snapshot), masks=question.spans)
            forget_indexes()  # no other question is about this tree


def compare(before: Sequence[Outcome], after: Sequence[Outcome]) -> list[BeforeAfter]:
    """`first`: the first file is right; `first 5`: one of five is; `not named`: the question does not name the file.

    Raises:
        ValueError: the outcomes are not of the same questions.
    """
    # The difference is paired by question, which is only valid for the same ones.
    if [entry.key for entry in before] != [entry.key for entry in after]:
        raise ValueError("the outcomes are of different questions")
    pairs = list(zip(before, after, strict=True))
    parts = {"": pairs, ", not named": [pair for pair in pairs if pair[0].leak == "none"]}
    comparisons = []
    for part, chosen in parts.items():
        # Without leaks the part equals the whole, and the same row would stand there twice.
        if not chosen or (part and len(chosen) == len(pairs)):
            continue
        for name, measured in (("first", "first"), (f"first {TOP}", "near")):
            old = [getattr(pair[0], measured) for pair in chosen]
            new = [getattr(pair[1], measured) for pair in chosen]
            comparisons.append(_compared(name + part, old, new))
    return comparisons


def _compared(name: str, old: Sequence[bool], new: Sequence[bool]) -> BeforeAfter:
    rates = [(sum(side), wilson_interval(sum(side), len(side))) for side in (old, new)]
    return BeforeAfter(name, len(old), rates[0], rates[1], paired_difference(new, old))


def write_comparison(file: Path, comparisons: Sequence[BeforeAfter], about: dict[str, Any]) -> None:
    """Write the table as JSON."""
    write_json(file, {**about, "comparisons": json.loads(json.dumps([asdict(entry) for entry in comparisons]))})
