"""Dry run of the chat players: what a run would send to its endpoint, and what it would cost at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from reflect_rl.players.decoding import temperature_of
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import units
from reflect_rl.types import View, stream
from reflect_rl.watchdog import guarded
from reflect_served.llm import ChatRequest, max_prompt_tokens, request_body
from reflect_served.players.policy import ChatPolicy
from reflect_served.players.reflector import ChatReflector
from reflect_served.players.run import endpoint_of
from reflect_served.settings import CHAT, asks_endpoint, endpoint_config

STARTS = 8
"""Tasks of each mode whose first requests are made."""

REFLECTION = "(what the reflection player wrote)"


def preview(config: RunConfig) -> str:
    """Describe the requests of each chat player of a run: the first in full, and the number and price at most.

    Nothing is sent and nothing is written.
    """
    parts = [part for name in config.methods if asks_endpoint(config, name) for part in _of_method(config, name)]
    return "\n\n".join(parts or ["No method of this run asks the endpoint: nothing would be sent."])


def _of_method(config: RunConfig, name: str) -> Iterator[str]:
    method, views = config.method(name), [view for mode in config.evaluated_modes for view in _starts(config, mode)]
    is_chat = method.script == CHAT
    decodings = ChatPolicy.decodings(config) if is_chat else config.evaluation.decodings
    evaluated = _episodes(config, decodings) * max(config.evaluation.horizons)
    # Training plays other states in every unit, so nothing of it is asked only once.
    trained = config.rlft.total_turns * len(list(units(config))) if method.online else 0
    if method.writer == CHAT:
        requests = [ChatReflector.for_run(config, name, "greedy").request(view) for view in views]
        # A local policy differs between the seeds of a run, and so do the states that the reflector is asked about.
        evaluated *= 1 if is_chat else len(list(units(config)))
        yield _part(config, f"{name}, reflections", requests, evaluated, trained)
    if is_chat:
        policy = ChatPolicy.for_run(config, name, decodings[0])
        # Any draw will do: requests of different samples differ in nothing that is shown.
        draw = 0.0 if temperature_of(decodings[0]) else None
        seen = [View(v.observation, v.order, REFLECTION if method.writer else None) for v in views]
        yield _part(config, f"{name}, actions", [policy.request(view, draw) for view in seen], evaluated, 0)


def _episodes(config: RunConfig, decodings: Sequence[str]) -> int:
    """Episodes of an evaluation. Chat models play the same ones in every unit of a run, and are asked once."""
    counts = [len(config.env.tasks(mode, config.evaluation.split)) for mode in config.evaluated_modes]
    return sum(counts) * sum(config.evaluation.repetitions if temperature_of(name) else 1 for name in decodings)


def _starts(config: RunConfig, mode: str) -> Iterator[View]:
    """Views of the first state of some tasks."""
    game = config.env.make()
    # A few: their lengths are measured for the price, and a person reads one.
    for task in config.env.tasks(mode, config.evaluation.split)[:STARTS]:
        what = f"{config.env.identity}, task {task.key}, start"
        start = partial(game.reset, task, stream(0, "environment"))
        observation = guarded(what, config.limits.environment_seconds, start)
        yield View(observation, tuple(range(len(observation.actions))))


def _part(config: RunConfig, title: str, requests: Sequence[ChatRequest], evaluated: int, trained: int) -> str:
    """The requests of one player: how many, and the first ones as the endpoint shows them."""
    shown = endpoint_of(config, title).preview(requests)
    count = evaluated + trained
    prompt = max(max_prompt_tokens(request_body(endpoint_config(config), request)[0]) for request in requests)
    completion = requests[0].max_new_tokens
    training = f" ({trained:,} of them in training, where validation adds more)" if trained else ""
    cost = endpoint_config(config).cost(count * prompt, count * completion)
    return (
        f"== {title}: at most {count:,} requests{training}\n"
        f"with {count * prompt:,} tokens of prompts as long as the first ones, and {count * completion:,} of answers"
        f"{f'; price at most {cost:,.2f}' if cost else ''}. Equal requests are sent once. The first {len(requests)}:\n"
        f"{shown}"
    )
