"""Folders that may be asked about: which part of them a path names, and when they are read again."""

import os
import subprocess
import unicodedata
from dataclasses import replace

import pytest

from reflect_locate import served_folders
from reflect_locate.repositories.ingest import ingest
from reflect_locate.repositories.snapshot import SnapshotError
from reflect_locate.repositories.text_rules import ALL_TEXT
from reflect_locate.served_answers import SearchService
from reflect_locate.served_folders import ServedFolders
from reflect_rl.errors import UserError
from tiny_player import write_files


@pytest.fixture
def kettle(tmp_path):
    return write_files(tmp_path / "kettle")


@pytest.fixture
def stove(tmp_path):
    return write_files(tmp_path / "stove", {"gas/valve.md": "A valve.\n"})


def paths(library, path=""):
    return library.part(path).tree.paths


def test_without_a_path_the_only_root_is_meant(kettle):
    assert paths(ServedFolders([str(kettle)])) == ("README.md", "docs/guide.md", "src/clock.py", "src/limits.py")


@pytest.mark.parametrize("path", ["src", "src/", "./docs/../src", "/src"])
def test_a_folder_is_named_below_the_root(kettle, path):
    library = ServedFolders([str(kettle)])
    if path.startswith("/"):
        path = f"{kettle}{path}"
    assert paths(library, path) == ("clock.py", "limits.py")
    assert library.part(path).tree.prefix == "src/"


@pytest.mark.parametrize(
    "path", ["..", "../stove", "src/../../stove", "/", "/etc", "{kettle}/../stove", "{kettle}x", "../kettle2"]
)
def test_nothing_outside_of_the_root_can_be_named(kettle, stove, path):
    with pytest.raises(UserError, match="outside of what is served"):
        ServedFolders([str(kettle)]).part(path.format(kettle=kettle))


def test_a_link_that_leaves_the_root_leads_nowhere(kettle, stove):
    (kettle / "way_out").symlink_to(stove)
    with pytest.raises(UserError, match="no file or folder 'way_out'"):
        ServedFolders([str(kettle)]).part("way_out")


@pytest.mark.parametrize(
    ("path", "message"),
    [("nowhere", "no file or folder 'nowhere'"), ("a\0b", "folder")],
)
def test_what_is_no_file_or_folder_is_named(kettle, path, message):
    with pytest.raises(UserError, match=message):
        ServedFolders([str(kettle)]).part(path)


def test_an_accent_is_one_character_or_two(tmp_path):
    write_files(tmp_path / "kettle", {unicodedata.normalize("NFD", "übung/größe.md"): "# Eins\n"})
    library = ServedFolders([str(tmp_path / "kettle")])
    assert library.file_or_folder("übung/größe.md")[1].text == "# Eins\n"
    assert library.part("übung/größe.md").tree.prefix == unicodedata.normalize("NFD", "übung/")
    assert paths(library, "übung") == (unicodedata.normalize("NFD", "größe.md"),)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("node_modules/x/index.js", "excluded"),
        (".env", "secret"),
        ("big.c", "too large"),
        ("way_out/valve.md", "symlink"),
    ],
)
def test_what_is_left_out_is_told_with_its_reason(kettle, stove, path, reason):
    write_files(kettle, {"node_modules/x/index.js": "x\n", ".env": "TOKEN=x\n", "big.c": "x\n" * 600_000})
    (kettle / "way_out").symlink_to(stove / "gas")
    with pytest.raises(UserError, match=rf"with text in '.*kettle': it is left out \({reason}\)\.$"):
        ServedFolders([str(kettle)]).file_or_folder(path)


def test_of_several_roots_one_is_named(kettle, stove):
    library = ServedFolders([str(kettle), str(stove)])
    assert paths(library, "stove") == paths(library, str(stove)) == ("gas/valve.md",)
    assert paths(library, "kettle/docs") == ("guide.md",)
    with pytest.raises(UserError, match="several folders are served"):
        library.part()
    with pytest.raises(UserError, match="outside of what is served"):
        library.part("docs")


@pytest.fixture
def twins(tmp_path, monkeypatch):
    """Two folders `app`, with other texts under the same name."""
    for name in ("a", "b"):
        write_files(tmp_path / f"sv/{name}/app", {"same.py": f"NAME = {name!r}\n", "deep/x.py": "X = 1\n"})
    monkeypatch.chdir(tmp_path)
    return ["sv/a/app", "sv/b/app"]


@pytest.mark.parametrize("path", ["sv/b/app/same.py", "./sv/b/app/same.py", "sv/b/app/deep/../same.py"])
def test_a_root_is_named_as_it_was_given(twins, path):
    library = ServedFolders(twins)
    root, found = library.file_or_folder(path)
    assert (root, found.text) == (str(library.roots[1].place), "NAME = 'b'\n")


