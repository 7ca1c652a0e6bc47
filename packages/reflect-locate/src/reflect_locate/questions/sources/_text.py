"""Paragraphs and sentences of a text, with the places where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_SENTENCE = 1000
"""Characters of a paragraph in which the end of its first sentence is looked for."""
# The filters drop shorter questions, and `Overview.` alone describes nothing.
SHORTEST_SENTENCE = 4
"""Words; a shorter first sentence takes the next one along."""
BLOCK = re.compile(r"\S[^\n]*(?:\n[ \t]*\S[^\n]*)*")
END = re.compile(r"""[.!?][)"'`*\]]*(?=\s|$)""")
ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|resp|incl|approx|no|fig|sec|dr|mr|st)|\b[A-Za-z])\.$", re.IGNORECASE
)
RULE = re.compile(r"[ \t]*([=\-~`'\"^*+#_.:<>])\1{2,}[ \t]*")
"""A line of one punctuation mark: under, and perhaps over, a heading."""

# The order matters: an image is a link with a `!`, and code marks are removed only after the roles that use them.
MARKUP = [
    (re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])"), " "),  # image
    (re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\([^)]*\)"), r"\1"),  # [text](address)
    (re.compile(r"\[([^\]]+)\]\[[^\]]*\]"), r"\1"),  # [text][reference]
    (re.compile(r"`([^`<]*?)\s*<[^`>]*>`_{0,2}"), r"\1"),  # `text <address>`_
    (re.compile(r":[a-zA-Z][\w:+-]*:`[~!]?([^`]*)`"), r"\1"),  # :role:`text`
    (re.compile(r"\|[^|\s][^|]*\|_{0,2}"), " "),  # |substitution|
    (re.compile(r"</?[a-zA-Z][^<>]*>"), " "),  # HTML
    (re.compile(r"`+_{0,2}(?!\w)|(?<!\w)`+"), ""),
    (re.compile(r"\*{2,3}|(?<!\w)\*(?=\w)|(?<=[\w.!?)])\*(?!\w)"), ""),  # emphasis
    (re.compile(r"\\\n|\\(?=[`*_|])"), " "),
]


def blocks(text: str) -> Iterator[tuple[int, int]]:
    r"""Spans of the runs of lines between blank lines.

    >>> [text[a:b] for text in ["one\ntwo\n\n  three\n"] for a, b in blocks(text)]
    ['one\ntwo', 'three']
    """
    return (match.span() for match in BLOCK.finditer(text))


def title_of(block: str) -> tuple[int, int] | None:
    r"""Span of the words of an underlined heading at the beginning of a block.

    >>> title_of("=====\nTitle\n=====\nmore"), title_of("no heading\nhere")
    ((6, 11), None)
    """
    start = 0
    lines = block.split("\n", 3)[:3]
    if RULE.fullmatch(lines[0]):
        start = len(lines.pop(0)) + 1
    if len(lines) > 1 and lines[0].strip() and RULE.fullmatch(lines[1]) and not RULE.fullmatch(lines[0]):
        return start, start + len(lines[0].rstrip())
    return None


def first_sentence(text: str) -> tuple[int, int]:
    """Span of the first sentence of a paragraph; a very short one takes the next along.

    >>> first_sentence("See e.g. the manual of it. More.")
    (0, 26)
    """
    part = text[:LONGEST_SENTENCE]
    for match in END.finditer(part):
        sentence = part[: match.end()]
        following = part[match.end() :].lstrip()
        # A lower-case letter after the full stop means that the sentence goes on, as after `e.g.`.
        if ABBREVIATION.search(sentence) or (following and following[0].islower()):
            continue
        if len(sentence.split()) >= SHORTEST_SENTENCE:
            return 0, match.end()
    return 0, len(part.rstrip())


def cleaned(raw: str) -> str:
    """A sentence without markup, on one line, without the full stop.

    >>> cleaned("The :class:`~app.Flask` *object*, see [docs](http://x).")
    'The app.Flask object, see docs'
    """
    for pattern, plain in MARKUP:
        raw = pattern.sub(plain, raw)
    text = " ".join(raw.split())
    return text.rstrip(" .:;,") if not text.endswith("...") else text.rstrip(" .")
