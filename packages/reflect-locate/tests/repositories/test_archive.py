"""Archives that lie."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from reflect_locate.repositories.ingest import ingest
from reflect_locate.repositories.ingest_config import IngestConfig
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError

Members = dict[str, bytes]
GOOD: Members = {"p-1.0/setup.py": b"setup()\n", "p-1.0/p/code.py": b"x = 1\n", "p-1.0/.github/ci.yml": b"y"}


def tar_of(members: Members, **kinds: tuple[bytes, str]) -> bytes:
    """A tar archive; `kinds` adds members of other kinds: name -> (type, target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for name, (kind, target) in kinds.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info)
    return buffer.getvalue()


def zip_of(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def taken(place: Path, data: bytes, config: IngestConfig | None = None) -> Snapshot:
    place.write_bytes(data)
    return ingest(place, config or IngestConfig())


def reasons(snapshot: Snapshot) -> dict[str, str]:
    return {entry.path: entry.reason for entry in snapshot.left_out}


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".tar": bytes,
    ".tar.gz": gzip.compress,
    ".tgz": gzip.compress,
    ".tar.xz": lzma.compress,
    ".tar.bz2": bz2.compress,
}


@pytest.mark.parametrize("ending", [*PACKERS, ".zip"])
def test_every_kind_of_archive_gives_the_same_tree(tmp_path: Path, ending: str) -> None:
    """The one folder that everything lies in is left away, so that an sdist has the paths of the repository."""
    data = zip_of(GOOD) if ending == ".zip" else PACKERS[ending](tar_of(GOOD))
    snapshot = taken(tmp_path / f"p-1.0{ending}", data)
    assert dict(snapshot.files) == {"p/code.py": "x = 1\n", "setup.py": "setup()\n"}
    assert snapshot.name == "p-1.0"
    assert reasons(snapshot) == {".github/ci.yml": "hidden"}
    assert [path.name for path in tmp_path.iterdir()] == [f"p-1.0{ending}"]  # nothing was unpacked


def test_a_wheel_keeps_its_package(tmp_path: Path) -> None:
    snapshot = taken(tmp_path / "p-1.0-py3-none-any.whl", zip_of({"p/a.py": b"", "p/b.py": b""}))
    assert list(snapshot.files) == ["p/a.py", "p/b.py"]


def test_members_of_two_folders_keep_them(tmp_path: Path) -> None:
    assert list(taken(tmp_path / "x.zip", zip_of({"p/a.py": b"", "q/b.py": b""})).files) == ["p/a.py", "q/b.py"]


def test_names_that_begin_with_a_dot_and_a_slash(tmp_path: Path) -> None:
    assert list(taken(tmp_path / "x.tar", tar_of({"./p/a.py": b"", "./p/b.py": b""})).files) == ["a.py", "b.py"]


OUTSIDE = ["../evil.py", "p/../../evil.py", "/etc/evil.py", "p//evil.py", "p/./evil.py", "..\\evil.py", "C:\\evil.py"]


@pytest.mark.parametrize("name", [*OUTSIDE, "p/..", "a\nb.py", "a\x1b[31m.py", "a\u202egpj.py"])
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_names_that_lead_out_or_cannot_be_shown(tmp_path: Path, name: str, pack: Callable[[Members], bytes]) -> None:
    snapshot = taken(tmp_path / "x.archive.zip", pack({"good.py": b"", name: b"evil"}))
    assert dict(snapshot.files) == {"good.py": ""}
    assert [entry.reason for entry in snapshot.left_out] == ["unsafe name"]
    assert snapshot.left_out[0].path.isprintable()


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_common_folder_that_leads_out(tmp_path: Path, pack: Callable[[Members], bytes]) -> None:
    with pytest.raises(SnapshotError, match=r"no file to read. Left out: unsafe name 2"):
        taken(tmp_path / "x.zip", pack({"../a.py": b"", "../b.py": b""}))


def test_a_zip_name_with_a_zero_byte(tmp_path: Path) -> None:
    """Such a name is longer than it looks: the library would cut it at the zero."""
    data = zip_of({"good.py": b"", "evil.py_.txt": b"x"}).replace(b"evil.py_.txt", b"evil.py\0.txt")
    snapshot = taken(tmp_path / "x.zip", data)
    assert list(snapshot.files) == ["good.py"]
    assert reasons(snapshot) == {"evil.py\\x00.txt": "unsafe name"}


KINDS = {
    "symlink": (tarfile.SYMTYPE, "/etc/passwd", "symlink"),
    "hard link": (tarfile.LNKTYPE, "good.py", "link"),
    "hard link outside": (tarfile.LNKTYPE, "../../etc/passwd", "link"),
    "fifo": (tarfile.FIFOTYPE, "", "special file"),
    "character device": (tarfile.CHRTYPE, "", "special file"),
    "block device": (tarfile.BLKTYPE, "", "special file"),
    "unknown": (b"Z", "", "special file"),
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "unknown"])
def test_tar_members_that_are_no_files(tmp_path: Path, kind: str) -> None:
    code, target, reason = KINDS[kind]
    snapshot = taken(tmp_path / "x.tar", tar_of({"good.py": b"x"}, **{"odd.md": (code, target)}))
    assert dict(snapshot.files) == {"good.py": "x"}
    assert reasons(snapshot) == {"odd.md": reason}


