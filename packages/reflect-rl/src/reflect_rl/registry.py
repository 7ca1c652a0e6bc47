"""Parts that are chosen by name: one table of installed entry points for ours and for a stranger's.

An installed distribution offers a part under one of the groups `reflect_rl.environments`, `reflect_rl.algorithms`, ...
in its `pyproject.toml`; this package lists its own there, too. A name with a colon, `package.module:Name`, is imported
as it is, so that an experiment needs no installation.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, entry_points, packages_distributions
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from reflect_rl.errors import BrokenPartError, ReflectRLError, UnknownNameError, UserError, suggestion

Kind = Literal[
    "environments", "algorithms", "curricula", "policies", "reflectors", "methods",
    "commands", "settings", "stages", "annotators", "reports",
]  # fmt: skip

SINGULAR: dict[Kind, str] = {"curricula": "curriculum", "policies": "policy"}
"""Kinds whose singular is not the word without its s."""

UNNAMED: tuple[Kind, ...] = ("commands", "settings", "stages", "reports")
"""Kinds whose names stand in no configuration, so that no other name can take their place."""

DOTTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""`package.module:Name`."""

COMPANIONS: dict[Kind, dict[str, str]] = {
    "algorithms": dict.fromkeys(("g2po", "rloo"), "reflect-algorithms"),
    "environments": {
        "alfworld": "alfworld-native",
        **dict.fromkeys(("autoexplore", "autoexplore_paper"), "reflect-locate"),
        **dict.fromkeys(("babyai", "scienceworld", "textworld"), "reflect-games"),
    },
    "methods": {
        **dict.fromkeys(("bm25_contents", "bm25_names", "name_greedy", "reader"), "reflect-locate"),
        **dict.fromkeys(("chat", "chat_reflect"), "reflect-served"),
        **dict.fromkeys(("a_lol", "archer", "bc", "dagger", "filtered_bc", "gail"), "reflect-algorithms"),
        **dict.fromkeys(("linvit", "morel", "rcrl", "rvs"), "reflect-algorithms"),
        **dict.fromkeys(("dpo", "ppo_max", "reflect_rl_both", "rlhf", "rrhf"), "reflect-algorithms"),
    },
    "policies": {"chat": "reflect-served"},
    "reflectors": {"chat": "reflect-served", "asked_outcome": "reflect-algorithms"},
    "annotators": {"endpoint": "reflect-served"},
    "stages": {
        "annotate": "reflect-served",
        **dict.fromkeys(("learn", "log", "pairs", "reward", "rlft_both"), "reflect-algorithms"),
    },
    "settings": {
        **dict.fromkeys(("chat", "endpoint", "data.annotation", "reflector.server"), "reflect-served"),
        **dict.fromkeys(("offline", "preferences", "rlft.reflector"), "reflect-algorithms"),
    },
    "reports": {"page": "reflect-report"},
    "commands": {
        **dict.fromkeys(("play", "prefer", "report", "status", "sweep", "watch"), "reflect-report"),
        **dict.fromkeys(("tasks", "locate", "adapt", "export", "serve", "train_reader"), "reflect-locate"),
    },
}
"""Names that a companion package of this project offers, and what to install to have them."""


_offered = cache(entry_points)
"""Entry points of all groups; read once, since each reading opens a file of every distribution."""


class PlainCommand(partial[None]):
    """Decorator of a command that prints by itself: it gets no console, whose import would be felt."""


@cache
def _installed(kind: Kind) -> dict[str, EntryPoint]:
    """Entry points by name, dashes written as underscores; the first distribution that offers a name has it."""
    found: dict[str, EntryPoint] = {}
    # Metadata alone is read: listing names must not import anybody's code.
    for point in _offered().select(group=f"reflect_rl.{kind}"):
        found.setdefault(point.name.replace("-", "_"), point)
    return found


