"""`reflect-rl locate PATH "question"`: which file answers a question."""

from __future__ import annotations

import atexit
import errno
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from unicodedata import category

from reflect_locate.cli.options import LocateOptions, PlayerOptions
from reflect_locate.cli.plain_output import PlainOutput
from reflect_locate.repositories.gate import Reason
from reflect_locate.repositories.ingest import check_named, ingest, left_out_counts, split_revision
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.text import UNSAFE_CATEGORIES
from reflect_locate.repositories.text_rules import ALL_TEXT
from reflect_locate.repositories.tree import Tree
from reflect_rl.errors import ConfigError, ReflectRLError, UserError
from reflect_rl.paths import expanded
from reflect_rl.registry import PlainCommand

if TYPE_CHECKING:
    from reflect_locate.adapted_ranking import AdaptedRanking
    from reflect_locate.ranking import Answer, FoundFile
    from reflect_locate.repositories.word_store import WordStore
    from reflect_locate.served_answers import Reread, Search

VERB = "locate"
USAGE = 'reflect-rl locate PATH "question"'
GUESSED = 1
"""Exit code of an answer that is only a guess, as of a grep that found nothing."""
THREADS = "OMP_NUM_THREADS"
"""Variable by which a user says how many threads compute, whatever library does it."""
LIBRARY_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""The same for each library that numpy may compute with."""
WALKING = ("episodes", "search", "unit", "method")
"""Options of a player alone."""
MOST_NAMED = 5
"""Endings, paths or folders of what was left out that are named."""
MOST_RARE = 3
"""The same of reasons about which a user can do little."""
COUNTED = (Reason.EXCLUDED, Reason.HIDDEN, Reason.IGNORED)
"""Reasons that everybody expects, so that a number is enough."""


class LocateError(UserError):
    """The search failed. For grep's exit codes a failure is a mistake (2), since 1 is an answer."""


@PlainCommand
def run(arguments: Sequence[str]) -> None:
    """The verb.

    Args:
        arguments: the path, the question, then flags.

    Raises:
        UserError: a mistake in the arguments, a tree that cannot be read, no player, or any other failure.
        SystemExit: the answer is only a guess (1), or the help was asked for (0).
    """
    try:
        _run(arguments)
    # Whoever reads the output has left, which has an exit code of its own.
    except (UserError, BrokenPipeError):
        raise
    except Exception as error:
        # Raised inside a lock, an interruption comes out as that lock's complaint.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise LocateError(told_failure(error)) from error


def told_failure(error: Exception) -> str:
    """The failure and the remedy, in a sentence or two."""
    if isinstance(error, OSError) and error.errno:
        place = f" ({error.filename})" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _drop_output()
            return f"the disk is full{place}. Free some space, or write the output elsewhere."
        # Only the current folder is asked for without a name.
        if error.errno == errno.ENOENT and not error.filename:
            return "the current folder no longer exists. Change into one that does."
        return f"{error.strerror}{place}. Check the rights of the file or folder."
    if isinstance(error, MemoryError):
        return "memory ran out. Ask about a part of the folder."
    if isinstance(error, ReflectRLError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error}. REFLECT_RL_TRACEBACK=1 shows where; please report it."


