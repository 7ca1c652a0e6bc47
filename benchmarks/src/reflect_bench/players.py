"""Players of the benchmark: two language models with trained or random weights, and the game."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch

from reflect_bench.options import BenchOptions, Shape
from reflect_bench.shapes import PRETRAINED, build, pretrained, texts_of
from reflect_rl.config import EmbeddedConfig, parse
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.dangerous_taxi import DangerousTaxi
from reflect_rl.errors import RunFolderError
from reflect_rl.models.labels import Labels, find_labels
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import units
from reflect_rl.store import read_json
from reflect_rl.types import Decision, View

PlayerName = Literal["policy_reflect", "reflector"]
PLAYERS: tuple[PlayerName, ...] = get_args(PlayerName)
"""Names of their data sets, and so of their folders in a run."""
SOLVER_SHARE = 0.95
"""Probability with which the solver's action is played: a fifth of the prompts of an update then differ, as in a whole
training with noisy labels (33% at its beginning, 14% at its end)."""


class GuidedPolicy:
    """Computes what the policy computes, but plays the solver's action with probability `SOLVER_SHARE`.

    A policy with random weights dies after two turns; what is measured should be episodes as training plays them.
    """

    sees_oracle = True

    def __init__(self, policy: LanguageModelPolicy) -> None:
        self.policy, self.name = policy, policy.name

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The policy's probabilities; its action or the solver's."""
        decisions = self.policy.decide([replace(view, oracle=None) for view in views], rngs)
        return [self._guided(*parts) for parts in zip(decisions, views, rngs, strict=True)]

    def _guided(self, decision: Decision, view: View, rng: np.random.Generator) -> Decision:
        if view.oracle is None or rng.random() >= SOLVER_SHARE:
            return decision
        return replace(decision, index=view.oracle.best)


@dataclass
class Cast:
    """The parts of online training."""

    policy: LanguageModel
    reflector: LanguageModel
    labels: Labels
    spec: EnvSpec
    mode: str
    max_new_tokens: int
    """Longest reflection of ours."""
    shuffle_labels: bool
    weights: str
    """`random`, `pretrained`, or the folder of the run that trained them."""
    actions: Literal["policy", "solver"]
    """Player that chooses the actions."""


def cast(options: BenchOptions, shape: Shape, device: torch.device) -> Cast:
    """The parts for a shape.

    Raises:
        RunFolderError: the run has no trained players.
    """
    run = settings_of(options)
    spec = run.env if options.run is not None else EnvSpec.of(DangerousTaxi)
    policy, reflector = (player(options, shape, device, name) for name in PLAYERS)
    trained = _trained(options, shape)
    return Cast(
        policy,
        reflector,
        find_labels(policy, spec.max_actions),
        spec,
        spec.modes[-1],
        run.reflector.max_new_tokens,
        run.prompt.shuffle_labels,
        str(options.run) if trained else "pretrained" if shape == PRETRAINED else "random",
        ("policy" if trained else "solver") if options.actions == "auto" else options.actions,
    )


def player(options: BenchOptions, shape: Shape, device: torch.device, name: PlayerName) -> LanguageModel:
    """Language model of one of the two players, with the same weights at every call.

    With a run it is the player of the first unit as supervised training left it, before online training.

    Raises:
        RunFolderError: the run has no such player.
        ModelError: the pretrained model was not downloaded yet.
    """
    run = settings_of(options)
    if shape == PRETRAINED:
        return pretrained(options.device, options.precision, trainable=name == "policy_reflect")
    if not _trained(options, shape):
        spec = run.env if options.run is not None else EnvSpec.of(DangerousTaxi)
        embedded = run.model.embedded if shape == "embedded" else EmbeddedConfig()
        texts = texts_of(spec, seed=0)
        return build(shape, texts, PLAYERS.index(name), embedded, device, options.precision)
    folder = _folder(run, name)
    config = run.model.model_copy(update={"device": options.device, "precision": options.precision})
    return load_model(config, folder, trainable=name == "policy_reflect")


def check_run(options: BenchOptions) -> None:
    """Refuse a run whose players are needed and were not trained, before minutes of measuring.

    Raises:
        RunFolderError: it has no configuration, or one of the players is missing.
    """
    run = settings_of(options)
    if "embedded" in (options.shapes or ("embedded",)):
        for name in PLAYERS:
            _folder(run, name)


def _folder(run: RunConfig, name: PlayerName) -> Path:
    """Folder of the model of a player, in the first unit of a run."""
    folder = next(units(run)).model(name)
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is missing. Name a run that trained reflect_rl, or leave --run out.")
    return folder


def _trained(options: BenchOptions, shape: Shape) -> bool:
    return options.run is not None and shape == "embedded"


def settings_of(options: BenchOptions) -> RunConfig:
    """The run's configuration, or the default one."""
    if options.run is None:
        return RunConfig()
    values = read_json(options.run / "config.json", "Name a run folder, or leave --run out.")
    return parse(RunConfig, {**values, "output_dir": str(options.run)})
