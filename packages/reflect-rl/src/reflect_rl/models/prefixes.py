"""Rows of a forward pass in which sequences that begin alike are read once, as a tree.

The texts of a state's actions follow one prompt. The states of an episode in raw text begin with what the turns before
have shown. Sorted, sequences that begin alike are neighbours, so each one is compared with the one before it only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ROW_TOKENS = 1024
"""Most tokens of a row that prompts share: attention costs their square, also where the mask hides the most of it."""

Ids = tuple[int, ...]


@dataclass
class Row:
    """Sequences that are read together, each beginning that some of them share once."""

    ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    """Place of the token before each of them; -1 before the first."""
    places: dict[int, list[int]] = field(default_factory=dict)
    """For the number of each sequence, the places in this row of the positions that are read."""

    @property
    def branches(self) -> bool:
        """True where a token is followed by several, so that the row is no plain sequence."""
        return any(parent != place - 1 for place, parent in enumerate(self.parents))

    def named(self, numbers: Sequence[int]) -> Row:
        """The row with these numbers for its sequences."""
        return Row(self.ids, self.parents, {numbers[i]: places for i, places in self.places.items()})

    def behind(self, tokens: int) -> Row:
        """The row without its first tokens, which all of its sequences begin with and nobody reads."""
        places = {i: [place - tokens for place in own] for i, own in self.places.items()}
        return Row(self.ids[tokens:], [max(parent - tokens, -1) for parent in self.parents[tokens:]], places)

    def path(self, place: int) -> list[int]:
        """Places of a token and all those before it on its path, the first one first."""
        found = []
        while place >= 0:
            found.append(place)
            place = self.parents[place]
        return found[::-1]


def common(one: Ids, other: Ids) -> int:
    """Number of tokens with which both begin.

    >>> common((1, 2, 3), (1, 2, 4, 5)), common((1,), (1,)), common((1,), (2,))
    (2, 1, 0)
    """
    low, high = 0, min(len(one), len(other))
    # Slices are compared in C, which makes halving much faster than a loop over tokens.
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def merge(
    sequences: Sequence[Ids],
    reads: Sequence[Sequence[int]],
    least: Sequence[int],
    whole: Sequence[int],
    most: int,
) -> list[Row]:
    """Sequences in rows; one that is longer than their limits has a row of its own.

    Args:
        sequences: N sequences of token ids.
        reads: of each, the positions that are read.
        least: of each, the tokens that it must share with the one before it to join its row.
        whole: of each, the tokens of its prompt. Texts that follow one prompt share a row of at most `most` tokens, or
            of twice the prompt where that is more: in a new row the prompt would be read again.
        most: see above; rows of several prompts have at most `ROW_TOKENS` tokens, too.
    """
    rows: list[Row] = []
    trail: list[int] = []
    before: Ids = ()
    for number in sorted(range(len(sequences)), key=sequences.__getitem__):
        sequence = sequences[number]
        shared = common(before, sequence)
        limit = max(most, 2 * whole[number]) if shared >= whole[number] else min(most, ROW_TOKENS)
        if not rows or shared < least[number] or len(rows[-1].ids) + len(sequence) - shared > limit:
            rows.append(Row())
            shared = 0
        row = rows[-1]
        del trail[shared:]
        for token in sequence[shared:]:
            row.parents.append(trail[-1] if trail else -1)
            trail.append(len(row.ids))
            row.ids.append(token)
        row.places[number] = [trail[position] for position in reads[number]]
        before = sequence
    return rows


def pack(rows: Sequence[Row]) -> list[Row]:
    """The rows, with short ones side by side in one as long as the longest, so that little of a pass is padding.

    Side by side they see nothing of each other: each begins with a token that follows none.
    """
    packed: list[Row] = []
    for group in _first_fit([len(row.ids) for row in rows]):
        into = Row()
        packed.append(into)
        for row in (rows[k] for k in group):
            start = len(into.ids)
            into.ids += row.ids
            into.parents += [parent if parent < 0 else parent + start for parent in row.parents]
            into.places |= {number: [place + start for place in places] for number, places in row.places.items()}
    return packed


def _first_fit(lengths: Sequence[int]) -> list[list[int]]:
    """Indices in groups that are together no longer than the longest: the longest first, each where there is room."""
    groups: list[list[int]] = []
    room: list[int] = []
    order = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    for k in order:
        into = next((g for g, free in enumerate(room) if free >= lengths[k]), len(groups))
        if into == len(groups):
            groups.append([])
            room.append(lengths[order[0]])
        groups[into].append(k)
        room[into] -= lengths[k]
    return groups


def prefix_batches(
    prompts: Sequence[Ids], lengths: Sequence[int], least: Sequence[int], limit: int
) -> list[tuple[list[int], int]]:
    """Rows in groups of at most `limit` padded tokens, counting a shared beginning once (at least one row a group).

    Each group comes with its number of tokens, without padding.

    Args:
        prompts: beginnings of the rows.
        lengths: tokens of each row, those of its prompt included.
        least: of each, the tokens that it must share with the one before it for these to be read once.
        limit: see above.

    >>> prefix_batches([(1, 2, 3), (9, 9), (1, 2, 4)], [5, 4, 5], [2, 2, 2], 8)
    [([0, 2], 8), ([1], 4)]
    """
    groups: list[tuple[list[int], int]] = []
    group: list[int] = []
    before: Ids = ()
    rows: list[int] = []
    branches = False
    for number in sorted(range(len(prompts)), key=prompts.__getitem__):
        shared = common(before, prompts[number])
        # As in `merge`: a row that is full is followed by one that begins with the whole prompt again.
        joins = bool(rows) and shared >= least[number] and rows[-1] + len(prompts[number]) - shared <= ROW_TOKENS
        longer = [*rows[:-1], rows[-1] + lengths[number] - shared] if joins else [*rows, lengths[number]]
        # As in a pass: rows stand side by side only where one of them branches.
        forks = branches or (joins and shared < len(before))
        if not groups or (len(_first_fit(longer)) if forks else len(longer)) * max(longer) > limit:
            group, longer, forks = [], [lengths[number]], False
            groups.append((group, 0))
        group.append(number)
        groups[-1] = group, sum(longer)
        rows, branches, before = longer, forks, prompts[number]
    return groups
