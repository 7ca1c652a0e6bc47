"""One episode in the terminal."""

import io
import json
import math
import re
import shutil
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

import reflect_rl as rrl
from alfworld_native import game_file
from reflect_report.human import HumanPolicy, PlayerLeft
from reflect_report.recording import film, write_cast, write_svg
from reflect_report.screen import Screen, show_frames
from reflect_rl.data.recorded import read_episodes
from reflect_rl.envs import corridor
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.dangerous_taxi import DangerousTaxi, encode, map_text
from reflect_rl.types import Decision, Observation, Turn, View

CORRIDOR = ("--environment.name", "corridor")


def shortest() -> tuple[str, int]:
    """The first training task of the hardest mode, and the turns it takes: the distance to the goal."""
    mode = corridor.MODES[-1]
    task = corridor.Corridor().tasks(mode, "train")[0]
    return task.key, abs(task.data["goal"] - task.data["start"])


def test_a_key_that_two_modes_have_needs_the_mode(call):
    play = ("play", "--environment.name", "toy:Numbered", "--task", "test/0")
    assert "the task 'test/0' is one of the modes near, far. Name one with --mode" in call(*play).mistake
    assert call(*play, "--mode", "near").code == 0


def test_the_oracle_needs_as_many_turns_as_an_optimal_solution(call):
    task, turns = shortest()
    answer = call("play", *CORRIDOR, "--task", task)
    assert answer.code == 0
    # Every step costs 0.05; the last one gives 1 instead.
    total = 1 - 0.05 * (turns - 1)
    plural = "s" if turns > 1 else ""
    assert answer.output.endswith(
        f"\nsuccess in {turns} turn{plural} (terminated by the game), return {total:+.2f}; the solver needs {turns}.\n"
    )
    assert answer.output.count(" turn ") >= turns
    assert f"corridor, task {task} (train), player oracle" in answer.output


@pytest.mark.parametrize("seed", range(3))
def test_the_solver_is_asked_about_the_episode_that_is_played(call, seed):
    output = call("play", "--environment.name", "toy:Drawn", "--player", "oracle", "--episode-seed", seed).output
    played, needed = re.search(r"success in (\d+) turn.*the solver needs (\d+)\.", output).groups()
    assert played == needed


@pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra `alfworld` is not installed")
def test_a_household_game_is_played_in_textworld_as_in_the_native_engine(call):
    game = ("--environment.name", "alfworld", "--environment.generated-games", 2, "--mode", "pick")
    answers = [call("play", *game, "--environment.backend", backend) for backend in ("native", "textworld")]
    assert answers[0].code == 0
    assert "success in " in answers[0].output
    assert answers[0] == answers[1]


def test_textworld_that_is_not_installed_is_a_mistake(call, monkeypatch):
    monkeypatch.setattr(game_file, "find_spec", lambda name: None)
    game_file.logic.cache_clear()
    message = call("play", "--environment.name", "alfworld", "--environment.backend", "textworld").mistake
    assert "alfworld, which is not installed. Install it with `pip install 'alfworld-native[textworld]'`" in message


def test_a_mode_without_test_tasks_is_a_mistake(call, monkeypatch):
    monkeypatch.setattr(corridor.Corridor, "tasks", lambda *_: ())
    message = call("play", *CORRIDOR, "--mode", "near").mistake
    assert "corridor has no test task of mode 'near' here. Name another --mode." in message


def test_the_random_player_has_equal_bars(call):
    answer = call("play", *CORRIDOR, "--player", "random", "--episode-seed", "1")
    # One of two actions: half of the 24 cells.
    assert "█" * 12 + "░" * 12 + " 0.500" in answer.output
    assert call("play", *CORRIDOR, "--player", "random", "--episode-seed", "1").output == answer.output


def test_the_oracle_reflection_can_be_read_beside_any_player(call):
    answer = call("play", *CORRIDOR, "--player", "random", "--reflections", "oracle")
    assert "Analyze: I begin." in answer.output


