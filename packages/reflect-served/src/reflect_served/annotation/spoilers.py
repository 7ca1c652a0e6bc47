"""Detection of what an annotator must not write: that it was told something, and names the player cannot see.

An annotator is told the best action, or that the last one was a mistake, and writes as if it had found out by itself.
Some say so nevertheless ("as you told me"). A reflection player that learns such sentences refers to a note that it
never gets, so they are looked for, and the whole text is dropped.

A word such as `oracle` is no slip where the state itself has it: a question may be about a database of this name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

SOURCE = (
    r"(?:hints?|notes?|tips?|advice|instructions?|oracle|solver|annotators?|annotations?|suggestions?|recommendations?|"
    r"guidance|expert|answer key|ground truth|private information)"
)
"""Sources that knowledge may have come from."""
SEEN_BEFORE = r"(?:private|secret|hidden|given|provided|supplied|extra|additional)"
BEST = r"(?:best|optimal|correct|right|ideal)"
DEED = r"(?:next )?(?:action|move|step|choice|answer)"
GIVEN = r"(?:given|provided|told|suggested|supplied|specified|prescribed|stated|revealed|disclosed|recommended)"

PHRASES = (
    # I was told; we have been informed; being told; without having been told
    r"\b(?:was|were|am|are|is|been|being|'m) (?:\w+ly |just |already )?(?:told|informed|instructed|tipped off)\b",
    r"\b(?:was|were|am|been|being|'m) (?:\w+ly |just |already )?(?:given|provided with|supplied with|handed) "
    rf"(?:the |an? |this |some |that )?(?:{SEEN_BEFORE} )*(?:{BEST} |next )?(?:{SOURCE}|{DEED}|solution)\b",
    # you told me; the user said; they have recommended
    r"\b(?:you|they|he|she|someone|somebody|the user|the system|the prompt|the teacher|the instructor)"
    r"(?: have| had| has|'ve| just| already)* (?:told|said|informed|instructed|advised|suggested|recommended|mentioned|"
    r"gave|provided|indicated|hinted|pointed out)\b",
    # as told; as suggested (but: as suggested by its name)
    r"\bas (?:told|instructed|suggested|advised|recommended|hinted|directed|informed|prescribed)\b"
    r"(?! (?:by|in|from)\b)",
    rf"\bas (?:\w+ed|told|given) (?:by|in) (?:you|(?:the|your|my|an?) (?:{SEEN_BEFORE} )*{SOURCE})\b",
    rf"\bas per (?:you|the|your|my) (?:{SEEN_BEFORE} )*{SOURCE}\b",
    # your hint; the private note
    rf"\b(?:your|private|secret|hidden) {SOURCE}\b",
    # the given best action; the suggested move; the best action given to me; given that the best action is
    rf"\b{GIVEN} {BEST} {DEED}\b",
    rf"\b(?:given|provided|supplied|suggested|recommended|prescribed) (?:{DEED}|solution)\b",
    rf"\bgiven (?:that )?the {BEST} {DEED}\b",
    rf"\b{BEST} {DEED} (?:(?:is|was|has been|had been|that was|i was|you) )?(?:already )?{GIVEN}\b",
    # it was revealed that; I already know the answer
    r"\b(?:it|this|that) (?:was|is|has been) (?:given|revealed|disclosed|stated) (?:to me|that)\b",
    rf"\b(?:already|secretly) knows? (?:the|which|what) (?:\w+ )?(?:{BEST} )?(?:{DEED}|file)\b",
    # was flagged as suboptimal
    r"\b(?:flagged|marked|labell?ed|declared|reported|said) (?:as|to be|to have been) "
    r"(?:an? )?(?:suboptimal|wrong|incorrect|bad|mistaken?|best|optimal|correct)\b",
)
"""Always a slip."""

WORDS = (
    rf"\b(?:according to|per|based on|following|thanks to) (?:the|this|that|my|an?) (?:{SEEN_BEFORE} )*"
    rf"(?P<word>{SOURCE})\b",
    rf"\b(?:the|this|that|my) (?P<word>{SOURCE}) (?:\w+ly )?(?:says?|said|tells?|told|states?|stated|suggests?|"
    r"suggested|recommends?|recommended|indicates?|indicated|reveals?|revealed|confirms?|confirmed|points?|gives?|gave|mentions?|"
    r"mentioned|is|was|that)\b",
    r"\b(?P<word>oracle|solver|annotators?|spoilers?|ground truth|answer key|training data|training examples?)\b",
)
"""A slip unless the word stands in the state."""

REFUSALS = (
    r"^\W*(?:i'?m|i am|we are)? ?(?:very |so )?sorry\b",
    r"\b(?:i|we) (?:cannot|can't|can not|won't|will not|am unable to|'m unable to|am not able to|'m not able to) "
    r"(?:help|assist|comply|provide|do that|write|fulfil|fulfill|continue with|answer|respond|generate)\b",
    r"\bas an? (?:ai|artificial intelligence|(?:large )?language model|assistant)\b",
)


@cache
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    # At the first use: every run imports this file, and few annotate.
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def spoiler(text: str, state: str) -> str | None:
    """The words that give away that the writer was told something; None if there are none.

    >>> spoiler("As you told me, south is best.", "")
    'you told'
    >>> spoiler("The oracle table is in db.py.", "Task: Where is the oracle table?") is None
    True
    """
    plain = _straight(text)
    for pattern in _compiled(PHRASES):
        if found := pattern.search(plain):
            return found[0]
    known = _straight(state).lower()
    for pattern in _compiled(WORDS):
        # All of them, because the first may be a word of the state.
        for found in pattern.finditer(plain):
            if found["word"].lower() not in known:
                return found[0]
    return None


def refusal(text: str) -> str | None:
    """The words with which a model declines; None if it does not.

    >>> refusal("I cannot help with that.")
    'I cannot help'
    >>> refusal("I cannot go west, there is a wall.") is None
    True
    """
    plain = _straight(text)
    return next((found[0] for pattern in _compiled(REFUSALS) if (found := pattern.search(plain))), None)


def unseen(text: str, names: Iterable[str], state: str) -> str | None:
    """The first of the names that the text mentions and the state does not; None if there is none.

    Args:
        text: what the annotator wrote.
        names: what only the solver of the game knows (`unseen_names` of an environment).
        state: what the player sees.

    >>> unseen("It must be in limits.py.", ["limits.py"], "Files: rates.py=0")
    'limits.py'
    """
    for name in names:
        # Not inside a longer name: `old-limits.py` does not give `limits.py` away.
        whole = re.compile(rf"(?<![\w.-]){re.escape(name)}(?!\w)", re.IGNORECASE)
        if whole.search(text) and not whole.search(state):
            return name
    return None


def _straight(text: str) -> str:
    # Typographic apostrophes and line breaks would hide a phrase from the patterns.
    return " ".join(text.replace("’", "'").split())
