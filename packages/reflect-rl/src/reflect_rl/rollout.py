"""The two players as the loop knows them, and the only loop that steps a game.

A player has one batched method, so that a language model and a random player look alike.

Many games are played at once; a finished one is replaced at once by the next in line, so that no forward pass is
padding. Each episode draws from its own random streams, so the number of games changes nothing but rounding.

An environment that fails or hangs, a reward that is no finite number, and a player that answers what cannot be played
stop the play with an error that names them, before anything is learnt from. A player that speaks (`Decision.answer`)
may name no action: its turn passes without one, at the price of an ordinary step, and counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from reflect_rl.envs.base import EnvSpec, HasSolver, HasTeacher, HearsReflections, TextEnv, VariesTexts, idle_step
from reflect_rl.errors import FaultyEnvironmentError, FaultyPlayerError, PlayerTimeoutError
from reflect_rl.types import (
    NO_ACTION,
    Decision,
    Episode,
    Observation,
    Oracle,
    Step,
    Task,
    Turn,
    View,
    seed_for,
    stream,
)
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits, about_exit, guarded, on_duty, watch

if TYPE_CHECKING:
    import numpy as np

Result = TypeVar("Result")

SLOW_PLAYER = "Is its server at work? Raise limits.player_seconds (0 = no limit), or lower num_envs."


@runtime_checkable
class Reflector(Protocol):
    """The reflection player R: reads states (never the action list) and writes one short text for each."""

    name: str
    sees_oracle: bool

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """Write a reflection for each view, in order; None where the player writes nothing."""


@runtime_checkable
class Policy(Protocol):
    """The policy player π: picks one admissible action per view."""

    name: str
    sees_oracle: bool

    # A generator for each view, so that a decision does not depend on the other views of its batch.
    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """Choose an action for each view; `rngs[i]` is the only randomness that decision i may use."""


@runtime_checkable
# Separate from the two above, because most players have no server and need not say so.
class RunsElsewhere(Protocol):
    """A player behind a server: results name it, since its weights are in no run folder."""

    @property
    def origin(self) -> Mapping[str, str | int]:
        """Fields of `reflect_rl.evaluation.evaluate.RemotePlayers`: host, model, form of its answers."""

    @property
    def model_name(self) -> str:
        """Name of the language model there."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, price and seconds of a player's answers since `Metered.reset_usage`.

    An answer that is kept from before counts as what it took when it was asked.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    """Price in the currency of the configured prices."""
    seconds: tuple[float, ...] = ()
    """Seconds that each answer took."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Requests that a player has sent since it was made, and their price; what was kept from before is not sent."""

    requests: int
    cost: float


@runtime_checkable
class Metered(Protocol):
    """A player whose answers take tokens or money, which results report."""

    @property
    def usage(self) -> Usage:
        """Tokens, price and seconds of its answers since the last reset."""

    @property
    def bill(self) -> Bill:
        """Requests that it has sent since it was made, and their price."""

    def reset_usage(self) -> None:
        """Count from zero: a player is used for several evaluations in a row."""


class RandomPolicy:
    """Picks an admissible action uniformly."""

    name = "random"
    sees_oracle = False

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """A uniform choice for each view."""
        return [self._decide(len(view.observation.actions), rng) for view, rng in zip(views, rngs, strict=True)]

    def _decide(self, count: int, rng: np.random.Generator) -> Decision:
        return Decision(int(rng.integers(count)), self.name, (-math.log(count),) * count)


class VariedPolicy:
    """Picks a first word uniformly, then an action that begins with it: rare kinds of actions come up often."""

    name = "varied"
    sees_oracle = False

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """A choice for each view."""
        return [self._decide(view.observation.actions, rng) for view, rng in zip(views, rngs, strict=True)]

    def _decide(self, actions: Sequence[str], rng: np.random.Generator) -> Decision:
        words = [action.partition(" ")[0] for action in actions]
        often = Counter(words)
        shares = [1 / (len(often) * often[word]) for word in words]
        return Decision(int(rng.choice(len(actions), p=shares)), self.name, tuple(map(math.log, shares)))


class NoReflector:
    """Writes nothing: the Analyze part of the prompt is left out."""

    name = "none"
    sees_oracle = False

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        """None for every view."""
        # None and not an empty text: an empty reflection would still put the Analyze mark into the prompt.
        return [None] * len(views)


@dataclass(frozen=True, slots=True)
class Request:
    """An episode to be played; `seed` alone determines all its randomness."""

    task: Task
    seed: int


