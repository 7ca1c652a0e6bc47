"""Purpose of a file, as far as its path tells, and words of a question that asks for tests."""

from __future__ import annotations

import re

DOCUMENTS = (".md", ".markdown", ".rst", ".txt", ".adoc")
TEST_FOLDERS = frozenset(("test", "tests", "testsuite", "spec", "specs", "__tests__", "testdata"))
CHANGES = re.compile(
    r"(?:^|/)(?:changes?|change-?log|history|news|releases?|release[-_]notes)(?:/|\.\w+$|$)", re.IGNORECASE
)
TESTS = re.compile(
    r"\b(?:tests|tested|(?:which|what|whose|unit|integration|regression)[ _-]tests?"
    r"|test[ _-](?:for|of|that|cases?|suites?|files?|modules?))\b",
    re.IGNORECASE,
)
"""Words of a question that asks for tests. `test` alone is often a name: a test split, a test client."""
TEST_FILE = re.compile(r"^(?:tests?_.*|.*_tests?|conftest|tests?|.*[.-](?:test|spec))\.\w+$", re.IGNORECASE)


def is_test(path: str) -> bool:
    """Tell whether a file is a test, or made for tests.

    >>> is_test("a/tests/data.json"), is_test("src/parser_test.go"), is_test("src/contest.py")
    (True, True, False)
    """
    # Whole names only: `contest.py` and `latest/` are no tests.
    *folders, name = path.split("/")
    return not TEST_FOLDERS.isdisjoint(folder.lower() for folder in folders) or bool(TEST_FILE.match(name))


def is_document(path: str) -> bool:
    """Tell whether a file is prose.

    >>> is_document("docs/Guide.MD"), is_document("docs/conf.py")
    (True, False)
    """
    return path.lower().endswith(DOCUMENTS)


def is_change_note(path: str) -> bool:
    """Tell whether a file says what changed in each version.

    >>> is_change_note("NEWS.md"), is_change_note("docs/releases/v1.rst"), is_change_note("docs/changes_of_mind.md")
    (True, True, False)
    """
    return bool(CHANGES.search(path))
