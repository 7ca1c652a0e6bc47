"""Models and players as the Python API hands them around."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from peft import PeftModel

from reflect_rl import checks, registry
from reflect_rl.config import AlgorithmConfig, EmbeddedConfig, Frozen, Rule
from reflect_rl.envs.base import EnvSpec, HasSolver, HasTeacher
from reflect_rl.errors import UserError
from reflect_rl.models.embedded import build_for
from reflect_rl.models.labels import Labels, find_labels
from reflect_rl.models.load import LanguageModel, check_weights, device_of
from reflect_rl.models.score import check_scoring
from reflect_rl.models.source import ADAPTER_CONFIG
from reflect_rl.players.decoding import temperature_of
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.players.scripted import LexicalReflector, OraclePolicy, OracleReflector
from reflect_rl.rollout import NoReflector, Policy, Reflector
from reflect_rl.runs.config import BuiltForRun
from reflect_rl.runs.models import REFLECTOR, lexical_reflector
from reflect_rl.store import flush, flush_all, scratch_folder, write_json
from reflect_rl.types import Decoding, Observation, View, seed_for, stream


@dataclass(frozen=True)
class Blueprint:
    """A small model that does not exist yet: its tokenizer is learned from the texts of its first training."""

    shape: EmbeddedConfig = field(default_factory=EmbeddedConfig)
    device: str = "auto"
    seed: int = 0
    """Seed of the random weights."""

    def build(self, texts: Sequence[str], labels: int) -> LanguageModel:
        """The model, with random weights.

        Args:
            texts: prompts with their answers, as they will occur.
            labels: number of actions that it must be able to name.

        Raises:
            ModelError: there are no texts, or the vocabulary is too small.
        """
        seed, rng = seed_for(self.seed, "embedded model"), stream(self.seed, "vocabulary")
        # Labels are given, so that each gets a token of its own, which scoring a choice needs.
        model = build_for(texts, self.shape, seed, [str(number) for number in range(labels)], rng)
        # Built on the CPU and then moved: random weights are the same whatever the device.
        placed: Any = model.model
        return replace(model, model=placed.to(device_of(self.device)))


@dataclass(frozen=True)
class Origin:
    """Origin of an agent, for the rows of results."""

    method: str = "base"
    """The row of the results table that this training makes, for example `sft_rlft`."""
    algorithm: str = "none"
    label_source: str = "none"
    """Source of the labels of its supervised training; `none` = there was none."""
    starts: int = 0
    """Different tasks of its supervised training."""
    seed: int = 0
    folder: Path | None = None
    """Folder of its last training, where evaluations of it are noted."""
    environment: str = ""
    """Name by which the game of its last training is found (`EnvSpec.found_by`); empty: not known."""


AGENT = "agent.json"
"""Name of the file beside an agent's weights that says where it comes from, and who writes its reflections."""
SAVED = "saved"
"""Value of `AgentRecord.reflector` where the reflection player lies beside the policy."""


class AgentRecord(Frozen):
    """Contents of `agent.json`."""

    version: Literal[1] = 1
    """Version of this file."""
    method: str
    algorithm: str
    label_source: str
    starts: int
    seed: int
    reflector: str
    """`none`, `SAVED`, or the name of a player that is no trained model and was not saved."""
    max_new_tokens: int = 0
    """Longest reflection of a saved player, in tokens."""
    sets_numbers: bool = False
    """True = the environment corrects the numbers in its reflections."""
    environment: str = ""
    """The game of its last training; empty: not known, or the file is older than this note."""

    @property
    def origin(self) -> Origin:
        """Origin of the agent; evaluations of it are noted nowhere."""
        origin = Origin(self.method, self.algorithm, self.label_source, self.starts, self.seed)
        return replace(origin, environment=self.environment)