@pytest.mark.parametrize("path", ["sv/a/app/../../../etc", "sv/a/app/../../b", "sv/b"])
def test_behind_a_root_as_it_was_given_nothing_outside_can_be_named(twins, path):
    with pytest.raises(UserError, match="outside of what is served"):
        ServedFolders(twins).part(path)


def test_a_name_of_two_roots_is_refused(twins):
    message = r"^'app' is the name of 'sv/a/app' and 'sv/b/app': begin the path .*, as in 'sv/a/app/same\.py'\.$"
    with pytest.raises(UserError, match=message):
        ServedFolders(twins).file_or_folder("app/same.py")


def test_the_root_of_the_longest_source_is_meant(twins):
    library = ServedFolders(["sv", *twins, "sv/a/app/deep"])
    places = {"sv/a/app/deep": 3, "sv/a/app/same.py": 1, "sv/b": 0}
    assert {path: library.roots.index(library.part(path).root) for path in places} == places


def test_of_several_roots_the_present_folder_is_named_by_its_dot(twins, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "sv/a")
    library = ServedFolders([".", "../b/app"])
    places = {"./app": 0, "../b/app": 1, "app": 1, ".": 0}
    assert {path: library.roots.index(library.part(path).root) for path in places} == places


def test_a_revision_is_named_as_it_was_given_also_absolutely(kettle, stove):
    git(kettle, "init", "-q", "-b", "main")
    git(kettle, "add", ".")
    git(kettle, "commit", "-qm", "one")
    assert paths(ServedFolders([f"{kettle}@main", str(stove)]), f"{kettle}@main/docs") == ("guide.md",)


def test_the_innermost_root_is_meant(kettle):
    library = ServedFolders([str(kettle), str(kettle / "src")])
    assert library.part(str(kettle / "src")).root is library.roots[1]


def test_a_relative_root_is_found_by_its_absolute_path(kettle, monkeypatch):
    monkeypatch.chdir(kettle.parent)
    assert paths(ServedFolders(["kettle"]), str(kettle / "docs")) == ("guide.md",)


@pytest.mark.parametrize("rules", ["data/\n", "*\n!*/\n!src/**\n!.gitignore\ndata/\n"])
def test_an_ignored_folder_takes_no_part_of_the_look_for_changes(tmp_path, monkeypatch, rules):
    monkeypatch.setattr(served_folders, "MOST_ENTRIES", 10)
    ignored = {f"a/data/{number}.txt": "x" for number in range(20)}
    kettle = write_files(tmp_path / "kettle", {**ignored, "src/tea.py": "x = 1\n", ".gitignore": rules})
    library = ServedFolders([str(kettle)])
    before = library.part("").tree
    reads = []
    monkeypatch.setattr(served_folders, "ingest", lambda *words: reads.append(words) or ingest(*words))
    assert library.part("").tree is before
    assert reads == []
    (kettle / "src/tea.py").write_text("x = 22\n")
    assert library.part("").tree.text("src/tea.py") == "x = 22\n"


@pytest.mark.parametrize(
    ("rules", "file"),
    [
        (("/build",), "src/build/tea.py"),
        (("/build/",), "src/build/tea.py"),
        (("/tea.py",), "src/tea.py"),
        (("lib/build",), "build/tea.py"),
        (("tea.py/",), "tea.py"),
        (("build", "!src/build"), "src/build/tea.py"),
    ],
)
def test_a_rule_leaves_out_of_the_look_for_changes_only_what_it_leaves_out_of_the_answers(tmp_path, rules, file):
    kettle = write_files(tmp_path / "kettle", {file: "x = 1\n"})
    library = ServedFolders([str(kettle)], replace(ALL_TEXT, exclude=rules))
    assert library.part("").tree.text(file) == "x = 1\n"
    (kettle / file).write_text("x = 22\n")
    assert library.part("").tree.text(file) == "x = 22\n"


@pytest.mark.parametrize(("rule", "folder"), [("data", "a/data"), ("data/", "a/data"), ("tea.py", "a/tea.py")])
def test_what_a_rule_names_at_any_depth_takes_no_part_of_the_look_for_changes(tmp_path, monkeypatch, rule, folder):
    kettle = write_files(tmp_path / "kettle", {f"{folder}/1.txt": "x", "src/tea.md": "x = 1\n"})
    library = ServedFolders([str(kettle)], replace(ALL_TEXT, exclude=(rule,)))
    assert library.part("").tree.paths == ("src/tea.md",)
    monkeypatch.setattr(served_folders, "ingest", lambda *_: pytest.fail("read again"))
    (kettle / folder / "1.txt").write_text("yy")
    assert library.part("").tree.paths == ("src/tea.md",)


