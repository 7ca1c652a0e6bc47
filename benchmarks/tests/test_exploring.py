"""The environment's benchmark: both sides do the same, and the reference side harms nothing."""

import json
import os
from pathlib import Path

import pytest

from reflect_bench.exploring import Recorded, measure_exploring, play_ours, play_reference
from reflect_locate.envs.autoexplore import AutoExplore
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from small_task_set import FILES


@pytest.fixture
def source(tmp_path):
    for path, text in FILES.items():
        (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / path).write_text(text)
    return tmp_path / "source"


def test_a_recorded_episode_can_be_walked(source):
    """Every command names a folder or a file that exists, and its time is kept."""
    tree = Tree(Snapshot("small", FILES))
    for seed in range(20):
        episode = play_ours(AutoExplore(), tree, "Where does the motor start", seed)
        assert len(episode.steps) == len(episode.commands) <= 15
        assert all((source / path).is_dir() if verb == "cd" else path in FILES for verb, path in episode.commands)
        assert episode.total == pytest.approx(episode.reset + sum(episode.steps))


def test_the_reference_works_on_a_copy_and_deletes_it(source, tmp_path):
    before, folder = {path: (source / path).read_text() for path in FILES}, Path.cwd()
    walk = Recorded("?", [("cd", "net"), ("cat", "net/limits.py"), ("cd", ""), ("id", "net/limits.py")])
    again = play_reference(source, tmp_path / "episode", walk)
    assert len(again.steps) == 4
    assert min(again.reset, again.teardown, *again.steps) > 0
    assert not (tmp_path / "episode").exists()
    assert {path: (source / path).read_text() for path in FILES} == before
    assert Path.cwd() == folder


@pytest.mark.parametrize("name", ["x;touch PWNED;.py", "$(touch PWNED).py", "-n.py", "`touch PWNED`.py", "it's.py"])
def test_names_are_no_commands(tmp_path, name):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / name).write_text("text")
    play_reference(tmp_path / "source", tmp_path / "episode", Recorded("?", [("cat", name)]))
    assert [path for path, _, files in os.walk(tmp_path) if "PWNED" in files] == []
    assert not Path("PWNED").exists()


def test_figures(source):
    notes = []
    row = measure_exploring(str(source), quick=True, report=notes.append)
    assert row["files"] == len(FILES)
    assert row["characters"] == sum(map(len, FILES.values()))
    assert row["episodes"] == {"ours": 50, "reference": 5}
    # A shell takes a millisecond, a dictionary does not.
    assert row["ratios"]["episode"] > 1
    assert row["ratios"].keys() == {"reset", "step", "episode"}
    assert json.loads(json.dumps(row)) == row
    assert len(notes) == 3
