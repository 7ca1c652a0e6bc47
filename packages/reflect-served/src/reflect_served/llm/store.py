"""The SQLite file of a folder: every answer, and every request that left with what it took.

A request is written down before it is sent, with the most that it can take, and completed when it has ended. One that
never ended counts with that most: it is under way, or its answer was lost and may be on the bill all the same. Threads
and processes share the file; SQLite's log keeps it whole when one of them is killed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reflect_rl.errors import RunFolderError
from reflect_served.llm.config import EndpointConfig
from reflect_served.llm.errors import BudgetError
from reflect_served.llm.messages import ChatAnswer, max_new_tokens, max_prompt_tokens

STORE = "requests.sqlite"
"""Name of the file in its folder."""

REMEDY = "It holds the answers and what was spent; move it away to begin anew."

BUSY_SECONDS = 60
"""Longest wait for another process that writes."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, text TEXT NOT NULL, ending TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, seconds REAL NOT NULL, logprobs TEXT, model TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, time TEXT NOT NULL, host TEXT NOT NULL, local INTEGER NOT NULL, model TEXT NOT NULL,
    purpose TEXT NOT NULL, sha256 TEXT NOT NULL, most_tokens INTEGER NOT NULL, most_cost REAL NOT NULL,
    status TEXT, prompt_tokens INTEGER, completion_tokens INTEGER, cost REAL, seconds REAL, answered_by TEXT);
"""
FIND_ANSWER = "SELECT text, ending, prompt_tokens, completion_tokens, seconds, logprobs FROM answers WHERE key = ?"
# Another process may have had the same answer first; the first one stays.
ADD_ANSWER = "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
ADD_REQUEST = (
    "INSERT INTO requests (time, host, local, model, purpose, sha256, most_tokens, most_cost) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
END_REQUEST = (
    "UPDATE requests SET status = ?, prompt_tokens = ?, completion_tokens = ?, cost = ?, seconds = ?, answered_by = ? "
    "WHERE id = ?"
)
# A request without a cost has not ended, or nobody knows its cost: it counts with its most.
TOTALS = (
    "SELECT TOTAL(prompt_tokens + completion_tokens), TOTAL(cost), TOTAL(most_tokens) FILTER (WHERE cost IS NULL), "
    "TOTAL(most_cost) FILTER (WHERE cost IS NULL) FROM requests"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens, and what they cost."""

    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.cost + other.cost)


class Store:
    """SQLite file, which is made with its first row and closed with its object.

    Args:
        path: the file (None: in memory).

    Raises:
        RunFolderError: the file cannot be read, or holds something else.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        # Threads share the connection; the lock keeps their transactions apart.
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        # Both tables are read, so that a foreign or damaged file is refused before anything is sent.
        self.totals()
        self.find("")

    def find(self, key: str) -> ChatAnswer | None:
        """Look an answer up by the hash of all that determines it; it is marked as cached."""
        with self.reading() as connection:
            if connection is None:
                return None
            found = connection.execute(FIND_ANSWER, (key,)).fetchone()
        if found is None:
            return None
        text, ending, prompt_tokens, completion_tokens, seconds, logprobs = found
        pairs = tuple((token, value) for token, value in json.loads(logprobs)) if logprobs else None
        return ChatAnswer(text, ending, prompt_tokens, completion_tokens, seconds, True, pairs)

    def add(self, key: str, answer: ChatAnswer, model: str) -> None:
        """Keep an answer; `model` wrote it, by the server's own words.

        Raises:
            RunFolderError: the file cannot be written.
        """
        with self.writing() as connection:
            _insert_answer(connection, key, answer, model)

    def totals(self) -> tuple[Amount, Amount]:
        """Sum up what requests with a known cost took, and the most that the others can have taken."""
        with self.reading() as connection:
            return _sum_up(connection) if connection is not None else (Amount(), Amount())

    def close(self) -> None:
        """Close the file, which leaves one file of the three that SQLite works with; the next use opens it again."""
        with self._lock:
            if self.path is not None and self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Hand out the connection, or None where nothing was written yet: a dry run makes no file."""
        with self._lock, self._errors():
            exists = self._connection is not None or (self.path is not None and self.path.exists())
            yield self._open() if exists else None

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction in which no other thread or process writes; what it wrote outlives a kill."""
        with self._lock, self._errors():
            connection = self._open()
            # Without IMMEDIATE two processes could both read the same total before either of them adds to it.
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            # Ctrl-C too: an open transaction would keep every other process out.
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                # Answers can quote private prompts: only the user may read the file.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            # No isolation level: the module would otherwise begin transactions itself, and not IMMEDIATE.
            connection = sqlite3.connect(
                self.path or ":memory:", BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # Python 3.13 warns of connections that are never closed.
            weakref.finalize(self, connection.close)
            _prepare(connection)
            self._connection = connection
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunFolderError(
                f"{self.path} cannot be written ({error}). Make room, or choose another folder."
            ) from None
        except sqlite3.Error as error:
            raise RunFolderError(f"{self.path} cannot be used ({error}). {REMEDY}") from None


def _prepare(connection: sqlite3.Connection) -> None:
    """Choose the kind of log and make the tables, however many processes do so at this moment."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            # Readers do not wait for a writer, and a kill leaves the file whole.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA)
            return
        except sqlite3.OperationalError as error:
            # SQLite does not wait by itself where two processes change the kind of log at once: one must step back.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _insert_answer(connection: sqlite3.Connection, key: str, answer: ChatAnswer, model: str) -> None:
    logprobs = json.dumps(answer.logprobs) if answer.logprobs else None
    counts = answer.prompt_tokens, answer.completion_tokens
    connection.execute(ADD_ANSWER, (key, answer.text, answer.ending, *counts, answer.seconds, logprobs, model))


