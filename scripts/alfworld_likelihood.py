"""Count in ALFWorld's training games where things are kept: the table of `alfworld_native/likelihood.py`.

    python scripts/alfworld_likelihood.py $ALFWORLD_DATA

Only the split `train` is read, and of each game only the things that its task asks for, and the lamps.
"""

from __future__ import annotations

import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from alfworld_native.engine import Game
from alfworld_native.sources import load_games

SMALLEST_SHARE = 0.005
Pair = tuple[str, str]


def count(folder: Path) -> tuple[Counter[Pair], Counter[Pair]]:
    """Counts for each (kind of thing, kind of receptacle): receptacles that hold such a thing, and all receptacles."""
    holding, every = Counter[Pair](), Counter[Pair]()
    for record in load_games(folder, "train"):
        game = Game(record.problem, record.goal)
        state, goal = game.start(), game.goal
        is_look = goal.task_type == "look_at_obj_in_light"
        for thing in {goal.object_kind, goal.target_kind} if is_look else {goal.object_kind}:
            for name, receptacle in game.receptacles.items():
                kinds = {game.things[each].kind for each in state.contents(name)}
                holding[thing, receptacle.kind] += thing in kinds
                every[thing, receptacle.kind] += 1
    return holding, every


def lines(holding: Counter[Pair], every: Counter[Pair]) -> Iterator[str]:
    """A line for each kind of thing, and one for all of them."""
    for thing in sorted({thing for thing, _ in every}):
        shares = {place: holding[thing, place] / every[thing, place] for kind, place in every if kind == thing}
        yield line(thing, {place: share for place, share in shares.items() if share >= SMALLEST_SHARE})
    places = {place for _, place in every}
    yield line("*", {place: total(holding, place) / total(every, place) for place in places})


def total(counts: Counter[Pair], place: str) -> int:
    """Sum over all kinds of things."""
    return sum(number for (_, each), number in counts.items() if each == place)


def line(thing: str, shares: dict[str, float]) -> str:
    """Shares in percent, the largest first."""
    percent = sorted(((round(100 * share), place) for place, share in shares.items()), key=lambda p: (-p[0], p[1]))
    return " ".join([thing, *(f"{place} {share}" for share, place in percent)])


if __name__ == "__main__":
    for text in lines(*count(Path(sys.argv[1]))):
        print(textwrap.indent("\n".join(textwrap.wrap(text, 114, subsequent_indent="    ")), "    "))
