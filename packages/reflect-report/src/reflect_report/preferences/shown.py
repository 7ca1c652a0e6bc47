"""Pairs in the terminal: two sides beside each other, or below in a narrow one, and the question which is better.

Rewards, outcomes and the names of the players are not shown, because they would answer the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reflect_report.preferences.pairs import Pair
from reflect_report.preferences.records import ActionSide, Choice, EpisodeSide, Situation
from reflect_rl.envs.base import EnvSpec, HasRules
from reflect_rl.errors import printable
from reflect_rl.types import Episode, Turn

WIDE = 100
"""Columns from which two sides stand beside each other."""
ANSWERS: dict[str, Choice] = {
    **dict.fromkeys(("l", "left", "1"), "left"),
    **dict.fromkeys(("r", "right", "2"), "right"),
    **dict.fromkeys(("e", "equal", "="), "equal"),
    **dict.fromkeys(("s", "skip"), "skip"),
}
LEAVE, FULL = ("q", "quit", "exit"), ("f", "full")
QUESTION = "Which is better? l(eft), r(ight), e(qual), s(kip), f(ull text), q(uit): "


def show_rules(console: Console, spec: EnvSpec) -> None:
    """Print the rules of the game, where it has some."""
    rules = spec.capability(HasRules)
    if rules is not None:
        console.print(Text(printable(rules.rules)))


def show_pair(console: Console, spec: EnvSpec, pair: Pair, title: str, answer: Callable[[str], str]) -> Choice | None:
    """Show a pair and ask which side is better.

    Args:
        console: where to print.
        spec: the game.
        pair: what is compared.
        title: place of the pair among all.
        answer: asks a person a question.

    Returns:
        the choice; None if the person leaves, or the input has ended.
    """
    console.print(Text(f"\n== {title}, start {printable(pair.task.key)}", style="bold"))
    _show(console, pair, is_full=False)
    question = QUESTION
    while True:
        try:
            word = answer(question).strip().lower()
        except EOFError:
            return None
        if word in LEAVE:
            return None
        if word in FULL:
            _show(console, pair, is_full=True)
        if word in ANSWERS:
            return ANSWERS[word]
        question = QUESTION if word in FULL else f"{printable(word)[:20]!r} is no answer here. {QUESTION}"


def _show(console: Console, pair: Pair, *, is_full: bool) -> None:
    if pair.situation is not None:
        console.print(Text.assemble(*_situation(pair.situation)))
    sides = [_side(pair, side, is_full=is_full) for side in (pair.left, pair.right)]
    if console.width < WIDE:
        for name, text in zip(("left", "right"), sides, strict=True):
            console.print(Text(f"-- {name}", style="bold cyan"))
            console.print(text)
        return
    table = Table(box=None, expand=True, padding=(0, 2, 0, 0))
    for name in ("left", "right"):
        table.add_column(Text(name, style="bold cyan"), ratio=1)
    table.add_row(*sides)
    # The console of messages does not wrap; two columns must.
    Console(file=console.file, width=console.width, highlight=False, markup=False, emoji=False).print(table)


def _situation(situation: Situation) -> Iterator[str | tuple[str, str]]:
    yield f"{printable(situation.observation.text)}\n"
    if situation.reflection is not None:
        yield "Analyze: ", "dim"
        yield f"{printable(situation.reflection)}\n", "italic"


def _side(pair: Pair, side: EpisodeSide | ActionSide, *, is_full: bool) -> Text:
    if isinstance(side, EpisodeSide):
        return _episode(side.episode, is_full=is_full)
    actions: Sequence[str] = () if pair.situation is None else pair.situation.observation.actions
    return Text(f"> {printable(actions[side.index])}", style="bold green")


def _episode(episode: Episode, *, is_full: bool) -> Text:
    text = Text()
    last = len(episode.turns) - 1
    for number, turn in enumerate(episode.turns):
        # The first state and the last one tell most; the way between them is its actions.
        if is_full or number in (0, last):
            text.append(f"{printable(turn.observation.text)}\n")
        text.append_text(_turn(number + 1, turn))
    end = "the game ended" if episode.terminated else "the turns ran out"
    return text.append(f"{end} after {len(episode.turns)} turn{'s' * (len(episode.turns) != 1)}", style="dim")


def _turn(number: int, turn: Turn) -> Text:
    action = "no action of the list" if turn.action is None else printable(turn.action)
    text = Text.assemble((f"{number:>3} > ", "dim"), (action, "bold green"), "\n")
    if turn.reflection is not None:
        text.append(f"      {printable(turn.reflection)}\n", style="italic")
    return text