def _drop_output() -> None:
    """Let Python not try at its end to write what could not be written; its exit code would be another one."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str]) -> None:
    started = time.perf_counter()
    path, question, options = parse_locate(arguments)
    # Loaded modules stay until the end: to look for unused cycles in them, now and at the exit, takes as long as the
    # answer.
    gc.freeze()
    atexit.register(gc.freeze)
    # With `--json` stdout holds the list alone, so that other programs can read it.
    output = PlainOutput(sys.stdout)
    notes = PlainOutput(sys.stderr, are_notes=True) if options.as_json else output

    # Imported after the arguments are parsed: `--help` must not wait for it.
    from reflect_locate.ranking import check_question

    # Before the folder is read, which takes a moment.
    question = check_question(question)
    check_modes(options)
    reread, adapted = reread_of(options), adapted_of(options)
    tree = Tree(ingest(path, ALL_TEXT))
    notes.print(told_left_out(tree.snapshot), style="dim")
    if adapted is not None:
        notes.print(printable_line(adapted.told(tree)), style="dim")
    if options.is_played:
        answer = player_of(options, options.seconds)(tree, question, lambda: False)
    else:
        answer = _found(path, tree, question, options, notes, adapted)
    changed = None
    if reread is not None:
        from reflect_locate.rereading import told_change

        before, answer = answer, reread(tree, question, answer)
        changed = told_change(before, answer)
        notes.print(printable_line(changed), style="dim")
    files = answer.with_lines(tree, options.top_k)
    if missing := told_missing(question, tree, files):
        notes.print(printable_line(missing), style="dim")
    # The time that a user waits: reading and indexing take longer than the question.
    answer = replace(answer, seconds=time.perf_counter() - started)
    if options.as_json:
        of_all = {"confidence": round(answer.confidence, 4), "changed": changed}
        output.print(json.dumps([entry.to_json() | of_all for entry in files], indent=2))
    else:
        _show(answer, files, output)
    # As grep's: scripts go on when something was found.
    if not answer.found:
        raise SystemExit(GUESSED)


def _found(
    path: str,
    tree: Tree,
    question: str,
    options: LocateOptions,
    notes: PlainOutput,
    adapted: AdaptedRanking | None,
) -> Answer:
    """The answer of the index."""
    import sqlite3

    from reflect_locate.ranking import find
    from reflect_locate.repositories.index_cache import cache_folder, mended_store, open_store
    from reflect_locate.repositories.stored_index import StoredIndex
    from reflect_locate.repositories.word_store import StaleStoreError

    def asked(store: WordStore) -> Answer:
        return find(tree, question, StoredIndex(tree, store), options.threshold, adapted)

    cache = None if options.no_cache else cache_folder(lambda note: notes.print(note, style="dim"))
    made_of = split_revision(path)[0], tree.snapshot, cache
    opened = open_store(*made_of)
    try:
        return _answered(opened, asked, notes)
    except (sqlite3.Error, StaleStoreError) as error:
        # Opening reads the list of the texts; a page of the words is read when they are asked for.
        return _answered(mended_store(*made_of, error), asked, notes)


def _answered(opened: tuple[WordStore, str], asked: Callable[[WordStore], Answer], notes: PlainOutput) -> Answer:
    """The answer with this store, which is closed; the note on it is told."""
    store, note = opened
    if note:
        notes.print(printable_line(note), style="dim")
    try:
        return asked(store)
    finally:
        store.close()


def check_modes(options: PlayerOptions) -> None:
    """Refuse flags that do nothing because the mode they belong to is not on.

    Raises:
        ConfigError: there is one.
    """
    # Only flags are checked by a model, and without any nothing is set.
    given = getattr(options, "model_fields_set", frozenset[str]())
    if "reader" in given and not options.deep:
        raise ConfigError(f"--reader {options.reader} does nothing without --deep. Add --deep.")
    idle = [name for name in WALKING if name in given and not options.is_played]
    if idle:
        raise ConfigError(f"--{idle[0]} does nothing without a player. Add --walk, or --model PLAYER.")


def reread_of(options: PlayerOptions) -> Reread | None:
    """The second ranking that the options ask for; torch is loaded for a reader that numpy does not compute.

    Raises:
        ConfigError: a player is asked for, too.
        ModelError: the model cannot be loaded.
    """
    if not options.deep:
        return None
    if options.is_played:
        raise ConfigError("--deep ranks what the index found, and --walk and --model let a player search. Choose one.")
    from reflect_locate.reader_settings import READER, is_small

    if options.reader == READER or is_small(expanded(options.reader)):
        _compute_alone()
    else:
        from reflect_rl.models.source import HUB, resolve

        # Looked for before torch is loaded, which takes seconds.
        if not options.reader.startswith(HUB):
            resolve(options.reader)
        from reflect_rl.runs.workers import silence

        silence()
    from reflect_locate.rereading import open_reader, reread

    return partial(reread, open_reader(options.reader), threshold=options.threshold)


def _compute_alone() -> None:
    """Let numpy, which reads this when it is loaded, compute with one thread, unless the user says how many."""
    # The products are small: further threads mostly wait for each other, and on a busy machine burn ten times the time.
    if THREADS not in os.environ:
        for name in (THREADS, *LIBRARY_THREADS):
            os.environ.setdefault(name, "1")


def adapted_of(options: PlayerOptions) -> AdaptedRanking | None:
    """The ranking of a repository's own that the options name.

    Raises:
        ConfigError: a model or a player is asked for, too.
        AdaptedRankingError: there is none.
    """
    if options.adapted is None:
        return None
    # The index alone was measured with these weights.
    if options.deep or options.is_played:
        raise ConfigError("--adapted changes the ranking that --deep, --walk and --model replace. Choose one of them.")
    from reflect_locate.adapted_ranking import AdaptedRanking

    return AdaptedRanking.load(options.adapted)


def player_of(options: PlayerOptions, seconds: float) -> Search:
    """Search by the player that the options name; torch is loaded for it, and for nothing else.

    Args:
        options: of a call.
        seconds: longest search.

    Raises:
        ModelError: there is no such player, or it cannot be used.
    """
    from reflect_locate.finder import SearchOptions, locate
    from reflect_locate.trained_player import load_player
    from reflect_rl.runs.workers import silence

    silence()
    player = load_player(options.model, options.unit, options.method)
    effort = SearchOptions(options.episodes, seconds, options.search, options.seed)
    return lambda tree, question, is_stopped: locate(player, tree, question, effort, options.threshold, is_stopped)


def parse_locate(arguments: Sequence[str]) -> tuple[str, str, LocateOptions]:
    """Path, question and options of a call.

    Raises:
        ConfigError: a wrong flag or value, or no path or question.
        SnapshotError: the path is empty.
        SystemExit: the help was asked for (0).
    """
    # Words behind `--` are no flags, such as a question about one.
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    arguments, plain = arguments[:end], arguments[end + 1 :]
    named, options = tuple(arguments), LocateOptions()
    # Words alone leave nothing to check.
    if any(word.startswith("-") for word in arguments):
        from reflect_locate.cli.flags import LocateFlags
        from reflect_rl.cli.arguments import parse_options

        named, options = parse_options(USAGE.replace('"question"', "QUESTION"), LocateFlags, arguments)
    named = (*named, *plain)
    if len(named) != 2:
        # Several words mean that the shell has split the question.
        remedy = "Put quotes around the question." if len(named) > 2 else "A path and a question are needed."
        raise ConfigError(f"{USAGE}: got {len(named)} of 2 words before the flags. {remedy}")
    check_named(named[0])
    return named[0], named[1], options


def told_left_out(snapshot: Snapshot) -> str:
    """Summary of a snapshot, for example `flask: 198 files; left out: ignored 3, other type 12 (.svg 9, .lock 3)`."""
    counts = ", ".join(
        f"{reason} {count}{_which(reason, snapshot)}" for reason, count in left_out_counts(snapshot.left_out).items()
    )
    return printable_line(f"{snapshot.name}: {len(snapshot.files)} files; left out: {counts or 'nothing'}")


def told_missing(question: str, tree: Tree, files: Sequence[FoundFile]) -> str:
    """Remark on a file that a question names and that is not there; empty where one of these files speaks of it."""
    from reflect_locate.repositories.file_names import missing_file

    name = missing_file(question, tree.paths, tree.snapshot.name)
    # `Node.js` is a word, and whoever asks where a lost file is used has found that.
    if not name or any(name.lower() in tree.text(entry.path).lower() for entry in files):
        return ""
    return f"no file that is read here is called {name}; the answer goes by the words."


def _which(reason: str, snapshot: Snapshot) -> str:
    """Names left out for a reason that somebody may not expect: endings, secrets, what is over a limit or no text."""
    named = [entry.path for entry in snapshot.left_out if entry.path and entry.reason == reason]
    shown, most = list[str](), MOST_NAMED
    if reason == Reason.OTHER_TYPE:
        often = sorted(snapshot.endings.items(), key=lambda row: (-row[1], row[0]))
        shown = [f"{ending} {count}" for ending, count in often]
    elif reason in (Reason.SECRET, Reason.TOO_LARGE, Reason.TOO_MANY, Reason.TOO_DEEP):
        shown = named
    elif reason == Reason.OVER_LIMIT:
        shown = list(dict.fromkeys(f"{path.rpartition('/')[0]}/" for path in named))
    elif reason not in COUNTED:
        shown, most = named, MOST_RARE
    more = ", ..." if len(shown) > most else ""
    return f" ({', '.join(shown[:most])}{more})" if shown else ""


def printable_line(text: str) -> str:
    """The text without control characters, with which a file's name could steer the terminal or forge a line.

    Unlike `reflect_rl.errors.printable`, it takes line breaks away, too.
    """
    # By category: `isprintable` refuses every blank but the usual one, also that of a Japanese name.
    return "".join("·" if category(letter) in UNSAFE_CATEGORIES else letter for letter in text)


def _show(answer: Answer, files: Sequence[FoundFile], output: PlainOutput) -> None:
    for number, entry in enumerate(files, start=1):
        _show_file(number, entry, output)
    cost = f"{answer.episodes} episodes in {answer.seconds:.1f} s" if answer.episodes else f"{answer.seconds:.2f} s"
    advice = "" if answer.found else " Other words may help."
    output.print(f"{answer.sureness}: confidence {answer.confidence:.3f}; {cost}.{advice}", style="dim")


def _show_file(number: int, entry: FoundFile, output: PlainOutput) -> None:
    lines = entry.lines
    place = f"{entry.path}:{lines.first}-{lines.last}" if lines else entry.path
    symbol = f"  {lines.kind} {lines.symbol}" if lines and lines.symbol else ""
    output.print(printable_line(f"{number}. {entry.sureness:7}  {place}{symbol}"), style="bold")
    for line, text in enumerate(lines.excerpt if lines else (), start=lines.excerpt_line if lines else 1):
        output.print(printable_line(f"     {line:5}  {text}"))
    if entry.walk:
        output.print(printable_line(f"      walk: {'; '.join(entry.walk)}"))
    for reason in entry.reasons:
        output.print(printable_line(f"       why: {reason}"))
