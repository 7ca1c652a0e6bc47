"""Checks of what callers of the Python API give: a mistake costs a sentence, and no training."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path

from reflect_rl.envs.base import EnvSpec, require_known
from reflect_rl.errors import UserError
from reflect_rl.rollout import Reflector
from reflect_rl.types import Episode, Progress


def at_least(lowest: int, **numbers: int) -> None:
    """Refuse what is no whole number from `lowest` on.

    Raises:
        UserError: one is not.
    """
    for name, number in numbers.items():
        # Those of NumPy are whole numbers, too; `True` is one for Python, and a mistake here.
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise UserError(f"{name} = {number!r} is no whole number. Give one, such as {name}=2.")
        if number < lowest:
            raise UserError(f"{name} = {number} is too small. The lowest value is {lowest}.")


def whole(**numbers: int) -> None:
    """Refuse what is no whole number from 0 on, such as a seed of 1.5, with which a training could not be recorded.

    Raises:
        UserError: one is not.
    """
    # As the seeds of a run, so that a training from Python can be repeated on the command line.
    at_least(0, **numbers)


def truth(**values: bool) -> None:
    """Refuse what is neither True nor False: a text such as `"no"` counts as true.

    Raises:
        UserError: one is not.
    """
    for name, value in values.items():
        if not isinstance(value, bool):
            raise UserError(f"{name} is {value!r}. Give True or False.")


def callback(name: str, value: object, instead: str = "") -> None:
    """Refuse a callback that cannot be called, before a training that would call it.

    Args:
        name: of the argument.
        value: what was given; None = nothing is to be called.
        instead: what the caller may have meant.

    Raises:
        UserError: it cannot be called.
    """
    if value is not None and not callable(value):
        raise UserError(f"{name} is {value!r}, which is no function: it is told about the steps.{instead}")


def training(*, seed: int, out: str | Path | None, progress: Progress | None, instead: str = "") -> None:
    """Refuse what no training can be recorded, written or told with.

    Args:
        seed: of the training.
        out: its folder.
        progress: told about its steps.
        instead: see `callback`.

    Raises:
        UserError: the seed is no whole number from 0 on, `progress` cannot be called, or `out` is no folder.
    """
    whole(seed=seed)
    callback("progress", progress, instead)
    no_file(out)


def recorded(episodes: Sequence[Episode]) -> None:
    """Refuse what is no list of episodes.

    Raises:
        UserError: it is the name of a file, an episode by itself, or holds something else.
    """
    if isinstance(episodes, (str, Path)):
        named = str(episodes)
        raise UserError(f"episodes is {named!r}. Read the file first: reflect_rl.read_episodes({named!r}).")
    if isinstance(episodes, Episode):
        raise UserError("episodes is a single one. Give a list: [episode].")
    if not isinstance(episodes, Sequence) or not all(isinstance(episode, Episode) for episode in episodes):
        raise UserError(
            f"{episodes!r:.200} is no list of episodes. Give what collect(...) or read_episodes(...) returns."
        )


def writes(reflector: Reflector) -> None:
    """Refuse what is no reflection player.

    Raises:
        UserError: it is not one.
    """
    if isinstance(reflector, type) or not isinstance(reflector, Reflector):
        raise UserError(
            f"{reflector!r:.200} is no reflection player. Give an object with name, sees_oracle and reflect."
        )


def no_file(out: str | Path | None) -> None:
    """Refuse a file, or the empty path, where a folder is to be written.

    Raises:
        UserError: it is one, below one, or empty.
    """
    if out is None:
        return
    if not isinstance(out, (str, Path)):
        raise UserError(f"the folder {out!r} is no path. Give a text or a Path.")
    if not str(out):
        raise UserError("the path is empty, which would mean the current folder. Name a folder, such as 'runs/mine'.")
    place = Path(out)
    if blocked := next((part for part in (place, *place.parents) if part.is_file()), None):
        raise UserError(f"{blocked} is a file, and a folder {place} is to be written. Choose another name.")


def known_modes(spec: EnvSpec) -> EnvSpec:
    """The spec; a mode of its settings that the game does not have would be left out without a word.

    Raises:
        UnknownNameError: there is one.
    """
    for mode in spec.config.modes:
        require_known(f"mode of {spec.name}", mode, spec.all_modes)
    return spec


def chosen_modes(spec: EnvSpec, modes: Sequence[str]) -> Sequence[str]:
    """Modes that a caller asks for; those of the settings where none is named.

    Raises:
        UnknownNameError: the game has no such mode.
        UserError: they are no list of texts.
    """
    if isinstance(modes, str):
        # A text is a sequence of texts, too, and its letters would be taken for modes.
        raise UserError(f"modes is the text {modes!r}. Give a tuple: modes=({modes!r},).")
    if not isinstance(modes, Sequence):
        raise UserError(f"modes is {modes!r}. Give a tuple of names, such as modes=({spec.modes[0]!r},).")
    for mode in modes:
        require_known(f"mode of {spec.name}", mode, spec.all_modes)
    return modes or spec.modes


def shown_horizon(spec: EnvSpec, **lengths: int | None) -> None:
    """Refuse other lengths than that of the longest episode where states tell how many turns are left.

    Raises:
        UserError: one is.
    """
    for name, turns in lengths.items():
        if spec.env_class.fixed_horizon and turns not in (None, spec.max_episode_steps):
            raise UserError(
                f"{name} is {turns}, and {spec.name} shows how many of its {spec.max_episode_steps} turns are left. "
                f"Leave {name} out, or give the environment another max_episode_steps."
            )
