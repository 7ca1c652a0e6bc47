"""The configurations for a GPU, tried on a processor with the tiny settings that stand in their headers."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from three_projects import save_three_projects
from tiny_models import save_tiny

FOLDER = Path(__file__).parents[4] / "configs" / "pretrained"
TRIAL = re.compile(r"with tiny settings.*?:\n((?:#.*\n)+)")


def tiny_command(name: str, **flags: str) -> list[str]:
    """Words of the trial in the header of a configuration, which is a path here; some flags with other values."""
    header = TRIAL.search((FOLDER / name).read_text(encoding="utf-8"))
    assert header, f"{name} says no trial"
    words = shlex.split(re.sub(r"^#", "", header[1], flags=re.MULTILINE).replace("\\\n", " "))
    assert words[:3] == ["reflect-rl", "run", f"configs/pretrained/{name}"]
    said = dict(zip(words[3::2], words[4::2], strict=True))
    for flag, value in flags.items():
        said[f"--{flag.replace('__', '.').replace('_', '-')}"] = value
    return ["run", str(FOLDER / name), *(word for pair in said.items() for word in pair)]


@pytest.fixture
def tiny(tmp_path) -> dict[str, str]:
    """Flags that put a tiny Llama with a long context in the place of the pretrained model."""
    folder = save_tiny("llama", tmp_path / "tiny")
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 8192}))
    changes = {"model__path": str(folder), "model__precision": "float32", "prompt__scoring": "line_end"}
    return changes | {"output_dir": str(tmp_path / "try")}


@pytest.mark.parametrize("name", ["gpu.toml", "gpu-alfworld.toml"])
def test_the_tiny_trial_runs_to_its_report(call, tmp_path, tiny, name):
    answer = call(*tiny_command(name, **tiny, methods="reflect_rl"))
    assert answer.code == 0, answer.errors
    rows = json.loads((tmp_path / "try" / "results.json").read_text())
    assert {row["method"] for row in rows} == {"reflect_rl"}


def test_the_tiny_trial_on_trees_runs_to_its_report(call, tmp_path, tiny):
    tasks = save_three_projects(tmp_path / "tasks", folders=4, files=4)
    own = {"environment__tasks": str(tasks.folder), "environment__test_tasks": "1", "methods": "reflect_rl"}
    answer = call(*tiny_command("gpu-autoexplore.toml", **tiny | own))
    assert answer.code == 0, answer.errors
    rows = json.loads((tmp_path / "try" / "results.json").read_text())
    assert {row["mode"] for row in rows} == {"d1k16", "d2k16"}
