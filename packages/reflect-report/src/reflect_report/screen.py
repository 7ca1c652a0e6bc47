"""An episode in the terminal: what is seen and written, the list of actions with their probabilities, the rewards."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from reflect_rl.envs.base import EnvSpec, HasRules, Renders
from reflect_rl.errors import printable
from reflect_rl.types import NO_ACTION, Decision, Observation, Turn, View

BAR_WIDTH, NARROW_BAR_WIDTH = 24, 8
"""Columns of a probability of 1, for one episode and for two beside each other."""


class Screen:
    """Shows views and turns; a person sees the view before the choice, everybody else after it.

    Turns are printed below each other, or, on a terminal, drawn in the place of the one before with a pause after each.
    A context in the second case, which gives the terminal back.

    Args:
        console: where to print.
        spec: the game; one that draws its states is shown in colour.
        encoding: of the terminal (empty: that of the console). One that is not UTF-8 gets plain bars.
        seconds: pause after each turn (0: no pause, and turns below each other).
        pause: waits for a number of seconds.
        bar_width: columns of a probability of 1.
    """

    def __init__(
        self,
        console: Console,
        spec: EnvSpec | None = None,
        encoding: str = "",
        seconds: float = 0,
        pause: Callable[[float], None] = time.sleep,
        bar_width: int = BAR_WIDTH,
    ) -> None:
        self.console = console
        self.labels: Sequence[str] | None = None
        """Names of the listed actions, where the policy has other names than numbers."""
        self.turns = 0
        self.total = 0.0
        # A terminal without UTF-8 (Windows code pages, LANG=C) raises at the first block character.
        self._ascii = not (encoding or console.encoding).lower().startswith("utf")
        self._renderer = None if spec is None else spec.capability(Renders)
        self._shown_before = False
        self._bar_width = bar_width
        self._seconds, self._pause = seconds, pause
        # A file or a pipe gets every turn, and nobody waits for it.
        self._live = Live(console=console, auto_refresh=False) if seconds and _redraws(console) else None

    @property
    def redraws(self) -> bool:
        """True = turns are drawn in one place."""
        return self._live is not None

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show_rules(self, spec: EnvSpec) -> None:
        """Print what a person should know before the first turn: the rules, and what the drawing means."""
        rules = spec.capability(HasRules)
        if rules is not None:
            self.console.print(Text(printable(rules.rules)))
        if self._renderer is not None:
            self.console.print(_from_ansi(f"\n{self._renderer.legend}"))

    def show_view(self, view: View) -> None:
        """A view that waits for a choice."""
        self._show(Text(), *self._view(view.observation, view.order, view.reflection, None))
        self._shown_before = True

    def show_turn(self, turn: Turn) -> None:
        """A turn that was played."""
        # A person has just seen this list; printing it twice would push the state off the screen.
        before = () if self._shown_before else self._view(turn.observation, turn.order, turn.reflection, turn.decision)
        self._show(*([Text()] if before else []), *before, *self._outcome(turn))
        self._shown_before = False

    def lines_of(self, turn: Turn) -> list[Text]:
        """The next turn of an episode, which is not shown: its state, words, actions and reward."""
        view = self._view(turn.observation, turn.order, turn.reflection, turn.decision)
        return [*view, *self._outcome(turn)]

    def _outcome(self, turn: Turn) -> list[Text]:
        self.turns += 1
        self.total += turn.reward
        rewards = Text(f"  reward {signed(turn.reward)}   return {signed(self.total)}", style="cyan")
        return [*_answer(turn.decision), rewards]

    def _show(self, *lines: Text) -> None:
        if self._live is None:
            for line in lines:
                self.console.print(line)
            return
        self._live.update(Group(*lines), refresh=True)
        self._pause(self._seconds)

    def _view(
        self, observation: Observation, order: Sequence[int], reflection: str | None, decision: Decision | None
    ) -> list[Text]:
        dash = "-" if self._ascii else "─"
        lines = [Text(f"{dash * 2} turn {self.turns + 1} {dash * (self._bar_width + 4)}", style="dim")]
        lines.append(self._state(observation))
        if reflection is not None:
            lines.append(Text.assemble(("Analyze: ", "dim"), (printable(reflection), "italic")))
        actions = [self._action(observation, order, number, decision) for number in range(len(order))]
        return [*lines, Text(), *actions]

    def _state(self, observation: Observation) -> Text:
        if self._renderer is None:
            return Text(printable(observation.text))
        return _from_ansi(self._renderer.render(observation))

    def _action(self, observation: Observation, order: Sequence[int], number: int, decision: Decision | None) -> Text:
        """Line of the list: mark, label, action, and its probability where the player has one."""
        labels = self.labels or [str(k) for k in range(len(order))]
        width = max(len(action) for action in observation.actions)
        # The list is shuffled: what is shown is by number, what was decided is by action.
        index = order[number]
        chosen = decision is not None and decision.index == index
        line = f"{'>' if chosen else ' '} {labels[number]:>3} {printable(observation.actions[index])}"
        if decision is not None and decision.log_probs is not None:
            probability = math.exp(decision.log_probs[index])
            line = f"{line:<{width + 6}}  {self._bar(probability)} {probability:.3f}"
        return Text(line, style="bold green" if chosen else "")

    def _bar(self, probability: float) -> str:
        full = round(probability * self._bar_width)
        filled, rest = ("#", ".") if self._ascii else ("█", "░")
        return filled * full + rest * (self._bar_width - full)


def _redraws(console: Console) -> bool:
    """Tell whether something can be drawn in one place again and again; in a dumb terminal the last would be all."""
    return console.is_terminal and not console.is_dumb_terminal


def show_frames(
    console: Console, frames: Sequence[RenderableType], seconds: float, pause: Callable[[float], None] = time.sleep
) -> None:
    """Frames below each other, or, on a terminal and with a pause after each, in one place."""
    # The console of messages breaks no lines, and columns need it to.
    fitting = Console(file=console.file, force_terminal=console.is_terminal, highlight=False, markup=False, emoji=False)
    if not (seconds and _redraws(console)):
        for frame in frames:
            fitting.print()
            fitting.print(frame)
        return
    with Live(console=fitting, auto_refresh=False) as live:
        for frame in frames:
            live.update(frame, refresh=True)
            pause(seconds)


def signed(reward: float) -> str:
    """A sum of rewards with its sign: two decimals, and two digits of one that these would show as 0.

    >>> signed(0.5), signed(-0.001), signed(0.1 + 0.2 - 0.3)
    ('+0.50', '-0.001', '+0.00')
    """
    # Sums that are 0 but for rounding stay 0.
    return f"{reward:+.2g}" if 1e-9 < abs(reward) < 0.005 else f"{0.0 if abs(reward) <= 1e-9 else reward:+.2f}"


def _answer(decision: Decision) -> list[Text]:
    """The words of a player, where it speaks."""
    lines = []
    if decision.answer is not None:
        lines.append(Text.assemble(("Answer: ", "dim"), (printable(decision.answer), "italic")))
    # A chat model may name nothing; the turn counts all the same, and without this line nobody sees why.
    if decision.index == NO_ACTION:
        lines.append(Text("  no action of the list: the turn passes", style="bold red"))
    return lines


def _from_ansi(drawing: str) -> Text:
    """The drawing with its colours, without any other control character."""
    text = Text("\n").join(map(Text.from_ansi, drawing.split("\n")))
    text.plain = printable(text.plain)  # of equal length, so that the colours stay in place
    return text
