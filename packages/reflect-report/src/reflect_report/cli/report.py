"""`reflect-rl report`: results, tables and the page of a run, finished or not, or of several runs together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field
from rich.console import Console

from reflect_report.cli.serving import require_server
from reflect_report.page import report
from reflect_report.runs import gather
from reflect_rl.cli.arguments import parse_options
from reflect_rl.config import Frozen, parse, read_toml
from reflect_rl.errors import ConfigError
from reflect_rl.runs.config import RunConfig

USAGE = "reflect-rl report RUN_FOLDER ..."


class ReportOptions(Frozen):
    """Write report.html of a run folder, finished or not, and results.json where something was evaluated.

    Several run folders get one page for all of them.

    With --live, serve the page while the runs go on.

    In the place of a run folder, its configuration file may be named.
    """

    output_dir: Path | None = None
    """Folder of the page (unset: the first run folder)."""
    live: bool = False
    """Serve a page that follows the runs, to browsers of this machine, until Ctrl-C. It writes nothing."""
    port: int = Field(0, ge=0, le=65535)
    """Port of the live page (0: any that is free)."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: run folders or configuration files, then flags.
        console: where the tables are printed.

    Raises:
        UserError: a mistake in the arguments, a folder without results, or a page that cannot be written.
        SystemExit: the help was asked for (0).
    """
    folders, options = parse_report(arguments)
    if options.live:
        _serve(folders, options, console)
        return
    target = options.output_dir or folders[0]
    # An unfinished run is shown with what is there; several runs are shown as their own commands left them.
    if len(folders) == 1 and (folders[0] / "config.json").exists():
        gather(folders[0])
    written = report(folders, target)
    console.print(written.tables)
    console.print(f"report: {written.page}")


def parse_report(arguments: Sequence[str]) -> tuple[list[Path], ReportOptions]:
    """The run folders, and the options.

    Raises:
        ConfigError: a flag that does not exist, a file that is no TOML, or no folder at all.
        SystemExit: the help was asked for (0).
    """
    named, options = parse_options(USAGE, ReportOptions, arguments)
    if options.port and not options.live:
        raise ConfigError(f"--port {options.port} does nothing without --live. Add --live, or leave it out.")
    if options.live and options.output_dir is not None:
        raise ConfigError("--live writes no page, so --output-dir does nothing. Leave one of them out.")
    folders = [_run_folder(Path(word)) for word in named]
    # A run folder may be named as in the command that made it.
    if not folders and options.output_dir is not None:
        folders = [options.output_dir]
    if not folders:
        raise ConfigError("name a run folder or its configuration file: reflect-rl report runs/taxi-smoke")
    return folders, options


def _serve(folders: Sequence[Path], options: ReportOptions, console: Console) -> None:
    """Serve the live page until Ctrl-C."""
    require_server("--live")
    # Imported late: a report that is written needs no server.
    from reflect_report.live import LivePage
    from reflect_report.server import serve

    def tell(address: str) -> None:
        console.print(f"live page: {address}\nOnly this machine can open it. Ctrl-C ends it; the run goes on.")

    try:
        serve(LivePage(folders), options.port, tell)
    except KeyboardInterrupt as stop:
        # Ctrl-C or SIGTERM, which the command line tells apart.
        stop.args = ("the page is no longer served",)
        raise


def _run_folder(place: Path) -> Path:
    """The run folder that a word names: itself, or that of a configuration file."""
    if not place.exists():
        raise ConfigError(f"no run folder {str(place)!r}. Name folders that `reflect-rl eval` has written.")
    if place.is_dir():
        return place
    # Nothing else of a configuration is read: a game that it names need not be at hand.
    named = {key: value for key, value in read_toml(place).items() if key == "output_dir"}
    return parse(ReportOptions, named).output_dir or RunConfig.model_fields["output_dir"].default
