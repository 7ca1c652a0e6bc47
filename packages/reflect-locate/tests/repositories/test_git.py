"""Reading a commit of a repository that somebody may have made to harm the reader."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reflect_locate.repositories.budget import Budget
from reflect_locate.repositories.git import GitRepository, is_revision
from reflect_locate.repositories.ingest import ingest, split_revision
from reflect_locate.repositories.ingest_config import IngestConfig
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

PERSON = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "2020-01-01T00:00:00Z"))
}


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **PERSON}
    command = ["git", "-c", "init.defaultBranch=main", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits; the working tree holds what neither of them has."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "src").mkdir()
    (folder / "src" / "code.py").write_text("old = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    (folder / "src" / "code.py").write_text("new = 2\n")
    (folder / "notes.md").write_text("notes\r\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "two")
    (folder / "src" / "code.py").write_text("uncommitted\n")
    (folder / "untracked.md").write_text("untracked\n")
    return folder


def reasons(snapshot: Snapshot) -> dict[str, str]:
    return {entry.path: entry.reason for entry in snapshot.left_out}


def commit_tree(folder: Path, *lines: str) -> str:
    """A commit whose tree has these `MODE KIND OBJECT\\tNAME` entries, as `git mktree` takes them."""
    tree = git(folder, "mktree", "-z", "--missing", stdin="".join(line + "\0" for line in lines).encode())
    return git(folder, "commit-tree", tree, "-m", "forged")


def blob(folder: Path, content: bytes) -> str:
    return git(folder, "hash-object", "-w", "--stdin", stdin=content)


def test_the_files_of_a_commit_not_of_the_working_tree(repository: Path) -> None:
    new = ingest(f"{repository}@HEAD")
    assert dict(new.files) == {"notes.md": "notes\n", "src/code.py": "new = 2\n"}
    assert dict(ingest(f"{repository}@HEAD~1").files) == {"src/code.py": "old = 1\n"}
    assert dict(ingest(f"{repository}@main").files) == dict(new.files)
    assert new.name == "project@" + git(repository, "rev-parse", "HEAD")[:12]


def test_nothing_in_the_repository_changes(repository: Path) -> None:
    def state() -> list[tuple[str, int, int]]:
        return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in repository.rglob("*"))

    before = state(), Path.cwd(), dict(os.environ)
    ingest(f"{repository}@HEAD~1")
    assert (state(), Path.cwd(), dict(os.environ)) == before


def test_a_bare_repository(repository: Path) -> None:
    bare = repository.parent / "project.git"
    git(repository, "clone", "-q", "--bare", ".", str(bare))
    snapshot = ingest(f"{bare}@main", name="p")
    assert list(snapshot.files) == ["notes.md", "src/code.py"]
    assert ingest(f"{bare}@main").name.startswith("project@")


BAD = [
    "--output=/tmp/x",
    "-n",
    "",
    "a b",
    "a\nb",
    "HEAD:src",
    ":/two",
    "main@{1}",
    "HEAD^{/two}",
    "a\0b",
    "x" * 300,
]


@pytest.mark.parametrize("revision", BAD)
def test_names_that_are_no_revisions_never_reach_git(
    repository: Path, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(command: list[str], **_: object) -> None:
        raise AssertionError(command)

    monkeypatch.setattr(subprocess, "Popen", start)
    assert not is_revision(revision)
    with pytest.raises(SnapshotError, match="is no revision"):
        GitRepository(repository).commit(revision)


@pytest.mark.parametrize(
    "revision", ["HEAD", "main~3", "v1.0^2", "feature/x_y-z", "0123abc", "ümlaut", "a=b+c#1,2", "fix(it's;$x)"]
)
def test_names_of_revisions(revision: str) -> None:
    assert is_revision(revision)


def test_an_unknown_revision_is_named(repository: Path) -> None:
    with pytest.raises(SnapshotError, match=r"has no commit 'nowhere'. `git log --all` lists"):
        ingest(f"{repository}@nowhere")


def test_a_folder_without_a_repository(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="is not a git repository"):
        ingest(f"{tmp_path}@HEAD")


def test_the_repositories_of_folders_above_are_not_looked_at(repository: Path) -> None:
    with pytest.raises(SnapshotError, match="is not a git repository"):
        ingest(f"{repository}/src@HEAD")


def test_variables_of_this_process_do_not_lead_git_elsewhere(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_TRACE", str(trace))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path))
    assert "notes.md" in ingest(f"{repository}@HEAD").files
    assert not trace.exists()


def test_links_and_submodules_of_a_commit_are_left_out(repository: Path) -> None:
    good = blob(repository, b"good")
    forged = commit_tree(
        repository,
        f"120000 blob {blob(repository, b'/etc/passwd')}\tlink.md",
        f"160000 commit {'1' * 40}\tmodule",
        f"100755 blob {good}\trun.sh",
    )
    snapshot = ingest(f"{repository}@{forged}")
    assert dict(snapshot.files) == {"run.sh": "good"}
    assert reasons(snapshot) == {"link.md": "symlink", "module": "submodule"}


def test_names_that_lead_out_of_a_forged_tree(repository: Path) -> None:
    """Git's own commands refuse to make such a tree; whoever writes objects by hand does not ask them."""
    good = blob(repository, b"good")
    inner = "".join(f"100644 blob {good}\t{name}\0" for name in ("evil.md",))
    folder = git(repository, "mktree", "-z", stdin=inner.encode())
    raw = b""
    for name, mode, entry in ((b"..", b"40000", folder), (b"good.md", b"100644", good), (b"ok", b"40000", folder)):
        raw += mode + b" " + name + b"\0" + bytes.fromhex(entry)
    tree = git(repository, "hash-object", "-t", "tree", "--literally", "-w", "--stdin", stdin=raw)
    forged = git(repository, "commit-tree", tree, "-m", "forged")
    snapshot = ingest(f"{repository}@{forged}")
    assert list(snapshot.files) == ["good.md", "ok/evil.md"]
    assert reasons(snapshot) == {"../evil.md": "unsafe name"}


