"""Counted words of texts, in SQLite: a file on disk, or in memory.

A text is counted once and found again by its hash, so texts that did not change, moved, or stand in several commits
cost nothing. The index is inverted: for each word the texts that hold it, so that a question reads its own words only.
Numbers are the same as those of `passages.NamedText`. Each row carries a checksum: SQLite notices damage to its own
structure only, and a changed number would rank wrongly in silence. A word whose name is damaged is not found, and
nobody notices.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import sys
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

from reflect_locate.repositories import words as rules
from reflect_locate.repositories.text_lines import LONGEST_READ
from reflect_locate.repositories.words import words

MEMORY = ":memory:"
FORMAT = 2
"""Version of the tables."""
MOST_SEGMENTS = 32
"""Additions after which the entries of each word are joined."""
MOST_WORDS = 256
"""Words whose entries are kept in memory."""
BUSY_SECONDS = 10.0
"""Time that a reader waits for another process to finish writing."""
CHECK_BYTES = 4
"""Bytes of the checksum that precedes the pairs of an entry."""
SEPARATORS = str.maketrans({chr(code): " " for code in range(128) if not re.match(r"[^\W_]|\n", chr(code))})
"""ASCII characters that no word holds. A text is cut at them first: what is left are pieces that recur, and each is cut
into words once."""
TABLES = """
CREATE TABLE made (version TEXT NOT NULL);
CREATE TABLE texts (number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, size INTEGER NOT NULL, checksum INTEGER);
CREATE TABLE entries (word TEXT, segment INTEGER, pairs BLOB NOT NULL, PRIMARY KEY (word, segment)) WITHOUT ROWID;
"""


CIRCUMSTANCES = frozenset((
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_INTERRUPT,
))  # fmt: skip
"""Codes of errors that a new file would not cure: a lock, a full disk, no rights."""


class StaleStoreError(Exception):
    """A store was made by another version, or is not whole."""


def is_damage(error: sqlite3.Error | StaleStoreError) -> bool:
    """Tell whether an error lies in the file, so that a new one would cure it."""
    if isinstance(error, StaleStoreError):
        return True
    # The lowest byte is the kind of error, the others tell more of it. Texts that cannot be decoded have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in CIRCUMSTANCES


def _version() -> str:
    """The tables and all rules by which words are counted: an index of other rules would rank wrongly."""
    patterns = (rules.PIECE.pattern, rules.RUN, rules.SCRIPT, rules.BIGRAMS, rules.LETTERS)
    told = (patterns, sorted(rules.STOP_WORDS), rules.ENDINGS, rules.SHORTEST_STEM, LONGEST_READ)
    return f"{FORMAT} {hashlib.sha256(repr(told).encode()).hexdigest()}"


@contextmanager
def _sound() -> Iterator[None]:
    """Take a value that no store holds, such as a text that is no UTF-8, for the damage that it is.

    Raises:
        StaleStoreError: there was one.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        raise StaleStoreError(str(error)) from None


class _Pieces(dict[str, tuple[str, ...]]):
    """Piece of a text between separators -> its words; pieces recur thousands of times."""

    def __missing__(self, piece: str) -> tuple[str, ...]:
        self[piece] = found = tuple(words(piece))
        return found


def count_words(text: str, pieces: _Pieces | None = None) -> Counter[str]:
    r"""Number of lines that hold each word.

    >>> sorted(count_words("red car, red bus\nRed_bike").items())
    [('bik', 1), ('bus', 1), ('car', 1), ('red', 2)]
    """
    known = _Pieces() if pieces is None else pieces
    lines = text[:LONGEST_READ].translate(SEPARATORS).split("\n")
    # A set for each line, since a word counts once in it; one count over all lines is twice as fast as one for each.
    flat = chain.from_iterable
    return Counter(flat(set(flat(map(known.__getitem__, found))) for line in lines if (found := line.split())))


