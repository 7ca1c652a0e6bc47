"""A dry run in words: what would be sent where, and what it would take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reflect_served.llm.connection import key_in, without_key
from reflect_served.llm.messages import max_new_tokens, max_prompt_tokens
from reflect_served.llm.store import RequestLog

BYTES_PER_TOKEN = 4
"""A guess for English text, where `max_prompt_tokens` is a bound."""


def preview(log: RequestLog, counts: tuple[int, int], missing: Sequence[Mapping[str, Any]], shown: int) -> str:
    """Describe requests that are not sent.

    Args:
        log: requests of the endpoint, with what was spent so far.
        counts: how many requests there are, and how many different ones.
        missing: those without an answer yet, as they would be sent.
        shown: how many of them are given in full.
    """
    config = log.config
    where = "this machine" if config.is_local else "ANOTHER MACHINE: the prompts leave this one"
    total, distinct = counts
    lines = [
        f"Would ask {config.base_url} (model {config.model!r}, {where}) for: {log.purpose}.",
        f"{total} requests, {distinct} different; {distinct - len(missing)} answered already, {len(missing)} to send, "
        f"{config.parallel_requests} at a time.",
        *_amounts(log, missing),
    ]
    for number, body in enumerate(missing[:shown], start=1):
        lines.append(f"Request {number} of {len(missing)}:")
        lines += (without_key(line, key_in(config.key_variable), config.key_variable) for line in _readable(body))
    lines.append("Nothing was sent.")
    return "\n".join(lines)


def _readable(body: Mapping[str, Any]) -> Iterator[str]:
    """Give a request line by line: settings, then each message, without what could steer a terminal."""
    yield json.dumps({name: value for name, value in body.items() if name != "messages"})
    for message in body["messages"]:
        yield f"--- {message['role']}:"
        for line in message["content"].split("\n"):
            yield "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in line)
    yield "---"


def _amounts(log: RequestLog, missing: Sequence[Mapping[str, Any]]) -> list[str]:
    """Tokens and cost of what is missing, and the budget."""
    config = log.config
    # The bound is far above what a tokenizer makes of English, so a likely number stands beside it.
    most = sum(map(max_prompt_tokens, missing))
    likely = most // BYTES_PER_TOKEN
    answers = sum(map(max_new_tokens, missing))
    lines = [f"Tokens: prompts about {likely}, at most {most}; answers at most {answers}."]
    if config.price_input or config.price_output:
        lines.append(f"Cost: about {config.cost(likely, answers):.4g}, at most {config.cost(most, answers):.4g}.")
        lines.append(f"Spent so far: {log.known.cost:.4g}, without an answer at most {log.reserved.cost:.4g}.")
    if config.max_cost is not None:
        lines.append(f"Budget: cost {config.max_cost:g}.")
    if config.max_total_tokens is not None:
        lines.append(f"Budget: {config.max_total_tokens} tokens, of which {log.known.tokens} are spent.")
    return lines
