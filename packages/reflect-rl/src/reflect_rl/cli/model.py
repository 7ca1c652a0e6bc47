"""`reflect-rl model`: get a pretrained model once into the user's cache, list the known ones, merge an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from reflect_rl.errors import UserError, suggestion
from reflect_rl.models.catalogue import KNOWN, cache_folder, get_model
from reflect_rl.models.gguf import is_complete
from reflect_rl.models.source import HUB, HUB_ID, resolve

USAGE = """\
usage: reflect-rl model get NAME              download, check and convert a model; afterwards model.path = "NAME"
       reflect-rl model get hub:OWNER/NAME    download a model of the Hugging Face hub into its cache
       reflect-rl model get FILE.gguf         convert a GGUF file of your own; afterwards model.path = "FILE.gguf"
       reflect-rl model list                  the names, their licence, and whether they are in the cache
       reflect-rl model merge ADAPTER FOLDER  write an adapter and its base as one model into a new folder
"""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: `get NAME`, `get hub:OWNER/NAME`, `get FILE.gguf`, `list` or `merge ADAPTER FOLDER`.
        console: where the result is printed.

    Raises:
        UserError: a mistake in the arguments, or the model cannot be had.
    """
    verb, *names = arguments or ("--help",)
    if {"-h", "--help"} & {verb, *names}:
        console.print(USAGE, end="")
    elif verb == "list" and not names:
        for known in KNOWN.values():
            here = "in" if is_complete(cache_folder() / "models" / known.name) else "not in"
            console.print(f"{known.name}  {known.license}  {known.hub_id}  {here} the cache")
    elif verb == "get" and len(names) == 1:
        is_other = names[0].startswith(HUB) or Path(names[0]).suffix.lower() == ".gguf"
        if is_other or names[0] in KNOWN:
            # Before the work, because a download that shows nothing looks like a hang.
            console.print(f"getting {names[0]}; the first time takes a minute or two")
        elif not Path(names[0]).is_dir() and HUB_ID.fullmatch(names[0]):
            raise UserError(
                f"no model named {names[0]!r}. A model of the Hugging Face hub is written {HUB + names[0]!r}."
            )
        folder = Path(resolve(names[0])) if is_other else get_model(names[0])
        licence = "see its card" if is_other else KNOWN[names[0]].license
        size = sum(file.stat().st_size for file in folder.iterdir())
        console.print(f"{names[0]}: {size / 1e6:.0f} MB, licence {licence}, in {folder}")
        console.print(f'use it with model.path = "{names[0]}"; nothing is downloaded again.')
    elif verb == "merge" and len(names) == 2:
        # Here, because it loads torch, which the other uses do without.
        from reflect_rl.models.merge import merge_adapter

        merge_adapter(names[0], Path(names[1]))
        console.print(f'wrote {names[1]}; use it with model.path = "{names[1]}"')
    elif verb == "merge":
        raise UserError(f"`reflect-rl model merge` takes an adapter and a new folder, got {len(names)} names.")
    elif verb == "get":
        raise UserError(f"`reflect-rl model get` takes one name, got {len(names)}. Known: {', '.join(sorted(KNOWN))}.")
    else:
        raise UserError(
            f"no such use: reflect-rl model {' '.join(arguments)}. {suggestion(verb, ['get', 'list', 'merge'])}"
        )
