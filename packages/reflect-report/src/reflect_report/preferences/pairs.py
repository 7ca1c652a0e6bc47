"""Pairs to be compared: episodes from the same start, and actions in one state of an episode.

Episodes come from the evaluation of a run where it played the wanted split. Else the run's players play them, once, and
they are kept beside the preferences. Which pairs are made, and which side stands left, follows from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflect_report.preferences.records import (
    ActionSide,
    EpisodeSide,
    Situation,
    hash_of_action,
    hash_of_episode,
    hash_of_pair,
)
from reflect_rl.envs.base import EnvSpec, HasSolver
from reflect_rl.errors import RunFolderError, UserError
from reflect_rl.store import append_jsonl, read_jsonl
from reflect_rl.types import NO_ACTION, Episode, Task, Turn, episode_from_json, seed_for, stream, to_json

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

Value = Callable[[Task, Situation, int], float | None]
"""True value of an action; None where it is not known."""
LONGEST = 10_000
"""Turns after which a solver that plays on counts as lost."""


@dataclass(frozen=True, slots=True)
class Played:
    """An episode, and who played it."""

    episode: Episode
    method: str
    unit: str
    decoding: str

    def side(self) -> EpisodeSide:
        """The episode as one side of a pair."""
        return EpisodeSide(
            sha256=hash_of_episode(self.episode),
            method=self.method,
            unit=self.unit,
            decoding=self.decoding,
            episode=self.episode,
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides from one start, in the order in which they are shown."""

    task: Task
    left: EpisodeSide | ActionSide
    right: EpisodeSide | ActionSide
    situation: Situation | None = None

    @property
    def hash(self) -> str:
        """Hash of the pair, whatever the order."""
        return hash_of_pair(self.left.sha256, self.right.sha256)

    @property
    def mark(self) -> str:
        """Start and what was done on either side, whatever the order; draws about the pair follow from it."""
        return str([self.task.key, *sorted((_mark(self.left), _mark(self.right)))])


def evaluated_episodes(run: Path, split: str) -> list[Played]:
    """The evaluated episodes of a run that began at a task of a split; none where it played another one.

    Raises:
        RunFolderError: a file is damaged.
    """
    found = []
    for path in sorted(run.glob("starts-*/seed-*/evaluation/*/episodes.jsonl")):
        unit = path.parents[2].relative_to(run).as_posix()
        for row in read_jsonl(path, "Evaluate again with `reflect-rl eval`."):
            played = _played(row | {"method": path.parent.name, "unit": unit}, path)
            if played.episode.task.split == split:
                found.append(played)
    return found


def _played(row: dict[str, Any], path: Path) -> Played:
    try:
        return Played(episode_from_json(row), row["method"], row["unit"], row["decoding"])
    except (KeyError, TypeError):
        raise RunFolderError(f"{path}: a line is no episode. Delete the file, and play again.") from None


def played_episodes(
    config: RunConfig, path: Path, split: str, methods: Sequence[str], starts: int, seed: int
) -> list[Played]:
    """Episodes that the players of a run play, sampled; what the same players have played before is not repeated.

    Args:
        config: of the run.
        path: file that keeps them; episodes of other runs, players and seeds in it stay, and are left out.
        split: whose tasks they begin at.
        methods: who plays; a single one plays every start twice.
        starts: number of starts in each mode.
        seed: of the episodes.

    Raises:
        RunFolderError: a method is not trained yet, or the file is damaged.
        UserError: the split has no task.
    """
    from reflect_rl.rollout import Request, play
    from reflect_rl.runs.evaluate import load_players
    from reflect_rl.runs.played import players_mark
    from reflect_rl.runs.stages import EvaluationStage, missing_needs

    kept = read_jsonl(path, "Delete it.", appended=True) if path.exists() else []
    known = {
        (row.get("players"), one.episode.task.unique_key, one.episode.seed): one
        for row, one in ((row, _played(row, path)) for row in kept)
    }
    # From one start there must be two to compare.
    repetitions = 1 if len(methods) > 1 else 2
    tasks = [task for mode in config.env.modes for task in _some(config.env.tasks(mode, split), starts, seed)]
    if not tasks:
        raise UserError(f"{config.environment.name} has no {split} task. Choose another --split.")
    path.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for job in (job for job in EvaluationStage().plan(config) if job.name in methods):
        # Without a mark nothing is known, and loading the players says what is not trained yet.
        mark = "" if missing_needs(job) else players_mark(job, config)
        requests = [
            Request(task, seed_for(seed, "prefer", job.name, repetition, task.key))
            for repetition in range(repetitions)
            for task in tasks
        ]
        places = {(mark, request.task.unique_key, request.seed): request for request in requests}
        if left := [request for place, request in places.items() if place not in known]:
            episodes = play(
                config.env,
                left,
                *load_players(config, job.unit, job.name, "sampled"),
                shuffle_labels=config.prompt.shuffle_labels,
                limits=config.limits,
            )
            fresh = [Played(episode, job.name, job.unit.name, "sampled") for episode in episodes]
            append_jsonl(path, [to_json(one.episode) | _origin(one) | {"players": mark} for one in fresh])
            known |= {(mark, one.episode.task.unique_key, one.episode.seed): one for one in fresh}
        # An episode that failed may be missing.
        found += [known[place] for place in places if place in known]
    return found