@pytest.mark.parametrize("name", ["a\nb.md", "a\x1b[2J.md", "a\u202eb.md"])
def test_names_that_cannot_be_shown(repository: Path, name: str) -> None:
    good = blob(repository, b"good")
    forged = commit_tree(repository, f"100644 blob {good}\t{name}", f"100644 blob {good}\tz ok;$(id).md")
    snapshot = ingest(f"{repository}@{forged}")
    assert list(snapshot.files) == ["z ok;$(id).md"]
    assert list(reasons(snapshot).values()) == ["unsafe name"]


def test_the_rules_for_files_hold_for_commits(repository: Path) -> None:
    names = {
        "a.py": b"x = 1",
        ".hidden.md": b"x",
        "server.pem": b"x",
        "big.md": b"x" * 101,
        "bin.py": b"\0",
        "p.png": b"x",
    }
    forged = commit_tree(repository, *(f"100644 blob {blob(repository, data)}\t{name}" for name, data in names.items()))
    snapshot = ingest(f"{repository}@{forged}", IngestConfig(max_file_bytes=100))
    assert dict(snapshot.files) == {"a.py": "x = 1"}
    expected = {
        ".hidden.md": "hidden",
        "server.pem": "secret",
        "big.md": "too large",
        "bin.py": "binary",
        "p.png": "other type",
    }
    assert reasons(snapshot) == expected


def test_two_names_of_one_content(repository: Path) -> None:
    same = blob(repository, b"same\n")
    forged = commit_tree(repository, f"100644 blob {same}\ta.md", f"100644 blob {same}\tb.md")
    assert dict(ingest(f"{repository}@{forged}").files) == {"a.md": "same\n", "b.md": "same\n"}


def test_contents_that_look_like_answers_of_git(repository: Path) -> None:
    """Contents are cut out by their length, so that none can pass for the beginning of the next."""
    first, second = blob(repository, b"x\n" + b"0" * 40 + b" blob 3\nabc\n"), blob(repository, b"second")
    forged = commit_tree(repository, f"100644 blob {first}\ta.md", f"100644 blob {second}\tb.md")
    assert ingest(f"{repository}@{forged}").files["b.md"] == "second"


