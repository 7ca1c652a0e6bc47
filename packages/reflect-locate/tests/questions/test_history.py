"""Subjects of commits become questions about files, by their names in the snapshot; nothing of a repository runs."""

from __future__ import annotations

import pytest

from git_repository import HOUR, Repository
from reflect_locate.questions.commit_subjects import subject
from reflect_locate.questions.commits import HistoryError, commit_time, commits, paths_at, revision_before
from reflect_locate.questions.sources import history
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError
from reflect_rl.errors import UserError

LONG = "".join(f"line {number} of a file\n" for number in range(40))


@pytest.fixture
def repository(tmp_path):
    mine = Repository(tmp_path / "mine")
    mine.commit("Begin the whole thing", {"core.py": LONG, "web.py": LONG.upper(), "README.md": "hello\n"})
    return mine


def test_a_commit_to_one_file_is_a_question_about_it_with_its_time(repository):
    time = repository.commit("Let requests wait for their turn", {"core.py": LONG + "wait\n"})
    (entry,) = history.candidates(repository.folder, "HEAD~1", repository.snapshot("HEAD~1"), "HEAD")
    assert (entry.text, entry.target, entry.source) == ("Let requests wait for their turn", "core.py", "git1")
    assert (entry.span, entry.time) == (None, time)


def test_candidates_come_newest_first(repository):
    repository.commit("Let requests wait", {"core.py": "1"})
    repository.commit("Let answers wait", {"core.py": "2"})
    assert [text for _, _, text in repository.found()] == ["Let answers wait", "Let requests wait"]


def test_tests_and_change_logs_do_not_count_as_files_a_commit_is_about(repository):
    aside = {"tests/test_core.py": "t", "src/core_test.py": "t", "CHANGES.rst": "c", "newsfragments/7.misc": "n"}
    repository.commit("Let requests wait", {"core.py": "1", **aside})
    assert repository.found() == [("gitN", "core.py", "Let requests wait")]


@pytest.mark.parametrize("files", [{"tests/test_core.py": "1"}, {"CHANGES.md": "1"}, {}])
def test_a_commit_to_no_file_that_counts_is_dropped(repository, files):
    repository.commit("Let requests wait", files)
    assert repository.found() == []


def test_a_commit_to_two_or_three_files_is_a_question_that_any_of_them_answers(repository):
    repository.commit("Let requests wait", {"web.py": "1", "core.py": "1", "tests/test_core.py": "1"})
    (entry,) = history.candidates(repository.folder, "HEAD~1", repository.snapshot("HEAD~1"), "HEAD")
    assert (entry.target, entry.others, entry.source) == ("core.py", ("web.py",), "gitN")
    repository.commit("Let all of them wait", dict.fromkeys(("core.py", "web.py", "README.md"), "2"))
    assert repository.found()[0] == ("gitN", "README.md", "Let all of them wait")
    repository.commit("Let more than all wait", dict.fromkeys(("core.py", "web.py", "README.md", "new.py"), "3"))
    assert len(repository.found()) == 2


def test_a_removed_or_new_file_is_no_target_but_counts_as_touched(repository):
    repository.commit("Drop the old web part", {"web.py": None})
    assert repository.found() == []
    repository.commit("Let requests wait", {"core.py": "1", "README.md": None, "line.py": "1"})
    assert repository.found() == [("gitN", "core.py", "Let requests wait")]
    repository.commit("Let answers wait", {"core.py": "2", **{f"line{number}.py": "1" for number in range(3)}})
    assert len(repository.found()) == 1


def test_the_first_commit_and_empty_repositories_give_nothing(tmp_path):
    mine = Repository(tmp_path / "mine")
    mine.commit("Begin with one file only", {"core.py": "1"})
    assert mine.found() == []


