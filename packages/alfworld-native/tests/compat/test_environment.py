"""The drop-in without alfworld: sources of games, the end of episodes, seeds, threads, and input that is wrong."""

import hashlib
import json
import lzma
import shutil
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from alfworld_layout import GRAMMAR, write_official
from alfworld_native import GameError, generate_games
from alfworld_native.compat import AlfredTWEnv, UnknownKeyWarning, get_environment, load_config, make_config
from alfworld_native.compat.games import PassedOver, find_games
from alfworld_native.compat.keys import SECTIONS
from alfworld_native.errors import IncompleteSplitWarning
from alfworld_native.game_file import CHECKSUMS
from alfworld_native.official import official_key
from alfworld_native.record import TASK_TYPES

CONFIG = make_config("generated:train:6", "generated:validation:3:2", max_steps=4)
GENERAL = {"training_method": "dqn", "training": {"optimizer": {"learning_rate": 0.001}}}


def env_of(config=CONFIG, split="train", batch_size=2):
    return AlfredTWEnv(config, split).init_env(batch_size)


def changed(path, value, config=CONFIG):
    """The configuration with another value; `...` takes the key out."""
    config = deepcopy(config)
    *sections, key = path.split(".")
    place = config
    for section in sections:
        place = place[section]
    place[key] = value
    if value is ...:
        del place[key]
    return config


@pytest.fixture
def folder(tmp_path):
    """Three games whose files only this package reads: its texts are not those of alfworld."""
    for record in generate_games("train", 3):
        write_official(tmp_path, record)
    return tmp_path


@pytest.fixture
def known_texts(monkeypatch):
    """The texts that those files share stand for those of a version."""
    domain, grammar = (hashlib.sha256(text.encode()).hexdigest() for text in ("(domain)", GRAMMAR))
    monkeypatch.setitem(CHECKSUMS, "2.1.1", (domain, grammar))


def test_generated_games_are_named_like_those_in_a_folder():
    environment = AlfredTWEnv(CONFIG, "eval_in_distribution")
    keys = [official_key(record) for record in generate_games("validation", 3, seed=2)]
    assert environment.game_files == [f"generated:validation:3:2/{key}/game.tw-pddl" for key in keys]
    assert environment.num_games == 3


def compact(record, key="kind/trial_1", **changes):
    """A line of compact records."""
    thing, _, place = record.subject.split("-")
    row = {
        "id": key,
        "task_type": record.task_type,
        "pddl_params": {"object_target": thing, "mrecep_target": "", "parent_target": place, "toggle_target": ""},
        **{
            "scene": "",
            "goal": record.goal,
            "anns": [],
            "solvable": True,
            "sha256": "",
            "pddl_problem": record.problem,
        },
    }
    return json.dumps({**row, **changes})


def test_compact_records_are_a_source_of_games(tmp_path):
    record = generate_games("train", 1)[0]
    file = tmp_path / "train.jsonl.xz"
    file.write_bytes(lzma.compress(compact(record).encode()))
    environment = AlfredTWEnv(changed("dataset.data_path", str(file)), "train")
    assert environment.game_files == [f"{tmp_path}/kind/trial_1/game.tw-pddl"]
    obs, _ = environment.init_env(1).reset()
    assert obs[0].endswith(record.goal)


@pytest.mark.parametrize(
    ("split", "name"),
    [("train", "train"), ("eval_in_distribution", "valid_seen"), ("eval_out_of_distribution", "valid_unseen")],
)
def test_a_folder_of_compact_records_holds_the_games_of_the_split(tmp_path, split, name):
    for number, record in enumerate(generate_games("train", 3)):
        file = tmp_path / f"{('train', 'valid_seen', 'valid_unseen')[number]}.jsonl.xz"
        file.write_bytes(lzma.compress(compact(record, f"kind/trial_{file.name.partition('.')[0]}").encode()))
    environment = AlfredTWEnv(make_config(*[str(tmp_path)] * 3), split)
    assert environment.game_files == [f"{tmp_path}/kind/trial_{name}/game.tw-pddl"]


