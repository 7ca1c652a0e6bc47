"""Reading a folder that somebody may have made to harm the reader."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reflect_locate.repositories import directory
from reflect_locate.repositories.gate import Reason
from reflect_locate.repositories.ingest import ingest, left_out_counts
from reflect_locate.repositories.ingest_config import IngestConfig
from reflect_locate.repositories.snapshot import LeftOut, Snapshot, SnapshotError

KEPT = "kept.md"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with one good file, beside which a test puts an attack; next to it a file that must never be read."""
    root = tmp_path / "tree"
    root.mkdir()
    (root / KEPT).write_text("kept\n")
    (tmp_path / "outside.md").write_text("OUTSIDE")
    return root


def reasons(snapshot: Snapshot) -> dict[str, str]:
    return {entry.path: entry.reason for entry in snapshot.left_out}


def link(place: Path, target: Path | str) -> None:
    try:
        place.symlink_to(target)
    except (OSError, NotImplementedError):
        pytest.skip("this system makes no symbolic links")


def test_files_are_read_with_paths_relative_to_the_folder(tree: Path) -> None:
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "code.py").write_text("x = 1\n")
    (tree / "empty.py").write_text("")
    snapshot = ingest(tree)
    assert dict(snapshot.files) == {"a/b/code.py": "x = 1\n", "empty.py": "", KEPT: "kept\n"}
    assert snapshot.name == "tree"
    assert snapshot.left_out == ()


@pytest.mark.parametrize("target", ["../outside.md", "/etc/passwd", "kept.md", "loop.md", "nowhere.md"])
def test_a_symbolic_link_to_a_file_is_not_followed(tree: Path, target: str) -> None:
    link(tree / "loop.md", target)
    snapshot = ingest(tree)
    assert list(snapshot.files) == [KEPT]
    assert reasons(snapshot) == {"loop.md": "symlink"}


@pytest.mark.parametrize("target", ["..", "/", ".", "missing"])
def test_a_symbolic_link_to_a_folder_is_not_followed(tree: Path, target: str) -> None:
    link(tree / "docs", target)
    snapshot = ingest(tree)
    assert list(snapshot.files) == [KEPT]
    assert reasons(snapshot) == {"docs": "symlink"}


def test_the_folder_itself_may_be_reached_over_a_link(tree: Path) -> None:
    link(tree.parent / "way", tree)
    assert list(ingest(tree.parent / "way").files) == [KEPT]


