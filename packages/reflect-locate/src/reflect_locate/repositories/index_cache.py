"""Word stores in the user's cache folder: one file for each folder, archive or repository that was asked about.

The cache only saves time. Whatever is wrong with it (another version, half-written, a full disk, no rights), questions
are answered without it, and a note says so.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.word_store import StaleStoreError, WordStore, is_damage
from reflect_rl.paths import expanded

MOST_BYTES = 1_000_000_000
"""Size of all stores together; the ones that were not used for longest are deleted beyond it."""
LOCK_SECONDS = 10.0
"""Time to wait for another process that is counting the same files."""
DEAD_SHARE = 3
"""A store is made anew when it holds so many times as many texts as are asked about."""
FEW_TEXTS = 1_000
"""A store of fewer texts is never made anew for its size."""


def cache_folder(tell: Callable[[str], None]) -> Path | None:
    """Folder of the stores: `reflect-rl/locate` in the platform's cache folder (`XDG_CACHE_HOME` is respected).

    Args:
        tell: is told where there is no such folder, because this user has no home.
    """
    # Imported here: commands that need no cache start without it.
    from platformdirs import user_cache_path

    # Newer versions raise, older ones give a path with `~`.
    with suppress(RuntimeError):
        folder = user_cache_path("reflect-rl", appauthor=False) / "locate"
        if folder.parts[0] != "~":
            return folder
    tell("no cache: this user has no home folder, and XDG_CACHE_HOME names no other")
    return None


def texts_of(snapshot: Snapshot) -> dict[bytes, str]:
    """The texts of a snapshot by their hash."""
    return {snapshot.digests[path]: text for path, text in snapshot.files.items()}


def open_store(source: Path, snapshot: Snapshot, folder: Path | None) -> tuple[WordStore, str]:
    """A store that holds all texts of a snapshot.

    Args:
        source: folder or archive that the snapshot was made from; it chooses the file of the cache.
        snapshot: the files.
        folder: of the cache (None: no cache).

    Returns:
        the store, and what is to be told of the cache, in a few words ("" = nothing).
    """
    return _opened(source, snapshot, folder, is_damaged=False)


def mended_store(
    source: Path, snapshot: Snapshot, folder: Path | None, error: sqlite3.Error | StaleStoreError
) -> tuple[WordStore, str]:
    """A store to go on with after one could not be read: made anew if it was damaged, else in memory.

    Args:
        source: as for `open_store`.
        snapshot: the files.
        folder: of the cache (None: no cache).
        error: that reading it raised.
    """
    if not is_damage(error):
        return _opened(source, snapshot, None, is_damaged=False)[0], f"no cache: {error}"
    return _opened(source, snapshot, folder, is_damaged=True)


def _opened(source: Path, snapshot: Snapshot, folder: Path | None, *, is_damaged: bool) -> tuple[WordStore, str]:
    texts, note = texts_of(snapshot), ""
    place = expanded(source).resolve()
    # A question about the home folder must not make files that the next question would read.
    if folder is not None and place.is_dir() and folder.resolve().is_relative_to(place):
        folder, note = None, f"no cache: its folder {folder} lies in {source}"
    if folder is not None:
        try:
            return _on_disk(folder, hashlib.sha256(os.fsencode(place)).hexdigest()[:32], texts, is_damaged=is_damaged)
        except (OSError, sqlite3.Error, StaleStoreError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else error
            note = f"no cache in {folder}: {said}"
    store = WordStore()
    store.add(texts)
    return store, note


def _on_disk(folder: Path, name: str, texts: dict[bytes, str], *, is_damaged: bool) -> tuple[WordStore, str]:
    """The store of the cache, with these texts.

    Args:
        folder: of the cache.
        name: of the store.
        texts: by their hash.
        is_damaged: the file that is there is of no use.

    Raises:
        OSError: the folder cannot be written, or another process holds the file for too long.
        sqlite3.Error: the disk is full, or the file cannot be read.
        StaleStoreError: the file is damaged, also after it was made anew.
    """
    place, note = folder / f"{name}.sqlite", ""
    # Most questions follow another one about the same files: nothing is to be written, so nobody is to be kept out.
    if not is_damaged and (current := _complete(place, texts)) is not None:
        return current, ""
    # Imported here, since only those who write need it.
    from filelock import FileLock

    # The words of private files are private.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Held while texts are counted: a second process waits and finds them counted. `Timeout` is an OSError.
    with FileLock(folder / f"{name}.lock", timeout=LOCK_SECONDS, mode=0o600):
        try:
            # Whoever makes one holds the lock until it is whole.
            if is_damaged or (place.exists() and not place.stat().st_size):
                raise StaleStoreError
            store = _filled(place, texts)
        except StaleStoreError:
            _delete(place)
            store, note = _filled(place, texts), "index rebuilt"
        if _is_mostly_dead(store, texts):
            store.close()
            _delete(place)
            store = _filled(place, texts)
        # The time of last use, by which the oldest are found.
        os.utime(place)
        _evict(folder, place)
    return store, note


def _complete(place: Path, texts: dict[bytes, str]) -> WordStore | None:
    """The store, if all of these texts are in it and it needs no care.

    Raises:
        OSError: the time of last use cannot be noted.
    """
    # An empty one was not written to its end, and opening would hide it.
    if not place.exists() or not place.stat().st_size:
        return None
    try:
        store = WordStore(place)
    except (sqlite3.Error, StaleStoreError):
        return None  # whoever opens it next, to write, tells what is wrong
    if all(map(store.find, texts)) and not _is_mostly_dead(store, texts):
        os.utime(place)
        return store
    store.close()
    return None


def _is_mostly_dead(store: WordStore, texts: dict[bytes, str]) -> bool:
    return store.count > max(DEAD_SHARE * len(texts), FEW_TEXTS)


def _filled(place: Path, texts: dict[bytes, str]) -> WordStore:
    if not place.exists():
        place.touch(mode=0o600)
    store = WordStore(place)
    try:
        store.add({digest: text for digest, text in texts.items() if store.find(digest) is None})
    except sqlite3.DatabaseError as error:
        store.close()
        if is_damage(error):
            raise StaleStoreError(str(error)) from None
        raise
    except BaseException:
        store.close()
        raise
    return store


def _delete(place: Path) -> None:
    # The journal belongs to the file: left behind, it would be applied to the next one.
    for path in (place, place.with_name(place.name + "-journal")):
        path.unlink(missing_ok=True)


def _evict(folder: Path, used: Path) -> None:
    """Delete the stores that were not used for longest, until the rest is within the limit; `used` is deleted last."""
    found = []
    for path in folder.glob("*.sqlite"):
        # Another process may delete it meanwhile.
        with suppress(OSError):
            status = path.stat()
            found.append((path == used, status.st_mtime, status.st_size, path))
    size = sum(entry[2] for entry in found)
    for is_used, _, bytes_, path in sorted(found):
        if size <= MOST_BYTES or is_used:
            return
        with suppress(OSError):
            _delete(path)
            path.with_suffix(".lock").unlink(missing_ok=True)
            size -= bytes_
