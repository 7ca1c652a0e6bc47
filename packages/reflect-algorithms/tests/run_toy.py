"""Settings of a run on a small corridor, for the tests of stages."""

from __future__ import annotations

from pathlib import Path

from reflect_rl.cli.main import main


def whole_run(folder: Path, settings: str) -> Path:
    """Do a run of these settings, and give the folder of its unit."""
    (folder / "run.toml").write_text(settings)
    assert main(["run", str(folder / "run.toml"), "--output-dir", str(folder / "run")]) == 0
    return folder / "run" / "starts-4" / "seed-0"


def corridor_run(methods: str, more: str) -> str:
    """TOML text of a run.

    Args:
        methods: a TOML list.
        more: further sections.
    """
    return f"methods = {methods}\n{SMALL}{more}[evaluation]\nrepetitions = 1\n"


SMALL = """\
workers = 1
[environment]
name = "corridor"
length = 5
lengths = 2
[model.embedded]
hidden_size = 16
layers = 1
heads = 2
[data]
demonstration_starts = [4]
perturbed_episodes_per_start = 1
"""

BOTH_PLAYERS = """\
[sft]
base = { steps = 2 }
reflector = { steps = 20 }
policy_reflect = { steps = 2 }
"""
"""Sections of a short supervised training of both players."""
