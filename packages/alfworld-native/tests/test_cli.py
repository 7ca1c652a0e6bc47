"""The commands: what they write, print and return."""

import json
import lzma
import subprocess
import sys
import warnings
from collections import Counter
from importlib.util import find_spec

import pytest

from alfworld_native import GameError, bench, cli, generate_games, load_games
from alfworld_native.bench import Measurement, table
from alfworld_native.cli import main
from alfworld_native.lockstep import Comparison
from alfworld_native.official import story
from alfworld_native.textworld import TextWorldGame, Workers

needs_textworld = pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra `textworld` is not installed")


@needs_textworld
def test_generated_games_are_written_and_textworld_plays_them(tmp_path, capsys):
    folder = tmp_path / "json_2.1.1" / "train"
    assert main(["generate", str(folder), "--count", "2", "--seed", "4"]) == 0
    assert capsys.readouterr().out == f"2 games in {folder}\n"
    # Read back from the files: the game that TextWorld gets is the one on the disk.
    with Workers() as workers:
        for record in load_games(tmp_path, "train"):
            state = TextWorldGame(record.problem, record.goal, "2.1.1", workers).start()
            assert state.first().feedback.endswith(f"Your task is to: {record.goal}")
    story = json.loads(next(folder.rglob("traj_data.json")).read_text())
    assert story["task_type"] in str(next(folder.rglob("traj_data.json")))


@needs_textworld
def test_textworld_itself_plays_a_written_game(tmp_path):
    assert main(["generate", str(tmp_path), "--count", "1", "--wording", "2.1.2"]) == 0
    game = next(tmp_path.rglob("game.tw-pddl"))
    # A process of its own, since TextWorld takes over the standard output.
    program = (
        "import sys, textworld\n"
        "env = textworld.start(sys.argv[1])\n"
        "print('SAID', env.reset().feedback)\n"
        "print('SAID', env.step('inventory')[0].feedback)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, game], capture_output=True, text=True, check=True)
    assert "SAID -= Welcome to TextWorld, ALFRED! =-" in done.stdout
    assert "SAID You are not carrying anything." in done.stdout


@needs_textworld
def test_games_are_not_written_over_others(tmp_path, capsys):
    assert main(["generate", str(tmp_path), "--count", "1"]) == 0
    assert main(["generate", str(tmp_path), "--count", "1"]) == 2
    assert "exists already. Name another folder, or other seeds." in capsys.readouterr().err


def test_warnings_are_one_line(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_generate", lambda options: warnings.warn("3 of 4 games", stacklevel=1) or 0)
    assert main(["generate", "folder"]) == 0
    assert capsys.readouterr().err == "alfworld-native: 3 of 4 games\n"


@needs_textworld
def test_check_finds_no_difference(capsys):
    assert main(["check", "generated:test:1:9", "--steps", "8"]) == 0
    assert capsys.readouterr().out.endswith("8 commands, 0 games with a difference\n")


@needs_textworld
def test_check_prints_a_difference(capsys, monkeypatch):
    monkeypatch.setattr("alfworld_native.wording.carrying", lambda thing: "You have nothing.")
    monkeypatch.setattr("alfworld_native.lockstep._Chooser.choose", lambda *_: "inventory")
    assert main(["check", "generated:test:1", "--steps", "3"]) == 1
    told = capsys.readouterr().out
    assert "  feedback after inventory\n  here:      'You have nothing.'" in told
    assert "  TextWorld: 'You are not carrying anything.'" in told


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["generate", "x", "--count", "0"], "--count must be 1 or more"),
        (["check", "--steps", "0"], "--games and --steps must be 1 or more"),
        (["check", "/no/such/folder"], "there is no folder /no/such/folder"),
        (["bench", "--sizes", "0"], "--sizes must be 1 or more, not 0"),
        (["bench", "--seconds", "nan"], "--seconds must be a number above 0 with an end, not nan"),
        (["bench", "--seconds", "inf"], "--seconds must be a number above 0 with an end, not inf"),
    ],
)
def test_input_that_cannot_be_used_is_named(arguments, says, capsys):
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_a_measurement_of_the_native_engine():
    found = bench.measure([2], seconds=0.05, largest=0)
    assert [(each.engine, each.games) for each in found] == [("native", 2)]
    assert found[0].steps_per_second > 0


def test_a_table_has_the_ratio_of_speeds():
    found = [Measurement("native", 8, 0.1, 1000.0, 4.0), Measurement("async", 8, 2.0, 20.0, None)]
    assert table(found).splitlines()[2:] == [
        "| alfworld-native | 8 | 0.10 | 1,000 | 0.50 |  |",
        "| TextWorld, async | 8 | 2.00 | 20 | ? | 50 x |",
    ]


@pytest.fixture
def half_broken(tmp_path):
    """A file of compact records whose second line is no game."""
    record = generate_games("test", 1)[0]
    row = {
        **{"id": "a/1", "task_type": record.task_type, "scene": "", "goal": record.goal, "anns": [], "solvable": True},
        **{"sha256": "", "pddl_problem": record.problem, "pddl_params": story(record)["pddl_params"]},
    }
    file = tmp_path / "two.jsonl.xz"
    file.write_bytes(lzma.compress(f"{json.dumps(row)}\n{json.dumps({**row, 'id': 'b/1', 'goal': 3})}\n".encode()))
    return file


def test_check_ends_at_a_broken_game_or_names_it_and_goes_on(half_broken, capsys, monkeypatch):
    played = Comparison(3, True, Counter(), None)
    monkeypatch.setattr("alfworld_native.lockstep.compare", lambda *_: played)
    assert main(["check", str(half_broken)]) == 2
    assert "two.jsonl.xz, line 2: 'goal' is 3" in capsys.readouterr().err
    assert main(["check", str(half_broken), "--skip-broken"]) == 0
    told = capsys.readouterr()
    assert "two.jsonl.xz, line 2: 'goal' is 3" in told.err
    assert told.out.endswith("1 games (1 won), 3 commands, 0 games with a difference\n")


def test_a_game_that_cannot_be_compared_is_named(half_broken, capsys, monkeypatch):
    def fail(*_):
        raise GameError("it says why.")

    monkeypatch.setattr("alfworld_native.lockstep.compare", fail)
    assert main(["check", str(half_broken), "--skip-broken"]) == 2
    assert "two.jsonl.xz, line 1 cannot be compared: it says why." in capsys.readouterr().err
