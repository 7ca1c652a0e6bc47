"""Demonstrations: annotated episodes, and the supervised data sets made from them.

Episodes are played by the one loop, with a perturbed solver that labels every state (see `players.scripted`) and
the templated reflections, in whose places a language model's may come (`data.annotator`). Each data set is a list of
prompt/completion rows rendered by `prompts`:

| data set | prompt | completion |
|---|---|---|
| `reflector` | state | reflection, then the end token |
| `policy_plain` | state, actions | label of the target action |
| `policy_reflect` | state, reflection, actions | label of the target action |

and the same three with the suffix `_positive`, from unperturbed episodes only. The embedded model, which starts from
random weights, first reads the prompts of `policy_plain` as plain text, or exercises in finding a line (`base`), as
others have read the web; no reflection and no answer is in them. Every method starts from this model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from reflect_rl.config import Frozen, Rule
from reflect_rl.data.recorded import Note, Notes, as_played
from reflect_rl.envs.base import EnvSpec, HasSolver, HasTeacher, Restartable
from reflect_rl.errors import ConfigError
from reflect_rl.players.scripted import Annotator, LabelSource, OracleReflector
from reflect_rl.prompts import (
    action_text_prompt,
    exercise_prompt,
    lines_prompt,
    numbered,
    parts_of,
    policy_prompt,
    recommended,
    reflection_prompt,
    with_right_number,
)
from reflect_rl.rollout import NoReflector, Reflector, Request, begun, environment_rng, evaluation_request, play
from reflect_rl.types import Episode, Task, Turn, View, seed_for, stream
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits, guarded, on_duty

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["positive", "negative"]

DATASETS = tuple(
    name + suffix for suffix in ("", "_positive") for name in ("reflector", "policy_plain", "policy_reflect")
)
"""Names of the supervised data sets; `_positive` = without negative examples."""

LEXICAL_DATASETS = ("policy_lexical", "policy_lexical_positive")
"""Data sets as `policy_reflect`, with reflections by the lexical player, which compares states word by word.

Rows are left out in which that player recommends another action than the label. The other teacher never contradicts the
label, and a policy that is taught by contradictions learns to read past its reflections (docs/results/log.md).
"""


def reads_reflections(dataset: str) -> bool:
    """Tell whether a policy learns from this data set to choose beside a reflection."""
    return dataset.startswith(("policy_reflect", "policy_lexical"))


BASE = "base"
"""The embedded model's plain text."""


def is_reflector(dataset: str) -> bool:
    """Tell whether a reflection player learns from this data set."""
    return dataset.startswith("reflector")


def policy_beside(dataset: str) -> str:
    """Name the data set of the policy that reads what a reflection player of this data set writes."""
    return dataset.replace("reflector", "policy_reflect")


