"""Snapshots: what they accept, and that they never change."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reflect_locate.repositories import snapshot
from reflect_locate.repositories.budget import Budget
from reflect_locate.repositories.snapshot import LeftOut, Snapshot, SnapshotError
from reflect_rl.errors import UserError

FILES = {"b/c.py": "two\n", "a.py": "one\n"}


@pytest.mark.parametrize("path", ["", ".", "..", "/a", "a/", "a//b", "./a", "a/./b", "../a", "a/../b", "a/..", "a\0b"])
def test_paths_that_lead_out_or_nowhere_are_refused(path: str):
    with pytest.raises(ValueError, match="no relative path inside the tree"):
        Snapshot("odd", {path: "text"})


@pytest.mark.parametrize(
    "name", ["-n", "#x", "a;b", "$(touch x)", "`x`", "it's", '"', "cd ..", "id", "...", "~", "\n", "a\\b"]
)
def test_odd_names_are_just_names(name: str):
    assert Snapshot("odd", {f"a/{name}": "text"}).files[f"a/{name}"] == "text"


def test_a_path_is_not_both_a_file_and_a_folder():
    with pytest.raises(ValueError, match=r"'a/b' is both a file and a folder"):
        Snapshot("odd", {"a/b": "", "a/b/c": ""})
    assert len(Snapshot("twins", {"a/b": "", "a/bc": "", "a/b.d": ""}).files) == 3


def test_files_are_sorted_and_cannot_be_changed():
    snapshot = Snapshot("two", given_files := dict(FILES))
    assert list(snapshot.files) == ["a.py", "b/c.py"]
    with pytest.raises(TypeError):
        snapshot.files["a.py"] = "three"  # type: ignore[index]
    given_files["a.py"] = "three"
    assert snapshot.files["a.py"] == "one\n"


def test_the_identity_is_the_hash_of_paths_and_texts_with_their_lengths():
    told = b"4:a.py" + b"4:one\n" + b"6:b/c.py" + b"4:two\n"
    assert Snapshot("two", FILES).identity == hashlib.sha256(told).hexdigest()
    assert Snapshot("other name", FILES, [LeftOut("x", "binary")]).identity == Snapshot("two", FILES).identity


@pytest.mark.parametrize(
    "other",
    [
        {"a.py": "one\n"},
        {"a.py": "one\n", "b/c.py": "too\n"},
        {"a.py": "one\n", "b/d.py": "two\n"},
        {"a.py": "two\n", "b/c.py": "one\n"},
    ],
)
def test_other_files_have_another_identity(other: dict[str, str]):
    assert Snapshot("two", other).identity != Snapshot("two", FILES).identity


def test_where_one_text_ends_and_the_next_path_begins_is_part_of_the_identity():
    assert Snapshot("x", {"a": "1b", "c": ""}).identity != Snapshot("x", {"a": "1", "bc": ""}).identity


names = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=8).filter(lambda n: n not in (".", ".."))


@given(st.dictionaries(names, st.text(st.characters(codec=None), max_size=20), max_size=4))
def test_what_is_saved_is_loaded_even_lone_surrogates(tmp_path_factory, files: dict[str, str]):
    place = tmp_path_factory.mktemp("s") / "deep" / "x.json.gz"
    snapshot = Snapshot("any", files, [LeftOut("big.bin", "too large")])
    snapshot.save(place)
    loaded = Snapshot.load(place)
    assert (loaded.name, dict(loaded.files), loaded.left_out) == ("any", files, (LeftOut("big.bin", "too large"),))
    assert loaded.identity == snapshot.identity


def test_equal_snapshots_are_saved_as_equal_bytes_and_leave_nothing_behind(tmp_path: Path):
    for name in ("one", "two"):
        Snapshot("x", FILES).save(tmp_path / f"{name}.gz")
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.gz", "two.gz"]


def test_a_saved_snapshot_is_this_file(tmp_path: Path):
    Snapshot("tea", {"b.md": "Grün\n", "a.py": "one\n"}, [LeftOut("x.bin", "binary")]).save(tmp_path / "tea.gz")
    data = (tmp_path / "tea.gz").read_bytes()
    text = b'{"name": "tea", "files": {"a.py": "one\\n", "b.md": "Gr\\u00fcn\\n"}, "left_out": [["x.bin", "binary"]]}'
    assert gzip.decompress(data) == text
    # Neither a name nor a time, the sixth level and an unknown system; then what this zlib makes of the text.
    head = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff"
    deflated = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflated.compress(text) + deflated.flush()
    tail = zlib.crc32(text).to_bytes(4, "little") + len(text).to_bytes(4, "little")
    assert hashlib.sha256(data).hexdigest() == hashlib.sha256(head + body + tail).hexdigest()


def test_a_snapshot_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        Snapshot("x", FILES).save(tmp_path / "tea.gz")
    assert caught.value.filename == str(tmp_path / "tea.gz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        gzip.compress(b"no json"),
        gzip.compress(b"[]"),
        gzip.compress(b'{"name": "x", "files": {"../a": ""}, "left_out": []}'),
        gzip.compress(b'{"name": "x", "files": {}, "left_out": []}')[:-9],
        gzip.compress(b'{"name": null, "files": {}, "left_out": []}'),
        gzip.compress(b'{"name": "x", "files": [], "left_out": []}'),
        gzip.compress(b'{"name": "x", "files": {"a": 3}, "left_out": []}'),
        gzip.compress(b'{"name": "x", "files": {}, "left_out": ["ab"]}'),
        gzip.compress(b'{"name": "x", "files": {}, "left_out": [["a", []]]}'),
    ],
    # Without names of their own they would be named by their bytes, and those hold the time.
    ids=[
        *("empty", "no gzip", "no JSON", "no object", "path that leaves the tree", "cut"),
        *("name", "files", "text", "entry", "reason"),
    ],
)
def test_a_corrupt_file_is_refused_by_name(tmp_path: Path, content: bytes):
    (place := tmp_path / "bad.json.gz").write_bytes(content)
    with pytest.raises(SnapshotError, match=r"cannot read the snapshot .*bad\.json\.gz.*Make the task set again"):
        Snapshot.load(place)
    assert issubclass(SnapshotError, UserError)


def test_a_missing_file_is_refused_by_name(tmp_path: Path):
    with pytest.raises(SnapshotError, match="nowhere"):
        Snapshot.load(tmp_path / "nowhere.json.gz")


def test_a_snapshot_that_unfolds_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(snapshot, "MOST_BYTES", 1000)
    path = tmp_path / "a.json.gz"
    Snapshot("small", {"a.md": "x" * 100}).save(path)
    assert Snapshot.load(path).files["a.md"] == "x" * 100
    path.write_bytes(gzip.compress(b" " * 1001))
    with pytest.raises(SnapshotError, match="unpacks to more than max_unpacked_bytes = 1000"):
        Snapshot.load(path, Budget("a", 1000))
    with pytest.raises(SnapshotError, match="took longer than 0 s"):
        Snapshot.load(path, Budget("a", seconds=0))
    with pytest.raises(SnapshotError, match="Take fewer files"):
        Snapshot("large", {"a.md": "x" * 1000}).save(path)


@pytest.mark.parametrize("values", [b"[],", b'"ab",', b"1,", b"{},", b'"\\"",'])
def test_a_snapshot_of_values_that_fill_the_memory_is_refused(tmp_path: Path, values: bytes):
    """An empty list of three bytes would take more than fifty."""
    path = tmp_path / "a.json.gz"
    text = b'{"name":"a","files":{},"left_out":[' + values * 5_000_001 + b"1]}"
    path.write_bytes(gzip.compress(text, 1))
    with pytest.raises(SnapshotError, match="it holds more values than any snapshot"):
        Snapshot.load(path)


def test_a_snapshot_that_could_not_be_loaded_again_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(snapshot, "MOST_MARKS", 100)
    Snapshot("small", {"a.md": '"{[,' * 1000}).save(tmp_path / "a.json.gz")
    assert Snapshot.load(tmp_path / "a.json.gz").files["a.md"] == '"{[,' * 1000
    left_out = [LeftOut(f"{number}.png", "other suffix") for number in range(20)]
    with pytest.raises(SnapshotError, match=r"names 20 files\. Exclude some folders"):
        Snapshot("large", {"a.md": "x"}, left_out).save(tmp_path / "b.json.gz")


def test_a_snapshot_whose_packed_bytes_are_damaged_is_refused(tmp_path: Path):
    path = tmp_path / "a.json.gz"
    Snapshot("small", {"a.md": "abc" * 1000}).save(path)
    data = bytearray(path.read_bytes())
    for place in range(10, len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with pytest.raises(SnapshotError, match="Make the task set again"):
            Snapshot.load(path)
