"""The Gymnasium environment."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from alfworld_layout import write_official
from alfworld_native import GameError, best_commands, generate_games, open_game
from alfworld_native.environment import ENV_ID, HouseholdEnv
from alfworld_native.vector import HouseholdVectorEnv
from household_games import OPENING, WINNING, kitchen_record


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_gymnasium_accepts_it():
    check_env(HouseholdEnv([kitchen_record("pick_and_place_simple")], render_mode="ansi"), skip_render_check=False)


def test_the_commands_that_win_pay_once():
    env = HouseholdEnv([kitchen_record("pick_and_place_simple")])
    text, info = env.reset(seed=0)
    assert text.startswith(OPENING)
    assert info["game"] == kitchen_record("pick_and_place_simple").key
    *before, last = [env.step(command) for command in WINNING["pick_and_place_simple"]]
    assert {step[1:4] for step in before} == {(0.0, False, False)}
    assert last[1:4] == (1.0, True, False)
    assert last[4]["won"]
    assert env.step("look")[1] == 0.0


def test_a_game_that_is_won_twice_pays_once_until_it_begins_anew():
    env = HouseholdEnv([kitchen_record("look_at_obj_in_light")])
    for _ in range(2):
        env.reset(seed=0)
        won = [env.step(command)[1:3] for command in WINNING["look_at_obj_in_light"]]
        assert won[-1] == (1.0, True)
        lamp = env.unwrapped._state.here[0]
        assert env.step("go to fridge 1")[1:3] == (0.0, False)
        assert env.step(f"go to {lamp}")[1:3] == (0.0, True)


def test_a_command_that_is_not_admissible_changes_nothing():
    env = gymnasium.make(ENV_ID, games=[kitchen_record("pick_and_place_simple")])
    before = env.reset(seed=0)[1]["admissible_commands"]
    text, reward, terminated, truncated, info = env.step("fly to the moon")
    assert (text, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, False)
    assert info["admissible_commands"] == before


def test_equal_seeds_draw_equal_games_and_others_other_ones():
    texts = [gymnasium.make(ENV_ID).reset(seed=seed)[0] for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("made", [HouseholdEnv, HouseholdVectorEnv])
def test_an_unknown_wording_is_refused_before_the_first_game(made):
    with pytest.raises(GameError, match=r"^no wording '2\.1\.3'\. Known: 2\.1\.1, 2\.1\.2; 2"):
        made(wording="2.1.3")


def test_a_game_can_be_chosen():
    games = generate_games("test", 3)
    env = HouseholdEnv()
    _, info = env.reset(options={"game": games[1]})
    assert info["game"] == games[1].key
    state = open_game(games[1]).start()
    while not state.won:
        command = best_commands(state)[0]
        text, _, terminated, _, _ = env.step(command)
        assert (text, terminated) == (state.step(command).feedback, state.won)


def test_a_game_can_be_chosen_by_the_key_that_it_reports():
    games = generate_games("test", 3)
    for env in (HouseholdEnv(games), HouseholdEnv([*games])):
        assert env.reset(options={"game": games[2].key})[1]["game"] == games[2].key
        with pytest.raises(GameError, match="no game 'generated/0/1'"):
            env.reset(options={"game": "generated/0/1"})
    env = HouseholdEnv()
    text, info = env.reset(seed=0)
    env.reset()
    assert env.reset(options={"game": info["game"]})[0] == text
    with pytest.raises(GameError, match="no game 'generated/2/1' among those from generated/0/0 to generated/0/99999"):
        env.reset(options={"game": "generated/2/1"})


def test_a_chosen_game_changes_no_later_draw():
    env, other = HouseholdEnv(), HouseholdEnv()
    env.reset(seed=1)
    other.reset(seed=1)
    other.reset(options={"game": "generated/0/5"})
    assert env.reset()[1] == other.reset()[1]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"games": kitchen_record("pick_and_place_simple")}, r"no option 'games'; it knows 'game'"),
        ({"seed": 3}, "no option 'seed'"),
        ({"game": 3}, "a GameRecord or the key of a game, not 3"),
        ({"game": [kitchen_record("pick_and_place_simple")]}, "a GameRecord or the key of a game, not"),
        (["game"], r"are a dictionary, not \['game'\]"),
    ],
)
def test_options_that_would_play_another_game_are_refused(options, says):
    for env in (HouseholdEnv(), gymnasium.make_vec(ENV_ID, 2)):
        with pytest.raises(GameError, match=says):
            env.reset(seed=0, options=options)


@pytest.mark.parametrize("make", [gymnasium.make, partial(gymnasium.make_vec, num_envs=2)])
def test_games_can_be_named_by_their_source(make, tmp_path, monkeypatch):
    (record,) = generate_games("test", 1)
    record = replace(record, key=f"{record.task_type}-{record.subject}/trial_0")
    write_official(tmp_path / "json_2.1.1/train", record)
    monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
    # The folder of all splits, that of one split, and a variable in its name.
    for source in (tmp_path, str(tmp_path / "json_2.1.1/train"), "$SOME_FOLDER"):
        assert told(make(ENV_ID, games=source)) == {record.key}
    assert told(make(ENV_ID, games="generated:test:1:4")) == {"generated/14/0"}
    assert told(make(ENV_ID, games=generate_games("test", 1))) == {"generated/2/0"}
    # An array is no `Sequence`, and serves as one.
    assert told(make(ENV_ID, games=np.array([*generate_games("test", 1)], dtype=object))) == {"generated/2/0"}


@pytest.mark.parametrize("make", [gymnasium.make, partial(gymnasium.make_vec, num_envs=2)])
def test_a_split_of_a_folder_can_be_named(make, tmp_path):
    names = {}
    for split, record in zip(("train", "valid_seen"), generate_games("test", 2), strict=True):
        names[split] = f"{record.task_type}-{record.subject}/trial_0"
        write_official(tmp_path / "json_2.1.1" / split, replace(record, key=names[split]))
    assert told(make(ENV_ID, games=tmp_path, split="valid_seen")) == {names["valid_seen"]}
    assert told(make(ENV_ID, games=tmp_path)) == {names["train"]}
    for games, split, says in (
        (tmp_path, "valid_sen", "Did you mean 'valid_seen'"),
        (tmp_path / "json_2.1.1/train", "valid_seen", "holds one split only"),
        ("generated:test:1", "train", "holds one split only"),
        (generate_games("test", 1), "train", "records have no splits"),
        (None, "train", "there is no folder"),
    ):
        with pytest.raises(GameError, match=says):
            make(ENV_ID, games=games, split=split)


def told(env):
    """Keys of the games that are played."""
    keys = env.reset(seed=0)[1]["game"]
    return {keys} if isinstance(keys, str) else {*keys}


@pytest.mark.parametrize(
    ("games", "says"),
    [
        ("/no/such/folder", "there is no folder /no/such/folder"),
        ("/no/such.jsonl.xz", "there is no file /no/such.jsonl.xz"),
        ("generated:trian:3", "Did you mean 'train'"),
        (["generated/0/1"], "games holds 'generated/0/1', no GameRecord"),
        (3, "not 3"),
        ([], "there are no games to play"),
    ],
)
def test_games_that_cannot_be_used_are_named(games, says):
    for kind in (HouseholdEnv, HouseholdVectorEnv):
        with pytest.raises(GameError, match=says):
            kind(games=games)


def test_a_game_that_cannot_be_played_is_named():
    (record,) = generate_games("test", 1)
    for make in (HouseholdEnv, HouseholdVectorEnv):
        with pytest.raises(GameError, match=r"the game 'generated/2/0' cannot be played: a household problem must"):
            make(games=[replace(record, problem=record.problem[:4000])]).reset(seed=0)


def test_fifty_turns_are_the_limit():
    env = gymnasium.make(ENV_ID)
    env.reset(seed=0)
    assert [env.step("look")[3] for _ in range(50)] == [False] * 49 + [True]


def test_the_last_text_can_be_rendered():
    env = HouseholdEnv(render_mode="ansi")
    text, _ = env.reset(seed=0)
    assert env.render() == text
    assert HouseholdEnv().render() is None


def test_misuse_is_named():
    env = HouseholdEnv()
    with pytest.raises(GameError, match="call reset"):
        env.step("look")
    env.reset(seed=0)
    with pytest.raises(GameError, match="not 3"):
        env.step(3)  # type: ignore[arg-type]
