"""JSON and JSONL in run folders."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from reflect_rl.errors import RunFolderError
from reflect_rl.store import check_seal, flush, read_json, read_jsonl, seal, whole_folder, write_json, write_jsonl

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
    assert read_jsonl(path, REMEDY, appended=True) == [{"a": 1}, {"a": 2}]


def test_half_a_character_at_the_end_is_half_a_line(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_bytes('{"a": 1}\n{"a": "ö'.encode()[:-1])
    assert read_jsonl(path, REMEDY, appended=True) == [{"a": 1}]
    with pytest.raises(RunFolderError, match="not readable"):
        read_jsonl(path, REMEDY)
    path.write_bytes('{"a": "ö'.encode()[:-1] + b'"}\n{"a": 1}')
    with pytest.raises(RunFolderError, match="not readable"):
        read_jsonl(path, REMEDY, appended=True)


def test_half_a_line_of_a_file_that_is_written_whole_is_damage(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n{"a": ')
    with pytest.raises(RunFolderError, match=r"m\.jsonl, line 2 is no JSON"):
        read_jsonl(path, REMEDY)


def sealed(folder):
    (folder / "job").mkdir(parents=True)
    (folder / "models").mkdir()
    files = [folder / "job" / "rows.json", folder / "models" / "weights.bin"]
    for file in files:
        file.write_bytes(b"0123456789")
    seal(folder / "job" / "done", files)
    return files


def test_a_seal_notices_every_change(tmp_path):
    for number, change in enumerate([b"0123456788", b"01234", b"", b"01234567890", None]):
        files = sealed(tmp_path / str(number))
        mark = files[0].parent / "done"
        check_seal(mark, REMEDY)
        for file in files:
            file.unlink() if change is None else file.write_bytes(change)
            what = "is missing" if change is None else "has changed since it was made"
            with pytest.raises(RunFolderError, match=rf"{file.name} {what}.* Run it again\."):
                check_seal(mark, REMEDY)
            file.write_bytes(b"0123456789")
        check_seal(mark, REMEDY)


def test_what_a_seal_leaves_alone(tmp_path):
    files = sealed(tmp_path)
    mark = files[0].parent / "done"
    files[1].write_bytes(b"x")
    check_seal(mark, REMEDY, ".bin")
    files[1].unlink()
    files[1].parent.rmdir()  # somebody needed the space
    check_seal(mark, REMEDY)
    mark.write_text("")  # the mark of an earlier version
    check_seal(mark, REMEDY)
    for text in ("null", "[]", "{"):
        mark.write_text(text)
        with pytest.raises(RunFolderError, match="Run it again"):
            check_seal(mark, REMEDY)


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
    write_json(path, {"a": 1})

    def cut(_: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", cut)
        with pytest.raises(OSError, match="no space"):
            write_json(path, {"a": 2})
    assert read_json(path, REMEDY) == {"a": 1}

    def rows():
        yield 1
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        write_jsonl(path, rows())
    assert read_json(path, REMEDY) == {"a": 1}
    write_json(path, {"a": 3})
    assert read_json(path, REMEDY) == {"a": 3}


@pytest.mark.parametrize("text", ["null", "[1]", "3", '"a"'])
def test_what_is_json_and_no_object_is_named(tmp_path, text):
    file = tmp_path / "file.json"
    file.write_text(text)
    for read, place in ((read_json, ""), (read_jsonl, ", line 1")):
        with pytest.raises(RunFolderError, match=rf"file\.json{place} (holds|is) no JSON object\. Make it again\."):
            read(file, "Make it again.")


def test_json_that_is_nested_too_deeply_is_named(tmp_path):
    file = tmp_path / "file.json"
    file.write_text("[" * 100_000)
    for read in (read_json, read_jsonl):
        with pytest.raises(RunFolderError, match=r"file\.json"):
            read(file, "Make it again.")


def test_values_that_are_nested_too_deeply_are_refused(tmp_path):
    (path := tmp_path / "a.json").write_text(99 * '{"a": ' + "1" + 99 * "}")
    assert list(read_json(path, "")) == ["a"]
    path.write_text(200 * '{"a": ' + "1" + 200 * "}")
    with pytest.raises(RunFolderError, match=r"nested too deeply\)\. Make it again"):
        read_json(path, "Make it again.")


@pytest.mark.parametrize("text", ['{"a": ' + "9" * 5000 + "}", '{"a": "\\ud800"}'])
def test_numbers_and_letters_that_python_cannot_take_are_named(tmp_path, text):
    (path := tmp_path / "a.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"a\.json is not readable .*\. Make it again\."):
        read_json(path, "Make it again.")


@pytest.mark.parametrize("read", [read_json, read_jsonl])
def test_a_file_that_may_not_be_read_is_not_to_be_deleted(tmp_path, monkeypatch, read):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_text", refused)
    monkeypatch.setattr("pathlib.Path.read_bytes", refused)
    with pytest.raises(RunFolderError, match=r"may not be read \(Permission denied\)\. Check its rights") as caught:
        read(tmp_path / "a.json", "Delete it.")
    assert "Delete" not in str(caught.value)


def test_a_write_that_fails_names_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_json(tmp_path / "a.json", {})
    assert caught.value.filename == str(tmp_path / "a.json")
    assert list(tmp_path.iterdir()) == []


def model_in(folder, text):
    (folder / "part").mkdir(parents=True)
    (folder / "weights.bin").write_text(text)
    (folder / "part" / "words.txt").write_text(text)


def test_a_folder_is_on_the_disk_before_it_has_its_name_and_its_name_is_there_last(tmp_path, monkeypatch):
    if os.name == "nt":
        pytest.skip("Windows flushes no folder")
    seen, fsync, rename = [], os.fsync, Path.rename

    def flushed(number):
        seen.append(os.fstat(number).st_ino)
        fsync(number)

    def renamed(path, target):
        seen.append(path.name)
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    with whole_folder(tmp_path / "model") as fresh:
        (fresh / "part").mkdir()
        files = [fresh / "weights.bin", fresh / "part" / "words.txt"]
        for file in files:
            file.write_text("x")
        assert not (tmp_path / "model").exists()
        wanted = {path.stat().st_ino for path in (*files, fresh / "part", fresh)}
    assert set(seen[:4]) == wanted
    assert seen[4:] == ["model.new", tmp_path.stat().st_ino]


def written(target, act, **words):
    with whole_folder(target, **words) as fresh:
        (fresh / "weights.bin").write_text("ne")
        act()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_folder_that_is_not_finished_leaves_what_was_there(tmp_path, error):
    def fail():
        raise error

    model_in(tmp_path / "model", "old")
    with pytest.raises(type(error)) as caught:
        written(tmp_path / "model", fail)
    assert getattr(caught.value, "filename", None) == (str(tmp_path / "model") if isinstance(error, OSError) else None)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "weights.bin").read_text() == "old"


def test_a_folder_takes_the_place_of_the_old_one_and_of_what_a_kill_has_left(tmp_path):
    model_in(tmp_path / "model", "old")
    model_in(tmp_path / "model.new", "half")
    with whole_folder(tmp_path / "model") as fresh:
        assert list(fresh.iterdir()) == []
        (fresh / "config.json").write_text("{}")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["config.json"]


def test_a_folder_that_replaces_nothing_leaves_what_appeared_meanwhile(tmp_path):
    with pytest.raises(OSError, match="not empty"):
        written(tmp_path / "model", lambda: model_in(tmp_path / "model", "mine"), replaces=False)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model" / "weights.bin").read_text() == "mine"


def test_a_file_system_that_cannot_flush_a_folder_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")

    def refuse(_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    flush(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):
        flush(tmp_path / "file")
