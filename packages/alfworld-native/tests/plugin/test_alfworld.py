"""ALFWorld as an environment: which games are tasks, what a turn pays, restarts, both engines, players of rules."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from alfworld_layout import write_official
from alfworld_native.generate import generate_games
from alfworld_native.plugin import env as alfworld, games as _household_games
from alfworld_native.plugin.env import MODES, Alfworld, AlfworldConfig
from alfworld_native.record import TaskType
from alfworld_native.sentence import read_sentence
from household_games import WINNING, kitchen_record
from reflect_rl.config import parse
from reflect_rl.data.recorded import labelled, refuse_held_out
from reflect_rl.envs.base import EnvSpec, HasStateTeacher
from reflect_rl.envs.gym import GymnasiumEnv
from reflect_rl.errors import ConfigError, ReflectRLWarning, RunFolderError, UnknownNameError, UserError
from reflect_rl.players.scripted import AdvicePolicy, Annotator, LexicalReflector, OraclePolicy, OracleReflector
from reflect_rl.rollout import NoReflector, Request, VariedPolicy, play
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.start import open_run
from reflect_rl.types import NO_ACTION, Decision, Step, Task, View

FOLDER = os.environ.get("REFLECT_RL_ALFWORLD", "")
needs_data = pytest.mark.skipif(not FOLDER, reason="REFLECT_RL_ALFWORLD names no folder with ALFWorld's games")
needs_textworld = pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra `alfworld` is not installed")

SPEC = EnvSpec.of(Alfworld)
SMALL = AlfworldConfig(generated_games=8, most_validation_games=4)


@pytest.fixture
def kitchen(monkeypatch: pytest.MonkeyPatch) -> Alfworld:
    """The environment, whose games are kitchens: the task's name is the kind of task."""
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: kitchen_record(data["game"]))
    return Alfworld(SMALL)


def kitchen_task(task_type: TaskType, *done: str) -> Task:
    return Task(f"all/{task_type}", "all", "train", {"game": task_type, "from": "kitchen", "done": list(done)})


def give(game: Alfworld, *commands: str) -> list[Step]:
    """What the game answers to commands."""
    return [game.step(game.shown.actions.index(command)) for command in commands]


# ------------------------------------------------------------------------------------------------------- tasks


def test_generated_games_are_tasks_without_any_data():
    for mode in MODES:
        counts = [len(Alfworld(SMALL).tasks(mode, split)) for split in ("train", "validation", "test")]
        assert counts == [8, 4, 4]
    game = Alfworld(SMALL)
    kinds = {mode: {game.strata(task)["task"] for task in game.tasks(mode, "train")} for mode in MODES}
    assert {mode: kinds[mode] for mode in MODES[:-1]} == {mode: {mode} for mode in MODES[:-1]}
    assert len(kinds["all"]) > 2


def test_a_mode_holds_games_of_its_kind_of_task():
    game = Alfworld(SMALL)
    for mode in MODES[:-1]:
        game.reset(Alfworld(SMALL).tasks(mode, "test")[0])
        assert game._game.goal.task_type == _household_games.TYPES[mode]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"state": "raw"}, "state is 'notes' there and 'raw 5 and the opening' here"),
        ({"wording": "2.1.2"}, "wording is '2.1.1' there and '2.1.2' here"),
        ({"advice": "goal"}, "advice is 'command' there and 'goal' here"),
        ({"drop_useless": True}, "drop_useless is 'false' there and 'true' here"),
    ],
)
def test_episodes_of_other_texts_are_not_learned_from(changes: dict[str, object], told: str):
    spec = EnvSpec(Alfworld, SMALL)
    requests = [Request(spec.tasks("pick", "train")[0], 0)]
    episodes = play(spec, requests, OracleReflector(), OraclePolicy())
    # Other games, rewards and ends change no text.
    same = {"history": 9, "step_cost": 0.02, "generated_games": 4, "max_episode_steps": 40, "expert": "handcoded"}
    refuse_held_out(episodes, EnvSpec(Alfworld, SMALL.model_copy(update=same)), "here")
    with pytest.raises(UserError, match=f"1 of 1 episodes were recorded with other texts: .*{told}"):
        refuse_held_out(episodes, EnvSpec(Alfworld, SMALL.model_copy(update=changes)), "here")


