"""Flags that need no value, such as `--json`, for the verbs that take a path before their flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reflect_rl.cli.arguments import named_and_flags
from reflect_rl.errors import ConfigError

__all__ = ["read_words"]

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
OPPOSITES = {"true": "false", "false": "true"}


def read_words(
    verb: str, words: Sequence[str], switches: Mapping[str, tuple[str, str]]
) -> tuple[list[str], dict[str, list[str]]]:
    """Words before the flags, and the values of the flags; switches may stand anywhere.

    Args:
        verb: of the command line.
        words: all words behind the verb, help flags left out.
        switches: flag -> name and value of the setting that it sets. A value may follow: `--json true`, `--json=false`.

    Raises:
        ConfigError: a flag is given twice, a switch has a value that is neither true nor false, or two switches of one
            setting are given.
    """
    rest: list[str] = []
    found: dict[str, list[str]] = {}
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        flag, equals, value = word.partition("=")
        if flag not in switches:
            rest.append(word)
            continue
        name, meant = switches[flag]
        if name in found:
            raise ConfigError(_twice(name, switches))
        if not equals and waiting and waiting[0].lower() in (*TRUE, *FALSE):
            equals, value = "=", waiting.pop(0)
        if equals and value.lower() not in (*TRUE, *FALSE):
            raise ConfigError(f"{flag} is a switch: write {flag}, or {flag} false, not {word!r}.")
        found[name] = [OPPOSITES[meant] if value.lower() in FALSE and equals else meant]
    named, flags = named_and_flags(verb, rest)
    return named, flags | found


def _twice(name: str, switches: Mapping[str, tuple[str, str]]) -> str:
    flags = [flag for flag, (setting, _) in switches.items() if setting == name]
    if len(flags) > 1:
        return f"{' and '.join(flags)} exclude each other. Give one of them."
    return f"{flags[0]} is given twice. Give it once."
