"""Training on preferences from Python, without a run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from reflect_algorithms.comparisons import Comparison, split_by_start
from reflect_algorithms.preferences.dpo import DPO
from reflect_algorithms.preferences.reward_model import RewardModel, train_reward
from reflect_algorithms.preferences.settings import RewardConfig
from reflect_algorithms.settings import LearnerSteps
from reflect_algorithms.training import Learner, Training, algorithm_of, end_training, settings_of, stages_of
from reflect_rl import checks
from reflect_rl.agent import Agent, Origin, trainable_copy
from reflect_rl.api import Environment, make_env
from reflect_rl.config import parse
from reflect_rl.data.generate import held_out_states
from reflect_rl.errors import UserError
from reflect_rl.models.fits import check_loaded
from reflect_rl.models.load import LanguageModel
from reflect_rl.rollout import NoReflector
from reflect_rl.runs.models import save_whole
from reflect_rl.runs.record import begin_training, training_folder
from reflect_rl.types import Progress, seed_for, silent

Made = TypeVar("Made")


def train_on_preferences(
    model: LanguageModel | Agent,
    comparisons: Sequence[Comparison] = (),
    *,
    env: Environment,
    learner: Learner | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    held_out: float = 0.2,
    progress: Progress | None = None,
    **settings: Any,
) -> Agent:
    """Train a policy on pairs; the model that went in stays as it is, and is the reference.

    Args:
        model: the policy to start from. Reflections are not read, so an agent's reflection player does not come along.
        comparisons: pairs of training starts (`reflect_algorithms.preferences.pairs.comparisons_of`); none for a
            learner that has its reward model already.
        env: their environment.
        learner: with its settings, for example `RRHF()` or `RLHF(reward=...)` (None: `DPO()`).
        out: folder for metrics, checkpoints, `card.json` and the model; a training that was interrupted there goes on
            (None: nothing is kept). A finished one can be used again.
        seed: of everything random.
        held_out: share of the starts whose pairs are measured with and not learned from.
        progress: told about each logged step.
        **settings: fields of `LearnerSteps`: `steps`, `batch_size`, `learning_rate`, ...

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        ModelError: the training does not fit into memory.
        RunFolderError: `out` holds an interrupted training with other settings.
        TrainingError: the loss or the gradient is not finite.
        UserError: there are no pairs, or pairs of one start alone, `out` is a file, or a value is of the wrong kind.
    """
    checks.training(seed=seed, out=out, progress=progress)
    chosen = learner or DPO()
    start = _agent(model, env)
    name = type(chosen).__name__.lower()

    def do(training: Training) -> Agent:
        chosen.train(training)
        trained = start.as_trained(training.model)
        if out is not None:
            save_whole(trained, Path(out) / "model")
        origin = Origin(name, algorithm_of(chosen), "preferences", len({one.start for one in comparisons}), seed)
        return replace(start, model=trained, reflector=NoReflector(), origin=origin)

    return _trained(
        start,
        comparisons,
        env,
        out=out,
        seed=seed_for(seed, "learn", name),
        held_out=held_out,
        progress=progress,
        settings=settings,
        chosen=settings_of(chosen),
        stages=stages_of(chosen),
        do=do,
    )


def learn_reward(
    model: LanguageModel | Agent,
    comparisons: Sequence[Comparison],
    *,
    env: Environment,
    config: RewardConfig | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    held_out: float = 0.2,
    progress: Progress | None = None,
    **settings: Any,
) -> RewardModel:
    """Train a reward model on pairs; the arguments are those of `train_on_preferences`.

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        ModelError: the training does not fit into memory.
        RunFolderError: `out` holds an interrupted training with other settings.
        TrainingError: the loss or the gradient is not finite.
        UserError: there are no pairs, or pairs of one start alone, `out` is a file, or a value is of the wrong kind.
    """
    checks.training(seed=seed, out=out, progress=progress)
    start, own = _agent(model, env), config or RewardConfig()

    def do(training: Training) -> RewardModel:
        return train_reward(training, own)

    return _trained(
        start,
        comparisons,
        env,
        out=out,
        seed=seed_for(seed, "reward"),
        held_out=held_out,
        progress=progress,
        settings=settings,
        chosen=[own.model_dump_json()],
        do=do,
    )


def _agent(model: LanguageModel | Agent, env: Environment) -> Agent:
    """The model as an agent, if a copy of it can be trained."""
    if not isinstance(model, (Agent, LanguageModel)):
        raise UserError(f"{model!r:.200} is no model to start from. Train one first: reflect_rl.train_sft(...).")
    check_loaded(model.model if isinstance(model, Agent) else model)
    actions = make_env(env).max_actions
    return model.for_actions(actions) if isinstance(model, Agent) else Agent.of(model, actions)


def _trained(  # noqa: PLR0913 (the arguments of both calls meet here)
    start: Agent,
    comparisons: Sequence[Comparison],
    env: Environment,
    *,
    out: str | Path | None,
    seed: int,
    held_out: float,
    progress: Progress | None,
    settings: dict[str, Any],
    chosen: list[str],
    stages: Sequence[str] = (),
    do: Callable[[Training], Made],
) -> Made:
    spec, config = make_env(env), parse(LearnerSteps, settings)
    learned, measured = split_by_start(comparisons, held_out, seed) if comparisons else ([], [])
    with training_folder(out) as folder:
        training = Training(
            trainable_copy(start.model),
            start.labels,
            # The model that went in is not trained, so it is the frozen copy.
            lambda: start.model,
            spec,
            episodes=(),
            tasks=(),
            config=config,
            folder=folder,
            seed=seed,
            progress=progress or silent,
            rule=start.scoring,
            excluded=held_out_states(spec, spec.modes),
            comparisons=learned,
            held_out=measured,
        )
        # Files in the folder are gone on from silently, also played rounds, so they must be of this very training.
        begun = begin_training(
            training.folder,
            training=config,
            start=start,
            environment=spec,
            stages=stages,
            learner=chosen,
            pairs=hashlib.sha256(repr([learned, measured]).encode()).hexdigest(),
            seed=str(seed),
        )
        made = do(training)
        end_training(begun)
    return made
