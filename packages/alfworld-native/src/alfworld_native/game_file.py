"""Game files as TextWorld reads them (`game.tw-pddl`): what all games share, and one game's problem and sentence.

The shared texts, a PDDL domain and a grammar, come from the installed alfworld (extra `textworld`), whose own are those
of wording 2.1.2. Undoing that version's few changes gives those of wording 2.1.1, which the games of json_2.1.1 carry;
a checksum proves it. A game file is read the other way round: its domain and grammar must be one of these two.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from alfworld_native.errors import GameError, TextWorldMissingError
from alfworld_native.record import Wording

INSTALL: Final = (
    "Install it with `pip install 'alfworld-native[textworld]'` (Linux or macOS; it compiles, for which g++, make and "
    "cmake must be there), or play with the native engine."
)

CHECKSUMS: Final[dict[Wording, tuple[str, str]]] = {
    "2.1.1": (
        "34172c333dff7e62eb90e85367fa5519b5f31b3849e56123d96dbc0deda50e27",
        "d955e6db384c68ac5797e881b795fd36d788e87a03547f9a87e48fbd7c5b361b",
    ),
    "2.1.2": (
        "f1473041ed01da514de1f87adfd7ef0804862361f83ccf63c75e43633b0eb280",
        "c5b22f0f73309a7fd7c8e5b71de42ad4803b60766ab4a51cc2feb34162be036b",
    ),
}
"""SHA-256 of domain and grammar."""

OLDER_DOMAIN: Final = ((";(receptacleType ?r SinkType)", "(receptacleType ?r SinkType)"),)
"""2.1.2 to 2.1.1: a sink cleans, not only its basin."""

OLDER_GRAMMAR: Final = (
    ("You arrive at {r.name}.", "You arrive at {lend.name}."),
    ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
    ('"move {o} to {r}"', '"put {o} in/on {r}"'),
)

PLACEHOLDER: Final = "UNKNOWN GOAL."

GOAL: Final = re.compile(r'Your task is to: ([^"\n]+)"')
"""Pattern of the goal in a game's grammar."""

RESERVED: Final = frozenset('"\\{}[]#|;<>\n')
"""Characters with a meaning in the grammar, which a sentence in it cannot contain."""


@dataclass(frozen=True, slots=True)
class GameText:
    """Contents of one game file that others do not have."""

    problem: str
    """The PDDL problem."""
    goal: str
    """The sentence that the player reads."""
    wording: Wording


@lru_cache
def logic(wording: Wording) -> tuple[str, str]:
    """PDDL domain and grammar that all games of a wording share.

    Raises:
        TextWorldMissingError: alfworld is not installed, or another version than the one known here.
    """
    # Located without importing it: some of its modules create folders when they are imported.
    found = find_spec("alfworld")
    if found is None or found.origin is None:
        raise TextWorldMissingError(f"TextWorld's games need alfworld, which is not installed. {INSTALL}")
    folder = Path(found.origin).parent / "data"
    try:
        domain, grammar = ((folder / name).read_text() for name in ("alfred.pddl", "alfred.twl2"))
    except OSError as error:
        raise TextWorldMissingError(f"the installed alfworld has no game texts ({error}). {INSTALL}") from None
    # The installed texts are those of 2.1.2; the older ones are made from them.
    if wording == "2.1.1":
        domain = _without(_replaced(domain, OLDER_DOMAIN), "(:action help", "\n)\n")
        grammar = _without(_replaced(grammar, OLDER_GRAMMAR), "action help {", "\n}\n")
    # Any other version would silently say something else than the native engine.
    if (_sha256(domain), _sha256(grammar)) != CHECKSUMS[wording]:
        raise TextWorldMissingError(f"the installed alfworld has other game texts than version 0.4.2. {INSTALL}")
    return domain, grammar


def game_file(problem: str, goal: str, wording: Wording) -> str:
    """Text of a game file; for the games of json_2.1.1 the original one, byte for byte.

    Args:
        problem: the PDDL problem.
        goal: the sentence that the player reads.
        wording: decides domain and grammar.

    Raises:
        TextWorldMissingError: see `logic`.
        GameError: the sentence cannot stand in a grammar.
    """
    # A reserved character would end the rule in which the sentence stands.
    if not goal or RESERVED & set(goal):
        unfit = "".join(sorted(RESERVED & set(goal)))
        raise GameError(f"TextWorld cannot say the goal {goal!r}: it is empty or contains one of {unfit!r}.")
    domain, grammar = logic(wording)
    return json.dumps(
        {
            "pddl_domain": domain,
            "grammar": grammar.replace(PLACEHOLDER, goal),
            "pddl_problem": problem,
            # TextWorld does not read it; ALFWorld's loader skips games without it.
            "solvable": True,
        }
    )


def parse_game_file(text: str | bytes, where: str) -> GameText:
    """Problem, goal and wording of a game file. alfworld need not be installed.

    Args:
        text: contents of the file.
        where: name of the file, for messages.

    Raises:
        GameError: not a game file, or one whose domain or grammar is of no known version.
    """
    try:
        game = json.loads(text)
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8
        raise GameError(f"{where} is not JSON ({error}). Copy the file again.") from None
    fields = ("pddl_domain", "grammar", "pddl_problem")
    if not isinstance(game, dict) or not all(isinstance(game.get(field), str) for field in fields):
        raise GameError(f"{where} is no game: it must have the texts {', '.join(fields)}. Copy the file again.")
    domain, grammar, problem = (game[field] for field in fields)
    goal = GOAL.search(grammar)
    if goal is None:
        raise GameError(f"{where}: its grammar does not say `Your task is to: …`.")
    return GameText(problem, goal[1], _wording(domain, grammar.replace(goal[1], PLACEHOLDER), where))


def _wording(domain: str, grammar: str, where: str) -> Wording:
    """Version whose texts these are."""
    found = (_sha256(domain), _sha256(grammar))
    for wording, known in CHECKSUMS.items():
        if found == known:
            return wording
    # Another grammar says other sentences, which the native engine does not know.
    raise GameError(
        f"{where} has the game texts of no version known here ({', '.join(CHECKSUMS)}). Play it in TextWorld, or make "
        "its file again with `alfworld-generate` of alfworld 0.4.2."
    )


def _replaced(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    # Named from the newer text to the older.
    for new, old in changes:
        text = text.replace(new, old)
    return text


def _without(text: str, start: str, end: str) -> str:
    """The text less one block, from what starts it to what ends it, and the line end before it."""
    before, _, rest = text.partition(f"\n{start}")
    return before + rest.partition(end)[2]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
