import os
import re
from collections import Counter
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from alfworld_native import _kinds as kinds
from alfworld_native._rooms import BESIDE, ROOM_KINDS, room
from alfworld_native.engine import Game, State
from alfworld_native.errors import GameError
from alfworld_native.games import GameSet
from alfworld_native.generate import (
    SENTENCES,
    GeneratedGames,
    Mix,
    game_seed,
    generate_game,
    generate_games,
    numbered_game,
)
from alfworld_native.record import TASK_TYPES, GameRecord
from alfworld_native.sentence import read_sentence
from alfworld_native.sources import load_games

DATA = os.environ.get("REFLECT_RL_ALFWORLD", "")
needs_data = pytest.mark.skipif(not DATA, reason="REFLECT_RL_ALFWORLD names no folder with ALFWorld's games")

PLACES = [(task_type, kind) for task_type in TASK_TYPES for kind in kinds.TASK_ROOMS[task_type]]
TREATMENTS = {
    "pick_clean_then_place_in_recep": ("clean", "sinkbasin"),
    "pick_heat_then_place_in_recep": ("heat", "microwave"),
    "pick_cool_then_place_in_recep": ("cool", "fridge"),
}


@pytest.fixture(scope="module")
def real() -> GameSet:
    """ALFWorld's training games."""
    return load_games(Path(DATA), "train")


def play_plan(game: Game) -> list[str]:
    """A plan with full knowledge, carried out; fails where a command is not listed or the game is not won."""
    state, goal, commands = game.start(), game.goal, []
    target, thing_kind = goal.target_kind, goal.object_kind

    def give(command: str) -> None:
        assert command in state.admissible
        state.step(command)
        commands.append(command)

    def reach(receptacle: str) -> None:
        if receptacle not in state.here:
            give(f"go to {receptacle}")
        if not state.is_open(receptacle):
            give(f"open {receptacle}")

    def take(thing: str) -> None:
        receptacle = state.container(thing)
        reach(receptacle)
        give(f"take {thing} from {receptacle}")

    def first_of(kind: str) -> str:
        return next(name for name, each in game.receptacles.items() if each.kind == kind)

    things = [name for name, each in game.things.items() if each.kind == thing_kind and state.container(name)]
    if goal.task_type == "look_at_obj_in_light":
        lamp = next(name for name, each in game.things.items() if each.kind == target)
        take(things[0])
        reach(state.container(lamp))
        give(f"use {lamp}")
    else:
        for thing in things[: 2 if goal.task_type == "pick_two_obj_and_place" else 1]:
            take(thing)
            if goal.task_type in TREATMENTS:
                verb, tool = TREATMENTS[goal.task_type]
                reach(first_of(tool))
                give(f"{verb} {thing} with {first_of(tool)}")
            reach(first_of(target))
            give(f"put {thing} in/on {first_of(target)}")
    assert state.won
    return commands


def of(record: GameRecord) -> Game:
    return Game(record.problem, record.goal)


def things_in(state: State) -> list[str]:
    return [name for name, each in state.game.things.items() if each.pickupable and state.container(name)]


@pytest.mark.parametrize(("task_type", "kind"), PLACES)
@pytest.mark.parametrize("size", [0.3, 1.0, 2.0])
def test_every_game_can_be_won_and_is_not_won_at_first(task_type, kind, size):
    for number in range(6):
        record = generate_game(np.random.default_rng(number), task_type, kind, size)
        game = of(record)
        assert not game.start().won
        assert 3 <= len(play_plan(game)) <= 10


def test_sentence_and_problem_state_the_same_task_in_both_of_alfworlds_ways():
    shapes = set()
    for record in generate_games("train", 150, seed=2):
        goal = of(record).goal
        assert read_sentence(record.goal) == goal
        assert goal.task_type == record.task_type
        assert record.subject.lower() == f"{goal.object_kind}-none-{goal.target_kind}"
        shapes.add(record.goal.replace(goal.object_kind, "{thing}").replace(goal.target_kind, "{target}"))
    assert shapes >= {shape for pair in SENTENCES.values() for shape in pair}


def test_a_game_is_a_function_of_seed_and_number():
    assert numbered_game(3, 7) == numbered_game(3, 7)
    assert tuple(generate_games("train", 3, seed=1, first=5)) == tuple(generate_games("train", 8, seed=1))[5:]
    assert generate_games("train", 3, seed=1).keys == ("generated/3/0", "generated/3/1", "generated/3/2")