def test_an_episode_can_be_cut_off(call):
    answer = call("play", "--environment.max-episode-steps", "2")
    assert "no success in 2 turns (truncated at the horizon)" in answer.output


def test_a_person_is_asked_again_after_nonsense_and_may_name_the_action(call, monkeypatch):
    task, turns = shortest()
    goal, start = (int(word) for word in task.rpartition("/")[2].split("-")[1:])
    nonsense = ["7", "-1", "", "²", "9" * 5000, "jump"]
    answers = [*nonsense, *["left" if goal < start else "right"] * turns]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(answers)))
    answer = call("play", *CORRIDOR, "--player", "human", "--task", task)
    assert f"success in {turns} turn" in answer.output
    assert answer.output.count("Your action (a number from 0 to ") == turns
    assert answer.output.count(" is no action here; a number from 0 to ") == len(nonsense)
    assert "'7' is no action here" in answer.output


def test_a_person_is_told_the_rules_and_the_legend_first(call, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    output = call("play", "--player", "human").output
    rules, legend, first = (output.index(text) for text in ("You drive a taxi", "T taxi, P passenger,", " turn 1 "))
    assert rules < legend < first
    # Whoever watches a player gets the episode alone.
    assert "You drive a taxi" not in call("play", "--player", "random").output


@pytest.mark.parametrize("typed", ["q\n", "QUIT\n", ""])
def test_a_person_may_leave(call, monkeypatch, typed):
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    answer = call("play", *CORRIDOR, "--player", "human")
    assert answer.code == 0
    assert "after 0 turns; return so far +0.00." in answer.output
    assert answer.errors == ""
    # Each question on a line of its own, with its answer as on a terminal.
    assert f"or q to quit): {typed.strip()}\n" in answer.output


def test_an_action_that_is_a_word_for_leaving_can_be_typed():
    questions = []

    def person(*answers: str, actions: tuple[str, ...]) -> int:
        given = iter(answers)
        policy = HumanPolicy(lambda view: None, lambda question: questions.append(question) or next(given))
        return policy.decide([View(Observation("Here.", actions), (0, 1, 2))], [])[0].index

    assert person("exit", actions=("wait", "quit", "exit")) == 2
    assert questions[-1].endswith("or q to quit): ")
    assert person("q", actions=("q", "quit", "wait")) == 0
    assert questions[-1].endswith("or exit to quit): ")
    assert person("q", actions=("q", "quit", "Exit")) == 0
    assert questions[-1].endswith("or Ctrl-D to quit): ")
    # Another spelling of a listed action is a slip, and no wish to leave.
    assert person("exit", "1", actions=("q", "quit", "Exit")) == 1
    with pytest.raises(PlayerLeft):
        person("QUIT", actions=("q", "wait", "exit"))


def test_a_person_who_leaves_after_one_turn_is_told_so(call, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("0\nq\n"))
    assert "the player left after 1 turn;" in call("play", *CORRIDOR, "--player", "human").output


def test_ctrl_c_promises_no_checkpoint(call, monkeypatch):
    class Keyboard(io.StringIO):
        def readline(self, *_):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Keyboard())
    answer = call("play", *CORRIDOR, "--player", "human")
    assert (answer.code, answer.errors) == (130, "\ninterrupted.\n")


def test_two_players_stand_beside_each_other_on_the_same_start(call):
    task, turns = shortest()
    answer = call("play", *CORRIDOR, "--task", task, "--beside", "random", "--episode-seed", "3")
    alone = call("play", *CORRIDOR, "--task", task, "--player", "random", "--episode-seed", "3")
    assert answer.code == 0
    assert f"corridor, task {task} (train), players oracle, random" in answer.output
    lines = answer.output.splitlines()
    # Both begin in the same state, on one line of two halves.
    first = next(number for number, line in enumerate(lines) if line.count("turn 1 ") == 2)
    left, right = lines[first + 1][:40].strip(), lines[first + 1][40:].strip()
    assert left == right != ""
    assert left in alone.output
    length = alone.output.count("── turn ")
    assert answer.output.count(" turn ") >= 2 * max(turns, length)


