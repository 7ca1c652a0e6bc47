"""The Gymnasium environment."""

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from alfworld_native import GameError, best_commands, generate_games, open_game
from alfworld_native.environment import ENV_ID, HouseholdEnv
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


def test_a_command_that_is_not_admissible_changes_nothing():
    env = gymnasium.make(ENV_ID, games=[kitchen_record("pick_and_place_simple")])
    before = env.reset(seed=0)[1]["admissible_commands"]
    text, reward, terminated, truncated, info = env.step("fly to the moon")
    assert (text, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, False)
    assert info["admissible_commands"] == before


def test_equal_seeds_draw_equal_games_and_others_other_ones():
    texts = [gymnasium.make(ENV_ID).reset(seed=seed)[0] for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


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
    with pytest.raises(GameError, match="there are no games to play"):
        HouseholdEnv([])
    env = HouseholdEnv()
    with pytest.raises(GameError, match="call reset"):
        env.step("look")
    env.reset(seed=0)
    with pytest.raises(GameError, match="not 3"):
        env.step(3)  # type: ignore[arg-type]
