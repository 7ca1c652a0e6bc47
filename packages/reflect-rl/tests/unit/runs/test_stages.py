"""A job reads only what a finished job left: what was changed afterwards is named before anything is done."""

from __future__ import annotations

import pytest

from reflect_rl.config import parse
from reflect_rl.errors import RunFolderError
from reflect_rl.runs import stages, train
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.stages import execute, plan
from reflect_rl.runs.start import open_run
from reflect_rl.types import silent
from tiny_models import save_tiny
from toy import tiny_player


def test_one_flipped_bit_in_the_data_stops_the_training_that_reads_them(tmp_path):
    values = {
        "output_dir": str(tmp_path),
        "methods": ["sft"],
        "environment": {"name": "corridor"},
        "data": {"demonstration_starts": [2]},
        "sft": {"base": {"steps": 1}},
    }
    config = parse(RunConfig, values)
    open_run(config, "")
    jobs = {f"{job.kind} {job.name}".strip(): job for job in plan(config)}
    execute(jobs["data"], config, lambda *_: None)
    path = jobs["data"].unit.dataset("policy_plain")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    training = jobs["sft base"]
    with pytest.raises(RunFolderError, match=r"policy_plain\.jsonl") as refused:
        execute(training, config, lambda *_: None)
    assert "again" in str(refused.value)
    assert not training.done
    assert not (training.folder / "metrics.jsonl").exists()


def test_new_adapters_are_drawn_for_each_seed_and_each_player(tmp_path, monkeypatch):
    values = {
        "output_dir": str(tmp_path / "run"),
        "seeds": [0, 1],
        "methods": ["sft_reflect"],
        "environment": {"name": "corridor"},
        "model": {"path": str(save_tiny("gpt2", tmp_path / "model")), "device": "cpu", "lora": {"rank": 2}},
        "data": {"demonstration_starts": [2]},
    }
    config = parse(RunConfig, values)
    open_run(config, "")
    begun = dict[str, str]()
    monkeypatch.setattr(train, "train_sft", lambda model, *_, **__: begun.update({str(len(begun)): model.hash()}))
    for job in plan(config):
        if job.kind in ("data", "sft"):
            execute(job, config, silent)
    # Two players for each of two seeds.
    assert len(set(begun.values())) == len(begun) == 4


@pytest.mark.parametrize(("rule", "ends"), [("choice_token", False), ("line_end", False), ("sum", True)])
def test_a_policy_learns_where_its_answer_ends_where_that_is_a_text(tmp_path, monkeypatch, rule, ends):
    values = {
        "output_dir": str(tmp_path),
        "methods": ["sft_reflect"],
        "environment": {"name": "corridor"},
        "data": {"demonstration_starts": [2]},
        "prompt": {"scoring": rule},
    }
    config = parse(RunConfig, values)
    open_run(config, "")
    trained: dict[str, bool] = {}
    for job in plan(config):
        if job.kind == "data":
            execute(job, config, lambda *_: None)
        if job.kind == "sft":
            monkeypatch.setattr(train, "load_of_run", lambda *_, **__: tiny_player()[0])
            monkeypatch.setattr(train, "save_whole", lambda *_: None)
            monkeypatch.setattr(
                train, "train_sft", lambda *_, name=job.name, **rest: trained.update({name: rest["ends"]})
            )
            stages.SFTStage().do(job, config, lambda *_: None)
    assert trained == {"base": False, "reflector": True, "policy_reflect": ends}