def test_other_seeds_and_sizes_are_other_games():
    def first(**changes: object) -> str:
        config = AlfworldConfig(**{"generated_games": 2, **changes})  # type: ignore[arg-type]
        game = Alfworld(config)
        return game.reset(Alfworld(config).tasks("all", "train")[0]).text

    assert len({first(), first(split_seed=1), first(room_size=1.5)}) == 3
    assert first() == first()


@needs_data
def test_real_games_are_counted_as_in_alfworld():
    config = AlfworldConfig(games=FOLDER)
    assert [len(Alfworld(config).tasks(mode, "test")) for mode in MODES] == [35, 13, 27, 16, 25, 24, 140]
    assert len(Alfworld(config).tasks("all", "validation")) == 64
    assert len(Alfworld(AlfworldConfig(games=FOLDER, most_validation_games=500)).tasks("all", "validation")) == 199
    seen = AlfworldConfig(games=FOLDER, test_games="valid_train", validation_games="generated")
    assert len(Alfworld(seen).tasks("all", "test")) == 199


def test_results_name_the_games_they_are_about():
    config = AlfworldConfig(generated_games=4, most_validation_games=2)
    known = Alfworld(config).games_tested("pick", "test")
    assert known.items() >= {"wording": "2.1.1", "backend": "native", "games": "generated"}.items()
    others = [
        Alfworld(config.model_copy(update=changes)).games_tested(mode, split)
        for changes, mode, split in [
            ({}, "look", "test"),
            ({}, "pick", "validation"),
            ({"split_seed": 1}, "pick", "test"),
            ({"room_size": 1.5}, "pick", "test"),
        ]
    ]
    assert len({known["games_digest"], *(other["games_digest"] for other in others)}) == 5
    # Neither the engine nor the wording changes which games there are.
    other = config.model_copy(update={"wording": "2.1.2", "backend": "textworld"})
    again = Alfworld(other).games_tested("pick", "test")
    assert again["games_digest"] == known["games_digest"]


@needs_data
def test_real_games_are_named_by_their_split():
    names = [
        Alfworld(AlfworldConfig(games=FOLDER, **changes)).games_tested("all", "test")["games"]
        for changes in ({}, {"subset": "paper"})
    ]
    assert names == ["valid_seen", "valid_seen+valid_unseen+valid_train"]


@needs_data
def test_the_papers_subset_has_seven_games_to_train_and_four_to_test():
    game = Alfworld(AlfworldConfig(games=FOLDER, subset="paper"))
    assert [len(game.tasks("all", split)) for split in ("train", "validation", "test")] == [7, 64, 4]
    kinds = {game.strata(task)["task"] for split in ("train", "test") for task in game.tasks("all", split)}
    assert kinds == {"pick"}
    assert not game.tasks("heat", "validation")


@needs_data
def test_generated_games_can_be_added_to_real_ones():
    config = AlfworldConfig(games=FOLDER, subset="paper", additional_games=5)
    game = Alfworld(config)
    added = Alfworld(config).tasks("pick", "train")[7:]
    assert len(added) == 5
    assert game.reset(added[0]).text.startswith("Task: put ")


@needs_data
def test_a_variable_can_stand_in_the_name_of_the_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_FOLDER", FOLDER)
    assert len(Alfworld(AlfworldConfig(games="$SOME_FOLDER", subset="paper")).tasks("all", "test")) == 4


