"""JSON and JSONL in run folders."""

from __future__ import annotations

import os

import pytest

from reflect_rl.errors import RunFolderError
from reflect_rl.store import read_json, read_jsonl, write_json, write_jsonl

REMEDY = "Run it again."


def test_round_trips_make_their_folders(tmp_path):
    path = tmp_path / "new" / "a.json"
    write_json(path, {"ö": [1, None, 0.1]})
    assert read_json(path, REMEDY) == {"ö": [1, None, 0.1]}
    write_jsonl(path.with_suffix(".jsonl"), iter([{"a": "x\ny"}, {"b": 2}]))
    assert read_jsonl(path.with_suffix(".jsonl"), REMEDY) == [{"a": "x\ny"}, {"b": 2}]
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.json", "a.jsonl"]


def test_a_half_written_last_line_is_left_out(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": ')
    assert read_jsonl(path, REMEDY) == [{"a": 1}, {"a": 2}]


def test_a_broken_line_that_was_completed_is_an_error_by_number(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n{"a": \n{"a": 3}\n')
    with pytest.raises(RunFolderError, match=r"m\.jsonl, line 2 is no JSON .* Run it again\."):
        read_jsonl(path, REMEDY)
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(RunFolderError, match="line 2"):
        read_jsonl(path, REMEDY)


def test_empty_files_and_lines(tmp_path):
    path = tmp_path / "m.jsonl"
    write_jsonl(path, [])
    assert read_jsonl(path, REMEDY) == []
    path.write_text('\n{"a": 1}\n\n')
    assert read_jsonl(path, REMEDY) == [{"a": 1}]


@pytest.mark.parametrize("read", [read_json, read_jsonl])
def test_missing_and_unreadable_files_name_the_file_and_the_remedy(tmp_path, read):
    with pytest.raises(RunFolderError, match=r"absent is missing\. Run it again\."):
        read(tmp_path / "absent", REMEDY)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(RunFolderError, match=r"binary is not readable .* Run it again\."):
        read(tmp_path / "binary", REMEDY)
    with pytest.raises(RunFolderError, match="not readable"):
        read(tmp_path, REMEDY)


def test_json_that_is_cut_off_is_an_error(tmp_path):
    (tmp_path / "a.json").write_text('{"a": ')
    with pytest.raises(RunFolderError, match=r"a\.json is not readable"):
        read_json(tmp_path / "a.json", REMEDY)


def test_an_interrupted_writer_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, 1)

    def cut(_: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", cut)
        with pytest.raises(OSError, match="no space"):
            write_json(path, 2)
    assert read_json(path, REMEDY) == 1

    def rows():
        yield 1
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        write_jsonl(path, rows())
    assert read_json(path, REMEDY) == 1
    write_json(path, 3)
    assert read_json(path, REMEDY) == 3