@dataclass(frozen=True)
class Agent:
    """A policy with its reflection player."""

    model: LanguageModel
    """The policy's model."""
    labels: Labels
    """Names of the listed actions, as many as it was trained with; the first ones never change."""
    reflector: Reflector = field(default_factory=NoReflector)
    scoring: Rule = "choice_token"
    origin: Origin = field(default_factory=Origin)

    def __repr__(self) -> str:
        """Facts in one line; the parts themselves would print whole networks."""
        origin, writer = self.origin, self.reflector
        facts: dict[str, object] = {
            "method": origin.method,
            "algorithm": origin.algorithm,
            "environment": origin.environment,
            "starts": origin.starts,
            "seed": origin.seed,
            "model": self.model.name or "embedded",
            "labels": len(self.labels.texts),
            "reflector": writer.name,
            "reflector_model": (writer.model.name or "embedded") if isinstance(writer, FrozenReflector) else "",
            "folder": str(origin.folder or ""),
        }
        return f"Agent({', '.join(f'{name}={fact!r}' for name, fact in facts.items() if fact != '')})"

    def policy(self, decoding: Decoding = "sampled") -> LanguageModelPolicy:
        """The policy player.

        Args:
            decoding: `sampled` at temperature 1, `greedy`, or `sampled@T` at another temperature.
        """
        return LanguageModelPolicy(self.model, self.labels, decoding, self.scoring, name=self.origin.method)

    def act(
        self, observation: Observation, decoding: Decoding = "greedy", rng: np.random.Generator | None = None
    ) -> int:
        """The index of the action to take now, for a loop of your own; the reflection player writes first.

        Each call reads its state anew; `evaluate` and `collect` keep what the states of a game share.

        Args:
            observation: what a game shows, with the actions that it admits.
            decoding: as in `policy`.
            rng: draws a sampled action (None: a fresh generator).

        Raises:
            UserError: it is no observation, or the reflection player asks a solver, so only `evaluate` and `collect`
                can play it.
        """
        if not isinstance(observation, Observation):
            raise UserError(f"{observation!r:.100} is no observation. Give that of reset, or step(...).observation.")
        if self.reflector.sees_oracle:
            raise UserError(
                f"the reflection player {self.reflector.name!r} asks a solver, and an observation has none. Play by "
                "rrl.evaluate or rrl.collect."
            )
        view = View(observation, tuple(range(len(observation.actions))))
        reflected = replace(view, reflection=self.reflector.reflect([view])[0])
        policy = self.for_actions(len(observation.actions)).policy(decoding)
        return policy.decide([reflected], [np.random.default_rng() if rng is None else rng])[0].index

    def for_actions(self, count: int) -> Agent:
        """The agent with labels for `count` actions; those that it knows keep their names.

        Raises:
            ModelError: its tokenizer has fewer one-token labels.
        """
        if len(self.labels.texts) >= count:
            return self
        return replace(self, labels=find_labels(self._with_labels(), count, self.scoring))

    def save(self, folder: str | Path) -> Path:
        """Write both players: `load_agent` reads them, and `load_model` the policy alone; the folder.

        The policy is a Hugging Face folder, in which a trained reflection player lies under `reflector`. With an
        adapter, only the adapter is written. A reflection player that is no trained model is named and not written.
        An agent that was saved there before stays until the new one is written.

        Raises:
            UserError: the folder is a file, holds a model that is no agent's, or the base model of an adapter.
        """
        checks.no_file(folder)
        place, writer = Path(folder), self.reflector
        # A base model that an adapter is written into can be loaded no more, and one that is replaced is lost.
        has_model = any((place / name).is_file() for name in ("config.json", "adapter_config.json"))
        if has_model and not (place / AGENT).is_file():
            raise UserError(
                f"{place} holds a model and no {AGENT}, so Agent.save did not write it, or not to its end. Give "
                "another folder, or delete this one."
            )
        trained = writer if isinstance(writer, FrozenReflector) else None
        models = [self._with_labels(), *([trained.model] if trained is not None else [])]
        bases = [Path(model.name) for model in models if model.has_adapter]
        if any(base.is_dir() and place.is_dir() and base.samefile(place) for base in bases):
            raise UserError(f"{place} holds the base model that this agent's adapter stands on. Give another folder.")
        origin = self.origin
        record = AgentRecord(
            method=origin.method,
            algorithm=origin.algorithm,
            label_source=origin.label_source,
            starts=origin.starts,
            seed=origin.seed,
            reflector=writer.name if trained is None else SAVED,
            max_new_tokens=0 if trained is None else trained.max_new_tokens,
            sets_numbers=trained is not None and trained.numbers is not None,
            environment=origin.environment,
        )
        # Beside its place, so that what is there is a whole agent, the old one or the new one, also after a kill.
        with scratch_folder(place.absolute()) as fresh:
            for model, name in zip(models, ("", REFLECTOR), strict=False):
                model.save(fresh / name)
            write_json(fresh / AGENT, record.model_dump(mode="json"))
            flush_all(fresh)
            _take_place(fresh, place)
        return place

    def _with_labels(self) -> LanguageModel:
        """The model with the rule and the labels that it was trained with; an untrained one has learned none."""
        return self.model if self.origin.method == "base" else self.as_trained(self.model)

    def as_trained(self, model: LanguageModel) -> LanguageModel:
        """A copy of the agent's model with the rule and the labels under which it is trained."""
        labels = self.labels.texts if self.scoring == "choice_token" else model.labels
        return replace(model, rule=self.scoring, labels=labels)

    @classmethod
    def of(cls, model: LanguageModel, actions: int) -> Agent:
        """An untrained agent.

        Args:
            model: its policy.
            actions: number of labels that it needs.

        Raises:
            ModelError: the tokenizer has fewer labels, or the model cannot be scored.
        """
        check_scoring(model)
        # All that it has learned, since further ones follow the last of them.
        rule = model.rule or "choice_token"
        return cls(model, find_labels(model, max(actions, len(model.labels)), rule), scoring=rule)


