"""Commands as they come from outside, checked before any game moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from alfworld_native.errors import GameError


def check_command(command: object) -> str:
    """The command.

    Raises:
        GameError: it is no text. Agents often send an index; the message says what is expected.
    """
    if not isinstance(command, str):
        raise GameError(f"a command is a text such as 'look', not {command!r:.60}.")
    return command


def check_commands(commands: object, count: int, name: str = "commands") -> list[str]:
    """The commands of some games, out of a list, a tuple, an array, or whatever else has an order.

    Args:
        commands: one for each game.
        count: number of games.
        name: what the message calls them.

    Raises:
        GameError: not one text for each game.
    """
    given = _listed(commands)
    if given is None or len(given) != count:
        found = f"{commands!r:.60}" if given is None else f"{len(given)} {name}"
        raise GameError(f"step() needs a list of {count} {name}, one for each game, not {found}.")
    return [check_command(command) for command in given]


def _listed(commands: object) -> list[object] | None:
    # A text would be taken letter by letter; sets have no order.
    if isinstance(commands, str | bytes | Mapping | Set) or not isinstance(commands, Iterable):
        return None
    try:
        return list(commands)
    except TypeError:  # an array without a dimension
        return None
