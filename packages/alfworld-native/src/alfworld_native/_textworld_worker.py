"""A process that plays household games in TextWorld, for `textworld.py`.

TextWorld cannot run in threads, replaces `sys.stdout` and `sys.argv`, and calls `sys.exit` on a game that it cannot
read, so it gets a process of its own. Requests come as lines of JSON on the standard input and are answered by one line
each. The process ends with its input: whoever started it has gone, so it removes the folder that it was given.

    {"call": "open", "episode": 1, "path": "game.tw-pddl"}   -> {"feedback": "...", "admissible": [...], "won": false}
    {"call": "step", "episode": 1, "command": "look"}        -> the same
    {"call": "close", "episode": 1}                          -> {}

A failure is answered by {"error": "..."}.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import sys
from functools import lru_cache
from typing import Any

SHORTCUTS = "--shortcuts"


class Player:
    """Episodes of games in TextWorld, by number.

    Args:
        shortcuts: parse each template once (`take_shortcuts`).
    """

    def __init__(self, *, shortcuts: bool) -> None:
        if shortcuts:
            take_shortcuts()
        self._episodes: dict[int, Any] = {}
        # Each new environment loads a copy of the planner's library, 34 MB, so those of closed episodes are used again.
        self._free: list[Any] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request."""
        try:
            return self._answer(request)
        except (Exception, SystemExit) as error:  # a bad game fails in any way, sys.exit included
            # Its state is unknown after a failure.
            self._close(request["episode"])
            return {"error": f"{type(error).__name__}: {error}"}

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        number = request["episode"]
        if request["call"] == "close":
            self._close(number)
            return {}
        if request["call"] == "open":
            environment = self._episodes[number] = self._free.pop() if self._free else _environment()
            environment.load(request["path"])
            state = environment.reset()
        else:
            state, _, _ = self._episodes[number].step(request["command"])
        return {"feedback": state.feedback, "admissible": state.admissible_commands, "won": bool(state["won"])}

    def _close(self, number: int) -> None:
        if number in self._episodes:
            self._free.append(self._episodes.pop(number))


def _environment() -> Any:
    """ALFWorld's environment for one episode, as it makes it itself."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    return AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)), shuffle=False)


def main() -> None:
    """Answer requests until the input ends. Arguments: the folder, and perhaps `--shortcuts`."""
    folder, *options = sys.argv[1:]
    # The planner's library writes to the standard output, so replies get a channel of their own.
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        player = Player(shortcuts=SHORTCUTS in options)
        for line in sys.stdin:
            print(json.dumps(player.answer(json.loads(line))), file=replies, flush=True)
    shutil.rmtree(folder, ignore_errors=True)


# ---- shortcuts: the same answers about ten times sooner, for comparing TextWorld with the native engine at length
#
# TextWorld parses every template anew at each use, and deep-copies all entities of the game for each symbol of a
# sentence. Here what is parsed is kept, and copies are as deep as what is changed in them. The planner's second
# translation of a game, which serves planning only, is left out.


def take_shortcuts() -> None:
    """Replace the slow functions of TextWorld in this process."""
    import fast_downward
    from textworld.envs.pddl import textgen
    from textworld.logic import Rule

    # Templates are the same in all games, so the cache stays small.
    parsed = lru_cache(maxsize=None)(textgen._parse_and_convert)
    textgen._parse_and_convert = lambda text, **options: [_fresh(symbol) for symbol in parsed(text, **options)]
    textgen.copy_context = _copied_context
    textgen.Symbol.copy = lambda symbol, context: _fresh(symbol, _copied_context(context))
    textgen.ContextSensitiveGrammar.replace = _replace
    Rule.parse_conjunctive_query = lru_cache(maxsize=None)(Rule.parse_conjunctive_query)
    translated = lru_cache(maxsize=4)(fast_downward.pddl2sas)
    fast_downward.pddl2sas = lambda domain, problem, **_: translated(domain, problem)


def _fresh(symbol: Any, context: dict[str, Any] | None = None) -> Any:
    """A symbol whose context, and that of the symbol in it (a list has one), can be set."""
    copied = copy.copy(symbol)
    if context is not None:
        copied.context = context
    # Lists hold a symbol of their own, whose context is set separately.
    if hasattr(getattr(copied, "symbol", None), "context"):
        copied.symbol = _fresh(copied.symbol)
    return copied


def _copied_context(context: dict[str, Any]) -> dict[str, Any]:
    """A context with its own variables; entities are shared, since no sentence changes one."""
    return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}


def _replace(grammar: Any, start: Any) -> list[Any]:
    """Right-hand side of the first rule for a symbol that applies (`ContextSensitiveGrammar.replace`)."""
    from textworld.envs.pddl import textgen

    rules = grammar._rules.get(str(start))
    if not rules:
        raise textgen.CSGUnknownSymbolError(start)
    rule = next(rule for rule in rules if _applies(rule, start.context))
    return [_fresh(symbol, _copied_context(start.context)) for symbol in rule.rhs]


def _applies(rule: Any, context: dict[str, Any]) -> bool:
    from textworld.logic import Rule

    if not rule.condition:
        return True
    query = Rule.parse_conjunctive_query(rule.condition)
    return next(iter(context["state"].all_assignments(query, context["mapping"])), None) is not None


if __name__ == "__main__":
    main()
