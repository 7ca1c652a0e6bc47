"""The configuration of a run, and the methods it compares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from reflect_rl.config import EnvironmentConfig, Frozen
from reflect_rl.watchdog import Limits
from reflect_rl.data.generate import DataConfig
from reflect_rl.llm.config import EndpointConfig
from reflect_rl.envs.base import EnvSpec, spec_of
from reflect_rl.evaluation.evaluate import EvaluationConfig
from reflect_rl.models.load import ModelConfig
from reflect_rl.models.score import Rule
from reflect_rl.players.policies.chat import Answers
from reflect_rl.players.reflectors.served import ServerConfig
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.metrics import TrackerName
from reflect_rl.training.sft import SFTConfig

__all__ = [
    "CHAT",
    "LEXICAL",
    "METHODS",
    "ChatConfig",
    "Method",
    "MethodName",
    "PromptConfig",
    "ReflectorConfig",
    "RunConfig",
    "SFTStageConfig",
]

MethodName = Literal[
    "random",
    "oracle",
    "name_greedy",
    "reader",
    "advice",
    "bm25_names",
    "bm25_contents",
    "chat",
    "chat_reflect",
    "base",
    "sft",
    "rlft",
    "sft_rlft",
    "sft_reflect",
    "sft_reflect_no_negatives",
    "reflect_rl_no_negatives",
    "reflect_rl",
    "sft_lexical",
    "sft_lexical_no_negatives",
    "reflect_rl_lexical_no_negatives",
    "reflect_rl_lexical",
]


LEXICAL = "lexical"
"""The reflection player that learns nothing."""

CHAT = "chat"
"""A player that is the chat model of `[endpoint]`, as it is."""


@dataclass(frozen=True)
class Method:
    """A row of the results table: which supervised data each player learns from, and whether online RL follows."""

    reflector: str | None = None
    """Data set of the reflection player, or `LEXICAL`, or `CHAT`; None = no reflection."""
    policy: str | None = None
    """Data set of the policy player, or `CHAT`; None = the untuned model."""
    online: bool = False
    model: bool = True
    """False = a player without a language model of the run."""
    index: bool = False
    """An index of the files instead of a player."""

    @property
    def datasets(self) -> tuple[str, ...]:
        """The supervised data sets that its players learn from."""
        return tuple(name for name in (self.reflector, self.policy) if name not in (None, LEXICAL, CHAT))

    @property
    def is_lexical(self) -> bool:
        """Whether the reflections are made by comparing words."""
        return self.reflector == LEXICAL

    @property
    def is_chat(self) -> bool:
        """Whether a chat model chooses the actions."""
        return self.policy == CHAT

    def with_reflector(self, kind: Literal["own", "chat"]) -> Method:
        """The method as it is where a chat model writes in place of the reflection player that would be trained."""
        is_trained = self.reflector in self.datasets
        return replace(self, reflector=CHAT) if kind == "chat" and is_trained else self


METHODS: dict[MethodName, Method] = {
    "random": Method(model=False),
    "oracle": Method(model=False),
    "name_greedy": Method(model=False),
    "reader": Method(model=False),
    "advice": Method(LEXICAL, model=False),
    "bm25_names": Method(model=False, index=True),
    "bm25_contents": Method(model=False, index=True),
    "chat": Method(policy=CHAT, model=False),
    "chat_reflect": Method(CHAT, CHAT, model=False),
    "base": Method(),
    "sft": Method(policy="policy_plain"),
    "rlft": Method(online=True),
    "sft_rlft": Method(policy="policy_plain", online=True),
    "sft_reflect": Method("reflector", "policy_reflect"),
    "sft_reflect_no_negatives": Method("reflector_positive", "policy_reflect_positive"),
    "reflect_rl_no_negatives": Method("reflector_positive", "policy_reflect_positive", online=True),
    "reflect_rl": Method("reflector", "policy_reflect", online=True),
    "sft_lexical": Method(LEXICAL, "policy_lexical"),
    "sft_lexical_no_negatives": Method(LEXICAL, "policy_lexical_positive"),
    "reflect_rl_lexical_no_negatives": Method(LEXICAL, "policy_lexical_positive", online=True),
    "reflect_rl_lexical": Method(LEXICAL, "policy_lexical", online=True),
}


class PromptConfig(Frozen):
    """How actions are listed and scored."""

    shuffle_labels: bool = False
    """Number the actions in a random order in every state, so that the policy must read the list."""
    scoring: Rule = "choice_token"
    """`choice_token`: one label token per action; `sum` (SayCan), `token_mean` (TWOSOME): the action's own text."""


