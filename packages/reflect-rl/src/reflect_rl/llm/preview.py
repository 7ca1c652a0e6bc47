"""A dry run in words: what would be sent where, and what it would take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reflect_rl.llm.config import EndpointConfig
from reflect_rl.llm.connection import key_in
from reflect_rl.llm.errors import without_key
from reflect_rl.llm.exchange import most_new_tokens, most_prompt_tokens
from reflect_rl.llm.ledger import Ledger

__all__ = ["preview"]

BYTES_PER_TOKEN = 4
"""Of English text; a guess for what is likely, where `most_prompt_tokens` is a bound."""


def preview(
    config: EndpointConfig,
    ledger: Ledger,
    purpose: str,
    counts: tuple[int, int],
    missing: Sequence[Mapping[str, Any]],
    shown: int,
) -> str:
    """The text.

    Args:
        config: of the endpoint.
        ledger: what was spent so far.
        purpose: what the requests are for.
        counts: how many requests there are, and how many different ones.
        missing: those without an answer yet, as they would be sent.
        shown: how many of them are given in full.
    """
    where = "this machine" if config.is_local else "ANOTHER MACHINE: the prompts leave this one"
    total, distinct = counts
    lines = [
        f"Would ask {config.base_url} (model {config.model!r}, {where}) for: {purpose}.",
        f"{total} requests, {distinct} different; {distinct - len(missing)} answered already, {len(missing)} to send, "
        f"{config.parallel_requests} at a time.",
        *_amounts(config, ledger, missing),
    ]
    for number, body in enumerate(missing[:shown], start=1):
        lines.append(f"Request {number} of {len(missing)}:")
        lines += (without_key(line, key_in(config.key_variable), config.key_variable) for line in _readable(body))
    lines.append("Nothing was sent.")
    return "\n".join(lines)


def _readable(body: Mapping[str, Any]) -> Iterator[str]:
    """A request line by line: settings, then each message as it is, without what could steer a terminal."""
    yield json.dumps({name: value for name, value in body.items() if name != "messages"})
    for message in body["messages"]:
        yield f"--- {message['role']}:"
        for line in message["content"].split("\n"):
            yield "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in line)
    yield "---"


def _amounts(config: EndpointConfig, ledger: Ledger, missing: Sequence[Mapping[str, Any]]) -> list[str]:
    """Tokens and cost of what is missing, and the budget."""
    most = sum(map(most_prompt_tokens, missing))
    likely = most // BYTES_PER_TOKEN
    answers = sum(map(most_new_tokens, missing))
    lines = [f"Tokens: prompts about {likely}, at most {most}; answers at most {answers}."]
    if config.price_input or config.price_output:
        lines.append(f"Cost: about {config.cost(likely, answers):.4g}, at most {config.cost(most, answers):.4g}.")
        lines.append(f"Spent so far: {ledger.known.cost:.4g}, without an answer at most {ledger.reserved.cost:.4g}.")
    if config.max_cost is not None:
        lines.append(f"Budget: cost {config.max_cost:g}.")
    if config.max_total_tokens is not None:
        lines.append(f"Budget: {config.max_total_tokens} tokens, of which {ledger.known.tokens} are spent.")
    return lines
