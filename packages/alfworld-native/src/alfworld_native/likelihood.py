"""Likelihood that a receptacle holds a thing, by their kinds.

Counted in the training games of ALFWorld alone, from the things that tasks ask for and from lamps; made by
`scripts/alfworld_likelihood.py`. Kinds that are not in the table get a general answer, so other rooms need no other
code.
"""

from __future__ import annotations

from functools import cache
from typing import Final

OPENABLE: Final = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""Kinds of receptacles that are mostly closed at first."""

COUNTED: Final = """
    alarmclock desk 52 sidetable 51 dresser 43 diningtable 25 shelf 14
    apple sidetable 53 diningtable 46 garbagecan 30 countertop 26 fridge 22 microwave 21 sinkbasin 14
    book bed 61 desk 48 coffeetable 41 dresser 38 diningtable 36 armchair 19 cabinet 16 sidetable 12 sofa 9 drawer 3
        shelf 2
    bowl desk 61 tvstand 50 diningtable 46 dresser 40 countertop 24 shelf 19 sidetable 19 fridge 15 microwave 8
        cabinet 6 sinkbasin 4
    box sofa 38 coffeetable 36 diningtable 26 tvstand 21 dresser 11 sidetable 7 cabinet 6 armchair 2
    bread diningtable 59 countertop 41 fridge 10 garbagecan 9 microwave 2
    butterknife countertop 47 diningtable 38 sidetable 17 sinkbasin 3 drawer 2
    candle countertop 68 toilet 55 sidetable 33 dresser 25 shelf 24 cabinet 7 drawer 7
    cd diningtable 81 desk 64 dresser 61 sidetable 29 armchair 27 cabinet 20 garbagecan 13 drawer 6 safe 6 shelf 3
    cellphone coffeetable 78 desk 44 bed 43 diningtable 41 dresser 41 armchair 29 sofa 27 sidetable 22 safe 11 shelf 8
        cabinet 2 drawer 2
    cloth bathtubbasin 62 countertop 59 dresser 46 cart 43 cabinet 25 shelf 21 toilet 11 drawer 5 sinkbasin 4
    creditcard dresser 55 tvstand 50 desk 44 diningtable 40 sidetable 39 sofa 38 coffeetable 35 countertop 29 armchair
        13 drawer 6 shelf 6
    cup diningtable 46 fridge 37 countertop 23 sinkbasin 21 sidetable 20 microwave 12 shelf 6 cabinet 4
    desklamp dresser 44 sidetable 42 desk 38 coffeetable 11 shelf 4
    dishsponge diningtable 100 bathtubbasin 50 countertop 48 toilet 29 cart 27 garbagecan 23 shelf 22 sinkbasin 7
        drawer 6 cabinet 2
    egg diningtable 48 sidetable 36 sinkbasin 27 countertop 26 fridge 25 garbagecan 25 microwave 11
    fork diningtable 76 sidetable 40 countertop 38 drawer 5
    glassbottle diningtable 36 countertop 27 sinkbasin 25 garbagecan 17 shelf 11 fridge 8 cabinet 5
    handtowel handtowelholder 84 countertop 7
    kettle diningtable 36 stoveburner 21 countertop 20 cabinet 3 sinkbasin 2
    keychain coffeetable 54 diningtable 45 dresser 35 sidetable 34 tvstand 32 desk 26 armchair 21 safe 21 ottoman 20
        shelf 9 sofa 9 drawer 3 cabinet 2
    knife diningtable 43 countertop 41 sidetable 33 drawer 3
    ladle diningtable 72 countertop 40 cabinet 4 drawer 3
    laptop bed 71 countertop 50 sofa 48 diningtable 42 coffeetable 32 desk 29 dresser 14 sidetable 6 armchair 2
    lettuce diningtable 60 sidetable 38 countertop 28 fridge 15 garbagecan 7 sinkbasin 6
    mug desk 55 coffeemachine 50 diningtable 35 dresser 30 countertop 29 sidetable 29 fridge 21 microwave 12 sinkbasin
        12 shelf 11 cabinet 3
    newspaper diningtable 58 dresser 48 coffeetable 35 sofa 28 sidetable 24 armchair 22 shelf 17 tvstand 15 ottoman 11
        drawer 1
    pan stoveburner 29 countertop 21 fridge 7 diningtable 4 cabinet 1
    pen diningtable 92 coffeetable 67 countertop 67 desk 61 dresser 46 sidetable 33 shelf 12 garbagecan 8 drawer 2
    pencil diningtable 100 dresser 53 desk 49 sidetable 48 shelf 11 garbagecan 9 drawer 4
    peppershaker countertop 36 diningtable 36 shelf 7 cabinet 4 drawer 3
    pillow bed 100 sofa 73 armchair 17
    plate diningtable 51 tvstand 33 countertop 26 dresser 25 fridge 21 sidetable 16 coffeetable 9 sinkbasin 9 cabinet
        5 shelf 4 microwave 1
    pot stoveburner 32 diningtable 17 countertop 7 fridge 4 sinkbasin 3 shelf 1
    potato diningtable 49 sidetable 40 countertop 35 fridge 29 sinkbasin 18 microwave 17 garbagecan 16
    remotecontrol diningtable 51 coffeetable 47 dresser 38 tvstand 37 sofa 35 countertop 33 sidetable 19 armchair 10
        drawer 2 shelf 2
    saltshaker countertop 47 sidetable 38 diningtable 33 cabinet 8 shelf 6 drawer 1
    soapbar sidetable 88 countertop 50 toilet 46 bathtubbasin 44 cart 25 garbagecan 24 shelf 13 cabinet 12 drawer 6
        sinkbasin 6
    soapbottle diningtable 100 dresser 60 countertop 54 sidetable 40 toilet 39 shelf 37 garbagecan 18 cabinet 15
    spatula diningtable 71 countertop 42 sinkbasin 6 drawer 1
    spoon diningtable 48 countertop 42 sidetable 27 sinkbasin 6 drawer 4
    spraybottle sidetable 86 countertop 57 toilet 47 cart 33 garbagecan 20 shelf 19 cabinet 12 dresser 10
    statue desk 100 diningtable 59 sidetable 34 coffeetable 27 shelf 24 dresser 23 tvstand 11
    tissuebox countertop 100 diningtable 55 desk 50 coffeetable 33 tvstand 25 dresser 18 toilet 13 cabinet 12 shelf 12
        sidetable 12 drawer 6 garbagecan 6
    toiletpaper dresser 69 countertop 59 toilet 49 sidetable 38 shelf 28 garbagecan 26 toiletpaperhanger 21 cart 20
        cabinet 7 drawer 4
    tomato diningtable 52 sidetable 38 fridge 35 countertop 29 garbagecan 24 sinkbasin 10
    vase dresser 70 diningtable 42 tvstand 36 coffeetable 33 desk 29 shelf 28 sidetable 16 cabinet 12
    watch tvstand 62 diningtable 44 sidetable 33 dresser 28 coffeetable 26 desk 20 drawer 6 shelf 6
    wateringcan coffeetable 100
    winebottle diningtable 50 countertop 31 garbagecan 28 shelf 8 fridge 3 cabinet 2
    * desk 44 diningtable 44 dresser 40 toilet 39 coffeetable 35 countertop 32 sidetable 28 tvstand 27 cart 22 sofa 22
        fridge 18 bathtubbasin 17 bed 16 armchair 9 shelf 8 garbagecan 7 handtowelholder 7 microwave 7 sinkbasin 7
        coffeemachine 6 ottoman 4 stoveburner 4 toiletpaperhanger 3 cabinet 2 safe 2 drawer 1 laundryhamper 0 toaster
        0 towelholder 0
"""
"""Kind of thing, then kind of receptacle and the share of them that hold such a thing, in percent; below 0.5 left out.
`*`: all kinds of things together. A line that is indented further goes on."""

SELDOM: Final = 0.05
"""Factor on the general share, for a receptacle in which a known kind of thing was hardly ever met."""
NOWHERE: Final = 0.001
"""Likelihood where nothing is known; not zero, so that such a receptacle is still searched in the end."""


@cache
def _table() -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for line in COUNTED.replace("\n        ", " ").split("\n"):
        kind, *entries = line.split() or [""]
        table[kind] = {place: int(share) / 100 for place, share in zip(entries[::2], entries[1::2], strict=True)}
    return table


@cache
def likelihood(thing: str, receptacle: str) -> float:
    """Probability that a receptacle of one kind holds at least one thing of another.

    >>> likelihood("pillow", "bed") > likelihood("pillow", "armchair") > likelihood("pillow", "toaster")
    True
    """
    table = _table()
    general = table["*"].get(receptacle, 0.0)
    known = table.get(thing)
    # Never zero, so that a player who has searched every likely place goes on with the others.
    if known is None:
        return max(general, NOWHERE)
    return known.get(receptacle, SELDOM * general + NOWHERE)
