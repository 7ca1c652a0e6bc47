"""View of a snapshot that one episode has: some of its files, below a root, perhaps with a sentence masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from reflect_locate.repositories.snapshot import Snapshot, digest_of

Spans = Sequence[tuple[int, int]]


class Tree:
    """A view of a snapshot; paths are relative to `root`, the root folder is the empty text.

    Args:
        snapshot: the files.
        root: folder of the snapshot that becomes the root.
        paths: the files that are seen, relative to `root` (None: all below it).
        masks: character spans of files, by path relative to `root`, that are seen as blanks.

    Raises:
        ValueError: a path is not in the snapshot.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        root: str = "",
        paths: Iterable[str] | None = None,
        masks: Mapping[str, Spans] | None = None,
    ) -> None:
        prefix = f"{root}/" if root else ""
        if paths is None:
            paths = (path[len(prefix) :] for path in snapshot.files if path.startswith(prefix))
        self.snapshot, self.prefix = snapshot, prefix
        self.paths = tuple(sorted(paths))
        self.masks = dict(masks or {})
        # Dictionaries instead of sets keep the sorted order of the paths, and so the order of the actions.
        self._folders: dict[str, dict[str, None]] = {"": {}}
        self._files: dict[str, list[str]] = {"": []}
        self._counts: dict[str, int] = {}
        for path in self.paths:
            if prefix + path not in snapshot.files:
                raise ValueError(f"the snapshot {snapshot.name!r} has no file {prefix + path!r}")
            self._add(path)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        """Key by which trees are equal: each episode builds its own tree, and equal trees share their index."""
        masks = tuple(sorted((path, tuple(spans)) for path, spans in self.masks.items()))
        return self.snapshot.identity, self.prefix, self.paths, masks

    @cached_property
    def _hash(self) -> int:
        # Computed once: a tree of a whole project has thousands of paths, and each index look-up hashes it.
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self._hash == other._hash and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def _add(self, path: str) -> None:
        *parts, name = path.split("/")
        folder = ""
        for part in parts:
            self._counts[folder] = self._counts.get(folder, 0) + 1
            self._folders[folder].setdefault(part)
            folder = f"{folder}/{part}" if folder else part
            if folder not in self._folders:
                self._folders[folder], self._files[folder] = {}, []
        self._counts[folder] = self._counts.get(folder, 0) + 1
        self._files[folder].append(name)

    def has_folder(self, folder: str) -> bool:
        """Tell whether there is a folder of this path."""
        return folder in self._folders

    def folders(self, folder: str) -> tuple[str, ...]:
        """Names of the folders directly in a folder, sorted."""
        return tuple(self._folders[folder])

    def files(self, folder: str) -> tuple[str, ...]:
        """Names of the files directly in a folder, sorted."""
        return tuple(self._files[folder])

    def count(self, folder: str) -> int:
        """Number of files below a folder, at any depth."""
        return self._counts.get(folder, 0)

    def digest(self, path: str) -> bytes:
        """SHA-256 of the text of a file, as it is seen."""
        return digest_of(self.text(path)) if path in self.masks else self.snapshot.digests[self.prefix + path]

    def text(self, path: str) -> str:
        """Text of a file; letters of masked spans are blanks, lines stay where they are."""
        text = self.snapshot.files[self.prefix + path]
        for start, stop in self.masks.get(path, ()):
            # Blanks of the same length keep the offsets of later spans valid.
            text = text[:start] + re.sub(r"[^\n]", " ", text[start:stop]) + text[stop:]
        return text
