"""Reflect-RL: two-player online RL fine-tuning of language models that act over many turns, local first.

The names of `__all__` are the public API (docs/start/api.md). They are loaded on first use, so that `import reflect_rl`
loads neither torch nor transformers; it registers the text environments with Gymnasium.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# `__init__.pyi` names them for type checkers, which do not run this file.
_NAMES = {
    "agent": "Agent",
    "api": (
        "add_reflections check_env collect evaluate load_agent load_model make_env read_episodes report train_rl "
        "train_sft warm_up write_episodes"
    ),
    "config": "AlgorithmConfig EnvironmentConfig Frozen",
    "envs.base": (
        "ComparesTraining EnvSpec HasFiles HasMeasures HasRules HasSolver HasStateTeacher HasStrata "
        "HasTeacher HasUnseenNames HearsReflections Idles NamesGames NumbersActions Renders Restartable "
        "TellsHindsight TextEnv VariesTexts"
    ),
    "errors": "ReflectRLError UserError",
    "evaluation.methods": "Method",
    "evaluation.compare": "Evaluation",
    "rollout": "Policy Reflector",
    "types": "Decision Episode Observation Oracle Step Task Turn View",
}
"""Public names by the module that defines them."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_MODULES, "__version__"])  # noqa: PLE0605 (a list, computed)

try:
    __version__ = version("reflect-rl")
except PackageNotFoundError:
    # A checkout that is on the path but was never installed has no metadata.
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        # The words of Python itself: `hasattr` and `from ... import` rely on AttributeError.
        raise AttributeError(f"module 'reflect_rl' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"reflect_rl.{_MODULES[name]}"), name)
    globals()[name] = value  # the next use is a plain look-up
    return value


def __dir__() -> list[str]:
    # Names that are not loaded yet must show up in editors and notebooks, too.
    return sorted({*globals(), *__all__})


# Last, because the module imports this package.
from reflect_rl.registry import register_on_import  # noqa: E402

register_on_import()
