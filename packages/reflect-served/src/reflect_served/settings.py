"""The sections that this package adds to the settings of a run; they are read without torch and without a client."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from reflect_rl.config import Section, section
from reflect_rl.evaluation.methods import find_method
from reflect_rl.rollout import Reflector
from reflect_served.llm import INSTALL, EndpointConfig, ServerAddress, check_address

if TYPE_CHECKING:  # its module looks these sections up
    from reflect_rl.runs.config import RunConfig

Answers = Literal["text", "json", "logprobs"]

CHAT = "chat"
"""Name of the chat players: the policy and the reflection player that are the model of `[endpoint]`, as it is."""

PROMPTED = "prompted"
"""Name of the prompted players: the policy and the reflection player that are the model of `[model]`, as it comes."""

FOLDER = "{folder}"
"""In the name of a served model, this stands for the folder of the run's reflection model."""


def endpoint_config(run: RunConfig) -> EndpointConfig:
    """The language model of `[endpoint]`."""
    return section(run, "endpoint", EndpointConfig)


def chat_config(run: RunConfig) -> ChatConfig:
    """The settings of `[chat]`."""
    return section(run, "chat", ChatConfig)


def prompted_config(run: RunConfig) -> PromptedConfig:
    """The settings of `[prompted]`."""
    return section(run, "prompted", PromptedConfig)


def annotation_config(run: RunConfig) -> AnnotationConfig:
    """The settings of `[data.annotation]`."""
    return section(run, "data.annotation", AnnotationConfig)


def annotator_endpoint(run: RunConfig) -> EndpointConfig:
    """The language model that annotates, where one does: its own, or that of `[endpoint]`."""
    own = annotation_config(run).endpoint
    return own if own.base_url else endpoint_config(run)


def asks_endpoint(run: RunConfig, name: str) -> bool:
    """Tell whether a player of the method is a chat model."""
    method = run.method(name)
    return CHAT in (method.script, method.writer)


class ServerConfig(ServerAddress):
    """A server of the OpenAI kind that writes the reflections, on other processors than those that train."""

    free = ("timeout_seconds", "parallel_requests", "allow_remote")
    addresses = ("base_url",)

    base_url: str = ""
    """Its address, such as `http://127.0.0.1:8000/v1` (empty: the reflection player runs in the job's own process)."""
    model: str = Field(FOLDER, min_length=1)
    """The name under which it serves the run's reflection model; `{folder}` = the folder of that model."""
    timeout_seconds: float = Field(120, gt=0, le=86_400)
    """Longest wait for one reflection; a request is tried three times."""
    parallel_requests: int = Field(32, ge=1, le=1024)
    """Requests under way at the same time."""
    allow_remote: bool = False
    """Allow a server on another machine, which is sent every state that the reflection player reads."""

    @model_validator(mode="after")
    def _address_is_allowed(self) -> Self:
        check_address(self.base_url, self.allow_remote, "every state of the game")
        return self

    def of(self, folder: Path) -> Self:
        """The same server, asked for the model of this folder."""
        return self.model_copy(update={"model": self.model.replace(FOLDER, str(folder))})

    def reflector(self, run: RunConfig, folder: Path) -> Reflector | None:
        """The reflection player that the model of this folder is, on the server; None where none is named.

        Raises:
            ModelError: the server does not answer, or does not serve the model.
        """
        if not self.base_url:
            return None
        # Here, so that settings are read without torch.
        from reflect_rl.models.load import load_reader
        from reflect_rl.runs.models import numbers_of
        from reflect_served.players.served import ServedReflector

        settings, listing = run.reflector, run.output_dir / "reflector"
        # The server completes plain text, so what the chat template adds is put around the prompt on this side.
        chat = load_reader(run.model, folder).chat
        numbers = numbers_of(run.env, settings)
        served = ServedReflector(self.of(folder), settings.max_new_tokens, settings.cache_size, listing, numbers, chat)
        # A wrong address or model name is told now and not in the middle of the first rollout.
        served.check()
        return served

    def mistakes(self, run: RunConfig) -> Iterator[str]:
        """Mistakes about the server, which each job must ask for the right model."""
        if not self.base_url:
            return
        if importlib.util.find_spec("openai") is None:
            yield INSTALL
        # One of the two would be ignored, and the user could not see which.
        if run.reflector.kind == "chat":
            yield (
                "reflector.server: it serves the run's own reflection model, and reflector.kind = 'chat' uses none. "
                "Unset reflector.server.base_url, or set reflector.kind = 'own'."
            )
        # Each trained reflection player is a model of its own, and a server answers for one name with one model.
        methods = [find_method(name) for name in run.methods]
        datasets = {method.reflector for method in methods if method.reflector in method.datasets}
        count = len(datasets) * len(run.seeds) * len(run.data.demonstration_starts)
        if count > 1 and FOLDER not in self.model:
            yield (
                f"reflector.server.model: {self.model!r} names one model, and the run has {count} reflection players. "
                f"Put {FOLDER} into the name, which stands for the folder of each, or make a run for each."
            )


class ChatConfig(Section):
    """Requests to the chat model of `[endpoint]` as a player."""

    followed_by = ("evaluation",)

    answers: Answers = "text"
    """The policy's: a thought and the line `Action: N`, the same as JSON after a schema, or the number alone, by the
    probabilities of its first token. Where a server does not offer the latter two, the text of the answer counts."""
    max_new_tokens: int = Field(512, ge=1)
    """Longest answer of the policy in tokens; of a reasoning model, with its thoughts."""
    max_reflection_tokens: int = Field(256, ge=1)
    """Longest reflection in tokens; of a reasoning model, with its thoughts."""


class PromptedConfig(Section):
    """The model of `[model]` as it comes, as a player that is asked in words."""

    followed_by = ("evaluation",)

    examples: int = Field(0, ge=0, le=100)
    """Turns of the solver, each of another training task, that every question shows (0: zero-shot)."""
    max_new_tokens: int = Field(160, ge=1)
    """Longest answer of the policy in tokens, its thought included; reflections have `reflector.max_new_tokens`."""


class AnnotationConfig(Section):
    """A language model that writes the reflections of the demonstrations (`data.annotator = "endpoint"`)."""

    actions: bool = False
    """The model chooses the action too, without knowing the best one; its choice is the label."""
    max_words: int = Field(60, ge=10, le=1000)
    """Longest reflection; of a longer one whole sentences are left out."""
    max_new_tokens: int = Field(256, ge=16, le=100_000)
    """Longest answer in tokens, thoughts of a reasoning model included."""
    endpoint: EndpointConfig = Field(default_factory=EndpointConfig.unset)
    """Server that is asked (without a `base_url`: the model of `[endpoint]`)."""
