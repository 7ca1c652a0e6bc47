"""The raw state of an exploration: what the last commands printed, word for word, and the listing of the folder.

Nothing is worked out for the player: no words of the question are looked for, no nearest passage is shown, and no
number of the action list stands in the text. All that a command printed stands behind `> ` on one line and has lost
what could pass for a part of the prompt (`repositories.passages.plain`), so no file can forge a command.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from reflect_locate.envs.state_text import ExplorationState, shown


@dataclass(frozen=True, slots=True)
class _Printed:
    command: str
    text: str
    path: str
    """The file that was read; empty for other commands."""


class Shell:
    """The window of an episode that a player sees.

    Args:
        history: number of commands to keep.
    """

    def __init__(self, history: int) -> None:
        self._printed: deque[_Printed] = deque(maxlen=history)

    def add(self, command: str, text: str, path: str = "") -> None:
        """Take up a command.

        Args:
            command: that was given.
            text: that it printed; empty where it prints nothing.
            path: of the file that it read, as states show it; empty for other commands.
        """
        self._printed.append(_Printed(command, text, path))

    def text(self, state: ExplorationState) -> str:
        """The state text.

        Args:
            state: with the listing of the folder that one is in.
        """
        pages = f", page {state.page} of {state.pages}" if state.pages > 1 else ""
        lines = [f"Task: {state.question}", f"Turn {state.turn} of {state.horizon} in /{shown(state.folder)}{pages}"]
        for printed in self._printed:
            lines.append(f"$ {printed.command}")
            if printed.text:
                lines.append(f"> {printed.text}")
        listed = [*(f"{shown(name)}/" for name, _ in state.folders), *map(shown, state.files)]
        if listed:
            lines += ["$ ls", "> " + "  ".join(listed)]
        return "\n".join(lines)

    def recall(self, state: ExplorationState) -> ExplorationState:
        """The part of a state that a player knows who has seen this window alone."""
        paths = {printed.path for printed in self._printed}
        return replace(state, read=tuple(note for note in state.read if note[0] in paths))


def depth_first(state: ExplorationState) -> str:
    """The next action of a mediocre expert: read every file of the folder, then enter its folders one by one.

    >>> depth_first(ExplorationState("Parsing", 1, 15, "", folders=(("a", 0), ("b", 2)), files=("c.py",)))
    'cat c.py'
    >>> depth_first(ExplorationState("Parsing", 2, 15, "", folders=(("a", 0), ("b", 2))))
    'cd b'
    """
    if state.files:
        return f"cat {state.files[0]}"
    for name, unread in state.folders:
        if unread:
            return f"cd {name}"
    return "more" if state.page < state.pages else "cd .."