def test_a_variable_that_changes_names_other_games(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for record in generate_games("train", 2):
        key = f"{record.task_type}-{record.subject}/trial_{record.key[-1]}"
        write_official(tmp_path / record.key[-1] / "json_2.1.1/train", replace(record, key=key))
    found = []
    for folder in ("0", "1"):
        monkeypatch.setenv("SOME_FOLDER", str(tmp_path / folder))
        game = Alfworld(AlfworldConfig(games="$SOME_FOLDER"))
        (task,) = game.tasks("all", "train")
        found.append((task.key, game.reset(task).text, game.games_tested("all", "train")["games_digest"]))
    assert found[0][0].endswith("trial_0")
    assert found[1][0].endswith("trial_1")
    assert not {*found[0]} & {*found[1]}


def test_a_run_goes_on_with_the_same_games_wherever_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    records = generate_games("train", 3)
    for folder, order in (("first", (0, 1, 2)), ("copied", (0, 1, 2)), ("swapped", (1, 0, 2))):
        for split, number in zip(("train", "valid_seen", "valid_train"), order, strict=True):
            record = records[number]
            key = f"{record.task_type}-{record.subject}/trial_{number}"
            write_official(tmp_path / folder / "json_2.1.1" / split, replace(record, key=key))
    values = {"output_dir": str(tmp_path / "run"), "environment": {"name": "alfworld", "games": "$SOME_FOLDER"}}

    def go_on(folder: str) -> None:
        monkeypatch.setenv("SOME_FOLDER", str(tmp_path / folder))
        open_run(parse(RunConfig, {**values, "methods": ["random", "oracle"]}), "")

    go_on("first")
    mark = tmp_path / "run/starts-100/seed-0/evaluation/random/done"
    mark.parent.mkdir(parents=True)
    mark.touch()
    go_on("copied")
    with pytest.raises(RunFolderError, match=r"the games of .* have changed since it began, under the same settings"):
        go_on("swapped")
    go_on("first")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"games": "x", "test_games": "valid_train"}, "both 'valid_train'"),
        ({"subset": "paper"}, "names real games"),
        (
            {"test_games": "valid_unseen"},
            "'valid_unseen' names a split of ALFWorld's data; set games to the data's folder",
        ),
        ({"games": "x", "subset": "paper", "test_games": "valid_unseen"}, "leave out test_games = 'valid_unseen'"),
        (
            {"additional_games": 3},
            "additional_games = 3 come on top of those of a folder; without one set generated_games",
        ),
        ({"modes": ["mow"]}, "Input should be 'pick', 'look'"),
        ({"wording": "3"}, "2.1.1"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        AlfworldConfig.model_validate(values)


def test_half_a_download_is_told_as_a_warning_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (record,) = generate_games("test", 1)
    record = replace(record, key="kind-1/trial_T20190907_174127_043461")
    for split in ("train", "valid_train", "valid_seen"):
        write_official(tmp_path / "json_2.1.1" / split, record)
    game = Alfworld(AlfworldConfig(games=str(tmp_path)))
    with pytest.warns(ReflectRLWarning, match=r"has 1 of the 140 games of ALFWorld's valid_seen\."):
        game.tasks("all", "test")
    # Workers do not say it again.
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        game.tasks("all", "train")


def test_a_missing_folder_is_named():
    with pytest.raises(UserError, match="/no/such/folder"):
        Alfworld(AlfworldConfig(games="/no/such/folder")).tasks("all", "train")


@pytest.mark.parametrize(
    ("problem", "goal", "says"),
    [("(define", "", "must say"), ("", "kindly put a mug in desk.", "none of ALFWorld's sentences")],
)
def test_a_broken_game_is_named(tmp_path: Path, problem: str, goal: str, says: str):
    (record,) = generate_games("test", 1)
    record = replace(record, key="kind/trial", problem=problem or record.problem, goal=goal or record.goal)
    for split in ("train", "valid_train", "valid_seen"):
        write_official(tmp_path / split, record)
    game = Alfworld(AlfworldConfig(games=str(tmp_path)))
    with pytest.raises(UserError, match=f"the game 'kind/trial' cannot be played: .*{says}.* Copy its file again"):
        game.reset(game.tasks("all", "test")[0])


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"game": "generated/0/x", "from": "generated all 1"},
        {"game": "generated/0/1", "from": "generated nothing 1"},
    ],
)
def test_tasks_of_no_game_are_refused(data: dict[str, str]):
    with pytest.raises(UserError, match=r"Take (it|tasks) from tasks"):
        Alfworld(SMALL).reset(Task("odd", "all", "train", data))


# ---------------------------------------------------------------------------------------------------- the game


@pytest.mark.parametrize("task_type", WINNING)
def test_the_commands_that_win_are_listed_and_pay(kitchen: Alfworld, task_type: TaskType):
    kitchen.reset(kitchen_task(task_type))
    *before, last = give(kitchen, *WINNING[task_type])
    assert {(step.reward, step.terminated, step.success) for step in before} == {(-0.01, False, False)}
    assert (last.reward, last.terminated, last.success) == (1.0, True, True)


