"""A chat server of the OpenAI kind on this machine, whose answers are a function of what it is asked; no model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fault_server import FaultServer

Speaker = Callable[[dict[str, Any]], str]
"""Body of a request -> text of the answer."""


class ChatServer(FaultServer):
    """Serves one scripted model, from the beginning to the end of a `with` block.

    Args:
        speak: what the model says.
        top: alternatives to the first token and their log-probabilities, where they are wanted (None: not offered).
    """

    def __init__(self, speak: Speaker, top: Callable[[dict[str, Any]], list[tuple[str, float]]] | None = None) -> None:
        super().__init__()
        self.model = "scripted"
        self.speak, self.top = speak, top

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self.bodies

    def written(self, body: Mapping[str, Any]) -> str:
        return self.speak(dict(body))

    def likeliest(self, body: Mapping[str, Any]) -> list[tuple[str, float]]:
        return self.top(dict(body)) if self.top is not None else []

    def used(self, body: Mapping[str, Any], text: str) -> tuple[int, int]:
        """So that sums are easy."""
        return 100, 10


def listed(body: dict[str, Any]) -> dict[str, int]:
    """The actions of a request and their numbers."""
    actions = body["messages"][-1]["content"].partition("# Actions\n")[2]
    return {text: int(number) for number, text in re.findall(r"^(\d+): (.*)$", actions, re.MULTILINE)}


def walker(body: dict[str, Any]) -> str:
    """A model that knows the corridor: it advises, or it walks to the goal."""
    text = body["messages"][-1]["content"]
    here, goal = (int(re.search(rf"{words} (\d+)", text)[1]) for words in ("You are at", "The goal is at"))  # type: ignore[index]
    way = "left" if goal < here else "right"
    if "# Actions" not in text:
        return f"The goal is to the {way}.\nNext: {way}."
    return f"The goal is to the {way}.\nAction: {listed(body)[way]}"
