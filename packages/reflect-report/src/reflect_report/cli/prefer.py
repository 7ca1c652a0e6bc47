"""`reflect-rl prefer RUN_FOLDER`: people, or the reward, say which of two episodes or actions is better."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from filelock import FileLock, Timeout
from pydantic import Field
from rich.console import Console

from reflect_report.cli.serving import require_server
from reflect_report.human import ask
from reflect_report.preferences.pairs import (
    Pair,
    action_pairs,
    episode_pairs,
    evaluated_episodes,
    played_episodes,
    value_by_solver,
)
from reflect_report.preferences.records import (
    OTHER_SIDE,
    REWARD,
    Choice,
    Preference,
    PreferenceError,
    agreement,
    read_preferences,
)
from reflect_report.preferences.session import Session
from reflect_report.preferences.shown import show_pair, show_rules
from reflect_report.tables import terminal_text
from reflect_rl.cli.arguments import offer_modules_here, parse_options
from reflect_rl.config import Frozen, parse
from reflect_rl.envs.base import HasSolver
from reflect_rl.errors import ConfigError, RunFolderError, UnknownNameError, UserError, suggestion
from reflect_rl.store import append_jsonl, may_be_cut
from reflect_rl.types import stream

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

USAGE = "reflect-rl prefer RUN_FOLDER"
MOST_STARTS = 2000
"""Starts of a mode that are played for one file."""
ROW_BEGINS = b'{"schema_version": 1, "pair": "'
"""Beginning of every line of a file of preferences."""


class NamedGame(Frozen):
    """The game of a run, where no installed package provides it."""

    name: str = ""
    """`package.module:Class` of the run's game, if you trust it: a run folder alone imports nothing."""


class PreferOptions(Frozen):
    """Compare two episodes, or two actions in one state, from the same start, and record which is better."""

    by: str = Field("", max_length=80)
    """Name of the person who chooses (empty: the name of this user on this machine)."""
    actions: bool = False
    """Compare two actions in one state instead of two episodes."""
    out: Path | None = None
    """File that the answers are added to (unset: `preferences/episodes.jsonl` or `actions.jsonl` in the run folder)."""
    pairs: int = Field(50, ge=1, le=100_000)
    """Number of pairs in the file, those that were answered earlier included."""
    split: Literal["train", "validation", "test"] = "train"
    """Split of the starts. Where the run was evaluated on it, those episodes are shown; else its players play now."""
    methods: tuple[str, ...] = ()
    """Methods of the run whose episodes are compared (unset: all that play with a model, else all)."""
    by_reward: bool = False
    """Choose by the game's own reward and ask nobody; of two actions, by the return when the solver plays on."""
    noise: float = Field(0, ge=0, le=0.5)
    """With --by-reward: probability with which a choice is turned round."""
    seed: int = Field(0, ge=0)
    """Seed of what is played, of the pairs, of their sides and of the noise."""
    browser: bool = False
    """Ask in a browser of this machine instead of the terminal, until Ctrl-C."""
    port: int = Field(0, ge=0, le=65535)
    """Port of the page of --browser (0: any that is free)."""
    environment: NamedGame = NamedGame()


def run(arguments: Sequence[str], console: Console, answer: Callable[[str], str] = ask) -> None:
    """The verb.

    Args:
        arguments: a run folder, then flags.
        console: where pairs are shown.
        answer: asks a person a question.

    Raises:
        UserError: a mistake in the arguments, a file of another run, or fewer pairs than asked for.
        SystemExit: the help was asked for (0).
    """
    folder, options = parse_prefer(arguments)
    offer_modules_here([options.environment.name])
    config, mark = _run_of(folder, options.environment.name)
    kind: Literal["episodes", "actions"] = "actions" if options.actions else "episodes"
    if options.actions and options.by_reward:
        config.env.needed(HasSolver, "--actions with --by-reward")
    out = options.out or folder / "preferences" / f"{kind}.jsonl"
    if out.is_dir():
        raise UserError(f"{out} is a folder. Name a file for the preferences: --out FILE.")
    out.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out.with_name(f".{out.name}.lock"), blocking=False)
    try:
        held = lock.acquire()
    except Timeout:
        raise UserError(f"another `reflect-rl prefer` writes {out}. Wait for it, or name another --out.") from None
    with held:
        known = _known(out, config, mark, kind)
        pairs = _pairs(config, folder, out, options)
        if options.by_reward:
            _choose_by_reward(out, pairs, known, mark, config, options)
        else:
            _ask(out, pairs, known, mark, config, options, console, answer)
    # Whoever leaves at the first question leaves no file.
    read = read_preferences(out, spec=config.env, fingerprint=mark, kind=kind) if out.exists() else ()
    who = _who(options)
    console.print(terminal_text(agreement([one for one in read if one.by == who]).sentence))
    console.print(terminal_text(f"preferences: {out}"))