class ReflectorConfig(Frozen):
    """The frozen reflection player."""

    kind: Literal["own", "chat"] = "own"
    """Who writes: the model that the run trains for it, or, in its place, the chat model of `[endpoint]` as it is."""
    max_new_tokens: int = Field(96, ge=1)
    """Longest reflection in tokens."""
    cache_size: int = Field(50_000, ge=0)
    """Reflections kept in memory; greedy decoding makes them a function of the prompt."""
    set_numbers: bool = True
    """In games that number their actions, set right the number behind the action that a reflection recommends: small
    models copy names well and numbers badly, and the state says the number."""
    server: ServerConfig = Field(default_factory=ServerConfig)
    """A server that writes the reflections."""


class ChatConfig(Frozen):
    """What the chat model of `[endpoint]` is asked as a player."""

    answers: Answers = "text"
    """The policy's: a thought and the line `Action: N`, the same as JSON after a schema, or the number alone, by the
    probabilities of its first token. Where a server does not offer the latter two, the text of the answer counts."""
    max_new_tokens: int = Field(512, ge=1)
    """Longest answer of the policy in tokens; of a reasoning model, with its thoughts."""
    max_reflection_tokens: int = Field(256, ge=1)
    """Longest reflection in tokens; of a reasoning model, with its thoughts."""


class SFTStageConfig(Frozen):
    """Supervised training of each model; the positive-only variants use the same settings."""

    base: SFTConfig = Field(default_factory=SFTConfig)
    """The embedded model, reading plain text before anything else (other models come trained)."""
    reflector: SFTConfig = Field(default_factory=SFTConfig)
    """The reflection player."""
    policy_plain: SFTConfig = Field(default_factory=SFTConfig)
    """The policy without reflection."""
    policy_reflect: SFTConfig = Field(default_factory=SFTConfig)
    """The policy with reflection."""
    policy_lexical: SFTConfig = Field(default_factory=SFTConfig)
    """The policy with lexical reflections (games whose states can be compared word by word)."""


class RunConfig(Frozen):
    """A run: data -> SFT -> RLFT -> evaluation -> report, for several methods and seeds."""

    output_dir: Path = Path("runs/default")
    """The run folder. An interrupted or finished run in it goes on where it was."""
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    """Root seeds; everything random in a seed's run follows from it."""
    methods: tuple[MethodName, ...] = Field(("random", "sft", "sft_reflect", "reflect_rl"), min_length=1)
    """Methods to compare."""
    workers: int = Field(2, ge=1, le=256)
    """Jobs run at the same time, each in a process of its own."""
    threads: int = Field(1, ge=1, le=256)
    """Threads of each job."""
    start_from: Path | None = None
    """A run folder whose data and supervised models are used instead of making them again (unset: make them); `eval`
    uses what was trained online there, too."""
    trackers: tuple[TrackerName, ...] = ()
    """Where curves are shown besides `metrics.jsonl`: `tensorboard`, `wandb` (sends them away), `trackio`."""
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    """The benchmark."""
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    """How actions are listed and scored."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    """The language model that both players start from."""
    data: DataConfig = Field(default_factory=DataConfig)
    """Demonstrations."""
    reflector: ReflectorConfig = Field(default_factory=ReflectorConfig)
    """The frozen reflection player."""
    endpoint: EndpointConfig = Field(default_factory=EndpointConfig)
    """The chat model of `chat`, `chat_reflect`, `reflector.kind = "chat"` and `data.annotator = "endpoint"`."""
    chat: ChatConfig = Field(default_factory=ChatConfig)
    """What it is asked as a player."""
    sft: SFTStageConfig = Field(default_factory=SFTStageConfig)
    """Supervised training."""
    rlft: RLFTConfig = Field(default_factory=RLFTConfig)
    """Online RL fine-tuning."""
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    """Evaluation."""
    limits: Limits = Field(default_factory=Limits)
    """The watchdog."""

    @cached_property
    def env(self) -> EnvSpec:
        """The environment with its settings, resolved once and handed down.

        Raises:
            UnknownNameError: no environment has the configured name.
        """
        return spec_of(self.environment)

    @cached_property
    def horizons(self) -> tuple[int, ...]:
        """Horizons of the evaluation."""
        return self.evaluation.horizons or self.env.horizons

    @property
    def annotator_endpoint(self) -> EndpointConfig:
        """The language model that annotates, where one does: its own, or that of `[endpoint]`."""
        own = self.data.annotation.endpoint
        return own if own.base_url else self.endpoint

    def method(self, name: MethodName) -> Method:
        """A method as it is in this run."""
        return METHODS[name].with_reflector(self.reflector.kind)

    @model_validator(mode="after")
    def _no_repetition(self) -> RunConfig:
        for key in ("seeds", "methods", "trackers"):
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"{key}: an entry is repeated in {list(values)}")
        return self