def test_a_folder_of_more_entries_than_are_looked_at_is_read_for_each_question(tmp_path, monkeypatch):
    monkeypatch.setattr(served_folders, "MOST_ENTRIES", 10)
    kettle = write_files(tmp_path / "kettle", {f"{number}.txt": "x" for number in range(20)})
    library = ServedFolders([str(kettle)])
    before = library.part("").tree
    assert library.part("").tree is before  # its texts are the same
    (kettle / "19.txt").write_text("y")
    assert library.part("").tree.text("19.txt") == "y"


def test_an_unchanged_folder_is_not_read_again(kettle):
    library = ServedFolders([str(kettle)])
    assert library.part().tree is library.part().tree


@pytest.mark.parametrize("change", ["edit", "add", "remove", "ignore"])
def test_a_changed_folder_is_read_again(kettle, change):
    library = ServedFolders([str(kettle)])
    before = library.part("src").tree
    if change == "edit":
        (kettle / "src/clock.py").write_text("NEW = 1\n")
    elif change == "add":
        (kettle / "src/third.py").write_text("")
    elif change == "remove":
        (kettle / "src/clock.py").unlink()
    else:
        (kettle / ".gitignore").write_text("clock.py\n")
    after = library.part("src").tree
    assert after is not before
    expected = {
        "edit": ("clock.py", "limits.py"),
        "add": ("clock.py", "limits.py", "third.py"),
        "remove": ("limits.py",),
        "ignore": ("limits.py",),
    }
    assert after.paths == expected[change]
    if change == "edit":
        assert after.text("clock.py") == "NEW = 1\n"


def git(folder, *words):
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_a_revision_is_read_again_when_it_names_another_commit(kettle):
    git(kettle, "init", "-q", "-b", "main")
    git(kettle, "add", ".")
    git(kettle, "commit", "-qm", "one")
    library = ServedFolders([f"{kettle}@main"])
    before = library.part().tree
    (kettle / "src/clock.py").unlink()
    assert library.part().tree is before
    git(kettle, "commit", "-qam", "two")
    assert library.part("src").tree.paths == ("limits.py",)


def test_a_touched_folder_keeps_its_tree_when_the_contents_are_the_same(kettle):
    library = ServedFolders([str(kettle)])
    before, snapshot = library.part().tree, library.roots[0].snapshot
    os.utime(kettle / "README.md", (1, 1))
    assert library.part().tree is before
    # A second one, which no tree holds, would take its memory again.
    assert library.roots[0].snapshot is snapshot