def test_compact_records_that_are_not_those_of_the_split_are_named(tmp_path):
    for name in ("valid_seen.jsonl.xz", "train.handcoded.jsonl.xz"):
        (tmp_path / name).touch()
    with pytest.raises(GameError, match=r"Compact records lie there: name one of valid_seen\.jsonl\.xz\.$"):
        AlfredTWEnv(make_config(str(tmp_path)))
    # `alfworld-native check` has no split.
    with pytest.raises(GameError, match=r"name one of valid_seen\.jsonl\.xz\.$"):
        find_games(str(tmp_path), TASK_TYPES, skip_broken=False)


def test_a_seed_orders_the_games_as_the_old_generator_of_numpy_does():
    environment = AlfredTWEnv(CONFIG, "train")
    env = environment.init_env(2)
    expected = list(environment.game_files)
    rng = np.random.RandomState(5)
    rng.shuffle(expected)
    env.seed(5)
    seen = [path for _ in range(3) for path in env.reset()[1]["extra.gamefile"]]
    assert seen == expected
    rng.shuffle(expected)
    env.skip(2)
    assert env.reset()[1]["extra.gamefile"] == expected[2:4]


def test_after_its_last_command_a_game_repeats_its_last_answer():
    env = env_of(batch_size=1)
    env.reset()
    for _ in range(3):
        _, _, dones, _ = env.step(["look"])
        assert dones == (False,)
    last = env.step(["inventory"])
    assert last[2] == (True,)
    assert env.step(["look"]) == last


def test_a_plan_comes_with_training_by_imitation_and_wins():
    config = make_config("generated:train:4", "generated:test:4", expert="planner")
    assert "extra.expert_plan" not in env_of(config, "eval_in_distribution").reset()[1]
    env = env_of(config, batch_size=4)
    _, infos = env.reset()
    dones, scores = (False,) * 4, (0,) * 4
    for _ in range(50):
        if all(dones):
            break
        _, scores, dones, infos = env.step([plan[0] if plan else "look" for plan in infos["extra.expert_plan"]])
    assert scores == (1, 1, 1, 1)
    assert infos["extra.expert_plan"] == [[], [], [], []]


def test_the_hand_coded_expert_begins_with_a_look_and_wins():
    env = env_of(make_config("generated:train:4", max_steps=150, expert="handcoded"), batch_size=4)
    _, infos = env.reset()
    assert infos["extra.expert_plan"] == [["look"]] * 4
    dones, scores = (False,) * 4, (0,) * 4
    while not all(dones):
        commands = [plan[0] for plan in infos["extra.expert_plan"]]
        assert all(command in listed for command, listed in zip(commands, infos["admissible_commands"], strict=True))
        _, scores, dones, infos = env.step(commands)
    assert scores == (1, 1, 1, 1)


def test_the_hand_coded_expert_watches_another_player():
    env = env_of(make_config("generated:train:4", expert="handcoded"), batch_size=1)
    _, infos = env.reset()
    for command in ("fly", "inventory", infos["admissible_commands"][0][0], "  look  "):
        _, _, _, infos = env.step([command])
        assert infos["extra.expert_plan"][0][0] in infos["admissible_commands"][0]


def played(seed):
    env = env_of(make_config("generated:train:20"), batch_size=8)
    env.seed(seed)
    told = [env.reset()]
    for step in range(20):
        commands = [listed[(step * 7) % len(listed)] for listed in told[-1][-1]["admissible_commands"]]
        told.append(env.step(commands))
    return told


def test_threads_play_as_if_alone():
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(played, range(4))) == [played(seed) for seed in range(4)]


def test_a_rendered_game_shows_the_last_command_and_its_answer(capsys):
    env = env_of(batch_size=2)
    env.reset()
    env.step(["inventory", "look at this"])
    told = "> inventory\nYou are not carrying anything.\n\n-----\n> look at this\nNothing happens.\n\n"
    assert env.render("text") == told
    assert env.render("ansi").getvalue().count("\x1b[33m> ") == 2
    env.render()
    assert "Nothing happens." in capsys.readouterr().out


