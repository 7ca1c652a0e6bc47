"""Questions from Markdown and reStructuredText: `mdpara` from the first paragraph, `mdhead` from the first heading."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflect_locate.questions.candidate import CandidateQuestion
from reflect_locate.questions.sources._text import blocks, cleaned, first_sentence, title_of
from reflect_locate.repositories.snapshot import Snapshot

NAME = "documents"

SUFFIXES = (".md", ".markdown", ".rst")
LONGEST_HEAD = 20_000
"""Characters of a document that are looked at."""
NO_TEXT = re.compile(r"\A---\n.*?\n---[ \t]*(?=\n|\Z)|<!--.*?-->|^(`{3,}|~{3,}).*?(?:^\1|\Z)", re.DOTALL | re.MULTILINE)
"""Front matter, comments, code between fences."""
DIRECTIVE = re.compile(r"^\.\.(?: .*)?(?:\n[ \t]+\S.*|\n[ \t]*(?=\n|\Z))*", re.MULTILINE)
"""`.. name::` with the indented lines below it."""
HEADING = re.compile(r"#{1,6}[ \t]+([^\n]*?)[ \t#]*(?:\n|$)")
NO_PROSE = re.compile(r"[-*+•] |\d+[.)] |[>|<+=]|!\[|\[!\[|:\w|\.\. |[ \t]|\{[{%#]|\$ |\(\w+\)=|\[[^\]]+\]:|:::|!!!")
"""Beginnings of blocks that are no paragraph: a list, a quote, a table, a picture, a field, a directive, a template."""


def candidates(snapshot: Snapshot) -> Iterator[CandidateQuestion]:
    """The first heading and the first sentence of the first paragraph of each document, in the order of the files."""
    for path, text in snapshot.files.items():
        if not path.lower().endswith(SUFFIXES):
            continue
        heading, paragraph = _parts(text)
        for source, span in (("mdhead", heading), ("mdpara", paragraph)):
            if span is not None and (question := cleaned(text[slice(*span)])):
                yield CandidateQuestion(question, path, source, span)


def _parts(text: str) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Spans of the first heading, and of the first sentence of the first paragraph."""
    heading: tuple[int, int] | None = None
    # Blanked and not removed: spans are offsets into the file, where they are masked.
    seen = _blanked(text[:LONGEST_HEAD])
    for start, stop in blocks(seen):
        # Indentation decides: an indented block is code in Markdown and a quote in reStructuredText.
        begin = seen.rfind("\n", 0, start) + 1  # with the indentation of its first line
        block = seen[begin:stop]
        place, rest = _heading(block)
        if place is not None and heading is None:
            heading = begin + place[0], begin + place[1]
        rest += len(block[rest:]) - len(block[rest:].lstrip("\n"))
        prose = block[rest:]
        # A paragraph of badges or rules has no letter left once its markup is gone.
        if prose and not NO_PROSE.match(prose) and any(letter.isalpha() for letter in cleaned(prose[:500])):
            low, high = first_sentence(prose)
            return heading, (begin + rest + low, begin + rest + high)
    return heading, None


def _blanked(text: str) -> str:
    """The text with everything that is neither heading nor prose as blanks, so that offsets stay."""
    for pattern in (NO_TEXT, DIRECTIVE):
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def _heading(block: str) -> tuple[tuple[int, int] | None, int]:
    """Span of a heading at the beginning of a block (None: there is none), and the start of the rest."""
    if match := HEADING.match(block):
        return match.span(1), match.end()
    place = title_of(block)
    if place is None:
        return None, 0
    rule_end = block.find("\n", place[1] + 1)
    return place, len(block) if rule_end < 0 else rule_end + 1