def test_a_person_is_compared_with_another_player_afterwards(call, monkeypatch):
    task, turns = shortest()
    goal, start = (int(word) for word in task.rpartition("/")[2].split("-")[1:])
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(["left" if goal < start else "right"] * turns)))
    answer = call("play", *CORRIDOR, "--player", "human", "--beside", "oracle", "--task", task)
    assert answer.code == 0
    asked, _, after = answer.output.rpartition("Your action (a number")
    assert "oracle" not in asked.replace("players human, oracle", "")
    assert len(re.findall(r"human +oracle", after)) == turns


def test_a_recording_holds_every_turn(call, tmp_path):
    task, turns = shortest()
    places = tmp_path / "new" / "a.cast", tmp_path / "new" / "a.svg"
    answer = call("play", *CORRIDOR, "--task", task, "--cast", places[0], "--svg", places[1], "--beside", "random")
    assert answer.output.splitlines()[-2:] == [f"recorded in {place}" for place in places]
    head, *events = (json.loads(line) for line in places[0].read_text().splitlines())
    assert head["title"] == f"corridor, task {task} (train), players oracle, random"
    assert events[0][2].count("turn 1 ") == 2
    assert any(f"success in {turns} turn" in re.sub("\x1b\\[[0-9;]*[mK]", "", event[2]) for event in events)
    assert places[1].read_text().count("<g class=") == len(events) - 1


def test_a_recording_of_the_same_episode_is_the_same_file(call, tmp_path):
    for name in ("a", "b"):
        call("play", *CORRIDOR, "--player", "random", "--cast", tmp_path / name, "--svg", tmp_path / f"{name}.svg")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_recording_that_cannot_be_written_is_told_before_anything_is_played(call, tmp_path):
    for flag in ("--cast", "--svg", "--record"):
        answer = call("play", *CORRIDOR, flag, tmp_path)
        assert f"cannot write to {tmp_path}: it is a folder. Name a file." in answer.mistake
        assert answer.output == ""
    (tmp_path / "file").touch()
    answer = call("play", *CORRIDOR, "--player", "random", "--record", tmp_path / "file" / "games.jsonl")
    assert f"{tmp_path / 'file'} may not be written, or is no folder. Name another file." in answer.mistake
    assert answer.output == ""


