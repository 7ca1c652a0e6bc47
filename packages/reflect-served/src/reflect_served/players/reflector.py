"""A chat model as reflection player: it reads the rules and the state, never the list of the actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from reflect_rl.prompts import advice_text, reflector_messages, rules_of
from reflect_rl.types import View
from reflect_served.llm import ChatRequest, Endpoint
from reflect_served.players.chat import ChatPlayer
from reflect_served.players.prompts import CHAT_TEMPLATE_VERSION
from reflect_served.players.run import endpoint_of
from reflect_served.settings import chat_config

if TYPE_CHECKING:  # they load more than a player needs
    from reflect_rl.runs.config import RunConfig
    from reflect_rl.types import Decoding


class ChatReflector(ChatPlayer):
    """Asks for all views at once; the endpoint remembers what was asked before.

    Args:
        endpoint: whom to ask.
        rules: the game in words.
        max_new_tokens: longest reflection.
    """

    name = "chat"

    def __init__(self, endpoint: Endpoint, rules: str, max_new_tokens: int = 256) -> None:
        super().__init__(endpoint)
        self.rules, self.max_new_tokens = rules, max_new_tokens

    @classmethod
    def for_run(cls, run: RunConfig, method: str, decoding: Decoding) -> Self:
        """The chat model of `[endpoint]` as the reflection player of a run; method and decoding change nothing."""
        return cls(endpoint_of(run, "reflections"), rules_of(run.env), chat_config(run).max_reflection_tokens)

    @property
    def origin(self) -> dict[str, str | int]:
        """Where the reflections come from, for the record."""
        config = self.endpoint.config
        return {
            "chat_template": CHAT_TEMPLATE_VERSION,
            "reflection_server": config.host,
            "reflection_model": config.model,
        }

    @property
    def hit_rate(self) -> float:
        """Share of the requests so far that were answered without being sent."""
        answers = self.answers_given
        return sum(answer.cached for answer in answers) / len(answers) if answers else 0.0

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """Write a reflection for each view, in one line.

        Raises:
            EndpointError: the endpoint does not answer, or the budget is used up.
        """
        answers = self.ask([self.request(view) for view in views])
        # The policy reads the text as one field of its prompt, so line breaks and thoughts go.
        return [advice_text(answer.text) for answer in answers]

    def request(self, view: View) -> ChatRequest:
        """Request about a view."""
        return ChatRequest(reflector_messages(self.rules, view), self.max_new_tokens)