def test_games_that_are_made_when_they_are_asked_for_are_the_same():
    games, made = generate_games("test", 4, seed=3), GeneratedGames(game_seed("test", 3), 4)
    assert (len(made), [*made], made[-1], [*made[1:3]]) == (4, [*games], games[3], [games[1], games[2]])
    assert made.find(games[2].key) == games[2]
    for key in ("generated/11/4", "generated/11/02", "generated/11/-1", "generated/11/", "2", "x"):
        with pytest.raises(GameError, match=f"no game '{key}'"):
            made.find(key)


def test_splits_never_share_a_seed_or_a_game():
    seeds = [game_seed(split, seed) for split in ("train", "validation", "test") for seed in range(200)]
    assert len(set(seeds)) == 600
    games = [generate_games(split, 20) for split in ("train", "validation", "test")]
    assert len({record.problem for each in games for record in each}) == 60


def test_twin_things_of_a_put_task_are_elsewhere_at_first():
    mix = Mix(task_types=("pick_and_place_simple", "pick_two_obj_and_place"))
    for record in generate_games("train", 60, mix=mix):
        game = of(record)
        state = game.start()
        wanted = [name for name in things_in(state) if game.things[name].kind == game.goal.object_kind]
        assert len(wanted) >= (2 if record.task_type == "pick_two_obj_and_place" else 1)
        for name in wanted:
            assert all(game.receptacles[each].kind != game.goal.target_kind for each in state.containers(name))


def test_mixes_choose_tasks_and_rooms():
    mix = Mix(task_types=("look_at_obj_in_light", "pick_heat_then_place_in_recep"), rooms=("kitchen", "living room"))
    games = generate_games("train", 40, mix=mix)
    # A lamp to look at things is in no kitchen, and a microwave in no living room.
    assert {(record.task_type, record.scene) for record in games} == {
        ("look_at_obj_in_light", "living room"),
        ("pick_heat_then_place_in_recep", "kitchen"),
    }


def test_size_is_a_factor_on_receptacles_and_things():
    numbers = {}
    for size in (0.5, 1.0, 2.0):
        games = [of(record) for record in generate_games("train", 40, mix=Mix(size=size))]
        numbers[size] = (
            mean(len(each.receptacles) for each in games),
            mean(len(things_in(each.start())) for each in games),
        )
    assert numbers[0.5][0] < 0.75 * numbers[1.0][0] < 0.75 * 0.75 * numbers[2.0][0]
    assert numbers[0.5][1] < 0.75 * numbers[1.0][1] < 0.75 * 0.75 * numbers[2.0][1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"task_types": ("pick_two",)}, "no kind of task named 'pick_two'"),
        ({"task_types": ()}, "no kind of task to generate"),
        ({"rooms": ("kitchn",)}, "Did you mean 'kitchen'"),
        (
            {"rooms": ("bathroom",)},
            "look_at_obj_in_light is not possible in: bathroom. Add one of: living room, bedroom",
        ),
        ({"size": 0.0}, "must be above 0"),
        ({"size": float("nan")}, "must be above 0"),
    ],
)
def test_wrong_mixes_are_refused(wrong, message):
    with pytest.raises(GameError, match=message):
        Mix(**wrong)


def test_wrong_splits_seeds_and_rooms_are_refused():
    with pytest.raises(GameError, match="no split 'valid_seen'"):
        generate_games("valid_seen", 1)
    with pytest.raises(GameError, match="must be 0 or more"):
        generate_games("train", 1, seed=-1)
    with pytest.raises(GameError, match="must be 0 or more, not -1 and 0"):
        generate_games("train", -1)
    with pytest.raises(GameError, match="must be 0 or more, not 1 and -2"):
        generate_games("train", 1, first=-2)
    with pytest.raises(GameError, match="look_at_obj_in_light is not possible in a kitchen"):
        generate_game(np.random.default_rng(0), "look_at_obj_in_light", "kitchen")


@pytest.mark.parametrize("kind", ROOM_KINDS)
def test_the_catalogue_names_known_kinds_and_places_of_its_room(kind):
    catalogue = room(kind)
    fixtures = [fixture.kind for fixture in catalogue.fixtures]
    assert set(fixtures) <= set(kinds.RECEPTACLES)
    assert len(set(fixtures)) == len(fixtures)
    for fixture in catalogue.fixtures:
        assert 0 < fixture.share <= 1
        assert 1 <= fixture.fewest <= fixture.mean <= fixture.most
        assert fixture.fewest == fixture.most or fixture.mean > fixture.fewest
    for item in catalogue.items:
        assert item.kind in kinds.THINGS
        assert 1 <= item.fewest <= item.most
        assert {place for place, _ in item.places} <= {*fixtures, BESIDE}


