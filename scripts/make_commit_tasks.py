r"""A task set of subjects of commits, each asked about the tree before it, to train a reader of `locate --deep`.

    python scripts/make_commit_tasks.py runs/tasks-commits ~/src/flask ~/src/click --validation ~/src/httpx
    reflect-rl train_reader runs/tasks-commits

The trees and commits are those of `reflect-rl adapt`: of a training repository its earlier and its later ones, of a
validation repository the later ones. The packaged reader has learned from such a set. `reflect-rl tasks` asks commits,
too, and leaves out others (docs/results/log.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reflect_locate.adapt import eras_of
from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.repositories.snapshot import Snapshot
from reflect_rl.errors import UserError


def main(arguments: Sequence[str]) -> int:
    """Make the task set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the task set")
    parser.add_argument("train", nargs="+", type=Path, help="git checkouts or bare repositories")
    parser.add_argument("--validation", nargs="+", type=Path, default=[], help="the same")
    options = parser.parse_args(arguments)
    try:
        _make(options.out, {"train": options.train, "validation": options.validation})
    except UserError as error:
        parser.error(str(error))
    return 0


def _make(out: Path, repositories: Mapping[str, Sequence[Path]]) -> None:
    questions, snapshots = list[Question](), list[Snapshot]()
    for split, places in repositories.items():
        for place in map(Path.resolve, places):
            for number, era in enumerate(eras_of(place)):
                if split == "validation" and number == 0:
                    continue
                name = f"{place.name}-{number}"
                snapshots.append(Snapshot(name, {path: era.tree.text(path) for path in era.tree.paths}))
                # `git1` marks a question in which nothing need be masked.
                shared = {"repository": place.name, "snapshot": name, "source": "git1", "split": split, "spans": {}}
                questions += [replace(asked, key=f"{name}/{asked.key}", **shared) for asked in era.commits]
                print(f"{split}: {name}, {len(era.commits)} commits, {len(era.tree.paths)} files", flush=True)
    TaskSet.save(out, questions, snapshots, {})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