@pytest.mark.parametrize(("mode", "reason"), [(stat.S_IFLNK, "symlink"), (stat.S_IFIFO, "special file")])
def test_zip_members_that_are_no_files(tmp_path: Path, mode: int, reason: str) -> None:
    buffer = io.BytesIO(zip_of({"good.py": b"x"}))
    info = zipfile.ZipInfo("odd.md")
    info.external_attr = (mode | 0o777) << 16
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    assert reasons(taken(tmp_path / "x.zip", buffer.getvalue())) == {"odd.md": reason}


def test_a_zip_bomb_is_read_up_to_the_limit_only(tmp_path: Path) -> None:
    bomb = zip_of({"good.py": b"x", "bomb.md": bytes(50_000_000)})
    assert len(bomb) < 100_000
    assert reasons(taken(tmp_path / "x.zip", bomb)) == {"bomb.md": "too large"}


def test_a_zip_member_that_lies_about_its_size(tmp_path: Path) -> None:
    """It claims ten bytes and unpacks to fifty million: ten are read, and then the checksum is wrong."""
    data = zip_of({"good.py": b"x", "bomb.md": bytes(50_000_000)})
    lie = data.replace(struct.pack("<L", 50_000_000), struct.pack("<L", 10))
    assert lie != data
    assert reasons(taken(tmp_path / "x.zip", lie)) == {"bomb.md": "damaged"}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_methods_whose_reader_has_no_bound_are_not_read(tmp_path: Path, method: int) -> None:
    buffer = io.BytesIO(zip_of({"good.py": b"x"}))
    with zipfile.ZipFile(buffer, "a", method) as archive:
        archive.writestr("bomb.md", bytes(900_000))
    assert reasons(taken(tmp_path / "x.zip", buffer.getvalue())) == {"bomb.md": "damaged"}


def test_an_encrypted_zip_member(tmp_path: Path) -> None:
    data = bytearray(zip_of({"good.py": b"x", "closed.md": b"y"}))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(mark) + offset] |= 1
    assert reasons(taken(tmp_path / "x.zip", bytes(data))) == {"closed.md": "encrypted"}


def test_a_tar_bomb_ends_with_an_error(tmp_path: Path) -> None:
    bomb = gzip.compress(tar_of({"good.py": b"x", "bomb.bin": bytes(20_000_000)}))
    assert len(bomb) < 100_000
    with pytest.raises(SnapshotError, match="unpacks to more than max_unpacked_bytes = 10000000"):
        taken(tmp_path / "x.tar.gz", bomb, IngestConfig(max_unpacked_bytes=10_000_000))


def test_a_large_tar_member_is_skipped(tmp_path: Path) -> None:
    snapshot = taken(
        tmp_path / "x.tar", tar_of({"big.md": b"x" * 101, "good.py": b"x" * 100}), IngestConfig(max_file_bytes=100)
    )
    assert list(snapshot.files) == ["good.py"]
    assert reasons(snapshot) == {"big.md": "too large"}


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A tar header that claims a size, whatever follows."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_name_of_gigabytes(tmp_path: Path, kind: bytes) -> None:
    """The library reads a long name at once, so that its claimed length must be bounded before."""
    data = header("good.py", 0) + header("name", 8 << 30, kind) + bytes(1024)
    with pytest.raises(SnapshotError, match="a header claims 8589934592 bytes"):
        taken(tmp_path / "x.tar", data)


@pytest.mark.parametrize("size", [-512, -(1 << 40)])
def test_a_negative_size_does_not_go_round_in_circles(tmp_path: Path, size: int) -> None:
    with pytest.raises(SnapshotError, match="damaged"):
        taken(tmp_path / "x.tar", header("good.py", 0) + header("evil.py", size) + bytes(1024))


def test_a_negative_size_in_the_attributes(tmp_path: Path) -> None:
    record = b"13 size=-512\n"
    data = header("good.py", 0) + header("pax", len(record), tarfile.XHDTYPE) + record.ljust(512, b"\0")
    with pytest.raises(SnapshotError, match="damaged"):
        taken(tmp_path / "x.tar", data + header("evil.py", 0) + bytes(1024))


def test_thousands_of_long_names_in_a_row(tmp_path: Path) -> None:
    """The library calls itself once for each."""
    chain = (header("name", 5, tarfile.GNUTYPE_LONGNAME) + b"a.py\0".ljust(512, b"\0")) * 5000
    with pytest.raises(SnapshotError, match="damaged"):
        taken(tmp_path / "x.tar", header("good.py", 0) + chain)


def test_a_sparse_member_of_a_terabyte(tmp_path: Path) -> None:
    block = bytearray(header("sparse.md", 0, tarfile.GNUTYPE_SPARSE))
    block[483:495] = tarfile.itn(1 << 40, 12, tarfile.GNU_FORMAT)  # the size that it would have on disk
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    snapshot = taken(tmp_path / "x.tar", header("good.py", 0) + bytes(block) + bytes(1024))
    assert list(snapshot.files) == ["good.py"]
    assert set(reasons(snapshot).values()) == {"special file"}