def evaluation_request(task: Task, copy: int) -> Request:
    """The episode of a task that evaluations play as its first (`copy` = 0), second, ...

    No seed of a training takes part: all of them are measured on the same episodes.
    """
    return Request(task, seed_for(0, "evaluation", task.key, copy))


def environment_rng(request: Request) -> np.random.Generator:
    """The generator of an episode's game, apart from those of its players."""
    return stream(request.seed, "environment")


def shown(observation: Observation, most: int) -> Observation:
    """The observation of a game, checked.

    Args:
        observation: what `reset` or `step` shows.
        most: actions that a state may list.

    Raises:
        TypeError: it is no Observation, or holds something else than texts.
        ValueError: it lists no action or too many, or a text is no UTF-8.
    """
    if not isinstance(observation, Observation):
        raise TypeError(f"reset and step must show an Observation, and no {type(observation).__name__}")
    count = len(observation.actions)
    if not count:
        raise ValueError("no action is admissible, and the game goes on")
    if count > most:
        raise ValueError(f"{count} actions are listed, more than max_actions = {most} announces")
    state = observation.state
    if not isinstance(state, str):
        kind = type(state).__name__
        raise TypeError(f"the state {state!r:.100} is no text but of type {kind}: give str(...), or leave it out")
    for text in (observation.text, state, *observation.actions):
        if not isinstance(text, str):
            raise TypeError(f"{text!r:.100} is no text but of type {type(text).__name__}: give str(...)")
        # Half a character, as in names of files that are no UTF-8, can be neither tokenised nor written.
        if not text.isascii():
            text.encode()
    return observation


def begun(game: TextEnv, task: Task, rng: np.random.Generator) -> Observation:
    """First observation of a task, of a game that nobody plays; errors as of `shown`."""
    return shown(game.reset(task, rng), game.max_actions)


class _Slot:
    """A game among those that are played at once, with the episode in progress.

    Args:
        rollout: what all slots share.
        request: the first episode, which messages about the making of the environment name.
    """

    def __init__(self, rollout: _Rollout, request: Request) -> None:
        self.rollout = rollout
        self._expect(request)
        game = self._guarded("making the environment", rollout.spec.make)
        self.game: TextEnv = game
        # Looked up once: `isinstance` of a protocol compares all its names, too slow for every turn.
        self.solver = game if rollout.asks_oracle and isinstance(game, HasSolver) else None
        self.teacher = game if rollout.sees_oracle and isinstance(game, HasTeacher) else None
        self.hearer = game if isinstance(game, HearsReflections) else None

    def begin(self, position: int, request: Request) -> None:
        self.position = position
        self._expect(request)
        # Streams are named, so an episode draws the same numbers whichever slot plays it.
        self.policy_rng = stream(request.seed, "policy")
        self.label_rng = stream(request.seed, "labels")
        self._guarded("reset", self._reset)

    def _expect(self, request: Request) -> None:
        self.request = request
        self.turns: list[Turn] = []
        self.name = f"{self.rollout.spec.identity}, task {request.task.key} (seed {request.seed})"

    def _reset(self) -> None:
        # A stream of the environment's own: players that draw more or less change nothing in the game.
        self._show(self.game.reset(self.request.task, environment_rng(self.request)))

    def _show(self, observation: Observation) -> None:
        """Keep the state of the next turn, and what the solver knows about it where a player is to see that."""
        count = len(shown(observation, self.game.max_actions).actions)
        self.observation = observation
        self.order = (
            tuple(self.label_rng.permutation(count).tolist()) if self.rollout.shuffle_labels else tuple(range(count))
        )
        # Asked only where somebody needs it: solvers search, some longer than the game takes for a step.
        self.oracle = None if self.solver is None else _known(self.solver.oracle(), count)
        self.lesson = None if self.teacher is None else _lesson(self.teacher.teach())

    def hear(self, reflection: str | None) -> None:
        """Let a game list further actions because of the reflection; the policy sees those."""
        hearer = self.hearer
        if reflection is None or hearer is None:
            return
        self._guarded("taking up the reflection", lambda: self._take_up(hearer.hear(reflection)))

    def _take_up(self, observation: Observation) -> None:
        before = self.observation
        # Shown again only if it is another one: showing draws the order of the labels.
        if observation is before:
            return
        self._show(observation)
        # A reflection belongs to the text that it was written about; under another one it could not be learned from.
        if observation.text != before.text:
            raise ValueError(
                f"hear changed the text {before.text!r:.100} to {observation.text!r:.100}: a reflection may add "
                "actions, and the text must stay"
            )

    def view(self, player: Reflector | Policy, reflection: str | None = None) -> View:
        if not player.sees_oracle:
            return View(self.observation, self.order, reflection)
        return View(self.observation, self.order, reflection, self.oracle, self.lesson)

    def step(self, reflection: str | None, decision: Decision) -> Episode | None:
        """Play one turn; the episode when it ends the game."""
        left = self.oracle.turns_left if self.oracle is not None and self.rollout.notes_turns_left else None
        turn = Turn(self.observation, self.order, reflection, decision, 0.0, left)
        return self._guarded(f"action {turn.action!r}", lambda: self._step(turn))

    def _step(self, turn: Turn) -> Episode | None:
        index = turn.decision.index
        answer = idle_step(self.game, self.observation) if index == NO_ACTION else self.game.step(index)
        if not isinstance(answer, Step):
            raise TypeError(f"step must return a Step, and no {type(answer).__name__}")
        if isinstance(answer.reward, str):
            raise TypeError(f"the reward {answer.reward!r} is a text: give a number")
        reward = float(answer.reward)
        if not math.isfinite(reward):
            raise ValueError(f"the reward is {reward}")
        turn = replace(turn, reward=reward)
        # A turn without an action counts, too: a player that never names one must come to an end.
        truncated = answer.is_cut_off(len(self.turns) + 1, self.rollout.max_episode_steps)
        # The verdict is that of the last turn, so a win before it would count as a loss.
        if answer.success and not (answer.terminated or truncated):
            raise ValueError("success=True, and the game goes on: give terminated=True, too")
        if answer.terminated or truncated:
            self.turns.append(turn)
            task, seed, identity = self.request.task, self.request.seed, self.rollout.spec.identity
            # Games of NumPy give its own booleans, which JSON does not know.
            ends = bool(answer.terminated), bool(truncated), bool(answer.success)
            texts = dict(self.game.text_settings()) if isinstance(self.game, VariesTexts) else {}
            return Episode(task, tuple(self.turns), *ends, seed, identity, texts)
        self._show(answer.observation)
        self.turns.append(turn)
        return None

    def _guarded(self, doing: str, act: Callable[[], Result]) -> Result:
        what = f"{self.name}, turn {len(self.turns) + 1}, {doing}"
        return guarded(what, self.rollout.limits.environment_seconds, act)


