"""A package's wheel, built and installed into an environment that has little else.

The environment sees chosen libraries of the running one through links, so nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns("*.egg-info", "build", "dist", "__pycache__", "tests")
"""Not part of the sources that are built; a stale `build` would put deleted modules into the wheel."""


@dataclass(frozen=True, slots=True)
class FreshEnvironment:
    """A virtual environment with a wheel in it."""

    folder: Path
    wheel: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def names(self) -> set[str]:
        """Names of the files in the wheel."""
        return set(zipfile.ZipFile(self.wheel).namelist())

    def run(self, script: str) -> str:
        """The output of a script; `-I` keeps the current folder and PYTHONPATH out of its imports."""
        return _output([str(self.python), "-I", "-c", script], self.folder)


def install_wheel(folder: Path, project: Path, libraries: Sequence[str]) -> FreshEnvironment:
    """Build a project's wheel, and install it into a new environment.

    Args:
        folder: empty folder for all that is made.
        project: folder with the `pyproject.toml`.
        libraries: modules of the running environment that the new one sees.
    """
    sources, fresh = folder / "sources", folder / "venv"
    shutil.copytree(project, sources, ignore=LEFT_OUT)
    venv.create(fresh, with_pip=True, symlinks=True)
    pip = [str(fresh / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    # The running environment builds, because it has setuptools; its own pip may be missing.
    build = ["--python", sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    _output([*pip, *build, str(sources)], folder)
    (wheel,) = folder.glob("*.whl")
    _output([*pip, "install", "--no-deps", "--no-index", str(wheel)], folder)
    _link(folder / "linked", fresh, libraries)
    return FreshEnvironment(fresh, wheel)


def install_above(folder: Path, project: Path, *packages: str) -> FreshEnvironment:
    """Build and install the wheel of a package that stands on others, which are read from where the tests find them.

    Args:
        folder: empty folder for all that is made.
        project: folder with the `pyproject.toml`.
        packages: those below it, beside the core and what that depends on.
    """
    environment = install_wheel(folder, project, ())
    # A path named here adds no editable installation, so the package itself can only come from the wheel.
    depends = [Path(str(find_spec(name).origin)).parents[1] for name in (*packages, "reflect_rl", "pydantic", "torch")]  # type: ignore[union-attr]
    (site,) = environment.folder.glob("lib/python*/site-packages")
    (site / "depends.pth").write_text("".join(f"{path}\n" for path in dict.fromkeys(depends)))
    return environment


def registered(fresh: FreshEnvironment, distribution: str) -> dict[str, list[str]]:
    """Names of a distribution's entry points by group, sorted; each is loaded."""
    groups: dict[str, list[str]] = json.loads(
        fresh.run(f"""
import json
from importlib.metadata import distribution
found = {{}}
for point in distribution({distribution!r}).entry_points:
    point.load()
    found.setdefault(point.group, []).append(point.name)
print(json.dumps(found))
""")
    )
    return {group: sorted(names) for group, names in groups.items()}


def check_contents(names: set[str], package: str, *files: str) -> None:
    """Check that a wheel holds types, a licence and these files of the package, and no tests."""
    assert {f"{package}/{name}" for name in ("py.typed", *files)} <= names
    assert any(name.endswith("/LICENSE") and ".dist-info/" in name for name in names)
    assert not any("/tests/" in name or name.startswith("tests/") for name in names)


def _link(links: Path, fresh: Path, libraries: Sequence[str]) -> None:
    """Make libraries importable there, and nothing that merely lies beside them."""
    links.mkdir()
    for library in libraries:
        origin = Path(str(find_spec(library).origin))  # type: ignore[union-attr]
        found = origin.parent if origin.name == "__init__.py" else origin
        # `numpy.libs` holds the shared objects that NumPy loads from the folder beside it.
        for path in (found, found.with_name(f"{library}.libs")):
            if path.exists():
                (links / path.name).symlink_to(path.resolve())
    (site,) = fresh.glob("lib/python*/site-packages")
    (site / "linked.pth").write_text(f"{links}\n")


def _output(command: Sequence[str], folder: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