Player = Policy | Agent | LanguageModel | str
"""A player as callers name one: the last is the name of an installed policy."""
Writer = Reflector | str
"""A reflection player as callers name one: the last is the name of an installed one."""


def players_of(policy: Player, reflector: Writer | None, spec: EnvSpec, decoding: Decoding) -> tuple[Policy, Reflector]:
    """The two players of a call.

    Args:
        policy: the player; an agent brings its reflection player, a model plays as it is.
        reflector: who writes in place of that one (None: nobody does).
        spec: the environment that they play.
        decoding: of an agent.

    Raises:
        UnknownNameError: nothing installed has the name, or there is no such decoding.
        UserError: what was given is no player, needs the settings of a run, or needs what the game cannot do.
    """
    temperature_of(decoding)
    writer = None if reflector is None else _writer(reflector, spec)
    if isinstance(policy, Blueprint):
        raise UserError(
            "this model has no words yet, so it cannot play: train it first, or give load_model texts to learn its "
            "tokenizer from."
        )
    if isinstance(policy, LanguageModel):
        policy = Agent.of(policy, spec.max_actions)
    if isinstance(policy, Agent):
        return policy.for_actions(spec.max_actions).policy(decoding), writer or policy.reflector
    if isinstance(policy, str):
        found = registry.find("policies", policy)
        if isinstance(found, BuiltForRun):
            raise UserError(
                f"the player {policy!r} is made from the settings of a run. Name it in a run file's methods."
            )
        if found is OraclePolicy:
            # Where an expert is silent it plays anything; without one that would be every turn.
            spec.needed(HasSolver, "the player 'oracle'")
        named: Policy = found()
        return named, writer or NoReflector()
    if isinstance(policy, type) or not isinstance(policy, Policy):
        raise UserError(
            f"{policy!r:.200} is no player. Give an Agent, an object with name, sees_oracle and decide, or a name."
        )
    return policy, writer or NoReflector()


