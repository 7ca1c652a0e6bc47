"""The gate that every file passes on its way into a snapshot, wherever it comes from: one set of rules and limits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from annotated_types import Ge, Interval

from reflect_locate.repositories.budget import Budget
from reflect_locate.repositories.ignore import SECRETS, names_pattern, spec_of
from reflect_locate.repositories.secret_names import is_example, is_named_secret
from reflect_locate.repositories.snapshot import LeftOut, files_that_are_folders
from reflect_locate.repositories.text import decode, is_safe_name, shown
from reflect_served.secrets import holds_private_key, is_token

CODE = (".py", ".c", ".cpp", ".cxx", ".cc", ".h", ".hpp", ".hxx", ".cs", ".java", ".go", ".ipynb")
TABLES = (".csv", ".tsv")
TEXTS = (".txt", ".md", ".rst", ".json", ".yaml", ".yml")
SCRIPTS = (".sh", ".bash", ".zsh")
SUFFIXES = (*CODE, *TABLES, *TEXTS, *SCRIPTS)
"""The types of files that the paper's environment offers."""

# Never read, even with `hidden`: hooks, remotes and credentials of the user lie there.
HISTORIES = frozenset({".git", ".hg", ".svn", ".bzr", ".jj"})
"""Folders of version control; their files are never part of a tree."""
HEAD = re.compile(r"ref: refs/|[0-9a-f]{40}")
"""Beginning of the file `HEAD` of a git repository."""

LONGEST_PATH = 4096
# The three lines of a pointer would answer a question in place of the content that they stand for.
LFS_POINTER = "version https://git-lfs.github.com/spec/"
ARMOUR = "-----BEGIN PGP "
"""Beginning of a key, a message or a signature in a file `.asc`."""
# A folder of a million images must not turn the snapshot into a list of their names.
KEEP_LISTED = 200
"""Entries that are named for each reason; the rest are counted."""


# These words are written into task sets: changing one changes the bytes of equal snapshots.
class Reason(StrEnum):
    """Reason for which an entry is not in a snapshot."""

    BINARY = "binary"
    ENCODING = "not UTF-8"
    CHANGED = "changed while read"
    DAMAGED = "damaged"
    DUPLICATE = "duplicate name"
    ENCRYPTED = "encrypted"
    EXCLUDED = "excluded"
    HIDDEN = "hidden"
    IGNORED = "ignored"
    LINK = "link"
    MISSING = "missing object"
    OTHER_SYSTEM = "other file system"
    OTHER_TYPE = "other type"
    OVER_LIMIT = "over the limit of the snapshot"
    POINTER = "LFS pointer"
    RULE = "rule not used"
    SECRET = "secret"  # noqa: S105 (a reason)
    SPECIAL = "special file"
    SUBMODULE = "submodule"
    SYMLINK = "symlink"
    TOO_DEEP = "too deep"
    TOO_LARGE = "too large"
    TOO_MANY = "too many entries"
    UNREADABLE = "unreadable"
    UNSAFE_NAME = "unsafe name"


# No pydantic model, whose library takes as long to import as an answer; `IngestConfig` is the one that is checked.
@dataclass(frozen=True)
class IngestRules:
    """Files that a snapshot takes."""

    suffixes: tuple[str, ...] = SUFFIXES
    """Endings of the names of files that are read, with the dot; upper and lower case are one."""
    hidden: bool = False
    """Read files and folders whose name starts with a dot (never those of version control)."""
    use_gitignore: bool = True
    """Leave out what a `.gitignore` inside the folder says. Archives and commits hold only what somebody chose."""
    deny: tuple[str, ...] = SECRETS
    """Names of files and folders that may hold secrets: shell patterns. Unless there are none, data that are named
    after secrets are left out, too. So are files with a private key, and those that are tokens and nothing else."""
    exclude: tuple[str, ...] = ("__pycache__/", "node_modules/", "site-packages/")
    """Further files to leave out, written as in a `.gitignore` at the root."""
    max_file_bytes: Annotated[int, Interval(ge=1, le=100_000_000)] = 1_000_000
    """Largest file."""
    max_files: Annotated[int, Ge(1)] = 50_000
    """Most files."""
    max_total_bytes: Annotated[int, Ge(1)] = 200_000_000
    """Most bytes of all files together."""
    max_depth: Annotated[int, Interval(ge=0, le=200)] = 40
    """Most folders on the way to a file."""
    max_entries: Annotated[int, Ge(1)] = 20_000
    """Most entries of one folder; one with more is left out whole."""
    max_members: Annotated[int, Ge(1)] = 500_000
    """Most members of an archive or of a commit that are looked at."""
    max_archive_bytes: Annotated[int, Ge(1)] = 1_000_000_000
    """Largest archive."""
    max_unpacked_bytes: Annotated[int, Ge(1)] = 4_000_000_000
    """Most bytes that an archive may unpack to while it is read."""
    max_seconds: Annotated[float, Interval(gt=0, le=86_400)] = 300.0
    """Longest time for one snapshot."""

    @property
    def takes_one_file(self) -> bool:
        """Tell whether a single text is a source of its own."""
        return False

    def reads_hidden(self, name: str) -> bool:
        """Tell whether a file or folder with this name, which starts with a dot, is read."""
        return self.hidden

    def offers(self, name: str) -> bool:
        """Tell whether a file of this name may be read, as far as its ending goes."""
        return suffix_of(name) in map(str.lower, self.suffixes)

    def ending(self, name: str) -> str:
        """The ending for which a file of this name is not read."""
        return suffix_of(name) or "no ending"

    def is_source(self, name: str) -> bool:
        """Tell whether a name that is denied is that of a source, which is read all the same."""
        return False

    def reads_below(self, folder: str, name: str = "") -> bool:
        """Tell whether a folder whose name is denied is entered, and a file of this name is read in it."""
        return False

    def told_endings(self) -> str:
        """The files that are read, in a sentence."""
        return f"Files that are read end with {' '.join(self.suffixes)}."


