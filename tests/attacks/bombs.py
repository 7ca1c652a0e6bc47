"""Small files that unfold to large ones, or are waited for without an end."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from reflect_locate.repositories.budget import Budget
from reflect_locate.repositories.ingest import ingest
from reflect_locate.repositories.ingest_config import IngestConfig
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError

LIMITS = IngestConfig(max_seconds=10, max_total_bytes=2_000_000, max_unpacked_bytes=20_000_000)
LARGE = 60_000_000


@cache
def large_tar(mode: str) -> bytes:
    """One member of zeros, packed."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        (info := tarfile.TarInfo("a.md")).size = LARGE
        tar.addfile(info, io.BytesIO(b"0" * LARGE))
    return buffer.getvalue()


def greedy_xz() -> bytes:
    """A header that asks for a dictionary of 2 GB."""
    data = bytearray(lzma.compress(b"text" * 5000, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}]))
    place = data.index(b"\x21\x01\x16") + 2
    header = data[12 : 12 + (data[12] + 1) * 4]
    header[place - 12] = 0x26
    header[-4:] = struct.pack("<I", zlib.crc32(header[:-4]))
    return bytes(data[:12] + header + data[12 + len(header) :])


def overlapping_zip(count: int) -> bytes:
    """Many names for one packed member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.md", "x" * 900_000)
    whole = buffer.getvalue()
    start, end = whole.index(b"PK\x01\x02"), whole.index(b"PK\x05\x06")
    entry = whole[start:end]
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, count, count, len(entry) * count, start, 0)
    return whole[:start] + entry * count + tail


def explosive_json(draw: random.Random) -> bytes:
    """Values that take many times their length in memory."""
    value = draw.choice((b"[],", b'"ab",', b"1,", b"{},", b'[["",""]],'))
    place = draw.choice((b'{"name":"a","files":{},"left_out":[', b'{"name":[', b"["))
    return gzip.compress(place + value * (19_000_000 // len(value)), 1)


def archive_bomb(place: Path, draw: random.Random) -> str:
    """An archive within a budget that is smaller than what it unfolds to."""
    makers: list[Callable[[], bytes]] = [
        lambda: large_tar(draw.choice(("w:gz", "w:xz", "w:bz2"))),
        greedy_xz,
        lambda: overlapping_zip(draw.choice((300, 5000))),
    ]
    path = place / f"a.{draw.choice(('tar', 'tar.gz', 'tar.xz', 'zip', 'whl'))}"
    path.write_bytes(draw.choice(makers)())
    return read(path)


def snapshot_bomb(place: Path, draw: random.Random) -> str:
    """A saved snapshot of more bytes or values than any has."""
    path = place / "a.json.gz"
    explosive = draw.random() < 0.5
    path.write_bytes(explosive_json(draw) if explosive else gzip.compress(b'{"name":"' + b"0" * LARGE, 1))
    try:
        # The usual budget of bytes where values are too many, and a small one where bytes are.
        Snapshot.load(path, None if explosive else Budget(str(path), 20_000_000))
    except SnapshotError:
        return "refused"
    return "escaped"


def git_pipe(place: Path, draw: random.Random) -> str:
    """A repository, or what looks like one, in which a file is a pipe that nobody writes to."""
    names = ("HEAD", "config", "packed-refs", "refs/heads/main", "objects/info/alternates", "objects/00/1", "commondir")
    folder = place / "opened" / ".git"
    for name in ("refs/heads", "objects/info", "objects/pack", "objects/00"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
    (folder / "refs" / "heads" / "main").write_text("1" * 40)
    for name in draw.sample(names, 2):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    return read(f"{place / 'opened'}@{draw.choice(('HEAD', 'main'))}")


def read(source: str | Path) -> str:
    """Read something that must be refused."""
    try:
        ingest(source, LIMITS)
    except SnapshotError:
        return "refused"
    return "escaped"


BOMBS = (archive_bomb, archive_bomb, snapshot_bomb, git_pipe, git_pipe)


def bomb(place: Path, draw: random.Random) -> str:
    """Any of them."""
    return draw.choice(BOMBS)(place, draw)
