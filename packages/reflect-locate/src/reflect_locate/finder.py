"""Find the file that answers a question: several games of the trained player on the user's tree, then a ranking.

Candidates are the files that an episode read and, where the index may be used, its best ones. They are ranked by
evidence (`evidence.py`): how well the index matches the contents and the path, how many words of the question stand
close together, and with which probability the player names it. How much each counts comes with the player. Tests come
behind what they test, unless the question speaks of tests.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from reflect_locate.envs import autoexplore
from reflect_locate.envs.open_question import OpenQuestion, question_task
from reflect_locate.envs.state_text import question_words, surface
from reflect_locate.evidence import TEST_SHARE, Evidence, Weights, confidence, score
from reflect_locate.repositories.roles import is_test
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import PASSAGES, IndexMatches, index_matches
from reflect_locate.repositories.words import words
from reflect_locate.trained_player import Player
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import ReflectRLError, UserError
from reflect_rl.players.policies.language_model import Decoding
from reflect_rl.rollout import Request, play
from reflect_rl.seeding import seed_for
from reflect_rl.types import Episode
from reflect_rl.watchdog import Limits

__all__ = ["Answer", "FoundFile", "SearchOptions", "StoppedError", "check_question", "locate"]

LONGEST_QUESTION = 40
"""Words that are read of a question; the player was trained on questions of at most so many."""
TEST = "test"
"""The word of a question that asks for tests, as `words` gives it (testing, tests, ...)."""
INDEXED = 10
"""Best files of the index that are candidates."""
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


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may answer the question."""

    path: str
    score: float
    """Weighted mean of the evidence, in [0, 1]."""
    evidence: Evidence
    """Parts of the score."""
    words: tuple[str, ...]
    """Words of the question that stand close together in it."""
    walk: tuple[str, ...]
    """Commands of the episode that was surest of it."""
    reasons: tuple[str, ...]
    """Reflections of that episode: after the file was read, and before it was named."""

    def to_json(self) -> dict[str, Any]:
        """JSON form, for example `{"path": "a/b.py", "score": 0.82, "words": ["rate"], "coverage": 0.3, ...}`."""
        return {
            "path": self.path,
            "score": round(self.score, 4),
            "named": round(self.evidence.named, 4),
            "match": round(self.evidence.match or 0.0, 4),
            "path_match": round(self.evidence.path or 0.0, 4),
            "is_test": self.evidence.is_test,
            "words": list(self.words),
            "coverage": round(self.evidence.coverage, 4),
            "walk": list(self.walk),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """Ranked files, and whether the first stands out."""

    files: tuple[FoundFile, ...]
    """Best first: all candidates."""
    confidence: float
    """Confidence in the best file, (score + 2 x lead over the second) / 3, in [0, 1]; 0 without files."""
    threshold: float
    episodes: int
    """Episodes that were finished."""
    seconds: float

    @property
    def found(self) -> bool:
        """Tell whether the confidence reaches the threshold."""
        return bool(self.files) and self.confidence >= self.threshold


def check_question(question: str) -> str:
    """The question as it is asked: one line, at most 40 words.

    Raises:
        UserError: it is empty, or has no word that a file could be compared with.
    """
    said = question.split()
    if not said:
        raise UserError('the question is empty. Ask for example: "Where are rate limits parsed?"')
    # Cut and not refused: a pasted error message still has its first words to go by.
    short = " ".join(said[:LONGEST_QUESTION])
    # Without a content word every file has the same evidence, and the ranking would be that of the paths.
    if not words(short):
        raise UserError(
            f"the question {short!r} has only words that stand in every file. Name what the file is about, "
            'for example: "Where are rate limits parsed?"'
        )
    return short


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
        threshold: confidence below which nothing is found (None: the player's).
        is_stopped: asked at every turn; the search ends when it says so.

    Raises:
        UserError: the tree is empty, or the question says nothing.
        StoppedError: it was stopped, or the time was over before any episode was.
    """
    question = check_question(question)
    if not tree.paths:
        raise UserError(
            f"{tree.snapshot.name!r} has no files below {tree.prefix or 'its root'}, so there is no answer."
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
    files = _ranked(tree, question, watched.episodes, indices, player.settings.weights)
    return Answer(
        tuple(files),
        confidence([entry.score for entry in files]),
        player.settings.threshold if threshold is None else threshold,
        len(watched.episodes),
        time.perf_counter() - started,
    )


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
    """Candidates, best first."""
    asked = question_words(question)
    # A question about tests wants them, so they then count in full.
    tests = set() if TEST in asked else {path for path in tree.paths if is_test(path)}
    # Files of the index are candidates even if no episode read them; the policy then says nothing about them.
    named = dict.fromkeys(_indexed(indices, tests) if indices else (), 0.0)
    surest: dict[str, tuple[float, Episode]] = {}
    for episode in episodes:
        for path, probability in _naming(episode).items():
            # An episode that did not read the file counts as one that would not name it.
            named[path] = named.get(path, 0.0) + probability / len(episodes)
            # -1 lets an episode that gave a file no chance still explain how it was reached.
            if probability > surest.get(path, (-1.0, episode))[0]:
                surest[path] = probability, episode
    found = []
    for path, share in named.items():
        near = PASSAGES.get(tree, path).nearest(asked).found
        match, name = (indices.contents.get(path, 0.0), indices.paths.get(path, 0.0)) if indices else (None, None)
        # Rounding can take a mean of probabilities above 1.
        evidence = Evidence(len(near) / len(asked), match, name, min(1.0, share), path in tests)
        walk, reasons = _told(surest[path][1], path) if path in surest else ((), (UNOPENED,))
        found.append(FoundFile(path, score(evidence, weights), evidence, surface(question, near), walk, reasons))
    # The path decides between equal scores, so that the answer does not depend on the order of episodes.
    return sorted(found, key=lambda entry: (-entry.score, entry.path))


def _indexed(indices: IndexMatches, tests: Set[str]) -> list[str]:
    """The best files of the index."""
    # Weighed here too, or the tests of a popular file would fill all ten places.
    shares = {path: match * (TEST_SHARE if path in tests else 1) for path, match in indices.contents.items()}
    return sorted(shares, key=lambda path: -shares[path])[:INDEXED]


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
