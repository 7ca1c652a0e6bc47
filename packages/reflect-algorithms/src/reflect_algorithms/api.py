"""Training from Python, without a run folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from reflect_algorithms.methods import LearnedMethod
from reflect_algorithms.settings import LearnerSteps
from reflect_algorithms.training import (
    AsksOutcome,
    Learner,
    Training,
    algorithm_of,
    end_training,
    settings_of,
    stages_of,
)
from reflect_rl import checks, registry
from reflect_rl.agent import Agent, Blueprint, Origin, trainable_copy
from reflect_rl.api import Environment, make_env, require_model
from reflect_rl.config import parse
from reflect_rl.data.generate import held_out_states
from reflect_rl.data.recorded import of_environment, refuse_held_out
from reflect_rl.errors import UserError
from reflect_rl.evaluation.methods import find_method
from reflect_rl.models.fits import check_loaded
from reflect_rl.models.load import LanguageModel
from reflect_rl.prompts import policy_prompt
from reflect_rl.rollout import NoReflector
from reflect_rl.runs.models import save_whole
from reflect_rl.runs.record import begin_training, training_folder
from reflect_rl.types import Episode, Progress, seed_for, silent, to_json


def train_offline(
    model: LanguageModel | Blueprint | Agent,
    episodes: Sequence[Episode],
    *,
    env: Environment,
    learner: str | Learner = "bc",
    out: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **settings: Any,
) -> Agent:
    """Train a policy on logged episodes; the model that went in stays as it is.

    Episodes of validation and test tasks are left out.

    Args:
        model: what to start from. Reflections are not read, so an agent's reflection player does not come along.
        episodes: the log, such as `reflect_rl.collect` or `reflect_rl.read_episodes` give.
        env: their environment; states in which held-out tasks begin are left out.
        learner: name of a method of this package, or a learner with its settings, for example
            `reflect_algorithms.learners.cloning.Cloning()`.
        out: folder for metrics, checkpoints and the model; a training that was interrupted there goes on (None:
            nothing is kept). A finished one can be used again. With learners that keep what they played (`dagger`,
            `rcrl`, `linvit`, `archer`) or a learned world (`morel`), it refuses other settings.
        seed: of everything random.
        progress: told about each logged step.
        **settings: fields of `LearnerSteps`: `steps`, `batch_size`, `learning_rate`, ...

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        ModelError: the training does not fit into memory.
        RunFolderError: `out` holds a training with other settings that was interrupted or keeps what it played.
        TrainingError: the loss or the gradient is not finite.
        UserError: an episode is of another environment, one recorded as training is of a validation or test task of
            `env`, the log lacks what the learner needs, `out` is a file, or a value is of the wrong kind; the message
            says what, and what to do.

    >>> import reflect_rl as rrl
    >>> log = rrl.collect("corridor", "random", episodes=8)
    >>> small = rrl.load_model("embedded", hidden_size=16, layers=1, heads=2)
    >>> train_offline(small, log, env="corridor", steps=2).origin.method
    'bc'
    """
    checks.recorded(episodes)
    checks.training(seed=seed, out=out, progress=progress)
    require_model(model)
    spec, config = make_env(env), parse(LearnerSteps, settings)
    log = [episode for episode in of_environment(episodes, spec.identity) if episode.task.split == "train"]
    if episodes and not log:
        raise UserError(
            f"none of the {len(episodes)} episodes is of a training task, so there is nothing to learn from."
        )
    refuse_held_out(log, spec, "train_offline")
    name, chosen = _learner(learner)
    start = _agent(model, log, spec.max_actions)
    check_loaded(start.model)
    twin = start.as_trained(trainable_copy(start.model))
    with training_folder(out) as folder:
        training = Training(
            twin,
            start.labels,
            # The model that went in is not trained, so it is the frozen copy.
            partial(_itself, start.model),
            spec,
            log,
            [task for mode in spec.modes for task in spec.tasks(mode, "train")],
            config,
            folder,
            seed_for(seed, "learn", name),
            progress or silent,
            rule=start.scoring,
            excluded=held_out_states(spec, spec.modes),
        )
        # Files in the folder are gone on from silently, also played rounds, so they must be of this very training.
        begun = begin_training(
            training.folder,
            training=config,
            start=start,
            environment=spec,
            stages=stages_of(chosen),
            learner=settings_of(chosen),
            episodes=hashlib.sha256(json.dumps([to_json(episode) for episode in log]).encode()).hexdigest(),
            seed=str(seed),
        )
        chosen.train(training)
        if out is not None:
            save_whole(twin, Path(out) / "model")
        # After the model is whole on the disk: a kill in between must find one of the two.
        end_training(begun)
    origin = Origin(name, algorithm_of(chosen), "recorded", len({episode.task.unique_key for episode in log}), seed)
    # Trained without reflections, it plays without.
    writer = chosen.reflector if isinstance(chosen, AsksOutcome) else NoReflector()
    return replace(start, model=twin, origin=origin, reflector=writer)


def _itself(model: LanguageModel) -> LanguageModel:
    return model


def _learner(learner: str | Learner) -> tuple[str, Learner]:
    """Name of a learner's method, and the learner.

    Raises:
        UnknownNameError: no method has the name.
        UserError: the method has no learner of this package.
    """
    if not isinstance(learner, str):
        return type(learner).__name__.lower(), learner
    method = find_method(learner)
    if not isinstance(method, LearnedMethod):
        raise UserError(f"learner: the method {learner!r} learns from no log. Name one of this package, such as 'bc'.")
    made: Learner = registry.find("methods", method.learner)()
    return learner, made


def _agent(model: LanguageModel | Blueprint | Agent, log: Sequence[Episode], actions: int) -> Agent:
    """The model as an agent; one that is not built yet learns its words from the log."""
    if isinstance(model, Agent):
        return model.for_actions(actions)
    if isinstance(model, LanguageModel):
        return Agent.of(model, actions)
    names = [str(number) for number in range(actions)]
    texts = [policy_prompt(turn.view, names) for episode in log for turn in episode.turns]
    return Agent.of(model.build(texts, actions), actions)