class Gate:
    """Files that one ingest has taken, and those that it has left out so far.

    Args:
        source: what is read, for messages.
        config: rules and limits.
        is_public: the names cannot give secrets away, because everybody has the files.
    """

    def __init__(self, source: str, config: IngestRules, *, is_public: bool = False) -> None:
        self.source, self.config = source, config
        self.files: dict[str, str] = {}
        self._is_public = is_public
        self._bytes = 0
        # Names such as `src` and `__init__.py` recur all over a tree; each is judged once.
        self._names: dict[str, Reason | None] = {}
        self._deny = names_pattern(() if is_public else config.deny)
        self._judges_words = bool(config.deny) and not is_public
        self._exclude = spec_of(config.exclude)
        self._listed: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()
        self.endings: Counter[str] = Counter()
        """Files that were left out for each ending."""
        self.budget = Budget(source, config.max_unpacked_bytes, config.max_seconds)

    @property
    def is_full(self) -> bool:
        """Tell whether no further file fits."""
        return len(self.files) >= self.config.max_files or self._bytes >= self.config.max_total_bytes

    def has_room(self, size: int) -> bool:
        """Tell whether a file of this size in bytes fits."""
        return not self.is_full and self._bytes + size <= self.config.max_total_bytes

    def leave(self, path: str, reason: Reason) -> None:
        """Note an entry that is left out; the path of a folder ends with a slash."""
        self._counts[reason] += 1
        listed = self._listed.setdefault(reason, [])
        if len(listed) < KEEP_LISTED:
            listed.append(shown(path[:LONGEST_PATH]))

    def admits_folder(self, path: str) -> bool:
        """Tell whether a folder may be opened, by its path."""
        reason = self._objection(path, path.count("/") + 1, is_folder=True)
        # The slash makes rules for folders (`build/`) match; without it they are about files.
        if reason is None and self._exclude.match_file(path + "/"):
            reason = Reason.EXCLUDED
        if reason is not None:
            self.leave(path + "/", reason)
        return reason is None

    def admits_file(self, path: str, size: int = 0) -> bool:
        """Tell whether a file may be opened, by its path and its size in bytes (0: not known yet)."""
        # The name is judged first: a file with an unsafe or secret name is reported as that, whatever its size.
        reason, name = self._objection(path, path.count("/")), path.rpartition("/")[2]
        if reason is None and self._exclude.match_file(path):
            reason = Reason.EXCLUDED
        if reason is None and not self.config.offers(name):
            reason = Reason.OTHER_TYPE
            self.endings[self.config.ending(name)] += 1
        if reason is None and size > self.config.max_file_bytes:
            reason = Reason.TOO_LARGE
        # The claimed size saves an open; `take` counts again, because an archive may lie about it.
        if reason is None and not self.has_room(size):
            reason = Reason.OVER_LIMIT
        if reason is not None:
            self.leave(path, reason)
        return reason is None

    def take(self, path: str, data: bytes | Reason) -> None:
        """Put an admitted file into the snapshot, if what is in it is text without secrets."""
        result = self._text(path, data) if isinstance(data, bytes) else data
        if isinstance(result, Reason):
            self.leave(path, result)
        else:
            self.files[path] = result
            # Bytes as they came and not the text, so that the limit is about what the user sees on disk.
            self._bytes += len(data)

    def finish(self) -> None:
        """Leave out git repositories, and files whose path is a folder of another.

        Only an archive or a commit can have these: a folder is judged before it is read.
        """
        # Empty folders and objects are in no archive that was made of a commit; these two texts are.
        heads = (path.removesuffix("HEAD") for path in self.files if f"/{path}".endswith("/HEAD"))
        found = {head for head in heads if f"{head}config" in self.files and HEAD.match(self.files[f"{head}HEAD"])}
        for path in [path for path in self.files if found and not found.isdisjoint(_folders(path))]:
            del self.files[path]
        for folder in sorted(found):
            self.leave(folder or "./", Reason.HIDDEN)
        for path in files_that_are_folders(self.files):
            del self.files[path]
            self.leave(path, Reason.DUPLICATE)

    def left_out(self) -> tuple[LeftOut, ...]:
        """Entries that are left out: by path, then what is only counted, as an entry without a path for each reason."""
        named = [LeftOut(path, str(reason)) for reason, paths in self._listed.items() for path in paths]
        more = {reason: count - len(self._listed[reason]) for reason, count in sorted(self._counts.items())}
        rest = [LeftOut("", f"{reason}: {count} more") for reason, count in more.items() if count]
        return (*sorted(named, key=lambda entry: (entry.path, entry.reason)), *rest)

    def _text(self, path: str, data: bytes) -> str | Reason:
        if len(data) > self.config.max_file_bytes:
            return Reason.TOO_LARGE
        if not self.has_room(len(data)):
            return Reason.OVER_LIMIT
        # The first member of a name counts; a second one could replace what was judged before.
        if path in self.files:
            return Reason.DUPLICATE
        text = decode(data)
        # A text in Latin-1 is no binary file for who wrote it.
        if text is None:
            return Reason.BINARY if b"\0" in data else Reason.ENCODING
        if text.startswith(LFS_POINTER):
            return Reason.POINTER
        # Key material in public archives is no secret of this user; tests of well-known projects hold some.
        is_key = holds_private_key(text) or is_token(text) or (path.lower().endswith(".asc") and ARMOUR in text)
        # Judged here and not by the name alone: a script without an ending, such as `reset-password`, is a program.
        is_key = is_key or (self._judges_words and is_named_secret(path) and not text.startswith("#!"))
        return Reason.SECRET if is_key and not self._is_public else text

    def _objection(self, path: str, folders: int, *, is_folder: bool = False) -> Reason | None:
        """Reasons against a path, the worst first."""
        if len(path) > LONGEST_PATH:
            return Reason.TOO_DEEP
        # Each folder on the way is judged too: an archive or commit names its files without entering folders.
        *above, name = path.split("/")
        last = self._name_reason(name)
        if is_folder and last is Reason.SECRET and self.config.reads_below(name):
            last = None
        reasons = {last, *(self._folder_reason(folder, "" if is_folder else name) for folder in above)}
        # Worst first, so that the report calls a hidden key a secret.
        for reason in (Reason.UNSAFE_NAME, Reason.SECRET, Reason.HIDDEN):
            if reason in reasons:
                return reason
        return Reason.TOO_DEEP if folders > self.config.max_depth else None

    def _folder_reason(self, folder: str, name: str) -> Reason | None:
        """Reason against a folder on the way to what has this name (a folder: none)."""
        reason = self._name_reason(folder)
        return None if reason is Reason.SECRET and self.config.reads_below(folder, name) else reason

    def _name_reason(self, name: str) -> Reason | None:
        if name not in self._names:
            self._names[name] = self._judge(name)
        return self._names[name]

    def _judge(self, name: str) -> Reason | None:
        if not is_safe_name(name):
            return Reason.UNSAFE_NAME
        # Disks of macOS and Windows ignore case, so `ID_RSA` is the same key.
        if self._deny.match(name.lower()) and not self.config.is_source(name) and not is_example(name):
            return Reason.SECRET
        is_hidden = name.startswith(".") and (not self.config.reads_hidden(name) or name.lower() in HISTORIES)
        return Reason.HIDDEN if is_hidden else None


