"""The measurement of whole online RL, on the smallest game."""

import pytest
import torch

from reflect_bench.online import STEPS, measure_online, steps_for, table_of_online
from reflect_bench.sizes import hours, operations_per_turn
from reflect_rl.models.precision import choose
from reflect_rl.players.reflectors import FrozenReflector

RUN = """
[environment]
name = "corridor"
[rlft]
starts_per_update = 2
episodes_per_start = 2
"""


def test_a_row_for_each_step(tmp_path):
    path, notes = tmp_path / "run.toml", []
    path.write_text(RUN)
    figures = measure_online(path, None, notes.append, (STEPS[1], STEPS[3]))
    first, last = figures["steps"]
    assert notes == [first["step"], last["step"]] == [STEPS[1].name, STEPS[3].name]
    # A token that spans words makes prompts shorter.
    assert last["prompt_tokens"] < first["prompt_tokens"]
    for row in figures["steps"]:
        assert row["turns"] >= 4
        assert 0 < row["unique_prompts"] <= 1
        parts = sum(row[f"{part}_seconds"] for part in ("reflect", "policy", "environment", "learn"))
        assert row["turns_per_cpu_second"] == pytest.approx(row["turns"] / parts)
    assert table_of_online([figures]).row_count == 2


@pytest.mark.parametrize(("slow", "formats"), [(1.0, [False, True, True, True]), (30.0, [False, False, False])])
def test_steps_leave_bfloat16_out_where_it_is_slower(slow, formats):
    seconds = {torch.float32: 2.0, torch.bfloat16: slow}
    choice = choose(torch.device("cpu"), adapters=False, seconds=lambda device, dtype: seconds[dtype])
    assert [step.mixed for step in steps_for(choice)] == formats


def test_hours_by_hand():
    # Half of the turns are computed: 150 tokens at 6 operations, and 165 at 2.
    assert operations_per_turn(10) == 10 * (900 + 330)
    assert hours(1_000_000, 1e12) == pytest.approx(100_000 * 1230e6 / 1e12 / 3600)


def test_a_program_writes_the_reflections_where_the_run_file_says_so(tmp_path, monkeypatch):
    path, trained = tmp_path / "run.toml", []
    more = 'max_episode_steps = 5\n[reflector]\nkind = "lexical"\n[model.embedded]\ncontext_tokens = 1024\n'
    path.write_text(RUN.replace("corridor", "alfworld") + more)
    reflect = FrozenReflector.reflect
    monkeypatch.setattr(FrozenReflector, "reflect", lambda *given: trained.append(1) or reflect(*given))
    figures = measure_online(path, 1, lambda _: None, STEPS[:1])
    assert not trained
    assert figures["environment"] == {"name": "alfworld", "state": "notes", "advice": "command", "history": 5}
