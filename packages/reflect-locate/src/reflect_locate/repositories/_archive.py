"""Members of a tar or zip archive (sdist, wheel), read in memory: nothing is unpacked to disk.

An archive may lie about everything. Names that lead out of it, links and special files are left out; members are read
up to the limits whatever size they claim; an archive as a whole may unpack to so many bytes and no more.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

from reflect_locate.repositories.budget import Budget
from reflect_locate.repositories.gate import Gate, Reason
from reflect_locate.repositories.snapshot import SnapshotError

ENDINGS = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".tar", ".zip", ".whl")
"""Endings of the names of archives."""

# `tarfile` reads a long name at its claimed length before any limit of ours is met.
HEADER_BYTES = 1 << 18
"""Largest extended header (long name, attributes) of a tar member; the library reads it at once."""
EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
BLOCK_BYTES = 1 << 16
# The readers of bzip2 and LZMA in `zipfile` unpack all they are fed, however little is asked for.
BOUNDED_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods of zip whose reader unpacks no more than it is asked for."""

Member = tuple[str, Reason | None, int, Callable[[], bytes]]
"""Name, what speaks against its kind, its claimed size, and how to read it."""


def archive_stem(name: str) -> str | None:
    """The name of an archive without its ending; None when this is no name of an archive.

    >>> archive_stem("flask-3.1.0.tar.gz"), archive_stem("flask.py")
    ('flask-3.1.0', None)
    """
    return next((name[: -len(ending)] for ending in ENDINGS if name.lower().endswith(ending)), None)


def read_archive(path: Path, gate: Gate) -> None:
    """Pass the members of an archive through the gate, in their order.

    When all of them lie in one folder, as in an sdist, paths are relative to that folder (not for a wheel, whose one
    folder is the package).

    Raises:
        SnapshotError: no such file, no archive, damaged from the start, too large, or unpacking to too much.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            if size > gate.config.max_archive_bytes:
                raise SnapshotError(
                    f"the archive {str(path)!r} has {size} bytes, more than max_archive_bytes = "
                    f"{gate.config.max_archive_bytes}. Raise that limit, or unpack it yourself and give the folder."
                )
            # The one folder of a wheel is the package: imports name it, so it belongs to the path.
            _read(file, gate, keep_top=path.name.lower().endswith(".whl"))
    except OSError as error:
        raise SnapshotError(f"cannot read the archive {str(path)!r}: {error}. Check its path and rights.") from None


def _read(file: IO[bytes], gate: Gate, *, keep_top: bool) -> None:
    # Two passes: the common folder is known only after the last name, and names are all that is kept of them.
    with _members(file, gate) as members:
        # The generator stops one past the limit, which tells a full archive from one that is cut.
        names = [name for name, *_ in members]
    if len(names) > gate.config.max_members:
        gate.leave("./", Reason.TOO_MANY)
    top = "" if keep_top else _top(name for name in names if not name.endswith("/"))
    with _members(file, gate) as members:
        for name, objection, size, read in islice(members, gate.config.max_members):
            gate.budget.check_time()
            path = name.removeprefix(top)
            # Folders are made from the paths of files; an empty one has nothing to find.
            if not path or name.endswith("/"):
                continue
            if objection is not None:
                gate.leave(path, objection)
            elif gate.admits_file(path, size):
                gate.take(path, _content(read))


def _content(read: Callable[[], bytes]) -> bytes | Reason:
    try:
        return read()
    # The limit of the whole archive ends the reading; it must not pass for one damaged member.
    except SnapshotError:
        raise
    except Exception:  # the libraries raise many kinds of errors for a damaged member
        return Reason.DAMAGED


def _top(names: Iterable[str]) -> str:
    """The folder that all members lie in, with a slash; "" when there is none, or it is no plain name."""
    tops = {name.partition("/")[::2] for name in names}
    folders = {first for first, rest in tops if rest}
    if len(folders) != 1 or any(not rest for _, rest in tops):
        return ""
    folder = folders.pop()
    # Stripping `..` would turn a name that leads out of the archive into a harmless one.
    return "" if folder in ("", ".", "..") else folder + "/"


@contextmanager
def _members(file: IO[bytes], gate: Gate) -> Iterator[Iterable[Member]]:
    """The members of an open archive, from its first one.

    Raises:
        SnapshotError: this is no archive, or it is damaged, or unpacks to too much.
    """
    file.seek(0)
    gate.budget.rewind()
    # The first bytes decide, not the name: an archive may carry any ending.
    start = file.read(6)
    file.seek(0)
    try:
        if start.startswith(b"PK"):
            with zipfile.ZipFile(file) as archive:
                yield _zip_members(archive, gate)
        else:
            limited: Any = _Limited(_unpacked(file, start, gate.budget), gate.budget)
            # A stream (`r|`) never seeks back: each unpacked byte passes `_Limited` once, and the count holds.
            with tarfile.open(fileobj=limited, mode="r|", tarinfo=_Header, bufsize=BLOCK_BYTES) as tar:
                yield _tar_members(tar, gate)
    # Running out of memory says nothing about the archive and must not be reported as damage.
    except (SnapshotError, MemoryError):
        raise
    except Exception as error:  # the libraries raise many kinds of errors for a damaged archive
        raise SnapshotError(
            f"{gate.source!r} is no text in UTF-8 or UTF-16, and no archive, or a damaged one: {error}. Known: "
            f"{', '.join(ENDINGS)}."
        ) from None


def _unpacked(file: IO[bytes], start: bytes, budget: Budget) -> _Readable:
    """The bytes of a tar archive, whatever it is compressed with; closing is left to who opened the file."""
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if start.startswith(b"\xfd7zXZ\0"):
        return _Xz(file, budget)
    if start.startswith(b"BZh"):
        return bz2.BZ2File(file)
    return file


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Xz:
    """The unpacked bytes of an xz file, within a memory that `lzma.LZMAFile` cannot be given.

    A header of a few bytes can ask for a dictionary of gigabytes.
    """

    def __init__(self, file: IO[bytes], budget: Budget) -> None:
        self._file, self._rest, self._memory = file, b"", budget.unpacking_memory
        self._stream = self._fresh()

    def _fresh(self) -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=self._memory)

    def read(self, size: int, /) -> bytes:
        while True:
            if self._stream.eof:
                # A file may hold several streams, one after the other.
                self._rest, self._stream = self._stream.unused_data, self._fresh()
            if self._stream.needs_input and not self._rest:
                self._rest = self._file.read(BLOCK_BYTES)
                if not self._rest:
                    return b""
            given, self._rest = self._rest, b""
            if data := self._stream.decompress(given, size):
                return data


class _Limited:
    """A stream of bytes that ends with an error when it is too long or takes too long."""

    def __init__(self, file: _Readable, budget: Budget) -> None:
        self._file, self._budget = file, budget

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._budget.spend(len(data))
        return data


class _Header(tarfile.TarInfo):
    """A member's header; one that would make the library read without bound, or backwards, is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        # A negative size would move the reader backwards, and it would meet the same header for ever.
        if header.size < 0 or (header.type in EXTENDED and header.size > HEADER_BYTES):
            raise ValueError(f"a header claims {header.size} bytes")
        return header


