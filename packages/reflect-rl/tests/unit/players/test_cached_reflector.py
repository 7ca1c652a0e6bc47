"""Reflection players that remember what they wrote: the exchange between processes."""

from __future__ import annotations

from reflect_rl.players.reflectors import CachedReflector
from reflect_rl.types import Observation, View


class Counting(CachedReflector):
    """Writes its own name, and counts how often it writes."""

    def __init__(self, name: str, cache_size: int = 100) -> None:
        super().__init__(cache_size)
        self.name, self.written = name, 0

    def _write(self, prompts):
        self.written += len(prompts)
        return [self.name for _ in prompts]


def views(*places: int) -> list[View]:
    return [View(Observation(f"at {place}", ()), ()) for place in places]


def exchanged(*players: Counting) -> None:
    """Each process gathers the texts of all, at the same time."""
    given: list[list[tuple[str, str]]] = []
    for player in players:
        # What is given is known before anything is taken.
        player.exchange(lambda own: given.append(list(own)) or [])
    everything = [pair for own in given for pair in own]
    for player in players:
        player.exchange(lambda _: everything)


def test_what_another_process_wrote_is_not_written_again():
    first, second = Counting("first"), Counting("second")
    first.reflect(views(0, 1))
    second.reflect(views(1, 2))
    exchanged(first, second)
    # All processes say the same about a state that two of them had met.
    assert first.reflect(views(0, 1, 2)) == second.reflect(views(0, 1, 2)) == ["first", "second", "second"]
    assert (first.written, second.written) == (2, 2)


def test_only_what_is_new_is_given():
    player, given = Counting("one"), []

    def gather(own):
        given.append(len(own))
        return own

    player.reflect(views(0, 1))
    player.exchange(gather)
    player.reflect(views(1, 2))
    player.exchange(gather)
    player.exchange(gather)
    assert given == [2, 1, 0]


def test_the_memory_keeps_its_size():
    player = Counting("small", cache_size=2)
    player.exchange(lambda own: [(f"at {place}", "text") for place in range(5)])
    assert len(player._cache) == 2
