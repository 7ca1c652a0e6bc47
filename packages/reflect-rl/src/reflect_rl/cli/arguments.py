"""Command line -> configuration: a TOML file (or a run folder's own configuration), with every field overridable.

A flag is the dotted name of a field (`--rlft.learning-rate 1e-4`), followed by its value, or by all values of a list
(`--seeds 0 1 2`). Flags are put into the values of the file and validated together with them, so that a mistake reads
the same wherever it was made. Commands of other packages use `parse_options`, so that all of them spell, refuse and
explain flags alike.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reflect_rl import registry
from reflect_rl.config import Frozen, config_of, may_hold_secret, narrow, parse, read_toml
from reflect_rl.errors import ConfigError, RunFolderError, suggestion
from reflect_rl.registry import Kind

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

Options = TypeVar("Options", bound=Frozen)
Help = Literal["none", "short", "all"]
SWITCH_WORDS = ("true", "false", "yes", "no", "on", "off", "1", "0", "none")
"""Words that pydantic reads as a truth value, and the one that unsets it."""
FLAG = re.compile(r"--?[A-Za-z][^\s=]*(=|$)", re.DOTALL)
"""Beginning of a word that is a flag; -0.5 and a question that begins with dashes are none."""


@dataclass(frozen=True)
class Words:
    """The words of a command: those before the first flag, and the values of each flag by its dotted name."""

    named: tuple[str, ...]
    flags: Mapping[str, tuple[str, ...]]
    help: Help


@dataclass(frozen=True)
class Flag:
    """A flag as it was written; which settings there are is not known yet."""

    spelling: str
    value: str | None
    """Value behind an equals sign."""
    words: tuple[str, ...]
    """The words up to the next flag."""


def flag_of(name: str) -> str:
    """Spell the flag of a setting."""
    return "--" + name.replace("_", "-")


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Dotted names of all settings, in the order of the model."""
    for key, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields_of(kind, f"{prefix}{key}.")
        else:
            # A field whose name pydantic keeps for itself (`json`) has an alias, and users write that one.
            yield f"{prefix}{field.alias or key}", field


def is_switch(field: FieldInfo) -> bool:
    """Tell whether a setting is true or false, or maybe unset."""
    return field.annotation is bool or (type(None) in get_args(field.annotation) and bool in get_args(field.annotation))


def scan(words: Sequence[str]) -> tuple[tuple[str, ...], list[Flag], Help]:
    """The words before the first flag, the flags, and which help was asked for."""
    asked: Help = "all" if "--help-all" in words else "short" if {"-h", "--help"} & set(words) else "none"
    rest = [word for word in words if word not in ("-h", "--help", "--help-all")]
    starts = [k for k, word in enumerate(rest) if FLAG.match(word)]
    flags = []
    for k, end in pairwise([*starts, len(rest)]):
        spelling, equals, value = rest[k].partition("=")
        flags.append(Flag(spelling, value if equals else None, tuple(rest[k + 1 : end])))
    return tuple(rest[: starts[0]] if starts else rest), flags, asked


def split_words(prog: str, words: Sequence[str], fields: Mapping[str, FieldInfo]) -> Words:
    """Tell the words of a command apart.

    Args:
        prog: the command, for messages.
        words: what follows it; flags may be spelt with dashes or underscores, and with `=`.
        fields: settings by dotted name.

    Raises:
        ConfigError: a flag that does not exist, or one given twice.
    """
    before, flags, asked = scan(words)
    # Dashes or underscores, so that a name can be pasted from a TOML file as it is. No abbreviations: a flag that is
    # added later would make a working command ambiguous.
    known = {spelling: (name, "true") for name in fields for spelling in (flag_of(name), "--" + name)}
    known |= {f"--no-{flag_of(name)[2:]}": (name, "false") for name, field in fields.items() if is_switch(field)}
    named, found, spelt = list(before), dict[str, tuple[str, ...]](), dict[str, str]()
    for flag in flags:
        if flag.spelling not in known:
            values = flag.words if flag.value is None else (flag.value,)
            raise ConfigError(_unknown_flag(prog, flag.spelling, values, list(fields)))
        name, meaning = known[flag.spelling]
        # The last of two equal flags would win in silence, which hides a mistake in a long command.
        if spelt.setdefault(name, flag.spelling) != flag.spelling:
            raise ConfigError(f"{spelt[name]} and {flag.spelling} set the same. Give one of them.")
        if name in found:
            raise ConfigError(f"{flag.spelling} is given twice. Give all its values after one {flag.spelling}.")
        if flag.value is not None:
            found[name], behind = (flag.value,), flag.words
        elif not is_switch(fields[name]):
            found[name], behind = flag.words, ()
        elif flag.words and flag.words[0].lower() in ("true", "false"):
            found[name], behind = flag.words[:1], flag.words[1:]
        else:
            # A switch takes the word after it only where that is a truth value: a file may follow it.
            found[name], behind = (meaning,), flag.words
        named += behind
    return Words(tuple(named), found, asked)


