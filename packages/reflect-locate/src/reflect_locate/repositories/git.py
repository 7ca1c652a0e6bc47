"""Files of one commit, read from git's object store: no checkout, no hooks, no filters, no network.

A repository may be hostile: its `config` can name programs, its `.git` can lead anywhere. This is the only place that
starts git. Git never sees the repository's own settings: it works in a folder of ours (`_git_folder.py`) that borrows
objects and references, with an environment of its own, and with limits on time, memory and output.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reflect_locate.repositories._git_folder import borrowed, git_places
from reflect_locate.repositories.budget import Budget
from reflect_locate.repositories.gate import Gate, Reason
from reflect_locate.repositories.snapshot import SnapshotError

try:
    import resource
except ImportError:  # Windows: there git has no limit of memory
    resource = None  # type: ignore[assignment]

# Lazy fetching would contact whatever a `config` names; replace objects would show another content for a commit.
ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Reading must leave no lock or refreshed index in a repository that somebody works in.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
INHERITED = ("PATH", "SYSTEMROOT", "TMPDIR")
"""Variables that git gets from this process: no `GIT_*` and no `HOME`, which could name other folders and programs."""
# A colon would name a file in a commit (`HEAD:x`), braces ask for something else than a name (`^{/text}`), the others
# are patterns of references. No shell ever reads a name.
FORBIDDEN = frozenset("*?[:\\{}")
LIST_BYTES = 256_000_000
"""Longest output of one call. A few kilobytes of objects can describe more files than any disk holds."""
LIMITED = 'ulimit -d "$0" && exec "$@"'
"""All that a shell is told: it sets a limit and becomes git, whose arguments it passes on as they are."""
# A link's content is its target's path: read as text it would pass for a file.
SYMLINK, SUBMODULE = b"120000", b"160000"
PLAIN = (b"100644", b"100755", b"100664")
"""Modes of files; the last one stands in old repositories."""


BATCH_BYTES = 50_000_000
"""Most bytes of files that are read at a time."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a commit."""

    path: str
    name: bytes
    """Name of its object."""
    size: int


@dataclass(frozen=True, slots=True)
class _Answer:
    """Output of a command that may have failed."""

    output: bytes
    errors: bytes
    code: int


class GitRepository:
    """A repository on disk, bare or with a working tree, of which only objects are read.

    Args:
        folder: the top folder of the working tree, or the repository itself.
        budget: of all calls together: a file that blocks each of them would be waited for many times. A few kilobytes
            of objects can unpack to more memory than any machine has.
    """

    def __init__(self, folder: Path, budget: Budget | None = None) -> None:
        self.folder, self._budget = folder.resolve(), budget or Budget(str(folder), seconds=60)

    def commit(self, revision: str) -> str:
        """The full name of a commit.

        Raises:
            SnapshotError: no such repository or revision, or the name is none.
        """
        if not is_revision(revision):
            raise SnapshotError(f"{revision!r} is no revision. Give a branch, a tag or a commit, for example HEAD~3.")
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
        answer = self._call([command, *arguments], given, most)
        # Exit 1 is git's answer for `nothing found`; a process that was cut died by our own signal.
        if answer.code not in (0, 1) and len(answer.output) <= most:
            raise self._failed(command, answer.errors)
        return answer.output[:most]

    def objects(self, mode: str, names: Sequence[bytes], most: int = LIST_BYTES) -> bytes:
        """Answers of `git cat-file` about objects: `--batch-check` tells kind and size, `--batch` the contents too.

        A damaged object ends the answer early, which its readers see by the missing names.

        Raises:
            SnapshotError: git is missing or took too long.
        """
        return self._call(["cat-file", mode], b"".join(name + b"\n" for name in names), most).output[:most]

    def _call(self, arguments: list[str], given: bytes, most: int) -> _Answer:
        places = git_places(self.folder, self._budget)
        # A file, unlike a pipe, never waits for the other side: git complains of each damaged object.
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors, borrowed(places) as folder:
            source.write(given)
            source.seek(0)
            environment = {name: os.environ[name] for name in INHERITED if name in os.environ} | ENVIRONMENT
            environment |= {
                "GIT_DIR": str(folder),
                "GIT_OBJECT_DIRECTORY": str(folder / "objects-0"),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(
                    str(folder / f"objects-{number}") for number in range(1, len(places.objects))
                ),
                "HOME": str(folder),
            }
            git = shutil.which("git", path=environment.get("PATH"))
            try:
                if git is None:
                    raise FileNotFoundError("there is none on the PATH")
                # A list: a path or a revision is one argument whatever stands in it. A shell sees none of them.
                process = subprocess.Popen(
                    _bounded([git, "--no-pager", *arguments], self._budget.memory),
                    cwd=folder,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                )
            except OSError as error:
                raise SnapshotError(
                    f"cannot start git: {error}. Install git, or give a folder or an archive instead."
                ) from None
            output = self._output(process, arguments[0], most)
            errors.seek(0)
            # Bounded too: git repeats names from the repository in its messages.
            return _Answer(output, errors.read(2_000), process.returncode)

    def _output(self, process: subprocess.Popen[bytes], command: str, most: int) -> bytes:
        assert process.stdout is not None  # noqa: S101 (it is a pipe)
        # A timer kills git, since a read from its pipe has no time limit of its own.
        late = threading.Event()
        timer = threading.Timer(max(self._budget.seconds_left, 0), _stop, (process, late))
        with process:
            timer.start()
            try:
                # One byte more than allowed shows that the output is cut; git is stopped while it still writes.
                output = process.stdout.read(most + 1)
                if len(output) > most:
                    process.kill()
            finally:
                timer.cancel()
                process.stdout.close()
        if late.is_set():
            raise SnapshotError(
                f"git {command} in {str(self.folder)!r} took longer than {self._budget.seconds:g} s. Raise max_seconds."
            )
        return output

    def _failed(self, command: str, errors: bytes) -> SnapshotError:
        said = errors.decode("utf-8", "replace").strip().partition("\n")[0] or "it said nothing"
        return SnapshotError(
            f"git {command} failed in {str(self.folder)!r}: {said}. "
            "Give the top folder of a repository that git itself can read."
        )