def test_frames_take_one_place_on_a_terminal_and_many_elsewhere(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    pauses: list[float] = []
    shown = terminal()
    show_frames(shown, [Text("first"), Text("second")], 0.5, pauses.append)
    assert pauses == [0.5, 0.5]
    assert "\x1b[2K" in shown.file.getvalue()
    plain = Console(file=io.StringIO())
    show_frames(plain, [Text("first"), Text("second")], 0.5, pauses.append)
    assert plain.file.getvalue().split() == ["first", "second"]
    assert len(pauses) == 2


def test_a_dumb_terminal_shows_every_frame_and_every_turn(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80, height=50, markup=False)
    show_frames(console, [Text("first"), Text("second")], 0.5, lambda _: None)
    assert console.file.getvalue().split() == ["first", "second"]
    with Screen(console, seconds=0.5, pause=lambda _: None) as screen:
        for _ in range(2):
            screen.show_turn(turn())
    assert console.file.getvalue().count("reward -0.05") == 2


def test_hostile_texts_reach_no_recording(tmp_path):
    attack = "\x1b]0;title\x07\x9b2J\u202e</text><script>"
    observation = Observation(attack, (attack, "down"), "s")
    decision = Decision(0, "x", (0.0, -9.0), answer=attack)
    hostile = replace(turn(reflection=attack, decision=decision), observation=observation)
    screen = Screen(Console(file=io.StringIO()), encoding="utf-8")
    shown = film("title", [[screen.lines_of(hostile)]])
    write_cast(tmp_path / "a.cast", shown)
    write_svg(tmp_path / "a.svg", shown)
    (event, _) = (json.loads(line) for line in (tmp_path / "a.cast").read_text().splitlines()[1:])
    rest = re.sub("\x1b\\[(?:[0-9;]*m|K|H|J|\\?25l)", "", event[2])
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(rest)
    assert "<script" not in (tmp_path / "a.svg").read_text()
    assert "]0;title" in (tmp_path / "a.svg").read_text()


MISTAKES = {
    "--beside human": "beside: a person plays alone, and is compared afterwards. Name them first: --player human",
    "--beside sftt": "no player 'sftt'. Did you mean 'sft'? Or name a model folder.",
    "--player sftt": "no player 'sftt'. Did you mean 'sft'? Or name a model folder.",
    "--player no/such/folder": "no model folder 'no/such/folder'.",
    "--player sft": "no model of the method 'sft' in nowhere/starts-100/seed-0/models/policy_plain. Run `reflect-rl",
    "--player rlft": "Run `reflect-rl rlft` first.",
    "--reflections orcle": "no reflections 'orcle'. Did you mean 'oracle'? Or name a model folder.",
    "--reflections no/such/folder": "no model folder 'no/such/folder'.",
    "--mode ful": "no mode of dangerous_taxi named 'ful'. Did you mean 'full'?",
    "--task full/9999": "no task 'full/9999'. A task there is: 'full/",
    "--task tour": "no task 'tour'. A task there is: 'pickup/",
    "--mode pickup --task full/133": "no task 'full/133' in mode 'pickup'. A task there is: 'pickup/1",
    "--unit starts-10/seed-0": "the run has no unit 'starts-10/seed-0'. Did you mean 'starts-100/seed-0'?",
    "--episode-seed -1": "episode_seed: -1 is too small. The lowest value is 0.",
    "--decoding gredy": "decoding: no decoding named 'gredy'. Did you mean 'greedy'?",
    "--player": "--player needs a value",
    "--plyer human": "unknown flag --plyer (value 'human'). Did you mean '--player'?",
}


@pytest.mark.parametrize("flags", MISTAKES)
def test_mistakes(call, flags):
    assert MISTAKES[flags] in call("play", "--output-dir", "nowhere", *flags.split()).mistake
    assert not Path("nowhere").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An agent of the corridor in its folder."""
    model = rrl.load_model("embedded", hidden_size=16, layers=1, heads=2, device="cpu")
    episodes = rrl.collect("corridor", "oracle", episodes=4)
    return rrl.train_sft(model, episodes, env="corridor", steps=1).save(tmp_path_factory.mktemp("players") / "a")


def renamed(saved, tmp_path, game):
    """A copy of the agent that names another game."""
    folder = Path(shutil.copytree(saved, tmp_path / "agent"))
    record = json.loads((folder / "agent.json").read_text())
    (folder / "agent.json").write_text(json.dumps(record | {"environment": game}))
    return folder


def test_a_saved_agent_plays_its_own_game(call, saved):
    for flag in ("--player", "--beside"):
        answer = call("play", flag, saved)
        assert answer.output.startswith("corridor, task far/"), answer
    assert "trained on" not in call("play", "--player", saved).output


def test_an_agent_that_plays_another_game_is_told(call, saved, toml, tmp_path):
    said = f"{saved} was trained on corridor, and plays dangerous_taxi here."
    config = toml('[environment]\nname = "dangerous_taxi"')
    for words in (("--environment.name", "dangerous_taxi"), ("--environment.name=dangerous_taxi",)):
        assert said in " ".join(call("play", "--player", saved, *words).output.splitlines())
    assert said in " ".join(call("play", config, "--player", saved).output.splitlines())


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ("", "does not say its game. Name a game with --environment.name."),
        ("__main__:Game", "was trained on __main__:Game, which no command can import. Name a game with"),
        ("page:train.<locals>.Game", "which no command can import"),
        # The module lies on the path of the tests, and no distribution provides it.
        ("toy:Numbered", "If you trust it, name it yourself, with --environment.name toy:Numbered"),
    ],
)
def test_a_game_that_an_agent_cannot_bring_is_asked_for(call, saved, tmp_path, game, said):
    folder = renamed(saved, tmp_path, game)
    assert said in call("play", "--player", folder).mistake
    answer = call("play", "--player", folder, "--environment.name", "toy:Numbered")
    assert answer.code == 0
    assert ("was trained on" in answer.output) == (game not in ("", "toy:Numbered"))


def test_an_agent_imports_no_file_of_the_current_folder(call, saved, tmp_path, monkeypatch):
    (tmp_path / "foreign_game.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    folder = renamed(saved, tmp_path, "foreign_game:Game")
    assert "which no installed distribution provides" in call("play", "--player", folder).mistake
    assert "foreign_game" not in sys.modules


def test_a_model_folder_without_tokenizer_is_a_mistake(call, tmp_path):
    for flag in ("--player", "--reflections"):
        assert f"the model folder '{tmp_path}' has no tokenizer." in call("play", flag, tmp_path).mistake


def turn(**changes):
    observation = Observation("A wall.\x1b[2J", ("up", "down"), "s")
    log_probs = (math.log(0.25), math.log(0.75))
    fields = {"order": (1, 0), "reflection": None, "decision": Decision(1, "x", log_probs), "reward": -0.05}
    return Turn(observation, **(fields | changes))


def printed(*turns, encoding="utf-8") -> str:
    console = Console(record=True, width=80, highlight=False, markup=False)
    screen = Screen(console, encoding=encoding)
    for each in turns:
        screen.show_turn(each)
    return console.export_text()


def test_actions_are_listed_by_number_and_the_choice_is_marked():
    # order (1, 0): number 0 is action 1 (down, 0.75 = 18 of 24 cells), number 1 is action 0 (up, 6 cells).
    text = printed(turn())
    assert ">   0 down  " + "█" * 18 + "░" * 6 + " 0.750\n" in text
    assert "    1 up    " + "█" * 6 + "░" * 18 + " 0.250\n" in text


def test_rewards_add_up():
    assert "reward -0.05   return -0.10" in printed(turn(), turn())


def test_small_rewards_are_not_shown_as_zero():
    assert "reward -0.001   return -0.002" in printed(turn(reward=-0.001), turn(reward=-0.001))
    assert "reward +2e-05   return +0.00" in printed(turn(reward=-2e-5), turn(reward=2e-5))


def test_a_player_without_a_distribution_has_no_bars():
    assert "█" not in printed(turn(decision=Decision(1, "x")))


def test_a_text_cannot_steer_the_terminal():
    assert "A wall.·[2J" in printed(turn(reflection="\x1b]0;title\x07"))
    assert "Analyze: ·]0;title·" in printed(turn(reflection="\x1b]0;title\x07"))


def test_a_terminal_without_unicode_gets_plain_bars():
    text = printed(turn(), encoding="ascii")
    assert text.isascii() or "·" in text
    assert "#" * 18 + "." * 6 in text


def terminal() -> Console:
    # Whatever terminal the tests run in; nothing is redrawn in a dumb one.
    size: dict[str, Any] = {"width": 80, "height": 50, "_environ": {"TERM": "xterm"}}
    return Console(file=io.StringIO(), force_terminal=True, color_system="standard", markup=False, **size)


def test_the_taxi_map_has_colours_on_a_terminal_and_none_elsewhere():
    # Taxi at row 3 column 1, passenger at Y (row 4 column 0), destination R (row 0 column 0).
    state = encode(3, 1, 2, 0)
    observation = Observation(f"{map_text(state)}\nLast action: Pause.", ("south",), str(state))
    shown = terminal()
    played = replace(turn(decision=Decision(0, "x")), observation=observation, order=(0,))
    Screen(shown, EnvSpec.of(DangerousTaxi)).show_turn(played)
    text = shown.file.getvalue()
    assert all(letter in text for letter in ("\x1b[30;43mT", "\x1b[1;34mP", "\x1b[1;35mD"))
    # Each of the three once: the letters of the sentence below the map are no taxi and no passenger.
    assert text.count("\x1b[1;34m") == 1
    plain = Console(record=True, file=io.StringIO(), width=80)
    Screen(plain, EnvSpec.of(DangerousTaxi)).show_turn(played)
    assert map_text(state) in plain.export_text()


def test_a_replay_draws_in_place_with_a_pause_after_each_turn():
    pauses: list[float] = []
    shown = terminal()
    with Screen(shown, seconds=0.5, pause=pauses.append) as screen:
        assert screen.redraws
        screen.show_turn(turn())
        before = shown.file.getvalue()
        screen.show_turn(turn())
    assert pauses == [0.5, 0.5]
    # The second turn begins by moving the cursor up and erasing the first one.
    assert "\x1b[1A" in shown.file.getvalue().removeprefix(before)


def test_a_replay_into_a_file_waits_for_nobody():
    pauses: list[float] = []
    file = io.StringIO()
    with Screen(Console(file=file, width=80), seconds=0.5, pause=pauses.append) as screen:
        assert not screen.redraws
        screen.show_turn(turn())
    assert pauses == []
    assert "\x1b" not in file.getvalue()


def test_speed_changes_nothing_but_the_pauses(call):
    fast, slow = (call("play", *CORRIDOR, *speed) for speed in ((), ("--speed", "60")))
    assert fast == slow
    assert "speed: 61 is too large. The highest value is 60." in call("play", "--speed", "61").mistake


def test_a_recording_whose_last_line_has_no_end(call, tmp_path):
    path = tmp_path / "played.jsonl"
    call("play", *CORRIDOR, "--record", path)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    call("play", *CORRIDOR, "--record", path)
    assert len(read_episodes(path)) == 2
    # The rest of a write that was killed.
    path.write_bytes(path.read_bytes()[:-20])
    call("play", *CORRIDOR, "--record", path)
    assert len(read_episodes(path)) == 2


def test_no_file_of_another_kind_is_replaced(call, tmp_path):
    path = tmp_path / "played.jsonl"
    call("play", *CORRIDOR, "--record", path)
    before = path.read_bytes()
    for flag in ("--svg", "--cast"):
        assert "is no such recording" in call("play", *CORRIDOR, flag, path).mistake
        assert "name one file for two things" in call("play", *CORRIDOR, "--record", path, flag, path).mistake
    assert path.read_bytes() == before
    path.write_text('{"bad": 1}\n')
    assert "row 1 is no episode" in call("play", *CORRIDOR, "--record", path).mistake
    path.write_text("my only note")
    assert f"{path} holds no episodes." in call("play", *CORRIDOR, "--record", path).mistake
    assert path.read_text() == "my only note"
    for _ in range(2):
        assert call("play", *CORRIDOR, "--svg", tmp_path / "a.svg", "--cast", tmp_path / "a.cast").code == 0


def test_who_leaves_is_told_that_nothing_was_written(call, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    answer = call("play", *CORRIDOR, "--player", "human", "--record", tmp_path / "left.jsonl")
    assert "nothing was written, as the game had not ended" in answer.output
    assert not (tmp_path / "left.jsonl").exists()


def test_a_program_without_input(call, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    assert "the input has ended after 0 turns" in call("play", *CORRIDOR, "--player", "human").output


def test_a_home_folder_is_found(call, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert call("play", *CORRIDOR, "--record=~/a.jsonl").code == 0
    assert call("play", *CORRIDOR, "--record", "~/b.jsonl").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]
