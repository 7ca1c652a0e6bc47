"""Command line -> configuration: a TOML file (or a run folder's own configuration), with every field overridable.

A flag is the dotted name of a field (`--rlft.learning-rate 1e-4`), followed by its value, or by all values of a list
(`--seeds 0 1 2`). Flags are put into the values of the file and validated together with them, so that a mistake reads
the same wherever it was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from reflect_rl.config import FOLDERS, Frozen, config_of, may_hold_secret, narrow, parse, read_toml
from reflect_rl.errors import ConfigError, suggestion
from reflect_rl.runs.config import RunConfig
from reflect_rl.store import read_json

__all__ = [
    "DESCRIPTIONS",
    "Flags",
    "Invocation",
    "PlayOptions",
    "named_and_flags",
    "overridden",
    "parse_arguments",
    "show_help",
    "split_words",
]

NAMED = {
    "environment.name": "environments",
    "rlft.algorithm.name": "algorithms",
    "rlft.curriculum.name": "curricula",
}
"""Flags that choose a variation, and so decide which other flags exist."""
assert set(NAMED.values()) == set(FOLDERS.values())  # noqa: S101 (an invariant of this program)

DESCRIPTIONS = {
    "run": "Generate data, train, evaluate and report: all stages, from where the run folder stands. With --dry-run: "
    "show what would be sent to the endpoint, and do nothing.",
    "annotate": "Let a language model behind an API write the reflections of the demonstrations. With --dry-run: show "
    "what would be sent, and do nothing.",
    "data": "Generate demonstrations and the supervised data sets. With --dry-run: see `annotate`.",
    "sft": "Supervised training of the reflection player and the policies.",
    "rlft": "Online RL fine-tuning. With --dry-run: see `run`.",
    "eval": "Evaluate every method and write results.json. With a run folder and another --output-dir: its players "
    "under other settings of the evaluation, or on other games. With --dry-run: see `run`.",
    "report": "Write results.json and report.html; with several run folders, one page for all of them.",
    "play": "Show one episode turn by turn, or play one yourself.",
}

DRY = ("run", "annotate", "data", "rlft", "eval")
"""Verbs that may ask an endpoint, and know --dry-run."""

EXAMPLE = "configs/taxi/smoke.toml"


class PlayOptions(Frozen):
    """Which episode to show."""

    player: str = "oracle"
    """Who chooses: a method of the run (`reflect_rl`, `sft`, ...), `oracle`, `random`, `human`, or a model folder."""
    reflections: str = "auto"
    """Who writes: `auto` (the method's own reflection player), `none`, `oracle`, or a model folder."""
    decoding: Literal["greedy", "sampled"] = "greedy"
    """`greedy` = the most likely action; `sampled` = drawn at temperature 1."""
    unit: str = ""
    """Whose models: a folder of the run such as `starts-100/seed-0` (empty: the run's first)."""
    mode: str = ""
    """Mode of the game (empty: that of the task, or the hardest)."""
    task: str = ""
    """Key of the task, for example `full/133` (empty: drawn from the test split by the seed)."""
    episode_seed: int = Field(0, ge=0)
    """Seed of the episode: of the task, of the order of the actions and of sampling."""


@dataclass(frozen=True)
class Invocation:
    """A verb with its configuration."""

    verb: str
    config: RunConfig
    play: PlayOptions
    folders: tuple[Path, ...] = ()
    """`report` only: the run folders that were named."""
    target: Path | None = None
    """The --output-dir that was named."""
    dry_run: bool = False
    """Verbs of `DRY` only: show what would be sent to an endpoint, and do nothing."""


Flags = Mapping[str, Sequence[str]]
"""Values of each flag by its dotted name, with underscores."""


def parse_arguments(verb: str, arguments: Sequence[str]) -> Invocation:
    """The configuration of a call.

    Args:
        verb: `run`, `data`, `sft`, `rlft`, `eval`, `report`, `play` or `bench`.
        arguments: what follows it: optionally a TOML file or run folder (for `report`: or several), then flags.

    Raises:
        ConfigError: a wrong key or value; names the key, the value and the nearest valid key.
        SystemExit: the help was asked for (0).
    """
    words = [word for word in arguments if word not in ("-h", "--help")]
    wants_help = len(words) < len(arguments)
    paths, flags = split_words(verb, words)
    dry_run = verb in DRY and _switch(flags, "dry_run")
    values = _values(verb, paths, flags, optional=wants_help or verb == "play")
    values = _with_chosen_names(values, flags)
    model = narrow(RunConfig, values)
    shown = PlayOptions.model_fields if verb == "play" else {}
    play = {key: words[-1] for key, words in flags.items() if key in shown and _one(key, words)}
    values = overridden(model, values, {key: words for key, words in flags.items() if key not in shown}, shown)
    if wants_help:
        _print_help(verb, model, parse(RunConfig, values))
    folders = tuple(path for path in paths if verb == "report")
    target = Path(flags["output_dir"][0]) if "output_dir" in flags else None
    return Invocation(verb, parse(RunConfig, values), parse(PlayOptions, play), folders, target, dry_run=dry_run)


def _print_help(verb: str, model: type[RunConfig], config: RunConfig) -> None:
    """Every field with its docstring and the value it has now; does not return."""
    base: type[Frozen] = model
    if verb == "play":
        base = create_model("Play", __base__=(model, PlayOptions), __doc__="Show one episode.")
    show_help(verb, base, base.model_validate(config.model_dump()))


def show_help(verb: str, base: type[BaseModel], values: BaseModel, description: str = "") -> None:
    """Every field of a model with its docstring and its value; does not return."""
    import tyro

    tyro.cli(
        base,
        prog=f"reflect-rl {verb}",
        args=["--help"],
        default=values,
        description=description or DESCRIPTIONS[verb],
        config=(tyro.conf.FlagConversionOff, tyro.conf.AvoidSubcommands),
    )


def named_and_flags(verb: str, words: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """What stands before the first flag, however many words, and the flags.

    Raises:
        ConfigError: as `split_words`.
    """
    count = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    return list(words[:count]), split_words(verb, words[count:])[1]


def split_words(verb: str, words: Sequence[str]) -> tuple[list[Path], dict[str, list[str]]]:
    """Leading words are paths, the rest are flags with their values."""
    count = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    flags: dict[str, list[str]] = {}
    name = ""
    for word in words[count:]:
        if re.match(r"-[\d.]", word) or not word.startswith("-"):
            flags[name].append(word)
            continue
        flag, equals, value = word.partition("=")
        name = flag.lstrip("-").replace("-", "_")
        if name in flags:
            raise ConfigError(f"{flag} is given twice. Give all its values after one {flag}.")
        flags[name] = [value] if equals else []
        if not flag.startswith("--"):
            raise ConfigError(f"no flag {flag!r}. Flags have two dashes; `reflect-rl {verb} --help` lists them.")
    return [Path(word) for word in words[:count]], flags


def _switch(flags: dict[str, list[str]], name: str) -> bool:
    """Whether a flag without a value is there; it is taken out.

    Raises:
        ConfigError: it has a value.
    """
    words = flags.pop(name, None)
    if words:
        flag = "--" + name.replace("_", "-")
        raise ConfigError(f"{flag} takes no value, got {' '.join(words)!r}. Put it behind the configuration file.")
    return words is not None


def _one(name: str, words: Sequence[str]) -> bool:
    """Whether a flag has its one value.

    Raises:
        ConfigError: it has none, or several.
    """
    flag = "--" + name.replace("_", "-")
    if not words:
        raise ConfigError(f"{flag} needs a value: {flag} VALUE.")
    if len(words) > 1:
        remedy = "Put quotes around a value with spaces."
        if any(Path(word).suffix == ".toml" or Path(word).is_dir() for word in words[1:]):
            remedy = "The configuration file or run folder comes before the flags."
        raise ConfigError(f"{flag} takes one value, got {len(words)}: {', '.join(words)}. {remedy}")
    return True


def overridden(
    model: type[Frozen], values: dict[str, Any], flags: Flags, others: Mapping[str, FieldInfo]
) -> dict[str, Any]:
    """The values with those of the flags in their places.

    Args:
        model: the narrowed configuration, which knows all fields.
        values: of the file.
        flags: the flags that set a field of `model`.
        others: further flags that exist, for the suggestion.
    """
    fields = dict(_fields(model))
    for name, words in flags.items():
        if name not in fields:
            group = [other for other in fields if other.startswith(name + ".")]
            raise ConfigError(_unknown_flag(name, words, group, [*fields, *others]))
        is_list = get_origin(fields[name].annotation) is tuple
        value: Any = list(words) if is_list else words[0] if _one(name, words) else None
        if value == "None" and type(None) in get_args(fields[name].annotation):
            value = None
        *parents, last = name.split(".")
        values = _replaced(values, parents, {**_inner(values, parents), last: value})
    return values


def _unknown_flag(name: str, words: Sequence[str], group: Sequence[str], known: Sequence[str]) -> str:
    def flag(key: str) -> str:
        return "--" + key.replace("_", "-")

    if group:
        return f"{flag(name)} is a group of settings, such as {flag(group[0])}; --help lists them all."
    if may_hold_secret(name.rpartition(".")[2]):
        return f"unknown flag {flag(name)}. A key belongs into an environment variable only, never into a command."
    value = f" (value {' '.join(words)!r})" if words else ""
    nearest = suggestion(flag(name), map(flag, known))
    if not nearest.startswith("Did"):
        nearest = "--help lists all flags."
    return f"unknown flag {flag(name)}{value}. {nearest}"


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Dotted names of all settings."""
    for key, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", field


def _values(verb: str, paths: Sequence[Path], flags: Flags, *, optional: bool) -> dict[str, Any]:
    """The raw values of the TOML file, or of the run folder named as a path or by --output-dir."""
    if verb == "report":
        for path in paths:
            if not path.exists():
                raise ConfigError(f"no run folder {str(path)!r}. Name folders that `reflect-rl eval` has written.")
    elif len(paths) > 1:
        raise ConfigError(f"expected one configuration file, got {len(paths)}: {', '.join(map(str, paths))}.")
    place = paths[0] if paths else None
    named = Path(*flags.get("output_dir", ())[:1])
    if place is None and "output_dir" in flags and (named / "config.json").exists():
        place = named
    if place is None and not optional:
        raise ConfigError(_no_place(verb, flags))
    if place is None:
        return {}
    if not place.is_dir():
        return read_toml(place)
    # An evaluation of a run into another folder plays the players of that run.
    is_source = verb == "eval" and "output_dir" in flags and named.resolve() != place.resolve()
    return _of_run(place) | ({"start_from": str(place)} if is_source else {})


def _no_place(verb: str, flags: Flags) -> str:
    files = [word for words in flags.values() for word in words if word.endswith(".toml")]
    if files:
        return f"the configuration file comes before the flags: reflect-rl {verb} {files[0]} ..."
    if "output_dir" in flags:
        return (
            f"{' '.join(flags['output_dir'])!r} is no run folder yet. Name a configuration file too, such as {EXAMPLE}."
        )
    return f"name a configuration file or a run folder, for example: reflect-rl {verb} {EXAMPLE}"


def _of_run(folder: Path) -> dict[str, Any]:
    path, remedy = folder / "config.json", f"Is {folder} a run folder? Name one, or a configuration file."
    values = read_json(path, remedy)
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no configuration. {remedy}")
    return {**values, "output_dir": str(folder)}


def _with_chosen_names(values: dict[str, Any], flags: Flags) -> dict[str, Any]:
    """Variations chosen by flag; settings of the file that the newly chosen variation does not know are left out."""
    for path, folder in NAMED.items():
        if path not in flags or not _one(path, flags[path]):
            continue
        name, parents = flags[path][0], path.split(".")[:-1]
        part = _inner(values, parents)
        if part.get("name") != name:
            known = config_of(folder, name, path).model_fields
            kept = {key: value for key, value in part.items() if key in known}
            values = _replaced(values, parents, {**kept, "name": name})
    return values


def _inner(values: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    """The table at a path; empty where there is none."""
    part: Any = values
    for key in path:
        part = part.get(key, {}) if isinstance(part, Mapping) else {}
    return part if isinstance(part, Mapping) else {}


def _replaced(values: Mapping[str, Any], path: Sequence[str], part: Mapping[str, Any]) -> dict[str, Any]:
    """The values with another table at a path."""
    if not path:
        return dict(part)
    inner = values.get(path[0], {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{path[0]}: expected a table [{path[0]}], got {inner!r}.")
    return {**values, path[0]: _replaced(inner, path[1:], part)}
