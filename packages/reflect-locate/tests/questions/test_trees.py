"""Trees cut to a depth and a size."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from reflect_locate.questions.task_set import Question
from reflect_locate.questions.trees import count_below, files_below, root_at, sample_tree
from reflect_locate.repositories.snapshot import Snapshot

# Ten folders of ten files, and one folder of a hundred.
PATHS = [f"lib/f{folder}/{name}.py" for folder in range(10) for name in range(10)]
PATHS += [f"lib/large/{name}.py" for name in range(100)]
FILES = Snapshot("many", {path: path for path in [*PATHS, "lib.py", "lib2/x.py"]})
TARGET = "lib/f3/7.py"
ASKED = Question("many/0", "where", "many", "many", (TARGET,), "symdoc", spans={TARGET: ((0, 3),)})


@pytest.mark.parametrize(
    ("path", "depth", "expected"),
    [("a.py", 0, ""), ("a.py", 1, None), ("a/b/c.py", 0, "a/b"), ("a/b/c.py", 1, "a"), ("a/b/c.py", 2, "")],
)
def test_the_root_is_that_many_folders_above_the_file(path: str, depth: int, expected: str | None):
    assert root_at(path, depth) == expected


def test_files_below_a_folder_are_not_those_beside_it():
    assert list(files_below(FILES, "lib/f3")) == sorted(f"lib/f3/{name}.py" for name in range(10))
    assert (count_below(FILES, "lib"), count_below(FILES, ""), count_below(FILES, "li")) == (200, 202, 0)


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_a_tree_has_its_size_holds_the_target_and_at_most_a_third_from_one_folder(size: int):
    for seed in range(20):
        tree = sample_tree(ASKED, FILES, "lib", size, np.random.default_rng(seed))
        assert len(tree.paths) == size
        assert "f3/7.py" in tree.paths
        assert max(Counter(path.rpartition("/")[0] for path in tree.paths).values()) <= size // 3


def test_where_there_are_too_few_folders_the_rest_comes_from_anywhere():
    tree = sample_tree(ASKED, FILES, "lib/f3", 8, np.random.default_rng(0))
    assert len(tree.paths) == 8
    assert "7.py" in tree.paths


def test_a_size_of_none_and_a_small_repository_give_all_files():
    whole = sample_tree(ASKED, FILES, "lib", None, np.random.default_rng(0))
    assert len(whole.paths) == 200
    assert sample_tree(ASKED, FILES, "lib/f3", 10, np.random.default_rng(0)).paths == tuple(
        f"{name}.py" for name in range(10)
    )


def test_one_generator_state_gives_one_tree():
    trees = [sample_tree(ASKED, FILES, "lib", 16, np.random.default_rng(seed)).paths for seed in (1, 1, 2)]
    assert trees[0] == trees[1] != trees[2]


def test_the_target_is_no_likelier_than_any_other_file_of_its_tree_to_be_first_or_in_the_largest_folder():
    # Every file of the root is asked about equally often: how often is the target's folder a largest one of its tree?
    # If the target did not stand out, this happened as often as a file drawn from the tree lies in such a folder.
    target_in_largest, any_in_largest, total = 0, 0.0, 0
    for number, path in enumerate(PATHS):
        question = Question(f"q{number}", "where", "many", "many", (path,), "symdoc")
        tree = sample_tree(question, FILES, "lib", 16, np.random.default_rng(number))
        counts = Counter(p.rpartition("/")[0] for p in tree.paths)
        largest = max(counts.values())
        in_largest = sum(count for count in counts.values() if count == largest)
        target_in_largest += counts[path.split("/")[1]] == largest
        any_in_largest += in_largest / len(tree.paths)
        total += 1
    assert abs(target_in_largest / total - any_in_largest / total) < 0.1


def test_the_sentence_is_masked_in_the_hard_variant_only():
    rng = np.random.default_rng
    assert sample_tree(ASKED, FILES, "lib", 8, rng(0)).text("f3/7.py") == TARGET
    assert sample_tree(ASKED, FILES, "lib", 8, rng(0), hard=True).text("f3/7.py") == "   /f3/7.py"
