"""Episode in the terminal, turn by turn: what is seen, written and chosen, and what comes of it."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from pydantic import Field
from rich.console import Console
from rich.text import Text

from reflect_report.human import HumanPolicy, PlayerLeft
from reflect_report.recording import CAST_BEGINS, PAUSE, SVG_BEGINS, Frame, beside, film, write_cast, write_svg
from reflect_report.screen import BAR_WIDTH, NARROW_BAR_WIDTH, Screen, show_frames, signed
from reflect_rl import registry
from reflect_rl.cli.arguments import parse_arguments, scan
from reflect_rl.config import Frozen, parse
from reflect_rl.data.recorded import read_episodes
from reflect_rl.envs.base import SPLITS, EnvSpec, HasSolver, require_known
from reflect_rl.errors import UnknownNameError, UserError, printable, suggestion
from reflect_rl.evaluation.methods import find_method, method_names
from reflect_rl.players.decoding import DecodingSetting
from reflect_rl.players.scripted import OracleReflector
from reflect_rl.rollout import NoReflector, Policy, Reflector, Request, environment_rng, play
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Unit, units
from reflect_rl.store import append_jsonl, read_json
from reflect_rl.types import Decoding, Episode, Task, stream, to_json
from reflect_rl.watchdog import Limits

PLAYED = (
    *("player", "environment.name", "mode", "task", "environment.max_episode_steps", "episode_seed", "speed"),
    *("beside", "record", "cast", "svg", "reflections", "decoding", "unit", "output_dir", "model.path", "model.device"),
)
"""Settings of one episode, shown by --help of `play`, the most used first."""


class PlayOptions(Frozen):
    """Show one episode turn by turn, or play one yourself."""

    player: str = "oracle"
    """Player: a method of the run (`reflect_rl`, `sft`, ...), `oracle`, `random`, `human`, or a model folder. An agent
    that `Agent.save` wrote plays its own game unless another one is named."""
    beside: str = ""
    """Another player, shown beside the first on the same start."""
    reflections: str = "auto"
    """Reflection player, of both: `auto` (the method's own reflection player), `none`, `oracle`, or a model folder."""
    decoding: DecodingSetting = "greedy"
    """`greedy` = the most likely action; `sampled` = drawn at temperature 1; `sampled@T` = at another one."""
    unit: str = ""
    """The models to play with: a folder of the run such as `starts-100/seed-0` (empty: the run's first)."""
    mode: str = ""
    """Mode of the game (empty: that of the task, or the hardest)."""
    task: str = ""
    """Key of the task, for example `full/133` (empty: drawn by the seed, from the test split unless it is recorded)."""
    episode_seed: int = Field(0, ge=0)
    """Seed of the episode: of the task, of the order of the actions and of sampling."""
    speed: float = Field(0, ge=0, le=60)
    """Seconds between turns that are drawn in one place of a terminal (0: one turn below the other, without a pause).
    An episode that a person has played is replayed so at its end. Recordings take a second where this is 0."""
    record: Path | None = None
    """A JSONL file to which the episode is added, to train on (`data.episodes`). Its task is drawn from the training
    split unless it is named."""
    cast: Path | None = None
    """A file that gets the replay in asciinema's format, for `asciinema play` and, as a GIF, `agg`."""
    svg: Path | None = None
    """A file that gets the replay as a picture that moves, for a README or a page."""

    @property
    def files(self) -> list[Path]:
        """Files that are to be written."""
        return [path for path in (self.record, self.cast, self.svg) if path is not None]

    @property
    def players(self) -> tuple[str, ...]:
        """The players, from left to right."""
        return (self.player, self.beside) if self.beside else (self.player,)


@dataclass(frozen=True, slots=True)
class Played:
    """An episode that was played."""

    player: str
    episode: Episode
    labels: Sequence[str] | None
    """Names of the listed actions, where the policy has other names than numbers."""


def run(arguments: Sequence[str], console: Console) -> None:
    """The verb.

    Args:
        arguments: optionally a TOML file or run folder, then flags.
        console: where to print.

    Raises:
        UserError: a mistake in the arguments, the game of a saved agent is not known, or what `show` raises.
        SystemExit: the help was asked for (0).
    """
    call = parse_arguments("play", [*arguments, *_game_of_agent(arguments)], PlayOptions, PLAYED)
    config, options = call.config, cast(PlayOptions, call.own)
    for player in options.players:
        if (game := _trained_on(player)) and game != config.env.found_by:
            note = f"{player} was trained on {game}, and plays {config.env.found_by} here."
            console.print(printable(note), style="yellow")
    show(config, options, console)


def _game_of_agent(arguments: Sequence[str]) -> tuple[str, ...]:
    """The flag that names the game of a saved agent, where the arguments name no game.

    Raises:
        UnknownNameError: nobody installed the game, so the user must name it.
        UserError: the agent does not know its game, or the game cannot be imported.
    """
    named, flags, asked = scan(arguments)
    words = {flag.spelling: flag.words if flag.value is None else (flag.value,) for flag in flags}
    runs = [Path(word) for flag in ("--output-dir", "--output_dir") for word in words.get(flag, ())]
    if named or asked != "none" or "--environment.name" in words or any((run / "config.json").exists() for run in runs):
        return ()
    players = [word for flag in ("--player", "--beside") for word in words.get(flag, ())[:1]]
    found = next(((player, game) for player in players if (game := _trained_on(player)) is not None), None)
    if found is None:
        return ()
    player, game = found
    # A class of a script, or one that was defined inside a function, has no name by which it is found.
    is_lost = ":" in game and (not registry.DOTTED.fullmatch(game) or game.startswith("__main__:"))
    if is_lost or not game:
        what = f"was trained on {game}, which no command can import" if game else "does not say its game"
        raise UserError(f"the agent in {player} {what}. Name a game with --environment.name.")
    registry.refuse_foreign({"environment": {"name": game}}, Path(player) / "agent.json")
    # Before the flag lets modules of the current folder be found: the file may be somebody else's.
    registry.find("environments", game)
    return "--environment.name", game


def _trained_on(player: str) -> str | None:
    """The game of a saved agent, empty where it does not know it; None where the player is no saved agent."""
    if player in (*method_names(), "human") or not Path(player).is_dir():
        return None
    from reflect_rl.agent import AGENT, AgentRecord  # here, because it loads torch

    path = Path(player) / AGENT
    return parse(AgentRecord, read_json(path, "Save the agent again.")).environment if path.is_file() else None


def show(config: RunConfig, options: PlayOptions, console: Console) -> None:
    """Play one episode and print it.

    Args:
        config: the run whose game, and whose models, are played.
        options: who plays what.
        console: where to print.

    Raises:
        ModelError: a model folder cannot be used.
        RunFolderError: the method is not trained yet.
        UnknownNameError: no such player, unit, mode or task.
        UserError: the mode has no task, or the game has no solver to show.
    """
    _check(config, options)
    task = _task(config.env, options)
    optimal_turns = _optimal_turns(config.env, Request(task, options.episode_seed))
    names = ", ".join(options.players)
    # Names and keys may come from files.
    head = printable(
        f"{config.environment.name}, task {task.key} ({task.split}), player{'s' * bool(options.beside)} {names}"
    )
    console.print(head, style="bold")
    played = []
    for player in options.players:
        is_human = player == "human"
        # A person needs the earlier turns while choosing, and sets the pace.
        screen = Screen(console, config.env, seconds=0 if is_human else options.speed)
        try:
            played.append(_play(config, options, player, task, screen))
        # A person may leave at any turn; half an episode has no verdict, and is not recorded.
        except PlayerLeft as reason:
            lost = "; nothing was written, as the game had not ended" if options.files else ""
            console.print(f"\n{reason} after {_turns(screen.turns)}; return so far {signed(screen.total)}{lost}.")
            return
    columns = [_frames(config.env, one, optimal_turns, len(played) > 1) for one in played]
    if len(played) > 1:
        show_frames(console, beside(columns), options.speed)
    else:
        if options.player == "human":
            _replay(Screen(console, config.env, seconds=options.speed), played[0].episode)
        console.print(_verdict(played[0].episode, optimal_turns))
    _write(options, head, columns, played[0].episode, console)


def _check(config: RunConfig, options: PlayOptions) -> None:
    """Refuse what cannot be played or written, before anything is.

    Raises:
        UserError: the game has no solver to show, a person would stand beside, or a file cannot be written.
    """
    if "oracle" in options.players and config.env.capability(HasSolver) is None:
        raise UserError(
            f"{config.environment.name} has no solver to show. Name another --player: human, random, a method of a "
            "run, or a model folder."
        )
    if options.beside == "human":
        raise UserError("beside: a person plays alone, and is compared afterwards. Name them first: --player human")
    for path in options.files:
        if path.is_dir():
            raise UserError(f"cannot write to {path}: it is a folder. Name a file.")
        # Before the game, which a person has played for nothing if it cannot be written.
        place = next((place for place in (path, *path.parents) if place.exists()), Path())
        if not os.access(place, os.W_OK) or (place != path and not place.is_dir()):
            raise UserError(f"cannot write to {path}: {place} may not be written, or is no folder. Name another file.")
    if len({path.resolve() for path in options.files}) < len(options.files):
        raise UserError("--record, --cast and --svg name one file for two things. Name a file for each.")
    if options.record is not None and options.record.is_file():
        # Before the game: what is no recording would be spoilt, and the game lost.
        read_episodes(options.record)
    for film_path, begin in ((options.cast, CAST_BEGINS), (options.svg, SVG_BEGINS)):
        if film_path is not None and film_path.is_file():
            with film_path.open("rb") as file:
                if (found := file.read(len(begin))) and found != begin:
                    raise UserError(f"{film_path} is no such recording, and would be replaced. Name another file.")


def _play(config: RunConfig, options: PlayOptions, player: str, task: Task, screen: Screen) -> Played:
    """One episode, which is shown at once unless it stands beside another.

    Raises:
        PlayerLeft: the person wants to play no further.
    """
    reflector, policy = _players(config, options, player, screen)
    screen.labels = getattr(getattr(policy, "labels", None), "texts", None)
    is_human = player == "human"
    is_shown = is_human or not options.beside
    if is_human:
        screen.show_rules(config.env)
    with screen if is_shown else nullcontext():
        (episode,) = play(
            config.env,
            [Request(task, options.episode_seed)],
            reflector,
            policy,
            num_envs=1,
            shuffle_labels=config.prompt.shuffle_labels,
            limits=_limits(config, player),
            on_turn=screen.show_turn if is_shown else None,
        )
    return Played(player, episode, screen.labels)


def _frames(spec: EnvSpec, played: Played, optimal_turns: int | None, is_named: bool) -> list[Frame]:
    """Frames of an episode, one a turn; the last one ends with the verdict."""
    bar_width = NARROW_BAR_WIDTH if is_named else BAR_WIDTH
    screen = Screen(Console(file=io.StringIO()), spec, encoding="utf-8", bar_width=bar_width)
    screen.labels = played.labels
    name = [Text(printable(played.player), style="bold")] if is_named else []
    frames = [[*name, *screen.lines_of(turn)] for turn in played.episode.turns]
    return [*frames[:-1], [*(frames[-1] if frames else name), _verdict(played.episode, optimal_turns)]]


def _write(
    options: PlayOptions, title: str, columns: Sequence[Sequence[Frame]], episode: Episode, console: Console
) -> None:
    """Write what was asked for: the episode of the first player, and recordings."""
    if options.record is not None:
        # On the disk before the command ends, so a later game that crashes loses none of those played before.
        options.record.parent.mkdir(parents=True, exist_ok=True)
        append_jsonl(options.record, [to_json(episode)])
        console.print(f"recorded in {options.record}")
    shown = film(title, columns) if options.cast or options.svg else None
    for path, write in ((options.cast, write_cast), (options.svg, write_svg)):
        if path is not None and shown is not None:
            write(path, shown, options.speed or PAUSE)
            console.print(f"recorded in {path}")


def _replay(screen: Screen, episode: Episode) -> None:
    """Show an episode once more where that is smooth; below the one that was played it would be a repetition."""
    if screen.redraws:
        with screen:
            for turn in episode.turns:
                screen.show_turn(turn)


def _limits(config: RunConfig, player: str) -> Limits:
    """Those of the run; a human may think as long as they like."""
    return config.limits.model_copy(update={"player_seconds": 0} if player == "human" else {})


def _task(spec: EnvSpec, options: PlayOptions) -> Task:
    if options.mode:
        require_known(f"mode of {spec.name}", options.mode, spec.all_modes)
    if not options.task:
        mode, split = options.mode or spec.modes[-1], "test" if options.record is None else "train"
        # Recorded play is trained on, and the other splits must stay unseen.
        tasks = spec.tasks(mode, split)
        if not tasks:
            raise UserError(f"{spec.name} has no {split} task of mode {mode!r} here. Name another --mode.")
        return tasks[int(stream(options.episode_seed, "play").integers(len(tasks)))]
    # All modes, not only those of the run: a key from any report can be looked at.
    modes = [options.mode] if options.mode else spec.all_modes
    every = [task for mode in modes for split in SPLITS for task in spec.tasks(mode, split)]
    known = {task.key: task for task in every}
    named = [task.mode for task in every if task.key == options.task]
    if len(named) > 1:
        raise UserError(f"the task {options.task!r} is one of the modes {', '.join(named)}. Name one with --mode.")
    if options.task not in known:
        nearest = get_close_matches(options.task, known, n=1) or list(known)[:1]
        where = f" in mode {options.mode!r}" if options.mode else ""
        raise UnknownNameError(f"no task {options.task!r}{where}. A task there is: {nearest[0]!r}.")
    return known[options.task]


def _optimal_turns(spec: EnvSpec, request: Request) -> int | None:
    """Length of a shortest solution; None for a game without a solver."""
    game = spec.make()
    if not isinstance(game, HasSolver):
        return None
    # A game of its own: the oracle is asked about a start, and the episode's game must not be stepped for it.
    game.reset(request.task, environment_rng(request))
    oracle = game.oracle()
    return None if oracle is None else oracle.turns_left


def _players(config: RunConfig, options: PlayOptions, player: str, screen: Screen) -> tuple[Reflector, Policy]:
    unit = _unit(config, options.unit)
    own: Reflector = NoReflector()
    policy: Policy
    if player == "human":
        policy = HumanPolicy(screen.show_view)
    elif player in method_names():
        own, policy = _trained(config, unit, player, options.decoding)
    else:
        policy = _policy_of_folder(config, player, options.decoding)
    return _reflector(config, options.reflections, own), policy


def _unit(config: RunConfig, name: str) -> Unit:
    known = {unit.name: unit for unit in units(config)}
    if name and name not in known:
        raise UnknownNameError(f"the run has no unit {name!r}. {suggestion(name, known)}")
    return known[name] if name else next(iter(known.values()))


def _trained(config: RunConfig, unit: Unit, method: str, decoding: Decoding) -> tuple[Reflector, Policy]:
    from reflect_rl.runs.evaluate import load_players
    from reflect_rl.runs.workers import silence

    if find_method(method).model:
        silence()
    return load_players(config, unit, method, decoding)


def _policy_of_folder(config: RunConfig, player: str, decoding: Decoding) -> Policy:
    # A word without a slash that is no folder is a misspelt name; a path has another mistake, told below.
    if not Path(player).exists() and "/" not in player:
        known = [*method_names(), "human"]
        raise UnknownNameError(f"no player {player!r}. {suggestion(player, known)} Or name a model folder.")

    from reflect_rl.models.labels import find_labels
    from reflect_rl.players.language_model import LanguageModelPolicy

    model = _model_of_folder(config, player)
    # The run's rule is the likeliest of a folder that does not say its own.
    rule = model.rule or config.prompt.scoring
    return LanguageModelPolicy(model, find_labels(model, config.env.max_actions, rule), decoding, rule, player)


def _reflector(config: RunConfig, who: str, own: Reflector) -> Reflector:
    if who == "auto":
        return own
    if who == "none":
        return NoReflector()
    if who == "oracle":
        return OracleReflector()
    # As for players: a lone word that is no folder is most likely a misspelt name.
    if not Path(who).exists() and "/" not in who:
        raise UnknownNameError(
            f"no reflections {who!r}. {suggestion(who, ['auto', 'none', 'oracle'])} Or name a model folder."
        )

    from reflect_rl.players.reflectors import FrozenReflector
    from reflect_rl.runs.models import numbers_of

    numbers = numbers_of(config.env, config.reflector)
    return FrozenReflector(_model_of_folder(config, who), config.reflector.max_new_tokens, numbers=numbers)


def _model_of_folder(config: RunConfig, folder: str) -> Any:
    from reflect_rl.models.load import load_model
    from reflect_rl.runs.workers import silence

    if not Path(folder).is_dir():
        raise UserError(f"no model folder {folder!r}. Name a folder that holds config.json, weights and tokenizer.")
    silence()
    return load_model(config.model, Path(folder), trainable=False)


def _verdict(episode: Episode, optimal_turns: int | None) -> Text:
    """The last line: `success in 14 turns (terminated by the game), return +1.35; the solver needs 13`."""
    word, style = ("success", "bold green") if episode.success else ("no success", "bold red")
    end = "terminated by the game" if episode.terminated else "truncated at the horizon"
    return Text.assemble(
        "\n",
        (word, style),
        f" in {_turns(len(episode.turns))} ({end}), return {signed(episode.total_reward)}",
        "." if optimal_turns is None else f"; the solver needs {optimal_turns}.",
    )


def _turns(count: int) -> str:
    return f"{count} turn{'s' * (count != 1)}"