def test_a_tree_of_ten_billion_files(repository: Path) -> None:
    """Ten levels of ten names for one and the same folder take a few kilobytes (a "git bomb")."""
    entry = f"100644 blob {blob(repository, b'x')}\t"
    kind = "".join(f"{entry}{count}.md\0" for count in range(10))
    for _ in range(9):
        tree = git(repository, "mktree", "-z", stdin=kind.encode())
        kind = "".join(f"040000 tree {tree}\td{count}\0" for count in range(10))
    bomb = git(repository, "commit-tree", git(repository, "mktree", "-z", stdin=kind.encode()), "-m", "bomb")
    repository_ = GitRepository(repository)
    assert len(repository_.run("ls-tree", "-r", "-z", bomb, most=1_000_000)) == 1_000_000


def test_a_list_that_is_cut_gives_whole_paths_only(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = GitRepository.run

    def run(self: GitRepository, command: str, *arguments: str, most: int = 1000) -> bytes:
        return real(self, command, *arguments, most=80 if command == "ls-tree" else 1000)

    monkeypatch.setattr(GitRepository, "run", run)
    snapshot = ingest(f"{repository}@HEAD")  # each line has about 62 bytes
    assert list(snapshot.files) == ["notes.md"]
    assert reasons(snapshot) == {"./": "too many entries"}


def hostile(repository: Path, evidence: Path) -> None:
    """Settings that would each make some command of git run a program."""
    program = repository.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch '{evidence}'\n")
    program.chmod(0o755)
    keys = (
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.editor",
        "core.askPass",
        "core.alternateRefsCommand",
    )
    keys += (
        "diff.external",
        "filter.x.clean",
        "filter.x.smudge",
        "diff.x.textconv",
        "filter.lfs.process",
        "gpg.program",
    )
    keys += (
        "remote.origin.uploadpack",
        "credential.helper",
        "uploadpack.packObjectsHook",
        "alias.ls-tree",
        "alias.cat-file",
    )
    for key in keys:
        git(repository, "config", key, str(program) if not key.startswith("alias") else f"!{program}")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    for hook in ("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        shutil.copy(program, repository / ".git" / "hooks" / hook)


def test_a_hostile_configuration_runs_nothing(repository: Path) -> None:
    evidence = repository.parent / "PWNED"
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    hostile(repository, evidence)
    assert ingest(f"{repository}@HEAD").files["src/code.py"] == "new = 2\n"
    assert not evidence.exists()


def test_git_does_not_see_the_settings_of_a_repository(repository: Path) -> None:
    (repository / ".git" / "config").write_text("[no settings\n")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository, "rev-parse", "HEAD")
    assert "notes.md" in ingest(f"{repository}@HEAD").files


def test_an_object_that_is_missing_is_not_fetched(repository: Path) -> None:
    """In a partial clone git would fetch it, over whatever the configuration names."""
    evidence = repository.parent / "PWNED"
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    hostile(repository, evidence)
    name = git(repository, "rev-parse", "HEAD:notes.md")
    (repository / ".git" / "objects" / name[:2] / name[2:]).unlink()
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(repository),
    }.items():
        git(repository, "config", key, value)
    for url in (str(repository), f"ext::{repository.parent}/program", "ssh://localhost/x"):
        git(repository, "config", "remote.origin.url", url)
        snapshot = ingest(f"{repository}@HEAD")
        assert list(snapshot.files) == ["src/code.py"]
        assert reasons(snapshot) == {"notes.md": "missing object"}
        assert not evidence.exists()


def test_a_damaged_object_is_left_out(repository: Path) -> None:
    name = git(repository, "rev-parse", "HEAD:notes.md")
    path = repository / ".git" / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-5] + b"12345")
    snapshot = ingest(f"{repository}@HEAD")
    assert "notes.md" not in snapshot.files
    assert reasons(snapshot)["notes.md"] in ("missing object", "damaged")


