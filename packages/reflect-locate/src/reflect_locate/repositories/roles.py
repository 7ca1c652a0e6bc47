"""Purpose of a file, as far as its path tells, and words of a question that asks for tests."""

from __future__ import annotations

import re

DOCUMENTS = (".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".asc")
DATA = (".json", ".jsonl", ".ndjson", ".geojson", ".csv", ".tsv", ".lock", ".svg")
"""Endings of values that programs read and write; YAML and TOML mostly hold settings that people write."""
TRANSLATIONS = (".po", ".pot", ".xlf", ".xliff")
"""Endings of texts that repeat what a program says, in other languages."""
NO_PROSE = re.compile(
    r"(?:^|/)(?:CMakeLists|(?:dev|test|tests|docs?|build|ci|lint)?[-_.]?requirements(?:[-_.](?:dev|test|tests|docs?|build|ci"
    r"|lint|base|prod|all|optional))?|constraints|robots)\.txt$|(?:^|/)requirements/[\w.-]+\.txt$",
    re.IGNORECASE,
)
"""Settings that are named like prose."""
SETTINGS = re.compile(
    r"(?:^|/)(?:package|composer|bower|deno|vendor|vcpkg|manifest|angular|lerna|nx|turbo|biome|global"
    r"|(?:tsconfig|jsconfig|appsettings)(?:\.[\w-]+)*)\.json$",
    re.IGNORECASE,
)
"""Settings that people write in a format of data."""
TEST_SHARE = 0.7
"""Factor of the score of a test. Tests repeat the words of what they test, often more of them and closer together,
and who asks where something is done wants the source."""
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
TESTS_ALONE = re.compile(
    r"\W*(?:(?:where (?:is|are)|find|show|the|all|unit|integration|regression)\W+)*tests\b"
    r"|\W*(?:which|what)\W+(?:(?:unit|integration|regression)\W+)?tests?\W+"
    r"(?:are|is|check|cover|exercise|exist|fail|for|of|run|use|verif(?:y|ie))s?\b",
    re.IGNORECASE,
)
"""Beginning of a question for tests and nothing else."""
TEST_PROJECT = re.compile(r".*\.(?:unit|integration|functional|acceptance)?tests?|(?-i:[a-z0-9]+Test)", re.IGNORECASE)
"""Folder of tests in C# (`Shop.Tests`) and Gradle (`androidTest`)."""
TEST_FILE = re.compile(
    r"^(?:tests?_.*|.*_tests?|conftest|tests?|.*[.-](?:test|spec)|(?-i:.*[a-z0-9]Tests?))\.\w+$", re.IGNORECASE
)


def is_test(path: str) -> bool:
    """Tell whether a file is a test, or made for tests.

    >>> is_test("a/tests/data.json"), is_test("src/parser_test.go"), is_test("src/contest.py")
    (True, True, False)
    >>> is_test("Shop.Tests/Setup.cs"), is_test("src/KettleTest.java"), is_test("src/Contest.java")
    (True, True, False)
    """
    # Most paths are done with here.
    if "test" not in (lower := path.lower()) and "spec" not in lower:
        return False
    # Whole names only: `contest.py` and `latest/` are no tests.
    *folders, name = path.split("/")
    is_in_tests = any(folder.lower() in TEST_FOLDERS or TEST_PROJECT.fullmatch(folder) for folder in folders)
    return is_in_tests or bool(TEST_FILE.match(name))


def is_document(path: str) -> bool:
    """Tell whether a file is prose.

    >>> is_document("docs/Guide.MD"), is_document("docs/conf.py")
    (True, False)
    """
    return path.lower().endswith(DOCUMENTS) and not NO_PROSE.search(path)


def is_data(path: str) -> bool:
    """Tell whether a file holds data.

    >>> is_data("results/run.JSON"), is_data("pyproject.toml"), is_data("web/package.json")
    (True, False, False)
    """
    return path.lower().endswith(DATA) and not SETTINGS.search(path)


def is_change_note(path: str) -> bool:
    """Tell whether a file says what changed in each version.

    >>> is_change_note("NEWS.md"), is_change_note("docs/releases/v1.rst"), is_change_note("docs/changes_of_mind.md")
    (True, True, False)
    """
    return bool(CHANGES.search(path))
