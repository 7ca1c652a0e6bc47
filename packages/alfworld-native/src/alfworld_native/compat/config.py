"""Configuration of alfworld, as `AlfredTWEnv` reads it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args

from alfworld_native.compat.keys import unknown_keys
from alfworld_native.errors import GameError, suggestion
from alfworld_native.record import TASK_TYPES, TaskType
from alfworld_native.sources import OfficialSplit

TrainEval = Literal["train", "eval_in_distribution", "eval_out_of_distribution"]
"""alfworld's names of the splits."""

ExpertType = Literal["handcoded", "planner"]

PATH_KEYS: Final[Mapping[TrainEval, str]] = {
    "train": "data_path",
    "eval_in_distribution": "eval_id_data_path",
    "eval_out_of_distribution": "eval_ood_data_path",
}

SPLITS: Final[Mapping[TrainEval, OfficialSplit]] = {
    "train": "train",
    "eval_in_distribution": "valid_seen",
    "eval_out_of_distribution": "valid_unseen",
}
"""alfworld's names of the splits -> those of the data."""

Value = TypeVar("Value")


class UnknownKeyWarning(UserWarning):
    """A configuration has a key that alfworld does not know; it is passed over, as alfworld does."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the environment, checked."""

    path: str
    """Games of the split: a folder, a file of compact records, or `generated:…`."""
    split: OfficialSplit
    most_games: int
    """Number of games to keep; 0 or less = all."""
    task_types: tuple[TaskType, ...]
    max_steps: int
    """Commands in an episode; 0 = no limit."""
    expert: ExpertType | None
    """Expert whose plan comes with every answer; None = no plan."""


def read_settings(config: Mapping[str, Any], train_eval: str) -> Settings:
    """Settings for a split.

    Raises:
        GameError: there are no sections, or a key is missing or has a value that cannot be used.
    """
    if not isinstance(config, Mapping):
        raise GameError(f"the configuration is {config!r:.60}, not sections; `load_config` or `make_config` gives one.")
    _warn_of_unknown(config)
    split = _one_of(train_eval, get_args(TrainEval), "train_eval")
    path = _value(config, f"dataset.{PATH_KEYS[split]}", str)
    if _value(config, "env.domain_randomization", bool) and split == "train":
        raise GameError(
            "env.domain_randomization is true, and this engine cannot shuffle the numbers of things: set it to false."
        )
    method = _one_of(_value(config, "general.training_method", str), ("dqn", "dagger"), "general.training_method")
    section = {"dqn": "rl", "dagger": "dagger"}[method]
    expert = _one_of(_value(config, "env.expert_type", str), get_args(ExpertType), "env.expert_type")
    steps = f"{section}.training.max_nb_steps_per_episode"
    max_steps = _value(config, steps, int)
    if max_steps < 0:
        raise GameError(f"{steps} of the configuration is {max_steps}; it must be 0 for no limit, or more.")
    return Settings(
        path=os.path.expandvars(path),
        split=SPLITS[split],
        most_games=_value(config, f"dataset.num_{'train' if split == 'train' else 'eval'}_games", int),
        task_types=_task_types(_value(config, "env.task_types", list)),
        max_steps=max_steps,
        # As in alfworld: only training by imitation asks for a plan.
        expert=expert if method == "dagger" and split == "train" else None,
    )


def load_config(path: str | Path | None = None) -> dict[str, Any]:
    """A configuration file of alfworld; needs PyYAML, which is not installed with this package.

    Args:
        path: of the YAML file; None = the first argument of the program, as in alfworld.

    Raises:
        GameError: no file is named, it is no configuration, or PyYAML is missing.
    """
    try:
        import yaml
    except ImportError:
        raise GameError(
            "load_config needs PyYAML: run `pip install pyyaml`, or use make_config, which needs none."
        ) from None
    named = path or next(iter(sys.argv[1:]), "")
    if not named:
        raise GameError("no configuration file is named; give its path as the first argument.")
    try:
        config = yaml.safe_load(Path(named).read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise GameError(f"the configuration {named} cannot be read: {error}.") from None
    if not isinstance(config, dict):
        raise GameError(f"the configuration {named} holds {type(config).__name__}, not sections such as `dataset`.")
    return config


def make_config(
    train: str = "generated:train:1000",
    eval_in_distribution: str = "generated:validation:100",
    eval_out_of_distribution: str = "generated:test:100",
    *,
    task_types: Sequence[int] = (1, 2, 3, 4, 5, 6),
    max_steps: int = 50,
    expert: ExpertType | None = None,
) -> dict[str, Any]:
    """A configuration with all that `AlfredTWEnv` reads, for both packages.

    Args:
        train: games: a folder in ALFWorld's layout, a `.jsonl.xz` of compact records or a folder that holds the one of
            the split, or `generated:<train, validation or test>:<count>[:<seed>]`. Only the first is for alfworld, too.
        eval_in_distribution: the same.
        eval_out_of_distribution: the same.
        task_types: kinds of task by alfworld's numbers.
        max_steps: commands in an episode; 0 = no limit.
        expert: sends its plan with every training game; None = no plan.
    """
    paths = (train, eval_in_distribution, eval_out_of_distribution)
    return {
        "dataset": dict(zip(PATH_KEYS.values(), paths, strict=True)) | {"num_train_games": -1, "num_eval_games": -1},
        "env": {
            "type": "AlfredTWEnv",
            "domain_randomization": False,
            "task_types": list(task_types),
            "expert_type": expert or "handcoded",
            "goal_desc_human_anns_prob": 0.0,
        },
        "general": {"training_method": "dagger" if expert else "dqn"},
        "rl": {"training": {"max_nb_steps_per_episode": max_steps}},
        "dagger": {"training": {"max_nb_steps_per_episode": max_steps}},
    }


def _warn_of_unknown(config: Mapping[str, Any]) -> None:
    for path, known in unknown_keys(config):
        # A warning and no error: people keep settings of their own in this file.
        message = f"alfworld's configuration has no key {path!r}. {suggestion(path, known)}"
        warnings.warn(message, UnknownKeyWarning, stacklevel=4)


def _value(config: Mapping[str, Any], path: str, kind: type[Value]) -> Value:
    found: Any = config
    for key in path.split("."):
        if not isinstance(found, Mapping) or key not in found:
            raise GameError(f"the configuration has no {path!r}. `make_config` gives one that has all that is needed.")
        found = found[key]
    # True is an int in Python, but no number of games.
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise GameError(f"{path} of the configuration is {found!r:.60}, not of type {kind.__name__}.")
    return found


Name = TypeVar("Name", bound=str)


def _one_of(value: str, known: Sequence[Name], what: str) -> Name:
    for name in known:
        if value == name:
            return name
    raise GameError(f"{what} cannot be {value!r}. {suggestion(str(value), known)}")


def _task_types(numbers: Sequence[object]) -> tuple[TaskType, ...]:
    # Others are passed over, as in alfworld, whose data has a seventh kind that nobody plays.
    kept = tuple(name for number, name in enumerate(TASK_TYPES, 1) if number in numbers)
    if not kept:
        raise GameError(f"env.task_types is {numbers!r}; it needs at least one number from 1 to {len(TASK_TYPES)}.")
    return kept
