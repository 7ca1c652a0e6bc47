"""`reflect-rl serve PATH...`: an MCP server that finds files, for editors and coding agents."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from rich.console import Console

from reflect_locate.cli.locate import adapted_of, check_modes, player_of, printable_line, reread_of, told_left_out
from reflect_locate.cli.options import PlayerOptions
from reflect_rl.cli.arguments import parse_options
from reflect_rl.config import Frozen
from reflect_rl.errors import ConfigError

VERB = "serve"


class ServeOptions(Frozen, PlayerOptions):
    """Find files and lines for editors and coding agents (MCP): over stdin and stdout, or HTTP on this machine."""

    http: bool = False
    """Serve over HTTP, on 127.0.0.1 only (`--http`, without a value)."""
    port: int = Field(8765, ge=0, le=65_535)
    """Port for HTTP; 0 = a free one."""
    seconds: float = Field(30, gt=0, le=86_400)
    """Longest search of the player; episodes that are not finished then do not count."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb; nothing but the protocol is written to stdout.

    Args:
        arguments: the folders that may be asked about, then flags.
        console: for the help only.

    Raises:
        UserError: a mistake in the arguments, a folder that cannot be read, no player, or no MCP SDK.
        SystemExit: the help was asked for (0).
    """
    paths, options = parse_serve(arguments)
    check_modes(options)
    # Over stdin and stdout the protocol owns stdout; one line of ours would break it.
    notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

    from reflect_locate.repositories.index_cache import cache_folder
    from reflect_locate.repositories.tree import Tree
    from reflect_locate.serve import make_server, serve_http, serve_stdio
    from reflect_locate.served_answers import SearchService
    from reflect_locate.served_folders import ServedFolders

    adapted = adapted_of(options)
    # Its paths would be taken for those of another folder.
    if adapted is not None and len(paths) > 1:
        raise ConfigError(f"--adapted is about one repository, and {len(paths)} folders are named. Serve it alone.")

    # Read before a model is loaded, so that a wrong path is told at once.
    def tell(note: str) -> None:
        notes.print(printable_line(note))

    folders = ServedFolders(paths, cache=None if options.no_cache else cache_folder(tell), tell=tell)
    # First of the two, as it refuses what excludes it.
    reread = reread_of(options)
    player = player_of(options, options.seconds) if options.is_played else None
    service = SearchService(folders, options.threshold, player, reread, adapted)
    server = make_server(service)
    for root in folders.roots:
        if root.snapshot is not None:
            notes.print(told_left_out(root.snapshot))
            if adapted is not None:
                notes.print(printable_line(adapted.told(Tree(root.snapshot))))
    service.read_ahead()
    if options.http:
        serve_http(server, options.port, lambda address: notes.print(f"serving {address}"))
    else:
        serve_stdio(server)


def parse_serve(arguments: Sequence[str]) -> tuple[tuple[str, ...], ServeOptions]:
    """Paths and options of a call.

    Raises:
        ConfigError: a wrong flag or value, or no path.
        SystemExit: the help was asked for (0).
    """
    paths, options = parse_options("reflect-rl serve PATH...", ServeOptions, arguments)
    if not paths:
        raise ConfigError("name the folders that may be asked about: reflect-rl serve PATH...")
    if "port" in options.model_fields_set and not options.http:
        raise ConfigError(f"--port {options.port} does nothing without --http. Add --http.")
    return paths, options