def _folders(path: str) -> list[str]:
    """The folders on the way to a file, the root as the empty text."""
    return ["", *(path[: place + 1] for place, letter in enumerate(path) if letter == "/")]


def is_repository(names: Set[str]) -> bool:
    """Tell whether a folder with these entries is that of a git repository: a bare one, or a renamed `.git`.

    Its settings may hold a password, and its hooks and logs are about people; commits are read by `git.py` alone.
    """
    return names >= {"HEAD", "objects"} and not names.isdisjoint({"refs", "packed-refs", "config"})


def left_out_counts(left_out: Iterable[LeftOut]) -> dict[str, int]:
    """Number of entries left out for each reason, named ones and those that were only counted.

    >>> left_out_counts([LeftOut("a", "symlink"), LeftOut("", "symlink: 7 more")])
    {'symlink': 8}
    """
    counts: Counter[str] = Counter()
    for entry in left_out:
        reason, _, more = entry.reason.partition(": ")
        counts[reason] += 1 if entry.path else int(more.split()[0])
    return dict(sorted(counts.items()))


def suffix_of(name: str) -> str:
    """The ending of a file's name in lower case, with the dot; empty without one."""
    stem, dot, end = name.rpartition(".")
    # A name that only begins with a dot (`.py`) has no ending.
    return (dot + end).lower() if stem else ""
