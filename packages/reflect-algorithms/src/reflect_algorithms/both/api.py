"""Online training of both players from Python, without a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reflect_algorithms.both.archer import value_turns
from reflect_algorithms.both.reflector import OnlineReflector
from reflect_algorithms.both.settings import STAGE, ReflectorTrainingConfig
from reflect_rl import checks
from reflect_rl.agent import Agent, trainable_copy
from reflect_rl.api import Environment, online_start
from reflect_rl.config import parse
from reflect_rl.data.generate import held_out_states
from reflect_rl.errors import UserError
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.rollout import NoReflector
from reflect_rl.runs.record import begin_training, training_folder, written_by
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.types import Progress, seed_for, silent


def train_both(
    agent: Agent,
    env: Environment,
    *,
    algorithm: str | type | Mapping[str, Any] = "ppo",
    turns: int = 15_000,
    out: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    reflector: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Agent:
    """Online reinforcement learning of policy and reflection player; the agent that went in stays as it is.

    Args:
        agent: one with a reflection player of its own, as `reflect_rl.train_sft(..., reflections=True)` gives.
        env: the environment to play.
        algorithm: name of an installed one, a class, or a table of its settings with its `name`.
        turns: training budget in turns of the environment.
        out: folder for metrics and checkpoints; a training that was interrupted there goes on (None: nothing is kept).
        seed: of everything random.
        progress: told after each update.
        reflector: fields of `ReflectorTrainingConfig`: `learning_rate`, `kl_coef`, ...; `critic="archer"` is ArCHer.
        **settings: further fields of `RLFTConfig`: `starts_per_update`, `learning_rate`, ... Adapters of the policy
            have the defaults of `reflect_rl.train_rl`.

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        ModelError: a prompt is longer than the model's context, or the training does not fit into memory.
        RunFolderError: `out` holds a training with other settings.
        TrainingError: a loss or gradient is not finite.
        UserError: the agent has no reflection player that can be trained, there is no training task, `out` is a file,
            or a value is of the wrong kind.
    """
    checks.training(seed=seed, out=out, progress=progress)
    # A model alone has no reflection player, either.
    frozen = agent.reflector if isinstance(agent, Agent) else NoReflector()
    if not isinstance(frozen, FrozenReflector):
        raise UserError(
            f"the agent's reflection player is {frozen.name!r}, which cannot be trained. Train one first: "
            "reflect_rl.train_sft(..., reflections=True)."
        )
    own = parse(ReflectorTrainingConfig, dict(reflector or {}))
    begun = online_start(agent, env, settings, algorithm=algorithm, turns=turns, seed=seed, beside=frozen.model)
    spec, start, config = begun.spec, begun.agent, begun.config
    twin, writing = start.as_trained(trainable_copy(start.model)), trainable_copy(frozen.model)
    writer = OnlineReflector(
        writing,
        frozen.model,
        own,
        frozen.max_new_tokens,
        seed_for(seed, STAGE),
        frozen.numbers,
    )
    with training_folder(out) as folder:
        # Checkpoints in the folder are gone on from silently, so they must be of this very training.
        begin_training(
            folder,
            training=config,
            start=start,
            environment=spec,
            stages=config.curriculum.named_modes,
            reflector=written_by(frozen),
            reflector_training=own.model_dump_json(),
            seed=str(seed),
        )
        trainer = OnlineTrainer(
            twin,
            start.labels,
            writer,
            spec,
            config,
            folder,
            seed_for(seed, "rlft", STAGE),
            reference=start.model if config.algorithm.needs_reference else None,
            rule=start.scoring,
            excluded=held_out_states(spec, spec.modes),
        )
        if own.critic == "archer":
            value_turns(trainer, start.model, writer, own.archer)
        trainer.train(progress or silent)
    method = "reflect_rl_both"
    origin = replace(start.origin, method=method, algorithm=config.algorithm.name, seed=seed, folder=None)
    trained = FrozenReflector(writing, frozen.max_new_tokens, frozen.cache_size, frozen.numbers)
    return replace(start, model=twin, reflector=trained, origin=origin)