def test_a_link_that_was_pointed_elsewhere_is_followed(kettle, stove, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(kettle)
    library = ServedFolders([str(link)])
    assert library.file_or_folder("README.md")[0] == str(kettle)
    link.unlink()
    link.symlink_to(stove)
    for path in (str(stove / "gas"), str(link / "gas"), "gas"):
        assert library.file_or_folder(path)[0] == str(stove)
        assert paths(library, path) == ("valve.md",)
    with pytest.raises(UserError, match="outside of what is served"):
        library.part(str(kettle))


def test_a_link_to_files_of_the_same_sizes_and_times_is_followed(tmp_path):
    folders = [write_files(tmp_path / name, {"a.py": f"NAME = {name!r}\n"}) for name in ("one", "two")]
    for folder in folders:
        os.utime(folder / "a.py", (1, 1))
    link = tmp_path / "link"
    link.symlink_to(folders[0])
    library = ServedFolders([str(link)])
    link.unlink()
    link.symlink_to(folders[1])
    assert library.file_or_folder("a.py")[1].text == "NAME = 'two'\n"


def test_a_file_of_the_same_size_and_time_that_takes_the_place_of_another_is_read(tmp_path):
    """As an archive or a wheel is unpacked, whose files all have the time of the release."""
    folder = write_files(tmp_path / "kettle", {"version.py": 'VERSION = "1.2.3"\n'})
    os.utime(folder / "version.py", (1, 1))
    library = ServedFolders([str(folder)])
    new = write_files(tmp_path / "new", {"version.py": 'VERSION = "1.2.4"\n'}) / "version.py"
    os.utime(new, (1, 1))
    new.rename(folder / "version.py")
    assert library.file_or_folder("version.py")[1].text == 'VERSION = "1.2.4"\n'


def test_a_link_in_a_circle_is_an_error(kettle, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(kettle)
    library = ServedFolders([str(link)])
    link.unlink()
    link.symlink_to(link)
    with pytest.raises(SnapshotError, match="no folder or archive"):
        library.part()


def test_a_root_that_is_gone_is_an_error(kettle):
    library = ServedFolders([str(kettle)])
    for path in kettle.rglob("*.*"):
        path.unlink()
    with pytest.raises(SnapshotError, match="has no file to read"):
        library.part()


@pytest.mark.parametrize(("count", "message"), [(0, "no folder is named"), (2, "named twice")])
def test_roots_are_named_once(kettle, count, message):
    with pytest.raises(UserError, match=message):
        ServedFolders([str(kettle)] * count)


def test_the_index_is_kept_until_a_file_changes(kettle):
    library = ServedFolders([str(kettle)])
    before = library.index(library.part("src"))
    assert library.index(library.part("src")) is before
    (kettle / "src/clock.py").write_text("def wind_spring(): ...\n")
    after = library.index(library.part("src"))
    assert after is not before
    assert list(after.ask("wind the spring")[0].contents) == ["clock.py"]


def test_the_index_lies_in_the_cache_and_is_read_from_there(kettle, tmp_path):
    cache, notes = tmp_path / "cache", []
    for _ in range(2):
        library = ServedFolders([str(kettle)], cache=cache, tell=notes.append)
        assert list(library.index(library.part()).ask("descale with vinegar")[0].contents) == ["docs/guide.md"]
    assert len(list(cache.glob("*.sqlite"))) == 1
    assert notes == []


def test_a_damaged_cache_is_told_and_made_again(kettle, tmp_path):
    cache, notes = tmp_path / "cache", []
    library = ServedFolders([str(kettle)], cache=cache)
    library.index(library.part())
    library.roots[0].close()
    (place,) = cache.glob("*.sqlite")
    place.write_bytes(b"nonsense" * 1000)
    library = ServedFolders([str(kettle)], cache=cache, tell=notes.append)
    assert list(library.index(library.part()).ask("descale with vinegar")[0].contents) == ["docs/guide.md"]
    assert notes == [f"{kettle}: index rebuilt"]


def test_an_index_that_breaks_while_it_is_used_is_made_in_memory(kettle, tmp_path):
    cache = tmp_path / "cache"
    library = ServedFolders([str(kettle)], cache=cache)
    service = SearchService(library)
    library.index(library.part())
    (place,) = cache.glob("*.sqlite")
    # Every page but the first is overwritten, below an open connection.
    with place.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (place.stat().st_size - 4096))
    said = service.find_file("descale with vinegar", "", 5, lambda: False)
    assert said.files[0].path == "docs/guide.md"


def test_in_a_root_that_holds_a_folder_of_its_own_name_that_folder_is_meant(tmp_path, monkeypatch):
    write_files(tmp_path / "flask", {"flask/app.py": "app = 1\n", "docs/use.md": "# Use\n"})
    monkeypatch.chdir(tmp_path)
    library = ServedFolders(["flask"])
    assert paths(library, "flask") == ("app.py",)
    assert library.part("flask").tree.prefix == "flask/"
    assert library.file_or_folder("flask/app.py")[1].text == "app = 1\n"
    # Elsewhere its name still names the root.
    monkeypatch.chdir(tmp_path / "flask")
    assert paths(ServedFolders(["docs"]), "docs") == ("use.md",)


def test_what_is_left_out_is_told_as_it_is_now(kettle):
    library = ServedFolders([str(kettle)])
    assert "big.c" not in {entry.path for entry in library.part().tree.snapshot.left_out}
    write_files(kettle, {"big.c": "x\n" * 600_000})
    # No text has changed, and yet an answer is less sure: there is a file that was not read.
    assert "big.c" in {entry.path for entry in library.part().tree.snapshot.left_out}
    (kettle / "big.c").unlink()
    assert "big.c" not in {entry.path for entry in library.part().tree.snapshot.left_out}


def test_a_single_text_is_told_so_that_it_can_be_opened(kettle):
    text = kettle / "src/limits.py"
    service = SearchService(ServedFolders([str(text)]))
    for path in ("", str(text), "limits.py"):
        file = service.find_file("parse limit", path, 1, lambda: False)
        lines = service.find_passage("parse limit", path, 1, lambda: False)
        assert (
            (file.root, file.files[0].path) == (lines.root, lines.passages[0].path) == (str(text.parent), "limits.py")
        )
    assert service.what_is_in("limits.py", lambda: False).root == str(text.parent)


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_path_is_not_the_current_folder(kettle, empty):
    with pytest.raises(SnapshotError, match=r"the path is empty\. Name a folder"):
        ServedFolders([str(kettle), empty])
