"""A session of one person: which pair comes next, and answers that are on the disk before the next question."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from reflect_report.preferences.pairs import Pair
from reflect_report.preferences.records import Choice, Preference
from reflect_rl.store import append_jsonl


class Session:
    """The pairs that a person has not answered yet.

    Args:
        out: file that answers are added to.
        pairs: pairs to ask, in their order.
        answered: hashes of the pairs that this person has answered.
        wanted: number of pairs, the answered ones included.
        make: makes the line of an answer.
    """

    def __init__(
        self,
        out: Path,
        pairs: Iterable[Pair],
        answered: set[str],
        wanted: int,
        make: Callable[[Pair, Choice], Preference],
    ) -> None:
        self.out, self.make, self.wanted = out, make, wanted
        self.done = len(answered)
        # Those that were answered in an earlier session count, whatever was played since.
        left = (pair for pair in pairs if pair.hash not in answered)
        self.left = list(islice(left, max(0, wanted - len(answered))))
        self.total = self.done + len(self.left)

    @property
    def pair(self) -> Pair | None:
        """The pair to ask now; None if all are answered."""
        return self.left[0] if self.left else None

    @property
    def title(self) -> str:
        """Place of the pair among all."""
        return f"pair {self.done + 1} of {self.total}"

    @property
    def note(self) -> str:
        """Sentence on pairs that do not exist; empty where there are enough."""
        if self.total >= self.wanted:
            return ""
        return f"There are {self.total} pairs, fewer than the {self.wanted} that were asked for."

    def record(self, choice: Choice) -> None:
        """Write the answer to the present pair, and go on to the next."""
        # Written before the next pair is shown, so that nothing that was answered can be lost.
        append_jsonl(self.out, [self.make(self.left[0], choice).model_dump(mode="json")])
        del self.left[0]
        self.done += 1
