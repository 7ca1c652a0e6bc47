"""ALFWorld: household tasks in text, on the native engine or in TextWorld.

With `state = "raw"` the player sees the task, the opening and the last answers of the game, word for word
(`transcript.py`). With `state = "notes"` it sees what our code makes of all answers: where it is, what it holds, what
it has found and searched, the last command and the game's answer. Both come from the game's texts alone (`memory.py`),
so both engines give the same states. Actions are the admissible commands in the order of the game. The specification is
`docs/guides/alfworld.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np
from pydantic import Field, model_validator

from alfworld_native.engine import Game, State, Step
from alfworld_native.experts import best_commands, position_of, turns_left
from alfworld_native.explorer import advised
from alfworld_native.handcoded import HandcodedExpert
from alfworld_native.hindsight import Before, drawn_sentence, fitting_goals, retold
from alfworld_native.memory import Memory, Trail
from alfworld_native.plugin.errors import translated_errors
from alfworld_native.plugin.games import (
    MODES,
    HouseholdConfig,
    content_of,
    game_of,
    household_tasks,
    mode_of,
    record_of,
)
from alfworld_native.plugin.measures import household_measures
from alfworld_native.record import GameRecord
from alfworld_native.reflections import goal_text, reflect, reflection_text
from alfworld_native.scene import Scene, read_scene, scene_of, write_scene
from alfworld_native.transcript import Transcript
from reflect_rl.config import EnvironmentConfig
from reflect_rl.envs.base import HasStateTeacher, TellsHindsight, TextEnv, require_known
from reflect_rl.errors import UserError
from reflect_rl.types import Advice, Episode, Observation, Oracle, Step as TurnResult, Task, Turn

NAME = "alfworld"
VERSION = 1

EVALUATION_ONLY = (
    "backend",
    "games",
    "generated_games",
    "most_validation_games",
    "room_size",
    "split_seed",
    "subset",
    "test_games",
)
"""Players can be tested on games of all kinds, whichever they were trained on, and in the other engine, too.

