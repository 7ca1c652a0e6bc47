import hashlib
import json
import lzma
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from alfworld_layout import game_text, write_official
from alfworld_native.errors import GameError, IncompleteSplitWarning
from alfworld_native.generate import generate_games
from alfworld_native.official import story
from alfworld_native.record import GameRecord
from alfworld_native.sources import OFFICIAL_COUNTS, data_folder, games_of, load_games

DATA = os.environ.get("REFLECT_RL_ALFWORLD", "")
needs_data = pytest.mark.skipif(not DATA, reason="REFLECT_RL_ALFWORLD names no folder with ALFWorld's games")


@pytest.fixture(scope="module")
def generated() -> tuple[GameRecord, ...]:
    """Eight records as files would have them: keys of two levels, in order, with annotations."""
    games = generate_games("train", 8, seed=41)
    return tuple(
        replace(game, key=f"{game.task_type}-{game.subject}-{number}/trial_{number}", annotations=("Do it.", "Now."))
        for number, game in enumerate(games)
    )


def row(record: GameRecord, **changes: object) -> dict:
    fields = {
        "id": record.key,
        "split": "train",
        "task_type": record.task_type,
        "pddl_params": story(record)["pddl_params"],
        "scene": record.scene,
        "goal": record.goal,
        "anns": list(record.annotations),
        "solvable": True,
        "sha256": hashlib.sha256(game_text(record).encode()).hexdigest(),
        "pddl_problem": record.problem,
    }
    return {**fields, **changes}


def write_compact(path: Path, rows: list[dict]) -> None:
    path.write_bytes(lzma.compress("".join(json.dumps(each) + "\n" for each in rows).encode()))


def test_both_layouts_give_equal_records_in_equal_order(tmp_path, generated):
    compact, official = tmp_path / "compact", tmp_path / "official"
    compact.mkdir()
    for record in reversed(generated):
        write_official(official / "json_2.1.1" / "train", record)
    write_compact(compact / "train.jsonl.xz", [row(record) for record in sorted(generated, key=lambda each: each.key)])
    left, right = load_games(compact, "train"), load_games(official, "train")
    assert tuple(left) == tuple(right)
    assert left.fingerprint == right.fingerprint
    assert {replace(each, sha256="") for each in right} == set(generated)


def test_order_is_that_of_whole_keys(tmp_path, generated):
    # By folders "Mug-1" < "Mug-1-b"; as whole keys "Mug-1-b/x" < "Mug-1/x", since "-" comes before "/".
    for key in ("Mug-1/x", "Mug-1-b/x"):
        write_official(tmp_path / "train", replace(generated[0], key=key))
    assert load_games(tmp_path, "train").keys == ("Mug-1-b/x", "Mug-1/x")


@pytest.mark.parametrize("root", ["json_2.1.1", "json_2.1.2", "json_2.1.3", "."])
def test_every_version_of_the_official_folder_is_found(tmp_path, generated, root):
    write_official(tmp_path / root / "valid_unseen", generated[0])
    assert load_games(tmp_path, "valid_unseen").keys == (generated[0].key,)


def test_what_the_official_environment_passes_over_is_passed_over(tmp_path, generated):
    split = tmp_path / "json_2.1.1" / "train"
    kept, unsolved, unflagged, movable, sliced, other, lone = generated[:7]
    write_official(split, kept)
    write_official(split, unsolved, game_text(unsolved).replace('"solvable": true', '"solvable": false'))
    write_official(split, unflagged, game_text(unflagged).replace(', "solvable": true', ""))
    write_official(split, replace(movable, key="pick_and_place_with_movable_recep-Mug-Box-Desk-1/trial"))
    write_official(split, replace(sliced, key="pick_heat_then_place_in_recep-AppleSliced-None-Shelf-1/trial"))
    write_official(split, replace(other, task_type="pick_and_place_with_movable_recep", key="Mug-Box-Desk-1/trial"))
    (write_official(split, lone) / "game.tw-pddl").unlink()
    assert load_games(tmp_path, "train").keys == (kept.key,)


def test_records_of_games_without_solution_are_passed_over(tmp_path, generated):
    rows = sorted((row(record) for record in generated[:2]), key=lambda each: each["id"])
    write_compact(tmp_path / "train.jsonl.xz", [rows[0], {**rows[1], "solvable": False}])
    assert load_games(tmp_path, "train").keys == (rows[0]["id"],)


def test_splits_are_joined_in_the_order_asked_for(tmp_path, generated):
    for split, record in (("valid_seen", generated[1]), ("valid_train", generated[0])):
        write_compact(tmp_path / f"{split}.jsonl.xz", [row(record)])
    assert load_games(tmp_path, ["valid_train", "valid_seen"]).keys == (generated[0].key, generated[1].key)


