"""Write the generated part of `docs/reference/configuration.md`, every section and key, from the configuration models.

Run `make docs` after a change of a configuration field; `tests/docs/test_configuration_page.py` fails until then.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from reflect_rl import registry
from reflect_rl.cli.help import meaning
from reflect_rl.config import FOLDERS, Frozen, sections as added
from reflect_rl.runs.config import RunConfig

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "configuration.md"
MARKER = "<!-- generated below: run `make docs` -->"
BOUNDS = {"ge": "≥ {}", "gt": "> {}", "le": "≤ {}", "lt": "< {}", "min_length": "at least {}"}


def sections() -> Iterator[tuple[str, list[str], type[Frozen]]]:
    """Title, table names and model of each section, in the order of `RunConfig`."""
    yield "The run", [], RunConfig
    yield from _below(RunConfig, "")


def _below(model: type[Frozen], prefix: str) -> Iterator[tuple[str, list[str], type[Frozen]]]:
    groups: dict[type[Frozen], list[str]] = {}
    for key, field in model.model_fields.items():
        if (part := _part(field)) is not None:
            groups.setdefault(part, []).append(prefix + key)
    for place, section in added().items():
        if place.rpartition(".")[0] == prefix.rstrip("."):
            groups.setdefault(section, []).append(place)
    for part, tables in groups.items():
        if part in FOLDERS:
            for name in registry.names(FOLDERS[part]):
                yield f'`[{tables[0]}]` with `name = "{name}"`', tables, registry.find(FOLDERS[part], name).Config
            continue
        if _leaves(part):
            yield ", ".join(f"`[{table}]`" for table in tables), tables, part
        for table in tables:
            yield from _below(part, f"{table}.")


def _part(field: FieldInfo) -> type[Frozen] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Frozen) else None


def _leaves(model: type[Frozen]) -> dict[str, FieldInfo]:
    return {key: field for key, field in model.model_fields.items() if _part(field) is None}


def generated() -> str:
    """The Markdown of all sections."""
    return "\n\n".join(_section(title, model) for title, _, model in sections()) + "\n"


def _section(title: str, model: type[Frozen]) -> str:
    rows = [_row(model, key) for key in _leaves(model)]
    summary = (model.__doc__ or "").strip().splitlines()[0]
    return "\n".join(
        [f"### {title}", "", summary, "", "| key | type | default | meaning |", "|---|---|---|---|", *rows]
    )


def _row(model: type[Frozen], key: str) -> str:
    field, told = model.model_fields[key], " ".join(meaning(model, key).split())
    cells = [f"`{key}`", _kind(field.annotation) + _bounds(field), _default(field), told]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _kind(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is tuple:
        return f"list of {_kind(arguments[0])}"
    if origin in (Union, types.UnionType):
        return " or ".join("unset" if part is type(None) else _kind(part) for part in arguments)
    return {bool: "true, false", int: "integer", float: "number", str: "text", Path: "path"}[kind]


def _bounds(field: FieldInfo) -> str:
    found = [
        text.format(value)
        for name, text in BOUNDS.items()
        for limit in field.metadata
        if (value := getattr(limit, name, None)) is not None
    ]
    return f", {', '.join(found)}" if found else ""


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "unset"
    return f"`{json.dumps(str(value) if isinstance(value, Path) else value)}`"


def updated(page: str) -> str:
    """The page with its generated part renewed.

    Raises:
        ValueError: the page lacks the marker.
    """
    head, marker, _ = page.partition(MARKER)
    if not marker:
        raise ValueError(f"{PAGE} lacks the line {MARKER}")
    return f"{head}{MARKER}\n\n{generated()}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