def test_milestones_are_paid_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: kitchen_record(data["game"]))
    game = Alfworld(AlfworldConfig(milestone=0.1, step_cost=0.02))
    game.reset(kitchen_task("pick_heat_then_place_in_recep"))
    take, put = "take apple 2 from countertop 1", "put apple 2 in/on countertop 1"
    cook = ("go to microwave 1", "heat apple 2 with microwave 1")
    rewards = [step.reward for step in give(game, "go to countertop 1", take, put, take, *cook)]
    assert rewards == pytest.approx([-0.02, 0.08, -0.02, -0.02, -0.02, 0.08])


def test_a_thing_that_lies_in_its_place_at_first_pays_nothing(monkeypatch: pytest.MonkeyPatch):
    """The apple of the countertop lies in the sink already, so the task lacks one thing, which is taken and pays."""
    at_first = "(inReceptacle Apple_bar_a CounterTop_bar_a)"
    record = kitchen_record("pick_two_obj_and_place")
    problem = record.problem.replace(at_first, "(inReceptacle Apple_bar_a Sink_bar_a_bar_SinkBasin)")
    problem = problem.replace("(objectAtLocation Apple_bar_a loc_bar_b)", "(objectAtLocation Apple_bar_a loc_bar_e)")
    assert problem != record.problem
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: replace(record, problem=problem))
    game = Alfworld(AlfworldConfig(milestone=0.1, step_cost=0.02))
    game.reset(kitchen_task("pick_two_obj_and_place"))
    take, put = "take apple 2 from sinkbasin 1", "put apple 2 in/on sinkbasin 1"
    fetch = ("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1", "go to sinkbasin 1")
    steps = give(game, "go to sinkbasin 1", take, put, *fetch, "put apple 1 in/on sinkbasin 1")
    nothing = [-0.02] * 3
    assert [step.reward for step in steps] == pytest.approx([*nothing, -0.02, -0.02, 0.08, -0.02, 1.0])


def test_the_list_is_the_games_own_and_useless_commands_can_be_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: kitchen_record(data["game"]))
    whole, short = Alfworld(AlfworldConfig()), Alfworld(AlfworldConfig(drop_useless=True))
    for game in (whole, short):
        game.reset(kitchen_task("pick_and_place_simple"))
        give(game, "go to countertop 1", "take knife 1 from countertop 1")
    listed, kept = whole.shown.actions, short.shown.actions
    assert listed == whole._facts.admissible
    left_out = [command for command in listed if command not in kept]
    assert left_out == ["examine countertop 1", "examine knife 1", "inventory", "look"]
    numbers = [entry for entry in short.shown.text.split() if "=" in entry]
    assert f"1={kept.index('go to cabinet 1')}" in numbers


def test_states_without_numbers_have_none(kitchen: Alfworld):
    silent = Alfworld(AlfworldConfig(numbers=False))
    observation = silent.reset(kitchen_task("pick_and_place_simple"))
    assert "=" not in observation.text + silent.teach()
    assert Alfworld().numbered
    assert not silent.numbered


def test_mistakes_are_of_many_kinds_and_none_is_final(kitchen: Alfworld):
    kitchen.reset(kitchen_task("pick_cool_then_place_in_recep"))
    give(kitchen, "go to fridge 1", "open fridge 1")
    oracle, actions = kitchen.oracle(), kitchen.shown.actions
    assert [actions[index] for index in oracle.optimal] == ["take apple 1 from fridge 1"]
    wrong = [actions[index] for index in oracle.safe]
    assert {command.split(" ")[0] for command in wrong} == {"close", "examine", "go", "inventory", "look"}
    assert sum(command.startswith("go ") for command in wrong) == 3


@pytest.mark.parametrize("can_be_put_down", [True, False])
def test_what_could_not_be_put_down_again_is_no_mistake_to_choose_from(
    monkeypatch: pytest.MonkeyPatch, can_be_put_down: bool
):
    record = kitchen_record("pick_and_place_simple")
    if not can_be_put_down:
        record = replace(record, problem=re.sub(r"\(canContain \w+ SpoonType\)", "", record.problem))
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: record)
    game = Alfworld(SMALL)
    game.reset(kitchen_task("pick_and_place_simple"))
    give(game, "go to cabinet 2", "open cabinet 2")
    wrong = [game.shown.actions[index] for index in game.oracle().safe]
    assert ("take spoon 1 from cabinet 2" in wrong) is can_be_put_down


