"""The methods that a run compares: one table for configurations, evaluation and reports.

A method is a row of the results table. It says which supervised data each player learns from, whether online RL
follows, what it needs of the environment, and how it is drawn. An installed distribution adds its own under the entry
point group `reflect_rl.methods`: a `Method`, or a function that measures tasks without a player.

Colours are from Okabe & Ito's palette (2008), those of floors, chat models and lexical reflection from Tol's muted one
(2018), which colour-blind readers can tell apart. A method trained without negative examples has the colour of its full
version, dashed or hatched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from reflect_rl import registry
from reflect_rl.envs.base import EnvSpec, HasSolver, HasStateTeacher
from reflect_rl.errors import UnknownNameError, UserError, suggestion
from reflect_rl.types import Decoding

if TYPE_CHECKING:  # the result row names the decodings of this file
    from reflect_rl.evaluation.evaluate import Measurement

LEXICAL = "lexical"
"""The reflection player that learns nothing."""

Measure = Callable[[EnvSpec, str, str], "Measurement"]
"""Environment, mode and split -> what was measured, at any horizon."""


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the results table."""

    name: str
    """Name in configurations and run folders."""
    title: str
    """Label in tables and figures."""
    reflector: str | None = None
    """Data set that the reflection player learns from, or `LEXICAL`; None = no reflection."""
    policy: str | None = None
    """Data set that the policy learns from; None = the untuned model."""
    online: bool = False
    """True if online RL follows."""
    stage: str = ""
    """Installed stage that trains the policy further, in place of online RL; empty = none."""
    settings: tuple[str, ...] = ()
    """Tables of the settings that the training by this stage follows from; `rlft` among them says that it is online RL.
    Of the core's tables only what stands here, and `sft`, counts; a section says the rest (`Section.followed_by`)."""
    algorithm: str = ""
    """RL algorithm of the training by this stage; empty = the one of `[rlft]`, if `settings` names that table."""
    script: str = ""
    """Installed policy that plays without a language model; empty = a language model plays."""
    writer: str = ""
    """Installed reflection player that writes, in place of one that `reflector` names."""
    measure: Measure | None = None
    """Measures tasks without playing them, for example by an index of files; None = a player plays."""
    needs: tuple[type[Any], ...] = ()
    """Capabilities of the environment (`reflect_rl.envs.base`) without which the method cannot be evaluated."""
    decoding: Decoding = "greedy"
    """Decoding of a script; a language model is evaluated as the run says."""
    colour: str = "#0072B2"
    dashed: bool = False
    """True for dashed lines and hatched bars."""
    place: int = 1000
    """Place among the rows of a table, lowest first."""

    @property
    def trainer(self) -> str:
        """Stage that trains its policy after supervised training; empty where none does."""
        return "rlft" if self.online else self.stage

    @property
    def follows(self) -> tuple[str, ...]:
        """Tables of the settings that its training after supervised training follows from."""
        return ("reflector", "rlft") if self.online else self.settings

    @property
    def datasets(self) -> tuple[str, ...]:
        """Supervised data sets that its players learn from."""
        return tuple(name for name in (self.reflector, self.policy) if name not in (None, LEXICAL))

    @property
    def model(self) -> bool:
        """True if a language model of the run plays."""
        return not (self.script or self.measure)

    @property
    def is_lexical(self) -> bool:
        """True if the reflections are made by comparing words."""
        return self.reflector == LEXICAL

    def with_reflector(self, kind: str) -> Method:
        """The method as it is where another reflection player writes, in place of one that would be trained.

        Args:
            kind: `own` (the trained one), `LEXICAL`, or the name of an installed reflection player.
        """
        if kind == "own" or self.reflector not in self.datasets:
            return self
        return replace(self, reflector=kind) if kind == LEXICAL else replace(self, reflector=None, writer=kind)

    def missing(self, spec: EnvSpec) -> tuple[str, ...]:
        """Names of the capabilities that it needs and the environment lacks."""
        # Lexical reflections read any state, also those that no solver has seen.
        needs: tuple[type[Any], ...] = (*self.needs, HasStateTeacher) if self.is_lexical else self.needs
        return tuple(kind.__name__ for kind in needs if spec.capability(kind) is None)


