"""A task set of three made-up projects, one for each split, with a question about every file.

Each project has the files `lib/<group>/<folder>/<name>`, so that every target lies three folders deep. The first
sentence of a file is its question; no word of a question stands in a name. The last file of each folder is a document,
the others are code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reflect_locate.questions.task_set import Question, TaskSet
from reflect_locate.repositories.snapshot import Snapshot

PROJECTS = {"alder": "train", "birch": "validation", "cedar": "test"}
"""Name of the project -> its split."""
GROUPS = ("east", "west")
FOLDERS = ("north", "south", "upper", "lower", "inner", "outer", "front", "back", "left", "right", "first", "second")
NAMES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")
VERBS = ("paint", "sort", "melt", "count", "bake", "fold", "grind", "stack")
THINGS = ("apples", "bricks", "candles", "drums", "engines", "feathers", "guitars", "hammers", "icicles", "jackets")
PLACES = ("kitchen", "library", "museum", "nursery", "orchard", "palace", "quarry", "stable", "temple", "village")


def sentence(project: str, number: int) -> str:
    """The question about a file of a project; no two are the same."""
    verb, thing = VERBS[number % len(VERBS)], THINGS[number // len(VERBS) % len(THINGS)]
    return f"How robots {verb} {thing} near the {project} {PLACES[number // 3 % len(PLACES)]}"


def _files(project: str, folders: int, files: int) -> dict[str, str]:
    texts: dict[str, str] = {}
    for group in GROUPS:
        for folder in FOLDERS[:folders]:
            for name in NAMES[: files - 1]:
                text = f'"""{sentence(project, len(texts))}."""\n\n\ndef {name}_begin() -> int:\n    return 1\n'
                texts[f"lib/{group}/{folder}/{name}.py"] = text
            name = NAMES[files - 1]
            text = f"{sentence(project, len(texts))}\n\n# Notes\n\nMore about the {folder} {name}.\n"
            texts[f"lib/{group}/{folder}/{name}.md"] = text
    return texts


def _questions(project: str, files: Mapping[str, str]) -> list[Question]:
    questions = []
    for number, (path, content) in enumerate(files.items()):
        text = sentence(project, number)
        start = content.index(text)
        source = "symdoc" if path.endswith(".py") else "mdpara"
        spans = {path: ((start, start + len(text)),)}
        key = f"{project}/{source}/{number}"
        questions.append(Question(key, text, project, project, (path,), source, spans=spans, split=PROJECTS[project]))
    return questions


def save_three_projects(folder: Path, folders: int = 2, files: int = 3) -> TaskSet:
    """The task set, written in a folder.

    Args:
        folder: where it is written.
        folders: folders of each of the two groups of a project, up to 12.
        files: files of each folder, up to 8. With 8 folders of 6 files, every mode of `autoexplore` has tasks.
    """
    projects = {project: _files(project, folders, files) for project in PROJECTS}
    snapshots = [Snapshot(project, texts) for project, texts in projects.items()]
    questions = [question for project, texts in projects.items() for question in _questions(project, texts)]
    return TaskSet.save(folder, questions, snapshots, {})


def save_task_set(folder: Path, files: Mapping[str, str], *questions: tuple[str, str], split: str = "train") -> TaskSet:
    """A task set of one project, from its files.

    Args:
        folder: where it is written.
        files: path -> text.
        questions: text of each question, and path of its target.
        split: of all questions.
    """
    rows = [
        Question(f"odd/{number}", text, "odd", "odd", (target,), "symdoc", split=split)
        for number, (text, target) in enumerate(questions)
    ]
    return TaskSet.save(folder, rows, [Snapshot("odd", files)], {})
