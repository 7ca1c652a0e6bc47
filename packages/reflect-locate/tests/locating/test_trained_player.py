"""A player's folder: loading, what is wrong with it, exporting it from a run."""

import json
import re

import pytest

from reflect_locate import trained_player
from reflect_locate.finder import SearchOptions, locate
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from reflect_locate.trained_player import export_player, load_player
from reflect_rl.errors import ModelError, UnknownNameError
from tiny_player import FILES, save_tiny_player


@pytest.fixture
def folder(tmp_path):
    return save_tiny_player(tmp_path / "player", threshold=0.4, page_entries=10)


@pytest.fixture
def run(tmp_path, folder):
    """A run folder with a trained policy, the tiny one."""
    run = tmp_path / "run"
    environment = {"name": "autoexplore", "page_entries": 10, "search": True, "tasks": "runs/tasks"}
    config = {"environment": environment, "data": {"demonstration_starts": [5]}, "seeds": [3]}
    config["methods"] = ["sft_lexical", "reflect_rl_lexical", "bm25_names"]
    run.mkdir()
    (run / "config.json").write_text(json.dumps(config))
    (run / "run.json").write_text(json.dumps({"fingerprint": "f00", "command": "reflect-rl run x.toml"}))
    model = run / "starts-5/seed-3/rlft/reflect_rl_lexical/model"
    model.parent.mkdir(parents=True)
    (folder / "policy").rename(model)
    return run


def edit(folder, **changes):
    path = folder / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_player_plays_as_its_settings_say(folder):
    player = load_player(folder, device="cpu")
    assert player.settings.threshold == 0.4
    assert player.settings.environment.page_entries == 10
    # 10 entries, 15 turns, 5 hits and 6 others.
    assert len(player.labels.texts) == 36
    assert player.reflector.name == "lexical"


def test_without_a_packaged_player_the_error_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(trained_player, "PACKAGED", tmp_path / "none")
    with pytest.raises(ModelError, match=r"reflect-rl run configs/autoexplore/default\.toml"):
        load_player()


def test_the_packaged_player_is_loaded_by_default(monkeypatch, folder):
    monkeypatch.setattr(trained_player, "PACKAGED", folder)
    assert load_player(device="cpu").settings.threshold == 0.4


def test_the_player_that_comes_with_the_package_finds_files():
    player = load_player(device="cpu")
    assert player.settings.environment.search
    assert player.settings.trained["weights"] == player.model.hash()
    assert player.settings.trained["calibration"]["right_shown"] >= 0.9
    assert 0.1 < player.settings.threshold < 0.6
    tree = Tree(Snapshot("kettle", FILES))
    for question, path in (
        ("Where are rate limits parsed?", "src/limits.py"),
        ("How is the kettle descaled with vinegar?", "docs/guide.md"),
    ):
        answer = locate(player, tree, question, SearchOptions(2))
        assert answer.found
        assert answer.files[0].path == path
    assert not locate(player, tree, "quantum chromodynamics on a lattice", SearchOptions(2)).found


def test_nothing_of_the_machine_that_trained_it_comes_with_the_package():
    text = (trained_player.PACKAGED / "settings.json").read_text()
    assert not re.search(r"/(home|root|tmp|work|Users)/", text)
    assert sorted(path.suffix for path in (trained_player.PACKAGED / "policy").iterdir()) == [".json"] * 4 + [
        ".safetensors"
    ]


def test_another_folder_is_no_player(tmp_path):
    with pytest.raises(ModelError, match=r"neither a player .* nor a run folder"):
        load_player(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"thresold": 1}, "Did you mean 'threshold'"),
        ({"threshold": 7}, "threshold: 7 is too large"),
        ({"version": 2}, "version"),
        ({"labels": ["0", "1"]}, "does not name the actions as it did in training"),
    ],
)
def test_settings_that_are_wrong_are_named(folder, changes, message):
    edit(folder, **changes)
    with pytest.raises(ModelError, match=message):
        load_player(folder, device="cpu")


def test_a_player_without_weights_is_an_error(folder):
    (folder / "policy/model.safetensors").unlink()
    with pytest.raises(ModelError):
        load_player(folder, device="cpu")


def test_a_run_can_be_played_as_it_is(run):
    player = load_player(run, device="cpu")
    assert player.model.name == str(run / "starts-5/seed-3/rlft/reflect_rl_lexical/model")
    assert player.settings.reflector == "lexical"
    assert player.settings.trained["unit"] == "starts-5/seed-3"
    assert player.settings.environment.page_entries == 10


def test_an_exported_player_is_the_run_s(run, tmp_path):
    exported = export_player(run, tmp_path / "exported", answers={"threshold": 0.3})
    values = json.loads((exported / "settings.json").read_text())
    assert values["threshold"] == 0.3
    assert values["trained"]["fingerprint"] == "f00"
    assert "tasks" not in values["environment"]
    assert values["labels"] == [str(number) for number in range(36)]
    player, played = load_player(exported, device="cpu"), load_player(run, device="cpu")
    assert player.model.hash() == played.model.hash() == values["trained"]["weights"]


def test_rounded_weights_take_half_the_place_and_play_nearly_alike(run, tmp_path):
    whole, half = (export_player(run, tmp_path / str(rounded), half=rounded) for rounded in (False, True))
    sizes = [(folder / "policy" / "model.safetensors").stat().st_size for folder in (whole, half)]
    assert sizes[1] < 0.6 * sizes[0]
    players = [load_player(folder, device="cpu") for folder in (whole, half)]
    exact, rounded = (player.model for player in players)
    assert rounded.hash() == players[1].settings.trained["weights"] != exact.hash()
    ours = dict(rounded.model.named_parameters())
    for name, weight in exact.model.named_parameters():
        assert ours[name].dtype == weight.dtype
        assert ((ours[name] - weight).abs() <= 2**-11 * weight.abs() + 2**-24).all()


def test_an_export_that_fails_leaves_no_half_player(run, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reflect_locate.trained_player.write_json", full)
    with pytest.raises(OSError, match="No space left"):
        export_player(run, tmp_path / "exported")
    assert list(tmp_path.glob("exported*")) == []


def test_nothing_is_exported_over_another_folder(run, tmp_path):
    with pytest.raises(ModelError, match="exists"):
        export_player(run, tmp_path)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"method": "reflect_rl_lexica"}, "Did you mean 'reflect_rl_lexical'"),
        ({"method": "random"}, "no trained method 'random'"),
        ({"unit": "starts-5/seed-4"}, "no unit 'starts-5/seed-4'"),
    ],
)
def test_what_a_run_does_not_have_is_named(run, choice, message):
    with pytest.raises(UnknownNameError, match=message):
        load_player(run, **choice)


def test_a_method_that_is_not_trained_yet_is_named(run):
    with pytest.raises(ModelError, match="has no model of 'sft_lexical'"):
        load_player(run, method="sft_lexical")


def test_a_run_of_another_game_is_refused(run):
    (run / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="dangerous_taxi"):
        load_player(run)
