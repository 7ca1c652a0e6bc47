"""The table of the attacks: each case ends as one word, and three of the words must never appear."""

from __future__ import annotations

import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

WORDS = ("held", "exact", "refused", "silent", "escaped", "unexpected")
"""`held`: nothing came of it; `exact`: the results are those without the attack; `refused`: by one sentence."""
FAULTS = WORDS[3:]
SECONDS = 120
"""A case that takes longer has no bound: no single budget of a case is half of it."""
KILOBYTES = 500_000
"""A case that adds more to the peak memory of the process has no bound either; the bombs would add gigabytes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case.

    Args:
        kind: row of the table.
        number: of the case among those of its generator and seed.
        case: words that tell the case to a reader.
        word: one of `WORDS`.
        said: the error behind an unexpected end.
    """

    kind: str
    number: int
    case: str
    word: str
    said: str = ""


def attempt(kind: str, number: int, case: str, attack: Callable[[], str]) -> Outcome:
    """Try a case within limits of time and memory."""
    began, peak = time.monotonic(), _peak()
    # A case that hangs would end the whole run of attacks; the signal ends the case alone.
    before = signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        word, said = attack(), ""
    except Exception as error:
        word, said = "unexpected", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    seconds, more = time.monotonic() - began, _peak() - peak
    if seconds > SECONDS or more > KILOBYTES:
        word, said = "escaped", f"{seconds:.0f} s and {more / 1000:.0f} MB more. {said}"
    return Outcome(kind, number, case, word, said)


def _late(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def _peak() -> int:
    """Peak memory of this process in kilobytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // 1024 if sys.platform == "darwin" else most


@dataclass
class Table:
    """Outcomes by kind of attack."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, outcomes: Iterable[Outcome]) -> Table:
        """Add outcomes; returns the table itself."""
        for outcome in outcomes:
            assert outcome.word in WORDS
            self.counts.setdefault(outcome.kind, Counter())[outcome.word] += 1
            if outcome.word in FAULTS:
                self.faults.append(f"{outcome.kind}: {outcome.case}: {outcome.word}. {outcome.said}")
        return self

    @property
    def tried(self) -> int:
        """Number of cases."""
        return sum(found.total() for found in self.counts.values())

    def __str__(self) -> str:
        head = f"{'attack':24}{'tried':>8}" + "".join(f"{word:>12}" for word in WORDS)
        total = Counter[str]()
        rows = []
        for kind, found in [*self.counts.items(), ("all", total)]:
            rows.append(f"{kind:24}{found.total():>8}" + "".join(f"{found[word]:>12}" for word in WORDS))
            total.update(found if kind != "all" else {})
        return "\n".join([head, *rows, *self.faults])
