"""Files that a question names: by a path or a name with its ending, or by the very words of a file's name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from reflect_locate.repositories.roles import DOCUMENTS, TESTS, TESTS_ALONE, is_change_note, is_document
from reflect_locate.repositories.text_rules import SOURCE
from reflect_locate.repositories.words import composed, words

OPENING, CLOSING = "\"'`([{<«“‘", "\"'`)]}>»”’.,;:!?…"
"""Marks around a name in a sentence."""
LINE = re.compile(r"(?::\d[\d:,-]*|#L?\d[\dL-]*|\(\d+(?:,\d+)?)$")
"""Lines behind a path, as in `tea.py:12-40`, or `tea.ts(12,5)` without its closing mark."""
TOLD_LINE = re.compile(r'(?<![^\s"])"?([^\s"]+)"?(?:,| on|:)[ ]?line[ ](\d+)')
"""A word and a line as Python, PHP and .NET tell a path; from the word's beginning, so that long words take no time."""
LAST = "(most recent call last)"
"""Mark of a trace that ends, and does not begin, where it broke."""
ROOT = re.compile(r"^[A-Za-z][\w+.-]*:/+")
"""Beginning of an address or of a path with the letter of a disk."""
LINES = re.compile(r"\b(?:(?:at|on|in)[ ]+)?lines?[ ]+\d+(?:[ ]*(?:-|to|and)[ ]*\d+)?", re.IGNORECASE)
"""The same beside a path."""
NUMBER = re.compile(r"\d{1,9}")
"""The first line of these; no file has more."""
JOINT = "\0"
"""Sign for a blank in a name; it parts words, as a blank does, and stands in no question."""
CHANGES = re.compile(r"\W*(?:wh\w+ (?:is|are) )?(?:the )?(?:change[- ]?logs?|release[- ]notes?|news)\W*", re.IGNORECASE)
"""A question for the notes of what changed, whatever their file is called."""
MODULE = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)+")
"""A module as programs name it."""
INTRODUCTIONS = ("__init__", "mod", "index")
"""Names of the files that stand for their folders."""
ENTRANCES = (*INTRODUCTIONS, "lib", "main", "readme")
"""Names of the files at which a reader begins with a folder."""


@dataclass(frozen=True, slots=True)
class AskedFiles:
    """Files that a question names."""

    paths: tuple[str, ...] = ()
    is_written: bool = False
    """They are named by a path, or by a name with its ending, and not by words alone, which may be other names, too."""
    words: frozenset[str] = frozenset()
    """Words that stand in these names and in the numbers of their lines alone, and nowhere else in the question."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Number of the line that is named with a file, the first of several."""
    is_message: bool = False
    """They are named with their lines by a question that says more, as an error message does."""


NONE = AskedFiles()


def files_asked_for(question: str, paths: Sequence[str], top: str = "") -> AskedFiles:
    """The files of a tree that a question names.

    They are named by a path or its end, by a name with its ending, as a module with dots between its folders, by the
    folder that they are the beginning of, or by the very words of a name without its ending.
    Most of the question's words are theirs, or all but one for each file, as in `update tea.py`: a sentence that
    mentions a file is about something else. With a line behind it, it is the place that an error message tells.

    Args:
        question: in words.
        paths: of all files.
        top: name of the folder that they lie in, which the name of a path or a module may hold.

    >>> paths = ("README.md", "tea/README.md", "tea/pot_lid.py")
    >>> [files_asked_for(text, paths).paths for text in ("Where is pot_lid.py?", "the pot lids", "readme", "lid.py")]
    [('tea/pot_lid.py',), ('tea/pot_lid.py',), ('README.md',), ()]
    """
    # Disks of macOS take letters with accents apart, and keyboards do not.
    own = {composed(path): path for path in paths}
    found = _asked_for(composed(question), tuple(own), composed(top))
    lines = {own[path]: line for path, line in found.lines.items()}
    return replace(found, paths=tuple(own[path] for path in found.paths), lines=lines)


def _asked_for(question: str, paths: Sequence[str], top: str) -> AskedFiles:
    """The same for names whose letters with accents are one character each."""
    question = TOLD_LINE.sub(_with_line, _joined(question, paths))
    # Found before the rest is judged: a name with a dot that is no file is a word of the question.
    tokens = {
        token: _token(token) for token in question.split() if any(mark in token for mark in ("/", ".", "\\", "::"))
    }
    found = {
        token: files
        for token, name in tokens.items()
        if name and (files := _files_at(name, paths, top) or _modules(name, paths, top) or _entrances(name, paths))
    }
    if not found:
        is_for_notes = CHANGES.fullmatch(question) and not any(_is_called(path, question) for path in paths)
        notes = [path for path in paths if is_change_note(path) and _is_prose(path)] if is_for_notes else []
        return AskedFiles(tuple(notes), True, frozenset(words(question))) if notes else _called(question, paths)
    theirs = frozenset(words(" ".join(tokens[token] for token in found)))
    # `py` and `md` say nothing by themselves.
    told = set(words(" ".join(tokens[token].rpartition(".")[0] or tokens[token] for token in found)))
    rest = _beside(question, found)
    is_message = len(set(words(rest)) - theirs) > max(len(told) - 1, len(found))
    if is_message:
        places = [token for token, files in found.items() if _is_place(token, tokens[token], files, top)]
        # Where it broke, and not the way there.
        nearest = places[-1:] if LAST in question else places[:1]
        found = {token: found[token] for token in nearest}
        rest = _beside(question, found)
    # The tests of a file are other files; that a test failed is part of the message.
    if not found or (TESTS_ALONE.match(rest) if is_message else TESTS.search(rest)):
        return NONE
    named = dict.fromkeys(path for files in found.values() for path in files)
    # Numbers of lines are as little part of what is looked for as the names are.
    own = frozenset(words(question)) - frozenset(words(rest))
    return AskedFiles(tuple(named), True, own, _lines(question, found), is_message)


