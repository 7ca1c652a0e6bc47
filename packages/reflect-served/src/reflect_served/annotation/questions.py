"""Reflections, and actions if wanted, by a language model behind an API instead of the oracle's template.

The episodes are played as always, by the perturbed solver; then the model is asked about their states, many at a time,
and its texts take the places of the oracle's. Its prompt says what the solver knows (`annotation.prompts`). Each answer
is checked (`annotation.verdict`), and what is dropped is replaced by nothing: its rows are left out. States that recur
with the same knowledge are one question.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from reflect_rl.data.recorded import Note
from reflect_rl.envs.base import EnvSpec, HasUnseenNames, NumbersActions
from reflect_rl.errors import UserError
from reflect_rl.prompts import rules_of
from reflect_rl.types import Episode, Task, Turn
from reflect_served.annotation.prompts import VERSION, Told, annotation_messages
from reflect_served.annotation.spoilers import unseen
from reflect_served.annotation.verdict import Verdict, dropped, verdict_on
from reflect_served.llm import ChatRequest, Endpoint, EndpointConfig, EndpointError, Progress, RefusedError
from reflect_served.settings import AnnotationConfig

Kind = Literal["first", "positive", "negative"]
"""Action before: none, a good one, or a mistake."""


@dataclass(frozen=True, slots=True)
class Question:
    """State to be annotated."""

    key: str
    """SHA-256 of all that the verdict on its answer depends on, besides the answer."""
    told: Told
    solution: int
    """Index of the solver's action, whether the annotator knows it or not."""
    kind: Kind
    unseen_names: tuple[str, ...]
    request: ChatRequest


class Annotator:
    """Makes the questions about the turns of episodes.

    Args:
        config: what is asked for.
        spec: the environment.
    """

    def __init__(self, config: AnnotationConfig, spec: EnvSpec) -> None:
        self.config = config
        self._rules = rules_of(spec)
        numbering = spec.capability(NumbersActions)
        self._numbered = numbering is not None and numbering.numbered
        self._game = spec.capability(HasUnseenNames)
        self._names: dict[tuple[str, str], tuple[str, ...]] = {}

    def facts(self, endpoint: EndpointConfig) -> dict[str, Any]:
        """Collect what annotations depend on besides the states: model, prompts and settings."""
        # Address, prices and budget change no text, so they are left out.
        settings = ("model", "temperature", "seed", "reasoning", "reasoning_effort")
        return {
            "prompts": VERSION,
            "rules": hashlib.sha256(self._rules.encode()).hexdigest()[:16],
            **self.config.model_dump(mode="json", exclude={"endpoint"}),
            **{name: getattr(endpoint, name) for name in settings},
        }

    def questions(self, episodes: Iterable[Episode], excluded: frozenset[str]) -> Iterator[Question]:
        """A question for each turn that is not about an excluded state."""
        for episode in episodes:
            for number, turn in enumerate(episode.turns):
                if turn.observation.state not in excluded:
                    yield self.question(episode, number)

    def question(self, episode: Episode, number: int) -> Question:
        """The question about one turn.

        Raises:
            ValueError: the turn has no target, so there is nothing to tell.
        """
        turn, names = episode.turns[number], self._unseen_names(episode.task)
        if turn.decision.target is None:
            raise ValueError(f"the player {turn.decision.player!r} recommends no action; there is nothing to tell")
        told = self._told(turn, episode.turns[number - 1] if number else None, names)
        config = self.config
        messages = annotation_messages(told, self._rules, config.max_words)
        # All that the verdict depends on: a changed prompt or limit gives a new key, so old verdicts are not reused.
        relied_on = [VERSION, messages, asdict(told), names, config.max_words]
        key = hashlib.sha256(json.dumps(relied_on).encode()).hexdigest()
        kind: Kind = "negative" if told.verdict == "suboptimal" else "first" if told.last is None else "positive"
        request = ChatRequest(messages, config.max_new_tokens)
        return Question(key, told, turn.decision.target, kind, names, request)

    def _unseen_names(self, task: Task) -> tuple[str, ...]:
        if task.unique_key not in self._names:  # a game may search its files for them, once for each task
            self._names[task.unique_key] = () if self._game is None else tuple(self._game.unseen_names(task))
        return self._names[task.unique_key]

    def _told(self, turn: Turn, before: Turn | None, names: Sequence[str]) -> Told:
        state, actions = turn.observation.text, turn.observation.actions
        # A model that knows the best action would copy it instead of choosing.
        best = None if self.config.actions else turn.decision.target
        if before is None:
            return Told(state, actions, best, numbered=self._numbered)
        played, wanted = (before.observation.actions[i] for i in (before.decision.index, before.decision.target or 0))
        if before.decision.index == before.decision.target:
            return Told(state, actions, best, played, "good", numbered=self._numbered)
        # The better action is left out where its name is out of sight by now.
        better = None if unseen(wanted, names, state) else wanted
        return Told(state, actions, best, played, "suboptimal", better, self._numbered)


