"""Command line -> configuration: a TOML file (or a run folder's own configuration), with every field overridable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from pydantic import BaseModel, Field, ValidationError, create_model

from reflect_rl.core import catalog
from reflect_rl.core.config import FOLDERS, Frozen, explain, narrow, parse, read_toml
from reflect_rl.core.errors import ConfigError
from reflect_rl.core.store import read_json
from reflect_rl.pipeline.config import RunConfig

__all__ = ["Invocation", "PlayOptions", "parse_arguments"]

NAMED = {
    "environment.name": "environments",
    "rlft.algorithm.name": "algorithms",
    "rlft.curriculum.name": "curricula",
}
"""Flags that choose a variation, and so decide which other flags exist."""


class PlayOptions(Frozen):
    """Which episode to show."""

    player: str = "oracle"
    """Who chooses: a method of the run (`reflect_rl`, `sft`, ...), `oracle`, `random`, `human`, or a model folder."""
    reflections: str = "auto"
    """Who writes: `auto` (the method's own player), `none`, `oracle`, or a model folder."""
    decoding: str = Field("greedy", pattern="^(greedy|sampled)$")
    """`greedy` or `sampled`."""
    mode: str = ""
    """Mode of the game (empty: the hardest)."""
    task: str = ""
    """Key of the task, for example `full/137` (empty: drawn from the test split by the seed)."""
    episode_seed: int = Field(0, ge=0)
    """Seed of the episode."""


@dataclass(frozen=True)
class Invocation:
    """A verb with its configuration."""

    verb: str
    config: RunConfig
    play: PlayOptions
    folders: tuple[Path, ...] = ()
    """`report` only: run folders to put into one page."""


def parse_arguments(verb: str, arguments: Sequence[str]) -> Invocation:
    """The configuration of a call.

    Args:
        verb: `run`, `data`, `sft`, `rlft`, `eval`, `report` or `play`.
        arguments: what follows it: optionally a TOML file (for `report`: or run folders), then flags.

    Raises:
        ConfigError: a wrong key or value; names the key, the value and the nearest valid key.
        SystemExit: the help was asked for (0), or a flag is wrong (2).
    """
    paths, flags = _split(arguments)
    folders = tuple(path for path in paths if verb == "report" and path.is_dir())
    values = _values([path for path in paths if path not in folders] or list(folders[:1]), flags)
    values = _with_chosen_names(values, flags)
    base: type[Frozen] = narrow(RunConfig, values)
    if verb == "play":
        base = create_model("Play", __base__=(base, PlayOptions), __doc__="Show one episode.")
    default = _default(base, values)
    try:
        chosen: Any = tyro.cli(
            base,
            prog=f"reflect-rl {verb}",
            args=list(flags),
            default=default,
            description=DESCRIPTIONS[verb],
            config=(tyro.conf.FlagConversionOff, tyro.conf.AvoidSubcommands),
        )
    except ValidationError as error:
        raise ConfigError(explain(base, error)) from None
    table = chosen.model_dump(mode="json")
    play = PlayOptions(**{key: table.pop(key) for key in PlayOptions.model_fields if key in table})
    return Invocation(verb, parse(RunConfig, table), play, folders)


DESCRIPTIONS = {
    "run": "Generate data, train, evaluate and report: all stages, from where the run folder stands.",
    "data": "Generate demonstrations and the supervised data sets.",
    "sft": "Supervised training of the reflection player and the policies.",
    "rlft": "Online RL fine-tuning.",
    "eval": "Evaluate every method and write results.json.",
    "report": "Write results.json and report.html; with several run folders, one page for all of them.",
    "play": "Show one episode turn by turn, or play one yourself.",
}


def _split(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Leading words are paths, the rest are flags."""
    count = next((i for i, word in enumerate(arguments) if word.startswith("-")), len(arguments))
    return [Path(word) for word in arguments[:count]], list(arguments[count:])


def _flag(flags: Sequence[str], name: str) -> str | None:
    for position, word in enumerate(flags):
        for spelling in (f"--{name}", f"--{name.replace('_', '-')}"):
            if word.startswith(spelling + "="):
                return word.partition("=")[2]
            if word == spelling and position + 1 < len(flags):
                return flags[position + 1]
    return None


def _values(paths: Sequence[Path], flags: Sequence[str]) -> dict[str, Any]:
    """The raw values of the TOML file, or of the run folder named as a path or by --output-dir."""
    if len(paths) > 1:
        raise ConfigError(f"expected one configuration file, got {len(paths)}: {', '.join(map(str, paths))}.")
    place = paths[0] if paths else None
    if place is None and (folder := _flag(flags, "output_dir")) is not None and (Path(folder) / "config.json").exists():
        place = Path(folder)
    if place is None:
        if any(flag in ("-h", "--help") for flag in flags):
            return {}
        raise ConfigError("name a configuration file (for example configs/taxi/demo.toml) or an existing --output-dir.")
    if place.is_dir():
        values = read_json(place / "config.json", f"{place} is no run folder; name a configuration file or a run folder.")
        return {**values, "output_dir": str(place)}
    return read_toml(place)


def _with_chosen_names(values: dict[str, Any], flags: Sequence[str]) -> dict[str, Any]:
    """Variations chosen by flag; settings of the file that the newly chosen variation does not know are left out."""
    for path, folder in NAMED.items():
        name = _flag(flags, path)
        *parents, _ = path.split(".")
        part: Mapping[str, Any] | Any = values
        for key in parents:
            part = part.get(key, {}) if isinstance(part, Mapping) else {}
        if name is None or not isinstance(part, Mapping) or part.get("name") == name:
            continue
        known: type[BaseModel] = catalog.find(folder, name).Config
        kept = {key: value for key, value in part.items() if key in known.model_fields}
        values = _replaced(values, parents, {**kept, "name": name})
    return values


def _replaced(values: Mapping[str, Any], path: Sequence[str], part: dict[str, Any]) -> dict[str, Any]:
    if not path:
        return part
    inner = values.get(path[0], {})
    return {**values, path[0]: _replaced(inner, path[1:], part)}


def _default(base: type[Frozen], values: Mapping[str, Any]) -> Frozen:
    try:
        return base.model_validate(values)
    except ValidationError as error:
        raise ConfigError(explain(base, error)) from None


assert set(NAMED.values()) == set(FOLDERS.values())
