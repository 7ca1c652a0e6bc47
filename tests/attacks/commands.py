"""Commands about a run folder in which a JSON file holds something else: one sentence and exit code 2, or nothing."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from corruption import make_stages
from table import Outcome, attempt

from reflect_rl.cli.main import main

OTHERS = (None, [], {}, 3, -1.5, True, "x", "\ud800", [[]], [None], {"a": None}, 10**400)
READING = ("report", "status", "play", "export")
VERBS = {"after eval": (*READING, "eval", "run"), "inside rlft": READING, "inside sft": READING}
"""By how far the run has come: what trains would start workers, which `corruption.py` does without."""


def changed(value: Any, draw: random.Random) -> Any:
    """The value with one part, at any depth, that is of another kind or gone."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.2:
        return draw.choice(OTHERS)
    place = draw.choice(sorted(value)) if isinstance(value, dict) else draw.randrange(len(value))
    if draw.random() < 0.2:
        del value[place]
    else:
        value[place] = changed(value[place], draw)
    return value


def damage(path: Path, draw: random.Random) -> None:
    """Change a JSON file, or a line of one."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        lines = text.splitlines()
        number = draw.randrange(len(lines))
        lines[number] = json.dumps(changed(json.loads(lines[number]), draw))
        path.write_text("\n".join([*lines, ""]))
    else:
        path.write_text(json.dumps(changed(json.loads(text), draw)))


def called(words: list[str]) -> tuple[int, str]:
    """Exit code and errors of a command in this process."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main(words)
    return code, errors.getvalue()


def is_one_sentence(errors: str) -> bool:
    """Tell whether a message is what a user's mistake gets."""
    return errors.startswith("error: ") and "unexpected" not in errors and "Traceback" not in errors


def attack(run: Path, verbs: tuple[str, ...], draw: random.Random) -> str:
    """Change one file, then call one command."""
    files = [path for path in sorted(run.rglob("*")) if path.suffix in (".json", ".jsonl") or path.name == "done"]
    path = draw.choice([path for path in files if path.stat().st_size])
    damage(path, draw)
    verb = draw.choice(verbs)
    words = {"export": [str(run), "--output-dir", str(run.parent / "player")], "play": [str(run), "--player", "random"]}
    code, errors = called([verb, *words.get(verb, [str(run)])])
    if code == 0:
        return "held"
    if code == 2 and is_one_sentence(errors):
        return "refused"
    raise AssertionError(f"{verb} {path}: {code}, {errors}")


def attempts(place: Path, seed: int, numbers: Iterable[int]) -> Iterator[Outcome]:
    """Try the cases of these numbers."""
    copies = make_stages(place)
    for number in numbers:
        draw = random.Random(f"{seed} {number}")
        stage = draw.choice(("after eval", *VERBS))
        shutil.rmtree(run := place / "run", ignore_errors=True)
        shutil.copytree(copies[stage], run)
        yield attempt(
            "command",
            number,
            f"seed {seed}, case {number}, {stage}",
            lambda run=run, stage=stage, draw=draw: attack(run, VERBS[stage], draw),
        )
