"""Checkpoints: whole or not at all, and never silently wrong."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from reflect_rl.errors import RunFolderError
from reflect_rl.store import sha256_of
from reflect_rl.training.checkpoint import Checkpoints, CheckpointWarning, optimizer_state, restore_optimizer

FILES = ["optimizer.safetensors", "sha256.json", "state.json", "weights.safetensors"]


def tensors(step: int) -> dict[str, dict[str, torch.Tensor]]:
    return {
        "weights": {"a.b": torch.tensor([[step + 0.1, -2.0]]), "c": torch.tensor([3], dtype=torch.int64)},
        "optimizer": {"0.step": torch.tensor(float(step)), "rng": torch.arange(5, dtype=torch.uint8)},
    }


def state(step: int) -> dict:
    return {"update": step, "replay": {"stage": ["near"], "rate": 0.1 + step / 3}}


def assert_equal(loaded, groups, expected_state) -> None:
    found, found_state = loaded
    assert found_state == expected_state
    assert found.keys() == groups.keys()
    for group, members in groups.items():
        assert found[group].keys() == members.keys()
        for name, tensor in members.items():
            assert found[group][name].dtype == tensor.dtype
            assert torch.equal(found[group][name], tensor)


def assert_step(loaded, step: int) -> None:
    assert_equal(loaded, tensors(step), state(step))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def saved(tmp_path) -> Checkpoints:
    """Checkpoints of the steps 8 and 9."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for step in (8, 9):
        checkpoints.save(step, tensors(step), state(step))
    return checkpoints


def test_round_trip(saved):
    assert_step(saved.load(), 9)
    assert names(saved.folder) == ["step-00000008", "step-00000009"]
    assert names(saved.folder / "step-00000009") == FILES


def test_none_where_there_is_none(tmp_path):
    assert Checkpoints(tmp_path / "checkpoints").load() is None
    assert not (tmp_path / "checkpoints").exists()


def test_the_newest_stay_and_are_ordered_by_number(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (7, 99_999_999, 20, 100_000_000, 3):
        checkpoints.save(step, tensors(step), state(step))
    # As text, step-100000000 comes before step-99999999.
    assert names(tmp_path) == ["step-100000000", "step-99999999"]
    assert_step(checkpoints.load(), 100_000_000)


def test_a_step_saved_again_is_replaced_whole(saved):
    saved.save(9, {"weights": {"d": torch.zeros(2)}}, {"again": True})
    assert_equal(saved.load(), {"weights": {"d": torch.zeros(2)}}, {"again": True})
    assert names(saved.folder) == ["step-00000008", "step-00000009"]


def test_views_tied_and_empty_groups_are_saved_by_value(tmp_path):
    base = torch.arange(6.0).reshape(2, 3)
    groups = {"weights": {"column": base.T, "row": base, "tied": base}, "none": {}}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, groups, {})
    assert_equal(checkpoints.load(), groups, {})


def test_clear_removes_all_checkpoints_and_nothing_else(saved):
    (saved.folder / "step-00000007.corrupt").mkdir()
    (saved.folder / "step-00000010.new").mkdir()
    (saved.folder / "metrics.jsonl").touch()
    saved.clear()
    assert names(saved.folder) == ["metrics.jsonl"]
    assert saved.load() is None


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = {"flipped": flip, "truncated": truncate, "empty": empty, "missing": Path.unlink}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_corrupt_one_is_refused_by_name_and_the_one_before_is_used(saved, file, damage):
    DAMAGES[damage](saved.folder / "step-00000009" / file)
    with pytest.warns(CheckpointWarning, match=r"step-00000009 is corrupt: .*renamed to step-00000009\.corrupt"):
        assert_step(saved.load(), 8)
    assert names(saved.folder) == ["corrupt.jsonl", "step-00000008", "step-00000009.corrupt"]
    (row,) = [json.loads(line) for line in (saved.folder / "corrupt.jsonl").read_text().splitlines()]
    assert row["checkpoint"] == "step-00000009"
    assert file in row["fault"] or file == "sha256.json"
    # The training comes by the same step again.
    assert_step(saved.load(), 8)
    saved.save(9, tensors(9), state(9))
    assert_step(saved.load(), 9)


