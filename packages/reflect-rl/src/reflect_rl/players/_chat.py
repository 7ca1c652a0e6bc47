"""What the players behind a chat endpoint share: they ask for a whole round at once, and note what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reflect_rl.llm import ChatAnswer, ChatRequest, Endpoint

__all__ = ["Asker", "Bill"]


@dataclass(slots=True)
class Bill:
    """What answers took; one that came from the cache counts as what it took when it was asked."""

    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each answer."""

    def add(self, answer: ChatAnswer) -> None:
        """Count an answer."""
        self.cached += answer.cached
        self.prompt_tokens += answer.prompt_tokens
        self.completion_tokens += answer.completion_tokens
        self.seconds.append(answer.seconds)


class Asker:
    """Asks an endpoint, and writes the bill.

    Args:
        endpoint: whom to ask.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.bill = Bill()

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer]:
        """The answers in the order of the requests.

        Raises:
            EndpointError: the endpoint does not answer, or the budget is used up; what was answered is kept.
        """
        answers = self.endpoint.answer(requests) if requests else []
        for answer in answers:
            self.bill.add(answer)
        return answers

    def new_bill(self) -> None:
        """Count from nothing."""
        self.bill = Bill()