def parse_prefer(arguments: Sequence[str]) -> tuple[Path, PreferOptions]:
    """The run folder and the options.

    Raises:
        ConfigError: no folder, two, or a flag that is wrong.
        SystemExit: the help was asked for (0).
    """
    named, options = parse_options(USAGE, PreferOptions, arguments)
    if len(named) != 1:
        raise ConfigError(f"name one run folder, for example: {USAGE.replace('RUN_FOLDER', 'runs/taxi-smoke')}")
    if options.noise and not options.by_reward:
        raise ConfigError("--noise turns choices by the reward round. Add --by-reward, or leave it out.")
    if options.by == REWARD:
        raise ConfigError(f"--by {REWARD!r} is the name under which --by-reward chooses. Give another one.")
    if options.by_reward and options.browser:
        raise ConfigError("--browser: with --by-reward nobody is asked. Leave one of them out.")
    if options.port and not options.browser:
        raise ConfigError(f"--port {options.port} does nothing without --browser. Add --browser, or leave it out.")
    if options.by_reward and options.by:
        raise ConfigError(f"--by {options.by!r}: with --by-reward nobody chooses. Leave one of them out.")
    return Path(named[0]), options


def _who(options: PreferOptions) -> str:
    """Name of the chooser.

    Raises:
        UserError: the system has no name for the user, as in a container with a user's number of its own.
    """
    if options.by_reward:
        return REWARD
    if options.by:
        return options.by
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # up to Python 3.12, and from 3.13 on
        raise UserError("this system has no name for you. Name yourself: --by NAME.") from None


def _run_of(folder: Path, game: str) -> tuple[RunConfig, str]:
    """The configuration of a run and the fingerprint of its game."""
    # Imported late: a mistake in the arguments must not wait for it.
    from reflect_rl.runs.config import RunConfig, fingerprint, values_of_run
    from reflect_rl.runs.folder import CARD, read_card

    if folder.is_file():
        raise ConfigError(f"{folder} is a file, and `reflect-rl prefer` takes a run folder, such as runs/taxi-smoke.")
    config = parse(RunConfig, values_of_run(folder, [game] if game else []))
    now = fingerprint(config)
    card = read_card(folder) if (folder / CARD).is_file() else None
    if card is not None and card.fingerprint not in (None, now):
        raise RunFolderError(
            f"the fingerprint of {folder} is {card.fingerprint}, and that of its game is {now} today: rules, texts or "
            "tasks have changed. Run it again in another folder."
        )
    return config, now


def _known(out: Path, config: RunConfig, mark: str, kind: Literal["episodes", "actions"]) -> tuple[Preference, ...]:
    """The answers so far; the file stays as it is until one is added.

    Raises:
        PreferenceError: the file holds something else.
    """
    if not out.exists():
        return ()
    found = read_preferences(out, spec=config.env, fingerprint=mark, kind=kind)
    # The reader leaves half a last line out, which of a file of one line may be anything.
    if not found and not may_be_cut(out.read_bytes().strip(), ROW_BEGINS):
        raise PreferenceError(f"{out} holds no preferences, and would be spoilt. Name another --out.")
    return found


def _methods(config: RunConfig, options: PreferOptions) -> tuple[str, ...]:
    for name in options.methods:
        if name not in config.methods:
            raise UnknownNameError(f"the run has no method {name!r}. {suggestion(name, config.methods)}")
    playing = [name for name in config.methods if config.method(name).measure is None]
    return options.methods or tuple(name for name in playing if config.method(name).model) or tuple(playing)


