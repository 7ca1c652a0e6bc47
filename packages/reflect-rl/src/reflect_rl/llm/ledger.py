"""The list of what left, and the budget: both in one file, which a killed process leaves true.

A request is written down before it is sent, with the most that it can take, and once more when it has ended. What has
no end counts with that most: it is under way, or its answer was lost and may be paid for all the same.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reflect_rl.errors import RunFolderError
from reflect_rl.llm.config import EndpointConfig
from reflect_rl.llm.errors import BudgetError
from reflect_rl.llm.exchange import most_new_tokens, most_prompt_tokens
from reflect_rl.llm.journal import Journal

__all__ = ["REQUESTS", "Amount", "Ledger", "most_of", "now"]

REQUESTS = "requests.jsonl"
REMEDY = "It counts what was spent; move it away to count from nothing."


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens, and what they cost."""

    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.cost + other.cost)


def most_of(config: EndpointConfig, body: Mapping[str, Any]) -> Amount:
    """The most that one request can take."""
    prompt, answer = most_prompt_tokens(body), most_new_tokens(body)
    return Amount(prompt + answer, config.cost(prompt, answer))


class Ledger:
    """What was sent from one folder, by this process and all others, now and before.

    Args:
        config: of the endpoint, with its budget.
        folder: of the file `requests.jsonl` (None: counted in memory only).
        purpose: what the requests are for.
        section: table of the configuration, for messages.

    Raises:
        RunFolderError: the file cannot be read, or holds something else.
    """

    def __init__(self, config: EndpointConfig, folder: Path | None, purpose: str, section: str) -> None:
        self.config, self.purpose, self.section = config, purpose, section
        self._journal = Journal(folder / REQUESTS, REMEDY, not config.is_local) if folder is not None else None
        self._turn = threading.Condition()
        self._under_way = 0
        """Requests of this object without an end."""
        self._known = Amount()
        self._open: dict[str, Amount] = {}
        """The most that requests without an end, or without an answer, can have taken."""
        self._refresh()

    @property
    def known(self) -> Amount:
        """What all requests of the folder with an answer took."""
        return self._known

    @property
    def reserved(self) -> Amount:
        """The most that those without an answer can have taken."""
        return sum(self._open.values(), Amount())

    def begin(self, key: str, body: Mapping[str, Any], attempt: int) -> str:
        """Write a request down before it is sent; waits while those under way leave no room in the budget.

        Args:
            key: SHA-256 of the request.
            body: as it is sent.
            attempt: 1, 2, ...

        Returns:
            A name for this attempt.

        Raises:
            BudgetError: the request could exceed the budget.
            RunFolderError: it cannot be written down.
        """
        most, name = most_of(self.config, body), uuid.uuid4().hex[:16]
        row = {
            "event": "sent",
            "id": name,
            "time": now(),
            "host": self.config.host,
            "local": self.config.is_local,
            "model": self.config.model,
            "purpose": self.purpose,
            "sha256": key,
            "attempt": attempt,
            "most_tokens": most.tokens,
            "most_cost": most.cost,
        }
        with self._turn:
            while not self._added(row, most):
                if not self._under_way:
                    raise BudgetError(self._exceeded(most))
                self._turn.wait()
            self._under_way += 1
        return name

    def end(self, name: str, status: str, used: tuple[int, int] | None, seconds: float, answered_by: str = "") -> None:
        """Write down how an attempt ended.

        Args:
            name: from `begin`.
            status: HTTP status, or what happened instead.
            used: tokens of prompt and answer; (0, 0) for what is not paid for; None where nobody knows.
            seconds: it took.
            answered_by: the model, by the server's own words.
        """
        prompt_tokens, completion_tokens = used if used is not None else (None, None)
        row = {
            "event": "ended",
            "id": name,
            "time": now(),
            "status": status,
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "cost": self.config.cost(*used) if used is not None else None,
            "seconds": round(seconds, 3),
            "answered_by": answered_by,
        }
        with self._turn:
            try:
                with self._alone():
                    self._write(row)
            finally:
                self._under_way -= 1
                self._turn.notify_all()

    def _added(self, row: dict[str, Any], most: Amount) -> bool:
        """Whether the budget had room for a request, which is written down then."""
        with self._alone():
            total = self._known + self.reserved + most
            tokens, cost = self.config.max_total_tokens, self.config.max_cost
            if (tokens is not None and total.tokens > tokens) or (cost is not None and total.cost > cost):
                return False
            self._write(row)
            return True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process adds to the list meanwhile, and all that they added before is counted."""
        if self._journal is None:
            yield
            return
        with self._journal.exclusive():
            self._refresh()
            yield

    def _write(self, row: dict[str, Any]) -> None:
        if self._journal is None:
            self._count(row)
        else:
            self._journal.write(row)
            self._refresh()

    def _refresh(self) -> None:
        if self._journal is None:
            return
        for row in self._journal.fresh():
            try:
                self._count(row)
            except (KeyError, TypeError, ValueError):
                raise RunFolderError(f"{self._journal.path} holds other rows than requests. {REMEDY}") from None

    def _count(self, row: Mapping[str, Any]) -> None:
        name = str(row["id"])
        if row["event"] == "sent":
            self._open[name] = Amount(int(row["most_tokens"]), float(row["most_cost"]))
        elif row["cost"] is not None:
            tokens = int(row["prompt_tokens"]) + int(row["completion_tokens"])
            self._known += Amount(tokens, float(row["cost"]))
            self._open.pop(name, None)

    def _exceeded(self, most: Amount) -> str:
        known, reserved, section = self._known, self.reserved, self.section
        lines = []
        if (limit := self.config.max_cost) is not None:
            lines.append(
                f"cost {known.cost:.4g} + at most {reserved.cost:.4g} for requests without an answer, the next one at "
                f"most {most.cost:.4g}, {section}.max_cost = {limit:g}"
            )
        if (number := self.config.max_total_tokens) is not None:
            lines.append(
                f"tokens {known.tokens} + at most {reserved.tokens} for requests without an answer, the next one at "
                f"most {most.tokens}, {section}.max_total_tokens = {number}"
            )
        return (
            f"the budget for {self.config.host} (model {self.config.model!r}) is used up: {'; '.join(lines)}. All "
            "answers so far are kept. Raise the limit, and the same command goes on from here."
        )


def now() -> str:
    """The time in UTC, as lists of requests have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
