"""Find the file that answers a question: several games of the trained player on the user's tree, then a ranking.

Candidates are the files that an episode read and, where the index may be used, its best ones. The ranking is that of
`ranking.py`, with one more piece of evidence: the probability with which the player names a file. How much each counts
comes with the player.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reflect_locate.envs import autoexplore
from reflect_locate.envs.open_question import OpenQuestion, question_task
from reflect_locate.evidence import PLAYER_SURE, Weights
from reflect_locate.ranking import (
    Answer,
    FoundFile,
    answer_of,
    asks_for_tests,
    cautious,
    check_question,
    check_tree,
    ranked,
)
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import IndexMatches, content_index, index_matches
from reflect_locate.repositories.words import question_words, words
from reflect_locate.trained_player import Player
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import ReflectRLError, UserError
from reflect_rl.rollout import Request, play
from reflect_rl.types import Decoding, Episode, seed_for
from reflect_rl.watchdog import Limits

UNOPENED = "The index found it; the player did not open it."
NO_LIMITS = Limits(environment_seconds=0, player_seconds=0)
"""The game is this package's own, and a time limit is kept between turns."""


class StoppedError(ReflectRLError):
    """The search was stopped before it had an answer."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Amount of search for an answer."""

    episodes: int = 8
    """Sampled episodes, besides a greedy one."""
    seconds: float = 60.0
    """Time limit; episodes that are not finished by then do not count."""
    search: bool | None = None
    """True if the index may be used (None: as the player was trained)."""
    seed: int = 0
    """Seed of the sampled episodes."""


EFFORT = SearchOptions()