def test_the_small_file_is_enough_for_the_papers_games(tmp_path, generated):
    paper = replace(generated[0], task_type="pick_and_place_simple", subject="Tomato-None-Microwave")
    rows = [row(paper, id="a/1"), row(paper, id="b/1", split="valid_seen"), row(paper, id="c/1", split="valid_train")]
    write_compact(tmp_path / "tomato_microwave.jsonl.xz", rows)
    assert load_games(tmp_path, "train", name="paper").keys == ("a/1",)
    assert load_games(tmp_path, ["valid_seen", "valid_unseen", "valid_train"], name="paper").keys == ("b/1", "c/1")
    with pytest.raises(GameError, match=r"neither train\.jsonl\.xz nor"):
        load_games(tmp_path, "train")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"solvable": None}, "line 1: 'solvable' is None, not of type bool"),
        ({"goal": 3}, "line 1: 'goal' is 3, not of type str"),
        ({"task_type": "pick_and_place"}, "Did you mean 'pick_and_place_simple'"),
        ({"anns": [1]}, "'anns' is not a list of texts"),
        ({"pddl_params": {}}, "has no 'object_target'"),
    ],
)
def test_wrong_fields_are_named(tmp_path, generated, changes, message):
    write_compact(tmp_path / "train.jsonl.xz", [row(generated[0], **changes)])
    with pytest.raises(GameError, match=message):
        load_games(tmp_path, "train")


def test_a_missing_flag_is_named(tmp_path, generated):
    incomplete = row(generated[0])
    del incomplete["solvable"]
    write_compact(tmp_path / "train.jsonl.xz", [incomplete])
    with pytest.raises(GameError, match=r"train\.jsonl\.xz, line 1 has no 'solvable'"):
        load_games(tmp_path, "train")


def test_records_out_of_order_or_twice_are_refused(tmp_path, generated):
    write_compact(tmp_path / "train.jsonl.xz", [row(generated[0])] * 2)
    with pytest.raises(GameError, match="sorted by `id`, each once"):
        load_games(tmp_path, "train")


def test_a_corrupt_line_is_named_by_its_number(tmp_path, generated):
    path = tmp_path / "train.jsonl.xz"
    path.write_bytes(lzma.compress(json.dumps(row(generated[0])).encode() + b'\n{"id": \n'))
    with pytest.raises(GameError, match=r"train\.jsonl\.xz, line 2 is not JSON"):
        load_games(tmp_path, "train")


def test_a_truncated_file_is_named(tmp_path, generated):
    path = tmp_path / "train.jsonl.xz"
    write_compact(path, [row(generated[0])])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(GameError, match=r"train\.jsonl\.xz cannot be read after line"):
        load_games(tmp_path, "train")


def test_a_game_file_that_is_no_json_is_named(tmp_path, generated):
    write_official(tmp_path / "train", generated[0], "{")
    with pytest.raises(GameError, match=r"game\.tw-pddl is not JSON"):
        load_games(tmp_path, "train")


def test_a_grammar_without_goal_is_named(tmp_path, generated):
    write_official(tmp_path / "train", generated[0], game_text(generated[0], grammar="{}"))
    with pytest.raises(GameError, match=r"does not say `Your task is to"):
        load_games(tmp_path, "train")


def test_folders_without_games_are_refused(tmp_path):
    with pytest.raises(GameError, match="there is no folder"):
        load_games(tmp_path / "absent", "train")
    with pytest.raises(GameError, match=r"neither train\.jsonl\.xz nor json_2\.1\.1/train"):
        load_games(tmp_path, "train")
    (tmp_path / "valid_seen").mkdir()
    with pytest.raises(GameError, match=r"has valid_seen, but neither .*train. Run `alfworld-download` again"):
        load_games(tmp_path, "train")
    (tmp_path / "valid_seen").rmdir()
    (tmp_path / "train" / "kind" / "trial").mkdir(parents=True)
    with pytest.raises(GameError, match=r"none of its 1 folders two levels down has game\.tw-pddl"):
        load_games(tmp_path, "train")
    with pytest.raises(GameError, match="Did you mean 'valid_seen'"):
        load_games(tmp_path, "valid_sen")


def test_a_folder_can_be_a_text(tmp_path, generated, monkeypatch):
    write_official(tmp_path / "train", generated[0])
    monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
    for folder in (str(tmp_path), "$SOME_FOLDER"):
        assert load_games(folder, "train").keys == load_games(tmp_path, "train").keys


def test_links_out_of_the_folder_are_not_followed(tmp_path, generated):
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    secret = write_official(outside, generated[0])
    (folder / "train" / "kind").mkdir(parents=True)
    (folder / "train" / "kind" / "trial").symlink_to(secret)
    with pytest.raises(GameError, match="Links to other folders are not followed"):
        load_games(folder, "train")
    linked = write_official(folder / "train", generated[1])
    (linked / "game.tw-pddl").unlink()
    (linked / "game.tw-pddl").symlink_to(secret / "game.tw-pddl")
    with pytest.raises(GameError, match="is a link out of"):
        load_games(folder, "train")


def test_a_split_that_is_a_link_out_of_the_folder_is_not_followed(tmp_path, generated):
    write_official(tmp_path / "outside", generated[0])
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "train").symlink_to(tmp_path / "outside")
    with pytest.raises(GameError, match="is a link out of"):
        load_games(tmp_path / "folder", "train")