def test_only_the_solver_knows_names_of_wanted_things_before_they_are_seen():
    task = Alfworld(SMALL).tasks("look", "train")[0]
    game = Alfworld(SMALL)
    game.reset(task)
    names, kinds = Alfworld(SMALL).unseen_names(task), {game._game.goal.object_kind, game._game.goal.target_kind}
    assert {name.rpartition(" ")[0] for name in names} == kinds
    assert not any(name in game.shown.text for name in names)


# ---------------------------------------------------------------------------------------------------- restarts


def test_a_task_can_begin_in_any_state_met_while_playing():
    game, rng = Alfworld(SMALL), np.random.default_rng(0)
    for task in Alfworld(SMALL).tasks("all", "train")[:4]:
        observation = game.reset(task)
        for _ in range(25):
            step = game.step(int(rng.integers(len(observation.actions))))
            observation = step.observation
            if step.terminated:
                break
            again = Alfworld(SMALL)
            restarted = again.reset(Alfworld().task_at("all", observation.state))
            assert (restarted.state, restarted.actions) == (observation.state, observation.actions)
            assert "Last:" not in restarted.text


def test_the_explorer_wins_from_wherever_a_game_was_left_and_gives_the_number_of_each_command():
    game, rng = Alfworld(SMALL), np.random.default_rng(1)
    for task in Alfworld(SMALL).tasks("all", "train"):
        observation = game.reset(task)
        for _ in range(12):
            step = game.step(int(rng.integers(len(observation.actions))))
            observation = step.observation
            if step.terminated:
                break
        if step.terminated or game.oracle().turns_left > 50:
            continue
        game.reset(Alfworld().task_at("all", observation.state))
        for _ in range(50):
            oracle = game.oracle()
            assert oracle.explorer is not None
            assert game.teach().endswith(f" ={oracle.explorer}.")
            step = game.step(oracle.explorer)
            if step.terminated:
                break
        assert step.success, task.key


def test_equal_places_have_equal_states_whatever_was_done_before(kitchen: Alfworld):
    kitchen.reset(kitchen_task("pick_and_place_simple"))
    give(kitchen, "go to fridge 1")
    state = kitchen.shown.state
    give(kitchen, "go to safe 1", "look", "go to fridge 1", "open fridge 1", "close fridge 1")
    assert kitchen.shown.state == state
    assert json.loads(state)["done"] == ["go to fridge 1"]


def test_a_task_that_does_what_cannot_be_done_is_refused(kitchen: Alfworld):
    with pytest.raises(UserError, match="does 'open fridge 1', which its game does not admit"):
        kitchen.reset(kitchen_task("pick_and_place_simple", "open fridge 1"))
    with pytest.raises(UnknownNameError, match="no mode of alfworld named 'al'"):
        Alfworld().task_at("al", "{}")


# ----------------------------------------------------------------------------------------------------- players


def requests(count: int = 8) -> list[Request]:
    config = AlfworldConfig(generated_games=20)
    return [Request(task, number) for number, task in enumerate(Alfworld(config).tasks("all", "train")[:count])]


def test_the_advice_of_the_lexical_reflections_wins():
    episodes = play(SPEC, requests(), LexicalReflector(Alfworld()), AdvicePolicy())
    assert all(episode.success for episode in episodes)


def test_lexical_reflections_are_those_of_the_annotator():
    """The annotator knows the state text alone, so its reflections are those of a player of rules."""
    annotated = play(SPEC, requests(), OracleReflector(), Annotator(0.3, "exploring"))
    told = LexicalReflector(Alfworld())
    for episode in annotated:
        for turn in episode.turns:
            assert told.reflect([View(turn.observation, turn.order)]) == [turn.reflection]


def test_episodes_are_measured():
    (won,) = play(SPEC, requests(1), NoReflector(), OraclePolicy())
    assert Alfworld(AlfworldConfig()).measures(won)["spl"] == 1.0
    assert Alfworld(AlfworldConfig()).measures(won)["idle_turns"] == 0
    explored = play(SPEC, requests(), LexicalReflector(Alfworld()), AdvicePolicy())
    rows = [Alfworld(AlfworldConfig()).measures(episode) for episode in explored]
    assert all(row["mistakes"] == row["idle_turns"] == 0 for row in rows)
    assert all(0 < row["spl"] <= 1 for row in rows)
    assert max(row["places_searched"] for row in rows) > 1


