"""A question before any filter has seen it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CandidateQuestion:
    """Claim of a source: this text describes that file.

    A source file (`sources/<name>.py`) holds `NAME` and
    `candidates(snapshot: Snapshot) -> Iterator[CandidateQuestion]`.
    """

    text: str
    """The question as it stands in the source, white space run together to single spaces."""
    target: str
    """Path of the file in the snapshot."""
    source: str
    """Kind of text: `moddoc`, `symdoc`, `mdpara`, `mdhead`, `csvhead`, `git1`, `gitN`, `llm`."""
    span: tuple[int, int] | None = None
    """Span of the text in the target, as character offsets (None: it is not a part of the file)."""
    time: int | None = None
    """Time at which it was written, in seconds since 1970 (None: not known)."""
    others: tuple[str, ...] = ()
    """Further files that it describes as well: the other ones that a commit changed."""
