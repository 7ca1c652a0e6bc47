"""Folders that may be asked about: snapshots and indexes that are made again when their files have changed.

A path that a caller names is never opened. It only chooses a part of a snapshot, so it can lead nowhere else.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import sqlite3
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from reflect_locate.repositories.directory import IGNORE_BYTES, read_one
from reflect_locate.repositories.git import GitRepository
from reflect_locate.repositories.ignore import NO_RULES, IgnoreRules
from reflect_locate.repositories.index_cache import mended_store, open_store
from reflect_locate.repositories.ingest import IngestRules, check_named, ingest, split_revision
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.text import decode
from reflect_locate.repositories.text_rules import ALL_TEXT
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import forget_indexes
from reflect_locate.repositories.word_store import StaleStoreError, WordStore
from reflect_locate.repositories.words import composed
from reflect_rl.errors import UserError

MOST_TREES = 16
"""Parts of a root whose trees are kept."""
MOST_ENTRIES = 500_000
"""Entries of a folder that are looked at to tell whether it has changed."""
# A changed `.gitignore` changes which files are read, so it counts although it is hidden.
MARKED = (".gitignore",)
"""Hidden files that decide about others."""


@dataclass
class Root:
    """A root: a folder, an archive or a git revision."""

    source: str
    place: Path
    """Place on the disk, behind links."""
    snapshot: Snapshot | None = None
    mark: str = ""
    """Changes when a file does."""
    trees: dict[str, Tree] = field(default_factory=dict)
    """Parts that were asked about, by their folder."""
    store: WordStore | None = None
    """Counted words of the snapshot; opened at the first question."""
    indexes: dict[str, StoredIndex] = field(default_factory=dict)
    """Indexes of these parts, by their folder."""

    @property
    def folder(self) -> str:
        """Place that paths are relative to: of a single text the folder that it lies in."""
        is_text = self.snapshot is not None and [*self.snapshot.files] == [self.place.name] and self.place.is_file()
        return str(self.place.parent if is_text else self.place)

    def forget(self) -> None:
        """Drop everything that was made of the snapshot."""
        self.trees.clear()
        # Trees that a player walked through have indexes of their own.
        forget_indexes()
        self.close()

    def close(self) -> None:
        """Close the store, and drop the indexes that read it."""
        self.indexes.clear()
        if self.store is not None:
            self.store.close()
            self.store = None


@dataclass(frozen=True)
class ServedFile:
    """A file of a root."""

    path: str
    text: str


@dataclass(frozen=True)
class Part:
    """A folder that is asked about."""

    root: Root
    tree: Tree
    key: str
    """Path of the folder, or of the file."""


class ServedFolders:
    """The roots.

    Args:
        sources: a folder, an archive or `FOLDER@REVISION` each.
        config: what is read of them.
        cache: folder of the indexes (None: they are made in memory).
        tell: is told, in a few words, what is wrong with the cache.

    Raises:
        UserError: no root, or one of them twice.
        SnapshotError: a root cannot be read.
    """

    def __init__(
        self,
        sources: Sequence[str],
        config: IngestRules | None = None,
        cache: Path | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not sources:
            raise UserError("no folder is named. Name those that may be asked about: reflect-rl serve PATH...")
        for source in sources:
            check_named(source)
        self._config, self._cache, self._tell = config or ALL_TEXT, cache, tell
        self.roots = [Root(source, _place(source)) for source in sources]
        places = [root.place for root in self.roots]
        if len(set(places)) < len(places):
            raise UserError(f"a folder is named twice: {', '.join(sources)}. Name each once.")
        # Read at the start, so that a folder that cannot be read ends the command and not the first question.
        for root in self.roots:
            self._refreshed(root)

    def part(self, path: str = "") -> Part:
        """The folder or the file that a caller names, to be asked about.

        Args:
            path: a file or folder below a root: absolute, relative to the only root, or, with several, behind a root as
                it was given or its name. Empty: the only root.

        Raises:
            SnapshotError: the root cannot be read any more.
            UserError: it is outside of the roots, has no text files, or names none or several of the roots.
        """
        root, snapshot, inside = self._named(path)
        return Part(root, self._tree(root, snapshot, inside, path), inside)

    def index(self, part: Part, error: sqlite3.Error | StaleStoreError | None = None) -> StoredIndex:
        """The index of a folder, kept until a file changes.

        Args:
            part: the folder.
            error: that reading the index raised; it is then made anew.
        """
        root, folder = part.root, part.key
        if error is not None:
            root.close()
        if root.store is None:
            made_of = split_revision(root.source)[0], part.tree.snapshot, self._cache
            root.store, note = open_store(*made_of) if error is None else mended_store(*made_of, error)
            if note:
                self._tell(f"{root.source}: {note}")
        if folder not in root.indexes:
            root.indexes[folder] = StoredIndex(part.tree, root.store)
        return root.indexes[folder]

    def file_or_folder(self, path: str = "") -> tuple[str, ServedFile | Tree]:
        """The place of a root, and the file or the folder of it that a caller names; see `part`."""
        root, snapshot, inside = self._named(path)
        text = snapshot.files.get(inside)
        found = self._tree(root, snapshot, inside, path) if text is None else ServedFile(inside, text)
        return root.folder, found

    def _named(self, path: str) -> tuple[Root, Snapshot, str]:
        """The root that a caller names, its present files, and the way from it to the path, as the disk writes it."""
        root, inside = self._split(path)
        snapshot = self._refreshed(root)
        # Disks of macOS take letters with accents apart, and callers do not.
        if not inside.isascii() and not any(f"{file}/".startswith(f"{inside}/") for file in snapshot.files):
            parts = inside.count("/") + 1
            places = ("/".join(file.split("/")[:parts]) for file in snapshot.files)
            inside = next((place for place in places if composed(place) == composed(inside)), inside)
        return root, snapshot, inside

    def _tree(self, root: Root, snapshot: Snapshot, folder: str, path: str) -> Tree:
        if folder not in root.trees:
            above, _, name = folder.rpartition("/")
            is_file = folder in snapshot.files
            tree = Tree(snapshot, above, [name]) if is_file else Tree(snapshot, folder)
            if not tree.paths:
                left_out = (entry for entry in snapshot.left_out if entry.path)
                why = next((e.reason for e in left_out if f"{folder}/".startswith(f"{e.path.rstrip('/')}/")), "")
                reason = f": it is left out ({why})" if why else ""
                raise UserError(f"there is no file or folder {path!r} with text in {root.source!r}{reason}.")
            # Each tree has an index of megabytes; a caller may name any number of parts.
            if len(root.trees) >= MOST_TREES:
                root.forget()
            root.trees[folder] = tree
        return root.trees[folder]

    def _split(self, path: str) -> tuple[Root, str]:
        """The root, and the folder inside it; of the disk only the places of the roots are looked at."""
        # A link may lead elsewhere by now.
        for root in self.roots:
            root.place = _place(root.source)
        names = ", ".join(repr(root.source) for root in self.roots)
        if not path:
            if len(self.roots) > 1:
                raise UserError(f"several folders are served, so name one of them as the path: {names}.")
            return self.roots[0], ""
        # Paths are compared as text only: a link inside a root cannot lead out of what was read.
        for root, inside in self._absolute(path) if posixpath.isabs(path) else self._relative(path):
            if inside != ".." and not inside.startswith("../"):
                return root, "" if inside == "." else inside
        raise UserError(f"{path!r} is outside of what is served: {names}.")

    def _absolute(self, path: str) -> Iterator[tuple[Root, str]]:
        """Roots, the longest first, each with the way from it to the path."""
        # The longest first, because one root may lie inside another.
        for root in sorted(self.roots, key=lambda root: -len(str(root.place))):
            # A caller may name the folder as the user did, over a link or with a revision, or as it is on the disk.
            for start in (root.place, split_revision(root.source)[0].absolute(), Path(root.source).absolute()):
                yield root, posixpath.relpath(posixpath.normpath(path), start)

    def _relative(self, path: str) -> Iterator[tuple[Root, str]]:
        """Roots that a relative path may be meant for, each with the way from it.

        Raises:
            UserError: it begins with the name of several roots.
        """
        # `a/../../b` becomes `../b` here, which `_split` refuses.
        normal = posixpath.normpath(path)
        if len(self.roots) == 1:
            root = self.roots[0]
            # In the checkout `flask`, served by that name, the folder `flask/flask` is meant: `what_is_in` lists it so.
            yield root, "." if path == root.source and not self._holds(root, normal) else normal
            return
        # The longest first, because one root may lie inside another.
        for root in sorted(self.roots, key=lambda root: -len(posixpath.normpath(root.source))):
            for whole, start in ((path, root.source.rstrip("/")), (normal, posixpath.normpath(root.source))):
                if f"{whole}/".startswith(f"{start}/"):
                    yield root, posixpath.normpath(whole[len(start) + 1 :])
        first, _, rest = normal.partition("/")
        named = [root for root in self.roots if first == root.place.name]
        if len(named) > 1:
            sources = " and ".join(repr(root.source) for root in named)
            example = posixpath.join(named[0].source, rest)
            raise UserError(f"{first!r} is the name of {sources}: begin the path with one of these, as in {example!r}.")
        if named:
            yield named[0], rest or "."

    def _holds(self, root: Root, inside: str) -> bool:
        """Tell whether a root has a file or a folder with text at a path."""
        return any(f"{name}/".startswith(f"{inside}/") for name in self._refreshed(root).files)

    def _refreshed(self, root: Root) -> Snapshot:
        """The files of a root, read again when they have changed."""
        mark = _mark(root.source, self._config)
        if root.snapshot is not None and mark == root.mark:
            return root.snapshot
        snapshot = ingest(root.source, self._config)
        root.mark = mark
        # A time can change without the text; the snapshot, its trees and their indexes then stay. What is left out is
        # part of it: how sure an answer is depends on that.
        known = root.snapshot
        if known is not None and (known.identity, known.left_out) == (snapshot.identity, snapshot.left_out):
            return known
        if root.snapshot is not None:
            root.forget()
        root.snapshot = snapshot
        return snapshot


def _place(source: str) -> Path:
    """Place of a source on the disk; links that lead in a circle, on which `Path.resolve` fails, stay as they are."""
    return Path(os.path.realpath(split_revision(source)[0]))


def _mark(source: str, config: IngestRules) -> str:
    """The commit that a revision names; else a hash of names, sizes and times of change of the files that matter.

    Raises:
        SnapshotError: there is no such revision.
    """
    place, revision = split_revision(source)
    if revision:
        return GitRepository(place).commit(revision)
    digest, place = hashlib.sha256(), _place(source)
    if not place.is_dir():
        entries: Iterator[str] = iter([_line(str(place), place.stat())] if place.exists() else [])
    else:
        entries = _entries(str(place), config)
    for line in entries:
        # Names on disk may be no UTF-8; surrogates carry their bytes.
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _entries(top: str, config: IngestRules) -> Iterator[str]:
    files, folders = _excluded(config.exclude)
    waiting, left = [("", NO_RULES)], MOST_ENTRIES
    while waiting:
        folder, rules = waiting.pop()
        try:
            with os.scandir(f"{top}/{folder}") as found:
                # The order of a disk changes when files do not, and would change the hash.
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        if config.use_gitignore and any(entry.name == ".gitignore" for entry in entries):
            rules = _rules(top, folder, rules)
        for entry in entries:
            left -= 1
            # Nobody knows whether anything has changed beyond, so that the whole is read again.
            if left < 0:
                yield os.urandom(16).hex()
                return
            is_hidden = entry.name.startswith(".") and not config.reads_hidden(entry.name)
            if is_hidden and entry.name not in MARKED:
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in folders and not rules.ignores(path := folder + entry.name, is_folder=True):
                        waiting.append((path + "/", rules))
                elif entry.name in MARKED or (entry.name not in files and config.offers(entry.name)):
                    yield _line(entry.path, entry.stat(follow_symlinks=False))
            except OSError:
                continue


def _excluded(rules: Sequence[str]) -> tuple[Set[str], Set[str]]:
    """Names of files, and of folders, that are left out wherever they lie."""
    # Looking at too much costs time, at too little a change: rules about one place name nothing here, as do all where
    # one takes back another.
    names = [rule for rule in rules if "/" not in rule[:-1]]
    if any(rule.startswith("!") for rule in rules):
        names = []
    return {rule for rule in names if rule[-1:] != "/"}, {rule.removesuffix("/") for rule in names}


def _rules(top: str, folder: str, above: IgnoreRules) -> IgnoreRules:
    """The rules that hold in a folder ("" or "a/b/") with a `.gitignore`; one that cannot be used has none."""
    try:
        data = read_one(Path(top, folder), ".gitignore", IGNORE_BYTES)
    except SnapshotError:
        return above
    text = decode(data) if isinstance(data, bytes) else None
    return above if text is None else _compiled(above, folder, text)


@lru_cache(1_000)
def _compiled(above: IgnoreRules, folder: str, text: str) -> IgnoreRules:
    return above.under(folder, text)


def _line(path: str, status: os.stat_result) -> str:
    # Size and times instead of content: this runs before every answer. Programs that unpack files set the first time to
    # that of the archive; the second one they cannot set. It changes with the rights of a file, too.
    return f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\n"