def _bounded(command: list[str], most: int) -> list[str]:
    """A command behind a limit of its private memory; mapped packs, which may be large, do not count.

    The limit stands before git starts. Set afterwards it would come too late for what git has taken by then, and
    `preexec_fn` is not safe beside other threads.
    """
    if resource is None:
        return command
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    # Only the administrator may raise a limit that this process has already.
    kilobytes = (most if hard == resource.RLIM_INFINITY else min(most, hard)) // 1024
    return ["/bin/sh", "-c", LIMITED, str(kilobytes), *command]


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
    repository = GitRepository(folder, gate.budget)
    commit = repository.commit(revision)
    wanted = _listed(repository, commit, gate)
    # Sizes come first: a blob of gigabytes would be in memory before its length is known.
    sizes = _sizes(repository, sorted(set(wanted.values())))
    chosen: list[_File] = []
    for path, name in wanted.items():
        size = sizes.get(name)
        if size is None:
            gate.leave(path, Reason.MISSING)
        elif size > gate.config.max_file_bytes:
            gate.leave(path, Reason.TOO_LARGE)
        else:
            chosen.append(_File(path, name, size))
    # In batches: what turns out to be no text takes no room, so only then it is known how many more fit.
    for batch in _batches(chosen):
        fitting: list[_File] = []
        for file in batch:
            # The same bounds as in the gate, applied before git is asked for the contents.
            if gate.has_room(file.size):
                fitting.append(file)
            else:
                gate.leave(file.path, Reason.OVER_LIMIT)
        names = sorted({file.name for file in fitting})
        # One process answers for many objects, instead of a start of git for each file.
        contents = _contents(repository.objects("--batch", names, sum(map(_share, fitting)))) if names else {}
        for file in fitting:
            gate.take(file.path, contents.get(file.name, Reason.DAMAGED))
    return commit


def _share(file: _File) -> int:
    """Bytes of git's answer about a file, with the line before its content."""
    return file.size + 200


def _batches(files: Sequence[_File]) -> Iterator[list[_File]]:
    """The files in their order, as many at a time as answers are held in memory."""
    batch: list[_File] = []
    total = 0
    for file in files:
        if batch and total + _share(file) > BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(file)
        total += _share(file)
    if batch:
        yield batch


def _listed(repository: GitRepository, commit: str, gate: Gate) -> dict[str, bytes]:
    """Path -> object of the regular files that may be read, by their names."""
    output = repository.run("ls-tree", "-r", "-z", "--full-tree", commit)
    # `-z` ends entries with a zero byte and quotes nothing: a line end in a name stays part of the name.
    entries = output.split(b"\0")
    if entries.pop() or len(entries) > gate.config.max_members:  # the last entry is cut, or there are too many
        gate.leave("./", Reason.TOO_MANY)
    wanted: dict[str, bytes] = {}
    for entry in entries[: gate.config.max_members]:
        gate.budget.check_time()
        about, _, raw = entry.partition(b"\t")
        mode, _, name = about.split(b" ")
        # Git keeps names as bytes. Invalid ones become surrogates, which the gate then calls unsafe.
        path = raw.decode("utf-8", "surrogateescape")
        if mode not in PLAIN:
            gate.leave(path, {SYMLINK: Reason.SYMLINK, SUBMODULE: Reason.SUBMODULE}.get(mode, Reason.SPECIAL))
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
        size = int(words[2])
        content = output[end + 1 : end + 1 + size]
        if len(content) == size:
            contents[words[0]] = content
        start = end + 1 + size + 1
    return contents


def _stop(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()
