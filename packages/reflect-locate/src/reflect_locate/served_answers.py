"""Answers of the server: which file, which lines, and what a file or a folder holds.

One question is answered at a time. An index answers, the one of `locate`; a trained player walks, too, if one was
asked for.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, Self

from pydantic import BaseModel, Field

from reflect_locate.evidence import Sureness
from reflect_locate.outline import Outline, outline_file, outline_folder
from reflect_locate.ranking import Answer, FoundFile, find, passages
from reflect_locate.repositories.best_lines import BestLines
from reflect_locate.repositories.symbols import KEPT, symbols
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.word_store import StaleStoreError
from reflect_locate.rereading import told_change
from reflect_locate.served_folders import Part, ServedFolders
from reflect_rl.errors import ReflectRLError

if TYPE_CHECKING:
    from reflect_locate.adapted_ranking import AdaptedRanking

PAUSE = 0.001
"""Seconds between two files that are read ahead."""

IsStopped = Callable[[], bool]


class StoppedCallError(ReflectRLError):
    """The call was cancelled before its turn came."""


class Lines(BaseModel):
    """Lines of a file that answer a question best."""

    path: str = Field(description="Relative to `root`.")
    first_line: int = Field(description="From 1.")
    last_line: int
    symbol: str = Field(description="The function, class or heading around them; empty = none.")
    kind: str = Field(description="`function`, `class`, `heading`, or empty.")
    excerpt_line: int = Field(description="Number of the first line of `excerpt`.")
    excerpt: list[str] = Field(
        description="Up to three lines, those with most words of the question. They are not verbatim: tabs are blanks, "
        "and a line ends at 200 characters."
    )

    @classmethod
    def of(cls, path: str, lines: BestLines) -> Self:
        """These lines of a file."""
        return cls(path=path, **lines.to_json())


class LocatedFile(Lines):
    """A file that may answer the question, with its best lines."""

    sureness: Sureness = Field(description="How sure it is that this file answers; of all but the first `a guess`.")
    score: float = Field(description="Evidence that it answers the question, in [0, 1].")
    words: list[str] = Field(description="Words of the question that stand close together in it.")
    walk: list[str] = Field(description="Commands of the trained player on the way to it; empty without one.")
    reasons: list[str] = Field(description="What the player noted on the way; empty without one.")


class Located(BaseModel):
    """Files for a question."""

    root: str = Field(description="The folder that paths are relative to.")
    sureness: Sureness = Field(description="How sure it is that the first file answers: `sure`, `likely`, `a guess`.")
    confidence: float = Field(description="Confidence in the first file, in [0, 1].")
    files: list[LocatedFile] = Field(description="Best first.")
    changed: str | None = Field(
        default=None,
        description="What a language model changed at the first place, in a sentence; null where none has read.",
    )


class Passages(BaseModel):
    """Lines for a question."""

    root: str = Field(description="The folder that paths are relative to.")
    sureness: Sureness = Field(description="How sure it is that the best file answers: `sure`, `likely`, `a guess`.")
    confidence: float = Field(description="Confidence in the best file, in [0, 1].")
    passages: list[Lines] = Field(description="Best first; a file may have several.")


class Service(Protocol):
    """Object that answers the calls of the server's tools; it is called in another thread."""

    def find_file(self, question: str, path: str, top_k: int, is_stopped: IsStopped) -> Located:
        """Files that answer a question."""

    def find_passage(self, question: str, path: str, top_k: int, is_stopped: IsStopped) -> Passages:
        """Lines that answer a question."""

    def what_is_in(self, path: str, is_stopped: IsStopped) -> Outline:
        """Outline of a file or a folder."""


Search = Callable[[Tree, str, IsStopped], Answer]
"""Question to a trained player."""

Reread = Callable[[Tree, str, Answer], Answer]
"""New ranking of an answer's files by a language model."""