def test_renames_are_followed_to_the_name_in_the_snapshot(repository):
    repository.commit("Let requests wait", {"core.py": LONG + "1\n"})
    repository.commit("Move all code into a folder", {"core.py": None, "src/core.py": LONG + "1\n"})
    repository.commit("Count what waits", {"src/core.py": LONG + "1\n2\n"})
    repository.commit("Name the queue", {"src/core.py": None, "src/queue.py": LONG + "1\n2\n3\n"})
    assert repository.found() == [
        ("git1", "core.py", "Name the queue"),
        ("git1", "core.py", "Count what waits"),
        ("git1", "core.py", "Let requests wait"),
    ]
    assert past(repository) == [
        ("src/queue.py", "Name the queue"),
        ("src/queue.py", "Count what waits"),
        ("src/queue.py", "Let requests wait"),
    ]


def past(repository):
    """(file, subject) of each commit before the newest tree, by the names there."""
    known = history.past_commits(repository.folder, "HEAD", paths_at(repository.folder, "HEAD"), 10)
    return [(entry.main[0], entry.subject) for entry in known if entry.main]


def test_all_renames_of_one_commit_are_followed(repository):
    repository.commit("Let requests wait", {"core.py": LONG + "1\n"})
    repository.commit("Draw the page at once", {"web.py": LONG.upper() + "1\n"})
    repository.git("mv", "core.py", "third.py")
    repository.git("mv", "web.py", "second.py")
    repository.commit("Move both")
    assert set(past(repository)) == {("second.py", "Draw the page at once"), ("third.py", "Let requests wait")}


def test_a_path_that_was_another_file_once_is_not_blamed_for_it(repository):
    repository.commit("Let requests wait", {"core.py": LONG + "1\n"})
    repository.commit("Rid us of it", {"core.py": None})
    repository.commit("Begin to paint", {"core.py": "white\n"})
    repository.commit("Paint the walls in blue", {"core.py": "blue\n"})
    assert past(repository) == [("core.py", "Paint the walls in blue")]
    assert repository.found() == [("git1", "core.py", "Let requests wait")]


def test_a_rename_without_a_change_is_no_question(repository):
    repository.git("mv", "core.py", "queue.py")
    repository.commit("Give the core its name")
    assert repository.found() == []


def test_merges_are_dropped_and_what_they_merge_is_read(repository):
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("Let requests wait", {"core.py": LONG + "1\n"})
    repository.git("checkout", "-q", "main")
    repository.commit("Draw the page at once", {"web.py": "1"})
    repository.hours += 1
    repository.git("merge", "-q", "--no-ff", "-m", "Join both lines of work", "side")
    assert sorted(text for _, _, text in repository.found()) == ["Draw the page at once", "Let requests wait"]


@pytest.mark.parametrize(
    "author", ["dependabot[bot] <x@users.noreply.github.com>", "Renovate <bot@renovateapp.com>", "ci <pre-commit-ci@x>"]
)
def test_programs_ask_nothing(repository, author):
    repository.commit("Let requests wait", {"core.py": "1"}, author=author)
    assert repository.found() == []


def test_cosmetics_of_a_readme_are_dropped_and_its_news_are_kept(repository):
    repository.commit("Removed a double period", {"README.md": "1"})
    repository.commit("Explain how to train on two machines", {"README.md": "2"})
    assert repository.found() == [("git1", "README.md", "Explain how to train on two machines")]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Keep cookies of redirects (#123)", "Keep cookies of redirects"),
        ("Keep cookies of redirects (#12, #13)", "Keep cookies of redirects"),
        ("feat(client)!: keep cookies of redirects", "keep cookies of redirects"),
        ("[core] fix: Keep cookies of redirects", "Keep cookies of redirects"),
        (":bug: Keep cookies of redirects. Fixes #9.", "Keep cookies of redirects"),
        ("ABC-12: Keep cookies of redirects", "Keep cookies of redirects"),
        ("Keep cookies, closes gh-77", "Keep cookies"),
        ("Keep   cookies\nof redirects", "Keep cookies of redirects"),
        ("Raise an error for issue numbers below 1", "Raise an error for issue numbers below 1"),
        ("docs: Explain white space in templates", "Explain white space in templates"),
    ],
)
def test_marks_of_tools_are_stripped(said, meant):
    assert subject(said) == meant