def _tar_members(tar: tarfile.TarFile, gate: Gate) -> Iterator[Member]:
    for info in islice(tar, gate.config.max_members + 1):
        name = info.name.removeprefix("./")

        # The default argument binds this member; a closure would see the last one of the loop.
        def read(info: tarfile.TarInfo = info) -> bytes:
            content = tar.extractfile(info)
            # One byte more than allowed tells a file that is too large from one that just fits.
            return b"" if content is None else content.read(gate.config.max_file_bytes + 1)

        yield (name + "/" if info.isdir() else name), _tar_objection(info), info.size, read


def _tar_objection(info: tarfile.TarInfo) -> Reason | None:
    if info.issym():
        return Reason.SYMLINK
    # A hard link inside an archive can name a member or a path outside of it; neither is looked up.
    if info.islnk():
        return Reason.LINK
    # A sparse member claims terabytes of zeros with a few bytes of archive.
    is_plain = info.isdir() or (info.isreg() and not info.issparse())
    return None if is_plain else Reason.SPECIAL


def _zip_members(archive: zipfile.ZipFile, gate: Gate) -> Iterator[Member]:
    infos, budget = archive.infolist(), gate.budget
    # A zip bomb without nesting: many names for the same packed bytes.
    packed, size = sum(info.compress_size for info in infos), os.fstat(archive.fp.fileno()).st_size if archive.fp else 0
    if packed > size:
        raise SnapshotError(f"the entries of {gate.source!r} overlap: {packed} packed bytes in a file of {size}.")
    for info in infos[: gate.config.max_members + 1]:

        def read(info: zipfile.ZipInfo = info) -> bytes:
            with archive.open(info) as content:
                data = content.read(gate.config.max_file_bytes + 1)
            budget.spend(len(data))
            return data

        # `filename` is cut at a zero byte, so that it could look safe; the original name is judged whole.
        yield info.orig_filename.removeprefix("./"), _zip_objection(info), info.file_size, read


def _zip_objection(info: zipfile.ZipInfo) -> Reason | None:
    # Zip keeps the Unix mode in the upper half; it is 0 where the archive was made without one.
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return Reason.SYMLINK
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return Reason.SPECIAL
    if info.flag_bits & 1:
        return Reason.ENCRYPTED
    return None if info.compress_type in BOUNDED_METHODS else Reason.DAMAGED
