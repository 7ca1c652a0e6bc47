"""Client of the players behind a chat endpoint: asks for all views of a step at once, and counts what it takes."""

from __future__ import annotations

from collections.abc import Sequence

from reflect_rl.players.base import Bill, Usage
from reflect_served.llm import ChatAnswer, ChatRequest, Endpoint


class ChatClient:
    """Endpoint with the usage of one player.

    Args:
        endpoint: language model to ask.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.answers: list[ChatAnswer] = []
        """Answers since the last reset."""

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer]:
        """The answers in the order of the requests.

        Raises:
            EndpointError: the endpoint does not answer, or the budget is used up; what was answered is kept.
        """
        answers = self.endpoint.answer(requests) if requests else []
        self.answers += answers
        return answers

    @property
    def usage(self) -> Usage:
        """Tokens, price and seconds since the last reset.

        An answer from the cache counts as what it took when it was asked: a repeated run reports the same numbers.
        """
        prompt = sum(answer.prompt_tokens for answer in self.answers)
        completion = sum(answer.completion_tokens for answer in self.answers)
        cost = self.endpoint.config.cost(prompt, completion)
        return Usage(prompt, completion, cost, tuple(answer.seconds for answer in self.answers))

    @property
    def bill(self) -> Bill:
        """Requests that were sent, and their price."""
        spent = self.endpoint.spent
        return Bill(spent.requests, spent.cost)

    def reset_usage(self) -> None:
        """Count from zero: a player is used for several evaluations in a row."""
        # A new list: whoever holds the old one keeps what it had counted.
        self.answers = []