class RequestLog:
    """Requests from one folder by all processes, now and before, and the budget that it is held to.

    Args:
        config: settings of the endpoint, with its budget.
        store: where they are written down.
        purpose: what the requests are for.
        section: table of the configuration, for messages.
    """

    def __init__(self, config: EndpointConfig, store: Store, purpose: str = "chat", section: str = "endpoint") -> None:
        self.config, self.store, self.purpose, self.section = config, store, purpose, section
        self._turn = threading.Condition()
        self._under_way: set[int] = set()
        self.sent = 0
        """Attempts of this object."""

    @property
    def known(self) -> Amount:
        """Tokens and cost of all requests of the folder whose cost is known."""
        return self.store.totals()[0]

    @property
    def reserved(self) -> Amount:
        """The most that requests without an end, or without an answer, can have taken."""
        return self.store.totals()[1]

    def begin(self, body: Mapping[str, Any], sha256: str) -> int:
        """Write a request down before it is sent; wait while those under way may use up the budget.

        Args:
            body: as it is sent.
            sha256: of the body.

        Returns:
            The number of the row, for `end`.

        Raises:
            BudgetError: the request could exceed the budget.
            RunFolderError: it cannot be written down.
        """
        prompt, answer = max_prompt_tokens(body), max_new_tokens(body)
        most = Amount(prompt + answer, self.config.cost(prompt, answer))
        with self._turn:
            while (number := self._reserve(most, sha256)) is None:
                # A request under way mostly takes less than the most that is reserved for it.
                if not self._under_way:
                    raise BudgetError(self._exceeded(most))
                self._turn.wait()
            self._under_way.add(number)
            self.sent += 1
        return number

    def end(
        self,
        number: int,
        status: str,
        used: tuple[int, int] | None,
        seconds: float = 0.0,
        answer: tuple[str, ChatAnswer] | None = None,
        answered_by: str = "",
    ) -> None:
        """Write down how a request ended.

        Args:
            number: from `begin`.
            status: HTTP status, or what happened instead.
            used: tokens of prompt and answer; (0, 0) for what is not paid for; None where nobody knows.
            seconds: it took.
            answer: key and answer, which are kept in the same transaction, so that no kill comes between.
            answered_by: the model, by the server's own words.
        """
        prompt_tokens, completion_tokens = used if used is not None else (None, None)
        cost = self.config.cost(*used) if used is not None else None
        row = (status, prompt_tokens, completion_tokens, cost, round(seconds, 3), answered_by, number)
        try:
            with self.store.writing() as connection:
                connection.execute(END_REQUEST, row)
                if answer is not None:
                    _insert_answer(connection, *answer, answered_by)
        finally:
            with self._turn:
                # Also after an error, or those that wait for this request would wait for ever.
                self._under_way.discard(number)
                self._turn.notify_all()

    def _reserve(self, most: Amount, sha256: str) -> int | None:
        """Add the row if the budget allows it; None if it does not."""
        tokens, cost = self.config.max_total_tokens, self.config.max_cost
        config, now = self.config, datetime.now(UTC).isoformat(timespec="milliseconds")
        with self.store.writing() as connection:
            if tokens is not None or cost is not None:
                total = sum(_sum_up(connection), most)
                if (tokens is not None and total.tokens > tokens) or (cost is not None and total.cost > cost):
                    return None
            row = (now, config.host, config.is_local, config.model, self.purpose, sha256, most.tokens, most.cost)
            return connection.execute(ADD_REQUEST, row).lastrowid

    def _exceeded(self, most: Amount) -> str:
        (known, reserved), section = self.store.totals(), self.section
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


def _sum_up(connection: sqlite3.Connection) -> tuple[Amount, Amount]:
    row = connection.execute(TOTALS).fetchone()
    return Amount(int(row[0]), row[1]), Amount(int(row[2]), row[3])
