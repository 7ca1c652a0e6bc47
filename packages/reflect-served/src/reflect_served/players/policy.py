"""A chat model as policy: it reads the rules, the state and the numbered actions, thinks, and names a number.

An answer that names none of the listed numbers is `NO_ACTION`: the turn passes without an action, and is counted. The
number is never guessed, and an invalid answer is not asked for again: small models give many, and that is a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from reflect_rl.players.decoding import temperature_of
from reflect_rl.prompts import rules_of
from reflect_rl.types import NO_ACTION, Decision, View
from reflect_served.llm import ChatAnswer, ChatRequest, Endpoint
from reflect_served.players.chat import ChatPlayer
from reflect_served.players.prompts import (
    CHAT_TEMPLATE_VERSION,
    choice_schema,
    label_log_probs,
    number_messages,
    parse_choice,
    policy_messages,
)
from reflect_served.players.run import endpoint_of
from reflect_served.settings import Answers, chat_config, endpoint_config

if TYPE_CHECKING:  # it loads torch
    from reflect_rl.runs.config import RunConfig
    from reflect_rl.types import Decoding

SAMPLES = 2**30
"""Number of different samples; an endpoint keeps one answer for each prompt and sample number."""

TOP_LOGPROBS = 20
"""Alternatives to the first token that are asked for; no server of the OpenAI kind offers more."""

NUMBER_TOKENS = 8
"""Longest answer that is a number; some models put a space or an empty line before it."""


class ChatPolicy(ChatPlayer):
    """Asks for all views at once.

    Args:
        endpoint: whom to ask.
        rules: the game in words.
        answers: `text` = a thought and the last line `Action: N`; `json` = an object after a schema, where the server
            holds to one; `logprobs` = the number alone, drawn from the probabilities of the first token, where the
            server tells them.
        decoding: `greedy` = the likeliest answer; any other = another draw in each episode. Its temperature counts
            where the server tells probabilities; texts are drawn at that of the endpoint.
        max_new_tokens: longest answer, its thought included.
        name: of the player.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        rules: str,
        answers: Answers = "text",
        decoding: Decoding = "greedy",
        max_new_tokens: int = 512,
        name: str = "chat",
    ) -> None:
        super().__init__(endpoint)
        self.rules, self.answers, self.temperature = rules, answers, temperature_of(decoding)
        self.max_new_tokens, self.name = max_new_tokens, name

    @classmethod
    def for_run(cls, run: RunConfig, method: str, decoding: Decoding) -> Self:
        """The chat model of `[endpoint]` as the policy of a method."""
        settings = chat_config(run)
        endpoint = endpoint_of(run, "actions")
        return cls(endpoint, rules_of(run.env), settings.answers, decoding, settings.max_new_tokens, method)

    @classmethod
    def decodings(cls, run: RunConfig) -> Sequence[Decoding]:
        """The decoding of its temperature, or a local model's where probabilities are known."""
        # Probabilities are known, so greedy and sampled play can be told from the same answers.
        if chat_config(run).answers == "logprobs":
            return run.evaluation.decodings
        # Reasoning models refuse a temperature, so their answers are drawn whatever is set.
        endpoint = endpoint_config(run)
        return ("greedy",) if endpoint.temperature == 0 and not endpoint.reasoning else ("sampled",)

    @property
    def origin(self) -> dict[str, str | int]:
        """Where the actions come from, for the record."""
        return {"chat_template": CHAT_TEMPLATE_VERSION, "endpoint": self.endpoint.config.host, "answers": self.answers}

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """Ask for a decision on each view, which keeps the answer in the model's own words.

        Raises:
            EndpointError: the endpoint does not answer, or the budget is used up.
        """
        # The draw comes from the episode's own stream, so a repeated run asks for the same samples.
        draws = [float(rng.random()) if self.temperature else None for rng in rngs]
        answers = self.ask([self.request(view, draw) for view, draw in zip(views, draws, strict=True)])
        return [self._decision(*row) for row in zip(views, draws, answers, strict=True)]

    def request(self, view: View, draw: float | None = None) -> ChatRequest:
        """Request about a view.

        Args:
            view: what the player sees.
            draw: a number of [0, 1) that tells the sampled answers to one prompt apart; None = the likeliest answer.
        """
        if self.answers == "logprobs":  # the draw is made here, from probabilities that are the same for all
            return ChatRequest(number_messages(self.rules, view), NUMBER_TOKENS, top_logprobs=TOP_LOGPROBS)
        schema = choice_schema(len(view.order)) if self.answers == "json" else None
        messages = policy_messages(self.rules, view, as_json=schema is not None)
        return ChatRequest(messages, self.max_new_tokens, schema, sample=0 if draw is None else int(draw * SAMPLES))

    def _decision(self, view: View, draw: float | None, answer: ChatAnswer) -> Decision:
        count = len(view.order)
        if self.answers == "logprobs" and (row := label_log_probs(answer.logprobs or (), count)) is not None:
            row = _tempered(row, self.temperature) if self.temperature not in (0, 1) else row
            number = int(np.argmax(row)) if draw is None else _drawn(row, draw)
            # The row is in listing order, and decisions are recorded by the environment's own action index.
            by_index = tuple(row[place] for place in np.argsort(view.order))
            return Decision(view.order[number], self.name, by_index, answer=answer.text)
        # The last number of an answer that was cut may be the beginning of a longer one.
        said = parse_choice(answer.text, count) if answer.ending != "length" else None
        return Decision(NO_ACTION if said is None else view.order[said], self.name, answer=answer.text)


def _tempered(log_probs: Sequence[float], temperature: float) -> tuple[float, ...]:
    """Log-probabilities after division by a temperature."""
    scores = np.array(log_probs) / temperature
    return tuple((scores - np.logaddexp.reduce(scores)).tolist())


def _drawn(log_probs: Sequence[float], draw: float) -> int:
    """The number under which the share `draw` of the probability lies."""
    total = 0.0
    for number, value in enumerate(log_probs):
        total += math.exp(value)
        if draw < total:
            return number
    return len(log_probs) - 1
