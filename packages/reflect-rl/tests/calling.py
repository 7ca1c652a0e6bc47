"""A call of the command line in this process, for tests."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from reflect_rl.cli.main import main

__all__ = ["Answer", "call"]


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