@cache
def _offered_twice(kind: Kind) -> dict[str, list[EntryPoint]]:
    """Entry points of other objects than those of `_installed`, by the name that they share."""
    found: dict[str, list[EntryPoint]] = {}
    for point in _offered().select(group=f"reflect_rl.{kind}"):
        name = point.name.replace("-", "_")
        first = _installed(kind).get(name, point)
        # Two names of one object do no harm, such as those of a package that was renamed and installed again.
        if (point.module, point.attr) != (first.module, first.attr):
            found.setdefault(name, []).append(point)
    return found


def _refuse_rivals(kind: Kind, name: str, point: EntryPoint) -> None:
    """Refuse a name to which another distribution gives another object: which one is meant is not known."""
    # Parts are looked up thousands of times, so that there are no others must be known at once.
    for other in _offered_twice(kind).get(name, ()):
        # An editable installation beside an older one lists a distribution twice.
        if _distribution(other) != _distribution(point):
            remedy = "" if kind in UNNAMED else f", or name the part as package.module:Name, such as {other.value}"
            raise UnknownNameError(
                f"the {_singular(kind)} {name!r} is offered by two installed packages, {_distribution(point)} "
                f"({point.value}) and {_distribution(other)} ({other.value}). Uninstall one of them{remedy}."
            )


def _distribution(point: EntryPoint) -> str:
    """Name of the distribution that offers a part, spelt as package indexes do; reading it opens a file."""
    return "" if point.dist is None else re.sub(r"[-_.]+", "-", point.dist.name).lower()


def names(kind: Kind) -> list[str]:
    """Names that are installed, sorted; nothing is imported."""
    return sorted(_installed(kind))


def find(kind: Kind, name: str) -> Any:
    """The object that carries a name.

    Args:
        kind: group of the part.
        name: of an entry point (dashes may stand for underscores), or `package.module:Name`.

    Raises:
        UnknownNameError: nothing has this name, two distributions have it, or it cannot be imported; the message names
            the nearest one, what to install, or both.
        BrokenPartError: its module fails where it is imported.
    """
    if DOTTED.fullmatch(name):
        module, _, attribute = name.partition(":")
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise UnknownNameError(
                f"cannot import {name!r} for {kind}: {error}. A module of the current folder is found where you name "
                "it yourself, in a configuration file or a flag; elsewhere put its folder on PYTHONPATH."
            ) from error
        except ReflectRLError:
            raise
        except (Exception, SystemExit) as error:
            raise _broken(name, module, error) from error
        try:
            return getattr(found, attribute)
        except AttributeError:
            raise UnknownNameError(f"the module {module} has no {attribute!r}, which {name!r} asks for.") from None
    # Dashes are what people type on a command line; Python names have underscores.
    point = _installed(kind).get(name.replace("-", "_"))
    if point is None:
        raise UnknownNameError(_unknown(kind, name))
    # Only of a name that is used: two packages that disagree about another one do no harm.
    _refuse_rivals(kind, name.replace("-", "_"), point)
    try:
        return point.load()
    except ReflectRLError:
        raise
    except (Exception, SystemExit) as error:
        raise _broken(name, point.module, error) from error


def _broken(name: str, module: str, error: BaseException) -> UserError:
    """The error of a part whose module fails where it is imported; modules of others may fail in any way."""
    if isinstance(error, SystemExit):
        # It would end the command without a word, as if all were done.
        return UnknownNameError(
            f"the module {module} calls sys.exit() where it is imported. Move that below `if __name__ == '__main__':`."
        )
    return BrokenPartError(
        f"importing {name!r} failed: {type(error).__name__}: {error}. The module must import by itself: "
        f'python -c "import {module}" shows where it fails.'
    )


DEPTH = 100
"""Levels of lists and tables in a file. Those who walk through the values call themselves at each."""
CHOOSING = ("name", "kind", "annotator")
"""Keys of a configuration whose value may be the name of a part."""


