"""The vector environment against Gymnasium's own, over the same games; and what it refuses."""

from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import alfworld_native.environment as household
from alfworld_native import GameError, best_commands, generate_games, open_game
from alfworld_native.vector import HouseholdVectorEnv

GAMES = generate_games("test", 5)
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


def assert_same(left, right):
    """Equal in all parts: arrays, dictionaries and texts."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()
    elif isinstance(left, tuple | list):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    else:
        assert left == right


@pytest.mark.parametrize("mode", MODES, ids=[mode.value for mode in MODES])
def test_it_gives_what_the_vector_environment_of_gymnasium_gives(mode):
    options = {"games": GAMES, "max_episode_steps": 7}
    ours = gymnasium.make_vec(household.ENV_ID, 3, autoreset_mode=mode, **options)
    assert isinstance(ours, HouseholdVectorEnv)
    theirs = gymnasium.make_vec(household.ENV_ID, 3, "sync", vector_kwargs={"autoreset_mode": mode}, **options)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"] == mode
    left, right = ours.reset(seed=4), theirs.reset(seed=4)
    assert_same(left, right)
    texts, infos = left
    winning = {record.key: plan(record) for record in GAMES}
    ended = won = 0
    steps = [0, 0, 0]
    for _ in range(30):
        # The first game is solved, the others are not, and one of them is given a wrong command.
        solution = winning[infos["game"][0]]
        commands = (solution[steps[0]] if steps[0] < len(solution) else "look", "look", "fly")
        left, right = ours.step(commands), theirs.step(commands)
        for ours_part, theirs_part in zip(left, right, strict=True):
            assert_same(ours_part, theirs_part)
        texts, rewards, terminated, truncated, infos = left
        won += rewards.sum()
        over = terminated | truncated
        ended += over.sum()
        steps = [
            0 if end and mode == AutoresetMode.SAME_STEP else step + 1 for step, end in zip(steps, over, strict=True)
        ]
        if mode == AutoresetMode.NEXT_STEP:
            steps = [-1 if end else step for step, end in zip(steps, over, strict=True)]
        if mode == AutoresetMode.DISABLED and over.any():
            left, right = (envs.reset(options={"reset_mask": over.copy()}) for envs in (ours, theirs))
            assert_same(left, right)
            infos = {**infos, "game": np.where(over, left[1]["game"], infos["game"])}
            steps = [0 if end else step for step, end in zip(steps, over, strict=True)]
    assert ended > 6
    assert won >= 2
    assert all(isinstance(text, str) for text in texts)


def plan(record):
    state = open_game(record).start()
    commands = []
    while not state.won:
        commands.append(best_commands(state)[0])
        state.step(commands[-1])
    return commands


def test_hundreds_of_games_in_one_process():
    envs = gymnasium.make_vec(household.ENV_ID, 256, games=GAMES)
    texts, infos = envs.reset(seed=0)
    assert len(texts) == 256
    # As many different draws as there are games to draw from.
    assert set(infos["game"]) == set(GAMES.keys)
    _, rewards, terminated, truncated, infos = envs.step([listed[0] for listed in infos["admissible_commands"]])
    assert rewards.shape == terminated.shape == truncated.shape == (256,)
    assert infos["_won"].all()


def walked(seed):
    envs = gymnasium.make_vec(household.ENV_ID, 4, games=GAMES)
    told = [envs.reset(seed=seed)[0]]
    for _ in range(10):
        told.append(envs.step(["go to countertop 1", "inventory", "look", "examine drawer 1"])[0])
    return told


def test_threads_play_as_if_alone():
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(walked, range(6))) == [walked(seed) for seed in range(6)]


def test_the_last_texts_are_rendered():
    envs = gymnasium.make_vec(household.ENV_ID, 2, games=GAMES, render_mode="ansi")
    envs.reset(seed=1)
    texts, *_ = envs.step(["inventory", "fly"])
    assert envs.render() == texts == ("You are not carrying anything.", "Nothing happens.")


def test_a_list_of_seeds_gives_each_game_its_own():
    envs = HouseholdVectorEnv(2, games=GAMES)
    same, _ = envs.reset(seed=[3, 3])
    assert same[0] == same[1]
    assert envs.reset(seed=3)[0][0] == same[0]


def test_seeds_of_numpy_are_seeds():
    envs = HouseholdVectorEnv(2, games=GAMES)
    assert envs.reset(seed=np.int64(3))[0] == envs.reset(seed=3)[0]
    assert envs.reset(seed=np.array([3, 4]))[0] == envs.reset(seed=3)[0]
    for seed in (2.5, "12", [1, "2"]):
        with pytest.raises(GameError, match="a seed is a whole number or None, not"):
            envs.reset(seed=seed)


def test_games_are_read_once_for_all(monkeypatch):
    read = []
    monkeypatch.setattr("alfworld_native.sources.load_games", lambda *named: read.append(named) or GAMES)
    HouseholdVectorEnv(3, games="some/folder").reset(seed=0)
    assert len(read) == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"num_envs": 0}, "num_envs must be a whole number from 1 on, not 0"),
        ({"num_envs": 2.0}, r"num_envs must be a whole number from 1 on, not 2\.0"),
        ({"max_episode_steps": 0}, "max_episode_steps must be 1 or more"),
        ({"autoreset_mode": "NextStp"}, "Did you mean 'NextStep'"),
        ({"games": []}, "there are no games to play"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings, says):
    with pytest.raises(GameError, match=says):
        HouseholdVectorEnv(**settings)


def test_wrong_calls_are_refused():
    envs = HouseholdVectorEnv(2, 1, games=GAMES, autoreset_mode="Disabled")
    with pytest.raises(GameError, match="one seed for each of 2 games, not 3"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(GameError, match="no option 'reset_masks'; it knows 'game' and 'reset_mask'"):
        envs.reset(options={"reset_masks": np.array([True, False])})
    with pytest.raises(GameError, match="reset_mask must be a Boolean array"):
        envs.reset(options={"reset_mask": [True, False]})
    envs.reset(seed=0)
    with pytest.raises(GameError, match="a list of 2 commands, one for each game, not 1 commands"):
        envs.step(["look"])
    envs.step(["look", "look"])
    with pytest.raises(GameError, match=r"games \[0, 1\] are over"):
        envs.step(["look", "look"])


@pytest.mark.parametrize(
    ("commands", "says"),
    [
        (["inventory", 3], "a text such as 'look', not 3"),
        ("ab", "a list of 2 commands, one for each game, not 'ab'"),
        (None, "not None"),
    ],
)
def test_wrong_commands_are_refused_and_move_no_game(commands, says):
    envs = HouseholdVectorEnv(2, 1, games=GAMES)
    with pytest.raises(GameError, match=r"call reset\(\) first"):
        envs.step(["look", "look"])
    envs.reset(seed=0, options={"reset_mask": np.array([True, False])})
    with pytest.raises(GameError, match=r"call reset\(\) first"):
        envs.step(["look", "look"])
    texts, _ = envs.reset(seed=0)
    with pytest.raises(GameError, match=says):
        envs.step(commands)
    envs.render_mode = "ansi"
    assert envs.render() == texts
    # The limit is one command: a refused call must not have counted.
    assert envs.step(np.array(["look", "look"]))[3].tolist() == [True, True]
