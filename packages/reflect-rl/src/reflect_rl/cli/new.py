"""`reflect-rl new environment|algorithm FOLDER`: a package with an entry point, a test and a run file."""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template

from rich.console import Console

from reflect_rl import registry
from reflect_rl.errors import UserError, suggestion

KINDS: dict[str, registry.Kind] = {"environment": "environments", "algorithm": "algorithms"}
"""Kinds of package that can be made, and the group under which each offers its part."""

PACKAGE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""Names that installers take for a package (PyPA, "Names and normalization")."""

USAGE = """\
usage: reflect-rl new environment FOLDER    a package with a text environment of your own
       reflect-rl new algorithm FOLDER      a package with a reinforcement learning algorithm of your own

The package is named after the folder. It works as it is: install it with `pip install -e FOLDER`, then change the game
or the loss.
"""

PLACES = {
    "README.md.tmpl": "README.md",
    "module.py.tmpl": "{module}.py",
    "pyproject.toml.tmpl": "pyproject.toml",
    "run.toml.tmpl": "run.toml",
    "test_module.py.tmpl": "test_{module}.py",
}
"""Template and file of each part of a package."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: what to make, and the folder.
        console: where the next steps are printed.

    Raises:
        UserError: a mistake in the arguments, or the folder exists.
    """
    if not arguments or {"-h", "--help"} & set(arguments):
        console.print(USAGE, end="")
        return
    if len(arguments) != 2:
        raise UserError(f"`reflect-rl new` takes what to make and a folder, got {' '.join(arguments)!r}.")
    kind, folder = arguments[0], Path(arguments[1])
    module = write_package(kind, folder)
    console.print(f"{kind} {module!r} written to {folder}. Next:\n")
    # As a shell takes it; a folder that begins with a hyphen would be read as a flag.
    shown = f"./{folder}" if str(folder).startswith("-") else str(folder)
    package, job = shlex.quote(shown), shlex.quote(f"{shown}/run.toml")
    console.print(f"  pip install -e {package}\n  python -m pytest {package}\n  reflect-rl run {job}")


def write_package(kind: str, folder: Path) -> str:
    """Write a package; the name of its module.

    Args:
        kind: `environment` or `algorithm`.
        folder: of the package, which must not exist. Its name becomes the name of the package.

    Raises:
        UserError: there is no such kind, the folder exists, its name is none for a package or module, or a module or
            part has it already.
    """
    if kind not in KINDS:
        raise UserError(f"no template for {kind!r}. {suggestion(kind, KINDS)}")
    if folder.exists():
        raise UserError(f"{folder} exists. Name a folder that does not, so that nothing is overwritten.")
    module = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    # The name becomes an import, an entry point and a file: a hyphen or `class` would fail in all three.
    if not module.isidentifier() or keyword.iskeyword(module):
        raise UserError(
            f"{folder.name!r} cannot name a Python module. Name a folder that begins with a letter and is no word "
            "of Python."
        )
    if not PACKAGE_NAME.fullmatch(folder.resolve().name):
        raise UserError(
            f"{folder.name!r} cannot name a package, whose name has ASCII letters, digits, '-', '_' and '.' and begins "
            f"and ends with a letter or digit. Name the folder {module.replace('_', '-')!r}."
        )
    # The module may be free: that of `ppo` is `reflect_rl.algorithms.ppo`.
    if module in {*registry.names(KINDS[kind]), *registry.COMPANIONS[KINDS[kind]]}:
        raise UserError(
            f"the {kind} {module!r} exists already, and no two can share a name. Name another folder, such as "
            f"{'my-' + module.replace('_', '-')!r}."
        )
    if module in sys.stdlib_module_names or _is_taken(module):
        raise UserError(f"a module {module!r} is installed, and the package would hide it. Name another folder.")
    class_name = "".join(part.capitalize() for part in module.split("_"))
    values = {"module": module, "class_name": class_name, "distribution": module.replace("_", "-")}
    # As package data: a package need not lie in a folder of its own on the disk.
    templates = files("reflect_rl.cli") / "templates" / kind
    # Without exist_ok: of two commands for one folder, the second fails and overwrites nothing.
    folder.mkdir(parents=True)
    for template, place in PLACES.items():
        # `$name` and not `{name}`: TOML and Python are full of braces.
        text = Template((templates / template).read_text(encoding="utf-8")).substitute(values)
        (folder / place.format(module=module)).write_text(text, encoding="utf-8")
    return module


def _is_taken(module: str) -> bool:
    """Tell whether an installed distribution has this name, or a module that can be imported."""
    try:
        distribution(module)
    except PackageNotFoundError:
        return find_spec(module) is not None
    return True