class SearchService:
    """Answers about folders.

    Args:
        folders: that may be asked about.
        threshold: confidence below which an answer is a guess (None: as measured).
        player: looks for files, too (None: the index alone).
        reread: ranks the files that the index found anew (None: they stay as they are).
        adapted: ranking of the repository's own (None: as it comes).

    Raises:
        UserError: of each method: the question or the path is of no use.
        StoppedCallError: of each method: the call was cancelled before its turn.
    """

    def __init__(
        self,
        folders: ServedFolders,
        threshold: float | None = None,
        player: Search | None = None,
        reread: Reread | None = None,
        adapted: AdaptedRanking | None = None,
    ) -> None:
        self._folders, self._threshold, self._player, self._reread = folders, threshold, player, reread
        self._adapted = adapted
        # Stores and players keep caches that are not made for several threads.
        self._alone = threading.Lock()

    def read_ahead(self) -> threading.Thread:
        """Parse the files of the folders while nobody asks, so that the first question about a file need not.

        Returns:
            the thread that does it; it ends with the process.
        """
        thread = threading.Thread(target=self._parse_all, name="read ahead", daemon=True)
        thread.start()
        return thread

    def _parse_all(self) -> None:
        for snapshot in [root.snapshot for root in self._folders.roots]:
            for path, text in (snapshot.files if snapshot else {}).items():
                # A text that does not fit would push out one that a question has asked for.
                if KEPT.is_full:
                    return
                # A question in between waits for one file at most, and this thread for the whole answer.
                with self._alone:
                    symbols(path, text)
                # A lock that is taken again at once never reaches who waits for it.
                time.sleep(PAUSE)

    def find_file(self, question: str, path: str, top_k: int, is_stopped: IsStopped) -> Located:
        """Files that answer a question, best first."""
        with self._alone:
            part = self._part(path, is_stopped)
            # The player is asked for files only: for lines an index is enough.
            answer = self._player(part.tree, question, is_stopped) if self._player else self._find(part, question)
            changed = None
            if self._reread:
                before, answer = answer, self._reread(part.tree, question, answer)
                changed = told_change(before, answer, part.tree.prefix)
            files = answer.with_lines(part.tree, top_k)
        return Located(
            root=part.root.folder,
            sureness=answer.sureness,
            confidence=round(answer.confidence, 4),
            files=[_located(entry, part.tree.prefix) for entry in files],
            changed=changed,
        )

    def find_passage(self, question: str, path: str, top_k: int, is_stopped: IsStopped) -> Passages:
        """Lines that answer a question, best first."""
        with self._alone:
            part = self._part(path, is_stopped)
            answer = self._find(part, question)
            found = passages(part.tree, answer, top_k)
        rows = [Lines.of(part.tree.prefix + name, lines) for name, lines in found]
        return Passages(
            root=part.root.folder,
            sureness=answer.sureness,
            confidence=round(answer.confidence, 4),
            passages=rows,
        )

    def what_is_in(self, path: str, is_stopped: IsStopped) -> Outline:
        """Outline of a file or a folder."""
        with self._alone:
            _check(is_stopped)
            root, inside = self._folders.file_or_folder(path)
            if isinstance(inside, Tree):
                return outline_folder(inside, root)
            return outline_file(inside.path, inside.text, root)

    def _part(self, path: str, is_stopped: IsStopped) -> Part:
        _check(is_stopped)
        return self._folders.part(path)

    def _find(self, part: Part, question: str) -> Answer:
        try:
            return find(part.tree, question, self._folders.index(part), self._threshold, self._adapted)
        except (sqlite3.Error, StaleStoreError) as error:
            # The file is damaged and is made anew, or another process locks it and the words are counted in memory.
            index = self._folders.index(part, error)
            return find(part.tree, question, index, self._threshold, self._adapted)


def _check(is_stopped: IsStopped) -> None:
    """Refuse a call that nobody waits for any more.

    Raises:
        StoppedCallError: it was cancelled.
    """
    if is_stopped():
        raise StoppedCallError("the call was cancelled.")


def _located(entry: FoundFile, prefix: str) -> LocatedFile:
    assert entry.lines is not None  # noqa: S101 (`with_lines` has set it)
    return LocatedFile(
        **Lines.of(prefix + entry.path, entry.lines).model_dump(),
        sureness=entry.sureness,
        score=round(entry.score, 4),
        words=list(entry.words),
        walk=list(entry.walk),
        reasons=list(entry.reasons),
    )