@dataclass(frozen=True, slots=True)
class _Observers:
    """Callbacks for what happens."""

    on_episode: Callable[[Episode], None] | None
    on_turn: Callable[[Turn], None] | None
    on_failure: Callable[[Request, Exception], None] | None


class _Rollout:
    """State that all slots share: the environment, its limits, the waiting requests, and the episodes that failed."""

    def __init__(
        self,
        spec: EnvSpec,
        requests: Iterable[Request],
        limits: Limits,
        *,
        max_episode_steps: int | None,
        shuffle_labels: bool,
        sees_oracle: bool,
        notes_turns_left: bool,
        observers: _Observers,
    ) -> None:
        # Requests are numbered, because episodes end in another order than they begin.
        self.spec, self.waiting, self.limits, self.observers = spec, enumerate(requests), limits, observers
        self.max_episode_steps = max_episode_steps or spec.max_episode_steps
        self.shuffle_labels, self.notes_turns_left, self.sees_oracle = shuffle_labels, notes_turns_left, sees_oracle
        self.asks_oracle = sees_oracle or notes_turns_left
        if notes_turns_left:
            spec.needed(HasSolver, "counting the turns that are left")
        self.finished: dict[int, Episode] = {}
        self.failures: list[FaultyEnvironmentError] = []

    def turn(self, slot: _Slot, reflection: str | None, decision: Decision) -> _Slot | None:
        """Play one turn; the slot for the next one, where there is one to be played."""
        try:
            episode = slot.step(reflection, decision)
        except FaultyEnvironmentError as error:
            self.leave_out(slot.request, error)
            return self.next_episode()
        if self.observers.on_turn is not None:
            self.observers.on_turn(slot.turns[-1])
        if episode is None:
            return slot
        self.finished[slot.position] = episode
        if self.observers.on_episode is not None:
            self.observers.on_episode(episode)
        return self.next_episode(slot)

    def next_episode(self, slot: _Slot | None = None) -> _Slot | None:
        """A slot in which the next request has begun (None: a new one); None when no request is waiting."""
        for position, request in self.waiting:
            try:
                slot = slot or _Slot(self, request)
                slot.begin(position, request)
            except FaultyEnvironmentError as error:
                self.leave_out(request, error)
                # The game may be in any state after a failure, so the next episode gets a new one.
                slot = None
            else:
                return slot
        return None

    def leave_out(self, request: Request, error: FaultyEnvironmentError) -> None:
        """Count an episode that failed; it is an error when there are too many."""
        self.failures.append(error)
        # Where none may fail, its own message says more than a list of one.
        if not self.limits.failed_episodes:
            raise error
        if self.observers.on_failure is not None:
            self.observers.on_failure(request, error)
        if len(self.failures) > self.limits.failed_episodes:
            raise self.too_many()

    def too_many(self) -> FaultyEnvironmentError:
        return too_many([str(error) for error in self.failures], self.limits)


