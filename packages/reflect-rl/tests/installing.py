"""Packages of strangers, installed into a folder of their own that only some processes see."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import mkdtemp


@cache
def _pip() -> tuple[str, ...]:
    """A pip, which the running environment may lack."""
    folder = Path(mkdtemp(prefix="pip-"))
    venv.create(folder, with_pip=True, symlinks=True)
    return (
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--quiet",
        "--python",
        sys.executable,
    )


def install(package: Path, target: Path) -> Mapping[str, str]:
    """Install a package without what it depends on; the environment variables under which it is found."""
    words = ("install", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(target), str(package))
    output((*_pip(), *words), package)
    known = os.pathsep.join(path for path in (str(target), os.environ.get("PYTHONPATH", "")) if path)
    return {**os.environ, "PYTHONPATH": known, "OMP_NUM_THREADS": "1"}


def output(command: tuple[str, ...], folder: Path, environment: Mapping[str, str] | None = None, code: int = 0) -> str:
    """What a command prints; it must end with the given exit code."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
