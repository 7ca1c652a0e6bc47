"""A player behind a chat endpoint: it asks for all views of a step at once, and counts what that takes."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflect_rl.rollout import Bill, Usage
from reflect_served.llm import INSTALL, ChatAnswer, ChatRequest, Endpoint
from reflect_served.players.run import lock_of
from reflect_served.settings import asks_endpoint, endpoint_config

if TYPE_CHECKING:  # its module reads the settings of this package
    from reflect_rl.runs.config import RunConfig


class ChatPlayer:
    """Parts that the chat policy and the chat reflection player share.

    Args:
        endpoint: language model to ask.
    """

    sees_oracle = False

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.answers_given: list[ChatAnswer] = []
        """Answers since the last reset."""

    @classmethod
    def mistakes(cls, run: RunConfig) -> Iterator[str]:
        """Mistakes about the chat model, which must be named."""
        if not endpoint_config(run).base_url:
            first = next((name for name in run.methods if asks_endpoint(run, name)), run.reflector.kind)
            yield (
                f"endpoint.base_url: {first!r} asks a chat model, and none is named. Set endpoint.base_url, for "
                "example http://127.0.0.1:8000/v1, and endpoint.model."
            )
        if importlib.util.find_spec("openai") is None:
            yield INSTALL

    @classmethod
    def preview(cls, run: RunConfig, stages: Collection[str]) -> Iterator[str]:
        """The requests of all chat players of a run, in the stages in which they play or write."""
        if {"rlft", "eval"}.intersection(stages):
            # Here, because the module makes the players that are classes over this one.
            from reflect_served.preview import preview

            yield preview(run)

    @classmethod
    def lock_file(cls, run: RunConfig) -> Path:
        """Evaluations that ask wait for each other: several seeds ask the same, and the second finds it answered."""
        return lock_of(run)

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer]:
        """The answers in the order of the requests.

        Raises:
            EndpointError: the endpoint does not answer, or the budget is used up; what was answered is kept.
        """
        answers = self.endpoint.answer(requests) if requests else []
        self.answers_given += answers
        return answers

    @property
    def model_name(self) -> str:
        """Name of the model there."""
        return self.endpoint.config.model

    @property
    def usage(self) -> Usage:
        """Tokens, price and seconds since the last reset.

        An answer from the cache counts as what it took when it was asked: a repeated run reports the same numbers.
        """
        prompt = sum(answer.prompt_tokens for answer in self.answers_given)
        completion = sum(answer.completion_tokens for answer in self.answers_given)
        cost = self.endpoint.config.cost(prompt, completion)
        return Usage(prompt, completion, cost, tuple(answer.seconds for answer in self.answers_given))

    @property
    def bill(self) -> Bill:
        """Requests that were sent since it was made, and their price."""
        spent = self.endpoint.spent
        return Bill(spent.requests, spent.cost)

    def reset_usage(self) -> None:
        """Count from zero: a player is used for several evaluations in a row."""
        # A new list: whoever holds the old one keeps what it had counted.
        self.answers_given = []