def too_many(messages: Sequence[str], limits: Limits) -> FaultyEnvironmentError:
    """The error that tells of all episodes that failed."""
    listed = "\n".join(f"- {message}" for message in messages)
    return FaultyEnvironmentError(
        f"{len(messages)} episodes failed, more than limits.failed_episodes = {limits.failed_episodes} allows, or all "
        f"there were:\n{listed}"
    )


def play(  # noqa: PLR0913 (each part of a game is a part of the call)
    spec: EnvSpec,
    requests: Iterable[Request],
    reflector: Reflector,
    policy: Policy,
    *,
    num_envs: int = 64,
    max_episode_steps: int | None = None,
    shuffle_labels: bool = False,
    note_turns_left: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_episode: Callable[[Episode], None] | None = None,
    on_turn: Callable[[Turn], None] | None = None,
    on_failure: Callable[[Request, Exception], None] | None = None,
) -> list[Episode]:
    """Play all requests and return their episodes in the order of the requests.

    Args:
        spec: the environment.
        requests: what to play.
        reflector: the reflection player; never sees the action list.
        policy: the policy player.
        num_envs: games played at once.
        max_episode_steps: turns until truncation (default: the environment's).
        shuffle_labels: number the actions in a random order in every state.
        note_turns_left: ask the solver at every turn how far it is, for `Turn.turns_left`; players do not see it.
        limits: how long the environment and the players may take, and how many episodes may fail; those are not
            returned, and the others are what they would have been without them.
        on_episode: called with each episode as it ends.
        on_turn: called with each turn as it is played.
        on_failure: called with each episode that failed and is left out.

    Raises:
        FaultyEnvironmentError: an environment failed, hung (EnvironmentTimeoutError) or gave a reward that is no finite
            number, in more episodes than may fail, or in all.
        FaultyPlayerError: a player hung (PlayerTimeoutError), answered what cannot be played, or called `sys.exit`.
        UserError: `note_turns_left` was asked for, and the game has no solver.
    """
    rollout = _Rollout(
        spec,
        requests,
        limits,
        max_episode_steps=max_episode_steps,
        shuffle_labels=shuffle_labels,
        sees_oracle=reflector.sees_oracle or policy.sees_oracle,
        notes_turns_left=note_turns_left,
        observers=_Observers(on_episode, on_turn, on_failure),
    )
    with on_duty(limits.environment_seconds, limits.player_seconds):
        slots: list[_Slot] = []
        while len(slots) < num_envs and (slot := rollout.next_episode()) is not None:
            slots.append(slot)
        while slots:
            answers = _answers(slots, reflector, policy, limits.player_seconds)
            # The order of the slots is kept, so that a repeated run has the same batches.
            going_on = [rollout.turn(slot, *answer) for slot, answer in zip(slots, answers, strict=True)]
            slots = [slot for slot in going_on if slot is not None]
    # Nothing was played: no result, even where failures are allowed.
    if rollout.failures and not rollout.finished:
        raise rollout.too_many()
    return [rollout.finished[position] for position in sorted(rollout.finished)]


def _answers(
    slots: Sequence[_Slot], reflector: Reflector, policy: Policy, seconds: float
) -> list[tuple[str | None, Decision]]:
    """The reflection and the decision of each slot."""
    count = len(slots)
    reflections = written(reflector, [blind(slot.view(reflector)) for slot in slots], seconds)
    for slot, text in zip(slots, reflections, strict=True):
        slot.hear(text)
    # Made now, because the game may have listed further actions after the reflection.
    views = [slot.view(policy, text) for slot, text in zip(slots, reflections, strict=True)]
    with _asked(f"the policy {policy.name!r} ({count} views)", seconds):
        decisions = policy.decide(views, [slot.policy_rng for slot in slots])
    if len(decisions) != count:
        raise FaultyPlayerError(f"the policy {policy.name!r} made {len(decisions)} decisions for {count} views.")
    checked = [_checked(policy, view, decision) for view, decision in zip(views, decisions, strict=True)]
    return list(zip(reflections, checked, strict=True))


