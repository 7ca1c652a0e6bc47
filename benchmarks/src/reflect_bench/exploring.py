"""AutoExplore's environment on real trees, against the way of the public reference code: copy, shell, delete.

The reference copies the tree to a temporary folder for each episode, changes into it, runs a shell for each command,
and deletes the copy. What stands for it here does the same work on the same episodes, except that (1) names are passed
to the shell as arguments, never inside its text, because they would run there; (2) the working folder is given to the
shell, as this process has only one; (3) views are cut by words and not by a tokenizer; (4) copies lie in memory where
the system has a place for that. All four favour the reference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from rich.table import Table

from reflect_locate.envs.autoexplore import AutoExplore
from reflect_locate.repositories.corpora import corpus
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from reflect_rl.types import stream

QUESTION_WORDS = 6
SHOWN_WORDS = 500
"""Words of a file that the reference shows."""
SHELL = ("/bin/sh", "-c", 'cat -- "$1"', "sh")


@dataclass(slots=True)
class Recorded:
    """Episode: the commands that were given, and the seconds they took."""

    question: str
    commands: list[tuple[str, str]] = field(default_factory=list)
    """`cd`, `cat` or `id`, and its path; the root is the empty text."""
    reset: float = 0.0
    steps: list[float] = field(default_factory=list)
    teardown: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the whole episode."""
        return self.reset + sum(self.steps) + self.teardown