def _origin(played: Played) -> dict[str, str]:
    return {"method": played.method, "unit": played.unit, "decoding": played.decoding}


def _some(tasks: Sequence[Task], count: int, seed: int) -> list[Task]:
    order = stream(seed, "prefer", "starts").permutation(len(tasks))
    return [tasks[int(k)] for k in order[:count]]


def episode_pairs(episodes: Iterable[Played], seed: int) -> Iterator[Pair]:
    """All pairs of different episodes from the same start, each start once before any comes twice.

    Two episodes with the same states and actions are one: there is nothing to choose between them.
    """
    groups: dict[tuple[str, str], dict[str, Played]] = {}
    for played in episodes:
        if played.episode.turns:
            # By what is seen and done, so that a sampled and a greedy game that went alike make no pair.
            start = f"{played.episode.task.key}\x1f{played.episode.turns[0].observation.text}"
            groups.setdefault((start, played.episode.task.mode), {}).setdefault(_course(played.episode), played)
    rows = []
    for (start, _), group in sorted(groups.items()):
        sides = [group[course].side() for course in sorted(group)]
        pairs = list(combinations(sides, 2))
        order = stream(seed, "prefer", "pairs", start).permutation(len(pairs))
        rows.append([pairs[int(k)] for k in order])
    starts = stream(seed, "prefer", "order").permutation(len(rows))
    for round_ in range(max(map(len, rows), default=0)):
        for k in starts:
            if round_ < len(rows[int(k)]):
                first, second = rows[int(k)][round_]
                yield placed(Pair(first.episode.task, first, second), seed)


def placed(pair: Pair, seed: int) -> Pair:
    """The pair with its sides in a drawn order; the same for the same pair and seed."""
    # By what was done: the order must follow neither from who played nor from the order in files.
    first, second = sorted((pair.left, pair.right), key=_mark)
    turned = stream(seed, "prefer", "side", pair.mark).random() < 0.5
    return Pair(pair.task, second if turned else first, first if turned else second, pair.situation)


def _mark(side: EpisodeSide | ActionSide) -> str:
    return _course(side.episode) if isinstance(side, EpisodeSide) else side.sha256


def _course(episode: Episode) -> str:
    """Texts that were seen and actions that were taken, and no more.

    An episode's hash also covers probabilities, whose last digits differ between machines and numbers of processes; no
    draw may follow from these.
    """
    return str([(turn.observation.text, turn.decision.index) for turn in episode.turns])


def action_pairs(episodes: Iterable[Played], seed: int, value: Value | None) -> Iterator[Pair]:
    """Two actions in one state of each episode: the one that was chosen, and another.

    Args:
        episodes: where states are taken from.
        seed: of the choice of turns and actions.
        value: true value of an action, where the game tells it.
    """
    made = set()
    for played in episodes:
        turns = [k for k, turn in enumerate(played.episode.turns) if _can_compare(turn)]
        if not turns:
            continue
        rng = stream(seed, "prefer", "turn", played.episode.task.key, played.episode.seed, _course(played.episode))
        number = turns[int(rng.integers(len(turns)))]
        turn = played.episode.turns[number]
        others = [k for k in range(len(turn.observation.actions)) if k != turn.decision.index]
        other = others[int(rng.integers(len(others)))]
        before = tuple(earlier.decision.index for earlier in played.episode.turns[:number])
        situation = Situation(
            actions_before=before,
            observation=turn.observation,
            reflection=turn.reflection,
            seed=played.episode.seed,
        )
        task = played.episode.task
        sides = [
            ActionSide(
                sha256=hash_of_action(task, situation, index),
                index=index,
                value=None if value is None else value(task, situation, index),
            )
            for index in (turn.decision.index, other)
        ]
        pair = placed(Pair(task, sides[0], sides[1], situation), seed)
        # Two episodes may go alike up to the same state.
        if pair.hash not in made:
            made.add(pair.hash)
            yield pair


def _can_compare(turn: Turn) -> bool:
    return turn.decision.index != NO_ACTION and len(turn.observation.actions) > 1


def value_by_solver(spec: EnvSpec) -> Value | None:
    """A function that plays an action and lets the solver play on; its return is the action's value.

    It is Q(s, a) of the solver's policy, without discount. None for a game without a solver.
    """
    if spec.capability(HasSolver) is None:
        return None

    def value(task: Task, situation: Situation, index: int) -> float | None:
        from reflect_rl.envs.base import idle_step

        game = spec.make()
        observation = game.reset(task, stream(situation.seed, "environment"))
        for action in situation.actions_before:
            if action >= len(observation.actions):
                return None
            step = game.step(action) if action != NO_ACTION else idle_step(game, observation)
            observation = step.observation
        shown = situation.observation
        if (observation.text, observation.actions) != (shown.text, shown.actions):
            # A game that hears reflections, or draws from elsewhere, is in another state now, and may list other
            # actions.
            return None
        step = game.step(index)
        total, turns = step.reward, 0
        while not (step.terminated or step.truncated) and turns < LONGEST:
            assert isinstance(game, HasSolver)  # noqa: S101 (the capability was asked for above)
            oracle = game.oracle()
            if oracle is None:
                return None
            step = game.step(oracle.best)
            total, turns = total + step.reward, turns + 1
        # Rounded: sums of the same rewards in another order are the same value.
        return round(total, 9)

    return value