class Silent:
    """A player that gives some commands, and then none."""

    name, sees_oracle = "silent", False

    def __init__(self, *commands: str) -> None:
        self.commands = iter(commands)

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        (view,), command = views, next(self.commands, None)
        index = NO_ACTION if command is None else view.observation.actions.index(command)
        return [Decision(index, self.name, answer=command or "")]


def test_a_turn_without_a_command_repeats_no_mistake():
    spec = EnvSpec.of(Alfworld, max_episode_steps=6)
    (episode,) = play(spec, requests(1), NoReflector(), Silent("look", "look"))
    measured = Alfworld(AlfworldConfig()).measures(episode)
    assert (measured["mistakes"], measured["idle_turns"]) == (2, 6)


def test_longer_horizons_change_no_state():
    """No state tells the time, so results at every horizon up to the one that was played can be read off."""
    task = requests(1)[0].task
    specs = [EnvSpec.of(Alfworld, max_episode_steps=turns) for turns in (15, 50)]
    texts = [GymnasiumEnv(spec).reset(options={"task": task})[0] for spec in specs]
    assert texts[0] == texts[1]


# --------------------------------------------------------------------------------------------------- TextWorld


@needs_textworld
def test_both_engines_give_the_same_game_states_and_oracle(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: kitchen_record(data["game"]))
    native, original = Alfworld(AlfworldConfig()), Alfworld(AlfworldConfig(backend="textworld"))
    task = kitchen_task("pick_heat_then_place_in_recep")
    assert native.reset(task) == original.reset(task)
    for command in ("look", *WINNING["pick_heat_then_place_in_recep"]):
        assert (native.oracle(), native.teach()) == (original.oracle(), original.teach())
        index = native.shown.actions.index(command)
        step = native.step(index)
        assert step == original.step(index)
    assert step.success


# ------------------------------------------------------------------------------------------------- raw states

RAW = SMALL.model_copy(update={"state": "raw", "history": 2, "advice": "goal", "expert": "handcoded"})


def test_raw_states_are_the_games_own_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: kitchen_record(data["game"]))
    game = Alfworld(RAW)
    first = game.reset(kitchen_task("pick_and_place_simple"))
    assert first.text.startswith("Your task is to: put a mug in countertop.\nYou are in the middle of a room.")
    give(game, "go to fridge 1", "open fridge 1")
    answers = [
        *("> go to fridge 1", "You arrive at loc 6. The fridge 1 is closed."),
        *("> open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1."),
    ]
    assert game.shown.text.split("\n") == [*first.text.split("\n"), *answers]
    # The expert's next step, which is no mistake where the expert itself opened the door.
    assert game.shown.actions[game.oracle().explorer or 0] == "close fridge 1"
    assert game.teach() == "I am at fridge 1. I hold nothing. Seek: mug."
    # Two looks later the fridge has fallen out of the window.
    give(game, "go to sinkbasin 1", "go to countertop 1")
    assert game.shown.text.startswith(f"{first.text}\n> go to sinkbasin 1\n")
    assert game.teach() == "I am at countertop 1. I hold nothing. Seek: mug."


def test_raw_states_and_reflections_hold_no_number_of_the_list():
    spec = EnvSpec.of(Alfworld, **RAW.model_dump())
    requests = [Request(task, 0) for task in spec.tasks("all", "train")]
    for advice in ("command", "goal", "facts"):
        spec = EnvSpec.of(Alfworld, **(RAW.model_dump() | {"advice": advice}))
        episodes = play(spec, requests, OracleReflector(), Annotator(0.3, "exploring"))
        for turn in (turn for episode in episodes for turn in episode.turns):
            assert "=" not in turn.observation.text + (turn.reflection or "=")
            assert spec.prototype.action_numbers(turn.observation.text) == {}
            assert ("Next: " in (turn.reflection or "")) == (advice == "command")


def test_raw_states_cannot_be_read_by_rules_and_lists_may_be_shuffled():
    assert not is_listed("HasStateTeacher", state="raw")
    assert is_listed("HasStateTeacher", state="notes")
    assert Alfworld(RAW).numbered is False
    assert "Shut" not in Alfworld(RAW).rules
    assert "Shut" in Alfworld(SMALL).rules


