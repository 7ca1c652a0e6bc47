"""Module that the fork server of workers loads, under the variables that keep libraries quiet."""

import os
from contextlib import suppress
from importlib import import_module

from reflect_rl.launch import QUIET

for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)

# A failure here comes again in a worker, which can tell it. After the variables: libraries read them when loaded.
with suppress(Exception):
    import_module("reflect_rl.runs.train")
    import_module("reflect_rl.runs.evaluate")