def annotate(
    questions: Iterable[Question], endpoint: Endpoint, max_words: int, progress: Progress | None = None
) -> dict[str, Verdict]:
    """The verdict on each question, by its key.

    Args:
        questions: those with the same key count as one.
        endpoint: who is asked; what it has answered is kept in its folder, whatever happens.
        max_words: longest reflection.
        progress: called after each answer.

    Raises:
        EndpointError: it does not answer as it should; the same call goes on from there.
    """
    # Equal states are one question: a data set of perturbed restarts meets most of them several times.
    distinct = list({question.key: question for question in questions}.values())
    verdicts: dict[str, Verdict] = {}
    failure: EndpointError | None = None
    for number, answer in endpoint.ask([question.request for question in distinct], progress):
        question = distinct[number]
        if isinstance(answer, RefusedError):
            verdicts[question.key] = dropped("refused", str(answer))
        elif isinstance(answer, EndpointError):
            # Raised at the end: the others that are under way still answer.
            failure = failure or answer
        else:
            names = question.unseen_names
            verdicts[question.key] = verdict_on(answer.text, answer.ending, question.told, names, max_words)
    if failure is not None:
        raise failure
    return verdicts


class Annotations:
    """The verdicts on the turns of some episodes.

    Args:
        annotator: makes the questions, by which verdicts are found.
        verdicts: by the keys of the questions.
        episodes: what was annotated.
        excluded: states that were not.
        endpoint: that was asked.

    Raises:
        KeyError: a turn has no verdict.
    """

    def __init__(
        self,
        annotator: Annotator,
        verdicts: Mapping[str, Verdict],
        episodes: Iterable[Episode],
        excluded: frozenset[str],
        endpoint: EndpointConfig,
    ) -> None:
        self.annotator, self.endpoint = annotator, endpoint
        self._found: dict[_Place, tuple[Question, Verdict]] = {}
        for episode in episodes:
            for number, turn in enumerate(episode.turns):
                if turn.observation.state not in excluded:
                    question = annotator.question(episode, number)
                    self._found[_place(episode, number)] = question, verdicts[question.key]

    def note(self, episode: Episode, number: int) -> Note:
        """The model's text, and its action if it chooses; nothing, where the answer was dropped.

        Without `actions` the label is the solver's, whatever became of the answer.
        """
        question, verdict = self._found[_place(episode, number)]
        return Note(verdict.text, verdict.action if self.annotator.config.actions else question.solution)

    def reflection(self, episode: Episode, number: int) -> str | None:
        """The model's text; None where there is none, or nobody asked."""
        found = self._found.get(_place(episode, number))
        return None if found is None else found[1].text

    @property
    def card(self) -> dict[str, object]:
        """Authors of the answers, and what became of these."""
        return self.annotator.facts(self.endpoint) | self.counts

    @property
    def counts(self) -> dict[str, Any]:
        """Numbers of answers by what became of them."""
        pairs = list(self._found.values())
        verdicts = {question.key: verdict for question, verdict in pairs}
        return counted([question for question, _ in pairs], verdicts, actions=self.annotator.config.actions)


_Place = tuple[tuple[str, str], int, int]


def _place(episode: Episode, number: int) -> _Place:
    return episode.task.unique_key, episode.seed, number


def counted(questions: Sequence[Question], verdicts: Mapping[str, Verdict], *, actions: bool) -> dict[str, Any]:
    """Count what became of the answers: of different questions, and of the turns that they stand for.

    Args:
        questions: one for each turn.
        verdicts: by the keys of the questions.
        actions: whether the model chose the actions.
    """
    turns = Counter(question.key for question in questions)
    distinct = {question.key: question for question in questions}
    found = {key: verdicts[key] for key in distinct}
    kept = [key for key, verdict in found.items() if verdict.reason is None]
    counts: dict[str, Any] = {
        "turns": len(questions),
        "turns_left_out": sum(turns[key] for key, verdict in found.items() if verdict.reason is not None),
        "questions": _tally(question.kind for question in distinct.values()),
        "kept_untouched": sum(not found[key].repairs for key in kept),
        "kept_repaired": sum(bool(found[key].repairs) for key in kept),
        "repairs": _tally(repair for key in kept for repair in found[key].repairs),
        "dropped": _tally(verdict.reason for verdict in found.values() if verdict.reason is not None),
    }
    if actions:
        counts["actions_other_than_the_solvers"] = sum(found[key].action != distinct[key].solution for key in kept)
    return counts


def _tally(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def digest(verdicts: Mapping[str, Verdict]) -> str:
    """A short hash of all that training could learn from these verdicts."""
    # Reasons and repairs are left out: training does not see them.
    learned = {key: [verdict.text, verdict.action] for key, verdict in sorted(verdicts.items())}
    return hashlib.sha256(json.dumps(learned).encode()).hexdigest()[:16]


def verdict_from_json(row: Mapping[str, Any]) -> Verdict:
    """The verdict that `dataclasses.asdict` made a JSON object of.

    Raises:
        KeyError, TypeError: it is none.
    """
    return Verdict(row["text"], row["action"], tuple(row["repairs"]), row["reason"], row["words"])


def nothing_kept(verdicts: Mapping[str, Verdict]) -> UserError | None:
    """Make the error for annotations of which none is of use; None where some are."""
    if any(verdict.reason is None for verdict in verdicts.values()):
        return None
    reasons = Counter(verdict.reason for verdict in verdicts.values())
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    return UserError(
        f"none of the {len(verdicts)} annotations can be used ({counts or 'there was nothing to annotate'}). "
        "docs/guides/annotation.md says what the reasons mean; try another model, "
        "or raise data.annotation.max_new_tokens."
    )
