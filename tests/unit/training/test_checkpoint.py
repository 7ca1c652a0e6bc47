"""Checkpoints: whole or not at all, and never silently wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from reflect_rl.core.errors import RunFolderError
from reflect_rl.training import checkpoint
from reflect_rl.training.checkpoint import load_checkpoint, optimizer_state, restore_optimizer, save_checkpoint

TENSORS = {
    "weights": {"a.b": torch.tensor([[1.5, -2.0]]), "c": torch.tensor([3], dtype=torch.int64)},
    "optimizer": {"0.step": torch.tensor(4.0)},
}
STATE = {"update": 3, "replay": {"stage": ["near"], "rate": 0.1}}


def assert_equal(loaded, tensors=TENSORS, state=STATE) -> None:
    groups, found = loaded
    assert found == state
    assert groups.keys() == tensors.keys()
    for group, members in tensors.items():
        assert groups[group].keys() == members.keys()
        for name, tensor in members.items():
            assert groups[group][name].dtype == tensor.dtype
            assert torch.equal(groups[group][name], tensor)


@pytest.fixture
def saved(tmp_path) -> Path:
    save_checkpoint(tmp_path / "checkpoint", TENSORS, STATE)
    return tmp_path / "checkpoint"


def test_round_trip(saved):
    assert_equal(load_checkpoint(saved))
    assert [path.name for path in saved.parent.iterdir()] == ["checkpoint"]
    assert not list(saved.glob("*.p*"))


def test_none_where_there_is_none(tmp_path):
    assert load_checkpoint(tmp_path / "checkpoint") is None


def test_a_new_one_replaces_the_old_one_whole(saved):
    save_checkpoint(saved, {"weights": {"d": torch.zeros(2)}}, {"update": 4})
    assert_equal(load_checkpoint(saved), {"weights": {"d": torch.zeros(2)}}, {"update": 4})


def test_views_and_tied_tensors_are_saved_by_value(tmp_path):
    base = torch.arange(6.0).reshape(2, 3)
    tensors = {"weights": {"column": base.T, "row": base, "tied": base}}
    save_checkpoint(tmp_path / "checkpoint", tensors, {})
    assert_equal(load_checkpoint(tmp_path / "checkpoint"), tensors, {})


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
def test_a_changed_byte_is_refused_by_the_name_of_the_file(saved, name):
    content = bytearray((saved / name).read_bytes())
    content[-1] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(RunFolderError, match=rf"{name} is corrupt; delete"):
        load_checkpoint(saved)


@pytest.mark.parametrize("name", ["weights.safetensors", "state.json", "sha256.json"])
def test_a_missing_file_is_refused_by_name(saved, name):
    (saved / name).unlink()
    with pytest.raises(RunFolderError, match=name):
        load_checkpoint(saved)


def test_a_half_written_list_of_sums_is_refused(saved):
    (saved / "sha256.json").write_text('{"state.json": "ab')
    with pytest.raises(RunFolderError, match="not readable"):
        load_checkpoint(saved)


class PowerCutError(Exception):
    pass


@pytest.mark.parametrize("function", ["save_file", "_sha256", "_flush"])
def test_an_interruption_while_writing_leaves_the_old_one(saved, monkeypatch, function):
    def cut(*_):
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, function, cut)
        with pytest.raises(PowerCutError):
            save_checkpoint(saved, {"weights": {"a.b": torch.zeros(1)}}, {"update": 99})
    assert_equal(load_checkpoint(saved))
    save_checkpoint(saved, TENSORS, {"update": 100})
    assert_equal(load_checkpoint(saved), TENSORS, {"update": 100})


def test_an_interruption_between_the_two_renamings_leaves_the_old_one(saved, monkeypatch):
    rename = Path.rename

    def cut(self, target):
        if self.name.endswith(".new"):
            raise PowerCutError
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", cut)
        with pytest.raises(PowerCutError):
            save_checkpoint(saved, {"weights": {}}, {"update": 99})
    assert not saved.exists()
    assert_equal(load_checkpoint(saved))


def test_an_interruption_after_the_second_renaming_leaves_the_new_one(saved, monkeypatch):
    remove = shutil.rmtree

    def cut(path, ignore_errors=False):
        if saved.exists() and json.loads((saved / "state.json").read_text()) != STATE:
            raise PowerCutError
        remove(path, ignore_errors=ignore_errors)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", cut)
        with pytest.raises(PowerCutError):
            save_checkpoint(saved, TENSORS, {"update": 99})
    assert_equal(load_checkpoint(saved), TENSORS, {"update": 99})


def test_an_optimiser_goes_on_as_if_it_had_not_stopped():
    def build() -> tuple[torch.nn.Parameter, torch.optim.AdamW]:
        weight = torch.nn.Parameter(torch.tensor([1.0, -1.0]))
        return weight, torch.optim.AdamW([{"params": [weight], "lr": 0.1}], weight_decay=0.0)

    def step(weight, optimizer, scale: float) -> None:
        optimizer.zero_grad()
        (weight.square().sum() * scale).backward()
        optimizer.step()

    weight, optimizer = build()
    step(weight, optimizer, 1.0)
    step(weight, optimizer, 3.0)
    state, value = {k: v.clone() for k, v in optimizer_state(optimizer).items()}, weight.detach().clone()
    assert set(state) == {"0.step", "0.exp_avg", "0.exp_avg_sq"}
    step(weight, optimizer, 2.0)
    other, resumed = build()
    with torch.no_grad():
        other.copy_(value)
    restore_optimizer(resumed, state)
    step(other, resumed, 2.0)
    assert torch.equal(other, weight)
