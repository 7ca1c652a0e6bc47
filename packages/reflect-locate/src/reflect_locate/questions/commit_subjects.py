"""Subject lines of commits: those that say something about a file, without the marks of tools."""

from __future__ import annotations

import re

# Programs write the same subject for any file, so it would point to none.
BOTS = re.compile(
    r"\[bot\]|\bbot\b|dependabot|renovate|greenkeeper|pre-commit-ci|pyup|snyk|weblate|transifex|github.actions"
    r"|allcontributors|mergify|readthedocs-assistant",
    re.IGNORECASE,
)

PREFIX = re.compile(
    r"(feat(?:ure)?|(?:bug|hot)?fix|docs?|style|refactor|perf|tests?|build|ci|chores?|revert|release|deps?|lint|typing)"
    r"\s*(?:\([^()]{0,60}\))?!?:\s*",
    re.IGNORECASE,
)
"""`feat(scope): ...` of Conventional Commits."""

DROPPED = frozenset(
    ("style", "build", "ci", "chore", "chores", "revert", "release", "dep", "deps", "lint", "typing", "test", "tests")
)
"""Kinds of commits that never say what a file is for."""

MARKS = re.compile(
    r"^(?:\[[^\[\]]{1,40}\]|:[a-z0-9_+-]{2,40}:|[A-Z][A-Z0-9]{1,9}-\d+\b:?|#\d+:?)\s*"  # [tag] :bug: ABC-12 #7
    r"|\s*\((?:[\w./-]*#\d+[,\s]*)+\)"  # (#123)
    r"|\s*\[(?:ci skip|skip [^\[\]]{0,20}|no ci)\]"
    r"|[\s,;:.(-]*\b(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?|refs?|see|issue|pr)[\s:#-]*(?:gh-|#)\d+\)?[\s.]*$"
    r"|\s+\(?(?:gh-|#)\d+\)?[\s.]*$",
    re.IGNORECASE,
)
"""Marks that tools and habits add to a subject."""

NOISE = re.compile(
    # reverts, merges, releases
    r"^(?:revert|reapply|merge|fixup!|squash!|amend!|wip\b|v?\d+(?:\.\d+)+|release\b|prepare\b.*\brelease|prepare \d"
    r"|initial (?:commit|import)|first commit|backport|cherry.?pick|back to dev|start (?:next )?(?:version|dev))"
    r"|\b(?:new|next|this) release\b|\brelease (?:notes?|v?\d)|\bversion (?:number|\d)|\bto v?\d+\.\d+"
    r"|\bmerged? (?:branch|pull|pr|remote)|\baddress(?:ed|es|ing)? (?:review|comments?|feedback)|\breview comments?"
    # bumps, records
    r"|\bbump|\b(?:upgrad|updat|pin|unpin|rais|increas)\w*\b.*\b(?:versions?|dependenc\w+|requirements?|deps|lock ?file"
    r"|submodules?)\b"
    r"|\bcopyright\b|\blicen[sc]e header|\bchange ?log\b|\b(?:update|add)\w* (?:to )?(?:authors|contributors|changes)\b"
    # format and typos
    r"|\b(?:typos?|misspell\w*|spelling|grammar|wording|punctuation|capitali[sz]\w*|reformat\w*|lint\w*|flake8|pyflakes"
    r"|isort|ruff|pylint|pep ?-?8|pep ?-?257|autopep8|yapf|mypy|pyright|pyupgrade|eslint|prettier|clang-format|rubocop"
    r"|gofmt|rustfmt|pre-commit|nitpick\w*|nits?|(?:code|coding) (?:style|format\w*)|unused imports?|sort\w* imports?"
    r"|import order|line lengths?|cosmetic\w*|oops|brown paper bag)\b"
    r"|\b(?:run|apply|use|with) black\b|\b(?:fix|remove|extra|trailing|unneeded)\b.*\b(?:white ?spaces?|newlines?)\b"
    r"|^(?:fix\w* )?(?:the )?(?:code )?format(?:ting)?$"
    # automation
    r"|\b(?:ci|travis\w*|appveyor|circle ?ci|tox|github actions?|gh actions?|codecov|coveralls|jenkins|buildbot"
    r"|read ?the ?docs|rtd|dependabot|renovate)\b",
    re.IGNORECASE,
)
"""Subjects that say nothing about what a file is for."""

COSMETIC = re.compile(
    r"\b(?:readme|links?|badges?|logos?|images?|screenshots?|gifs?|emojis?|periods?|commas?|titles?|headings?|headers?"
    r"|rephras\w*|reword\w*|tables? of contents|toc|anchors?|urls?|markdown|rst|discord|slack|twitter|sponsors?|stars?"
    r"|minor|small|tweaks?|clean ?up|polish\w*|readability)\b",
    re.IGNORECASE,
)


def is_bot(author: str) -> bool:
    """Tell whether the author is a program.

    >>> is_bot("dependabot[bot] <support@github.com>"), is_bot("Ada Abbot <ada@abbot.org>")
    (True, False)
    """
    return BOTS.search(author) is not None


def is_cosmetic(text: str) -> bool:
    """Tell whether a subject is about the looks of a page; asked of commits that touch a README alone.

    >>> is_cosmetic("Removed double period"), is_cosmetic("Explain how to train on two machines")
    (True, False)
    """
    return COSMETIC.search(text) is not None


def subject(text: str) -> str:
    """Content of a commit's subject, without the marks of tools; empty if it says nothing about a file.

    >>> subject("feat(cli): Let a question name its folder (#123)")
    'Let a question name its folder'
    >>> subject("Bump actions/checkout from 3 to 4")
    ''
    """
    words, before = " ".join(text.split()), None
    # Marks stand in front of each other, as in `[tag] fix: ABC-12 ...`; each pass uncovers the next.
    while words != before:
        before = words
        # Asked in each pass: `fix: typo` is noise only once its prefix is gone, `fixup!` only before.
        if NOISE.search(words):
            return ""
        words = MARKS.sub("", words).strip()
        if found := PREFIX.match(words):
            if found[1].lower() in DROPPED:
                return ""
            words = words[found.end() :]
    return words
