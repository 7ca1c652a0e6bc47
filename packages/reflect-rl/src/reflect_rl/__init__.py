"""Reflect-RL: two-player online RL fine-tuning of language models that act over many turns, local first.

The names of `__all__` are the public API (docs/api.md). They are loaded on first use, so that `import reflect_rl` loads
neither torch nor transformers; it registers the text environments with Gymnasium.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; at run time `__getattr__` loads the same names
    from reflect_rl.agent import Agent as Agent
    from reflect_rl.api import (
        add_reflections as add_reflections,
        collect as collect,
        evaluate as evaluate,
        load_model as load_model,
        make_env as make_env,
        read_episodes as read_episodes,
        report as report,
        train_rl as train_rl,
        train_sft as train_sft,
        warm_up as warm_up,
        write_episodes as write_episodes,
    )
    from reflect_rl.config import AlgorithmConfig as AlgorithmConfig
    from reflect_rl.config import EnvironmentConfig as EnvironmentConfig
    from reflect_rl.config import Frozen as Frozen
    from reflect_rl.envs.base import (
        ComparesTraining as ComparesTraining,
        EnvSpec as EnvSpec,
        HasFiles as HasFiles,
        HasMeasures as HasMeasures,
        HasRules as HasRules,
        HasSolver as HasSolver,
        HasStateTeacher as HasStateTeacher,
        HasStrata as HasStrata,
        HasTeacher as HasTeacher,
        HasUnseenNames as HasUnseenNames,
        HearsReflections as HearsReflections,
        Idles as Idles,
        NamesGames as NamesGames,
        NumbersActions as NumbersActions,
        Renders as Renders,
        Restartable as Restartable,
        TextEnv as TextEnv,
    )
    from reflect_rl.errors import ReflectRLError as ReflectRLError
    from reflect_rl.errors import UserError as UserError
    from reflect_rl.evaluation.outcome import Evaluation as Evaluation
    from reflect_rl.players.base import Policy as Policy
    from reflect_rl.players.base import Reflector as Reflector
    from reflect_rl.players.reflectors.prompted import PromptedReflector as PromptedReflector
    from reflect_rl.types import (
        Decision as Decision,
        Episode as Episode,
        Observation as Observation,
        Oracle as Oracle,
        Step as Step,
        Task as Task,
        Turn as Turn,
        View as View,
    )

_PLACES = {
    "agent": ("Agent",),
    "api": (
        *("add_reflections", "collect", "evaluate", "load_model", "make_env", "read_episodes", "report"),
        *("train_rl", "train_sft", "warm_up", "write_episodes"),
    ),
    "config": ("AlgorithmConfig", "EnvironmentConfig", "Frozen"),
    "envs.base": (
        *("ComparesTraining", "EnvSpec", "HasFiles", "HasMeasures", "HasRules", "HasSolver", "HasStateTeacher"),
        *("HasStrata", "HasTeacher", "HasUnseenNames", "HearsReflections", "Idles", "NamesGames", "NumbersActions"),
        *("Renders", "Restartable", "TextEnv"),
    ),
    "errors": ("ReflectRLError", "UserError"),
    "evaluation.outcome": ("Evaluation",),
    "players.base": ("Policy", "Reflector"),
    "players.reflectors.prompted": ("PromptedReflector",),
    "types": ("Decision", "Episode", "Observation", "Oracle", "Step", "Task", "Turn", "View"),
}
"""Public names by the module that defines them."""

_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [  # noqa: PLE0604 (names of `_MODULE_OF`, which a test compares with the imports above)
    "__version__",
]
__all__ += sorted(_MODULE_OF)
__all__.sort()

try:
    __version__ = version("reflect-rl")
except PackageNotFoundError:
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'reflect_rl' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"reflect_rl.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Last, because the environments import this module.
from reflect_rl.envs.gym import register_all  # noqa: E402

register_all()
del register_all
