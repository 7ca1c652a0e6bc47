"""Verdicts on an annotator's answers: kept, repaired, or dropped with a reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reflect_served.annotation.prompts import ENDING, Told
from reflect_served.annotation.spoilers import refusal, spoiler, unseen

Reason = Literal[
    "refused",
    "cut_off",
    "empty",
    "spoiler",
    "unseen",
    "marks",
    "no_action",
    "inadmissible",
    "several",
    "contradicts",
    "too_long",
]
"""Reason to drop an answer."""

REASONS: dict[Reason, str] = {
    "refused": "the model or the server declined",
    "cut_off": "the answer reached `max_new_tokens` and said no sentence twice",
    "empty": "nothing is left, or nothing but the action",
    "spoiler": "it says that it was told something",
    "unseen": "it names what the state does not show",
    "marks": "it holds a mark of the players' prompts",
    "no_action": "`actions`: it names no action",
    "inadmissible": "`actions`: its action is none of the list",
    "several": "`actions`: it names several of the list",
    "contradicts": "it recommends another action than the best one",
    "too_long": "its first sentence alone is longer than `max_words`",
}

Repair = Literal["thoughts", "label", "quotes", "layout", "loop", "ending", "shortened"]
"""Repair of an answer that is kept."""

REPAIRS: dict[Repair, str] = {
    "thoughts": "a reasoning model's thoughts were removed",
    "label": "a heading such as `Reflection:` was removed",
    "quotes": "quotation marks around it were removed",
    "layout": "lines were joined, markdown and lists were removed",
    "loop": "the answer reached `max_new_tokens` and said a sentence twice: it ends before the second time",
    "ending": "the last sentence was brought into the form `Next: ACTION.`",
    "shortened": "sentences beyond `max_words` were left out, the last one kept",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome for an answer."""

    text: str | None
    """The reflection; None where the answer was dropped."""
    action: int | None = None
    """Index of the action that it ends with; None where it was dropped."""
    repairs: tuple[Repair, ...] = ()
    reason: Reason | None = None
    """Reason to drop it; None where it is kept."""
    words: str = ""
    """The words that gave the reason."""


def dropped(reason: Reason, words: str = "") -> Verdict:
    """Make the verdict on an answer of which nothing is used."""
    return Verdict(None, reason=reason, words=words[:200])


def verdict_on(answer: str, ending: str, told: Told, unseen_names: Sequence[str], max_words: int) -> Verdict:
    """Keep, repair or drop one answer.

    Args:
        answer: what the model wrote.
        ending: why it ended, as the server says.
        told: what the model knew.
        unseen_names: what only the solver knows, so that the state has to show it first.
        max_words: longest reflection.
    """
    # The ending with which a provider's filter declines.
    if ending == "content_filter":
        return dropped("refused", ending)
    text, repairs = _cleaned(answer)
    if (whole := _before_loop(text) if ending == "length" else text) is None:
        return dropped("cut_off", answer[-80:])
    if not text:
        return dropped("empty")
    # Looked for in all sentences: one that is left out below may have given it away.
    if fault := _fault(text, told.state, unseen_names):
        return fault
    if whole != text:
        text, repairs = whole, (*repairs, "loop")
    body, written = _parted(text)
    action = _action(body, written, told)
    if isinstance(action, Verdict):
        return action
    return _finished(text, body, action, told, repairs, max_words)


def _fault(text: str, state: str, unseen_names: Sequence[str]) -> Verdict | None:
    """Find what no repair makes good."""
    found: tuple[tuple[Reason, str | None], ...] = (
        ("refused", refusal(text)),
        ("spoiler", spoiler(text, state)),
        ("unseen", unseen(text, unseen_names, state)),
        ("marks", match[0] if (match := MARKS.search(text)) else None),
    )
    return next((dropped(reason, words) for reason, words in found if words), None)


THOUGHTS = re.compile(r"^.*</think(?:ing)?>|<think(?:ing)?>.*$", re.DOTALL | re.IGNORECASE)
"""Text up to the last closing mark; or without one, all from the opening mark on."""
LABEL = re.compile(
    r"^\W*(?:(?:sure\W{1,2})?here(?: is|'s) (?:the|a|my|your) [^\n:]{0,40}\b(?:reflection|monologue|text|paragraph|"
    r"thoughts?)\b[^\n:]{0,30}:|(?:the |player'?s? |my )*(?:reflection|analysis|analyze|thoughts?|answer|response)"
    r"\W{0,3}:)\W*?(?=[\w\"'“(]|$)",
    re.IGNORECASE,
)
"""A heading that announces the text."""
MARKS = re.compile(r"# ?(?:Analyze|Action)s?\b|\bActions: ?0\b")
"""Marks of the players' own prompts."""
QUOTES = {'"': '"', "“": "”", "'": "'", "«": "»", "„": "“", "`": "`"}
BULLET = re.compile(r"^\s*(?:[-*•#>]+|\d{1,2}[.)])\s+", re.MULTILINE)
FENCE = re.compile(r"```\w*")
EMPHASIS = re.compile(r"\*\*(.+?)\*\*|__(.+?)__|`([^`\n]+)`")