def test_complaints_of_git_of_any_length_block_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program := tmp_path / "bin" / "git").parent.mkdir()
    program.write_text("#!/bin/sh\nhead -c 1000000 /dev/zero >&2\necho done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    assert GitRepository(repository).objects("--batch", [b"x"]) == b"done\n"


@pytest.mark.parametrize("batch", [1, 50_000_000])
@pytest.mark.parametrize("limit", [{"max_files": 3}, {"max_total_bytes": 6}])
def test_files_that_are_no_text_take_no_room(
    repository: Path, monkeypatch: pytest.MonkeyPatch, batch: int, limit: dict[str, int]
) -> None:
    monkeypatch.setattr("reflect_locate.repositories.git.BATCH_BYTES", batch)
    git(repository, "rm", "-rfq", ".")
    contents = {"a.md": b"\0a", "b.md": b"\0b", "c.md": b"cc", "d.md": b"dd", "e.md": b"ee", "f.md": b"ff"}
    for name, content in contents.items():
        (repository / name).write_bytes(content)
    git(repository, "add", *contents)
    git(repository, "commit", "-q", "-m", "three")
    (repository / "untracked.md").unlink()
    rules = IngestConfig(**limit)
    commit = ingest(f"{repository}@HEAD", rules)
    assert list(commit.files) == list(ingest(repository, rules).files) == ["c.md", "d.md", "e.md"]
    assert reasons(commit) == {"a.md": "binary", "b.md": "binary", "f.md": "over the limit of the snapshot"}


def test_git_that_takes_too_long_is_stopped(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    start = time.perf_counter()
    with pytest.raises(SnapshotError, match=r"took longer than 0\.2 s"):
        GitRepository(repository, Budget("x", seconds=0.2)).commit("HEAD")
    with pytest.raises(SnapshotError, match=r"took longer than 0\.2 s"):
        GitRepository(repository, Budget("x", seconds=0.2)).objects("--batch", [b"x"])
    assert time.perf_counter() - start < 300


class Ended(subprocess.Popen[bytes]):
    """A process that has come to its end before its caller can do anything to it."""

    def __init__(self, *words: object, **options: object) -> None:
        super().__init__(*words, **options)  # type: ignore[call-overload]
        self.wait()


@pytest.mark.skipif(os.name != "posix", reason="limits of memory are those of POSIX")
def test_the_memory_of_git_is_limited_before_git_starts(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program := tmp_path / "bin" / "git").parent.mkdir()
    program.write_text("#!/bin/sh\nulimit -Sd\nulimit -Hd\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(subprocess, "Popen", Ended)
    budget = Budget("", memory=300_000 * 1024)
    assert GitRepository(repository, budget).run("rev-parse").split() == [b"300000", b"300000"]


@pytest.mark.skipif(os.name != "posix", reason="limits of memory are those of POSIX")
def test_git_that_needs_more_memory_than_its_budget_is_refused(repository: Path) -> None:
    author = "a <a@example.org> 1577836800 +0000"
    words = f"tree {git(repository, 'rev-parse', 'HEAD:')}\nauthor {author}\ncommitter {author}\n\n"
    message = words.encode() + b"0" * 60_000_000  # 60 kB in the repository
    commit = git(repository, "hash-object", "-t", "commit", "-w", "--stdin", stdin=message)
    assert GitRepository(repository, Budget("")).commit(commit) == commit
    with pytest.raises(SnapshotError, match=r"git rev-parse failed in .*memory"):
        GitRepository(repository, Budget("", memory=30_000_000)).commit(commit)


def test_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SnapshotError, match="Install git"):
        ingest(f"{repository}@HEAD")


def test_a_source_with_an_at_sign(tmp_path: Path) -> None:
    folder = tmp_path / "a@b"
    folder.mkdir()
    assert split_revision(folder) == (folder, "")
    assert split_revision(f"{folder}@v1") == (folder, "v1")
    assert split_revision(f"{tmp_path}@") == (tmp_path, "HEAD")
    assert split_revision(f"{tmp_path}/none@v1") == (Path(f"{tmp_path}/none@v1"), "")
    assert split_revision(f"{folder}@vite@5.0.0") == (folder, "vite@5.0.0")
    assert split_revision("@none/x@1") == (Path("@none/x@1"), "")
    assert split_revision("@v1") == (Path(), "v1")
    assert split_revision(f"{tmp_path}@vite@5.0.0") == (tmp_path, "vite@5.0.0")


def test_a_tag_with_an_at_sign(repository: Path) -> None:
    git(repository, "tag", "vite@5.0.0", "HEAD~1")
    assert [path for path, _ in ingest(f"{repository}@vite@5.0.0").files.items()] == ["src/code.py"]


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A repository that the opened folder must not reveal."""
    folder = tmp_path / "private"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "word.md").write_text("a private word\n")  # a name that is not left out for itself
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "a private subject")
    return folder


def lead_by_file(opened: Path, private: Path) -> None:
    (opened / ".git").write_text(f"gitdir: {private}/.git\n")


def lead_by_link(opened: Path, private: Path) -> None:
    (opened / ".git").symlink_to(private / ".git")


def lead_by_common(opened: Path, private: Path) -> None:
    (opened / ".git").mkdir()
    (opened / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (opened / ".git" / "commondir").write_text(f"{private}/.git\n")


def _own(opened: Path, private: Path) -> Path:
    git(opened, "init", "-q")
    head = git(private, "rev-parse", "HEAD")
    (opened / ".git" / "HEAD").write_text(head + "\n")
    return opened / ".git" / "objects"


def lead_by_alternates(opened: Path, private: Path) -> None:
    (_own(opened, private) / "info" / "alternates").write_text(f"{private}/.git/objects\n")


def lead_by_quoted_alternates(opened: Path, private: Path) -> None:
    (_own(opened, private) / "info" / "alternates").write_text(f'"{private}/.git/objects"\n')


def lead_by_long_alternates(opened: Path, private: Path) -> None:
    (_own(opened, private) / "info" / "alternates").write_text("#\n" * 100_000 + f"{private}/.git/objects\n")


def lead_by_objects(opened: Path, private: Path) -> None:
    objects = _own(opened, private)
    shutil.rmtree(objects)
    objects.symlink_to(private / ".git" / "objects")


def lead_by_an_object(opened: Path, private: Path) -> None:
    objects = _own(opened, private)
    for folder in (private / ".git" / "objects").glob("??"):
        (objects / folder.name).mkdir()
        for name in folder.iterdir():
            (objects / folder.name / name.name).symlink_to(name)


def lead_by_two_links(opened: Path, private: Path) -> None:
    objects = _own(opened, private)
    (opened / "inside").mkdir()
    for folder in (private / ".git" / "objects").glob("??"):
        (objects / folder.name).symlink_to(opened / "inside" / folder.name)
        (opened / "inside" / folder.name).symlink_to(folder)


LEADS = [
    lead_by_file,
    lead_by_link,
    lead_by_common,
    lead_by_alternates,
    lead_by_quoted_alternates,
    lead_by_long_alternates,
    lead_by_objects,
    lead_by_an_object,
    lead_by_two_links,
]


@pytest.mark.parametrize("lead", LEADS)
def test_a_repository_that_leads_out_of_the_folder_is_refused(
    tmp_path: Path, private: Path, lead: Callable[[Path, Path], None]
) -> None:
    opened = tmp_path / "opened"
    opened.mkdir()
    lead(opened, private)
    with pytest.raises(SnapshotError) as caught:
        ingest(f"{opened}@HEAD")
    assert "private" not in str(caught.value) or "leads out of that folder" in str(caught.value)


def test_a_worktree_inside_the_opened_folder_is_read(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "inner", "-b", "inner")
    assert ingest(f"{repository}@inner").files["src/code.py"] == "new = 2\n"
    with pytest.raises(SnapshotError, match="name the repository that holds the objects"):
        ingest(f"{repository / 'inner'}@HEAD")


def test_a_configuration_that_includes_a_fifo_is_not_waited_for(repository: Path) -> None:
    os.mkfifo(repository / ".git" / "pipe")
    (repository / ".git" / "config").open("a").write("[include]\n\tpath = pipe\n")
    assert GitRepository(repository, Budget("x", seconds=5)).commit("HEAD") == git_head(repository)
    os.mkfifo(repository / ".git" / "refs" / "heads" / "pipe")
    with pytest.raises(SnapshotError, match="special file"):
        GitRepository(repository, Budget("x", seconds=5)).commit("HEAD")


def git_head(repository: Path) -> str:
    return (repository / ".git" / "refs" / "heads" / "main").read_text().strip()


def test_the_repository_of_another_user_runs_nothing_and_is_read(repository: Path) -> None:
    """Nobody's settings are read, so an owner of the files cannot do harm by them."""
    if os.geteuid():
        pytest.skip("only root gives files away")
    for path in [repository, *repository.rglob("*")]:
        os.chown(path, 12345, 12345)
    assert ingest(f"{repository}@HEAD").files["src/code.py"] == "new = 2\n"


def test_objects_named_by_sha256(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    git(folder, "init", "-q", "--object-format=sha256")
    (folder / "a.md").write_text("a\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "a")
    assert dict(ingest(f"{folder}@HEAD").files) == {"a.md": "a\n"}