# ---- input that is wrong


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("dataset.data_path", ..., "no 'dataset.data_path'"),
        ("dataset.data_path", None, "data_path of the configuration is None"),
        ("dataset.data_path", "/no/such/folder", "there is no folder /no/such/folder"),
        ("dataset.data_path", "generated:trian:3", "Did you mean 'train'"),
        ("dataset.data_path", "generated:train:0", "not of the form generated:train"),
        ("dataset.data_path", "generated:train:3:x", "not of the form generated:train"),
        ("dataset.data_path", "/no/such.jsonl.xz", "no file /no/such.jsonl.xz"),
        ("dataset.num_train_games", True, "is True, not of type int"),
        ("env.task_types", [], "at least one number from 1 to 6"),
        ("env.task_types", [7], "at least one number from 1 to 6"),
        ("env.expert_type", "handcodd", "Did you mean 'handcoded'"),
        ("env.domain_randomization", True, "set it to false"),
        ("general.training_method", "ppo", "training_method cannot be 'ppo'"),
        (
            "rl.training.max_nb_steps_per_episode",
            -1,
            "max_nb_steps_per_episode of the configuration is -1; it must be 0",
        ),
        ("rl", ..., "no 'rl.training.max_nb_steps_per_episode'"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(path, value, says):
    with pytest.raises(GameError, match=says):
        AlfredTWEnv(changed(path, value))


def test_a_wrong_split_is_named():
    with pytest.raises(GameError, match="Did you mean 'eval_in_distribution'"):
        AlfredTWEnv(CONFIG, "eval_in_distrbution")


@pytest.mark.parametrize("config", [None, [], "base_config.yaml"])
def test_a_configuration_without_sections_is_refused(config):
    with pytest.raises(GameError, match=r"the configuration is .*, not sections; `load_config` or `make_config`"):
        AlfredTWEnv(config)


@pytest.mark.parametrize(
    "key",
    [
        *("dataset.num_evl_games", "genral", "general.trainng_method", "rl.training.max_nb_step_per_episode"),
        *("dagger.action_spac", "env.thor.screen_widht", "general.training.optimizer.learnin_rate"),
    ],
)
def test_an_unknown_key_is_named_and_passed_over(key):
    with pytest.warns(UnknownKeyWarning, match=f"no key '{key}'. Did you mean"):
        AlfredTWEnv(changed(key, 1, {**CONFIG, "general": GENERAL, "env": {**CONFIG["env"], "thor": {}}}))


def test_a_known_configuration_gives_no_warning():
    others = {"logic": {"domain": ""}, "mask_rcnn": None, "vision_dagger": {"resnet_fc_dim": 64}, "controller": {}}
    config = {**CONFIG, **others, "general": {**GENERAL, "evaluate": {"env": {"type": "AlfredTWEnv"}, "repeats": 1}}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AlfredTWEnv(changed("env.thor", {"screen_width": 300}, config))


def test_every_section_is_a_key_of_the_one_around_it():
    for path in SECTIONS.keys() - {""}:
        section, _, name = path.rpartition(".")
        assert name in SECTIONS[section]


def test_numbers_and_commands_of_numpy_are_taken():
    env = env_of(batch_size=np.int64(2))
    env.reset()
    assert env.step(np.array(["inventory", "look"]))[0][0] == "You are not carrying anything."


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "x"])
def test_a_seed_that_no_order_has_is_refused_at_once(seed):
    with pytest.raises(GameError, match=f"a seed is None or a whole number from 0 to 4294967295, not {seed!r}"):
        env_of().seed(seed)


@pytest.mark.parametrize("batch_size", [0, -1, 1.0, True])
def test_a_batch_needs_a_game(batch_size):
    with pytest.raises(GameError, match="batch_size must be a whole number from 1"):
        env_of(batch_size=batch_size)