def locate(
    player: Player,
    tree: Tree,
    question: str,
    effort: SearchOptions = EFFORT,
    threshold: float | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Answer:
    """Ask the player which file of a tree answers a question.

    Args:
        player: who plays.
        tree: the files.
        question: in words; see `check_question`.
        effort: how long to search.
        threshold: confidence below which the answer is a guess (None: the player's).
        is_stopped: asked at every turn; the search ends when it says so.

    Raises:
        UserError: the tree is empty, or the question has no word that a file could be compared with.
        StoppedError: it was stopped, or the time was over before any episode was.
    """
    question = check_question(question)
    check_tree(tree)
    # Without a content word all states of the game are alike.
    if not words(question):
        raise UserError(
            f"the question {question!r} has only words that stand in every file. Name what the file is about, "
            'for example: "Where are rate limits parsed?"'
        )
    # The clock starts before the index is made, because the time limit is the user's.
    started = time.perf_counter()
    game = _game(player, effort.search)
    OpenQuestion(game).explore(tree, question)  # the index is made once, before the clock of the episodes
    watched = _Watched(started, effort.seconds, is_stopped)
    # The greedy episode comes first, so that the likeliest walk counts however short the time is.
    decodings: dict[Decoding, int] = {"greedy": 1, "sampled": effort.episodes}
    try:
        for decoding, count in decodings.items():
            _play(player, game, tree, question, decoding, count, effort.seed, watched)
    except StoppedError:
        # Out of time is no failure once an episode has ended; a caller who cancels wants no answer.
        if is_stopped() or not watched.episodes:
            raise
    # Where the player was told not to search, the ranking must not use the index either.
    indices = index_matches(tree, question) if game.search else None
    asked = question_words(question)
    index = content_index(tree) if game.search else None
    # Without an index all words are alike.
    rarity = {word: index.rarity(word) if index else 1.0 for word in asked}
    answer = answer_of(
        _ranked(tree, question, watched.episodes, indices, player.settings.weights),
        rarity,
        player.settings.threshold if threshold is None else threshold,
        len(watched.episodes),
        time.perf_counter() - started,
        sure=PLAYER_SURE,
    )
    return replace(cautious(answer, tree), wants_tests=asks_for_tests(question))


def _game(player: Player, search: bool | None) -> autoexplore.Config:
    environment = player.settings.environment
    if search is not None:
        environment = environment.model_copy(update={"search": search})
    return environment


class _Watched:
    """The episodes that are finished, and whether to go on."""

    def __init__(self, started: float, seconds: float, is_stopped: Callable[[], bool]) -> None:
        self.episodes: list[Episode] = []
        self._end, self._seconds, self._is_stopped = started + seconds, seconds, is_stopped

    def look(self, _: object) -> None:
        """Called after each turn.

        Raises:
            StoppedError: stop here.
        """
        if self._is_stopped():
            raise StoppedError("the search was stopped.")
        if time.perf_counter() > self._end:
            raise StoppedError(
                f"no episode ended within {self._seconds:g} s. Allow more seconds, or ask about a smaller folder."
            )


def _play(
    player: Player,
    game: autoexplore.Config,
    tree: Tree,
    question: str,
    decoding: Decoding,
    count: int,
    seed: int,
    watched: _Watched,
) -> None:
    if not count:
        return
    task = question_task(tree, question)
    play(
        EnvSpec(OpenQuestion, game),
        [Request(task, seed_for(seed, "locate", decoding, number)) for number in range(count)],
        player.reflector,
        player.policy(decoding),
        num_envs=count,
        limits=NO_LIMITS,
        on_episode=watched.episodes.append,
        on_turn=watched.look,
    )


def _ranked(
    tree: Tree, question: str, episodes: Sequence[Episode], indices: IndexMatches | None, weights: Weights
) -> list[FoundFile]:
    """Candidates, best first, each with the walk to it."""
    named: dict[str, float] = {}
    surest: dict[str, tuple[float, Episode]] = {}
    for episode in episodes:
        for path, probability in _naming(episode).items():
            # An episode that did not read the file counts as one that would not name it.
            named[path] = named.get(path, 0.0) + probability / len(episodes)
            # -1 lets an episode that gave a file no chance still explain how it was reached.
            if probability > surest.get(path, (-1.0, episode))[0]:
                surest[path] = probability, episode
    found = []
    for entry in ranked(tree, question, named, indices, weights):
        walk, reasons = (
            _told(surest[entry.path][1], entry.path) if entry.path in surest else ((), (UNOPENED,) if indices else ())
        )
        found.append(replace(entry, walk=walk, reasons=reasons))
    return found


def _naming(episode: Episode) -> dict[str, float]:
    """Path -> probability of naming it, given that a file is named at the last turn."""
    turn = episode.turns[-1]
    read = _read(episode, -1)
    if not read or turn.decision.log_probs is None:
        return {}
    first = _first_answer(turn.observation.actions, len(read))
    # Renormalised over answers: at the last turn a policy may still prefer another search.
    weights = [math.exp(value) for value in turn.decision.log_probs[first : first + len(read)]]
    total = sum(weights)
    # A truncated prompt gives actions that were cut the probability zero, perhaps all of them.
    return {path: weight / total for path, weight in zip(read, weights, strict=True)} if total else {}


def _first_answer(actions: Sequence[str], read: int) -> int:
    """Index of the first action that names a file; they are in the order of reading, and only searches come after."""
    return len(actions) - sum(action.startswith("search ") for action in actions) - read


def _read(episode: Episode, turn: int) -> list[str]:
    """Files that were read before a turn."""
    return list(json.loads(episode.turns[turn].observation.state)["read"])


def _told(episode: Episode, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The commands up to the reading of a file, or to its naming, and the reflections then."""
    count = len(episode.turns)
    after = next(turn for turn in range(count) if path in _read(episode, turn))
    read, last = _read(episode, -1), episode.turns[-1]
    place = last.decision.index - _first_answer(last.observation.actions, len(read))
    is_named = 0 <= place < len(read) and read[place] == path
    walk = [turn.observation.actions[turn.decision.index] for turn in episode.turns[: count if is_named else after]]
    reasons = [episode.turns[turn].reflection for turn in ((after, count - 1) if is_named else (after,))]
    return tuple(walk), tuple(dict.fromkeys(reason for reason in reasons if reason))
