"""The contract of a text environment: three methods are required, everything else is a capability.

A game is a class over `TextEnv` with `tasks`, `reset` and `step`. What else it can do (solve itself, teach, restart,
tell its rules, ...) it shows by having the methods of one of the protocols below, which `isinstance` finds. `EnvSpec`
binds the class to its settings once; everything that plays, trains or evaluates is handed that object.

A class is offered by name through the entry-point group `reflect_rl.environments`, or named `package.module:Class`.
"""

from __future__ import annotations

import inspect
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from pydantic import Field, create_model

from reflect_rl import registry
from reflect_rl.config import MOST_STEPS, STEPS_HELP, EnvironmentConfig
from reflect_rl.errors import ReflectRLError, UnknownNameError, UserError, suggestion
from reflect_rl.types import Advice, Episode, Observation, Oracle, Step, Task
from reflect_rl.watchdog import guarded

if TYPE_CHECKING:
    import numpy as np

SPLITS = ("train", "validation", "test")

Capability = TypeVar("Capability")


class TextEnv(ABC):
    """A game whose states are texts with a list of admissible actions, acted on by index.

    Subclasses write `tasks`, `reset` and `step`, and keep nothing of the previous episode after `reset`. All randomness
    inside an episode comes from the generator that `reset` is given.

    Args:
        config: settings of the class's own `Config`; unset: their defaults.
    """

    Config: ClassVar[type[EnvironmentConfig]] = EnvironmentConfig
    """Settings; a subclass adds fields by naming a subclass here."""
    name: ClassVar[str] = ""
    """Name in results (unset: the class name in snake case)."""
    version: ClassVar[int] = 1
    """Raised with every change of text, rules or rewards."""
    modes: ClassVar[tuple[str, ...]] = ("default",)
    """Variants of the game, easiest first."""
    max_episode_steps: ClassVar[int] = 30
    """Turns after which an episode is truncated, where `Config` does not set them."""
    horizons: ClassVar[tuple[int, ...]] = ()
    """Horizons that evaluations report unless told otherwise (empty: the longest episode)."""
    fixed_horizon: ClassVar[bool] = False
    """True for a game that shows or counts its turns, so that no other horizon can be evaluated."""
    evaluation_only: ClassVar[tuple[str, ...]] = ()
    """Settings that may differ between training and an evaluation of its players, such as which games are the test."""
    # Not a ClassVar: a game may set both in `__init__`, where they depend on its settings.
    max_actions: int = 20
    """Largest number of admissible actions in any state."""
    idle_reward: float = 0.0
    """Reward of a turn that passes without an action: that of an ordinary step."""
    advice: Advice = "command"
    """Fullness of its teacher's reflections; only those with a command can be followed by a script."""
    withheld: tuple[type[Any], ...] = ()
    """Capabilities that the settings take away, although the class has their methods."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        own = vars(cls)
        # `vars(cls)` and not `getattr`: a subclass would otherwise share its parent's name in results.
        modes = own.get("modes", cls.modes)
        # A text would be taken for its letters, each of them a mode with all the tasks.
        if not isinstance(modes, tuple) or not modes or not all(isinstance(mode, str) for mode in modes):
            raise UserError(f"{cls.__name__}.modes is {modes!r}. Give a tuple of names, such as ('default',).")
        if "name" not in own:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        # Each class has its own default, so that configurations can name it.
        fields: dict[str, Any] = {} if _names_itself(cls) else {"name": (str, cls.name)}
        if _steps_are_open(cls):
            steps = Field(cls.max_episode_steps, ge=1, le=MOST_STEPS, description=STEPS_HELP)
            fields["max_episode_steps"] = (int, steps)
        if fields:
            written = cls.Config
            cls.Config = create_model(
                f"{cls.__name__}Config", __base__=written, __doc__=written.__doc__, __module__=__name__, **fields
            )

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        self.config = config or self.Config()

    @abstractmethod
    def tasks(self, mode: str, split: str) -> Sequence[Task]:
        """The tasks of a mode and split (`train`, `validation`, `test`), in fixed order, disjoint between splits."""

    @abstractmethod
    def reset(self, task: Task, rng: np.random.Generator) -> Observation:
        """Put the game at the start of a task.

        Args:
            task: one that `tasks` returned.
            rng: the only source of randomness of this episode.
        """

    @abstractmethod
    def step(self, action: int) -> Step:
        """Take the admissible action of this index: next observation, reward in [-1, 1], whether it ended, and how."""


def _takes_settings(kind: type[TextEnv]) -> bool:
    """Tell whether a game is made with its settings alone."""
    try:
        inspect.signature(kind).bind(None)
    except TypeError:
        return False
    return True


def _names_itself(game: type[TextEnv]) -> bool:
    """Tell whether the settings that a class brings say its name; those of its parents say theirs."""
    parents = {kind for parent in game.__mro__[1:] for kind in getattr(parent, "Config", object).__mro__}
    # Those that were made here, as their module tells, carry the name of another class.
    brought = [kind for kind in game.Config.__mro__ if kind not in parents and kind.__module__ != __name__]
    return any("name" in get_annotations(kind) for kind in brought)


def _steps_are_open(game: type[TextEnv]) -> bool:
    """Tell whether a class says how long its episodes are, and its settings do not."""
    if "Config" not in vars(game):
        return "max_episode_steps" in vars(game)
    settings = game.Config.__mro__[: game.Config.__mro__.index(EnvironmentConfig)]
    games = game.__mro__[: game.__mro__.index(TextEnv)]
    # Those that were made here, as their module tells, only repeat what a parent's class says.
    written = [kind for kind in settings if kind.__module__ != __name__]
    is_set = any("max_episode_steps" in get_annotations(kind) for kind in written)
    return not is_set and any("max_episode_steps" in vars(kind) for kind in games)


@runtime_checkable
class HasSolver(Protocol):
    """A game with an expert, a solver at best: demonstrations, negative examples, shaping."""

    def oracle(self) -> Oracle | None:
        """Facts about the current state of a game that goes on; None where the expert knows none."""


@runtime_checkable
class HasTeacher(Protocol):
    """A game that can write a reflection on its current state from facts that code checks."""

    def teach(self) -> str:
        """The reflection that trains the reflection player."""


@runtime_checkable
class HasStateTeacher(Protocol):
    """A game whose state text alone, read by rules, gives a reflection (the `lexical` reflection player)."""

    def advise(self, state: str) -> str:
        """The reflection of someone who knows no more than this text.

        Raises:
            ValueError: the text is no state of the game.
        """


@runtime_checkable
class Restartable(Protocol):
    """A game that can start in any state that was met while playing."""

    def task_at(self, mode: str, state: str) -> Task:
        """The training task that begins in a state (`Observation.state`), as if nothing had come before."""


@runtime_checkable
class HasRules(Protocol):
    """A game that tells its rules: what is seen, what each action does, what wins and what loses."""

    rules: str


@runtime_checkable
class Renders(Protocol):
    """A game that draws its states for people, with a legend; colours are ANSI sequences, as in Gymnasium."""

    legend: str

    def render(self, observation: Observation) -> str:
        """The drawing of a state that was shown, several lines of text."""


@runtime_checkable
class HasStrata(Protocol):
    """A game whose tasks fall into kinds; result rows count success in each."""

    def strata(self, task: Task) -> Mapping[str, str]:
        """Property and value of a task, for example `{"depth": "2"}`."""


@runtime_checkable
class HasMeasures(Protocol):
    """A game that measures more of an episode than success; result rows carry the means."""

    def measures(self, episode: Episode) -> Mapping[str, float]:
        """Measured quantities of one episode, by name."""


@runtime_checkable
class HasUnseenNames(Protocol):
    """A game with names that only the solver knows until a state shows them; annotations that leak one are dropped."""

    def unseen_names(self, task: Task) -> Sequence[str]:
        """Such names of a task."""


@runtime_checkable
class NumbersActions(Protocol):
    """A game whose states write the number of each action, so that labels follow the listed order."""

    numbered: bool

    def action_numbers(self, state: str) -> Mapping[str, int]:
        """Numbers of the actions that a state names."""


@runtime_checkable
class HasFiles(Protocol):
    """A game about a tree of files, whose names and contents scripted players may compare."""

    explores_files: bool


@runtime_checkable
class NamesGames(Protocol):
    """A game whose splits depend on settings, so that a result must say which games it is about."""

    def games_tested(self, mode: str, split: str) -> Mapping[str, str]:
        """Facts that tell a result on these games from one on others."""


@runtime_checkable
class VariesTexts(Protocol):
    """A game whose texts depend on settings, so that a recorded episode must say which they were."""

    def text_settings(self) -> Mapping[str, str]:
        """Those settings: name and value, among them `advice` where it teaches."""


@runtime_checkable
class TellsHindsight(Protocol):
    """A game that can say for which other task a move was right, so that play without an aim teaches something."""

    def in_hindsight(self, episode: Episode, rng: np.random.Generator) -> Episode:
        """The episode with another task in each state, one for which the action was right; other turns are left out.

        The idea is that of Andrychowicz et al. 2017 (arXiv:1707.01495).
        """


@runtime_checkable
class ComparesTraining(Protocol):
    """A game that knows what its tasks share with those of other settings (without it: keys of tasks are compared)."""

    def trained_on(self, trained: EnvironmentConfig, modes: Sequence[str], split: str) -> Sequence[str]:
        """Names of what the games evaluated here share with those that were trained on with the settings `trained`."""


@runtime_checkable
class HearsReflections(Protocol):
    """A game that may list further actions once the reflection on its state is written."""

    def hear(self, reflection: str) -> Observation:
        """The current state after the reflection; its text stays, as it is the one that was reflected on."""


@runtime_checkable
class Idles(Protocol):
    """A game in which a turn without an action changes something, such as a count of turns that the text shows."""

    def idle(self) -> Step:
        """The answer to a turn in which the player named no action."""


CAPABILITIES: tuple[type[Any], ...] = (
    HasSolver,
    HasTeacher,
    HasStateTeacher,
    Restartable,
    HasRules,
    Renders,
    HasStrata,
    HasMeasures,
    HasUnseenNames,
    NumbersActions,
    HasFiles,
    NamesGames,
    VariesTexts,
    TellsHindsight,
    ComparesTraining,
    HearsReflections,
    Idles,
)
"""All capabilities that this package makes use of."""


# Compared by identity, which keeps it hashable; `cached_property` writes past `frozen`.
@dataclass(frozen=True, eq=False)
class EnvSpec:
    """An environment with its settings, resolved once: what play, training and evaluation are handed."""

    env_class: type[TextEnv]
    config: EnvironmentConfig

    @classmethod
    def of(cls, env_class: type[TextEnv], **settings: Any) -> EnvSpec:
        """The spec of a class under some settings of its `Config`.

        Raises:
            pydantic.ValidationError: a setting does not exist or has a wrong value.
        """
        return cls(env_class, env_class.Config(**settings))

    @cached_property
    def prototype(self) -> TextEnv:
        """A copy of the game that is asked about tasks and capabilities; episodes are played in copies of `make`.

        Raises:
            FaultyEnvironmentError: the game's `__init__` failed.
            UserError: it does not take the settings.
        """
        return guarded(f"{self.identity}, __init__", 0, self.make)

    @property
    def name(self) -> str:
        """Name in results."""
        return self.env_class.name

    @property
    def version(self) -> int:
        """Version of text, rules and rewards."""
        return self.env_class.version

    @property
    def identity(self) -> str:
        """Name and version, for example `dangerous_taxi-v1`."""
        return f"{self.name}-v{self.version}"

    @property
    def found_by(self) -> str:
        """Name by which a configuration finds the class: that of an installed game, or `package.module:Class`."""
        kind = self.env_class
        # Another distribution may have a game of the same name, and its module may be broken.
        with suppress(ReflectRLError):
            if self.name in registry.names("environments") and registry.find("environments", self.name) is kind:
                return self.name
        return f"{kind.__module__}:{kind.__qualname__}"

    @property
    def max_episode_steps(self) -> int:
        """Turns after which an episode is truncated."""
        return self.config.max_episode_steps

    @property
    def max_actions(self) -> int:
        """Largest number of admissible actions in any state under these settings."""
        return self.prototype.max_actions

    @property
    def all_modes(self) -> tuple[str, ...]:
        """Variants that the game knows, easiest first."""
        return self.env_class.modes

    @cached_property
    def modes(self) -> tuple[str, ...]:
        """Variants to evaluate, easiest first: those of the settings, else all; the curriculum names those to train."""
        chosen = self.config.modes
        # In the game's order, easiest first, whatever order the settings name them in.
        return tuple(mode for mode in self.all_modes if mode in chosen) if chosen else self.all_modes

    @property
    def horizons(self) -> tuple[int, ...]:
        """Horizons that an evaluation reports unless told otherwise."""
        longest = self.max_episode_steps
        # The horizons of a class fit its own longest episode; for another one they may be too long.
        is_default = longest == type(self.config).model_fields["max_episode_steps"].default
        return self.env_class.horizons if self.env_class.horizons and is_default else (longest,)

    def make(self) -> TextEnv:
        """A fresh copy of the game.

        Raises:
            UserError: its `__init__` does not take the settings.
        """
        if not _takes_settings(self.env_class):
            raise UserError(
                f"{self.env_class.__name__}.__init__ does not take the settings. Write: def __init__(self, "
                "config=None): super().__init__(config)."
            )
        return self.env_class(self.config)

    # Checked here, so that games need not refuse unknown names themselves.
    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The tasks of a mode and split; the game is asked once.

        Raises:
            FaultyEnvironmentError: the game's `tasks` failed.
            UnknownNameError: no such mode or split.
            UserError: two tasks of the mode have one key, also of another split that was asked for before; a task is of
                another mode or split, or is no JSON.
        """
        require_known(f"mode of {self.name}", mode, self.all_modes)
        require_known("split", split, SPLITS)
        known = self._listed.setdefault(mode, {})
        if split not in known:
            listed = self._list(mode, split)
            # A task in two splits would be trained on and then count as unseen. Whoever trains asks for all splits;
            # to list those that nobody asks for would take seconds in games of many files.
            self._refuse_shared(mode, known | {split: listed})
            known[split] = listed
        return known[split]

    @cached_property
    def _listed(self) -> dict[str, dict[str, tuple[Task, ...]]]:
        """Tasks by mode and split, as far as the game could list them."""
        return {}

    def _list(self, mode: str, split: str) -> tuple[Task, ...]:
        game, call = self.prototype, f"tasks({mode!r}, {split!r})"
        # Without a limit: it is asked once, and some games read thousands of files.
        tasks = guarded(f"{self.identity}, {call}", 0, lambda: tuple(game.tasks(mode, split)))
        for task in tasks:
            self._check(task, mode, split)
        # Episodes are told apart by the key, and what may be learned from by the split.
        for key, count in Counter(task.key for task in tasks).items():
            if count > 1:
                raise UserError(
                    f"{self.name}: {count} tasks of {mode!r}, {split!r} have the key {key!r}: give each its own."
                )
        return tasks

    def _check(self, task: Task, mode: str, split: str) -> None:
        call = f"{self.name}: tasks({mode!r}, {split!r})"
        remedy = f"Make it with Task(key, {mode!r}, {split!r}, ...)."
        # Games are other people's code, which no type checker has seen.
        if not isinstance(task, Task):
            raise UserError(f"{call} gives {task!r:.100}, which is no Task. {remedy}")
        if not isinstance(task.key, str):
            raise UserError(f"{call} gives a task with the key {task.key!r:.100}, which is no text. Give str(...).")
        if (task.mode, task.split) != (mode, split):
            raise UserError(f"{call} gives the task {task.key!r} of mode {task.mode!r}, split {task.split!r}. {remedy}")
        try:
            json.dumps(dict(task.data), sort_keys=True, ensure_ascii=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise UserError(
                f"{call} gives the task {task.key!r} with data that cannot be written as JSON: {error}. Give Python's "
                "own values, such as int(...) for a number of NumPy."
            ) from None

    def _refuse_shared(self, mode: str, parts: Mapping[str, Sequence[Task]]) -> None:
        split_of: dict[str, str] = {}
        # In the order of the splits, whichever of them was asked for.
        for split in SPLITS:
            for task in parts.get(split, ()):
                if (first := split_of.setdefault(task.key, split)) != split:
                    raise UserError(
                        f"{self.name}: the splits {first!r} and {split!r} of {mode!r} both have a task with the key "
                        f"{task.key!r}. Leave it in one of them, or give different tasks keys of their own."
                    )

    def capability(self, kind: type[Capability]) -> Capability | None:
        """The game as something that can do this, or None where it cannot."""
        # As an object: the type checker would rule out that a `TextEnv` is one of the protocols.
        game: object = self.prototype
        return game if isinstance(game, kind) and kind not in self.prototype.withheld else None

    def needed(self, kind: type[Capability], purpose: str) -> Capability:
        """The game as something that can do this.

        Raises:
            UserError: it cannot; the message names the missing methods and what they were needed for.
        """
        found = self.capability(kind)
        if found is None:
            under = " under these settings" if kind in self.prototype.withheld else ""
            raise UserError(
                f"{purpose} needs {kind.__name__}, which the environment {self.name!r} does not offer{under}."
            )
        return found

    @cached_property
    def capabilities(self) -> tuple[str, ...]:
        """Names of all capabilities that the game offers."""
        # Asked of a game and not of its class: attributes such as `rules` may be set in `__init__`.
        return tuple(kind.__name__ for kind in CAPABILITIES if self.capability(kind) is not None)


def spec_of(config: EnvironmentConfig) -> EnvSpec:
    """The environment of a configuration, by its name.

    Raises:
        UnknownNameError: no environment has the configured name.
        UserError: the name leads to something that is no `TextEnv`.
    """
    # An entry point can lead to anything, so the class is checked here, once.
    found: object = registry.find("environments", config.name)
    if not (isinstance(found, type) and issubclass(found, TextEnv)):
        raise UserError(f"environment.name: {config.name!r} is {found!r}, no class over reflect_rl.TextEnv.")
    return EnvSpec(found, config)


def idle_step(game: TextEnv, current: Observation) -> Step:
    """The answer of a game to a turn without an action: nothing changes unless the game says otherwise."""
    # A game without `idle` is not stepped: any action, even a harmless one, would be a choice.
    return game.idle() if isinstance(game, Idles) else Step(current, game.idle_reward)


def require_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known.

    >>> require_known("split", "test", SPLITS)

    Raises:
        UnknownNameError: names the kind, the name and the nearest known one.
    """
    # A list, because an iterator could not be searched and then shown.
    names = list(known)
    if name not in names:
        raise UnknownNameError(f"no {kind} named {name!r}. {suggestion(name, names)}")
