"""Shortest way of AutoExplore: the turns that an optimal player needs to read the target and to name it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from reflect_locate.envs.task_sampling import join, shared_folders
from reflect_locate.repositories.tree import Tree

Entry = tuple[Literal["cd", "cat"], str]
"""Command that takes up an entry of a folder, and the entry's name."""


def entries_of(tree: Tree, folder: str, read: Container[str]) -> list[Entry]:
    """Folders and unread files directly in a folder."""
    unread = (name for name in tree.files(folder) if join(folder, name) not in read)
    return [*(("cd", name) for name in tree.folders(folder)), *(("cat", name) for name in unread)]


@dataclass(frozen=True)
class Way:
    """Facts that decide how far the target is."""

    tree: Tree
    page_entries: int
    """Folders and files that a page of a listing shows."""
    targets: frozenset[str]
    """Files that answer the question; at least one."""
    read: frozenset[str]
    hits: frozenset[str]
    """Files that the last search found, which can be read from anywhere."""

    def turns_from(self, folder: str, page: int) -> int:
        """Turns that an optimal player needs, standing on a page of a folder."""
        if self.targets & self.read:
            return 1
        if self.targets & self.hits:
            return 2
        # The walk, then one turn to read the target and one to name it.
        return min(self._walk(folder, page, target) for target in self.targets) + 2

    def _walk(self, folder: str, page: int, target: str) -> int:
        """Turns from a page of a folder to the page that lists a file."""
        here, there = [part for part in folder.split("/") if part], target.split("/")[:-1]
        common = shared_folders(here, there)
        turns, standing = len(here) - common, folder
        # Leaving a folder shows the first page of the one above.
        page = page if not turns else 0
        if turns:
            standing = "/".join(here[:common])
        for part in there[common:]:
            turns += self._pages_on(standing, part, page) + 1
            standing, page = join(standing, part), 0
        return turns + self._pages_on(standing, target.rpartition("/")[2], page)

    def _pages_on(self, folder: str, name: str, page: int) -> int:
        """Number of times that `more` must be taken, from a page of a folder, until an entry is listed."""
        entries = [entry for _, entry in entries_of(self.tree, folder, self.read)]
        pages = max(1, -(-len(entries) // self.page_entries))
        # `more` after the last page shows the first, hence the remainder.
        return (entries.index(name) // self.page_entries - page) % pages
