"""Module that the fork server of workers loads, under the variables that keep libraries quiet."""

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from reflect_rl.launch import QUIET
from reflect_rl.runs.workers import LOADED

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)

# A failure here comes again in a worker, which can tell it. After the variables: libraries read them when loaded.
with suppress(Exception):
    import_module("reflect_rl.runs.train")
    import_module("reflect_rl.runs.evaluate")

# Loaded or not, workers can be forked from now on. A fork server that takes the place of a dead one has no such file.
if _file := os.environ.get(LOADED):
    # A command that was refused has ended before, and its folder with it.
    with suppress(FileNotFoundError):
        Path(_file).touch()
