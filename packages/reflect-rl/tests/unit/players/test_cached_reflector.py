"""Reflection players that remember what they wrote: the exchange between processes."""

from __future__ import annotations

from reflect_rl.players.reflectors import CachedReflector
from reflect_rl.rollout import NoReflector
from reflect_rl.training.online import Remembers
from reflect_rl.types import Observation, View
from toy import rlft, trainer


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


def test_the_share_of_remembered_texts_is_logged_of_players_that_count_it(tmp_path):
    counting, plain = Counting("one"), NoReflector()
    assert isinstance(counting, Remembers)
    assert not isinstance(plain, Remembers)
    shares = {}
    for player in (counting, plain):
        training = trainer(tmp_path / player.name, rlft(total_turns=1), player)
        shares[player.name] = training._one_update()["time/reflections_from_cache"]
    assert shares == {"one": counting.hits / counting.requests, "none": 0.0}
    assert shares["one"] > 0