@contextmanager
def _asked(what: str, seconds: float) -> Iterator[None]:
    """Watch a player that answers."""
    try:
        with watch(what, seconds, PlayerTimeoutError, SLOW_PLAYER):
            yield
    except SystemExit as error:
        raise FaultyPlayerError(f"{what}: {about_exit(error)}") from error


def written(reflector: Reflector, views: Sequence[View], seconds: float = 0) -> list[str | None]:
    """The reflections of a player, each of them a text that can be read and written, or None.

    Args:
        reflector: the player.
        views: what it may see, one for each reflection.
        seconds: limit, 0 = none.

    Raises:
        FaultyPlayerError: it hung (PlayerTimeoutError), called `sys.exit`, or wrote something else.
    """
    who = f"the reflection player {reflector.name!r}"
    with _asked(f"{who} ({len(views)} views)", seconds):
        answer: object = reflector.reflect(views)
        # A text is a sequence of texts, too, and its letters would be taken for reflections.
        texts = list(answer) if isinstance(answer, Iterable) and not isinstance(answer, str) else None
    if texts is None:
        raise FaultyPlayerError(f"{who} gave {answer!r:.100}, no list. Return a list with a text for each view.")
    if len(texts) != len(views):
        raise FaultyPlayerError(f"{who} wrote {len(texts)} texts for {len(views)} views.")
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise FaultyPlayerError(
                f"{who} wrote {text!r:.100} ({type(text).__name__}), which is no text. Return str(...), or None to "
                "write nothing."
            )
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            # Half a character can be neither tokenised nor written.
            raise FaultyPlayerError(
                f"{who} wrote {text!r:.100}, which is no UTF-8 text: {error.reason}. Replace such characters."
            ) from None
    return texts


def _checked(policy: Policy, view: View, decision: Decision) -> Decision:
    """The decision with Python's own numbers: players of NumPy give its numbers, which JSON does not know."""
    if not isinstance(decision, Decision) or not isinstance(decision.index, Integral):
        raise FaultyPlayerError(
            f"the policy {policy.name!r} decided {decision!r:.200}. Give a Decision for each view, whose index "
            "is a whole number."
        )
    count, log_probs = len(view.observation.actions), decision.log_probs
    # Only a player that speaks can fail to name an action; of any other it is a fault.
    says_nothing = decision.index == NO_ACTION and decision.answer is not None
    if not (0 <= decision.index < count or says_nothing):
        raise FaultyPlayerError(
            f"the policy {policy.name!r} chose action {decision.index} in the state {view.observation.state!r}, which "
            f"lists actions 0 to {count - 1}."
        )
    # A single nan makes the sum nan; -inf is legal.
    if log_probs is not None and (len(log_probs) != count or math.isnan(sum(log_probs))):
        raise FaultyPlayerError(
            f"the policy {policy.name!r} gave the log-probabilities {list(log_probs)} to the {count} actions of the "
            f"state {view.observation.state!r}. Where they are nan, its weights or its logits are no longer numbers."
        )
    if type(decision.index) is int and (log_probs is None or type(log_probs[0]) is float):
        return decision
    numbers = None if log_probs is None else tuple(float(value) for value in log_probs)
    return replace(decision, index=int(decision.index), log_probs=numbers)


def _known(oracle: Oracle | None, count: int) -> Oracle | None:
    """Check a solver's words about a state with `count` actions: they can mean some of these alone."""
    if oracle is None:
        return None
    if not isinstance(oracle, Oracle):
        raise TypeError(f"oracle must return an Oracle or None, and no {type(oracle).__name__}")
    explorer = () if oracle.explorer is None else (oracle.explorer,)
    named = (oracle.best, *oracle.optimal, *oracle.safe, *explorer)
    if not all(0 <= index < count for index in named):
        raise ValueError(f"oracle names the actions {sorted(set(named))}, and the state lists 0 to {count - 1}")
    return oracle


def _lesson(text: str) -> str:
    """Check that a teacher's words about a state are a text."""
    if not isinstance(text, str):
        raise TypeError(f"teach must return a text, and no {type(text).__name__}")
    return text


def blind(view: View) -> View:
    """The view without its action list: the reflection player reads the state only (Reflect-RL, section 4)."""
    return replace(view, observation=replace(view.observation, actions=()), order=())


def failure_row(request: Request, error: Exception) -> dict[str, Any]:
    """An episode that was left out, as a JSON object."""
    task = request.task
    return {
        "task": task.key,
        "mode": task.mode,
        "seed": request.seed,
        "error": type(error).__name__,
        "message": str(error),
    }
