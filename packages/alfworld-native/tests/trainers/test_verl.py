"""The manager with verl-agent's method names."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from alfworld_native import GameError, generate_games, open_game
from alfworld_native.compat import make_config
from alfworld_native.compat.experts import shortest_plan
from alfworld_native.trainers.verl import HouseholdEnvs, HouseholdManager, make_envs, project

EXAMPLE = Path(__file__).parents[2] / "examples" / "verl_agent.py"
CONFIG = make_config("generated:train:5", max_steps=30)
PLANS = {record.goal: shortest_plan(open_game(record).start()) for record in generate_games("train", 5)}

INFOS = {"won", "admissible_commands", "extra.gamefile", "observation_text"}


def replies(commands):
    return [f"<think>so</think><action>{command}</action>" for command in commands]


def test_a_group_plays_the_same_game_and_wins_it():
    manager = HouseholdManager(CONFIG, env_num=2, group_n=2, seed=2)
    observations, infos = manager.reset({})
    assert observations["anchor"][0] == observations["anchor"][1]
    assert observations["image"] is None
    assert len({info["extra.gamefile"] for info in infos}) == 2
    plans = [PLANS[task] for task in manager.tasks]
    # The second game of each group gives wrong commands and loses.
    paid = np.zeros(4)
    for step in range(max(map(len, plans))):
        commands = [plan[step] if step < len(plan) else "look" for plan in plans]
        commands[1] = commands[3] = "fly"
        observations, rewards, dones, infos = manager.step(replies(commands))
        paid = np.maximum(paid, rewards)
    assert paid.tolist() == [10.0, 0.0, 10.0, 0.0]
    assert dones.tolist() == [True, False, True, False]
    assert [info["won"] for info in infos] == [True, False, True, False]
    success = manager.success_evaluator(
        total_infos=[[info] for info in infos], total_batch_list=[[{"active_masks": True}]] * 4
    )
    assert success["success_rate"].tolist() == [1.0, 0.0, 1.0, 0.0]
    manager.close()


def test_the_text_has_task_history_and_commands():
    manager = HouseholdManager(CONFIG, history_length=1)
    first, infos = manager.reset()
    assert first["text"][0].endswith("Commands: " + ", ".join(infos[0]["admissible_commands"]))
    manager.step(replies(["inventory"]))
    text = manager.step(replies(["look"]))[0]["text"][0]
    # One earlier turn: the answer to `inventory`, and the command that was given then.
    assert "You are not carrying anything.\n> look\n" in text
    assert "> inventory" not in text
    assert f"Your task is to: {manager.tasks[0]}" in text


@pytest.mark.parametrize(
    ("reply", "command", "valid"),
    [
        ("<think>a</think><action> Look </action>", "look", 1),
        # Without thoughts the command is carried out, and punished; thoughts may come last, and may be in capitals not.
        ("<action>look</action>", "look", 0),
        ("<action>look</action><think>late</think>", "look", 1),
        ("<THINK>a</THINK><ACTION>look</ACTION>", "look", 0),
        ("<think>a</think><ACTION>look</ACTION>", "look", 1),
        # The first opening and the first closing sign count, wherever they stand.
        ("<think>a</think><action>look</action><action>help</action>", "look", 1),
        ("<think>a</think><action>look <action>help</action>", "look <action>help", 1),
        ("<think>a</think></action><action>look</action>", "", 1),
        ("<think>a</think><action>look\nhelp</action>", "look\nhelp", 1),
        ("<think>\u770b</think><action>look</action>", "look", 0),
        # Without both signs the last thirty characters are the command, as they stand.
        ("<think>a</think><action>look", "<think>a</think><action>look", 0),
        ("I say so: the Fridge is closed.\nlook", "so: the fridge is closed.\nlook", 0),
        ("x" * 31, "x" * 30, 0),
        ("", "", 0),
    ],
)
def test_replies_are_read_by_verl_agents_rules(reply, command, valid):
    assert project([reply]) == ([command], [valid])


def test_each_reply_is_judged_in_its_dictionary():
    manager = HouseholdManager(CONFIG, env_num=2)
    manager.reset()
    infos = manager.step(["<think>a</think><action>look</action>", "look"])[3]
    assert [info["is_action_valid"].tolist() for info in infos] == [1, 0]


def test_a_game_that_is_over_repeats_its_answer_until_the_next_reset():
    manager = HouseholdManager(CONFIG)
    manager.reset()
    plan = PLANS[manager.tasks[0]]
    for command in plan:
        won = manager.step(replies([command]))
    after = manager.step(replies(["inventory"]))
    assert after[0]["anchor"] == won[0]["anchor"]
    # verl-agent masks these turns itself; the reward and the end are told again.
    assert (after[1].tolist(), after[2].tolist(), after[3][0]["won"]) == ([10.0], [True], True)
    before = manager.gamefile
    _, infos = manager.reset()
    assert manager.gamefile != before
    assert infos[0]["won"] is False


def test_rewards_and_ends_are_arrays_of_the_rollout_loops_shape():
    manager = HouseholdManager(CONFIG, env_num=2, group_n=3)
    observations, infos = manager.reset(kwargs=None)
    assert "is_action_valid" not in infos[0]
    assert set(observations) == {"text", "image", "anchor"}
    _, rewards, dones, infos = manager.step(replies(["look"] * 6))
    assert (rewards.dtype, rewards.shape) == (np.float64, (6,))
    assert (dones.dtype, dones.shape) == (np.bool_, (6,))
    assert set(infos[0]) == {*INFOS, "is_action_valid"}


def test_no_history_is_shown_for_a_length_below_one():
    manager = HouseholdManager(CONFIG, history_length=-1)
    manager.reset()
    manager.step(replies(["inventory"]))
    text = manager.step(replies(["look"]))[0]["text"][0]
    assert "\n> " not in text


def test_training_games_have_no_plan_whatever_the_configuration_says():
    # verl-agent's own file asks for imitation, and verl-agent makes no plan all the same.
    envs = HouseholdEnvs(make_config("generated:train:5", max_steps=7, expert="handcoded"))
    _, _, infos = envs.reset()
    assert set(infos[0]) == INFOS
    overs = [envs.step(["look"])[3] for _ in range(7)]
    assert overs == [[False]] * 6 + [[True]]


def test_the_games_alone_can_be_put_under_another_manager():
    envs = HouseholdEnvs(CONFIG, env_num=1, group_n=2)
    texts, images, infos = envs.reset()
    assert len(texts) == 2
    assert images is None
    assert [info["observation_text"] for info in infos] == texts
    assert envs.get_admissible_commands == [info["admissible_commands"] for info in infos]
    task = texts[0].partition("Your task is to: ")[2].strip()
    for command in PLANS[task]:
        _, images, rewards, overs, infos = envs.step([command, "fly"])
    assert (images, rewards, overs) == (None, [10.0, 0.0], [True, False])
    assert envs.get_admissible_commands[1] == infos[1]["admissible_commands"]
    envs.close()


def test_managers_are_made_from_verl_agents_configuration():
    config = SimpleNamespace(
        env=SimpleNamespace(
            seed=5,
            history_length=3,
            rollout=SimpleNamespace(n=2),
            alfworld=SimpleNamespace(eval_dataset="eval_in_distribution"),
        ),
        data=SimpleNamespace(train_batch_size=2, val_batch_size=3),
    )
    household = make_config("generated:train:50", "generated:validation:50", max_steps=30)
    train, validation = make_envs(config, household)
    assert (train.history_length, validation.history_length) == (3, 3)
    train.reset()
    validation.reset()
    # Groups of two at seeds 5 and 6; single games at seeds 1005 to 1007.
    alone = HouseholdManager(household, "train", 2, 2, seed=5)
    alone.reset()
    assert train.gamefile == alone.gamefile
    assert len(train.gamefile) == 4
    alone = HouseholdManager(household, "eval_in_distribution", 3, 1, seed=1005)
    alone.reset()
    assert validation.gamefile == alone.gamefile
    config.env.rollout.n = 0
    train, _ = make_envs(config, household)
    assert len(train.reset()[1]) == 2


def test_only_active_turns_count_as_the_end():
    manager = HouseholdManager(CONFIG)
    path = "pick_and_place_simple-Mug-None-Shelf-kitchen/trial_1/game.tw-pddl"
    infos = [{"won": True, "extra.gamefile": path}, {"won": False, "extra.gamefile": path}]
    batches = [{"active_masks": True}, {"active_masks": False}]
    success = manager.success_evaluator(total_infos=[infos], total_batch_list=[batches])
    assert {key: value.tolist() for key, value in success.items()} == {
        "success_rate": [1.0],
        "pick_and_place_success_rate": [1.0],
    }


def test_wrong_calls_are_refused():
    with pytest.raises(GameError, match="env_num and group_n must be 1 or more"):
        HouseholdManager(CONFIG, env_num=0)
    manager = HouseholdManager(CONFIG)
    with pytest.raises(GameError, match=r"call reset\(\) first"):
        manager.step(["look"])
    manager.reset()
    with pytest.raises(GameError, match="a list of 1 replies, one for each game, not 2 replies"):
        manager.step(replies(["look", "look"]))
    with pytest.raises(GameError, match="a text such as 'look', not 3"):
        manager.step([3])
    envs = HouseholdEnvs(CONFIG, group_n=2)
    envs.reset()
    for commands in (["look", 3], "ab", None):
        with pytest.raises(GameError, match=r"a text such as 'look'|a list of 2 commands"):
            envs.step(commands)


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE))
    assert "success_rate" in capsys.readouterr().out
