"""The same program against alfworld itself and against this package: every string, number and order must be equal."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from alfworld_native import generate_games, load_games, open_game
from alfworld_native._textworld_worker import SHORTCUTS
from alfworld_native.compat import make_config
from alfworld_native.compat.experts import shortest_plan
from alfworld_native.engine import Game
from alfworld_native.game_file import parse_game_file
from alfworld_native.official import write_games

SCRIPT = Path(__file__).with_name("agent_script.py")

needs_alfworld = pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra `textworld` is not installed")


def solutions(paths):
    """Commands that win each game, by its path."""
    found = {}
    for path in paths:
        text = parse_game_file(path.read_bytes(), str(path))
        found[str(path)] = shortest_plan(Game(text.problem, text.goal, text.wording).start())
    return found


def told(module, folder, config, split, batch_size, episodes, options=()):
    out = folder / f"{module}.json"
    subprocess.run(
        [
            *(sys.executable, SCRIPT, module, json.dumps(config), split, str(batch_size)),
            *(folder / "solutions.json", out, str(episodes), *options),
        ],
        check=True,
        capture_output=True,
        env={**os.environ, "ALFWORLD_DATA": str(folder), "OMP_NUM_THREADS": "1"},
    )
    return json.loads(out.read_text())


def both(folder, config, split, batch_size, paths, *, episodes=3, as_it_comes=False):
    (folder / "solutions.json").write_text(json.dumps(solutions(paths)))
    options = () if as_it_comes else [SHORTCUTS]
    theirs = told("alfworld.agents.environment", folder, config, split, batch_size, episodes, options)
    ours = told("alfworld_native.compat", folder, config, split, batch_size, episodes)
    return theirs, ours


@needs_alfworld
@pytest.mark.parametrize(
    ("wording", "batch_size", "max_steps"), [("2.1.1", 1, 50), ("2.1.2", 2, 10)], ids=["one game", "two, cut off"]
)
def test_all_that_a_program_is_told_is_equal(tmp_path, wording, batch_size, max_steps):
    folder = tmp_path / "json_2.1.1" / "valid_seen"
    paths = write_games(generate_games("test", 5, seed=3), folder, wording)
    config = make_config(eval_in_distribution="$ALFWORLD_DATA/json_2.1.1/valid_seen", max_steps=max_steps)
    # One of the two without shortcuts, which are ours and not alfworld's.
    theirs, ours = both(tmp_path, config, "eval_in_distribution", batch_size, paths, as_it_comes=batch_size == 1)
    assert len(theirs) == 2 + 1 + 3 * 16
    assert ours == theirs
    answers = [each for each in theirs if isinstance(each, list) and len(each) == 5]
    # Otherwise nothing would have been shown after an end.
    assert any(all(dones) for _, _, _, dones, _ in answers)


@needs_alfworld
def test_chosen_kinds_of_task_and_numbers_of_games_are_equal(tmp_path):
    folder = tmp_path / "train"
    paths = write_games(generate_games("train", 12), folder)
    config = make_config(str(folder), task_types=[1, 6])
    config["dataset"]["num_train_games"] = 3
    theirs, ours = both(tmp_path, config, "train", 1, paths)
    assert theirs[0] == 3
    assert ours == theirs


def taken_out(told, key):
    """Values under a key of `infos`, game by game and step by step."""
    answers = [each[-1] for each in told if isinstance(each, list) and isinstance(each[-1], dict)]
    return [infos.pop(key)[0] for infos in answers if key in infos], answers


def plans_of_both(folder, records, expert, *, episodes=3):
    """Plans of both experts; all else must be equal."""
    paths = write_games(records, folder / "train", "2.1.2")
    config = make_config(str(folder / "train"), expert=expert)
    theirs, ours = both(folder, config, "train", 1, paths, episodes=episodes)
    plans = []
    for told in (theirs, ours):
        found, answers = taken_out(told, "extra.expert_plan")
        assert len(found) == len(answers) == 1 + episodes * 15
        assert all(isinstance(command, str) for plan in found for command in plan)
        plans.append(found)
    # Only alfworld sends what its expert reads, objects of TextWorld.
    assert all(taken_out(theirs, "facts")[0])
    assert ours == theirs
    return plans


@needs_alfworld
def test_a_training_game_comes_with_the_plan_of_the_hand_coded_expert(tmp_path):
    theirs, ours = plans_of_both(tmp_path, generate_games("train", 3, first=4), "handcoded")
    assert theirs[0] == ours[0] == ["look"]
    assert {len(plan) for plan in theirs + ours} == {1}
    # alfworld's expert draws one of several things, so plans may differ later.
    assert sum(map(list.__eq__, theirs, ours)) > len(theirs) / 2


@needs_alfworld
def test_alfworld_sends_the_hand_coded_plan_for_that_of_the_planner(tmp_path):
    records = generate_games("train", 1, first=4)
    theirs, ours = plans_of_both(tmp_path, records, "planner", episodes=1)
    assert theirs[0] == ["look"]
    assert ours[0] == shortest_plan(open_game(records[0], "2.1.2").start())


def official(split):
    """Games of ALFWorld itself."""
    data = os.environ.get("REFLECT_RL_ALFWORLD")
    if not data:
        pytest.skip("REFLECT_RL_ALFWORLD does not name a folder with ALFWorld's games")
    return load_games(Path(data), split)


@needs_alfworld
def test_training_games_of_alfworld_itself_come_with_a_plan(tmp_path):
    theirs, ours = plans_of_both(tmp_path, official("train")[::1500], "handcoded")
    assert theirs[0] == ours[0] == ["look"]


@needs_alfworld
def test_games_of_alfworld_itself(tmp_path):
    folder = tmp_path / "valid_seen"
    paths = write_games(official("valid_seen")[::20], folder)
    config = make_config(eval_in_distribution=str(folder))
    theirs, ours = both(tmp_path, config, "eval_in_distribution", 2, paths)
    assert ours == theirs