@pytest.mark.parametrize(
    "said",
    [
        'Revert "Keep cookies of redirects"',
        "Merge pull request #3 from ada/main",
        "Merged branch main into feature",
        "fixup! Keep cookies",
        "Bump urllib3 from 1.2 to 1.3",
        "Update dependencies of the docs",
        "v2.1.0",
        "Release 3.0",
        "Prepare for the 3.0 release",
        "fix: typo in the docstring of the session",
        "Fix lint errors",
        "Remove unused imports from the client",
        "pep8",
        "Reformat with the new style",
        "chore: something that sounds like work",
        "ci(linux): run it all twice",
        "[core] style: put the braces elsewhere",
        "Run the tests on travis too",
        "Update changelog for the next version",
        "Address review comments",
    ],
)
def test_subjects_that_say_nothing_about_a_file_are_dropped(said):
    assert subject(said) == ""


def test_odd_names_are_names(repository):
    names = ["-n.py", "a b.py", "$(touch gone).py", "über.py", "two\nlines.py", "tab\t.py", '"quoted".py', ":x.py"]
    repository.commit("Add the odd ones", {name: str(number) for number, name in enumerate(names)})
    base = repository.git("rev-parse", "HEAD")
    for number, name in enumerate(names):
        repository.commit(f"Change number {number} of the odd ones", {name: f"{number}, changed"})
    assert {target for _, target, _ in repository.found(base)} == set(names)
    assert not (repository.folder / "gone").exists()


def test_names_that_are_no_text_are_read_past(repository):
    (repository.folder / "\udcff.py").write_text("1")
    repository.commit("Let requests wait", {"core.py": "1"})
    repository.commit("Count what waits", {"core.py": "2"})
    assert "\udcff.py" in paths_at(repository.folder, "HEAD")
    (entry,) = history.candidates(repository.folder, "HEAD~1", Snapshot("mine", {"core.py": ""}), "HEAD")
    assert entry.text == "Count what waits"


def test_links_and_submodules_are_no_files(repository):
    (repository.folder / "link.py").symlink_to("core.py")
    repository.commit("Point to the core of the thing")
    assert "link.py" not in paths_at(repository.folder, "HEAD")
    assert repository.found() == []


def test_a_hostile_configuration_runs_nothing(repository, tmp_path, monkeypatch):
    repository.commit("Let requests wait", {"core.py": LONG + "1\n", ".gitattributes": "*.py diff=evil filter=evil\n"})
    repository.commit("Count what waits", {"core.py": None, "queue.py": LONG + "1\n2\n"})
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> '{ran}'\ncat\n")
    program.chmod(0o755)
    for key in (
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "core.askPass",
        "pager.rev-list",
        "pager.diff-tree",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "credential.helper",
        "alias.rev-list",
        "alias.diff-tree",
    ):
        repository.git("config", key, ("!" if key.startswith("alias") else "") + str(program))
    repository.git("config", "log.showSignature", "true")
    hooks = repository.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "post-checkout", "fsmonitor-watchman", "pre-auto-gc"):
        (hooks / name).write_text(program.read_text())
        (hooks / name).chmod(0o755)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(program))
    monkeypatch.setenv("GIT_PAGER", str(program))
    ran.unlink(missing_ok=True)
    assert past(repository)[0] == ("queue.py", "Count what waits")
    history_of_two = history.candidates(repository.folder, "HEAD~1", repository.snapshot("HEAD~1"), until="HEAD")
    assert [entry.target for entry in history_of_two] == ["core.py"]
    assert not ran.exists(), ran.read_text()
    repository.git("diff", "HEAD~1", "HEAD")  # the trap does snap
    assert ran.exists()


def test_a_revision_is_never_an_option(repository, tmp_path):
    for revision in (f"--output={tmp_path / 'out'}", "-h", "main --all", "HEAD^{/x}", "absent"):
        with pytest.raises(UserError, match=r"revision|commit"):
            commits(repository.folder, revision)
    assert not (tmp_path / "out").exists()


def test_a_folder_inside_a_repository_is_none(repository):
    (repository.folder / "inner").mkdir()
    with pytest.raises(SnapshotError, match="top folder"):
        commits(repository.folder / "inner", "HEAD")


