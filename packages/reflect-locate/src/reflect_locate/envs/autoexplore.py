"""AutoExplore: find the file of a repository that answers a question, by walking and reading.

Differs from the paper's environment (`autoexplore_paper`): (1) a file is an answer only once it was read, and then from
anywhere in the tree, because an answer without a look is a guess; (2) `cat` shows the head of a file, the passage that
is nearest to the question and the names in it, not its first thousand lines; (3) the state notes which words of the
question each file that was read holds; (4) listings are paged; (5) at the last turn only answers are listed; (6) trees
are sampled to a size instead of leaving out files with probability 0.5; (7) optionally, an index can be searched.

Everything is done on a snapshot in memory: no program is run and no file is opened. The specification is
`docs/guides/autoexplore.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from reflect_locate.envs.autoexplore_config import CAT_RAW, COMMANDS, OPENING, RAW, RULES, AutoExploreConfig
from reflect_locate.envs.measures import exploration_measures
from reflect_locate.envs.places import place_by_meaning
from reflect_locate.envs.shell_text import Shell, depth_first
from reflect_locate.envs.state_text import (
    ExplorationState,
    FileNote,
    NextPlace,
    action_numbers,
    advise,
    best_name,
    explored,
    place_by_words,
    read_state,
    reflection_text,
    shown,
    write_state,
)
from reflect_locate.envs.task_sampling import (
    MODES,
    AsksQuestions,
    join,
    question_tasks,
    sampled_tree,
    task_set,
)
from reflect_locate.envs.way import Way, entries_of
from reflect_locate.repositories.embedding import installed
from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.passages import PassageIndex, plain
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import PASSAGES, content_index
from reflect_locate.repositories.words import question_words, surface, words
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import HasFiles, HasStateTeacher, TextEnv, require_known
from reflect_rl.errors import UserError
from reflect_rl.types import Advice, Episode, Observation, Oracle, Step, Task

NAME = "autoexplore"
VERSION = 1
Cause = Literal["cd", "cat", "id", "search", "page"]

HITS = 5
"""Files that a search shows."""
RARE_WORDS = 3
"""Words of the narrow search."""
MOST_HEARD = 6
"""Words of a reflection that can be searched for."""
# A number and not infinity: turns of an oracle are whole numbers.
HOPELESS = 1000
"""Turns that count for a wrong answer: more than there are."""
# Without these a lexical reflection would add `best read next` to the search.
TEMPLATE_WORDS = frozenset(words("Best read file folder Next cat cd id more search has not of"))
"""Words that reflections are made with."""
NEAR_MISSES = 3
"""Files with the best names that a perturbed demonstration may open by mistake; as many others."""


Config = AutoExploreConfig


class AutoExplore(AsksQuestions, TextEnv):
    """The game, on a question of the task set, or on any tree and question (`explore`).

    Args:
        config: its settings.

    Raises:
        UserError: names are to be compared by meaning, and the embedding is not installed.
    """

    Config = AutoExploreConfig
    name, version = NAME, VERSION
    # Without page, last command and hits, which can be had again with a command.
    kept = ("question", "variant", "folder", "read", "turn")
    fixed_horizon = True  # the state shows how many turns are left
    rules = RULES
    numbered: bool = True
    explores_files = True  # the state can be read back (`envs.state_text.read_state`)
    config: AutoExploreConfig

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        horizon = self.config.max_episode_steps
        # A page, an answer for each file read, the hits, and room for `cd ..`, `more` and the searches.
        self.max_actions = self.config.page_entries + horizon + HITS + 6
        # The costliest turn is the last one without an answer, -1 - H, so rewards lie in [-1, 1].
        self._scale = horizon + 1.0
        self.advice: Advice = self.config.advice
        self._next_place: NextPlace = place_by_words
        if self.config.names == "meaning":
            installed()  # before a run begins, and not at its first reflection, it is known that it can be loaded
            self._next_place = place_by_meaning
        self.is_raw = self.config.state == "raw"
        self.numbered = not self.is_raw
        # Rules that read a state back find nothing in what commands printed.
        self.withheld = (HasStateTeacher, HasFiles) if self.is_raw else ()
        if self.is_raw:
            self.rules = OPENING + RAW + COMMANDS.format(cat=CAT_RAW)

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The questions of one split whose targets lie at the mode's depth in trees of its size.

        Raises:
            TaskSetError: there is no task set in the configured folder.
            UnknownNameError: no such mode or split.
        """
        return question_tasks(self.config, mode, split)

    def measures(self, episode: Episode) -> dict[str, float]:
        """Costs of an evaluated episode, beside success, return and turns.

        Raises:
            UserError: its task is none of this game.
        """
        game = AutoExplore(self.config)
        game.reset(episode.task)
        shortest = game.oracle().turns_left
        if self.is_raw:
            states = list(_replayed(game, episode))
        else:
            # Read back from the texts, so that the costs are those of what the player saw, also of recorded episodes.
            states = [read_state(turn.observation.text) for turn in episode.turns]
        return exploration_measures(
            episode,
            shortest_turns=shortest,
            characters_read=sum(len(state.result) for state in states),
            files_read=len(states[-1].read),
        )

    def games_tested(self, mode: str, split: str) -> dict[str, str]:
        """Questions that a result is about, and how they are shown and demonstrated."""
        return super().games_tested(mode, split) | self.text_settings() | {"expert": self.config.expert}

    def text_settings(self) -> dict[str, str]:
        """Kind of the states, fullness of the reflections, and how they choose among names."""
        state = self.config.state + (f" {self.config.history}" if self.is_raw else "")
        # Said where it is on alone: rows and recordings from before there was a choice are of `words`.
        names = {"names": self.config.names} if self.config.names != "words" else {}
        return {"state": state, "advice": self.config.advice} | names

    def advise(self, state: str) -> str:
        """The reflection of someone who compares names, and knows no more than a state text."""
        return advise(state, self.config.advice, self._next_place)

    def action_numbers(self, state: str) -> dict[str, int]:
        """Numbers of the actions that a state text names; a raw one names none."""
        return {} if self.is_raw else action_numbers(state)

    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Stand at the root of the task's tree, or in the folder that the task names.

        Raises:
            UserError: the task is none of this game.
        """
        require_known("mode of autoexplore", task.mode, MODES)
        try:
            key, variant = str(task.data["question"]), int(task.data["variant"])
            folder, read, turn = str(task.data["folder"]), list(task.data["read"]), int(task.data["turn"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"task {task.key!r} is none of autoexplore: {error!r}. Take it from tasks().") from None
        question = task_set(self.config.tasks).question(key)
        tree = sampled_tree(self.config, task.mode, key, variant)
        cut = len(tree.prefix)
        # Only those right files that this tree shows.
        targets = {path[cut:] for path in question.targets if path.startswith(tree.prefix)} & set(tree.paths)
        self._identity: dict[str, Any] = {"question": key, "variant": variant}
        self._enter(tree, question.text, frozenset(targets))
        # A start that was met under other settings may lie outside of the tree of these.
        if not tree.has_folder(folder) or not set(read) <= set(tree.paths):
            raise UserError(f"task {task.key!r} names a folder or file that its tree lacks. Take tasks from tasks().")
        self._folder, self._turn = folder, turn
        for path in read:
            self._look(path)
        return self._observe()

    def explore(self, tree: Tree, question: str) -> Observation:
        """Start on any tree, with a question that has no known answer."""
        self._identity = {"question": question, "variant": 0}
        self._enter(tree, question, frozenset())
        return self._observe()

    def _enter(self, tree: Tree, question: str, targets: frozenset[str]) -> None:
        # A question can come from a commit or a caller, so it is cleaned like the text of a file.
        self._tree, self._question, self._targets = tree, plain(question), targets
        # Drops the cached index: this object is reset for the next game, which has another tree.
        self.__dict__.pop("_known", None)
        self._asked = question_words(question)
        self._folder, self._page, self._turn = "", 0, 1
        self._read: dict[str, FileNote] = {}
        self._hits: dict[str, FileNote] = {}
        self._searched: set[str] = set()
        self._heard: tuple[str, ...] = ()
        self._last, self._result = "", ""
        self._shell = Shell(self.config.history)
        self.answer = ""

    def step(self, action: int) -> Step:
        """Take an action: -1 a turn, the horizon H for the right answer, -H for a wrong or a missing one; / (H + 1)."""
        kind, subject = self._actions[action]
        self._last, self._result = self.shown.actions[action], ""
        horizon, reward, over, won = self.config.max_episode_steps, -1.0, False, False
        if kind == "id":
            self.answer, over = subject, True
            won = subject in self._targets
            # The turn's own -1 counts too: of two ways that win, the shorter one pays more.
            reward += horizon if won else -horizon
        elif self._turn >= horizon:  # the game's own limit, known from the state: a loss, and not cut short
            reward, over = reward - horizon, True
        else:
            self._act(kind, subject)
        self._shell.add(self._last, self._result, shown(subject) if kind == "cat" else "")
        self._turn += 1
        self._heard = ()
        return Step(self._observe(), reward / self._scale, over, won)

    def idle(self) -> Step:
        """A turn without a command: it counts, and without an answer at the last turn the game is lost."""
        over = self._turn >= self.config.max_episode_steps
        reward = -1.0 - self.config.max_episode_steps * over
        self._turn += 1
        # Words of a reflection hold for its own turn; the next turn has a reflection of its own.
        self._heard = ()
        return Step(self._observe(), reward / self._scale, over)

    def _act(self, kind: Cause, subject: str) -> None:
        if kind == "cd":
            self._folder, self._page = subject, 0
        elif kind == "page":
            self._page = int(subject)
        elif kind == "search":
            self._search(subject)
        else:
            self._look(subject, last=True)

    def _look(self, path: str, *, last: bool = False) -> None:
        """Read a file, and note which words of the question its nearest passage holds."""
        index = PASSAGES.get(self._tree, path)
        found = self._words_at_the_start(index) if self.is_raw else index.nearest(self._asked).found
        # A file that was read is listed under `Read`, no longer among the hits.
        self._hits.pop(path, None)
        self._read[path] = (shown(path), surface(self._question, found))
        if last and self.is_raw:
            self._result = index.start[: self.config.result_characters] or "(empty)"
        elif last:
            passage = index.nearest(self._asked)
            # A third each, so that a long head cannot push the passage out of the budget.
            third = self.config.result_characters // 3
            parts = (index.head[:third], passage.text[:third], index.names[:third])
            # Short files have the same text as head and passage; it is shown once.
            self._result = " | ".join(dict.fromkeys(part for part in parts if part)) or "(empty)"

    def _words_at_the_start(self, index: PassageIndex) -> tuple[str, ...]:
        """Words of the question in that part of a file which a raw state shows."""
        written = set(words(index.start[: self.config.result_characters]))
        return tuple(word for word in self._asked if word in written)

    @cached_property
    def _known(self) -> BM25:
        """The tree's index, held while the episode lasts: a masked tree is that of one question only."""
        return content_index(self._tree)

    def _search(self, query: str) -> None:
        self._searched.add(query)
        # Files that were read would take the places of new ones in a list of five.
        found = [path for path, _ in self._known.rank(words(query)) if path not in self._read][:HITS]
        # A new search replaces the hits of the one before, which keeps the state short.
        self._hits = {}
        for path in found:
            passage = PASSAGES.get(self._tree, path).nearest(self._asked)
            self._hits[path] = (shown(path), surface(self._question, passage.found))
        self._result = f"{len(found)} files" if found else "nothing found"
        if self.is_raw and found:
            self._result = "  ".join(map(shown, found))

    def _observe(self) -> Observation:
        size = self.config.page_entries
        entries = entries_of(self._tree, self._folder, self._read)
        pages = max(1, -(-len(entries) // size))
        # Reading the only file of the last page empties that page.
        self._page = min(self._page, pages - 1)
        entries = entries[self._page * size : (self._page + 1) * size]
        scene = ExplorationState(
            question=self._question,
            turn=self._turn,
            horizon=self.config.max_episode_steps,
            folder=self._folder,
            folders=tuple(
                (shown(name), self._unread(join(self._folder, name))) for kind, name in entries if kind == "cd"
            ),
            files=tuple(shown(name) for kind, name in entries if kind == "cat"),
            page=self._page + 1,
            pages=pages,
            read=tuple(self._read.values()),
            hits=tuple(self._hits.values()),
            searches=tuple(self._own_queries()),
            last=self._last,
            result=self._result,
        )
        self._page_entries = entries
        self._scene = (
            # Files that can no longer be opened would only tempt a player at its last turn.
            replace(scene, folders=(), files=(), hits=(), searches=(), page=1, pages=1) if scene.answers_only else scene
        )
        self._actions: list[tuple[Cause, str]] = []
        texts: dict[str, None] = {}
        for kind, subject, text in self._listed(pages):
            text = text if text not in texts else f"{text} ({len(texts)})"  # noqa: PLW2901 (two names may look alike)
            texts[text] = None
            self._actions.append((kind, subject))
        text = self._shell.text(self._scene) if self.is_raw else write_state(self._scene)
        self.shown = Observation(text, tuple(texts), self._state())
        return self.shown

    def _state(self) -> str:
        where = {"folder": self._folder, "page": self._page, "turn": self._turn, "last": self._last}
        return json.dumps({**self._identity, **where, "read": list(self._read), "hits": list(self._hits)})

    def _unread(self, folder: str) -> int:
        return self._tree.count(folder) - sum(path.startswith(folder + "/") for path in self._read)

    def _listed(self, pages: int) -> Iterator[tuple[Cause, str, str]]:
        """The admissible actions, in the order of `numbers`: what is done, to what, and as which text."""
        scene = self._scene
        if self._folder and not scene.answers_only:
            yield "cd", self._folder.rpartition("/")[0], "cd .."
        for kind, name in self._page_entries if not scene.answers_only else ():
            yield kind, join(self._folder, name), f"{kind} {shown(name)}"
        if scene.pages > 1:
            yield "page", str((self._page + 1) % pages), "more"
        for path in self._hits if scene.hits else ():
            yield "cat", path, f"cat /{shown(path)}"
        for path in self._read:
            yield "id", path, f"id {shown(path)}"
        if self.config.search and not scene.answers_only:
            for query in self._queries():
                yield "search", query, f"search {query}"

    def _own_queries(self) -> list[str]:
        """Queries that do not depend on the reflection: all words of the question, and its rarest ones."""
        if not self.config.search:
            return []
        rarity = self._known.rarity
        known = [word for word in self._asked if rarity(word)]
        # Two ways to ask: with all words, and with the few that tell files apart.
        rare = sorted(known, key=lambda word: -rarity(word))[:RARE_WORDS]
        choices = (surface(self._question, chosen) for chosen in (known, [word for word in known if word in rare]))
        return self._new_queries(" ".join(choice) for choice in choices)

    def _new_queries(self, queries: Iterable[str]) -> list[str]:
        return [query for query in dict.fromkeys(queries) if query and query not in self._searched]

    def _queries(self) -> Iterator[str]:
        """Queries: those that the state lists, and the words that the reflection added."""
        yield from self._scene.searches
        # Words that stand in no file would end in an empty search and cost a turn.
        heard = " ".join(word for word in self._heard if any(map(self._known.rarity, words(word))))
        yield from self._new_queries([heard] if heard not in self._scene.searches else [])

    def oracle(self) -> Oracle:
        """The way to the target; it is read before it is named.

        Raises:
            UserError: the question has no known answer.
        """
        if not self._targets:
            raise UserError("nobody knows the answer to this question, so there is no oracle. Use another player.")
        costs = [self._turns_after(kind, subject) for kind, subject in self._actions]
        least = min(costs)
        optimal = tuple(index for index, cost in enumerate(costs) if cost == least)
        best = optimal[0]
        if least == HOPELESS:  # only wrong answers are left: the one that looks best
            # The teacher must name something, and this is what a player without the answer would name.
            best = max(optimal, key=lambda index: len(self._read[self._actions[index][1]][1]))
            # The length of the way goes on as at the turns before: one turn left would be progress, and be rewarded.
            least, optimal = self._way().turns_from(self._folder, self._page) - 1, (best,)
        return Oracle(best, optimal, self._mistakes(optimal), least + 1, self._explored(best))

    def teach(self) -> str:
        """Facts of the state text, with the explorer's advice."""
        best = self.oracle()
        advice = self.shown.actions[best.best if best.explorer is None else best.explorer]
        # A reflection player could not know what a file held whose text fell out of the window, so nothing tells it.
        scene = self._shell.recall(self._scene) if self.is_raw else self._scene
        return reflection_text(scene, advice, numbered=self.numbered, fullness=self.config.advice)

    def _explored(self, best: int) -> int:
        """Action of an expert who has no more to go by than the player, but knows the target on seeing its name.

        In the folder of the target it reads the target, above it it goes down; elsewhere it does what comparing names
        recommends, until all is read or, by meaning, another place is worth more: to leave a wrong folder at once would
        teach what nobody can see. Where a search is offered it searches, and reads what was found: the target, if it is
        among that.
        """
        kind, subject = self._actions[best]
        actions = self.shown.actions
        if self.config.expert == "depth_first":
            advice = depth_first(self._scene)
            return best if kind == "id" or advice not in actions else actions.index(advice)
        advice = explored(self._scene, self._next_place)
        if self._scene.hits or self._scene.searches:
            knows = kind == "id" or subject in self._hits
            return best if knows or advice not in actions else actions.index(advice)
        if kind != "page" and not (kind == "cd" and len(subject) < len(self._folder)):
            return best
        leaves_a_page = kind == "page" and advice == "cd .."  # and the target may be on the next one
        return actions.index(advice) if advice in actions and not leaves_a_page else best

    def _turns_after(self, kind: Cause, subject: str) -> int:
        """Turns that an optimal player still needs after an action; a wrong answer needs more than there are."""
        if kind == "id":
            return 0 if subject in self._targets else HOPELESS
        if kind == "cat" and subject in self._targets:
            return 1
        if kind == "search" and not self._targets & {*self._read, *self._hits}:
            # A search is worth two turns only if its hits hold a target: one to read it and one to name it.
            found = (path for path, _ in self._known.rank(words(subject)) if path not in self._read)
            if any(path in self._targets for _, path in zip(range(HITS), found, strict=False)):
                return 2
        if kind == "cd":
            return self._way().turns_from(subject, 0)
        return self._way().turns_from(self._folder, int(subject) if kind == "page" else self._page)

    def _way(self) -> Way:
        return Way(self._tree, self.config.page_entries, self._targets, frozenset(self._read), frozenset(self._hits))

    def _mistakes(self, optimal: tuple[int, ...]) -> tuple[int, ...]:
        """Wrong ways and wrong files: those with the best names, and some others."""
        wrong = [index for index in range(len(self._actions)) if index not in optimal]
        cats = [index for index in wrong if self._actions[index][0] == "cat"]
        # The likeliest mistakes by name and as many others, so that demonstrations recover from both kinds.
        cats.sort(key=lambda index: -len(best_name([self._actions[index][1]], self._asked)[1]))
        likely = {*cats[:NEAR_MISSES], *cats[-NEAR_MISSES:]}
        return tuple(i for i in wrong if i in likely or self._actions[i][0] in ("cd", "page"))

    def hear(self, reflection: str) -> Observation:
        """Take up words that the reflection adds to what the state says, for a search."""
        if not self.config.search:
            return self.shown
        known = {*words(self.shown.text), *TEMPLATE_WORDS}
        new = dict.fromkeys(word for word in words(reflection) if word not in known)
        heard = surface(reflection, tuple(new)[:MOST_HEARD])
        # The same words leave the actions as they are, and the observation need not be made again.
        if heard == self._heard:
            return self.shown
        self._heard = heard
        return self._observe()


def _replayed(game: AutoExplore, episode: Episode) -> Iterator[ExplorationState]:
    """Observations before each turn of an episode whose texts cannot be read back."""
    for turn in episode.turns:
        if turn.reflection is not None:
            game.hear(turn.reflection)
        yield game._scene
        if turn.action is None:
            game.idle()
        else:
            game.step(turn.decision.index)