def test_properties_are_those_of_known_kinds():
    things = set(kinds.THINGS)
    for named in (kinds.FIXED, kinds.CLEANABLE, kinds.HEATABLE, kinds.COOLABLE, kinds.SLICEABLE, kinds.CONTAINERS):
        assert named <= things
    assert all(accepted <= things - kinds.FIXED for accepted in kinds.ACCEPTS.values())
    assert kinds.ACCEPTS.keys() <= set(kinds.RECEPTACLES)
    assert all(tool not in kinds.TARGETS[task_type] for task_type, tool in kinds.TOOLS.items())


def facts_of(problem: str) -> Counter[tuple[str, ...]]:
    begin, end = problem.index("(:init"), problem.index("(:goal")
    return Counter(tuple(fact.split()) for fact in re.findall(r"\(([^()]+)\)", problem[begin:end]))


def assert_properties(problem: str) -> None:
    """The facts about kinds are those of the catalogue."""
    able = {
        "cleanable": kinds.CLEANABLE,
        "heatable": kinds.HEATABLE,
        "coolable": kinds.COOLABLE,
        "sliceable": kinds.SLICEABLE,
        "toggleable": kinds.TOGGLEABLE,
        "isReceptacleObject": kinds.CONTAINERS,
    }
    facts = facts_of(problem)
    types = {fact[1]: fact[2].removesuffix("Type") for fact in facts if fact[0] == "objectType"}
    holders = {fact[2].removesuffix("Type") for fact in facts if fact[0] == "receptacleType"}
    for predicate, named in able.items():
        true_of = {fact[1] for fact in facts if fact[0] == predicate}
        assert true_of == {name for name, kind in types.items() if kind in named}
    written = {(fact[1], fact[2]) for fact in facts if fact[0] == "canContain"}
    known = {(a, b) for a in holders for b in kinds.ACCEPTS.get(a, frozenset()) & set(types.values())}
    assert written == {(f"{a}Type", f"{b}Type") for a, b in known}


def test_generated_kinds_have_the_properties_of_the_catalogue():
    for record in generate_games("train", 25, seed=6):
        assert_properties(record.problem)


@needs_data
def test_real_kinds_have_the_properties_of_the_catalogue(real):
    for record in real[::120]:
        assert_properties(record.problem)


@needs_data
def test_problems_have_the_form_of_real_ones(real):
    goals = {record.task_type: record for record in real}
    for record in generate_games("train", 60, seed=9):
        model = goals[record.task_type].problem
        declared = slice(model.index("(:objects"), model.index("OttomanType - rtype"))
        assert model[declared] in record.problem
        thing, target = (part for part in record.subject.split("-") if part != "None")
        model_thing, model_target = (part for part in goals[record.task_type].subject.split("-") if part != "None")
        goal = model[model.index("(:goal") :].replace(f" {model_thing}Type", f" {thing}Type")
        assert record.problem.endswith(goal.replace(f" {model_target}Type", f" {target}Type"))
        named = re.findall(r"^        (\S+) - (?:object|receptacle)$", record.problem, re.MULTILINE)
        coordinate = r"(?:_(?:plus|minus)_\d\d_dot_\d\d|00_dot_00)"
        form = rf"[A-Za-z]+(?:_bar_{coordinate}){{3}}(?:_bar_(?:Sink|Bathtub)Basin)?"
        assert all(re.fullmatch(form, name) for name in named if "_bar_" in name)


@needs_data
def test_statistics_are_those_of_real_training_games(real):
    sample = list(real[::18])
    made = list(generate_games("train", 200, seed=5))
    left, right = measures(sample), measures(made)
    for name, tolerance in (
        ("receptacles", 0.15),
        ("things", 0.15),
        ("commands", 0.15),
        ("plan", 0.1),
        ("closed", 0.2),
    ):
        assert abs(right[name] / left[name] - 1) < tolerance, name
    kinds_real, kinds_made = frequencies(sample), frequencies(made)
    distance = sum(abs(kinds_real[kind] - kinds_made[kind]) for kind in kinds_real | kinds_made) / 2
    assert distance < 0.08


def measures(records: list[GameRecord]) -> dict[str, float]:
    """Means over games; `closed` is the share of the things that are behind a door."""
    rows = []
    for record in records:
        game = of(record)
        state = game.start()
        things = things_in(state)
        closed = mean(not state.is_open(state.container(name)) for name in things)
        rows.append((len(game.receptacles), len(things), len(state.admissible), len(play_plan(game)), closed))
    return dict(
        zip(("receptacles", "things", "commands", "plan", "closed"), map(mean, zip(*rows, strict=True)), strict=True)
    )


def frequencies(records: list[GameRecord]) -> Counter[str]:
    """Share of each kind among the things in receptacles."""
    counts = Counter(game.things[name].kind for game in map(of, records) for name in things_in(game.start()))
    total = counts.total()
    return Counter({kind: number / total for kind, number in counts.items()})
