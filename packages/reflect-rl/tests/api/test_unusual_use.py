"""The Python API where games, names and folders are not as usual."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import reflect_rl as rrl
from reflect_rl.agent import Agent
from reflect_rl.config import ModelConfig
from reflect_rl.errors import (
    ConfigError,
    FaultyEnvironmentError,
    ModelError,
    RunFolderError,
    UnknownNameError,
    UserError,
)
from reflect_rl.models.load import load_model, load_reader
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.players.scripted import OracleReflector
from reflect_rl.prompts import policy_prompt
from reflect_rl.rollout import NoReflector

SHAPE = {"hidden_size": 16, "layers": 1, "heads": 2, "context_tokens": 192, "device": "cpu"}
COLOURS = ("red", "green", "blue", "white", "black")
TINY_RL = {"turns": 16, "starts_per_update": 4, "episodes_per_start": 2, "validate_every": 0}


class Rooms(rrl.TextEnv):
    """A colour is named and is to be chosen, in one turn."""

    name = "rooms"
    max_episode_steps, max_actions = 3, 3

    def tasks(self, mode, split):
        numbers = {"train": range(8), "validation": range(8, 10), "test": range(10, 14)}[split]
        return [rrl.Task(f"{mode}/{number}", mode, split, {"number": number}) for number in numbers]

    def reset(self, task, rng):
        self.wanted = task.data["number"] % 3
        actions = COLOURS[: self.max_actions]
        return rrl.Observation(f"Room {task.data['number']}: take {actions[self.wanted]}.", actions)

    def step(self, action):
        won = action == self.wanted
        return rrl.Step(rrl.Observation("Over.", COLOURS[: self.max_actions]), float(won), terminated=True, success=won)


class MoreColours(Rooms):
    max_actions = 5


class Says:
    """Writes the same text always."""

    sees_oracle = False

    def __init__(self, text: str, name: str = "says") -> None:
        self.text, self.name = text, name

    def reflect(self, views):
        return [self.text] * len(views)


def blank(**settings):
    return rrl.load_model("embedded", **SHAPE | settings)


def built(labels: int = 3):
    texts = [f"Room {number}: take {colour}. 0 1 2 3 A B C" for number in range(14) for colour in COLOURS]
    return blank().build(texts, labels)


@pytest.fixture(scope="module")
def episodes():
    return rrl.collect(Rooms, "random", episodes=60)


@pytest.fixture(scope="module")
def agent(episodes):
    return rrl.train_sft(blank(), episodes, env=Rooms, steps=3)


def test_labels_stay_where_more_actions_are_listed(agent):
    longer = agent.for_actions(12)
    assert longer.labels.texts[:3] == agent.labels.texts
    assert longer.labels.ids[:3] == agent.labels.ids
    assert len(set(longer.labels.ids)) == 12


def test_a_saved_model_knows_its_labels(tmp_path, episodes):
    model = built()
    # Letters, as a tokenizer gets them that splits numbers.
    lettered = replace(model, labels=("A", "B"))
    trained = rrl.train_sft(lettered, episodes, env=Rooms, steps=2)
    assert trained.labels.texts == ("A", "B", "C")
    trained.save(tmp_path / "model")
    again = Agent.of(rrl.load_model(tmp_path / "model", device="cpu"), 3)
    assert again.labels == trained.labels
    won = [rrl.evaluate(player, Rooms, decoding="sampled").successes for player in (trained, again)]
    assert won[0] == won[1]


def test_a_saved_model_knows_its_rule(tmp_path, agent, episodes):
    trained = rrl.train_sft(replace(agent, scoring="sum"), episodes, env=Rooms, steps=2, out=tmp_path / "run")
    (kept,) = (tmp_path / "run").rglob("models/policy_plain")
    for folder in (trained.save(tmp_path / "saved"), kept):
        again = Agent.of(rrl.load_model(folder, device="cpu"), 3)
        assert again.scoring == "sum"
    assert rrl.evaluate(again, Rooms).episodes == rrl.evaluate(replace(trained, origin=again.origin), Rooms).episodes
    (folder / "scoring.json").write_text('"product"')
    with pytest.raises(ModelError, match=r"scoring\.json names none of choice_token, line_end, sum, token_mean"):
        rrl.load_model(folder, device="cpu")


def test_a_model_without_weights_has_the_same_labels(tmp_path):
    replace(built(), labels=("A", "B")).save(tmp_path)
    config = ModelConfig(path=str(tmp_path), device="cpu")
    assert load_reader(config).labels == load_model(config, trainable=False).labels == ("A", "B")


def test_a_model_that_knows_more_labels_than_a_game_needs_keeps_them():
    model = replace(built(), labels=("0", "1", "2", "3", "A", "B"))
    agent = Agent.of(model, 3).for_actions(7)
    assert agent.labels.texts[:6] == model.labels


def test_labels_that_are_no_list_are_named(tmp_path):
    built().save(tmp_path)
    (tmp_path / "labels.json").write_text('{"a": 1}')
    with pytest.raises(ModelError, match=r"labels\.json holds no list of labels"):
        rrl.load_model(tmp_path, device="cpu")


def test_labels_of_another_tokenizer_are_refused():
    with pytest.raises(ModelError, match=r"labels\.json of .* holds labels that are no single tokens"):
        Agent.of(replace(built(), labels=("no such word", "A")), 2)


def test_further_training_lists_all_actions(agent):
    won = [
        episode
        for episode in rrl.collect(MoreColours, "random", episodes=200)
        if episode.success or episode.turns[0].decision.index == 4
    ]
    further = rrl.train_sft(agent, [replace(episode, success=True) for episode in won], env=MoreColours, steps=2)
    assert len(further.labels.texts) == 5
    assert further.labels.texts[:3] == agent.labels.texts


def test_an_interrupted_supervised_training_goes_on_with_its_own_settings_only(tmp_path, episodes):
    def stop(done, total, note):
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rrl.train_sft(built(), episodes, env=Rooms, steps=8, save_steps=2, out=tmp_path, progress=stop)
    for changed, what in (({"steps": 4}, "steps"), ({"learning_rate": 1e-5}, "learning_rate")):
        with pytest.raises(RunFolderError, match=f"with other settings: .*{what}"):
            rrl.train_sft(built(), episodes, env=Rooms, **{"steps": 8, "save_steps": 2} | changed, out=tmp_path)
    with pytest.raises(RunFolderError, match="rows"):
        rrl.train_sft(built(), [*episodes, *episodes], env=Rooms, steps=8, save_steps=2, out=tmp_path)
    with pytest.raises(RunFolderError, match="start"):
        rrl.train_sft(blank(seed=3), episodes, env=Rooms, steps=8, save_steps=2, out=tmp_path)
    on = rrl.train_sft(built(), episodes, env=Rooms, steps=8, save_steps=2, out=tmp_path)
    whole = rrl.train_sft(built(), episodes, env=Rooms, steps=8, save_steps=2)
    assert on.model.hash() == whole.model.hash()
    # What is finished binds nobody.
    rrl.train_sft(built(), episodes, env=Rooms, steps=2, out=tmp_path)


def test_online_training_is_of_one_reflection_player(tmp_path, agent):
    rrl.train_rl(agent, Rooms, **TINY_RL, reflector=Says("Take red.", "red"), out=tmp_path)
    with pytest.raises(RunFolderError, match="reflector"):
        rrl.train_rl(agent, Rooms, **TINY_RL, reflector=Says("Take blue.", "blue"), out=tmp_path)
    writers = [FrozenReflector(built()), FrozenReflector(blank(seed=1).build(["Room 1: take red."], 3))]
    rrl.train_rl(agent, Rooms, **TINY_RL, reflector=writers[0], out=tmp_path / "trained")
    with pytest.raises(RunFolderError, match="reflector"):
        rrl.train_rl(agent, Rooms, **TINY_RL, reflector=writers[1], out=tmp_path / "trained")


def test_results_of_different_games_stand_beside_each_other(tmp_path, agent):
    trained = rrl.train_rl(agent, Rooms, **TINY_RL, out=tmp_path)
    rrl.evaluate(trained, Rooms)
    rrl.evaluate(trained, Rooms, split="validation")
    rrl.evaluate(trained, MoreColours)
    rrl.evaluate(trained, Rooms, reflector=Says("Take red."))
    rows = json.loads((tmp_path / "results.json").read_text())
    assert sorted((row["split"], row["episodes"]) for row in rows) == [("test", 4), ("test", 4), ("validation", 2)]
    (file,) = tmp_path.rglob("episodes.jsonl")
    splits = [json.loads(line)["task"]["split"] for line in file.read_text().splitlines()]
    assert sorted(splits) == ["test"] * 8 + ["validation"] * 2
    rrl.evaluate(trained, Rooms)
    assert len(json.loads((tmp_path / "results.json").read_text())) == 3


def test_episodes_of_another_horizon_stand_beside_each_other(tmp_path, agent):
    trained = rrl.train_rl(agent, Rooms, **TINY_RL, out=tmp_path)
    rrl.evaluate(trained, Rooms)
    (file,) = tmp_path.rglob("episodes.jsonl")

    def horizons():
        return sorted(json.loads(line).get("horizon", 0) for line in file.read_text().splitlines())

    for _ in range(2):
        rrl.evaluate(trained, Rooms, horizon=2)
        assert horizons() == [2] * 4 + [3] * 4
    # Files of earlier versions do not tell: there an evaluation takes the place of all.
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "horizon"}) + "\n" for line in lines))
    (file.parent / "done").write_text("")
    rrl.evaluate(trained, Rooms, horizon=2)
    assert horizons() == [2] * 4


def test_starts_that_look_alike_to_the_code_are_named(agent):
    class Same(Rooms):
        def reset(self, task, rng):
            return replace(super().reset(task, rng), state="start")

    with pytest.raises(UserError, match=r"Let Observation\.state tell the starts of different tasks apart, or leave"):
        rrl.train_rl(agent, Same, **TINY_RL)


def test_names_that_nothing_has(agent):
    with pytest.raises(UnknownNameError, match=r"no decoding named 'gready'\. Did you mean 'greedy'"):
        rrl.evaluate(agent, Rooms, decoding="gready")
    with pytest.raises(UnknownNameError, match="no decoding named 'Greedy'"):
        rrl.collect(Rooms, "random", decoding="Greedy")
    for name in ("sampled@0", "sampled@1", "sampled@0.50", "sampled@", "sampled@-1", "sampled@inf", "sampled@warm"):
        with pytest.raises(UnknownNameError, match="Behind sampled@ stands a temperature above 0"):
            rrl.evaluate(agent, Rooms, decoding=name)
    with pytest.raises(UnknownNameError, match="no mode of rooms named 'hard'"):
        rrl.train_rl(agent, Rooms, **TINY_RL, curriculum={"name": "uniform", "modes": ["hard"]})


@pytest.mark.parametrize("number", [{"horizon": 0}, {"horizon": -1}, {"repetitions": 0}, {"num_envs": 0}])
def test_numbers_below_one(number):
    with pytest.raises(UserError, match="The lowest value is 1"):
        rrl.evaluate("random", Rooms, **number)


def test_numbers_below_one_of_a_collection():
    with pytest.raises(UserError, match="num_envs = 0"):
        rrl.collect(Rooms, "random", num_envs=0)
    with pytest.raises(UserError, match="episodes = 0"):
        rrl.collect(Rooms, "random", episodes=0)


def test_tasks_have_keys_of_their_own_and_the_split_that_is_asked_for():
    class Twice(Rooms):
        def tasks(self, mode, split):
            return [replace(task, key="room") for task in super().tasks(mode, split)]

    class Unsplit(Rooms):
        def tasks(self, mode, split):
            return [rrl.Task(task.key, mode, data=task.data) for task in super().tasks(mode, split)]

    with pytest.raises(UserError, match="twice: 4 tasks of 'default', 'test' have the key 'room'"):
        rrl.evaluate("random", Twice)
    with pytest.raises(UserError, match="gives the task 'default/10' of mode 'default', split 'train'"):
        rrl.evaluate("random", Unsplit)


def test_modes_may_share_their_keys():
    class Two(Rooms):
        modes = ("near", "far")

        def tasks(self, mode, split):
            return [replace(task, key=task.key.removeprefix(f"{mode}/")) for task in super().tasks(mode, split)]

    first, second = rrl.evaluate("random", Two), rrl.evaluate("random", Two)
    assert first.compare(second).pairs == 8


def test_tasks_with_one_key_and_other_data_are_not_compared():
    class Other(Rooms):
        name = "rooms"

        def tasks(self, mode, split):
            return [replace(task, data={"size": 9} | dict(task.data)) for task in super().tasks(mode, split)]

    first, second = rrl.evaluate("random", Rooms), rrl.evaluate("random", Other)
    with pytest.raises(UserError, match=r"no task was played in both.* the environment with the same settings"):
        first.compare(second)


def test_numbers_and_booleans_of_numpy(tmp_path):
    class Numeric(Rooms):
        def step(self, action):
            step = super().step(action)
            return replace(step, success=np.bool_(step.success), terminated=np.bool_(1), reward=np.float32(step.reward))

    class First:
        name, sees_oracle = "first", False

        def decide(self, views, rngs):
            return [rrl.Decision(np.int64(0), self.name, tuple(np.zeros(3, np.float32))) for _ in views]

    rrl.write_episodes(tmp_path / "e.jsonl", rrl.collect(Numeric, First(), episodes=5))
    assert len(rrl.read_episodes(tmp_path / "e.jsonl")) == 5


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"modes": "default"}, r"Give a tuple: modes=\('default',\)"),
        ({"horizon": 2.5}, "horizon = 2.5 is no whole number"),
    ],
)
def test_a_text_as_modes_and_broken_numbers(given, what):
    with pytest.raises(UserError, match=what):
        rrl.evaluate("random", Rooms, **given)


def test_more_actions_in_recorded_states_than_the_policy_has_labels():
    view = rrl.View(rrl.Observation("Room", COLOURS[:3]), (0, 1, 2))
    with pytest.raises(ModelError, match=r"3 actions are listed.* 2 labels .* max_actions of the game to 3 or more"):
        policy_prompt(view, ("0", "1"))


def test_a_mode_that_the_game_does_not_have():
    with pytest.raises(UnknownNameError, match="no mode of rooms named 'defalt'"):
        rrl.make_env(Rooms, modes=["default", "defalt"])


def test_a_game_that_is_won_and_goes_on():
    class Unended(Rooms):
        def step(self, action):
            step = super().step(action)
            return replace(step, observation=self.reset(self.task, None), terminated=False)

        def reset(self, task, rng):
            self.task = task
            return super().reset(task, rng)

    with pytest.raises(FaultyEnvironmentError, match="success=True, and the game goes on: give terminated=True, too"):
        rrl.collect(Unended, "random", episodes=20)


def test_a_training_that_was_not_evaluated_has_no_report(tmp_path, agent):
    rrl.train_rl(agent, Rooms, out=tmp_path / "run", **TINY_RL)
    with pytest.raises(RunFolderError, match=r"was not evaluated\. Call reflect_rl\.evaluate\(agent, env\) first"):
        rrl.report(tmp_path / "run")


def test_actions_in_a_list_or_a_text():
    class Listed(Rooms):
        def reset(self, task, rng):
            shown = super().reset(task, rng)
            return rrl.Observation(shown.text, list(shown.actions))

    class Text(Rooms):
        def reset(self, task, rng):
            return rrl.Observation("Room", "red")

    class Numbers(Rooms):
        def reset(self, task, rng):
            return rrl.Observation("Room", (1, 2))

    class Half(Rooms):
        def reset(self, task, rng):
            return rrl.Observation("Room \udcff", ("red",))

    assert rrl.collect(Listed, "random", episodes=1)[0].turns[0].observation.actions == COLOURS[:3]
    for game, what in ((Text, r"Give a tuple: \('red',\)"), (Numbers, "1 is no text"), (Half, "surrogates")):
        with pytest.raises(FaultyEnvironmentError, match=what):
            rrl.collect(game, "random", episodes=1)


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("success",), "no", "success: Input should be a valid boolean"),
        (("turns", 0, "observation", "text"), 5, "observation.text: Input should be a valid string"),
        (("turns", 0, "observation", "text"), "Room \udcff", "surrogate"),
        (("turns", 0, "observation", "actions"), "abc", "observation.actions"),
        (("turns", 0, "order"), [0, 1, 2.5], "order.2"),
        (("turns", 0, "reflection"), 5, "reflection"),
        (("turns", 0, "reward"), "much", "reward"),
        (("turns", 0, "reward"), float("nan"), "no finite number"),
        (("turns",), [], "no turns"),
        (("turns", 0, "order"), [0, 0, 1], "turn 1: order"),
        (("turns", 0, "decision", "index"), 7, "turn 1: index 7"),
        (("turns", 0, "decision", "target"), 9, "turn 1: .*target 9"),
        (("turns", 0, "decision", "log_probs"), [-0.5], "turn 1: log_probs has 1 numbers for 3 actions"),
        (("turns", 0, "decision", "log_probs"), [0.5, 0.25, 0.25], "turn 1: log_probs .* no logarithms"),
        (("turns", 0, "decision", "log_probs"), [float("nan")] * 3, "turn 1: log_probs .* no logarithms"),
        (("task", "split"), "training", "the split 'training' is none of train, validation, test"),
    ],
)
def test_recordings_that_cannot_have_been(tmp_path, episodes, path, value, what):
    rrl.write_episodes(tmp_path / "e.jsonl", episodes[:1])
    row = place = json.loads((tmp_path / "e.jsonl").read_text())
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    (tmp_path / "e.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(UserError, match=f"row 1 is no episode .*{what}"):
        rrl.read_episodes(tmp_path / "e.jsonl")


def test_recordings_of_another_game_are_not_trained_on(episodes):
    with pytest.raises(UserError, match=r"environment 'corridor-v1', and 'rooms-v1' is trained"):
        rrl.train_sft(blank(), [*episodes, *rrl.collect("corridor", "random", episodes=1)], env=Rooms, steps=1)


class Counted(Rooms):
    """States tell how many turns are left."""

    fixed_horizon = True


def test_a_game_that_counts_its_turns_is_played_in_full(agent):
    counted = rrl.evaluate("random", Counted, horizon=3)
    assert counted.horizon == 3
    with pytest.raises(UserError, match="horizon is 2, and counted shows how many of its 3 turns are left"):
        rrl.evaluate("random", Counted, horizon=2)
    with pytest.raises(UserError, match="max_episode_steps is 2"):
        rrl.train_rl(agent, Counted, **TINY_RL, max_episode_steps=2)


def test_the_best_policy_is_kept_only_where_it_is_measured(agent):
    with pytest.raises(ConfigError, match="keep = 'best' needs measurements"):
        rrl.train_rl(agent, Rooms, **TINY_RL, keep="best")


def test_no_algorithm(agent):
    with pytest.raises(UserError, match="algorithm is None"):
        rrl.train_rl(agent, Rooms, algorithm=None, **TINY_RL)


def test_an_agent_with_a_reflection_player_learns_to_read_it(agent, episodes):
    reader = replace(agent, reflector=Says("Take it."))
    trained = rrl.train_sft(reader, episodes, env=Rooms, steps=2)
    assert trained.reflector is reader.reflector
    assert trained.origin.method == "sft_reflect"
    plain = rrl.train_sft(agent, episodes, env=Rooms, steps=2)
    assert isinstance(plain.reflector, NoReflector)
    assert plain.origin.method == "sft"
    # Other prompts, so other weights.
    assert trained.model.hash() != plain.model.hash()


def test_a_reflection_player_that_sees_the_solver():
    model = blank().build([f"{number} {word}" for number in range(9) for word in ("left", "right", "Next: =")], 3)
    told = replace(Agent.of(model, 3), reflector=OracleReflector())
    with pytest.raises(UserError, match="sees the solver and cannot write on recorded states"):
        rrl.train_sft(told, rrl.collect("corridor", "oracle", episodes=4), env="corridor", steps=1)


def test_the_games_own_teacher_writes_reflections_that_both_players_learn_from():
    episodes = rrl.collect("corridor", "oracle", reflector="oracle", episodes=8)
    assert all(turn.reflection and "Next: " in turn.reflection for episode in episodes for turn in episode.turns)
    trained = rrl.train_sft(blank(), episodes, env="corridor", reflections=True, steps=2)
    assert (trained.origin.method, trained.reflector.sees_oracle) == ("sft_reflect", False)


def test_a_game_that_reads_its_own_states_writes_reflections_for_any_player():
    class Advised(Rooms):
        def advise(self, state):
            return f"I read: {state}"

    for episode in rrl.collect(Advised, "random", reflector="lexical", episodes=2):
        assert all(turn.reflection == f"I read: {turn.observation.text}" for turn in episode.turns)


def test_a_folder_with_two_settings_of_a_game_can_be_reported(tmp_path):
    episodes = rrl.collect("corridor", "oracle", episodes=10)
    agent = rrl.train_sft(blank(), episodes, env="corridor", steps=1, out=tmp_path)
    rrl.evaluate(agent, "corridor")
    rrl.evaluate(agent, rrl.make_env("corridor", length=9))
    assert rrl.report(tmp_path).is_file()


def test_what_cannot_be_asked_for(agent):
    with pytest.raises(UserError, match="the embedded model trains all its weights"):
        blank(lora_rank=8)

    class Two(Rooms):
        modes = ("easy", "hard")

        def tasks(self, mode, split):
            return [] if (mode, split) == ("easy", "test") else super().tasks(mode, split)

    with pytest.raises(UserError, match="no 'test' task of the mode easy"):
        rrl.evaluate("random", Two, modes=["easy"])

    class Untrained(Rooms):
        def tasks(self, mode, split):
            return [] if split == "train" else super().tasks(mode, split)

    with pytest.raises(UserError, match="untrained has no 'train' task"):
        rrl.train_rl(agent, Untrained, **TINY_RL)

    class Mine:
        pass

    with pytest.raises(UserError, match="define it at module level"):
        rrl.train_rl(agent, Rooms, algorithm=Mine, **TINY_RL)
    with pytest.raises(UserError, match="is no reflection player"):
        rrl.evaluate(agent, Rooms, reflector=OracleReflector)
    with pytest.raises(UserError, match="the reflection player 'oracle' needs HasTeacher"):
        rrl.evaluate(agent, Rooms, reflector="oracle")
    with pytest.raises(UserError, match="the reflection player 'lexical' needs HasStateTeacher"):
        rrl.evaluate(agent, Rooms, reflector="lexical")
    with pytest.raises(UnknownNameError, match="Did you mean 'oracle'"):
        rrl.evaluate(agent, Rooms, reflector="oracel")
    with pytest.raises(UserError, match="is no player"):
        rrl.evaluate(Says, Rooms)


def test_a_training_does_not_go_on_with_other_tasks(tmp_path, agent):
    class Growing(Rooms):
        more = 0

        def tasks(self, mode, split):
            found = super().tasks(mode, split)
            return found if split != "train" else [*found, *(rrl.Task(f"new/{k}", mode) for k in range(self.more))]

    def train():
        return rrl.train_rl(agent, Growing, **TINY_RL, out=tmp_path).model.hash()

    first = train()
    assert train() == first
    Growing.more = 1
    with pytest.raises(RunFolderError, match=r"holds a training with other settings: tasks\.default/train is"):
        train()
    # One of before this was noted goes on.
    (file,) = tmp_path.rglob("settings.json")
    file.write_text(json.dumps({key: value for key, value in json.loads(file.read_text()).items() if key != "tasks"}))
    assert train() == first


def test_tasks_of_modes_that_are_not_trained_may_change(tmp_path, agent):
    class Modes(Rooms):
        modes = ("easy", "named", "other")
        changed = ""

        def tasks(self, mode, split):
            return [replace(task, key=f"{task.key}, {mode == self.changed}") for task in super().tasks(mode, split)]

    def train():
        curriculum = {"name": "stages", "modes": ["easy+named"]}
        spec = rrl.make_env(Modes, modes=("easy",))
        return rrl.train_rl(agent, spec, **TINY_RL, curriculum=curriculum, out=tmp_path).model.hash()

    first = train()
    Modes.changed = "other"
    assert train() == first
    for Modes.changed in ("easy", "named"):
        with pytest.raises(RunFolderError, match=f"other settings: tasks.{Modes.changed}/test is"):
            train()


def test_a_training_does_not_go_on_under_another_rule_or_other_labels(tmp_path, agent):
    def train(start):
        return rrl.train_rl(start, Rooms, **TINY_RL, out=tmp_path).model.hash()

    first = train(agent)
    with pytest.raises(RunFolderError, match="other settings: scoring is 'choice_token' there and 'sum' here"):
        train(replace(agent, scoring="sum"))
    others = Agent.of(replace(agent.model, labels=agent.labels.texts[::-1]), 3)
    with pytest.raises(RunFolderError, match="other settings: labels is "):
        train(replace(others, origin=agent.origin))
    # One of before these were noted goes on.
    (file,) = tmp_path.rglob("settings.json")
    values = json.loads(file.read_text())
    del values["scoring"], values["labels"]
    file.write_text(json.dumps(values))
    assert train(agent) == first


def test_a_mode_without_validation_tasks_has_no_rate(tmp_path, agent):
    class Two(Rooms):
        modes = ("easy", "hard")

        def tasks(self, mode, split):
            return [] if (mode, split) == ("easy", "validation") else super().tasks(mode, split)

    rrl.train_rl(agent, Two, **TINY_RL | {"validate_every": 1}, out=tmp_path)
    (file,) = tmp_path.rglob("metrics.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert any("validation/hard/success_rate" in row for row in rows)
    assert not any("validation/easy/success_rate" in row for row in rows)


def test_a_file_of_episodes_is_read_first():
    with pytest.raises(UserError, match=r"Read the file first: reflect_rl.read_episodes\('games.jsonl'\)"):
        rrl.train_sft(rrl.load_model("embedded", hidden_size=16, layers=1), "games.jsonl", env="corridor", steps=1)