@pytest.mark.parametrize(
    ("commands", "says"),
    [
        (["look"], "list of 2 commands, one for each game, not 1 commands"),
        ("look", "not 'look'"),
        (None, "not None"),
        ({"look": 1, "inventory": 2}, "not {'look': 1, 'inventory': 2}"),
        (np.array("look"), "list of 2 commands"),
        (["look", 3], "a text such as 'look', not 3"),
    ],
)
def test_wrong_commands_are_refused_and_move_no_game(commands, says):
    env = env_of()
    env.reset()
    with pytest.raises(GameError, match=says):
        env.step(commands)
    # The limit is four commands: a refused call must not have counted.
    assert [env.step(["look", "look"])[2][0] for _ in range(4)] == [False, False, False, True]


def test_nothing_is_played_before_reset_or_after_close():
    env = env_of()
    with pytest.raises(GameError, match=r"call reset\(\) first"):
        env.step(["look", "look"])
    env.reset()
    env.close()
    with pytest.raises(GameError, match=r"call reset\(\) first"):
        env.step(["look", "look"])


def test_images_are_not_played():
    with pytest.raises(GameError, match="there are no images"):
        get_environment("AlfredThorEnv")


@pytest.mark.usefixtures("known_texts")
def test_a_broken_game_is_named_and_skipped_only_if_asked(folder):
    trials = sorted(path.parent for path in folder.rglob("game.tw-pddl"))
    (trials[0] / "game.tw-pddl").write_text("{")
    (trials[1] / "game.tw-pddl").unlink()
    config = changed("dataset.data_path", str(folder))
    with pytest.raises(GameError, match=f"{trials[0].name}.*is not JSON"):
        AlfredTWEnv(config)
    environment = AlfredTWEnv(config, skip_broken=True)
    assert environment.game_files == [str(trials[2] / "game.tw-pddl")]
    # alfworld passes over a trial without a game, too.
    assert environment.skipped == {"broken": 1, "missing": 1}
    assert environment.passed_over[str(trials[1] / "game.tw-pddl")].reason == "missing"
    assert environment.passed_over[str(trials[0] / "game.tw-pddl")].reason == "broken"


def test_a_game_without_its_story_is_named_and_counted(folder):
    trials = sorted(path.parent for path in folder.rglob("game.tw-pddl"))
    (trials[0] / "traj_data.json").unlink()
    environment = AlfredTWEnv(changed("dataset.data_path", str(folder)))
    assert environment.num_games == 2
    assert environment.skipped == {"no traj_data.json": 1}
    assert environment.passed_over == {str(trials[0] / "game.tw-pddl"): PassedOver("no traj_data.json")}


@pytest.mark.usefixtures("known_texts")
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (..., "must have the texts pddl_domain, grammar, pddl_problem"),
        ("", r"holds no game that can be played: .*\(:domain alfred\)"),
        ("(define (problem x) (:domain alfred) (:objects a", r"must have \(:objects …\), \(:init …\)"),
        (f"(:domain alfred) (:objects) (:init) (:goal {'(and ' * 9999}{')' * 9999})", "recursion"),
    ],
    ids=["absent", "empty", "truncated", "nested"],
)
def test_a_game_file_without_its_problem_is_named_and_skipped(folder, problem, says):
    file, *others = sorted(folder.rglob("game.tw-pddl"))
    game = json.loads(file.read_text()) | {"pddl_problem": problem}
    file.write_text(json.dumps({key: value for key, value in game.items() if value is not ...}))
    config = changed("dataset.data_path", str(folder))
    environment = AlfredTWEnv(config)
    with pytest.raises(GameError, match=f"{file}.*{says}"):
        environment.init_env(3).reset()
    environment = AlfredTWEnv(config, skip_broken=True)
    assert sorted(environment.game_files) == [str(other) for other in others]
    assert environment.skipped == {"broken": 1}
    environment.init_env(2).reset()


@pytest.mark.usefixtures("known_texts")
def test_where_all_games_are_broken_one_is_named(folder):
    for file in folder.rglob("game.tw-pddl"):
        file.write_text("{")
    with pytest.raises(GameError, match=r"passed over: 3 broken.*One is broken: .*game\.tw-pddl is not JSON"):
        AlfredTWEnv(changed("dataset.data_path", str(folder)), skip_broken=True)


