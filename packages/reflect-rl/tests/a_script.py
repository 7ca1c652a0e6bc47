"""A file of `scripts/` as a module, for the tests of what it computes."""

import importlib.util
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).parents[3] / "scripts"


def load_script(name: str) -> ModuleType:
    """For example `load_script("make_results")`."""
    specification = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
