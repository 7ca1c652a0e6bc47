"""Errors a user can meet; companion packages add subclasses of `UserError` of their own.

ReflectRLError
├── UserError                     a mistake in the input; the command line prints the message and exits with 2
│   ├── ConfigError               a configuration key or value
│   ├── UnknownNameError          a name that nothing installed carries
│   ├── BrokenPartError           a part whose module fails where it is imported
│   ├── ModelError                a model or tokenizer that cannot be used
│   ├── EndpointError             a server that does not answer as it should (`llm/errors.py`)
│   │   ├── RefusedError          a request that it does not take
│   │   └── BudgetError           a request that could exceed the budget
│   └── RunFolderError            a run folder that is missing something, corrupt, or of another configuration
├── TrainingError                 training cannot go on (for example a loss that is not finite); exits with 1
│   └── LostProcessError          another process of the launch has ended or does not answer (`launch.py`)
├── FaultyEnvironmentError        an environment raised an exception, or gave a reward that is no finite number
│   └── EnvironmentTimeoutError   an environment took longer than `limits.environment_seconds`
├── FaultyPlayerError             a player gave an answer that cannot be played
│   └── PlayerTimeoutError        a player took longer than `limits.player_seconds`
└── HangError                     anything else that took longer than it may
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ReflectRLError(Exception):
    """Root of all errors that this package raises on purpose."""


class UserError(ReflectRLError):
    """The input is wrong; the message names the thing, the value and the remedy."""


class ConfigError(UserError):
    """A configuration key or value is wrong."""


class UnknownNameError(UserError):
    """No variation with this name exists."""


class BrokenPartError(UserError):
    """The module of a part fails where it is imported; what it raised is `__cause__`."""


class ModelError(UserError):
    """A model or tokenizer cannot be loaded or used."""


class RunFolderError(UserError):
    """A run folder is incomplete, corrupt, or belongs to another configuration."""


class TrainingError(ReflectRLError):
    """Training cannot go on."""


# No UserError: play can go on without the episode (`limits.failed_episodes`).
class FaultyEnvironmentError(ReflectRLError):
    """An environment failed; the message names it, its task, seed and turn; what it raised is `__cause__`."""


class EnvironmentTimeoutError(FaultyEnvironmentError):
    """An environment did not answer in time."""


class FaultyPlayerError(ReflectRLError):
    """A player gave an answer that cannot be played; the message names the player."""


class PlayerTimeoutError(FaultyPlayerError):
    """A player, or the server behind it, did not answer in time."""


class HangError(ReflectRLError):
    """Watched code did not come back in time."""


class ReflectRLWarning(UserWarning):
    """Something went wrong that this program goes on without; a user is told, also by workers."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest known name, or the list of all.

    >>> suggestion("pp0", ["ppo", "reinforce"])
    "Did you mean 'ppo'?"
    >>> suggestion("zzz", ["ppo", "reinforce"])
    'Known: ppo, reinforce.'
    """
    # Sorted: of two names that are equally near, the same is suggested on every machine.
    names = sorted(known)
    # From Python a name may be anything, also None.
    close = get_close_matches(str(name), names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(names)}."


def printable(text: str) -> str:
    """The text without control characters, with which a game's text (a file's content) could steer the terminal.

    >>> printable("a" + chr(27) + "[2Jb")
    'a·[2Jb'
    """
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "·" for letter in text)
