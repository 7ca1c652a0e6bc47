"""Agents on the disk: those that `Agent.save` wrote, and the methods of a finished run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from reflect_rl.agent import AGENT, SAVED, Agent, AgentRecord, Origin
from reflect_rl.config import ModelConfig, parse
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import RunFolderError, UnknownNameError, UserError, suggestion
from reflect_rl.evaluation.evaluate import algorithm_of
from reflect_rl.models.load import load_model
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.rollout import NoReflector
from reflect_rl.runs.config import ReflectorConfig, RunConfig, values_of_run
from reflect_rl.runs.evaluate import load_players
from reflect_rl.runs.folder import CARD, units
from reflect_rl.runs.models import REFLECTOR, numbers_of
from reflect_rl.store import read_json

Precision = Literal["float32", "mixed", "bfloat16"]


def saved_agent(folder: Path, spec: EnvSpec | None, device: str, precision: Precision) -> Agent:
    """The agent that `Agent.save` wrote.

    Args:
        folder: of the agent.
        spec: its environment; needed where this numbers its actions in its states.
        device: for both players.
        precision: number format of both.

    Raises:
        ConfigError: the record is of another version, or damaged.
        ModelError: a model cannot be loaded.
        UserError: the environment is missing, or the reflection player was an object of the caller's own.
    """
    record = parse(AgentRecord, read_json(folder / AGENT, "Save the agent again."))
    settings = parse(ModelConfig, {"path": str(folder), "device": device, "precision": precision})
    model = load_model(settings, trainable=False)
    agent = replace(Agent.of(model, len(model.labels)), origin=record.origin)
    if record.reflector == NoReflector.name:
        return agent
    if record.reflector != SAVED:
        raise UserError(
            f"{folder} has an agent whose reflection player {record.reflector!r} was not saved with it, as it is no "
            "trained model. Load the policy alone with load_model, and give this player as reflector=."
        )
    if record.sets_numbers and spec is None:
        raise UserError(
            f"the reflection player in {folder} has its numbers corrected by the environment. Give it as env=."
        )
    numbers = None if spec is None or not record.sets_numbers else numbers_of(spec, ReflectorConfig())
    writer = load_model(settings, folder / REFLECTOR, trainable=False)
    return replace(agent, reflector=FrozenReflector(writer, record.max_new_tokens, numbers=numbers))


def agent_of_run(
    folder: Path, method: str | None, unit: str, env: str | None, device: str, precision: Precision | None
) -> Agent:
    """The two players of a method, as a run has trained them.

    Args:
        folder: of the run.
        method: a method of the run (None: its only one with a model).
        unit: one of the run, such as `starts-100/seed-0`; empty = the first.
        env: the run's environment, if it is `package.module:Class`: a run folder alone imports nothing.
        device: for both players.
        precision: number format of both (None: the run's).

    Raises:
        RunFolderError: no run, or the method is not trained yet.
        UnknownNameError: the run has no such method or unit, or names a module that nobody installed.
        UserError: the method has no model, or several could be meant.
    """
    # A model has a `config.json`, too.
    if not (folder / CARD).is_file():
        raise RunFolderError(
            f"{folder} is neither the folder of a run nor of an agent that Agent.save wrote. Name one; a model alone "
            "is loaded by load_model."
        )
    # A run from Python has no configuration, as its environment and players may be anything.
    if not (folder / "config.json").is_file():
        raise RunFolderError(
            f"{folder} was written from Python. Repeat the call with the same out, which trains nothing anew, or load "
            "what agent.save(...) wrote."
        )
    config = parse(RunConfig, values_of_run(folder, [env] if env else []))
    changes = {"device": device} | ({} if precision is None else {"precision": precision})
    model = parse(ModelConfig, config.model.model_dump() | changes)
    config = config.model_copy(update={"model": model})
    trained = [name for name in config.methods if config.method(name).model]
    if method is None and len(trained) != 1:
        raise UserError(f"{folder} has the trained methods {', '.join(trained) or 'none'}. Name one with method=.")
    name = trained[0] if method is None else method
    if name not in trained:
        raise UnknownNameError(f"{folder} has no trained method {name!r}. {suggestion(name, trained)}")
    known = {found.name: found for found in units(config)}
    if unit and unit not in known:
        raise UnknownNameError(f"{folder} has no unit {unit!r}. {suggestion(unit, known)}")
    chosen = known[unit] if unit else next(iter(known.values()))
    writer, policy = load_players(config, chosen, name, "sampled")
    if not isinstance(policy, LanguageModelPolicy):
        raise UserError(f"the method {name!r} of {folder} plays by a program and has no model.")
    algorithm = algorithm_of(config.method(name), config.rlft.algorithm.name)
    origin = Origin(name, algorithm, config.data.label_source, chosen.budget, chosen.seed)
    return Agent(policy.model, policy.labels, writer, policy.rule, origin)