def test_the_number_of_members_is_bounded(tmp_path: Path) -> None:
    members = {f"{count}.py": b"" for count in range(6)}
    for data in (tar_of(members), zip_of(members)):
        snapshot = taken(tmp_path / "x.zip", data, IngestConfig(max_members=5))
        assert len(snapshot.files) == 5
        assert reasons(snapshot) == {"./": "too many entries"}


def test_of_two_members_with_one_name_the_first_counts(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for content in (b"first", b"second"):
            info = tarfile.TarInfo("a.py")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    snapshot = taken(tmp_path / "x.tar", buffer.getvalue())
    assert dict(snapshot.files) == {"a.py": "first"}
    assert reasons(snapshot) == {"a.py": "duplicate name"}


def test_a_file_that_is_also_a_folder(tmp_path: Path) -> None:
    snapshot = taken(tmp_path / "x.tar", tar_of({"a.py": b"1", "a.py/b.py": b"2", "c.py": b"3"}))
    assert dict(snapshot.files) == {"a.py/b.py": "2", "c.py": "3"}
    assert reasons(snapshot) == {"a.py": "duplicate name"}


def test_a_path_longer_than_any_system_takes(tmp_path: Path) -> None:
    snapshot = taken(tmp_path / "x.tar", tar_of({"good.py": b"", "x" * 5000 + ".py": b""}))
    assert list(snapshot.files) == ["good.py"]
    assert set(reasons(snapshot).values()) == {"too deep"}


def test_the_size_of_the_archive_itself_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="more than max_archive_bytes = 99"):
        taken(tmp_path / "x.tar", tar_of(GOOD), IngestConfig(max_archive_bytes=99))


def test_time_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="took longer than"):
        taken(tmp_path / "x.tar", tar_of(GOOD), IngestConfig(max_seconds=1e-9))


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"text", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"PK\x03\x04" + bytes(99), bytes(99)]
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"x\.tar.*(no archive|no file to read)"):
        taken(tmp_path / "x.tar", data)


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(tar_of({"a.py": random.Random(0).randbytes(5000), "b.py": b""}))
    with pytest.raises(SnapshotError, match="damaged"):
        taken(tmp_path / "x.tar.gz", data[:3000])


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_damaged_ends_in_files_or_in_one_kind_of_error(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    long = {**GOOD, "p-1.0/" + "x" * 150 + ".py": b"long"}
    originals = [tar_of(long), zlib.compress(b""), gzip.compress(tar_of(long)), zip_of(long)]
    for _ in range(200):
        data = bytearray(rng.choice(originals))
        for _ in range(rng.choice([1, 2, 20])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            files = taken(tmp_path / "x.tar", bytes(data)).files
        except SnapshotError:
            continue
        assert not any(part in ("", ".", "..") for path in files for part in path.split("/"))


def test_an_xz_header_cannot_ask_for_memory(tmp_path: Path) -> None:
    # The byte 0x16 is the filter's property: a dictionary of 2^23 bytes. 0x26 asks for 2^31, 2 GB.
    data = bytearray(lzma.compress(tar_of({"a.md": b"text"}), filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}]))
    place = data.index(b"\x21\x01\x16") + 2
    header = data[12 : 12 + (data[12] + 1) * 4]
    header[place - 12] = 0x26
    header[-4:] = struct.pack("<I", zlib.crc32(header[:-4]))
    data[12 : 12 + len(header)] = header
    with pytest.raises(SnapshotError, match=r"[Mm]emory"):
        taken(tmp_path / "a.tar.xz", bytes(data))


def test_several_xz_streams_are_one_archive(tmp_path: Path) -> None:
    tar = tar_of({f"{k}.md": random.Random(k).randbytes(50_000).hex().encode() for k in range(5)})
    data = b"".join(lzma.compress(tar[start : start + 100_000]) for start in range(0, len(tar), 100_000))
    assert len(taken(tmp_path / "a.tar.xz", data).files) == 5


def test_a_zip_whose_entries_overlap_is_refused(tmp_path: Path) -> None:
    """Many names for one packed member: a few kilobytes that unpack to anything."""
    whole = zip_of({"a.md": b"x" * 900_000})
    end = whole.index(b"PK\x05\x06")
    start = whole.index(b"PK\x01\x02")
    entry, count = whole[start:end], 2_000
    packed = struct.unpack("<I", whole[18:22])[0]
    assert packed * count > len(whole) + len(entry) * count
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(entry) * count, start, 0)
    with pytest.raises(SnapshotError, match="overlap"):
        taken(tmp_path / "a.zip", whole[:start] + entry * count + tail)


def test_a_zip_has_the_budget_of_a_tar(tmp_path: Path) -> None:
    data = zip_of({f"{k}.md": b"x" * 1000 for k in range(20)})
    with pytest.raises(SnapshotError, match="unpacks to more than max_unpacked_bytes = 5000"):
        taken(tmp_path / "a.zip", data, IngestConfig(max_unpacked_bytes=5000))