def swap_after_listing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something between the moment when a folder was listed and the moment when its entries are opened."""
    listed = directory._entries
    done: list[bool] = []

    def entries(number: int, most: int) -> list[tuple[str, str]] | Reason:
        result = listed(number, most)
        if not done:
            done.append(True)
            act()
        return result

    monkeypatch.setattr(directory, "_entries", entries)


def test_a_file_that_becomes_a_link_before_it_is_opened(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "swap.md").write_text("harmless")

    def swap() -> None:
        (tree / "swap.md").unlink()
        link(tree / "swap.md", tree.parent / "outside.md")

    swap_after_listing(monkeypatch, swap)
    snapshot = ingest(tree)
    assert list(snapshot.files) == [KEPT]
    assert reasons(snapshot) == {"swap.md": "symlink"}


def test_a_folder_that_becomes_a_link_before_it_is_opened(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "docs").mkdir()
    (tree.parent / "secret").mkdir()
    (tree.parent / "secret" / "plan.md").write_text("OUTSIDE")

    def swap() -> None:
        (tree / "docs").rmdir()
        link(tree / "docs", tree.parent / "secret")

    swap_after_listing(monkeypatch, swap)
    snapshot = ingest(tree)
    assert list(snapshot.files) == [KEPT]
    assert reasons(snapshot) in ({"docs/": "changed while read"}, {"docs/": "symlink"})


def test_a_file_that_becomes_a_fifo_before_it_is_opened_does_not_hang(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "swap.md").write_text("harmless")

    def swap() -> None:
        (tree / "swap.md").unlink()
        os.mkfifo(tree / "swap.md")

    swap_after_listing(monkeypatch, swap)
    assert reasons(ingest(tree)) == {"swap.md": "special file"}


def test_an_open_folder_that_is_moved_away_leads_nowhere_else(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk holds the folder it opened, not its name: what now has the name is never looked at."""
    (tree / "a.md").write_text("a")

    def swap() -> None:
        tree.rename(tree.parent / "moved")
        tree.mkdir()
        (tree / "a.md").write_text("OUTSIDE")

    swap_after_listing(monkeypatch, swap)
    assert ingest(tree).files["a.md"] == "a"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_is_not_opened(tree: Path) -> None:
    os.mkfifo(tree / "pipe.md")
    assert reasons(ingest(tree)) == {"pipe.md": "special file"}


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no such sockets")
def test_a_socket_is_not_opened(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.md")
        assert reasons(ingest(tree)) == {"s.md": "special file"}


def test_a_device_is_not_opened(tree: Path) -> None:
    try:
        os.mknod(tree / "zero.md", 0o20666, os.makedev(1, 5))
    except (OSError, AttributeError):
        pytest.skip("making devices needs rights")
    assert reasons(ingest(tree)) == {"zero.md": "special file"}


@pytest.mark.skipif(not Path("/dev/shm").is_dir() or not Path("/dev/zero").exists(), reason="needs Linux")
def test_the_folder_of_devices_ends_at_once() -> None:
    with pytest.raises(SnapshotError, match="special file"):
        ingest("/dev")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux")
def test_a_folder_of_the_kernel_ends_without_text() -> None:
    with pytest.raises(SnapshotError, match="no file to read"):
        ingest("/proc/self/fd")


def test_a_hard_link_is_a_file_like_any_other(tree: Path) -> None:
    """It cannot be told from the first name of the file; who can make one inside the tree can read the file as well."""
    os.link(tree / KEPT, tree / "again.md")
    assert ingest(tree).files["again.md"] == "kept\n"


def test_a_file_of_a_terabyte_that_needs_no_space_is_too_large(tree: Path) -> None:
    with (tree / "sparse.md").open("wb") as file:
        try:
            file.truncate(1 << 40)
        except OSError:
            pytest.skip("this file system has no files of this size")
    assert reasons(ingest(tree)) == {"sparse.md": "too large"}


def test_sizes_are_bounded(tree: Path) -> None:
    (tree / "line.md").write_text("x" * 101)
    (tree / "just.md").write_text("x" * 100)
    snapshot = ingest(tree, IngestConfig(max_file_bytes=100))
    assert list(snapshot.files) == ["just.md", KEPT]
    assert reasons(snapshot) == {"line.md": "too large"}


def test_the_number_of_files_and_their_bytes_together_are_bounded(tree: Path) -> None:
    for name in "abc":
        (tree / f"{name}.md").write_text("1234")
    over = "over the limit of the snapshot"
    by_count = ingest(tree, IngestConfig(max_files=2))
    assert list(by_count.files) == ["a.md", "b.md"]
    assert reasons(by_count) == {"c.md": over, KEPT: over}
    by_bytes = ingest(tree, IngestConfig(max_total_bytes=11))
    assert list(by_bytes.files) == ["a.md", "b.md"]  # 4 + 4, and another 4 or 5 would be 12 or 13
    assert reasons(by_bytes) == {"c.md": over, KEPT: over}


def test_a_folder_with_too_many_entries_is_left_out_whole(tree: Path) -> None:
    (tree / "many").mkdir()
    for count in range(11):
        (tree / "many" / f"{count}.md").write_text("x")
    snapshot = ingest(tree, IngestConfig(max_entries=10))
    assert list(snapshot.files) == [KEPT]
    assert reasons(snapshot) == {"many/": "too many entries"}


def test_a_folder_with_a_hundred_thousand_entries(tree: Path) -> None:
    (tree / "many").mkdir()
    for count in range(100_000):
        os.close(os.open(f"{tree}/many/{count}", os.O_CREAT))
    assert reasons(ingest(tree)) == {"many/": "too many entries"}


def test_depth_is_bounded(tree: Path) -> None:
    place = tree
    for _ in range(3):
        place /= "d"
        place.mkdir()
        (place / "f.md").write_text("x")
    snapshot = ingest(tree, IngestConfig(max_depth=2))
    assert list(snapshot.files) == ["d/d/f.md", "d/f.md", KEPT]
    assert reasons(snapshot) == {"d/d/d/": "too deep"}


def test_a_thousand_folders_in_each_other(tree: Path) -> None:
    before = Path.cwd()
    os.chdir(tree)
    try:
        for _ in range(1000):
            Path("d" * 200).mkdir()  # a path of 200 kB: no call could be given it whole
            os.chdir("d" * 200)
        Path("deep.md").write_text("x")
        snapshot = ingest(tree, IngestConfig(max_depth=200))
        assert list(snapshot.files) == [KEPT]
        assert left_out_counts(snapshot.left_out) == {"too deep": 1}
        for _ in range(1000):
            for path in Path().iterdir():
                path.rmdir() if path.is_dir() else path.unlink()
            os.chdir("..")
    finally:
        os.chdir(before)


ODD = [
    b"a\nb.md",
    b"a\rb.md",
    b"a\x1b[2Jb.md",
    "a\u202eb.md".encode(),
    "a\u200bb.md".encode(),
    b"\xff\xfe.md",
    b"a\\b.md",
]


@pytest.mark.parametrize("name", [*ODD, "a\u2028b.md".encode(), b"a\tb.md", b"a\x7fb.md"])
def test_a_name_that_cannot_be_shown_is_left_out(tree: Path, name: bytes) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tree) + b"/" + name)).write_text("x")
    except OSError:
        pytest.skip("this file system refuses the name")
    snapshot = ingest(tree)
    assert list(snapshot.files) == [KEPT]
    assert [entry.reason for entry in snapshot.left_out] == ["unsafe name"]
    (path,) = (entry.path for entry in snapshot.left_out)
    assert path.isprintable()
    path.encode("utf-8")