def _with_line(told: re.Match[str]) -> str:
    """A path with its line, `tea.py:12`; another word as it stands."""
    return f"{told[1]}:{told[2]}" if any(mark in told[1] for mark in "./\\") else told[0]


def missing_file(question: str, paths: Sequence[str], top: str = "") -> str:
    """A source or document that a question names and a tree lacks; empty where there is none, or other files are named.

    Args:
        question: in words.
        paths: of all files.
        top: see `files_asked_for`.

    >>> [missing_file(text, ("tea/pot.py",)) for text in ("what is in tea/pots.py?", "pot.py or pots.py", "pots.rs")]
    ['tea/pots.py', '', '']
    """
    # Most questions are done with here.
    tokens = [_token(word) for word in composed(_joined(question, paths)).split() if "." in word]
    named = [name for name in tokens if name.endswith((*SOURCE, *DOCUMENTS))]
    # `obj.r` is no file where nothing is written in R.
    names = [name for name in named if any(path.endswith(name[name.rindex(".") :]) for path in paths)]
    own = [composed(path) for path in paths] if names else []
    if any(_files_at(name, own, composed(top)) or _modules(name, own, composed(top)) for name in names):
        return ""
    return names[0] if names else ""


def _beside(question: str, found: Mapping[str, Sequence[str]]) -> str:
    """The question without these words, and without the numbers of lines."""
    return LINES.sub(" ", " ".join(token for token in question.split() if token not in found))


def _is_place(token: str, name: str, files: Sequence[str], top: str) -> bool:
    """Tell whether a word of the question names one file and a line of it.

    >>> [_is_place(f"{name}:3", name, ["pot.py"], "tea") for name in ("pot.py", "/home/tea/pot.py", "/home/pot.py")]
    [True, True, False]
    """
    if len(files) != 1 or not LINE.search(token.rstrip(CLOSING)):
        return False
    # Any folder may hold a file of the name that one at the top has.
    return "/" in files[0] or not name.startswith("/") or name.endswith(f"/{top}/{files[0]}")


