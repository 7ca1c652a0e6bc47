"""Settings of a run on a small corridor, for the tests of stages."""

from __future__ import annotations


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