def test_variables_of_the_caller_do_not_lead_elsewhere(repository, tmp_path, monkeypatch):
    repository.commit("Let requests wait", {"core.py": "1"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "absent"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "absent"))
    assert len(commits(repository.folder, "HEAD")) == 2


def test_a_mirror_without_contents_is_read_by_names_and_fetches_nothing(repository, tmp_path):
    repository.commit("Let requests wait", {"core.py": LONG + "1\n"})
    repository.commit("Draw the page at once", {"web.py": LONG.upper() + "1\n"})
    repository.git("mv", "web.py", "page.py")
    repository.commit("Call it a page")
    repository.commit("Name what waits", {"core.py": None, "line.py": LONG + "1\n2\n"})
    repository.git("config", "uploadpack.allowFilter", "true")
    mirror = tmp_path / "mirror.git"
    repository.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{repository.folder}", str(mirror))
    assert repository.found() == [
        ("git1", "core.py", "Name what waits"),
        ("git1", "web.py", "Draw the page at once"),
        ("git1", "core.py", "Let requests wait"),
    ]
    # Equal contents are known by their names; that `line.py` once was `core.py` cannot be seen from here.
    first = repository.git("rev-list", "--max-parents=0", "HEAD")
    found = history.candidates(mirror, first, repository.snapshot(first), "HEAD")
    assert [(entry.target, entry.text) for entry in found] == [
        ("web.py", "Draw the page at once"),
        ("core.py", "Let requests wait"),
    ]
    listed = repository.git("-C", str(mirror), "rev-list", "--objects", "--all", "--missing=print").splitlines()
    # No content is here: two versions of core.py and of web.py, line.py and README.md.
    assert sum(line.startswith("?") for line in listed) == 6


def test_a_shallow_clone_does_not_take_its_edge_for_a_change(repository, tmp_path):
    repository.commit("Let requests wait", {"core.py": LONG + "1\n"})
    repository.commit("Count what waits", {"core.py": LONG + "2\n"})
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--depth=2", f"file://{repository.folder}", str(clone))
    found = history.past_commits(clone, "HEAD", ["core.py"], 10)
    assert [entry.subject for entry in found] == ["Count what waits"]


def test_a_longer_history_than_git_may_tell_is_read_in_part(repository, monkeypatch):
    for number in range(20):
        repository.commit(f"Let {number} requests wait", {"core.py": str(number)})
    whole = repository.found()
    monkeypatch.setattr("reflect_locate.questions.commits.MOST_BYTES", 900)
    part = repository.found()
    assert 0 < len(part) < len(whole)
    assert part == whole[: len(part)]
    assert len(repository.found(most=5)) == 5


def by_hand(repository):
    """Ten usable commits (and some others), the last two after a rename; times of the ten."""
    times = [repository.commit(f"Let {number} requests wait", {"core.py": LONG + f"{number}\n"}) for number in range(8)]
    repository.commit("Bump it all", {"core.py": LONG + "bump\n"})
    repository.git("mv", "core.py", "queue.py")
    times.append(repository.commit("Name the queue of requests", {"queue.py": LONG + "new\n"}))
    times.append(repository.commit("Count what waits there", {"queue.py": LONG + "newer\n"}))
    return times


def test_the_tree_before_the_newest_fifth_is_that_of_the_commit_before_it(repository):
    times = by_hand(repository)
    (found,) = history.earlier_revisions(repository.folder, [0.2])
    # 10 usable commits, a fifth is 2; the commit before them is the bump.
    assert found == repository.git("rev-parse", "HEAD~2")
    assert commit_time(repository.folder, found) == times[7] + HOUR
    several = history.earlier_revisions(repository.folder, [0.25, 0.29, 0.5])  # 2.5 and 2.9 are 3
    assert several == [repository.git("rev-parse", "HEAD~4"), repository.git("rev-parse", "HEAD~6")]
    with pytest.raises(ValueError, match=r"a share is 1\.5"):
        history.earlier_revisions(repository.folder, [0.2, 1.5])