Not `validation_games`: with others, the games on which somebody selected a run could become its test, and no file tells
what was chosen by hand.
"""

OPENING = """\
You are in a room of a house and do what the task says: put a thing into or onto a kind of receptacle, perhaps clean,
hot or cool; put two such things into one receptacle; or look at a thing in the light of a lamp. """
NOTES = """\
The state shows where you are,
what you hold, what you can do here for the task, where wanted things were seen, which receptacles are closed, searched,
closed again (Shut) and not visited yet, and the last command with its answer.
"""
RAW = """\
The state shows the task,
the room as it is at the start and, behind `>`, your last commands, each with the game's answer; what is older is not
shown.
"""
COMMANDS = """\
- `go to`, `open` and `close` a receptacle; what is in a closed one cannot be seen or reached.
- `take` a thing: you can hold one. `put` (or `move`) puts it down.
- `clean` what you hold at a sink, `heat` it at a microwave, `cool` it at a fridge; these need not be open.
- `use` turns a lamp on. To look at a thing in its light, hold the thing where the lamp is.
- `examine`, `look` and `inventory` tell what is there, and change nothing.
You win when the task is done. Every command costs a little, so search where such a thing is likely to be."""
RULES = OPENING + NOTES + COMMANDS
"""The game in words, for players that are told what they play."""

MOST_ACTIONS = 100
"""Most commands of a state; the real games list about 70 in their fullest rooms."""
ALIKE = 3
"""Mistakes of one kind that a perturbed demonstration may choose from."""


class AlfworldConfig(HouseholdConfig):
    """ALFWorld: put household things where a sentence wants them, cleaned, heated, cooled or lit."""

    name: Literal["alfworld"] = "alfworld"
    """Environment."""
    max_episode_steps: int = Field(50, ge=1, le=1000)
    """Turns after which an episode is truncated (ALFWorld: 50; Reflect-RL: 15)."""
    backend: Literal["native", "textworld"] = "native"
    """Engine: `native`, or `textworld`, the original, which needs the package's extra `textworld` and is far slower."""
    state: Literal["raw", "notes"] = "notes"
    """State text: `raw` = the task, the opening and the game's last answers, word for word; `notes` = what our code
    makes of all of them."""
    history: int = Field(5, ge=1, le=100)
    """Answers of the game that a raw state shows behind the opening, at most."""
    history_step: int = Field(1, ge=1, le=100)
    """Oldest answers that leave a raw state together, when it would show more than `history`. Between two such turns a
    state begins with the one before, and a wide language model reads only what is new."""
    advice: Advice = "command"
    """Fullness of the teacher's reflections: `command` = facts, a verdict on the last action, and the next command;
    `goal` = what to seek next in its place; `facts` = neither."""
    expert: Literal["explorer", "handcoded"] = "explorer"
    """Player that demonstrations under data.label_source = "exploring" come from: `explorer` searches where things are
    likely to be; `handcoded` = ALFWorld's hand-coded expert, which searches one receptacle after the other."""
    numbers: bool = True
    """States of notes give the numbers of commands; set to false for shuffled labels."""
    drop_useless: bool = False
    """Leave out commands that tell nothing new: `look`, `inventory`, `help`, and `examine` for what is known."""
    step_cost: float = Field(0.01, ge=0, le=1)
    """Cost of a turn that does not win."""
    milestone: float = Field(0.0, ge=0, le=0.5)
    """Extra reward for each part of the task, when it is first done: thing taken, treated, first of two placed."""

    @model_validator(mode="after")
    def _check_games(self) -> AlfworldConfig:
        if self.games and not self.subset and self.test_games == self.validation_games:
            raise ValueError(
                "test_games and validation_games are both 'valid_train', and games that select a run are no test: set "
                "validation_games = 'generated' before training, or evaluate a finished run with --evaluation.split "
                "validation and another test_games"
            )
        if self.subset and not self.games:
            raise ValueError("subset = 'paper' names real games; set games to the folder that holds them")
        # Else other games than the named ones would be played without a word.
        if self.test_games != "valid_seen" and not self.games:
            raise ValueError(
                f"test_games = {self.test_games!r} names a split of ALFWorld's data; set games to the data's folder"
            )
        if self.test_games != "valid_seen" and self.subset:
            raise ValueError(f"subset = 'paper' has test games of its own; leave out test_games = {self.test_games!r}")
        if self.additional_games and not self.games:
            raise ValueError(
                f"additional_games = {self.additional_games} come on top of those of a folder; without one set "
                "generated_games"
            )
        if self.history_step > self.history:
            raise ValueError(
                f"history_step = {self.history_step} drops more answers than history = {self.history} shows; set it to "
                f"{self.history} at most"
            )
        return self


class _Episode(Protocol):
    """An episode of either engine."""

    def first(self) -> Step: ...

    def step(self, command: str) -> Step: ...