def is_deep(value: Any) -> bool:
    """Tell whether lists and tables of a file are nested deeper than any that this program writes.

    >>> import functools
    >>> is_deep({"a": [1, 2]}), is_deep(functools.reduce(lambda inner, _: [inner], range(200), 0))
    (False, True)
    """
    # Layer by layer: a function that calls itself would meet the end of the stack that is to be kept away from others.
    layer = [value]
    for _ in range(DEPTH):
        layer = [
            part
            for whole in layer
            if isinstance(whole, dict | list)
            for part in (whole.values() if isinstance(whole, dict) else whole)
        ]
    return bool(layer)


def dotted_names(values: Any) -> set[str]:
    """The names `package.module:Name` in the raw values of a configuration, where they choose a part."""
    return {name for _, name in _dotted(values)}


def _dotted(values: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The keys, as flags name them, and the names `package.module:Name` at them."""
    if not isinstance(values, Mapping):
        return
    for key, part in values.items():
        chosen = [part] if key in CHOOSING else part if key == "methods" and isinstance(part, list) else ()
        yield from ((f"{path}{key}", name) for name in chosen if isinstance(name, str) and DOTTED.fullmatch(name))
        yield from _dotted(part, f"{path}{key}.")


def refuse_foreign(values: Any, source: Path, own: Collection[str] = ()) -> None:
    """Refuse names in a run folder, maybe somebody else's, that would import what nobody installed.

    Args:
        values: raw values of a configuration that was read from a run folder.
        source: the file, for the message.
        own: names that the user gave.

    Raises:
        UnknownNameError: a name of another module than those of installed distributions.
    """
    foreign = sorted((name, key) for key, name in _dotted(values) if name not in own)
    # Asked only then: it reads the metadata of all distributions.
    installed = packages_distributions() if foreign else {}
    for name, key in foreign:
        if name.partition(":")[0].partition(".")[0] not in installed:
            here = f", or env={name!r} in Python" if key == "environment.name" else ""
            raise UnknownNameError(
                f"{source} names {name!r}, which no installed distribution provides. If you trust it, name it "
                f"yourself, with --{key} {name}{here}."
            )


def companion(kind: Kind, name: str) -> str:
    """The sentence that says what to install for a name of a companion package; empty for any other name."""
    # Nothing of an absent package is installed, not even its name, so what it would offer is listed here.
    package = COMPANIONS.get(kind, {}).get(name.replace("-", "_"))
    if package is None:
        return ""
    return f"the {_singular(kind)} {name!r} comes with the package {package}. Install it: pip install {package}."


def _singular(kind: Kind) -> str:
    return SINGULAR.get(kind, kind.removesuffix("s"))


def _unknown(kind: Kind, name: str) -> str:
    singular = _singular(kind)
    if sentence := companion(kind, name):
        return sentence
    # The likeliest mistake: a path with a dot where the colon belongs.
    if "." in name:
        return f"{name!r} is no {singular}. A part outside this installation is named package.module:Name."
    return f"no {singular} named {name!r}. {suggestion(name, names(kind))}"


VERSIONS = {"alfworld": 1, "autoexplore": 1, "autoexplore_paper": 1, "corridor": 1, "dangerous_taxi": 1}
"""Versions of this project's games, so that registering them imports none of them."""


def register_all() -> None:
    """Register every installed environment with Gymnasium, for example `reflect_rl/DangerousTaxi-v1`.

    The environments of other distributions get an id without a version, as reading it would import them.
    """
    import gymnasium

    for name in names("environments"):
        title = name.title().replace("_", "")
        identifier = f"reflect_rl/{title}-v{VERSIONS[name]}" if name in VERSIONS else f"reflect_rl/{title}"
        # Gymnasium warns of an id that is registered twice, and tests and notebooks come here more than once.
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point="reflect_rl.envs.gym:make_gym", kwargs={"name": name})


def register_on_import() -> None:
    """Register now if Gymnasium is imported already, else when it is."""
    if "gymnasium" in sys.modules:
        register_all()
    else:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds Gymnasium as Python would, and registers the environments after it was run."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        # Only once, and gone before the search below, which would come here again.
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                run(module)
                register_all()

            spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