class DataConfig(Frozen):
    """Demonstrations for supervised training."""

    label_source: LabelSource = "clean"
    """Labels: `clean` = the solver's action in every state; `paper` = the action that the perturbed solver played;
    `exploring` = the action of an expert who must look for the goal like the player (games that have one); `noisy` =
    the action that this expert, perturbed, played; `successes` = the actions of won episodes of the untuned model (with
    the embedded one: of a random player), without a solver; `recorded` = the actions of `data.episodes`."""
    episodes: Path | None = None
    """Recorded episodes to learn from, in place of demonstrations: a JSONL file, as `reflect-rl play --record` writes.
    Labels are then `recorded`: the actions that were played."""
    lost_episodes: bool = False
    """Learn from recorded episodes that were lost, too."""
    attempts_per_start: int = Field(16, ge=1)
    """Episodes played from each start under label_source = "successes"; the won ones are learned from."""
    demonstration_starts: tuple[int, ...] = Field((100,), min_length=1)
    """Number of training starts that demonstrations come from; several numbers make a sweep."""
    modes: tuple[str, ...] = ()
    """Modes of the game to demonstrate (empty: the hardest of environment.modes)."""
    perturbation: float = Field(0.3, ge=0, le=1)
    """Probability of a perturbed step in a negative episode."""
    perturbed_episodes_per_start: int = Field(4, ge=1)
    """Perturbed episodes of each start and mode."""
    restarts_per_start: int = Field(4, ge=0)
    """Further episodes of each start and mode that begin in a state its demonstrations met, as if nothing had come
    before: first turns are rare otherwise, and a model learns them by heart."""
    reading: Literal["text", "exercises", "short_rows"] = "text"
    """First texts of the embedded model, which starts from nothing: `text` = states and action lists as plain text;
    `exercises` = a listed action is named and is to be chosen (with prompt.scoring = "line_end"). A small model learns
    to find names in lists from exercises in minutes, hardly from play. `short_rows` = the policy's own rows whose
    prompts are short, answers included: a small model learns from them to look up the names that its answer needs, and
    hardly learns that among long prompts."""
    reading_characters: int = Field(1000, ge=1)
    """Most characters of a prompt that is a short row (with reading = "short_rows")."""
    reading_starts: int = Field(0, ge=0)
    """Training tasks that a random player plays for the embedded model to read, before any demonstration; 0 = it reads
    the demonstrations. Such play needs no expert, so it may be much where demonstrations are few. With reading =
    "short_rows" each command stands under a task for which it was right, in games that can tell (`TellsHindsight`)."""
    exclude_held_out_states: bool = True
    """Leave out every row whose state is the start of a validation or test task. Where a game draws its starts by
    chance, many are drawn, and rare ones may stay."""
    renumbered_copies: int = Field(0, ge=0)
    """Further copies of each row of the policy that holds a reflection, for prompt.scoring = "choice_token". In a copy,
    the numbers of the list are drawn from all that the game needs, the label's action and a random one (perhaps itself)
    change places, and the number in the reflection's last sentence follows: from few rows, the policy learns to read
    that number, and high numbers like low ones. Data sets grow as many times."""
    annotator: str = "oracle"
    """Writer of the reflections: `oracle` = a template of checked facts; else the name of an installed annotator, such
    as `endpoint` (package `reflect-served`): a language model behind an API, which is told what the solver knows and
    is sent the states of the demonstrations."""


SOLVER_FREE = {"episodes", "lost_episodes", "attempts_per_start"}
"""Settings that a solver's demonstrations do not follow from."""

Source = Literal["solver", "recorded", "successes", "none"]


def source_of(config: DataConfig, spec: EnvSpec) -> Source:
    """Source of the labels of supervised training; `none`: nothing is demonstrated."""
    if config.label_source == "recorded":
        return "recorded"
    if config.label_source == "successes":
        return "successes"
    return "none" if spec.capability(HasSolver) is None else "solver"


def demonstration_tasks(config: DataConfig, spec: EnvSpec, budget: int, seed: int) -> list[Task]:
    """The training tasks that demonstrations may come from: the same starts in every demonstrated mode.

    A smaller budget is a subset of a larger one of the same seed.

    Raises:
        ConfigError: more starts are asked for than there are.
    """
    pools = {mode: spec.tasks(mode, "train") for mode in _modes(config, spec)}
    # Every mode plays the same starts, so the shortest list limits all.
    count = min(map(len, pools.values()))
    if budget > count:
        raise ConfigError(
            f"data.demonstration_starts: {budget} starts are asked for, the training split of {spec.name} "
            f"has {count}. Lower it to {count} or less."
        )
    # Not a draw of `budget`: a permutation cut short makes smaller budgets parts of larger ones.
    chosen = stream(seed, "demonstration starts").permutation(count)[:budget]
    return [pool[index] for pool in pools.values() for index in chosen]