METHODS: tuple[Method, ...] = (
    # Random play differs each time, so it is repeated like sampled play; other scripts keep the default `greedy`.
    # Places go in tens: a method of another distribution can stand between two of these.
    Method("random", "Random", script="random", decoding="sampled", colour="#999999", place=0),
    Method("oracle", "Oracle", script="oracle", needs=(HasSolver,), colour="#777777", place=10),
    Method("advice", "Lexical advice, followed", reflector=LEXICAL, script="advice", colour="#44AA99", place=20),
    Method("base", "Untuned", colour="#000000", place=50),
    Method("sft", "SFT", policy="policy_plain", colour="#56B4E9", place=60),
    Method("rlft", "RLFT", online=True, colour="#E69F00", place=70),
    Method("sft_rlft", "SFT + RLFT", policy="policy_plain", online=True, colour="#CC79A7", place=80),
    Method("sft_reflect", "SFT, reflection", "reflector", "policy_reflect", colour="#009E73", place=90),
    Method(
        "sft_reflect_no_negatives",
        "SFT, reflection, no negatives",
        "reflector_positive",
        "policy_reflect_positive",
        colour="#009E73",
        dashed=True,
        place=100,
    ),
    Method(
        "reflect_rl_no_negatives",
        "Reflect-RL, no negatives",
        "reflector_positive",
        "policy_reflect_positive",
        online=True,
        colour="#D55E00",
        dashed=True,
        place=110,
    ),
    Method("reflect_rl", "Reflect-RL", "reflector", "policy_reflect", online=True, colour="#D55E00", place=120),
    Method("sft_lexical", "SFT, lexical reflection", LEXICAL, "policy_lexical", colour="#AA4499", place=130),
    Method(
        "sft_lexical_no_negatives",
        "SFT, lexical reflection, no negatives",
        LEXICAL,
        "policy_lexical_positive",
        colour="#AA4499",
        dashed=True,
        place=140,
    ),
    Method(
        "reflect_rl_lexical_no_negatives",
        "Reflect-RL, lexical, no negatives",
        LEXICAL,
        "policy_lexical_positive",
        online=True,
        colour="#882255",
        dashed=True,
        place=150,
    ),
    Method(
        "reflect_rl_lexical", "Reflect-RL, lexical", LEXICAL, "policy_lexical", online=True, colour="#882255", place=160
    ),
)
"""Methods of this package, in the order in which tables list them: from no learning to all of it."""

REFERENCE = "reflect_rl"
"""The method that the others are compared with."""

REFERENCES = (REFERENCE, "reflect_rl_lexical")
"""All such methods: by who writes the reflections."""

_BY_NAME = {method.name: method for method in METHODS}


def method_names() -> list[str]:
    """Names of all methods, those of other installed distributions last; nothing is imported."""
    return [*_BY_NAME, *(name for name in registry.names("methods") if name not in _BY_NAME)]


@cache
def find_method(name: str) -> Method:
    """A method by its name, which it carries from then on.

    Args:
        name: of this package, of an entry point, or `package.module:Name`.

    Raises:
        UnknownNameError: nothing has this name; the message names the nearest one, or what to install.
        UserError: the name leads to neither a `Method` nor a function.

    >>> find_method("sft_rlft").datasets
    ('policy_plain',)
    """
    # Our own names come first: an installed distribution must not change the meaning of a name in old results.
    if name in _BY_NAME:
        return _BY_NAME[name]
    try:
        found: object = registry.find("methods", name)
    except UnknownNameError:
        # The registry of parts knows entry points only, and a typing error is most often in one of our own names.
        is_plain = name.isidentifier() and name not in registry.COMPANIONS["methods"]
        if is_plain and name not in registry.names("methods"):
            raise UnknownNameError(f"no method named {name!r}. {suggestion(name, method_names())}") from None
        raise
    # Rows and folders carry the name of the entry point, whatever the object calls itself.
    if isinstance(found, Method):
        return replace(found, name=name)
    if callable(found):
        return Method(name, name.rpartition(":")[2].replace("_", " "), measure=found)
    raise UserError(f"methods: {name!r} is {found!r}, and a reflect_rl Method or a function that measures is needed.")
