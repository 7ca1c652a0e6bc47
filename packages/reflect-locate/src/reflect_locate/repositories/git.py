"""Files of one commit, read from git's object store: no checkout, no hooks, no filters, no network.

A repository may be hostile: its `config` can name programs. So only plumbing is called (`rev-parse`, `ls-tree`,
`cat-file`, `rev-list`, `diff-tree`), which starts none of them, with an environment of its own, without a shell, and
with limits on time and output.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from reflect_locate.repositories._gate import Gate, Reason
from reflect_locate.repositories.snapshot import SnapshotError

__all__ = ["GitRepository", "is_revision", "read_commit"]

# Given with `-c`, which wins over the repository's own `config`: a monitor, a hook or a transport starts programs.
SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", "core.quotePath=false")
# Lazy fetching would contact whatever the `config` names; replace objects would show another content for a commit.
ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_INDEX_FILE": "/nonexistent/index",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Reading must leave no lock or refreshed index in a repository that somebody works in.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# HOME stays: git reads the user's own `safe.directory` there, and its check of the owner applies.
INHERITED = ("PATH", "HOME", "XDG_CONFIG_HOME", "SYSTEMROOT", "TMPDIR")
"""Variables that git gets from this process: no `GIT_*` among them, which could name other folders and programs."""
# A colon would name a file in a commit (`HEAD:x`), `*` and `?` patterns of references, quotes and `$` a shell.
FORBIDDEN = frozenset("\"'`$;&|<>(){}[]*?!:\\")
LIST_BYTES = 256_000_000
"""Longest output of one call. A few kilobytes of objects can describe more files than any disk holds."""
# A link's content is its target's path: read as text it would pass for a file.
SYMLINK, SUBMODULE = b"120000", b"160000"
PLAIN = (b"100644", b"100755", b"100664")
"""Modes of files; the last one stands in old repositories."""


class GitRepository:
    """A repository on disk, bare or with a working tree, of which only objects are read.

    Args:
        folder: the top folder of the working tree, or the repository itself.
        seconds: the longest time of one call.
    """

    def __init__(self, folder: Path, seconds: float = 60.0) -> None:
        self.folder, self._seconds = folder.resolve(), seconds

    def commit(self, revision: str) -> str:
        """The full name of a commit.

        Raises:
            SnapshotError: no such repository or revision, or the name is none.
        """
        if not is_revision(revision):
            raise SnapshotError(f"{revision!r} is no revision. Give a branch, a tag or a commit, for example HEAD~3.")
        # This call separates a folder that is no repository from a revision that is missing.
        self.run("rev-parse", "--git-dir")
        # A tag can point to a tag or a tree; `^{commit}` follows it to a commit or fails.
        name = self.run("rev-parse", "--verify", "--quiet", revision + "^{commit}").decode("ascii", "replace").strip()
        if not name.isalnum():
            raise SnapshotError(
                f"the repository {str(self.folder)!r} has no commit {revision!r}. `git log --all` lists those it has."
            )
        return name

    def run(self, command: str, *arguments: str, most: int = LIST_BYTES, given: bytes = b"") -> bytes:
        """Output of a plumbing command, at most `most` bytes (it is stopped then); empty if it exits with 1.

        Args:
            command: of git.
            arguments: its own.
            most: bytes.
            given: what it reads on its standard input.

        Raises:
            SnapshotError: git is missing, failed, or took too long.
        """
        # `Popen` instead of `run`: output that is too long must be cut while git still writes.
        process = self._start([command, *arguments], given)
        assert process.stdout is not None  # noqa: S101 (both are pipes)
        assert process.stderr is not None  # noqa: S101
        # A timer kills git, since a read from its pipe has no time limit of its own.
        late = threading.Event()
        timer = threading.Timer(self._seconds, _stop, (process, late))
        with process:
            timer.start()
            try:
                # One byte more than allowed shows that the output is cut.
                output = process.stdout.read(most + 1)
                if is_cut := len(output) > most:
                    process.kill()
                # Bounded too: git repeats names from the repository in its messages.
                errors = process.stderr.read(2_000)
            finally:
                timer.cancel()
                process.stdout.close()
        if late.is_set():
            raise self._too_slow(command)
        # Exit 1 is git's answer for `nothing found`; a process that was cut died by our own signal.
        if process.returncode not in (0, 1) and not is_cut:
            raise self._failed(command, errors)
        return output[:most]

    def objects(self, mode: str, names: Sequence[bytes]) -> bytes:
        """Answers of `git cat-file` about objects: `--batch-check` tells kind and size, `--batch` the contents too.

        Raises:
            SnapshotError: git is missing or took too long.
        """
        asked = b"".join(name + b"\n" for name in names)
        try:
            return subprocess.run(
                self._command(["cat-file", mode]),
                input=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self._seconds,
                env=self._environment(),
                check=False,
            ).stdout
        except subprocess.TimeoutExpired:
            raise self._too_slow("cat-file") from None
        except OSError as error:
            raise _no_git(error) from None

    def _start(self, arguments: list[str], given: bytes) -> subprocess.Popen[bytes]:
        # A file, unlike a pipe, never waits for the other side.
        with tempfile.TemporaryFile() as source:
            source.write(given)
            source.seek(0)
            try:
                return subprocess.Popen(
                    self._command(arguments),
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self._environment(),
                )
            except OSError as error:
                raise _no_git(error) from None

    def _command(self, arguments: list[str]) -> list[str]:
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        # A list and no shell: a path or a revision is one argument whatever stands in it.
        return ["git", "-C", str(self.folder), "--no-pager", *settings, *arguments]

    def _environment(self) -> dict[str, str]:
        """Git must not look for a repository in the folders above."""
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        # Otherwise an ordinary folder inside a clone would be read as the clone around it.
        return {**inherited, **ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)}

    def _too_slow(self, command: str) -> SnapshotError:
        return SnapshotError(
            f"git {command} in {str(self.folder)!r} took longer than {self._seconds:g} s. Raise max_seconds."
        )

    def _failed(self, command: str, errors: bytes) -> SnapshotError:
        said = errors.decode("utf-8", "replace").strip().partition("\n")[0] or "it said nothing"
        return SnapshotError(
            f"git {command} failed in {str(self.folder)!r}: {said}. "
            "Give the top folder of a repository that git itself can read."
        )


def is_revision(name: str) -> bool:
    """Tell whether git may be asked for a revision of this name: it is no option, and plain.

    >>> is_revision("HEAD~3"), is_revision("v1.0^2"), is_revision("--output=x"), is_revision("a b")
    (True, True, False, False)
    """
    is_plain = all(letter.isprintable() and not letter.isspace() and letter not in FORBIDDEN for letter in name)
    # A leading hyphen makes it an option of git; `@{` asks the local reflog, which other clones do not have.
    return 0 < len(name) <= 250 and not name.startswith("-") and "@{" not in name and is_plain


def read_commit(folder: Path, revision: str, gate: Gate) -> str:
    """Pass the files of a commit through the gate; returns the full name of the commit.

    Raises:
        SnapshotError: no such repository or revision, git is missing, or the time is up.
    """
    # At least a second, so that a spent budget is reported by the gate, not as a git that took 0 s.
    repository = GitRepository(folder, max(gate.seconds_left, 1.0))
    commit = repository.commit(revision)
    wanted = _listed(repository, commit, gate)
    # Sizes come first: a blob of gigabytes would be in memory before its length is known.
    sizes = _sizes(repository, sorted(set(wanted.values())))
    chosen: dict[str, bytes] = {}
    total = 0
    for path, name in wanted.items():
        size = sizes.get(name)
        if size is None:
            gate.leave(path, Reason.MISSING)
        elif size > gate.config.max_file_bytes:
            gate.leave(path, Reason.TOO_LARGE)
        # The same bounds as in the gate, applied before git is asked for the contents.
        elif len(chosen) >= gate.config.max_files or total + size > gate.config.max_total_bytes:
            gate.leave(path, Reason.OVER_LIMIT)
        else:
            chosen[path] = name
            total += size
    # One process answers for all objects, instead of a start of git for each file.
    contents = _contents(repository.objects("--batch", sorted(set(chosen.values()))))
    for path, name in chosen.items():
        gate.take(path, contents.get(name, Reason.DAMAGED))
    return commit


def _listed(repository: GitRepository, commit: str, gate: Gate) -> dict[str, bytes]:
    """Path -> object of the regular files that may be read, by their names."""
    # `-z` ends entries with a zero byte and quotes nothing, so that line ends in names stay part of the name.
    output = repository.run("ls-tree", "-r", "-z", "--full-tree", commit)
    # `-z` ends entries with a zero byte and quotes nothing: a line end in a name stays part of the name.
    entries = output.split(b"\0")
    if entries.pop() or len(entries) > gate.config.max_members:  # the last entry is cut, or there are too many
        gate.leave("./", Reason.TOO_MANY)
    wanted: dict[str, bytes] = {}
    for entry in entries[: gate.config.max_members]:
        gate.check_time()
        about, _, raw = entry.partition(b"\t")
        mode, _, name = about.split(b" ")
        # Git keeps names as bytes. Invalid ones become surrogates, which the gate then calls unsafe.
        # Git keeps names as bytes. Invalid ones become surrogates, which the gate then calls unsafe.
        path = raw.decode("utf-8", "surrogateescape")
        if mode not in PLAIN:
            gate.leave(path, {SYMLINK: Reason.SYMLINK, SUBMODULE: Reason.SUBMODULE}.get(mode, Reason.SPECIAL))
        # Git refuses to make a tree with one name twice, but objects can be written by hand.
        elif path in wanted:
            # Git makes no tree with one name twice, but objects can be written by hand.
            gate.leave(path, Reason.DUPLICATE)
        elif gate.admits_file(path):
            wanted[path] = name
    return wanted


def _sizes(repository: GitRepository, names: Sequence[bytes]) -> dict[bytes, int]:
    """Size in bytes of each file that is there; a partial clone has not all of them."""
    lines = (line.split(b" ") for line in repository.objects("--batch-check", names).splitlines())
    return {words[0]: int(words[2]) for words in lines if len(words) == 3 and words[1] == b"blob"}


def _contents(output: bytes) -> dict[bytes, bytes]:
    """Object -> content. What git writes for each: a line with name, kind and size; the content; a line end."""
    contents: dict[bytes, bytes] = {}
    start = 0
    while (end := output.find(b"\n", start)) >= 0:
        words = output[start:end].split(b" ")
        if len(words) != 3:  # missing or damaged: a line without content
            start = end + 1
            continue
        # Cut out by length, so that no content can pass for the header of the next object.
        # Cut out by length, so that no content can pass for the header of the next object.
        size = int(words[2])
        content = output[end + 1 : end + 1 + size]
        if len(content) == size:
            contents[words[0]] = content
        start = end + 1 + size + 1
    return contents


def _stop(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _no_git(error: OSError) -> SnapshotError:
    return SnapshotError(f"cannot start git: {error}. Install git, or give a folder or an archive instead.")