def measure_exploring(spec: str, *, quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """The figures of one tree.

    Args:
        spec: a corpus, see `repositories.corpora`.
        quick: play fewer episodes.
        report: called with what is being measured.

    Raises:
        SnapshotError: the tree cannot be read.
    """
    episodes, reference_episodes = (50, 5) if quick else (300, 30)
    report("reading the tree")
    started = time.perf_counter()
    snapshot = corpus(spec)
    read_seconds = time.perf_counter() - started
    started = time.perf_counter()
    tree = Tree(snapshot)
    tree_seconds = time.perf_counter() - started
    environment = AutoExplore()
    report("ours")
    questions = _questions(snapshot, episodes)
    # The first time files are read from the snapshot, later from memory.
    first, again = ([play_ours(environment, tree, q, seed) for seed, q in enumerate(questions)] for _ in range(2))
    report("the reference's way")
    reference = _reference(snapshot, again[:reference_episodes])
    return {
        "tree": spec,
        "files": len(snapshot.files),
        "characters": sum(map(len, snapshot.files.values())),
        "read_once_seconds": read_seconds,
        "tree_once_seconds": tree_seconds,
        "episodes": {"ours": len(again), "reference": len(reference)},
        "turns_per_episode": mean(len(episode.steps) for episode in again),
        "ours_first_time": _medians(first),
        "ours": _medians(again),
        "reference": _medians(reference),
        # On the same episodes.
        "ratios": _ratios(_medians(again[:reference_episodes]), _medians(reference)),
    }


def _questions(snapshot: Snapshot, count: int) -> list[str]:
    """Words drawn from one file each, so that some of them are found."""
    rng, files = stream(0, "benchmark", snapshot.name), list(snapshot.files.values())
    pools = [files[index].split() or ["nothing"] for index in rng.integers(len(files), size=count)]
    return [" ".join(rng.choice(pool[:2000], QUESTION_WORDS)) for pool in pools]


def play_ours(environment: AutoExplore, tree: Tree, question: str, seed: int) -> Recorded:
    """An episode of a random walk that ends with an answer or with the turns."""
    rng, episode = np.random.default_rng(seed), Recorded(question)
    started = time.perf_counter()
    observation = environment.explore(tree, question)
    episode.reset = time.perf_counter() - started
    over, folder = False, ""
    while not over:
        index = int(rng.integers(len(observation.actions)))
        verb, _, name = observation.actions[index].partition(" ")
        started = time.perf_counter()
        answer = environment.step(index)
        observation, over = answer.observation, answer.terminated
        episode.steps.append(time.perf_counter() - started)
        if verb == "cd":
            folder = folder.rpartition("/")[0] if name == ".." else f"{folder}/{name}".strip("/")
            episode.commands.append(("cd", folder))
        elif verb in ("cat", "id"):
            episode.commands.append((verb, f"{folder}/{name}".strip("/") if verb == "cat" else name))
    return episode


def _reference(snapshot: Snapshot, episodes: Sequence[Recorded]) -> list[Recorded]:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 (a private folder is made in it)
    with tempfile.TemporaryDirectory(prefix="reflect-rl-bench-", dir=memory) as folder:
        source = Path(folder) / "source"
        for path, text in snapshot.files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_text(text, encoding="utf-8", errors="surrogatepass")
        return [play_reference(source, Path(folder) / "episode", episode) for episode in episodes]


def play_reference(source: Path, copy: Path, episode: Recorded) -> Recorded:
    """The same commands on a copy of the tree that is made for them and deleted afterwards.

    Args:
        source: folder of the tree.
        copy: where the copy goes; must not exist.
        episode: what to repeat.
    """
    again = Recorded(episode.question, list(episode.commands))
    started = time.perf_counter()
    shutil.copytree(source, copy)
    _prompt(copy, episode.question, "")
    again.reset = time.perf_counter() - started
    folder = copy
    for verb, path in episode.commands:
        started = time.perf_counter()
        shown = ""
        if verb == "cd":
            folder = copy / path
        elif verb == "cat":
            shown = _cat(copy / path)
        _prompt(folder, episode.question, shown)
        again.steps.append(time.perf_counter() - started)
    started = time.perf_counter()
    shutil.rmtree(copy)
    again.teardown = time.perf_counter() - started
    return again


def _cat(path: Path) -> str:
    answer = subprocess.run([*SHELL, path.name], cwd=path.parent, capture_output=True, check=False)
    return " ".join(answer.stdout.decode("utf-8", "replace").split()[:SHOWN_WORDS])


def _prompt(folder: Path, question: str, shown: str) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    return "\n".join([question, *names, shown])


def _medians(episodes: Sequence[Recorded]) -> dict[str, float]:
    """Medians, in milliseconds: of a reset with what is left to clean up, of a step, of an episode."""
    steps = [seconds for episode in episodes for seconds in episode.steps]
    return {
        "reset_ms": 1e3 * median(episode.reset + episode.teardown for episode in episodes),
        "step_ms": 1e3 * median(steps),
        "step_p99_ms": 1e3 * float(np.quantile(steps, 0.99)),
        "episode_ms": 1e3 * median(episode.total for episode in episodes),
    }


def _ratios(ours: Mapping[str, float], reference: Mapping[str, float]) -> dict[str, float]:
    return {name: reference[f"{name}_ms"] / ours[f"{name}_ms"] for name in ("reset", "step", "episode")}


def table_of_trees(rows: Sequence[Mapping[str, Any]]) -> Table:
    """A section for each tree."""
    table = Table(title="AutoExplore, medians in milliseconds", title_justify="left")
    table.add_column("")
    for name in ("ours", "the reference's way", "ratio"):
        table.add_column(name, justify="right")
    for row in rows:
        ours, reference = row["ours"], row["reference"]
        table.add_section()
        table.add_row(f"{row['tree']}, {row['files']} files")
        for name, label in (("reset", "reset and clean up"), ("step", "step"), ("episode", "episode")):
            figures = (ours[f"{name}_ms"], reference[f"{name}_ms"])
            table.add_row(f"  {label}", f"{figures[0]:.3f}", f"{figures[1]:.2f}", f"{row['ratios'][name]:,.0f}x")
        table.add_row("  step, 99th percentile", f"{ours['step_p99_ms']:.3f}", f"{reference['step_p99_ms']:.2f}")
        table.add_row("  episode, files not read before", f"{row['ours_first_time']['episode_ms']:.3f}")
    return table