def _unknown_flag(prog: str, word: str, values: Sequence[str], known: Sequence[str]) -> str:
    if not word.startswith("--"):
        return f"no flag {word!r}. Flags have two dashes; `{prog} --help` lists them."
    name = word.lstrip("-").replace("-", "_")
    # `--rlft` is most often the start of a dotted name, so the nearest flag would be of no help.
    group = [other for other in known if other.startswith(name + ".")]
    if group:
        return f"{flag_of(name)} is a group of settings, such as {flag_of(group[0])}; --help-all lists them all."
    # The value stays out of the message, which may end up in a log.
    if may_hold_secret(name.rpartition(".")[2]):
        return f"unknown flag {flag_of(name)}. A key belongs into an environment variable only, never into a command."
    # Settings of a package that is not installed: the whole name, or the table that holds it.
    tables = [name.rsplit(".", count)[0] for count in range(name.count(".") + 1)]
    if sentence := next(filter(None, (registry.companion("settings", table) for table in tables)), ""):
        return f"{flag_of(name)}: {sentence}"
    value = f" (value {' '.join(values)!r})" if values else ""
    table = name.rpartition(".")[0]
    own = [other for other in known if other.rpartition(".")[0] == table]
    if table and own:
        # The table is right, so only the last word is compared: the whole names are alike by their table alone.
        last = {flag_of(other).rpartition(".")[2]: flag_of(other) for other in own}
        close = get_close_matches(flag_of(name).rpartition(".")[2], sorted(last), n=1)
        remedy = f"Did you mean {last[close[0]]!r}?" if close else f"[{table}] has: {', '.join(sorted(last))}."
        return f"unknown flag {flag_of(name)}{value}. {remedy}"
    nearest = suggestion(flag_of(name), map(flag_of, known))
    # Without a near name the suggestion would list every setting there is.
    if not nearest.startswith("Did"):
        nearest = "--help-all lists all flags."
    return f"unknown flag {flag_of(name)}{value}. {nearest}"


