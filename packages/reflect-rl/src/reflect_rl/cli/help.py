"""The help of a command: its flags with their docstrings and present values."""

from __future__ import annotations

import argparse
import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Literal, NoReturn, get_args, get_origin

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from reflect_rl import registry
from reflect_rl.cli.arguments import NAMED, Words, fields_of, flag_of, is_switch
from reflect_rl.config import Frozen
from reflect_rl.evaluation.methods import method_names
from reflect_rl.runs.config import RunConfig

COMMON = (
    "output_dir", "seeds", "methods", "workers", "threads", "start_from",
    "environment.name", "environment.modes", "environment.max_episode_steps",
    "model.path", "model.lora.rank", "model.precision", "model.device",
    "data.demonstration_starts", "data.label_source",
    "sft.reflector.steps", "sft.policy_plain.steps", "sft.policy_reflect.steps",
    "rlft.total_turns", "rlft.learning_rate", "rlft.num_envs", "rlft.algorithm.name",
    "evaluation.split", "evaluation.horizons", "evaluation.repetitions",
)  # fmt: skip
"""Settings that most runs change, shown by --help; --help-all shows the rest."""

DESCRIPTIONS = {
    "run": "Generate data, train, evaluate and report: all stages, from where the run folder stands. With --dry-run: "
    "show what would be sent to a server, and do nothing.",
    "data": "Generate demonstrations and the supervised data sets. With --dry-run: see `run`.",
    "sft": "Supervised training of the reflection player and the policies.",
    "rlft": "Online RL fine-tuning. With --dry-run: see `run`.",
    "eval": "Evaluate every method and write results.json. With a run folder and another --output-dir: its players "
    "under other settings of the evaluation, or on other games. With --dry-run: see `run`.",
}


def print_run_help(
    verb: str,
    model: type[RunConfig],
    extra: type[Frozen] | None,
    config: RunConfig,
    words: Words,
    shown: Sequence[str] = (),
) -> None:
    """The flags with their present values; does not return."""
    own = () if extra is None else tuple(name for name, _ in fields_of(extra))
    base: type[Frozen] = model if extra is None else create_model("Command", __base__=(extra, model))
    # The long list hides the few settings that most runs change.
    only = None if words.help == "all" else shown or (*own, *COMMON)
    names = {path: registry.names(kind) for path, kind in NAMED.items()} | {"methods": method_names()}
    # Flags alone tell `play` what to play; all others need a file or folder.
    place = "[CONFIG.toml | RUN_FOLDER]" if verb == "play" else "(CONFIG.toml | RUN_FOLDER)"
    usage = f"reflect-rl {verb} {place}"
    described = DESCRIPTIONS.get(verb) or (extra.__doc__ or "" if shown else registry.find("stages", verb).help)
    print_help(usage, described, base, base.model_validate(config.model_dump()), only, names)


def print_help(
    usage: str,
    description: str,
    model: type[BaseModel],
    values: BaseModel,
    only: Sequence[str] | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
) -> NoReturn:
    """Print flags with their docstrings and present values, grouped by table, and leave with exit code 0.

    Args:
        usage: the command with its words, for example `reflect-rl run [CONFIG.toml]`.
        description: what it does.
        model: the settings.
        values: their present values.
        only: dotted names to show, in their order (None: all).
        names: what a setting of a dotted name may be set to, where its type does not say so.
    """
    # A parser for the page alone. It reads nothing, so `_Parser` and its errors have no part in it.
    parser = argparse.ArgumentParser(
        prog=usage, usage=f"{usage} [--flag VALUE ...]", description=description, add_help=False
    )
    groups: dict[str, Any] = {}
    fields = dict(fields_of(model))
    for name in fields if only is None else [name for name in only if name in fields]:
        field = fields[name]
        table = name.rpartition(".")[0]
        group = groups.setdefault(table, parser.add_argument_group(f"[{table}]" if table else "general"))
        # argparse fills in `%(default)s` and the like; docstrings mean a percent sign when they have one.
        help_text = f"{meaning(model, name)} (now: {_shown(values, name)})"
        group.add_argument(
            flag_of(name), metavar=_metavar(field, (names or {}).get(name, ())), help=help_text.replace("%", "%%")
        )
    more = "" if only is None else "\n--help-all lists all flags."
    # In one write: the reader of a pipe may leave after the first line.
    print(parser.format_help() + more + "\n", end="")
    raise SystemExit(0)


def meaning(model: type[BaseModel], name: str) -> str:
    """Help of a setting: its description, else the docstring below it."""
    key, _, rest = name.partition(".")
    own, field = next((own, field) for own, field in model.model_fields.items() if key in (own, field.alias))
    if isinstance(table := field.annotation, type) and issubclass(table, BaseModel):
        return meaning(table, rest)
    return field.description or next((text for kind in model.__mro__ if (text := _docstrings(kind).get(own))), "")


# Models that read their own source when they are made (`use_attribute_docstrings`) would delay the start of every verb.
@cache
def _docstrings(model: type) -> dict[str, str]:
    """Docstrings of the fields that a class defines itself; none where its source is not at hand."""
    try:
        definition = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body if isinstance(definition, ast.ClassDef) else ())
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _shown(values: BaseModel, name: str) -> str:
    value: Any = values
    for key in name.split("."):
        fields = type(value).model_fields
        # By alias or by name: a dotted flag carries the alias.
        value = getattr(value, next((own for own, field in fields.items() if key in (own, field.alias)), key))
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "empty"
    return "unset" if value is None else str(value) or "empty"


def _metavar(field: FieldInfo, names: Sequence[str] = ()) -> str:
    several = " ..." if get_origin(field.annotation) is tuple else ""
    if names:
        return "{" + ",".join(names) + "}" + several
    if is_switch(field):
        return "[true|false]"
    literal = next(
        (part for part in (field.annotation, *get_args(field.annotation)) if get_origin(part) is Literal), None
    )
    if literal is not None:
        return "{" + ",".join(map(str, get_args(literal))) + "}" + several
    return "VALUE" + several