def demonstrations(  # noqa: PLR0913 (each part of a game is a part of the call)
    config: DataConfig,
    spec: EnvSpec,
    budget: int,
    seed: int,
    *,
    reflector: Reflector | None = None,
    shuffle_labels: bool = False,
    excluded: frozenset[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_episode: Callable[[Episode], None] | None = None,
    on_failure: Callable[[Request, Exception], None] | None = None,
) -> dict[Kind, list[Episode]]:
    """Annotated episodes: `positive` unperturbed, one per task; `negative` perturbed, several per task; their restarts.

    Each kind restarts in states that its own episodes met.

    Args:
        config: what to demonstrate.
        spec: the environment; it needs a solver, and for restarts to be `Restartable`.
        budget: number of training starts.
        seed: root of the random streams.
        reflector: who writes the reflections (None: the game's teacher, from checkable facts, where it has one).
        shuffle_labels: number the actions in a random order in every state.
        excluded: states in which no episode restarts (None: the starts of held-out tasks, if they are to be excluded).
        limits: how long the environment may take, and how many episodes of each kind may fail in each round.
        on_episode: called with each episode as it ends.
        on_failure: called with each episode that failed and is left out.
    """
    spec.needed(HasSolver, "demonstrating")
    if reflector is None:
        reflector = NoReflector() if spec.capability(HasTeacher) is None else OracleReflector()
    tasks = demonstration_tasks(config, spec, budget, seed)
    if excluded is None:
        modes = _modes(config, spec) if config.exclude_held_out_states else ()
        excluded = held_out_states(spec, modes, limits)
    out: dict[Kind, list[Episode]] = {}
    for kind, copies in COPIES.items():
        annotator = Annotator(0.0 if kind == "positive" else config.perturbation, config.label_source)
        requests = [
            # Named after task and copy, so that other tasks and copies change nothing in an episode.
            Request(task, seed_for(seed, kind, task.key, copy))
            for task in tasks
            for copy in range(copies(config))
        ]
        played = partial(
            play,
            spec,
            reflector=reflector,
            policy=annotator,
            shuffle_labels=shuffle_labels,
            limits=limits,
            on_episode=on_episode,
            on_failure=on_failure,
        )
        episodes = played(requests)
        # Without restarts 21 of 56 lost episodes ended at their first turn (docs/results/log.md).
        out[kind] = episodes + played(_restarts(config, spec, episodes, excluded, stream(seed, kind, "restarts")))
    return out


COPIES: dict[Kind, Callable[[DataConfig], int]] = {
    # The solver alone plays a task the same way every time.
    "positive": lambda config: 1,
    "negative": lambda config: config.perturbed_episodes_per_start,
}
"""Episodes of each task."""


def _restarts(
    config: DataConfig, spec: EnvSpec, episodes: Sequence[Episode], avoided: frozenset[str], rng: np.random.Generator
) -> list[Request]:
    game = spec.capability(Restartable)
    if game is None:
        return []
    met: dict[tuple[str, str], list[str]] = {}
    for episode in episodes:
        states = [turn.observation.state for turn in episode.turns[1:] if turn.observation.state not in avoided]
        met.setdefault(episode.task.unique_key, []).extend(states)
    return [
        Request(game.task_at(mode, str(state)), int(rng.integers(2**62)))
        for (mode, _), states in met.items()
        if states
        # With repetition: an episode can have met fewer states than are asked for.
        for state in rng.choice(states, config.restarts_per_start)
    ]


def _modes(config: DataConfig, spec: EnvSpec) -> tuple[str, ...]:
    return config.modes or spec.modes[-1:]


@dataclass(frozen=True, slots=True)
class Row:
    """Supervised example."""

    prompt: str
    completion: str
    task: str
    turn: int
    state: str
    kind: Kind
    """`negative`: the step before was a perturbation, and this row notices or repairs it."""


def held_out_states(spec: EnvSpec, modes: Sequence[str], limits: Limits = DEFAULT_LIMITS) -> frozenset[str]:
    """States in which validation and test tasks of these modes begin.

    Where `reset` draws by chance, a task has several starts. They are drawn as evaluations draw them, until
    `DRAWS_WITHOUT_NEWS` draws in a row show no other state, or `MOST_DRAWS` times.

    Raises:
        FaultyEnvironmentError: the game cannot start one of them, or not in time.
    """
    game, states = spec.make(), set[str]()

    def draw(task: Task, copy: int) -> bool:
        """Add the state of one start; tell whether another draw may give another."""
        what = f"{spec.identity}, task {task.key}, start"
        rng = environment_rng(evaluation_request(task, copy))
        before = _drawn_from(rng)
        states.add(guarded(what, limits.environment_seconds, partial(begun, game, task, rng)).state)
        return _drawn_from(rng) != before

    with on_duty(limits.environment_seconds):
        for task in (task for mode in modes for split in ("validation", "test") for task in spec.tasks(mode, split)):
            without_news = 0
            for copy in range(MOST_DRAWS):
                known, by_chance = len(states), draw(task, copy)
                without_news = without_news + 1 if len(states) == known else 0
                # Most games draw nothing at a start, and some take seconds for one.
                if not by_chance or without_news == DRAWS_WITHOUT_NEWS:
                    break
    return frozenset(states - {""})  # of a game that does not tell its states apart, nothing can be left out


DRAWS_WITHOUT_NEWS, MOST_DRAWS = 20, 200
"""Starts that are drawn of a held-out task whose `reset` draws; an evaluation plays the first of them."""


def _drawn_from(rng: np.random.Generator) -> tuple[object, int]:
    """Parts of a generator that change when something is drawn from it, or another one is made of it."""
    sequence: Any = rng.bit_generator.seed_seq
    return rng.bit_generator.state, sequence.n_children_spawned


def rows(
    dataset: str,
    episodes: Iterable[Episode],
    labels: Sequence[str],
    excluded: frozenset[str],
    rule: Rule = "choice_token",
    notes: Notes | None = None,
    renumbering: Renumbering | None = None,
) -> list[Row]:
    """The rows of one data set.

    Args:
        dataset: one of `DATASETS`, `LEXICAL_DATASETS` (the suffix does not matter: the caller chooses the episodes).
        episodes: annotated episodes.
        labels: the label texts of the policy's tokenizer.
        excluded: states that no row may be about.
        rule: how the policy's actions are scored: it answers with a label, or with an action's text.
        notes: reflections and labels in place of those that were noted during play (None: those); a row that lacks
            what it needs is left out.
        renumbering: make the copies of the rows in place of the rows (None: the rows).
    """
    part, note = dataset.removesuffix("_positive"), notes or as_played
    # Measured: docs/results/log.md, "a reflection must not contradict the label".
    agrees = part in LEXICAL_DATASETS
    noted = (
        (episode, index, note(episode, index))
        for episode in episodes
        for index, turn in enumerate(episode.turns)
        if turn.observation.state not in excluded
    )
    complete = [
        (episode, index, episode.turns[index], said, labels)
        for episode, index, said in noted
        if _is_complete(part, said, notes) and not (agrees and _contradicts(episode.turns[index], said))
    ]
    if renumbering is not None:
        complete = [
            (episode, index, *copy)
            for episode, index, original, noted_there, _ in complete
            for copy in renumbering.of(original, noted_there, labels)
        ]
    return [_row(part, episode, index, turn, said, shown, rule) for episode, index, turn, said, shown in complete]


def _is_complete(part: str, note: Note, notes: Notes | None) -> bool:
    """Tell whether a note has what a row of this data set is made from; an expert may have named no action."""
    has_text = notes is None or note.reflection is not None or part == "policy_plain"
    return has_text and (note.target is not None or part == "reflector")


def _contradicts(turn: Turn, note: Note) -> bool:
    """Tell whether the reflection ends in advice to do something else than the label, which can be done."""
    actions, advice = turn.observation.actions, recommended(note.reflection or "")
    return advice in actions and note.target is not None and advice != actions[note.target]


@dataclass(frozen=True)
class Renumbering:
    """Copies of rows in which the label's action has another number, so that a policy learns to read its reflection.

    From few rows it learns by heart which action follows which state instead (docs/results/autoexplore.md, "copies with
    other numbers").
    """

    copies: int
    """Copies of each row."""
    rng: np.random.Generator

    def of(self, turn: Turn, note: Note, labels: Sequence[str]) -> list[tuple[Turn, Note, Sequence[str]]]:
        """The turn, what is noted about it, and the labels of its list, once for each copy.

        Two actions of the list are in each other's places, and the labels are drawn from all there are, in their order:
        those behind the end of usual lists would hardly ever be answers. The state and all sentences of the
        reflection but the last keep their numbers, which are then wrong.
        """
        return [self._one(turn, note, labels) for _ in range(self.copies)]

    def _one(self, turn: Turn, note: Note, labels: Sequence[str]) -> tuple[Turn, Note, Sequence[str]]:
        order, text = list(turn.order), note.reflection
        here = next(place for place, at in enumerate(order) if at == note.target)
        there = int(self.rng.integers(len(order)))
        order[here], order[there] = order[there], order[here]
        shown = self._labels(len(order), labels)
        # Where labels are no numbers, the mark of an action in the list is its index, which stays.
        if text is not None and numbered(text) and all(label.isdigit() for label in labels):
            actions = turn.observation.actions
            # The label's own place last: another action of the list may have the same text.
            numbers = {actions[at]: int(label) for at, label in zip(order, shown, strict=True)}
            text = with_right_number(text, numbers | {actions[order[there]]: int(shown[there])})
        return replace(turn, order=tuple(order)), replace(note, reflection=text), shown

    def _labels(self, count: int, labels: Sequence[str]) -> Sequence[str]:
        """As many labels as there are actions; low ones stay more frequent, as they are while playing."""
        bound = int(self.rng.integers(count, len(labels) + 1))
        return [labels[place] for place in sorted(self.rng.choice(bound, count, replace=False).tolist())]


def plain_text(prompts: Iterable[Row]) -> list[Row]:
    """Prompts as text to be read: nothing is asked, nothing is answered."""
    # Without a prompt every token is a target.
    return [replace(row, prompt="", completion=row.prompt) for row in prompts]


def short_rows(table: Sequence[Row], most: int) -> list[Row]:
    """The rows whose prompts are short.

    Args:
        table: rows of the policy.
        most: characters of a prompt.

    Raises:
        ConfigError: there is none, or no row at all.
    """
    found = [row for row in table if len(row.prompt) <= most]
    if not table:
        raise ConfigError("data.reading: there is no row to read. Raise data.reading_starts, or set it to 0.")
    if not found:
        shortest = min(len(row.prompt) for row in table)
        raise ConfigError(
            f"data.reading_characters: no prompt has {most} characters or fewer, the shortest has "
            f"{shortest}. Raise it, or set data.reading = 'text'."
        )
    return found


def exercises(episodes: Iterable[Episode], excluded: frozenset[str], rng: np.random.Generator) -> list[Row]:
    """Exercises in reading prompts: a randomly named action of a list is to be chosen, under the rule `line_end`.

    They show the beginning of a state and a few of its actions only: what is learned in minutes from short texts would
    take hours from long ones, and carries over.

    Args:
        episodes: whose states and lists are read; what was chosen in them is not looked at.
        excluded: states that no row may be about.
        rng: draws the actions and the lengths.
    """
    return [
        _exercise(episode, number, rng)
        for episode in episodes
        for number, turn in enumerate(episode.turns)
        if turn.observation.state not in excluded
    ]


FEW_WORDS, FEW_ACTIONS = 40, 8
"""Most words of the state and most actions in an exercise."""


def _exercise(episode: Episode, number: int, rng: np.random.Generator) -> Row:
    turn = episode.turns[number]
    # Whole prompts stayed at chance for minutes, and a third of them held up the rest (docs/results/log.md).
    text = " ".join(turn.observation.text.split()[: int(rng.integers(1, FEW_WORDS + 1))])
    order = tuple(rng.permutation(turn.order).tolist()[: int(rng.integers(2, FEW_ACTIONS + 1))])
    names = [turn.observation.actions[index] for index in order]
    wanted = int(rng.integers(len(names)))
    prompt = exercise_prompt(View(replace(turn.observation, text=text), order), names[wanted])
    # The line and not the name, which a mark may follow.
    return Row(prompt, parts_of(prompt)[1][wanted], episode.task.key, number, turn.observation.state, "positive")


def _row(part: str, episode: Episode, index: int, turn: Turn, note: Note, labels: Sequence[str], rule: Rule) -> Row:
    repairs = index > 0 and _perturbed(episode.turns[index - 1])
    kind: Kind = "negative" if repairs else "positive"
    # The plain policy must not see a reflection, whatever was noted during play.
    view = View(turn.observation, turn.order, note.reflection if part != "policy_plain" else None)
    if part == "reflector":
        prompt, completion = reflection_prompt(view), note.reflection or ""
    elif note.target is None:
        raise ValueError(f"the player {turn.decision.player!r} recommends no action; its episodes demonstrate nothing")
    elif rule == "choice_token":
        prompt, completion = policy_prompt(view, labels), labels[turn.order.index(note.target)]
    elif rule == "line_end":
        prompt = lines_prompt(view)
        completion = parts_of(prompt)[1][turn.order.index(note.target)]
    else:
        prompt, completion = action_text_prompt(view), turn.observation.actions[note.target]
    return Row(prompt, completion, episode.task.key, index, turn.observation.state, kind)


def _perturbed(turn: Turn) -> bool:
    return turn.decision.index != turn.decision.target


def shuffled(items: Sequence[Row], rng: np.random.Generator) -> list[Row]:
    """The rows in a random order."""
    return [items[i] for i in rng.permutation(len(items))]
