"""What the tests of the command line share: a call in this process, and files to call it with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from calling import call  # noqa: F401 (a fixture)


@pytest.fixture
def toml(tmp_path) -> Callable[[str], Path]:
    """Writes a configuration file."""

    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
