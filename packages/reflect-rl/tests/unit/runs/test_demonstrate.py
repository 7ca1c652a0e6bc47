"""Data sets of a run: what the embedded model reads first, beside the demonstrations."""

from __future__ import annotations

from reflect_rl.config import parse
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import demonstrate
from reflect_rl.runs.folder import Unit
from reflect_rl.store import read_jsonl


def test_a_random_players_games_are_read_first_and_change_no_demonstration(tmp_path):
    tables = {}
    for starts in (0, 9):
        folder = tmp_path / str(starts)
        values = {"output_dir": str(folder), "environment": {"name": "corridor"}, "methods": ["sft"]}
        data = {"demonstration_starts": [2], "reading_starts": starts}
        unit = Unit(folder, 2, 0)
        demonstrate(unit, unit.folder / "data", parse(RunConfig, values | {"data": data}), lambda *_: None)
        for name in ("base", "policy_plain"):
            tables[name, starts] = list(read_jsonl(unit.dataset(name), ""))
    assert tables["policy_plain", 0] == tables["policy_plain", 9]
    assert {row["task"] for row in tables["base", 0]} == {row["task"] for row in tables["policy_plain", 0]}
    read = {row["task"] for row in tables["base", 9]}
    # One game for each of nine starts, the two demonstrated ones among them.
    assert len(read) == 9 > len(read - {row["task"] for row in tables["policy_plain", 9]}) == 7
