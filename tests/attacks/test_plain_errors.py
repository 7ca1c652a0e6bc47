"""A user's mistake, or a damaged file, is one sentence and exit code 2 in every command; and how a command stops."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reflect_rl.cli.arguments import parse_arguments
from reflect_rl.runs.run import gather
from reflect_rl.runs.stages import execute, plan
from reflect_rl.runs.start import begin
from small_task_set import NAME, save_small_task_set

NO_TEXT = os.fsdecode(b"\xff\xfe")
"""A name whose bytes are no UTF-8."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two players that learn nothing."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    config = folder.parent / "config.toml"
    config.write_text(
        'methods = ["random", "oracle"]\n[data]\ndemonstration_starts = [5]\n[environment]\nname = "corridor"\n'
    )
    config = parse_arguments("run", [str(config), "--output-dir", str(folder)]).config
    begin(config, "attack")
    # In this process: workers take seconds to start.
    for job in plan(config):
        execute(job, config, lambda *_: None)
    gather(config)
    return folder


def toml(place: Path, text: str) -> list[str]:
    """Words of a run by a configuration file."""
    (place / "config.toml").write_text(text)
    return ["run", str(place / "config.toml"), "--output-dir", str(place / "run")]


def task_set(place: Path, change: Callable[[bytes], bytes]) -> list[str]:
    """Words of a run on questions whose snapshot was changed."""
    save_small_task_set(place / "tasks", "test")
    (snapshot,) = (place / "tasks").rglob(f"{NAME}*.gz")
    snapshot.write_bytes(change(snapshot.read_bytes()))
    words = toml(place, f'[environment]\nname = "autoexplore"\nmodes = ["d1raw"]\ntasks = "{place / "tasks"}"\n')
    return ["play", words[1], "--player", "random"]


def of_run(verb: str, name: str, text: str) -> Callable[[Path], list[str]]:
    """Words of a command about a run in which a file holds this text."""

    def words(place: Path) -> list[str]:
        (path := next((place / "finished").rglob(name))).write_text(text)
        assert path.is_file()
        return [verb, str(place / "finished"), *([str(place / "player")] if verb == "export" else [])]

    return words


def foreign(place: Path) -> str:
    """Settings of a run that name a module of the working directory, which leaves a file when it is imported."""
    (place / "left_here.py").write_text("open('IMPORTED', 'w')")
    values = json.loads((place / "finished" / "config.json").read_text())
    values["environment"]["name"] = "left_here:Game"
    return json.dumps(values)


def flipped(data: bytes) -> bytes:
    """A packed file with a damaged block, whose header is whole."""
    return data[:20] + bytes([data[20] ^ 0xFF]) + data[21:]


HELD = {"null": "null", "a list": "[]"}
FILES = {
    "report": ("config.json", "run.json", "rows.json"),
    "status": ("config.json",),
    "run": ("config.json", "run.json", "done", "rows.json"),
    "eval": ("config.json", "run.json", "done", "rows.json"),
    "play": ("config.json",),
    "export": ("config.json", "run.json"),
}
MISTAKES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "zlib.error in a snapshot": (lambda place: task_set(place, flipped), "cannot read the snapshot"),
    "null in a snapshot": (lambda place: task_set(place, lambda _: gzip.compress(b"null")), "cannot read the snapshot"),
    **{
        f"{held} in {name}, {verb}": (of_run(verb, name, text), name)
        for verb, names in FILES.items()
        for name in names
        for held, text in HELD.items()
    },
    "a path that is no text": (lambda place: ["report", f"{place}/{NO_TEXT}"], "no UTF-8"),
    "an output folder that is no text": (
        lambda place: [*toml(place, "")[:2], "--output-dir", NO_TEXT],
        "no UTF-8",
    ),
    "nested TOML": (lambda place: toml(place, f"a = {'[' * 5000}{']' * 5000}"), "nested too deeply"),
    "nested tables": (lambda place: toml(place, f"[{'a.' * 2000}a]"), "nested too deeply"),
    "an expression for LoRA": (
        lambda place: toml(place, '[model.lora]\nrank = 4\ntarget_modules = "(q"\n'),
        "is no regular expression",
    ),
    "a rate that can only fail": (lambda place: toml(place, "[rlft]\nlearning_rate = 50"), "too large"),
    "a rate of SFT": (lambda place: toml(place, "[sft.base]\nlearning_rate = inf"), "is not finite"),
    "temperature = inf": (lambda place: toml(place, "[rlft]\ntemperature = inf"), "is not finite"),
    "workers = true": (lambda place: toml(place, "workers = true"), "is a truth value"),
    **{
        f"a foreign module, {verb}": (
            lambda place, verb=verb: of_run(verb, "config.json", foreign(place))(place),
            "which no installed distribution provides",
        )
        for verb in ("eval", "run", "play", "export")
    },
    "port 99999 of serve": (lambda place: ["serve", str(place), "--http", "--port", "99999"], "port"),
    "port 99999 of an endpoint": (
        lambda place: [
            "tasks",
            str(place),
            "--endpoint.model",
            "m",
            "--endpoint.base-url",
            "http://127.0.0.1:99999/v1",
        ],
        "base_url",
    ),
    "--output-dir ''": (lambda place: [*toml(place, "")[:2], "--output-dir", ""], "the path is empty"),
    "output_dir = ''": (lambda place: toml(place, 'output_dir = ""')[:2], "the path is empty"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_nothing_is_made(name, tmp_path, finished, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path / "finished")
    make, message = MISTAKES[name]
    words = make(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    answer = call(*words)
    assert message in answer.mistake
    assert "unexpected" not in answer.mistake
    assert answer.errors.count("\n") == 1
    # A command about a run may have written its results before it met the damage; nothing else is there.
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert {path for path in after if before.get(path) != after[path]} <= {*(tmp_path / "finished").rglob("*")}