@pytest.mark.parametrize("name", ODD[:6])
def test_a_folder_whose_name_cannot_be_shown_is_not_entered(tree: Path, name: bytes) -> None:
    folder = Path(os.fsdecode(os.fsencode(tree) + b"/" + name))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system refuses the name")
    (folder / "in.md").write_text("x")
    snapshot = ingest(tree)
    assert list(snapshot.files) == [KEPT]
    assert left_out_counts(snapshot.left_out) == {"unsafe name": 1}


PLAIN = [
    "-n.md",
    "#x.md",
    "a;b.md",
    "$(touch PWNED).md",
    "`id`.md",
    "it's.md",
    'a"b.md',
    "a&b.md",
    "cd ...md",
    "my f.md",
]
PLAIN += ["é.md", "e\u0301.md", "日本.md", "x" * 252 + ".md", "a;touch${IFS}PWNED;.md", " .md", "*.md", "...md"]


@pytest.mark.parametrize("name", [name for name in PLAIN if not name.startswith(".")])
def test_a_name_is_data_whatever_it_means_to_a_shell(tree: Path, name: str) -> None:
    (tree / name).write_text("x")
    assert ingest(tree).files[name] == "x"
    assert sorted(path.name for path in tree.iterdir()) == sorted([name, KEPT])


def test_names_that_look_alike_stay_apart(tree: Path) -> None:
    names = ["É.md", "E\u0301.md", "Readme.md", "README.md"]
    for name in names:
        (tree / name).write_text(name)
    if len(list(tree.iterdir())) != 5:
        pytest.skip("this file system takes them for one")
    files = ingest(tree).files
    assert all(files[name] == name for name in names)