class Alfworld(TextEnv):
    """The game.

    Args:
        config: its settings.
    """

    Config = AlfworldConfig
    name, version, modes = NAME, VERSION, MODES
    evaluation_only = EVALUATION_ONLY
    max_actions = MOST_ACTIONS
    rules = RULES
    config: AlfworldConfig

    def __init__(self, config: EnvironmentConfig | None = None) -> None:
        super().__init__(config)
        # A turn without an action costs what any turn costs.
        self.idle_reward = -self.config.step_cost
        self.advice: Advice = self.config.advice
        self.is_raw = self.config.state == "raw"
        self.numbered = self.config.numbers and not self.is_raw
        self.rules = OPENING + (RAW if self.is_raw else NOTES) + COMMANDS
        # No rule can tell from the last few answers what was seen before, and the hand-coded expert's next command
        # depends on what it did, which the notes leave out: rules would give the explorer's under its name.
        self.withheld = (HasStateTeacher,) if self.is_raw or self.config.expert == "handcoded" else ()
        # Notes say what can be done here for the task, in other words for each task.
        if not self.is_raw:
            self.withheld += (TellsHindsight,)

    def tasks(self, mode: str, split: str) -> tuple[Task, ...]:
        """The games of one split that are of the mode's kind.

        Raises:
            UserError: the folder of games, or what should be in it, is missing or corrupt.
            UnknownNameError: no such mode or split.
        """
        return household_tasks(self.config, mode, split)

    def task_at(self, mode: str, state: str) -> Task:
        """The training task that begins in a state met while playing, with nothing in mind but what led there.

        Raises:
            UnknownNameError: no such mode.
        """
        require_known("mode of alfworld", mode, MODES)
        return Task(f"{mode}@{state}", mode, "train", json.loads(state))

    def advise(self, state: str) -> str:
        """The reflection of an expert who sees no more than a state text of notes.

        Raises:
            ValueError: the text is no such state of a household game.
        """
        return reflect(state, self.config.advice)

    def action_numbers(self, state: str) -> Mapping[str, int]:
        """Numbers of the commands that a state text names; a raw one names none.

        Raises:
            ValueError: the text is no state of a household game.
        """
        return {} if self.is_raw else read_scene(state).numbers

    def measures(self, episode: Episode) -> dict[str, float]:
        """Costs of an evaluated episode, beside success, return and turns.

        Raises:
            UserError: its task is none of this game.
        """
        # The native engine has the solver, whichever engine played the episode; notes hold what a raw state left out.
        game = Alfworld(self.config.model_copy(update={"backend": "native", "state": "notes"}))
        game.reset(episode.task)
        shortest, scenes = turns_left(game._facts), list[Scene]()
        for turn in episode.turns:
            scenes.append(read_scene(game.shown.text))
            if turn.action is not None:
                game.step(turn.decision.index)
        return household_measures(episode, scenes, shortest)

    def in_hindsight(self, episode: Episode, rng: np.random.Generator) -> Episode:
        """An episode of raw states, each under a task for which its command was right; turns without one are left out.

        Args:
            episode: of this game, by any player.
            rng: draws the tasks.

        Raises:
            UserError: its task is none of this game.
        """
        game = Alfworld(self.config.model_copy(update={"backend": "native"}))
        game.reset(episode.task)
        turns = list[Turn]()
        for turn in episode.turns:
            if turn.action is None:
                continue
            before = Before.of(game._memory)
            game.step(turn.decision.index)
            if goals := fitting_goals(game._game, before, turn.action, game._memory):
                text = retold(turn.observation.text, drawn_sentence(goals, rng))
                # The played command is to be learned, whatever somebody had noted.
                decision = replace(turn.decision, target=turn.decision.index)
                turns.append(replace(turn, observation=replace(turn.observation, text=text), decision=decision))
        return replace(episode, turns=tuple(turns))

    def games_tested(self, mode: str, split: str) -> dict[str, str]:
        """The games that a result is about, their wording and engine.

        Raises:
            UserError: they cannot be read.
        """
        games, digest = content_of(self.config, mode, split)
        return {
            "wording": self.config.wording,
            "backend": self.config.backend,
            "games": games,
            "games_digest": digest,
            "state": self._state,
            "advice": self.config.advice,
            "expert": self.config.expert,
        }

    @property
    def _state(self) -> str:
        """State text, and of raw ones how much they show."""
        if not self.is_raw:
            return self.config.state
        step = f", {self.config.history_step} dropped together," if self.config.history_step > 1 else ""
        return f"{self.config.state} {self.config.history}{step} and the opening"

    def text_settings(self) -> dict[str, str]:
        """Settings that states, their commands and reflections follow from."""
        return {
            "wording": self.config.wording,
            "state": self._state,
            "numbers": "shown" if self.numbered else "none",
            "drop_useless": str(self.config.drop_useless).lower(),
            "advice": self.config.advice,
        }

    def strata(self, task: Task) -> dict[str, str]:
        """The kind of task."""
        return {"task": mode_of(record_of(self.config, dict(task.data))) if task.mode == "all" else task.mode}

    def unseen_names(self, task: Task) -> tuple[str, ...]:
        """Names of wanted things and lamps, which an annotator must not write before the state shows them."""
        game = game_of(self.config, record_of(self.config, dict(task.data)))
        kinds = {game.goal.object_kind, game.goal.target_kind}
        return tuple(name for name, thing in game.things.items() if thing.kind in kinds)

    @translated_errors()
    def reset(self, task: Task, rng: np.random.Generator | None = None) -> Observation:
        """Open the task's game, and do what the task says was done already.

        Raises:
            UserError: the task is none of this game, or its game is missing or cannot be played.
        """
        require_known("mode of alfworld", task.mode, MODES)
        self._record = self._record_of(task)
        self._identity = {key: task.data[key] for key in ("game", "from")}
        self._game = game_of(self.config, self._record)
        self._episode: _Episode = self._open(self._game)
        step = self._episode.first()
        self._memory = Memory(step.feedback, step.admissible)
        self._transcript = Transcript(step.feedback, step.admissible, self.config.history, self.config.history_step)
        self._handcoded = HandcodedExpert(self._memory)
        self._advised, self._judged = "", True
        # The solver needs the native state also where TextWorld plays; it catches up when it is asked.
        self._native_state, self._not_replayed = self._game.start(), list[str]()
        self._trail = Trail()
        for command in task.data.get("done", ()):
            # A state from another game or wording would otherwise be replayed into nonsense.
            if command not in self._memory.admissible:
                raise UserError(f"task {task.key!r} does {command!r}, which its game does not admit.")
            self._do(str(command))
        # The player of a restarted game has not seen the last command, unless its state is what was said.
        if not self.is_raw:
            self._memory.forget_last()
        # A thing that lies in its place from the start is no part of the task, even before it is seen.
        self._stage = max(self._memory.stage, self._placed_at_first())
        return self._observe()

    def _placed_at_first(self) -> int:
        """Parts of a task with two things that the beginning of the game has done."""
        if self._game.goal.task_type != "pick_two_obj_and_place":
            return 0
        placed = position_of(self._game.start()).placed.values()
        return 2 * max(map(len, placed), default=0)

    def _record_of(self, task: Task) -> GameRecord:
        if not {"game", "from"} <= task.data.keys():
            raise UserError(f"task {task.key!r} is none of alfworld. Take it from tasks().")
        return record_of(self.config, dict(task.data))

    def _open(self, game: Game) -> _Episode:
        if self.config.backend == "native":
            return game.start()
        # Imported on use: most runs play natively.
        from alfworld_native.textworld import TextWorldGame

        return TextWorldGame(self._record.problem, self._record.goal, self.config.wording).start()

    def _do(self, command: str) -> Step:
        step = self._episode.step(command)
        if self.is_raw:
            self._transcript.add(command, self._memory, step.feedback, step.admissible)
        self._memory.update(command, step.feedback, step.admissible)
        self._handcoded.observe(command)
        self._trail.add(command, self._memory)
        self._not_replayed.append(command)
        return step

    @translated_errors()
    def step(self, action: int) -> TurnResult:
        """Give a command: +1 for the one that wins, else minus the step's cost, plus milestones."""
        command = self.shown.actions[action]
        # The expert's own steps are never called a mistake: closing a door again is its way.
        self._judged = command != self._advised
        step = self._do(command)
        # Undoing a part and doing it again pays nothing.
        gained = max(0, self._memory.stage - self._stage)
        self._stage += gained
        reward = 1.0 if step.won else self.config.milestone * gained - self.config.step_cost
        # Several milestones in one turn could add up to more than a win is worth.
        return TurnResult(self._observe(), min(1.0, reward), terminated=step.won, success=step.won)

    def _observe(self) -> Observation:
        listed = tuple(self._listed())
        # A policy has one label for each action, and no more than this many.
        if len(listed) > MOST_ACTIONS:
            raise UserError(
                f"the game {self._record.key!r} has a state with {len(listed)} commands; {MOST_ACTIONS} are the most. "
                "Leave it out, or set drop_useless = true."
            )
        text = (
            self._transcript.text
            if self.is_raw
            else write_scene(scene_of(self._memory, listed if self.numbered else ()))
        )
        # Equal ways give equal states, so that visits to one state can be counted.
        state = json.dumps({**self._identity, "done": self._trail.commands})
        self.shown = Observation(text, listed, state)
        return self.shown

    def _listed(self) -> Iterator[str]:
        for command in self._memory.admissible:
            if not (self.config.drop_useless and self._memory.is_idle(command)):
                yield command

    @property
    def _facts(self) -> State:
        """The native engine's state: that of the episode, or one that follows TextWorld's."""
        # Natively the episode itself is the state.
        if isinstance(self._episode, State):
            return self._episode
        for command in self._not_replayed:
            self._native_state.step(command)
        self._not_replayed.clear()
        return self._native_state

    def oracle(self) -> Oracle:
        """The shortest solution, and what the explorer would do, who knows no more than the player."""
        observation, facts = self.shown, self._facts
        numbers = {command: index for index, command in enumerate(observation.actions)}
        optimal = tuple(numbers[command] for command in best_commands(facts) if command in numbers)
        explorer = self._explored()
        # Mistakes are what a perturbed demonstration may do before it is put right.
        safe = self._mistakes(observation.actions, optimal)
        return Oracle(optimal[0], optimal, safe, turns_left(facts), explorer)

    def teach(self) -> str:
        """Facts that the player saw, with the expert's advice: the solver's would tell what a player cannot know."""
        # A reflection player could not know what fell out of the window, so nothing tells it.
        scene = scene_of(self._transcript.recall()) if self.is_raw else read_scene(self.shown.text)
        self._advised = self.shown.actions[self._explored()]
        if self.config.advice == "command":
            return reflection_text(scene, self._advised, judged=self._judged)
        return goal_text(scene, self.config.advice, judged=self._judged)

    def _explored(self) -> int:
        """The expert's command; the solver's where the expert's is not listed."""
        actions, wanted = self.shown.actions, self._wanted()
        if wanted in actions:
            return actions.index(wanted)
        return next(actions.index(command) for command in best_commands(self._facts) if command in actions)

    def _wanted(self) -> str:
        """The command that the expert would give."""
        if self.config.expert == "handcoded":
            return self._handcoded.command()
        return advised(scene_of(self._memory) if self.is_raw else read_scene(self.shown.text))

    def _mistakes(self, actions: Sequence[str], optimal: Sequence[int]) -> tuple[int, ...]:
        """Wrong commands, a few of each kind, evenly over the list; none after which the game could not be won."""
        kinds: dict[str, list[int]] = {}
        for index, command in enumerate(actions):
            verb = command.partition(" ")[0]
            # A thing that no receptacle accepts would stay in hand for ever.
            if index not in optimal and not (verb == "take" and not self._can_be_put_down(command)):
                kinds.setdefault(verb, []).append(index)
        return tuple(sorted(index for wrong in kinds.values() for index in _evenly(wrong)))

    def _can_be_put_down(self, take: str) -> bool:
        thing = self._game.things[take.removeprefix("take ").partition(" from ")[0]]
        # Asked of all receptacles, because a player may carry the thing through the whole house.
        return any(thing.kind in receptacle.accepts for receptacle in self._game.receptacles.values())


def _evenly(indices: Sequence[int]) -> Iterator[int]:
    """Indices spread evenly over a list, at most `ALIKE`.

    >>> list(_evenly([3, 4, 5, 6, 7, 8]))
    [3, 5, 7]
    """
    count = min(ALIKE, len(indices))
    return (indices[place * len(indices) // count] for place in range(count))