def overridden(
    values: Mapping[str, Any], fields: Mapping[str, FieldInfo], flags: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """The raw values with those of the flags in their places; a `ConfigError` where a flag lacks its one value."""
    out = dict(values)
    for name, words in flags.items():
        out = replaced(out, name.split("."), _value(name, fields[name], words))
    return out


def _value(name: str, field: FieldInfo, words: Sequence[str]) -> Any:
    if get_origin(field.annotation) is tuple:
        return list(words)
    if not words and isinstance(field.json_schema_extra, dict) and "bare" in field.json_schema_extra:
        return field.json_schema_extra["bare"]
    word = one_word(name, words)
    if is_switch(field) and word.lower() not in SWITCH_WORDS:
        flag = flag_of(name)
        raise ConfigError(f"{flag} is a switch: write {flag}, or {flag} false, not '{flag}={word}'.")
    # TOML has no null, so a command line must be able to unset what the file sets.
    return None if word == "None" and type(None) in get_args(field.annotation) else word


def one_word(name: str, words: Sequence[str]) -> str:
    """The one value of a flag; a `ConfigError` where it has none, or several."""
    flag = flag_of(name)
    if not words:
        raise ConfigError(f"{flag} needs a value: {flag} VALUE.")
    if len(words) > 1:
        remedy = "Put quotes around a value with spaces."
        # A file behind a flag is taken for another value of it: the commonest slip in a command.
        if any(Path(word).suffix == ".toml" or Path(word).is_dir() for word in words[1:]):
            remedy = "The configuration file, run folder or path comes before the flags."
        raise ConfigError(f"{flag} takes one value, got {len(words)}: {', '.join(words)}. {remedy}")
    return words[0]


def replaced(values: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The values with another one at a dotted path.

    Raises:
        ConfigError: something on the way is no table.
    """
    if len(path) == 1:
        return {**values, path[0]: value}
    inner = values.get(path[0], {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"{path[0]}: expected a table [{path[0]}], got {inner!r}.")
    return {**values, path[0]: replaced(inner, path[1:], value)}


def parse_options(
    usage: str,
    model: type[Options],
    arguments: Sequence[str],
    values: Callable[[Sequence[str]], Mapping[str, Any]] = lambda named: {},
) -> tuple[tuple[str, ...], Options]:
    """The words before the flags, and the options that the flags set: all that most commands need.

    Args:
        usage: the command with its words, for example `reflect-rl locate PATH QUESTION`.
        model: the options; its docstring is the description, those of its fields the help.
        arguments: the words after the command.
        values: raw values of options that no flag sets, from the words before the flags.

    Raises:
        ConfigError: a flag or value that is wrong.
        SystemExit: the help was asked for (0).
    """
    fields = dict(fields_of(model))
    words = split_words(" ".join(usage.split()[:2]), arguments, fields)
    # Before the help, which shows values as they would be used.
    options = parse(model, overridden(values(words.named), fields, words.flags))
    if words.help != "none":
        from reflect_rl.cli.help import print_help

        print_help(usage, model.__doc__ or "", model, options)
    return words.named, options


NAMED: dict[str, Kind] = {
    "environment.name": "environments",
    "rlft.algorithm.name": "algorithms",
    "rlft.curriculum.name": "curricula",
}
"""Flags that choose a part by name, and so decide which other flags exist."""

DRY = ("run", "data", "rlft", "eval")
"""Verbs that may ask a server, and know --dry-run; so do stages of other packages."""

EXAMPLE = "configs/taxi/smoke.toml"


class DryRun(Frozen):
    """A switch of the verbs that may ask an endpoint."""

    dry_run: bool = False
    """Show what would be sent to a language model behind an endpoint; send and write nothing."""


@dataclass(frozen=True)
class Invocation:
    """A verb with its configuration."""

    verb: str
    config: RunConfig
    own: Frozen | None = None
    """Settings of the verb itself, where it has any."""
    dry_run: bool = False
    """Verbs of `DRY` only: show what would be sent to an endpoint, and do nothing."""


def parse_arguments(
    verb: str, arguments: Sequence[str], settings: type[Frozen] | None = None, shown: Sequence[str] = ()
) -> Invocation:
    """The configuration of a call.

    Args:
        verb: `run`, `data`, `sft`, `rlft`, `eval`, a stage of another package, or a command with `settings`.
        arguments: what follows it: a TOML file or run folder (unless --output-dir names one), then flags.
        settings: flags of a command's own, beside those of a run; no file is needed then. Its docstring is the help.
        shown: dotted names of the flags that the short help of such a command shows.

    Raises:
        ConfigError: a wrong key or value, or a word too many; names it, and the nearest valid key.
        RunFolderError: the configuration of a run folder is not readable, or wrong.
        SystemExit: the help was asked for (0).
    """
    from reflect_rl.runs.config import RunConfig  # here: commands of other packages start without it

    extra = settings or (DryRun if _knows_dry_run(verb) else None)
    own = {} if extra is None else dict(fields_of(extra))
    # Two passes: which flags exist depends on parts that flags and the file choose.
    early = _early(arguments)
    wants_help = early.help != "none"
    paths = [Path(word) for word in early.named]
    values = _values(verb, paths, early.flags, optional=wants_help or settings is not None)
    if values is None:
        raise ConfigError(_no_place(verb, arguments, early.flags))
    # Before any part is looked up by its name.
    _offer_own_modules(_written(paths, values), early.flags)
    # The chosen environment, algorithm and curriculum decide which other flags exist.
    values = _with_chosen_names(values, early.flags)
    model = narrow(RunConfig, values)
    fields = dict(fields_of(model))
    words = split_words(f"reflect-rl {verb}", arguments, fields | own)
    if len(words.named) > len(paths):
        # Only a switch and `--flag=VALUE` leave a word behind them; other flags take all words up to the next one.
        _, flags, _ = scan(arguments)
        if spelt := next((f"{flag.spelling}={flag.value}" for flag in flags if flag.value and flag.words), ""):
            flag = spelt.partition("=")[0]
            raise ConfigError(
                f"{spelt} takes no further word, got {words.named[-1]!r}. Write several values as {flag} A B, and a "
                "configuration file or run folder before the flags."
            )
        raise ConfigError(
            f"{words.named[-1]!r} is neither true nor false, the values of a switch. A configuration file or run "
            "folder comes before the flags."
        )
    # Apart from the settings of the run: they change nothing that config.json should keep.
    options = overridden({}, own, {name: value for name, value in words.flags.items() if name in own})
    values = overridden(values, fields, {name: value for name, value in words.flags.items() if name in fields})
    # Also for the help, which shows present values and must not show wrong ones.
    try:
        config = parse(RunConfig, values)
    except ConfigError as error:
        # Where no flag was given the fault is in the run folder, whose file must be named.
        if words.flags or not (paths and paths[0].is_dir()):
            raise
        raise RunFolderError(f"{paths[0] / 'config.json'}: {error}") from None
    if wants_help:
        from reflect_rl.cli.help import print_run_help

        print_run_help(verb, model, extra, config, words, shown)
    if settings is not None:
        return Invocation(verb, config, parse(settings, options))
    return Invocation(verb, config, dry_run=parse(DryRun, options if _knows_dry_run(verb) else {}).dry_run)


def _knows_dry_run(verb: str) -> bool:
    return verb in (*DRY, *registry.names("stages"))


def _early(arguments: Sequence[str]) -> Words:
    """The words before the first flag, and the few flags that decide which file is read and which flags exist."""
    named, flags, asked = scan(arguments)
    chosen = {
        flag.spelling[2:].replace("-", "_"): flag.words if flag.value is None else (flag.value,) for flag in flags
    }
    # Other flags wait: whether they exist is not known at this point.
    return Words(named, {name: chosen[name] for name in (*NAMED, "methods", "output_dir") if name in chosen}, asked)


def _written(paths: Sequence[Path], values: dict[str, Any]) -> dict[str, Any]:
    """The values that the user wrote into a file; none where they come from a run folder, maybe somebody else's."""
    return values if paths and not paths[0].is_dir() else {}


def _offer_own_modules(values: Mapping[str, Any], flags: Mapping[str, Sequence[str]]) -> None:
    """Let `package.module:Name` be found in the current folder, where the user wrote it.

    A run folder may be somebody else's, and lie beside their files: its config.json must not get these imported.

    Args:
        values: of a configuration file of the user's own.
        flags: of the command line.
    """
    named = [word for path in (*NAMED, "methods") for word in flags.get(path, ())]
    offer_modules_here([*named, *registry.dotted_names(values)])


def offer_modules_here(names: Iterable[str]) -> None:
    """Let `package.module:Name`, if it is among the names that a user gave, be found in the current folder."""
    # Last, so that no file of the folder takes the place of an installed module.
    if any(":" in name for name in names) and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))


