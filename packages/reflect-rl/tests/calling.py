"""A call of the command line in this process, and a file to call it with, for tests."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from reflect_rl.cli.main import main


@dataclass(frozen=True)
class Answer:
    """What a call came to."""

    code: int
    output: str
    errors: str

    @property
    def mistake(self) -> str:
        """The one message of a user's mistake."""
        assert self.code == 2, self
        assert self.errors.startswith("error: "), self
        assert "Traceback" not in self.errors, self
        return self.errors


@pytest.fixture
def call(capsys) -> Callable[..., Answer]:
    """Calls `reflect-rl WORDS...` in this process."""

    def call(*words: object) -> Answer:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def toml(tmp_path) -> Callable[[str], Path]:
    """Writes a configuration file."""

    def write(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