def test_what_may_not_be_read_is_reported(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser may read everything, so that the refusal is played."""
    (tree / "closed.md").write_text("x")
    (tree / "folder").mkdir()
    real = os.open

    def refuse(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if path in ("closed.md", "folder"):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(directory.os, "open", refuse)
    monkeypatch.setattr(directory.os, "supports_dir_fd", {refuse})
    snapshot = ingest(tree)
    assert list(snapshot.files) == [KEPT]
    assert reasons(snapshot) == {"closed.md": "unreadable", "folder/": "unreadable"}


def test_without_rights_for_the_folder_itself(tree: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    tree.chmod(0)
    try:
        with pytest.raises(SnapshotError, match="Check its path and rights"):
            ingest(tree)
    finally:
        tree.chmod(0o700)


def act_while_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], times: int) -> None:
    real, count = directory._bytes, [0]

    def read(number: int, most: int) -> bytes:
        data = real(number, most)
        if data.startswith(b"old") and count[0] < times:
            count[0] += 1
            act()
        return data

    monkeypatch.setattr(directory, "_bytes", read)


def replace(path: Path) -> None:
    path.with_suffix(".tmp").write_text("old2")
    path.with_suffix(".tmp").rename(path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda path: path.write_text("old and more"),
    "truncated": lambda path: os.truncate(path, 1),
    "rewritten": lambda path: path.write_text("old!"),
    "deleted": lambda path: path.unlink(),
    "replaced": replace,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_at_every_reading_is_dropped(
    tree: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = tree / "busy.md"
    path.write_text("old.")

    def act() -> None:
        time.sleep(0.02)  # time stamps of files are coarse
        if path.exists():
            CHANGES[change](path)

    act_while_reading(monkeypatch, act, times=99)
    snapshot = ingest(tree)
    if change == "truncated":  # the second reading finds "o", whole
        assert snapshot.files["busy.md"] == "o"
    else:
        assert list(snapshot.files) == [KEPT]
        assert reasons(snapshot) == {"busy.md": "changed while read"}


def test_a_file_that_changes_once_is_read_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "busy.md").write_text("old")

    def act() -> None:
        time.sleep(0.02)
        (tree / "busy.md").write_text("old, then new")

    act_while_reading(monkeypatch, act, times=1)
    assert ingest(tree).files["busy.md"] == "old, then new"


def test_a_file_that_vanishes_after_the_listing(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "gone.md").write_text("x")
    swap_after_listing(monkeypatch, (tree / "gone.md").unlink)
    assert reasons(ingest(tree)) == {"gone.md": "changed while read"}


def test_another_file_system_is_not_entered(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "mount").mkdir()
    inside = (tree / "mount").stat().st_ino
    real = os.fstat

    def fstat(number: int) -> os.stat_result:
        status = real(number)
        if status.st_ino != inside:
            return status
        return os.stat_result((*status[:2], status.st_dev + 1, *status[3:10]))

    monkeypatch.setattr(directory.os, "fstat", fstat)
    assert reasons(ingest(tree)) == {"mount/": "other file system"}


def test_time_is_bounded(tree: Path) -> None:
    with pytest.raises(SnapshotError, match=r"took longer than 1e-09 s.*raise max_seconds"):
        ingest(tree, IngestConfig(max_seconds=1e-9))


def test_hidden_names_are_left_out_unless_asked_for(tree: Path) -> None:
    for folder in (".github", ".git", ".GIT"):
        (tree / folder).mkdir(exist_ok=True)
        (tree / folder / "config.yml").write_text("x")
    (tree / ".hidden.md").write_text("x")
    assert list(ingest(tree).files) == [KEPT]
    snapshot = ingest(tree, IngestConfig(hidden=True))
    assert list(snapshot.files) == [".github/config.yml", ".hidden.md", KEPT]
    assert set(reasons(snapshot).values()) == {"hidden"}


def test_reading_the_same_tree_twice_gives_one_identity(tree: Path) -> None:
    assert ingest(tree).identity == ingest(tree).identity


def state(root: Path) -> tuple[object, ...]:
    """All that reading could change in the process and on the disk."""
    opened = sorted(Path("/dev/fd").iterdir()) if Path("/dev/fd").is_dir() else []
    disk = sorted((str(path), path.lstat().st_mtime_ns, path.lstat().st_size) for path in root.rglob("*"))
    return Path.cwd(), dict(os.environ), len(opened), disk, list(sys.path)


def test_nothing_is_changed(tree: Path) -> None:
    """Neither the working directory, the environment, the open files nor the disk, whatever the tree holds."""
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "c.py").write_text("x")
    os.mkfifo(tree / "pipe.md")
    link(tree / "a" / "link.md", "/etc/passwd")
    (tree / ".gitignore").write_text("*.log\n")
    before = state(tree)
    for _ in range(3):
        ingest(tree)
    assert state(tree) == before


def test_open_files_are_closed_after_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "a").mkdir()
    (tree / "a" / "b.md").write_text("x")

    def fail(number: int, most: int) -> bytes:
        raise KeyboardInterrupt

    before = state(tree)[2]
    monkeypatch.setattr(directory, "_bytes", fail)
    with pytest.raises(KeyboardInterrupt):
        ingest(tree)
    assert state(tree)[2] == before


def test_the_report_names_some_and_counts_all(tree: Path) -> None:
    for count in range(205):
        (tree / f"{count:03}.png").touch()
    left_out = ingest(tree).left_out
    assert len(left_out) == 201
    assert left_out[0] == LeftOut("000.png", "other type")
    assert left_out[-1] == LeftOut("", "other type: 5 more")
    assert left_out_counts(left_out) == {"other type": 205}


def test_a_missing_folder_is_named() -> None:
    with pytest.raises(SnapshotError, match=r"no folder or archive '/no/such'.*FOLDER@REVISION"):
        ingest("/no/such")