def test_every_flipped_bit_of_the_small_files_is_noticed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"w": {"a": torch.ones(1)}}, {"a": 1})
    place = tmp_path / "step-00000001"
    for path in sorted(place.iterdir()):
        content = path.read_bytes()
        for position in range(0, 8 * len(content), 3):
            changed = bytearray(content)
            changed[position // 8] ^= 1 << position % 8
            path.write_bytes(changed)
            with pytest.warns(CheckpointWarning), pytest.raises(RunFolderError):
                checkpoints.load()
            (tmp_path / "step-00000001.corrupt").rename(place)
        path.write_bytes(content)
    assert checkpoints.load() is not None


def test_a_file_that_does_not_belong_is_refused(saved):
    (saved.folder / "step-00000009" / "more.safetensors").write_bytes(b"")
    with pytest.warns(CheckpointWarning, match=r"more\.safetensors"):
        assert_step(saved.load(), 8)


def test_when_none_verifies_all_are_named_until_they_are_deleted(saved):
    for step in (8, 9):
        flip(saved.folder / f"step-0000000{step}" / "state.json")
    message = r"are corrupt \(step-00000008\.corrupt, step-00000009\.corrupt\)\. Delete them to train from the start"
    with pytest.warns(CheckpointWarning), pytest.raises(RunFolderError, match=message):
        saved.load()
    with pytest.raises(RunFolderError, match=message):
        saved.load()
    for path in saved.folder.glob("*.corrupt"):
        shutil.rmtree(path)
    assert saved.load() is None


class PowerCutError(Exception):
    pass


class Cutter:
    """Raises at the k-th of the calls that change what is on the disk, before it or right after it."""

    CALLS = ("fsync", "rename", "unlink", "rmdir", "mkdir")

    def __init__(self, patch: pytest.MonkeyPatch, at: int, *, after: bool) -> None:
        self.count, self.at, self.after = 0, at, after
        for name in self.CALLS:
            patch.setattr(os, name, self._cutting(getattr(os, name)))

    def _cutting(self, call):
        def wrapped(*words, **options):
            self.count += 1
            if self.count == self.at and not self.after:
                raise PowerCutError
            try:
                call(*words, **options)
            finally:
                if self.count == self.at:
                    raise PowerCutError

        return wrapped


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [9, 10])
def test_a_cut_at_any_moment_of_writing_leaves_the_old_or_the_new_one(tmp_path, monkeypatch, step, after):
    """Step 10 is a new checkpoint, after which step 8 is pruned; step 9 replaces one."""
    outcomes = set()
    for moment in range(1, 100):
        checkpoints = Checkpoints(tmp_path / str(moment))
        for earlier in (8, 9):
            checkpoints.save(earlier, tensors(earlier), state(earlier))
        with monkeypatch.context() as patch:
            cutter = Cutter(patch, moment, after=after)
            try:
                checkpoints.save(step, tensors(10), state(10))
            except PowerCutError:
                pass
            else:
                break
        assert cutter.count == moment
        found = checkpoints.load()
        outcomes.add(found[1]["update"])
        assert_step(found, found[1]["update"])
        assert not [name for name in names(checkpoints.folder) if not name[-1].isdigit()]
        checkpoints.save(11, tensors(11), state(11))
        assert_step(checkpoints.load(), 11)
    # Four files, their folder and the parent are flushed, and renamed once, at least.
    assert 7 < moment < 99
    assert outcomes == {9, 10}


@pytest.mark.parametrize("after", [False, True])
def test_a_cut_while_recovering_loses_nothing(tmp_path, monkeypatch, after):
    """The interrupted replacement leaves step 9 under its other name only, beside the half-written one."""
    for moment in range(1, 100):
        checkpoints = Checkpoints(tmp_path / str(moment))
        checkpoints.save(9, tensors(9), state(9))
        place = checkpoints.folder / "step-00000009"
        shutil.copytree(place, place.with_suffix(".new"))
        place.rename(place.with_suffix(".old"))
        with monkeypatch.context() as patch:
            Cutter(patch, moment, after=after)
            try:
                checkpoints.load()
            except PowerCutError:
                pass
            else:
                break
        assert_step(checkpoints.load(), 9)
        assert names(checkpoints.folder) == ["step-00000009"]
    assert 3 < moment < 99


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


@pytest.mark.parametrize("text", ["null", "[]", "3", '"x"', "[" * 100_000, "{}", ""])
@pytest.mark.parametrize("name", ["sha256.json", "state.json"])
def test_a_checkpoint_whose_json_is_something_else_gives_way_to_the_one_before(saved, name, text):
    place = saved.folder / "step-00000009"
    (place / name).write_text(text)
    if name == "state.json":
        sums = json.loads((place / "sha256.json").read_text()) | {name: sha256_of(place / name)}
        # An empty object is a state, though one without anything in it.
        (place / "sha256.json").write_text(json.dumps(sums if text != "{}" else {}))
    with pytest.warns(CheckpointWarning, match="step-00000009"):
        assert_step(saved.load(), 8)


def test_a_file_in_the_place_of_a_checkpoint_gives_way_too(saved):
    shutil.rmtree(saved.folder / "step-00000009")
    (saved.folder / "step-00000009").write_text("")
    with pytest.warns(CheckpointWarning, match="step-00000009"):
        assert_step(saved.load(), 8)
    saved.clear()
    assert names(saved.folder) == ["corrupt.jsonl"]


def test_one_that_may_not_be_read_is_not_put_aside(saved, monkeypatch):
    before = names(saved.folder)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_text", refused)
    with pytest.raises(RunFolderError, match=r"may not be read .* Check the rights of its files"):
        saved.load()
    monkeypatch.undo()
    assert names(saved.folder) == before
    assert_step(saved.load(), 9)


@pytest.mark.parametrize("ending", ["new", "gone"])
def test_a_file_that_an_interrupted_save_left_is_removed(saved, ending):
    (saved.folder / f"step-00000007.{ending}").write_text("")
    assert_step(saved.load(), 9)
    assert not (saved.folder / f"step-00000007.{ending}").exists()