def test_rules_do_not_speak_for_the_hand_coded_expert():
    # Its next command depends on what it did, so a state text does not tell it; `advise` would give the explorer's.
    assert not is_listed("HasStateTeacher", expert="handcoded")
    with pytest.raises(UserError, match=r"does not offer under these settings\."):
        EnvSpec(Alfworld, RAW).needed(HasStateTeacher, "the reflection player 'lexical'")
    assert is_listed("HasTeacher", expert="handcoded")


def test_random_play_is_told_in_hindsight_of_raw_states_alone():
    assert is_listed("TellsHindsight", state="raw")
    assert not is_listed("TellsHindsight", state="notes")
    spec = EnvSpec(Alfworld, RAW.model_copy(update={"history": 15}))
    requests = [Request(task, 0) for task in spec.tasks("all", "train")]
    episodes = labelled(play(spec, requests, NoReflector(), VariedPolicy()))
    told = [Alfworld(spec.config).in_hindsight(episode, np.random.default_rng(0)) for episode in episodes]
    assert sum(len(episode.turns) for episode in told) > len(told)
    for before, after in zip(episodes, told, strict=True):
        room = before.turns[0].observation.text.split("\n")[1]
        # Another task, the same room and list, and the command that was played.
        played = [(turn.observation.state, turn.observation.actions, turn.decision) for turn in before.turns]
        for turn in after.turns:
            task, *lines = turn.observation.text.split("\n")
            assert read_sentence(task.removeprefix("Your task is to: "))
            assert lines[0] == room
            assert (turn.observation.state, turn.observation.actions, turn.decision) in played
    again = [Alfworld(spec.config).in_hindsight(episode, np.random.default_rng(0)) for episode in episodes]
    assert again == told


def is_listed(capability: str, **settings: object) -> bool:
    return capability in EnvSpec.of(Alfworld, **settings).capabilities


def test_results_say_what_was_seen_and_told():
    facts = Alfworld(RAW).games_tested("pick", "test")
    assert (facts["state"], facts["advice"], facts["expert"]) == ("raw 2 and the opening", "goal", "handcoded")
    together = RAW.model_copy(update={"history_step": 2})
    assert Alfworld(together).games_tested("pick", "test")["state"] == "raw 2, 2 dropped together, and the opening"
    facts = Alfworld(SMALL).games_tested("pick", "test")
    assert (facts["state"], facts["advice"], facts["expert"]) == ("notes", "command", "explorer")


def test_answers_leave_a_raw_state_together_if_the_settings_say_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: kitchen_record(data["game"]))
    game = Alfworld(RAW.model_copy(update={"history_step": 2}))
    first = game.reset(kitchen_task("pick_and_place_simple"))
    give(game, "go to fridge 1", "open fridge 1", "go to sinkbasin 1")
    assert game.shown.text.startswith(f"{first.text}\n> go to sinkbasin 1\n")


def test_no_more_answers_leave_than_are_shown():
    with pytest.raises(ConfigError, match="history_step = 3 drops more answers than history = 2 shows; set it to 2"):
        parse(AlfworldConfig, {"history": 2, "history_step": 3})


def test_costs_do_not_depend_on_the_state_text():
    spec = EnvSpec.of(Alfworld, **SMALL.model_dump())
    requests = [Request(task, 0) for task in spec.tasks("all", "test")]
    episodes = play(spec, requests, NoReflector(), Annotator(0.3, "exploring"))
    raw = EnvSpec.of(Alfworld, **(SMALL.model_dump() | {"state": "raw"}))
    # The same seeds draw the same commands, as both states list the same.
    for notes, told in zip(episodes, play(raw, requests, NoReflector(), Annotator(0.3, "exploring")), strict=True):
        assert Alfworld(RAW).measures(told) == Alfworld(SMALL).measures(notes)


def test_a_raw_restart_shows_what_led_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: kitchen_record(data["game"]))
    game = Alfworld(RAW)
    text = game.reset(kitchen_task("pick_and_place_simple", "go to fridge 1")).text
    assert text.endswith("\n> go to fridge 1\nYou arrive at loc 6. The fridge 1 is closed.")