def test_the_data_folder_is_the_configured_one_before_the_environments(tmp_path, monkeypatch):
    official, other = tmp_path / "official", tmp_path / "other"
    official.mkdir()
    other.mkdir()
    monkeypatch.setenv("ALFWORLD_DATA", str(official))
    assert data_folder() == official
    assert data_folder(str(other)) == other
    for absent in (str(tmp_path / "absent"), "~no-such-user/games"):
        with pytest.raises(GameError, match="there is no folder"):
            data_folder(absent)


def test_without_any_folder_the_remedy_is_named(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(GameError, match="alfworld-download"):
        data_folder()


@needs_data
def test_the_official_layout_of_real_games_gives_their_compact_records(tmp_path):
    folder = Path(DATA)
    records = load_games(folder, "valid_seen")[::20]
    domain, grammar = ((folder / "logic_2.1.1" / name).read_text() for name in ("alfred.pddl", "alfred.twl2"))
    for record in records:
        write_official(tmp_path / "json_2.1.1" / "valid_seen", record, game_text(record, domain, grammar))
    # Equal down to the checksum of the original file, so these are the original files, byte for byte.
    assert tuple(load_games(tmp_path, "valid_seen")) == tuple(records)


@needs_data
def test_real_splits_have_their_official_sizes():
    folder = Path(DATA)
    assert len(load_games(folder, "valid_seen")) == 140
    assert len(load_games(folder, "valid_train", distinct=True)) == 199
    assert len(load_games(folder, "valid_train", task_types=["look_at_obj_in_light"])) == 19
    assert len(load_games(folder, "train", name="paper")) == 7
    assert len(load_games(folder, ["valid_seen", "valid_unseen", "valid_train"], name="paper")) == 4


@needs_data
def test_the_papers_small_file_has_the_games_of_the_splits():
    folder = Path(DATA)
    whole = load_games(folder, ["valid_seen", "valid_train"]).select(name="paper")
    assert tuple(whole) == tuple(load_games(folder, ["valid_seen", "valid_train"], name="paper"))


# ------------------------------------------------------------------------------------------------ half a download


def official(records: tuple[GameRecord, ...]) -> list[GameRecord]:
    """The games under names such as those of ALFWorld's data, in order."""
    named = [
        replace(record, key=f"{record.task_type}-{record.subject}-{number}/trial_T20190907_174127_04346{number}")
        for number, record in enumerate(records)
    ]
    return sorted(named, key=lambda record: record.key)


def told(load: Callable[[], object]) -> list[str]:
    """Warnings of half a download."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load()
    return [str(each.message) for each in caught if each.category is IncompleteSplitWarning]


def test_half_a_download_is_told_in_one_sentence(tmp_path, generated):
    for record in official(generated)[:3]:
        write_official(tmp_path / "json_2.1.1" / "valid_seen", record)
    remedy = "Run `alfworld-download` again, or copy those that are missing."
    (sentence,) = told(lambda: load_games(tmp_path, "valid_seen"))
    assert sentence == f"{tmp_path} has 3 of the 140 games of ALFWorld's valid_seen. {remedy}"
    split = tmp_path / "json_2.1.1" / "valid_seen"
    (sentence,) = told(lambda: games_of(split))
    assert sentence == f"{split} has 3 of the 140 games of ALFWorld's valid_seen. {remedy}"
    write_compact(tmp_path / "train.jsonl.xz", [row(record) for record in official(generated)[3:]])
    (sentence,) = told(lambda: games_of(tmp_path / "train.jsonl.xz"))
    assert "train.jsonl.xz has 5 of the 3,553 games of ALFWorld's train." in sentence
    # Of several splits each that lacks games.
    assert len(told(lambda: load_games(tmp_path, ["train", "valid_seen"]))) == 2


def test_whole_splits_and_games_of_ones_own_are_not_told(tmp_path, generated, monkeypatch):
    for record in (*official(generated)[:2], generated[5]):
        write_official(tmp_path / "train", record)
    for record in official(generated)[:2]:
        write_official(tmp_path / "valid_seen", record)
        write_official(tmp_path / "chosen", record)
        write_official(tmp_path / "valid_train", record)
    monkeypatch.setitem(OFFICIAL_COUNTS, "valid_seen", 2)
    for load in (
        lambda: load_games(tmp_path, "train"),
        lambda: load_games(tmp_path, "valid_seen"),
        lambda: load_games(tmp_path, "valid_train"),
        lambda: games_of(tmp_path / "chosen"),
    ):
        assert not told(load)


def test_the_papers_small_file_lacks_nothing(tmp_path, generated):
    paper = replace(official(generated)[0], task_type="pick_and_place_simple", subject="Tomato-None-Microwave")
    write_compact(tmp_path / "tomato_microwave.jsonl.xz", [row(paper)])
    assert not told(lambda: load_games(tmp_path, "train", name="paper"))