def test_later_commits_are_questions_under_the_names_of_the_snapshot(repository):
    times = by_hand(repository)
    (base,) = history.earlier_revisions(repository.folder, [0.2])
    old = repository.snapshot(base)
    later = list(history.candidates(repository.folder, base, old, until="HEAD"))
    assert [(entry.target, entry.time) for entry in later] == [("core.py", times[9]), ("core.py", times[8])]
    assert commit_time(repository.folder, base) < min(entry.time for entry in later)


def test_files_that_came_after_the_snapshot_are_no_targets(repository):
    base = repository.git("rev-parse", "HEAD")
    repository.commit("Give it a second face", {"face.py": "1"})
    repository.commit("Paint the second face", {"face.py": "2"})
    repository.commit("Rid us of the web", {"web.py": None})
    repository.commit("Begin the web anew", {"web.py": "anew"})
    repository.commit("Spin the new web", {"web.py": "spun"})
    repository.commit("Rid us of the page", {"README.md": None})
    repository.git("mv", "face.py", "README.md")
    repository.commit("Show the face first")
    repository.commit("Turn the face around", {"README.md": "ecaf"})
    repository.commit("Let requests wait", {"core.py": "1"})
    assert repository.found(base) == [("git1", "core.py", "Let requests wait")]


def test_an_old_commit_that_was_merged_late_is_not_asked_about(repository):
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("Let requests wait", {"core.py": LONG + "1\n"})
    repository.git("checkout", "-q", "main")
    repository.commit("Draw the page at once", {"web.py": "1"})
    base = repository.git("rev-parse", "HEAD")
    repository.hours += 1
    repository.git("merge", "-q", "--no-ff", "-m", "Join both lines of work", "side")
    repository.commit("Draw the page twice", {"web.py": "2"})
    assert repository.found(base) == [("git1", "web.py", "Draw the page twice")]


def test_a_commit_dated_after_the_last_one_is_left_out(repository):
    repository.hours = 100
    repository.commit("Let requests wait", {"core.py": "1"})
    repository.hours = 50
    repository.commit("Count what waits", {"core.py": "2"})
    assert repository.found() == [("git1", "core.py", "Count what waits")]


def test_a_history_without_usable_commits_cannot_be_split(repository):
    with pytest.raises(HistoryError, match="too short"):
        history.earlier_revisions(repository.folder, [0.2])


def test_commits_know_their_parents_and_changes(repository):
    repository.commit("Let requests wait\n\nBecause they must.", {"core.py": "1", "web.py": None, "new.py": "x"})
    newest, first = commits(repository.folder, "HEAD")
    assert (newest.parents, first.parents) == (1, 0)
    assert (newest.subject, newest.author) == ("Let requests wait", "Ada <ada@example.org>")
    assert {(change.kind, change.path) for change in newest.changes} == {
        ("M", "core.py"),
        ("D", "web.py"),
        ("A", "new.py"),
    }


@pytest.mark.parametrize("date", ["-5 +0000", "abc +0000", "+0000", "", "9" * 20 + " +0000", "9" * 5000 + " +0000"])
def test_a_commit_with_a_damaged_date_is_old_and_spoils_no_other(repository, date):
    repository.commit("Whistle when the kettle boils", files={"core.py": "a = 2\n"})
    raw = repository.git("cat-file", "commit", "HEAD")
    damaged = "\n".join(
        f"committer Ada <ada@example.org> {date}".rstrip() if line.startswith("committer ") else line
        for line in raw.split("\n")
    )
    name = repository.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", given=damaged + "\n")
    (repository.folder / ".git/refs/heads/main").write_text(f"{name}\n")
    times = [repository.commit(f"Warm the kettle {number}", files={"core.py": f"b = {number}\n"}) for number in (3, 4)]
    found = {commit.name: commit.time for commit in commits(repository.folder, "HEAD")}
    assert found[name] == commit_time(repository.folder, name) == 0
    assert {*times} <= set(found.values())
    # The lines of the commits around it keep their times.
    assert commit_time(repository.folder, revision_before(repository.folder, "HEAD", times[1])) == times[0]
    assert revision_before(repository.folder, "HEAD", times[0]) == name