def _pairs(config: RunConfig, folder: Path, out: Path, options: PreferOptions) -> Iterator[Pair]:
    methods = _methods(config, options)
    episodes = [one for one in evaluated_episodes(folder, options.split) if one.method in methods]
    if not episodes:
        place = out.with_name(f"played-{options.split}.jsonl")
        starts = min(MOST_STARTS, 2 * options.pairs)
        episodes = played_episodes(config, place, options.split, methods, starts, options.seed)
    if options.actions:
        yield from action_pairs(episodes, options.seed, value_by_solver(config.env))
    else:
        yield from episode_pairs(episodes, options.seed)


def _preference(pair: Pair, choice: Choice, mark: str, config: RunConfig, options: PreferOptions) -> Preference:
    from reflect_rl.runs.folder import now

    return Preference(
        pair=pair.hash,
        environment=config.env.identity,
        fingerprint=mark,
        task=pair.task,
        situation=pair.situation,
        left=pair.left,
        right=pair.right,
        choice=choice,
        by=_who(options),
        source="reward" if options.by_reward else "person",
        noise=options.noise,
        when=now(),
    )


def _choose_by_reward(
    out: Path, pairs: Iterator[Pair], known: Sequence[Preference], mark: str, config: RunConfig, options: PreferOptions
) -> None:
    done = {one.pair for one in known if one.by == REWARD}
    fresh = []
    for pair in pairs:
        if len(done) >= options.pairs:
            break
        row = _preference(pair, "skip", mark, config, options)
        # Equal values, and unknown ones, tell nothing about the reward.
        if pair.hash in done or row.true_choice not in ("left", "right"):
            continue
        flips = stream(options.seed, "prefer", "noise", pair.mark).random() < options.noise
        choice = OTHER_SIDE[row.true_choice] if flips else row.true_choice
        fresh.append(row.model_copy(update={"choice": choice}))
        done.add(pair.hash)
    append_jsonl(out, [one.model_dump(mode="json") for one in fresh])
    if len(done) < options.pairs:
        raise UserError(
            f"{len(done)} pairs differ in their reward, and {options.pairs} were asked for; these are in {out}. Add "
            "--methods, or ask for fewer --pairs."
        )


def _ask(
    out: Path,
    pairs: Iterator[Pair],
    known: Sequence[Preference],
    mark: str,
    config: RunConfig,
    options: PreferOptions,
    console: Console,
    answer: Callable[[str], str],
) -> None:
    answered = {one.pair for one in known if one.by == _who(options)}

    def make(pair: Pair, choice: Choice) -> Preference:
        return _preference(pair, choice, mark, config, options)

    session = Session(out, pairs, answered, options.pairs, make)
    if options.browser:
        _serve(session, options.port, console)
        return
    try:
        _ask_person(session, config, console, answer)
    except KeyboardInterrupt as stop:
        raise type(stop)("all answers are kept, and the same command goes on") from None


def _ask_person(session: Session, config: RunConfig, console: Console, answer: Callable[[str], str]) -> None:
    if session.note:
        console.print(session.note)
    if session.pair is not None:
        show_rules(console, config.env)
    while session.pair is not None:
        choice = show_pair(console, config.env, session.pair, session.title, answer)
        if choice is None:
            console.print(f"{session.done} of {session.total} pairs are answered; the same command goes on.")
            return
        session.record(choice)


def _serve(session: Session, port: int, console: Console) -> None:
    """Ask in a browser until Ctrl-C."""
    require_server("--browser")
    # Imported late: a terminal needs no server.
    from reflect_report.preferences.browser import application
    from reflect_report.server import serve_application

    def tell(address: str) -> None:
        console.print(f"page: {address}\nOnly this machine can open it. Ctrl-C ends it; all answers are kept.")

    try:
        serve_application(lambda token: application(session, token), port, tell)
    except KeyboardInterrupt as stop:
        # Ctrl-C is the way to end it, so it is no interruption here; SIGTERM, a class over it, is.
        if type(stop) is not KeyboardInterrupt:
            raise type(stop)("all answers are kept, and the same command goes on") from None
