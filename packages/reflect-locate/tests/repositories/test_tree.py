"""What an episode sees of a snapshot."""

from __future__ import annotations

import pytest

from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree

SNAPSHOT = Snapshot(
    "five",
    {
        "readme.md": "root",
        "src/app.py": "first line\nsecond line\n",
        "src/lib/one.py": "1",
        "src/lib/two.py": "2",
        "src/library.py": "beside lib",
    },
)


def test_the_whole_snapshot_from_its_root():
    tree = Tree(SNAPSHOT)
    assert tree.paths == ("readme.md", "src/app.py", "src/lib/one.py", "src/lib/two.py", "src/library.py")
    assert (tree.folders(""), tree.files("")) == (("src",), ("readme.md",))
    assert (tree.folders("src"), tree.files("src")) == (("lib",), ("app.py", "library.py"))
    assert (tree.folders("src/lib"), tree.files("src/lib")) == ((), ("one.py", "two.py"))
    assert [tree.count(folder) for folder in ("", "src", "src/lib", "nowhere")] == [5, 4, 2, 0]


def test_a_root_is_a_folder_and_not_a_beginning_of_names():
    tree = Tree(SNAPSHOT, "src/lib")
    assert tree.paths == ("one.py", "two.py")
    assert tree.text("one.py") == "1"
    assert not tree.has_folder("..")
    assert tree.has_folder("")


def test_some_of_the_files_show_only_the_folders_on_their_way():
    tree = Tree(SNAPSHOT, "src", ["library.py", "lib/two.py"])
    assert (tree.folders(""), tree.files("")) == (("lib",), ("library.py",))
    assert tree.files("lib") == ("two.py",)
    assert tree.count("") == 2
    assert not Tree(SNAPSHOT, "src", ["app.py"]).has_folder("lib")


@pytest.mark.parametrize("path", ["nowhere.py", "../readme.md", "lib", "/etc/passwd", "app.py/", ""])
def test_files_that_the_snapshot_lacks_are_refused(path: str):
    with pytest.raises(ValueError, match="has no file"):
        Tree(SNAPSHOT, "src", [path])


def test_masked_spans_are_blank_and_lines_stay_where_they_are():
    tree = Tree(SNAPSHOT, "src", masks={"app.py": ((6, 17),)})
    assert tree.text("app.py") == "first     \n       line\n"
    assert tree.text("library.py") == "beside lib"
    assert SNAPSHOT.files["src/app.py"] == "first line\nsecond line\n"


def test_several_and_overlong_masks():
    tree = Tree(SNAPSHOT, "", masks={"readme.md": ((0, 1), (2, 99))})
    assert tree.text("readme.md") == " o  "


def test_an_empty_snapshot_has_a_root_with_nothing_in_it():
    tree = Tree(Snapshot("none", {}))
    assert (tree.paths, tree.folders(""), tree.files(""), tree.count("")) == ((), (), (), 0)
