"""Splits: questions are divided by project, never one by one; inside one project by file, or by time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from reflect_locate.questions.config import SPLITS, Split
from reflect_locate.questions.task_set import Question
from reflect_locate.repositories.snapshot import Snapshot
from reflect_rl.errors import ConfigError
from reflect_rl.types import seed_for

Fractions = tuple[float, float, float]


def by_lists(lists: Mapping[Split, Sequence[str]], projects: Mapping[str, str]) -> dict[str, Split]:
    """The split of each project that lists name.

    Args:
        lists: split -> corpora.
        projects: corpus -> name of its project.

    Raises:
        ConfigError: two corpora of one project are in different lists; the message names both.
    """
    chosen: dict[str, tuple[Split, str]] = {}
    for split, specs in lists.items():
        for spec in specs:
            other_split, other = chosen.setdefault(projects[spec], (split, spec))
            if other_split != split:
                raise ConfigError(
                    f"{other!r} ({other_split}) and {spec!r} ({split}) are the same project, {projects[spec]!r}. "
                    "Name them in one list: a project must not be learnt from and tested on."
                )
    return {project: split for project, (split, _) in chosen.items()}


def by_projects(projects: Iterable[str], fractions: Fractions, seed: int) -> dict[str, Split]:
    """Whole projects, in an order drawn by the seed, divided by number.

    >>> sorted(by_projects(["a", "b", "c", "d"], (0.5, 0.25, 0.25), 0).values())
    ['test', 'train', 'train', 'validation']
    """
    # Each name is hashed by itself, so that one more project does not shuffle all others.
    order = sorted(set(projects), key=lambda name: seed_for(seed, "projects", name))
    return _divided(order, fractions)


def by_files(
    questions: Sequence[Question], snapshots: Mapping[str, Snapshot], fractions: Fractions, seed: int
) -> list[Question]:
    """Questions of one project, divided so that no file is a target in two splits; equal files count as one."""
    # Equal files under two names would otherwise be learnt in one split and tested in the other.
    contents = [_content(question, snapshots[question.snapshot]) for question in questions]
    splits = _divided(sorted(set(contents), key=lambda content: seed_for(seed, "files", content)), fractions)
    return [replace(question, split=splits[content]) for question, content in zip(questions, contents, strict=True)]


def by_time(questions: Sequence[Question], now: int, validation_share: float) -> list[Question]:
    """Questions of one project at one moment: commits that came later are the test, the newest before are validation.

    Args:
        questions: those without a time describe the tree of the moment and are for training.
        now: the moment, in seconds since 1970.
        validation_share: share of the earlier commits that come last.
    """
    times = sorted(question.time for question in questions if question.time is not None and question.time <= now)
    # Only past commits: validation must not look at the time that the test is about.
    count = round(validation_share * len(times))
    # Without validation no earlier commit is held out; a slice from -0 would take them all.
    first = times[-count] if count else now + 1
    divided: list[Question] = []
    for question in questions:
        split: Split = "train"
        if question.time is not None and question.time >= first:
            split = "test" if question.time > now else "validation"
        divided.append(replace(question, split=split))
    return divided


def without_held_out(questions: Iterable[Question]) -> list[Question]:
    """Questions that no later split asks in the same words; copied files have copies of docstrings."""
    questions = list(questions)
    texts = {split: {_words(q) for q in questions if q.split == split} for split in SPLITS}
    later = {"train": texts["validation"] | texts["test"], "validation": texts["test"], "test": set()}
    return [question for question in questions if _words(question) not in later[question.split]]


def _words(question: Question) -> str:
    return " ".join(question.text.lower().split())


def _content(question: Question, snapshot: Snapshot) -> str:
    return hashlib.sha256(snapshot.files[question.targets[0]].encode("utf-8", "surrogatepass")).hexdigest()


def _divided(names: Sequence[str], fractions: Fractions) -> dict[str, Split]:
    """Names in their order: test, validation, training; a share above 0 gets a name while there are enough."""
    shares = dict(zip(SPLITS, fractions, strict=True))
    counts = {split: round(share * len(names)) for split, share in shares.items()}
    # Rounding a share to nothing would silently leave out a split that was asked for.
    for split in ("test", "validation"):
        if shares[split] and not counts[split] and len(names) >= 3:
            counts[split] = 1
    if shares["train"] and len(names) >= 2:
        # Training keeps at least one name, as a set without training questions trains nothing.
        counts["test"] = min(max(counts["test"], int(shares["test"] > 0)), len(names) - 1)
        counts["validation"] = min(counts["validation"], len(names) - 1 - counts["test"])
    elif not shares["train"]:
        counts["test"] = len(names) - counts["validation"]
    test, held_out = counts["test"], counts["test"] + counts["validation"]
    return {
        name: "test" if place < test else "validation" if place < held_out else "train"
        for place, name in enumerate(names)
    }