class WordStore:
    """Counted words of texts.

    Args:
        place: SQLite file, made if it is not there; `MEMORY` = none.

    Raises:
        StaleStoreError: another version made it, or it is damaged.
        sqlite3.Error: it cannot be opened or written.
    """

    def __init__(self, place: Path | str = MEMORY) -> None:
        # One thread at a time asks, but not always the same one: the server answers in threads.
        self._database = sqlite3.connect(place, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            with _sound():
                self._open()
                self._texts = self._known()
        except sqlite3.DatabaseError as error:
            self.close()
            if is_damage(error):
                raise StaleStoreError(str(error)) from None
            raise
        except BaseException:
            self.close()
            raise
        self.pairs = lru_cache(MOST_WORDS)(self._pairs)
        """Number of each text that holds a word -> number of its lines."""

    def _known(self) -> dict[bytes, tuple[int, int]]:
        """Number and size of each text, by its hash.

        Raises:
            StaleStoreError: something else stands in their place.
        """
        rows = self._database.execute("SELECT number, digest, size, checksum FROM texts").fetchall()
        # A damaged page can be read, and then has values of any kind.
        if not all(checksum == _checksum_of_text(number, digest, size) for number, digest, size, checksum in rows):
            raise StaleStoreError("a text is not as it was written")
        return {digest: (number, size) for number, digest, size, _ in rows}

    def _all(self, query: str, values: Iterable[object] = ()) -> list[tuple[int, bytes, int]]:
        return self._database.execute(query, tuple(values)).fetchall()

    def _open(self) -> None:
        # Looked at before the lock of writers is taken: most who open it only read.
        if not self._all("SELECT name FROM sqlite_master"):
            self._make()
        try:
            versions = self._all("SELECT version FROM made")
        except sqlite3.OperationalError:
            versions = []
        if versions != [(_version(),)]:
            raise StaleStoreError("another version")

    def _make(self) -> None:
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            # Another process may have made it meanwhile.
            if not self._all("SELECT name FROM sqlite_master"):
                for statement in TABLES.split(";"):
                    self._database.execute(statement)
                self._database.execute("INSERT INTO made VALUES (?)", (_version(),))

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @property
    def count(self) -> int:
        """Number of texts."""
        return len(self._texts)

    def find(self, digest: bytes) -> tuple[int, int] | None:
        """Number of a text and the sum of its counts; None if it is not in the store."""
        return self._texts.get(digest)

    def add(self, texts: Mapping[bytes, str]) -> None:
        """Count texts that are not in the store yet, all or none of them.

        Args:
            texts: by their hash (`snapshot.digest_of`).

        Raises:
            sqlite3.Error: nothing was written, for example because the disk is full.
        """
        pieces = _Pieces()
        with _sound(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            # Another process may have added some since the file was opened.
            self._texts = self._known()
            new = [(digest, text) for digest, text in texts.items() if digest not in self._texts]
            if not new:
                return
            ((first, segment),) = self._database.execute(
                "SELECT (SELECT coalesce(max(number), 0) + 1 FROM texts), "
                "(SELECT coalesce(max(segment), 0) + 1 FROM entries)"
            ).fetchall()
            rows: list[tuple[int, bytes, int, int]] = []
            entries: defaultdict[str, array[int]] = defaultdict(partial(array, "Q"))
            for number, (digest, text) in enumerate(new, start=first):
                counts = count_words(text, pieces)
                size = counts.total()
                rows.append((number, digest, size, _checksum_of_text(number, digest, size)))
                for word, count in counts.items():
                    # Two numbers of 32 bits at once: there are millions of them.
                    entries[word].append(count << 32 | number)
            self._database.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", rows)
            # In the order of the key, which makes writing three times as fast.
            packed = ((word, segment, _sealed(word, _packed(entries[word]))) for word in sorted(entries))
            self._database.executemany("INSERT INTO entries VALUES (?, ?, ?)", packed)
            if segment >= MOST_SEGMENTS:
                self._join()
        self._texts |= {digest: (number, size) for number, digest, size, _ in rows}
        self.pairs.cache_clear()

    def _join(self) -> None:
        """Make one row of the rows of each word.

        Raises:
            StaleStoreError: one is damaged.
        """
        joined: dict[str, bytes] = {}
        for word, pairs in self._database.execute("SELECT word, pairs FROM entries ORDER BY word, segment"):
            joined[word] = joined.get(word, b"") + _opened(word, pairs)
        self._database.execute("DELETE FROM entries")
        rows = ((word, _sealed(word, pairs)) for word, pairs in joined.items())
        self._database.executemany("INSERT INTO entries VALUES (?, 1, ?)", rows)

    def _pairs(self, word: str) -> Mapping[int, int]:
        found: dict[int, int] = {}
        with _sound():
            for (packed,) in self._database.execute("SELECT pairs FROM entries WHERE word = ?", (word,)):
                flat = _unpacked(_opened(word, packed))
                found.update(zip(flat[::2], flat[1::2], strict=True))
        return found


def _checksum_of_text(number: int, digest: bytes, size: int) -> int:
    """The checksum of a row of the texts.

    Raises:
        TypeError: the values are of other types.
    """
    return zlib.crc32(digest, zlib.crc32(b"%d %d" % (number, size)))


def _sealed(word: str, pairs: bytes) -> bytes:
    """The pairs of a word behind their checksum, which covers the word, too."""
    return zlib.crc32(pairs, zlib.crc32(word.encode())).to_bytes(CHECK_BYTES, "little") + pairs


def _opened(word: str, sealed: bytes) -> memoryview:
    """The pairs of a word without their checksum.

    Raises:
        StaleStoreError: they are not as they were written.
    """
    pairs = memoryview(sealed)[CHECK_BYTES:]
    if zlib.crc32(pairs, zlib.crc32(word.encode())) != int.from_bytes(sealed[:CHECK_BYTES], "little"):
        raise StaleStoreError("an entry is not as it was written")
    return pairs


def _packed(pairs: array[int]) -> bytes:
    if sys.byteorder == "big":
        pairs.byteswap()
    return pairs.tobytes()


def _unpacked(packed: memoryview) -> array[int]:
    """Numbers of 32 bits, the lowest byte first."""
    pairs = array("I", packed.tobytes())
    if sys.byteorder == "big":
        pairs.byteswap()
    return pairs