def test_broken_lines_of_compact_records_are_named_and_skipped(tmp_path):
    record = generate_games("train", 1)[0]
    lines = [
        compact(record, "a/1"),
        "{",
        compact(record, "b/1", goal=3),
        compact(record, "c/1", pddl_problem="(define"),
        compact(record, "d/1", solvable=False),
        compact(record, "a/0"),
        compact(record, "e/1"),
    ]
    file = tmp_path / "train.jsonl.xz"
    file.write_bytes(lzma.compress("\n".join(lines).encode()))
    config = changed("dataset.data_path", str(file))
    with pytest.raises(GameError, match=r"train\.jsonl\.xz, line 2 is not JSON"):
        AlfredTWEnv(config)
    environment = AlfredTWEnv(config, skip_broken=True)
    assert environment.game_files == [f"{tmp_path}/{key}/game.tw-pddl" for key in ("a/1", "e/1")]
    assert environment.skipped == {"broken": 4, "unsolvable": 1}
    assert "line 4 holds no game that can be played" in environment.passed_over[f"{tmp_path}/c/1/game.tw-pddl"].error
    # Nobody knows how many games are lost behind it.
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(GameError, match="cannot be read after line"):
        AlfredTWEnv(config, skip_broken=True)


def test_half_a_download_is_told(tmp_path):
    split, record = tmp_path / "json_2.1.1" / "valid_unseen", generate_games("train", 1)[0]
    for number in range(3):
        write_official(split, replace(record, key=f"kind-{number}/trial_T20190907_174127_043461"))
    config = changed("dataset.eval_ood_data_path", str(split))
    says = r"valid_unseen has 3 of the 134 games of ALFWorld's valid_unseen\. Run `alfworld-download` again"
    with pytest.warns(IncompleteSplitWarning, match=says):
        AlfredTWEnv(config, "eval_out_of_distribution")
    # Of fewer kinds of task there are fewer games.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AlfredTWEnv(
            changed("env.task_types", [1 + TASK_TYPES.index(record.task_type)], config), "eval_out_of_distribution"
        )


def test_half_a_download_of_compact_records_is_told(tmp_path):
    record = generate_games("train", 1)[0]
    file = tmp_path / "valid_seen.jsonl.xz"
    file.write_bytes(lzma.compress(compact(record, "kind-1/trial_T20190907_174127_043461").encode()))
    for path in (file, tmp_path):
        with pytest.warns(IncompleteSplitWarning, match=r"valid_seen\.jsonl\.xz has 1 of the 140 games"):
            AlfredTWEnv(changed("dataset.eval_id_data_path", str(path)), "eval_in_distribution")


def test_a_game_with_other_texts_is_refused_when_it_is_played(folder):
    env = env_of(changed("dataset.data_path", str(folder)), batch_size=1)
    with pytest.raises(GameError, match=f"texts of no version known here .{', '.join(CHECKSUMS)}."):
        env.reset()


def test_a_game_that_has_gone_is_named(folder):
    env = env_of(changed("dataset.data_path", str(folder)), batch_size=1)
    shutil.rmtree(folder)
    with pytest.raises(GameError, match=r"the game .*game\.tw-pddl cannot be read: No such file"):
        env.reset()


def test_a_configuration_file_is_read(tmp_path, monkeypatch):
    pytest.importorskip("yaml")
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(CONFIG))  # JSON is YAML
    assert load_config(file) == CONFIG
    monkeypatch.setattr(sys, "argv", ["program", str(file)])
    assert load_config() == CONFIG
    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(GameError, match="no configuration file is named"):
        load_config()


def test_without_pyyaml_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(GameError, match=r"load_config needs PyYAML: run `pip install pyyaml`, or use make_config"):
        load_config("base_config.yaml")


@pytest.mark.parametrize("text", ["[1", "[1]", ""])
def test_a_broken_configuration_file_is_named(tmp_path, text):
    pytest.importorskip("yaml")
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(GameError, match=r"the configuration .*config\.yaml"):
        load_config(file)