def _values(
    verb: str, paths: Sequence[Path], flags: Mapping[str, Sequence[str]], *, optional: bool
) -> dict[str, Any] | None:
    """The raw values of the TOML file, or of the run folder named as a path or by --output-dir; None: none is."""
    if len(paths) > 1:
        raise ConfigError(f"expected one configuration file, got {len(paths)}: {', '.join(map(str, paths))}.")
    place = paths[0] if paths else None
    named = Path(*flags.get("output_dir", ())[:1])
    # A run goes on with its own settings, so the file that it began with need not be named again.
    if place is None and "output_dir" in flags and (named / "config.json").exists():
        place = named
    if place is None:
        return {} if optional else None
    if not place.is_dir():
        return read_toml(place)
    # An evaluation of a run into another folder plays the players of that run.
    is_source = verb == "eval" and "output_dir" in flags and named.resolve() != place.resolve()
    from reflect_rl.runs.config import values_of_run  # here: commands of other packages start without it

    # Flags are the user's own choice; the folder's settings may be somebody else's.
    own = [word for path in (*NAMED, "methods") for word in flags.get(path, ())]
    return values_of_run(place, own) | ({"start_from": str(place)} if is_source else {})


def _no_place(verb: str, arguments: Sequence[str], flags: Mapping[str, Sequence[str]]) -> str:
    # The likeliest cause first: a list flag takes all words that follow it, a file name among them.
    files = [word for word in arguments if word.endswith(".toml")]
    if files:
        return f"the configuration file comes before the flags: reflect-rl {verb} {files[0]} ..."
    if "output_dir" in flags:
        return (
            f"{' '.join(flags['output_dir'])!r} is no run folder yet. Name a configuration file too, such as {EXAMPLE}."
        )
    return f"name a configuration file or a run folder, for example: reflect-rl {verb} {EXAMPLE}"


def _with_chosen_names(values: dict[str, Any], flags: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Variations chosen by flag; settings of the file that the newly chosen variation does not know are left out."""
    for path, folder in NAMED.items():
        if path not in flags or not one_word(path, flags[path]):
            continue
        name, parents = flags[path][0], path.split(".")[:-1]
        part = _inner(values, parents)
        if part.get("name") != name:
            # A user who tries another algorithm by a flag keeps what both know, and need not empty the file's table.
            known = config_of(folder, name, path).model_fields
            kept = {key: value for key, value in part.items() if key in known}
            values = replaced(values, parents, {**kept, "name": name})
    return values


def _inner(values: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    """The table at a path; empty where there is none."""
    part: Any = values
    for key in path:
        # A file may hold a number where a table belongs; `parse` refuses it later, by its name.
        part = part.get(key, {}) if isinstance(part, Mapping) else {}
    return part if isinstance(part, Mapping) else {}
