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

import json
import os
import shutil
import sys
from typing import Any

__all__ = ["Player", "main"]

SHORTCUTS = "--shortcuts"


class Player:
    """Episodes of games in TextWorld, by number.

    Args:
        shortcuts: parse each template once (`_textworld_shortcuts.py`).
    """

    def __init__(self, *, shortcuts: bool) -> None:
        if shortcuts:
            from alfworld_native._textworld_shortcuts import take_shortcuts

            take_shortcuts()
        self._episodes: dict[int, Any] = {}
        # Each new environment loads a copy of the planner's library, 34 MB, so those of closed episodes are used again.
        self._free: list[Any] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What to reply to a request."""
        try:
            return self._answer(request)
        except (Exception, SystemExit) as error:  # a bad game fails in any way, sys.exit included
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


if __name__ == "__main__":
    main()