def _cleaned(answer: str) -> tuple[str, tuple[Repair, ...]]:
    """The answer without what models put around a text, and what that took."""
    repairs: list[Repair] = []

    def after(repair: Repair, text: str, fresh: str) -> str:
        if fresh.strip() != text.strip() and repair not in repairs:
            repairs.append(repair)
        return fresh.strip()

    text = answer.strip()
    text = after("thoughts", text, THOUGHTS.sub("", text))
    text = after("layout", text, FENCE.sub("", text))
    text = after("quotes", text, _unquoted(text))
    # Quotation marks may stand around the heading or behind it, so they are removed before and after.
    text = after("label", text, LABEL.sub("", text, count=1))
    text = after("quotes", text, _unquoted(text))
    text = after("layout", text, EMPHASIS.sub(r"\1\2\3", BULLET.sub("", text)))
    text = after("layout", text, " ".join("".join(c if c.isprintable() else " " for c in text).split()))
    return text, tuple(repairs)


def _unquoted(text: str) -> str:
    text = text.strip()
    around = len(text) > 1 and QUOTES.get(text[0]) == text[-1]
    # The same mark inside means two quotations, whose outer marks belong to different ones.
    return text[1:-1] if around and text[0] not in text[1:-1] else text


LAST = re.compile(r"^(?P<body>.*)\bnext(?: action| step| move)?(?: is)? ?[:=–—] ?(?P<rest>\S.*)$", re.IGNORECASE)
"""The last `Next: ...` of a text, and its relatives."""
LEADING = re.compile(r"(?:\b(?:so|and|my|the|best)\s*)+$", re.IGNORECASE)
# A full stop before a small letter ends an abbreviation or a name, and no sentence.
SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])")


def _before_loop(text: str) -> str | None:
    """The sentences before the first that stood there already; None where no sentence returns."""
    sentences = SENTENCES.split(text)
    for number, sentence in enumerate(sentences):
        if sentence in sentences[:number]:
            return " ".join(sentences[:number])
    return None


def _parted(text: str) -> tuple[str, str | None]:
    """Part a text at its last `Next:`: the words before, and those behind (None: there is no such word)."""
    # The pattern is greedy: a plan may say `Next:` several times, and the last one counts.
    match = LAST.match(text)
    if match is None:
        return text, None
    # In `So my best next action is: X` the words `So my best` would stay behind.
    return LEADING.sub("", match["body"].strip()).strip(), match["rest"].strip()


def _action(body: str, written: str | None, told: Told) -> int | Verdict:
    """Index of the action that an answer ends with, or why it is dropped."""
    best = told.best
    if written is None:
        if best is None:
            return dropped("no_action")
        # The text breaks off before its ending: it may still argue for another action in its last sentence.
        others = _mentioned(SENTENCES.split(body)[-1], told.actions)
        return best if not others or best in others else dropped("contradicts", body[-120:])
    exact = _exact(written, told.actions)
    named = _mentioned(written, told.actions) if exact is None else {exact}
    if best is not None:
        # Words that name no action ("Next: go on.") do not contradict; the ending is then put right.
        return best if named <= {best} else dropped("contradicts", written)
    if not named:
        return dropped("inadmissible", written)
    # Which of several is meant is a matter of grammar: "not left, right", "left is bad, so right".
    return named.pop() if len(named) == 1 else dropped("several", written)


NUMBER = re.compile(r" ?=\d+$")
"""Behind an action, in games that show the numbers of their actions."""


def _exact(written: str, actions: Sequence[str]) -> int | None:
    """The action that stands there, whatever its case, quotes, full stop and number."""
    plain = written.strip(" \"'`“”*<>[]")
    spellings = [plain, plain.removesuffix("."), NUMBER.sub("", plain.removesuffix(".")), plain.strip(".\"'`“” ")]
    # The exact case first: two actions may differ in nothing else.
    for fold in (str, str.lower):
        folded = [fold(action) for action in actions]
        for spelling in spellings:
            if folded.count(fold(spelling)) == 1:
                return folded.index(fold(spelling))
    return None


def _mentioned(text: str, actions: Sequence[str]) -> set[int]:
    """Actions that a text mentions; a space may stand in them (`pick up`)."""
    places: list[tuple[int, int, bool, int]] = []
    for index, action in enumerate(actions):
        letters = r"[ -]?".join(map(re.escape, action)) if action.isalpha() else re.escape(action)
        for match in re.finditer(rf"(?<![\w/.]){letters}(?![\w/]|\.\w)", text, re.IGNORECASE):
            places.append((match.start(), -match.end(), match[0] != action, index))
    found, end = set[int](), 0
    # At one place the longer name wins, and the exact case: `go left` contains `go` and `left`.
    for start, minus_end, _, index in sorted(places):
        if start >= end:
            found.add(index)
            end = -minus_end
    return found


def _finished(text: str, body: str, action: int, told: Told, repairs: tuple[Repair, ...], max_words: int) -> Verdict:
    """The reflection within its limit, with its last sentence in order."""
    advice = told.named(action)
    if not body.strip(" .:;,-"):
        return dropped("empty", text)
    last = f"{ENDING} {advice}."
    if not text.endswith(last):
        repairs = (*repairs, "ending")
    # Whole sentences are left out from the end, because half a one teaches nothing.
    sentences = SENTENCES.split(body)
    words_left, kept = max_words - len(last.split()), list[str]()
    for sentence in sentences:
        words_left -= len(sentence.split())
        if words_left < 0:
            break
        kept.append(sentence)
    if not kept:
        return dropped("too_long", f"{len(sentences[0].split())} words")
    if len(kept) < len(sentences):
        repairs = (*repairs, "shortened")
    whole = " ".join(kept)
    whole = whole if whole[-1] in ".!?" else whole.rstrip(",;:-– ") + "."
    return Verdict(f"{whole} {last}", action, repairs)
