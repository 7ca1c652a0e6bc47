"""`reflect-rl serve PATH...`: an MCP server that finds files, for editors and coding agents."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field
from rich.console import Console

from reflect_locate.cli.locate import PlayerOptions, told_left_out
from reflect_rl.cli.arguments import parse_options
from reflect_rl.errors import ConfigError

VERB = "serve"


class ServeOptions(PlayerOptions):
    """Serve the tool `locate` to editors and coding agents (MCP): over stdin and stdout, or HTTP on this machine."""

    http: bool = False
    """Serve over HTTP, on 127.0.0.1 only (`--http`, without a value)."""
    port: int = Field(8765, ge=0, le=65_535)
    """Port for HTTP; 0 = a free one."""
    seconds: float = Field(30, gt=0, le=86_400)
    """Longest search; episodes that are not finished then do not count."""


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
    # Over stdin and stdout the protocol owns stdout; one line of ours would break it.
    notes = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)

    from reflect_locate.finder import SearchOptions
    from reflect_locate.serve import LocateService, make_server, serve_http, serve_stdio
    from reflect_locate.served_folders import ServedFolders
    from reflect_locate.trained_player import load_player
    from reflect_rl.runs.run import silence

    # Read before the model is loaded, so that a wrong path is told at once.
    folders = ServedFolders(paths)
    silence()
    effort = SearchOptions(options.episodes, options.seconds, options.search, options.seed)
    service = LocateService(
        folders, load_player(options.model, options.unit, options.method), effort, options.threshold
    )
    server = make_server(service.answer)
    for root in folders.roots:
        if root.snapshot is not None:
            notes.print(told_left_out(root.snapshot))
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
    return paths, options