def _lines(question: str, found: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Line of each file that is named with one: behind its name, or beside it where no other file is named.

    >>> _lines("cups.py:12-40 or pots.py", {"cups.py:12-40": ["a/cups.py"], "pots.py": ["pots.py"]})
    {'a/cups.py': 12}
    >>> _lines('File "pots.py", line 7, in pour', {'"pots.py",': ["pots.py"]})
    {'pots.py': 7}
    """
    beside = LINES.search(question) if len(found) == 1 else None
    said = {token: LINE.search(token.rstrip(CLOSING)) or beside for token in found}
    return {path: int(NUMBER.findall(place[0])[0]) for token, place in said.items() if place for path in found[token]}


def _joined(question: str, paths: Sequence[str]) -> str:
    r"""The question, in which a name with blanks and an ending is one word.

    >>> _joined("what is First Steps.md?", ("docs/First Steps.md",))
    'what is First\x00Steps.md?'
    """
    asked, named = question.lower(), set[str]()
    for path in paths:
        # Few trees have such names.
        if " " in path and "." in path and path.rpartition("/")[2].lower() in asked:
            parts = path.lower().split("/")
            ends = ("/".join(parts[start:]) for start in range(len(parts)))
            named.add(next(end for end in ends if end in asked))
    # The longest first, as it may hold another.
    for name in sorted(named, key=len, reverse=True):
        whole = rf"(?<!\w){re.escape(name)}(?!\w)"
        question = re.sub(whole, lambda found: found[0].replace(" ", JOINT), question, flags=re.IGNORECASE)
    return question


def _token(token: str) -> str:
    r"""The path in a word of a sentence.

    >>> _token("(`./tea/pot.py:12`)."), _token(".github/x.yml"), _token("tea.Pot.boil(Pot.java:12)")
    ('tea/pot.py', '.github/x.yml', 'Pot.java')
    >>> _token("pot.ts(12,5):"), _token("file:///tea/pot.js:12:5"), _token(r"C:\tea\pot.cs:12")
    ('pot.ts', '/tea/pot.js', '/tea/pot.cs')
    """
    name = LINE.sub("", token.lstrip(OPENING).rstrip(CLOSING)).replace("\\", "/").replace(JOINT, " ")
    # A trace of Java names the function before the file.
    name = name.rpartition("(")[2] if name.count("(") > name.count(")") else name
    return ROOT.sub("/", name).removeprefix("./")


def _files_at(name: str, paths: Sequence[str], top: str) -> list[str]:
    """Files whose path is this one or ends with it; letters of the other case count where nothing else does.

    >>> [_files_at(name, ("tea/pot.py", "pot.py"), "kitchen") for name in ("src/kitchen/pot.py", "src/pot.py")]
    [['pot.py'], []]
    """
    if name.startswith(("/", "~/")):
        # Outside of the tree begins what nobody can compare.
        ends = [path for path in paths if name.endswith(f"/{path}")]
        return [max(ends, key=len)] if ends else []
    near = _ending_with(name, paths)
    # As it is named from a folder above the tree; most words of a question hold no name of a folder.
    if not near and f"/{top}/" in f"/{name}":
        near = [path for path in paths if f"/{name}".endswith(f"/{top}/{path}")]
    if not near and "/" in name:
        # As programs import it.
        stems = {path.rpartition(".")[0]: path for path in paths}
        return [stems[stem] for stem in _ending_with(name, list(stems))]
    exact = [path for path in near if f"/{path}".endswith(f"/{name}")]
    found = exact or near
    # The whole path names one file, its end may name several.
    return [path for path in found if len(path) == len(name)] or found


def _modules(name: str, paths: Sequence[str], top: str) -> list[str]:
    """Files of a module, `a.b` or `a::b`: `a/b.py`, `a/b/__init__.py` and the like.

    >>> _modules("tea.pots", ("src/tea/pots.py", "tea/pots/__init__.py", "pots.py"), "x")
    ['src/tea/pots.py', 'tea/pots/__init__.py']
    >>> _modules("tea.pots", ("pots.py", "a/pots.py"), "tea-1.2")
    ['pots.py']
    """
    if not MODULE.fullmatch(name):
        return []
    place = re.sub(r"\.|::", "/", name)
    named = {path: _place(path) for path in paths if path.endswith(SOURCE)}
    found = [path for path, own in named.items() if f"/{own}".endswith(f"/{place}")]
    first, _, rest = place.partition("/")
    # The files may lie in the very package.
    inside = first == top.partition("-")[0] and not found
    return [path for path, own in named.items() if own == rest] if inside else found


def _entrances(name: str, paths: Sequence[str]) -> list[str]:
    """Files at which a reader begins with a folder that is named with a slash; where it has none, those right in it.

    >>> _entrances("tea/", ("tea/pot.py", "tea/src/lib.rs", "tea/cups/README.md"))
    ['tea/src/lib.rs']
    >>> _entrances("a/tea", ("a/tea/pot.py", "a/tea/cups/README.md", "tea/pot.py"))
    ['a/tea/pot.py']
    """
    folder = name.strip("/")
    if "/" not in name or not folder:
        return []
    rests = {path: rest for path in paths if (rest := _below(path, folder))}
    begun = [path for path, rest in rests.items() if _stem(path).lower() in ENTRANCES and _is_top(rest)]
    return begun or [path for path, rest in rests.items() if "/" not in rest]


def _below(path: str, folder: str) -> str:
    """Rest of a path behind a folder, or nothing where it does not lie in it."""
    return f"/{path}".partition(f"/{folder}/")[2]


def _is_top(rest: str) -> bool:
    """Tell whether a file lies right in its folder, or in the `src` there."""
    return rest.rpartition("/")[0] in ("", "src")


def _place(path: str) -> str:
    """The path without its ending, or the folder that the file stands for."""
    folder, _, name = path.rpartition(".")[0].rpartition("/")
    return folder if name in INTRODUCTIONS and folder else f"{folder}/{name}".lstrip("/")


def _ending_with(name: str, paths: Sequence[str]) -> list[str]:
    end = f"/{name}".lower()
    return [path for path in paths if f"/{path}".lower().endswith(end)]


def _called(question: str, paths: Sequence[str]) -> AskedFiles:
    """Files whose name without its ending has the words of the question, and no others."""
    asked = frozenset(words(question))
    if not asked:
        return NONE
    found = []
    for path in paths:
        stem = _stem(path)
        lower = stem.lower()
        # A word is a part of the text that it was cut from, so most names are done with here.
        if all(word in lower for word in asked) and frozenset(words(stem)) == asked:
            found.append(path)
    # `README` is the one at the top.
    whole = [path for path in found if "/" not in path and _stem(path).lower() == question.strip().lower()]
    return AskedFiles(tuple(whole or found), False, asked) if found else NONE


def _is_called(path: str, question: str) -> bool:
    """Tell whether a source has the very words of a question as its name."""
    return path.endswith(SOURCE) and frozenset(words(_stem(path))) == frozenset(words(question))


def _is_prose(path: str) -> bool:
    return is_document(path) or "." not in path.rpartition("/")[2]


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name