def _writer(reflector: Writer, spec: EnvSpec) -> Reflector:
    """The reflection player of a name, or the one that was given."""
    if not isinstance(reflector, str):
        checks.writes(reflector)
        return reflector
    found = registry.find("reflectors", reflector)
    if isinstance(found, BuiltForRun):
        raise UserError(
            f"the reflection player {reflector!r} is made from the settings of a run. Name it in a run file's "
            "[reflector] kind."
        )
    if found is LexicalReflector:
        return lexical_reflector(spec)
    if found is OracleReflector:
        spec.needed(HasTeacher, "the reflection player 'oracle'")
    named: Reflector = found()
    return named


def _take_place(fresh: Path, place: Path) -> None:
    """Move a saved agent to its place, over the one that was there; other files that lie there stay."""
    if (place / AGENT).is_file():
        # First, as a folder without it is no agent if this is interrupted.
        (place / AGENT).unlink()
        shutil.rmtree(place / REFLECTOR, ignore_errors=True)
        # An adapter that stayed would be read in place of a whole model.
        for name in ("config.json", ADAPTER_CONFIG, "*.safetensors", "*.safetensors.index.json"):
            for old in place.glob(name):
                old.unlink()
    files = [file.relative_to(fresh) for file in fresh.rglob("*") if file.is_file()]
    for file in sorted(files, key=lambda file: file.name == AGENT):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (fresh / file).replace(place / file)
    for folder in {(place / file).parent for file in files}:
        flush(folder)


def algorithm_settings(algorithm: str | type | Mapping[str, Any]) -> AlgorithmConfig | dict[str, Any]:
    """The table of an algorithm; a class is named by where it can be imported from.

    Args:
        algorithm: a name, a class, or a table of settings with its `name`.

    Raises:
        UserError: it is something else, or a class that is defined inside a function.
    """
    if isinstance(algorithm, str):
        return {"name": algorithm}
    if isinstance(algorithm, type):
        # By name, since settings are kept as JSON and a resumed training must find the class again.
        if "<locals>" in algorithm.__qualname__:
            raise UserError(f"the algorithm {algorithm.__qualname__!r} is found by name: define it at module level.")
        return {"name": f"{algorithm.__module__}:{algorithm.__qualname__}"}
    if not isinstance(algorithm, Mapping):
        raise UserError(
            f"the algorithm is {algorithm!r}, which is no name, class or table of settings. Give algorithm='ppo'."
        )
    return dict(algorithm)


def trainable_copy(model: LanguageModel) -> LanguageModel:
    """A copy with weights of its own, so that training it leaves the model as it was.

    Weights that are frozen under an adapter are shared: they never change.

    Raises:
        ModelError: all weights would be trained, and their format is too coarse for it.
    """
    network: Any = model.model
    weights = list(network.parameters())
    shares = any(weight.requires_grad for weight in weights)
    # deepcopy takes what its memo holds as copied already, so a large base under an adapter is in memory once.
    frozen = {id(weight): weight for weight in weights if shares and not weight.requires_grad}
    twin = copy.deepcopy(network, dict(frozen))
    if not shares and isinstance(twin, PeftModel):  # it was frozen for play
        twin.set_adapter(twin.active_adapters[0])
    elif not shares:
        check_weights(twin)
        twin.requires_grad_(True)
    for weight in twin.parameters():
        # Gradients of an earlier training would otherwise be added to the first of the next.
        weight.grad = None
    return replace(model, model=twin.eval())


def chosen_tasks(count: int, wanted: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Number and copy of each task to play: all in a random order, then all again.

    >>> sorted(chosen_tasks(2, 3, np.random.default_rng(0)))[1:]
    [(0, 1), (1, 0)]
    """
    order = rng.permutation(count).tolist()
    return [(order[place % count], place // count) for place in range(wanted)]
