"""Names that a file defines, read off its lines: quick enough to look at each candidate of a question.

A question may hold such a name as it is written in the code. Then it asks for its definition.

`symbols.py` parses, and knows where a definition ends. A ranking needs the names alone, and for these the rules of most
languages fit into one pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from reflect_locate.repositories.text_rules import SOURCE
from reflect_locate.repositories.words import words

DEFINITION = re.compile(
    r"""
    [ \t]*
    (?:
        (?:(?:pub(?:\([a-z: ]*\))?|export|default|async|static|public|private|protected|internal|final|abstract|const
             |unsafe|inline|override|open|data|sealed|local|partial|readonly|ref|virtual|declare|extern[ \t]+"\w+"
             |suspend|operator|infix|tailrec|annotation|value|inner|companion|fileprivate|mutating)[ \t]+)*
        (?:def|class|func|function\*?|fn|fun|struct|enum|trait|interface|type|typealias|module|mod|impl|macro_rules!
          |object|protocol|namespace|record|sub|union|@interface)[ \t]+
        (?:(?:class|struct)[ \t]+(?=\w))?  # `enum class` of Kotlin and C++, `record struct` of C#
        (?:\([^)]*\)[ \t]*|self\.)?  # the receiver of a method in Go, a method of a class in Ruby
        (?:(?<=fun[ ])<[^()]*?>[ ])?(?:(?<=[ ])[A-Z]\w*(?:<[\w ,*?<>]*>)?\??\.(?=\w+[ ]?[(<]))?  # Kotlin
        (\w+)
    |   (?:(?:export|const|let|var)[ \t]+)*(?:[\w$]+\.)*(\w+)[ \t]*=[ \t]*  # JavaScript
        (?:async[ \t]+)?(?:function\b|\([^)]*\)[ \t]*=>)
    |   ([A-Za-z_]\w*)[ \t]*\(\)[ \t]*\{  # a shell
    )
    """,
    re.VERBOSE,
)
HEADED = re.compile(
    r"""
    [ \t]*(?!(?:await|case|catch|do|else|for|foreach|if|lock|new|return|switch|synchronized|throw|try|using|when|while
              |with|yield|assert|del|elif|except|from|import|in|is|match|not|or|and|raise|defer|go|select)\b)
    (?:[A-Za-z_<][\w.:<>\[\],?]*[ \t&*]+){0,8}?  # modifiers and the type, in C, C++, C# and Java
    (?:[A-Za-z_]\w*::)*\#?(\w+)[ \t]*(?:<[\w ,.?&]*>[ \t]*)?
    \([^()]*(?:\([^()]*\)[^()]*)*\)
    [ \t]*(?:(?:const|noexcept|override|final)[ \t]*){0,3}(?:throws[ \t][\w., \t]+|:[\w.<>\[\]|, \t]+)?
    (\{)?[ \t]*(?:\}[ \t]*)?$
    """,
    re.VERBOSE,
)
"""A function whose line begins with its type, modifiers or name; its body opens in this line or in the next one."""
OPENING = re.compile(
    r"(?:const|var)\b|[ \t]*(?:(?:export|default|pub(?:\([a-z: ]*\))?|public|private|protected|internal|final|abstract"
    r"|static|sealed|open|data|partial|readonly|companion)[ \t]+)*(?:class|enum|struct|interface|object|trait|impl"
    r"|record)\b|export[ \t]+(?:default[ \t]+)?const\b"
)
"""Beginning of a block whose assignments one level below define constants."""
MEMBER = re.compile(
    r"[ \t]+(?:(?:export|const|let|var|val|static|final|public|private|protected|internal|readonly|pub)"
    r"[ \t]+)*(?:[A-Za-z_][\w.<>\[\],?]*[ \t]+)?(\w+)[ \t]*(?::[^=]*)?=(?![=>])"
)
"""A constant of a class, or of a block of them, one level below its beginning."""
ASSIGNMENT = re.compile(
    r"""
    \#[ \t]*define[ \t]+(\w+)  # C
    |   (?:(?:export|const|let|var|val|static|final|public|private|protected|internal|readonly|mut
             |pub(?:\([a-z: ]*\))?)[ \t]+)*
        (\w+)[ \t]*(?::=|:(?![:=])|=(?![=>]))
    |   (?:(?:static|const|constexpr|inline|extern|volatile)[ \t]+)+(?:\w[\w:<>,]*[ \t*&]+){1,3}  # C and C++
        (\w+)(?:\[\w*\])*[ \t]*=
    |   using[ \t]+(\w+)[ \t]*=  # C++
    |   define\([ ]?['"](\w+)['"]  # PHP
    |   (?:[ ]{1,4}|\t)(?:pub(?:\([a-z: ]*\))?[ \t]+)?(\w+)[ \t]*:[ \t]*(?=[\w"'\[&])  # a field of a class
    """,
    re.VERBOSE,
)
"""A variable, constant or setting at the margin of a file, or a field one level below."""
MODIFIERS = re.compile(
    r"[ \t]*(?:\[[^\[\]]*\][ \t]*|@\w+(?:\([^()]*\))?[ \t]+)*((?:(?:public|private|protected|internal|static|final"
    r"|abstract|override|virtual|sealed|default|synchronized|readonly|const|async|required|unsafe|extern|native"
    r"|volatile|transient|event|partial)[ \t]+)+)"
)
"""Attributes and modifiers before a member of a class in C#, Java, PHP and TypeScript."""
ACCESS = re.compile(r"\b(?:public|private|protected|internal|override)\b")
"""Modifiers that no statement of a function begins with."""
OF_METHOD = re.compile(r"\b(?:static|final|abstract|virtual|default|synchronized|async)\b")
"""Modifiers that a method may have without one of these."""
TYPES = re.compile(r"[\w.<>\[\],?&* \t|:()]*[ \t*&>\])?]\$?|\$?")
"""Text between the modifiers and the name: the type, and the mark before a name of PHP."""
GOES_ON = ("{", ":", "=>", "where ", "throws")
"""Beginnings of a line that goes on with the head of a method, or opens its body."""
LONGEST_LINE = 1000
"""Characters of a line that are looked at; a definition begins its line."""
LONGEST_HEAD = 300
"""Characters of a line that may begin a function by its type; there are many ways to cut a longer one."""
ASSIGNED, MEMBER_WORTH = 0.7, 0.6
MARKED = re.compile(r"[ ]{0,3}(?:#{1,6}|={2,6})[ \t]+(.*)")
"""A heading of Markdown or AsciiDoc."""
UNDERLINE = re.compile(r"([=~^\"'*+#-])\1{2,}[ \t]*$")
"""The line below a heading of reStructuredText."""
WRITTEN = re.compile(r"(?<![\w$.])[A-Za-z_$][\w$]*(?:(?:\.#?|::|#)[A-Za-z_$][\w$]*)*(?![\w$])")
"""A name, or names with dots, colons or, as documents of Java and Ruby have it, hashes between them."""
JOINT = re.compile(r"\.#?|::|#")
GENERICS = re.compile(r"(?<=\w)(?:::)?<[\w ,.?&':\[\]]*>")
"""Types that a type or a function is about."""
KEYWORD = re.compile(
    r"(?:(?:async|pub(?:\([a-z]+\))?|export|default|static|public|private|protected|abstract|final|unsafe)[ \t]+)*"
    r"(class|struct|trait|interface|enum|type|def|fn|func|function)[ \t]+(?:\([^()]*\)[ \t]*)?"
    r"([A-Za-z_$][\w$]*)([^\w$]?)"
)
"""Beginning of a definition, as it is copied from the code: the name, and the mark behind it."""
TYPE = re.compile(r"\b(?:class|struct|trait|interface|enum|type)[ \t]+[A-Z]\w*")
"""A type inside a sentence."""
MARKS = "\"'`“”‘’"
"""Marks around a name that is the whole question."""
VALUES = (".cfg", ".ini", ".j2", ".json", ".md", ".rst", ".template", ".tmpl", ".toml", ".txt", ".yaml", ".yml")
"""Endings of files whose assignments define nothing: settings, documents, and what new files are made from."""
FILE = re.compile(rf"\.(?:{'|'.join(ending[1:] for ending in (*SOURCE, *VALUES))})$", re.IGNORECASE)
"""End of a name that is a file's."""
DEFINES = (
    "def ", "class ", "func ", "function ", "fn ", "fun ", "struct ", "enum ", "trait ", "interface ", "type ",
    "union ", "module ", "macro_rules! ", "object ", "protocol ", "record ", "namespace ", ") ", "#define ",
)  # fmt: skip
"""Words right before the name that most definitions have; behind the bracket of its receiver stands a method of Go."""
MOST_SPELLED = 6
"""Most words of a question that may be a name with blanks."""
ASKING = frozenset(("where", "what", "which", "who", "how", "why", "when"))
SPELLED = re.compile(r"[A-Za-z][A-Za-z0-9]*")
MOST_NAMES = 4
"""Names of a question that are looked up; each costs a look into hundreds of files."""
INSIDE = re.compile(r"[^_]_+[^_]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}|^_+[A-Za-z]")
"""Place inside a name where a word of it ends, as no word of a sentence has, or an underscore before it. `URLs` is a
word of sentences."""


def defined_name(line: str) -> str:
    """The name of the function, class or the like that a line defines; empty = none.

    >>> [defined_name(line) for line in ("    def pour(self):", "func (p *Pot) Boil() {", "pour()")]
    ['pour', 'Boil', '']
    """
    match = DEFINITION.match(line[:LONGEST_LINE])
    return match[match.lastindex] if match and match.lastindex else ""


def lines_with(text: str, part: str) -> Iterator[str]:
    r"""The lines of a text that hold a part.

    >>> list(lines_with("pour tea\nboil\nno tea", "tea"))
    ['pour tea', 'no tea']
    """
    place = text.find(part)
    while place >= 0:
        end = text.find("\n", place)
        end = len(text) if end < 0 else end
        yield text[text.rfind("\n", 0, place) + 1 : end]
        place = text.find(part, end)


def may_define(text: str, name: str) -> bool:
    """Tell, in a fraction of the time of `definition`, that a text seems to define a name as a function or class.

    >>> may_define("def pour(tea):", "pour"), may_define("pour(tea)", "pour")
    (True, False)
    """
    place = text.find(name)
    while place >= 0:
        if text.endswith(DEFINES, max(place - 20, 0), place):
            return True
        place = text.find(name, place + 1)
    return False


def defined_at_margin(text: str, name: str) -> bool:
    r"""Tell whether a line without indentation defines a function or class of this name.

    >>> defined_at_margin("def pour(tea):", "pour"), defined_at_margin("class Pot:\n    def pour(self):", "pour")
    (True, False)
    """
    return any(not line[:1].isspace() and defined_name(line) == name for line in lines_with(text, name))


def spelled(question: str) -> tuple[str, ...]:
    """Names that a question may spell with blanks: of all its words, and of those from its first to its last real one.

    >>> spelled("where is the pot lid?")[-3:]
    ('pot_lid', 'potLid', 'PotLid')
    """
    said = question.strip().strip(MARKS).rstrip("?.! ").split()
    if not all(map(SPELLED.fullmatch, said)):
        return ()
    real = [place for place, word in enumerate(said) if words(word)]
    inner = said[real[0] : real[-1] + 1] if real else []
    names: list[str] = []
    # A question word begins no name.
    whole = [] if said and said[0].lower() in ASKING else said
    for run in (whole, inner):
        if 1 < len(run) <= MOST_SPELLED and real:
            large = "".join(word[0].upper() + word[1:] for word in run)
            names += ("_".join(run).lower(), run[0].lower() + large[len(run[0]) :], large)
    return tuple(dict.fromkeys(names))


def names_asked_for(question: str) -> tuple[str, ...]:
    """Names of code that a question asks for, as they are written there.

    A name has several words, stands behind a dot or before one, follows `class` or the like, or is the whole question.
    Of a qualified name the last two count. Half of the question's words are theirs at least: a sentence that mentions a
    name is about something else.

    >>> [names_asked_for(text) for text in ("Where is Rate.parse?", "pot", "pot.md", "a pot_lid for soup, tea, milk")]
    [('Rate', 'parse'), ('pot',), (), ()]
    >>> [names_asked_for(text) for text in ("tea.pots.Pot.lid", "class Pot(Vessel):", "which class Pot", "`Pot`")]
    [('Pot', 'lid'), ('Pot',), ('Pot',), ('Pot',)]
    """
    question = GENERICS.sub("", GENERICS.sub("", question))
    alone = question.strip().strip(MARKS).rstrip("?.").removesuffix("()").strip(MARKS)
    whole = question.strip().strip(MARKS)
    if copied := KEYWORD.match(whole):
        keyword, name, mark = copied.groups()
        is_function = keyword in ("def", "fn", "func", "function")
        # `type hints` and `function names: how` are words.
        is_code = (
            mark in ("(", "<", "{") or keyword in ("def", "fn", "func") or name[:1].isupper() or INSIDE.search(name)
        )
        if is_code and (mark in (("(", "<") if is_function else ("(", "<", "{", ":")) or copied[0] == alone):
            return (name,)
    types = TYPE.findall(question)
    of_types = {found.split()[1] for found in types}
    chosen = [
        run
        for run in _runs(question)
        # A word such as `get` stands in every file, and many define it.
        if JOINT.search(run) or INSIDE.search(run) or run in of_types or (run == alone and words(run))
    ]
    names = tuple(dict.fromkeys(name for run in chosen for name in JOINT.split(run)[-2:]))[:MOST_NAMES]
    asked, theirs = (set(words(text)) for text in (question, " ".join((*chosen, *types))))
    return names if 2 * len(theirs) >= len(asked) else ()


def modules_asked_for(question: str) -> frozenset[str]:
    """Names that stand before the last two of qualified names: modules or types around what is asked for.

    >>> sorted(modules_asked_for("Where is tea.pots.Pot.lid?"))
    ['pots', 'tea']
    """
    return frozenset(name for run in _runs(GENERICS.sub("", question)) for name in JOINT.split(run)[:-2])


def _runs(question: str) -> list[str]:
    return [run for run in WRITTEN.findall(question) if not FILE.search(run.partition("#")[0])]


def definition(lines: Sequence[str], name: str) -> tuple[int, float]:
    """Number of the line (from 0) that defines this very name, and its worth; (-1, 0) where none does.

    A function or class is worth 1, a constant or setting `ASSIGNED`, as variables of that name may stand in many files,
    and one inside of a class or a block `MEMBER_WORTH`.

    >>> definition(["if POT_SIZE == 3:", "POT_SIZE = 3"], "POT_SIZE"), definition(["class Pot:"], "Pot")
    ((1, 0.7), (0, 1.0))
    """
    best = -1, 0.0
    around: list[int] = []
    for number, line in enumerate(lines):
        # Most lines do not hold the name at all.
        if name in line[:LONGEST_LINE]:
            if defined_name(line) == name or _heads(lines, number, name):
                return number, 1.0
            if member := _member(lines, number, name):
                if member == 1:
                    return number, member
                best = best if best[1] else (number, member)
                continue
            match = ASSIGNMENT.match(line[:LONGEST_LINE])
            found = [match[match.lastindex]] if match and match.lastindex else _several(line[:LONGEST_LINE])
            if best[1] < ASSIGNED and name in found:
                best = number, ASSIGNED
            elif not best[1] and (match := MEMBER.match(line[:LONGEST_LINE])) and match[1] == name:
                around = around or _around(lines)
                if around[number] >= 0 and OPENING.match(_opener(lines, around[number])[:LONGEST_LINE]):
                    best = number, MEMBER_WORTH
    return best


def _heads(lines: Sequence[str], number: int, name: str) -> bool:
    """Tell whether a line begins the function of this name in a language that writes braces."""
    line = lines[number]
    if len(line) > LONGEST_HEAD or "(" not in line:
        return False
    match = HEADED.match(line)
    if match is None and line.rstrip().endswith(("}", "};")) and "{" in line:
        # With its body in the same line; without a type it may be a call that is given a block.
        match = HEADED.match(line[: line.index("{") + 1])
        match = match if match and line[: match.start(1)].strip() else None
    return bool(match and match[1] == name and (match[2] or _after(lines, number)[:1] == "{"))


def _after(lines: Sequence[str], number: int) -> str:
    """The next line that is not blank, of two."""
    return next((other.strip() for other in lines[number + 1 : number + 3] if other.strip()), "")


def _member(lines: Sequence[str], number: int, name: str) -> float:
    """Worth of a line with modifiers as the definition of a member of a class: a method, a property or a field.

    >>> [_member([line, "{"], 0, "Lid") for line in ("public Pot? Lid => null;", "private Pot Lid;", "public Lid Pot")]
    [1.0, 0.6, 0.0]
    """
    line = lines[number]
    if len(line) > LONGEST_HEAD or not (match := MODIFIERS.match(line)):
        return 0.0
    has_access = ACCESS.search(match[1])
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", line[match.end() :]):
        before, behind = line[match.end() : match.end() + found.start()], line[match.end() + found.end() :].strip()
        is_open = before.count("(") != before.count(")") or before.count("<") != before.count(">")
        if is_open or not TYPES.fullmatch(before):
            return 0.0
        after = _after(lines, number)
        if behind.startswith(("(", "<")) and (has_access or OF_METHOD.search(match[1])):
            # The head may go on in the next lines, and a sentence has no body.
            is_cut = has_access and behind.count("(") > behind.count(")")
            has_body = is_cut or "{" in behind or "=>" in behind or after.startswith(GOES_ON)
            return 1.0 if has_body else MEMBER_WORTH if has_access and behind.endswith(";") else 0.0
        if has_access and (behind.startswith(("{", "=>")) or (not behind and after[:1] == "{")):
            return 1.0
        if has_access and behind.startswith(("=", ";", ",", ":", "?:", "!:")):
            return MEMBER_WORTH
    return 0.0


def _opener(lines: Sequence[str], number: int) -> str:
    """The line that begins the block of this one, which may be its brace alone."""
    while number > 0 and lines[number].strip() in ("", "{"):
        number -= 1
    return lines[number]


def _around(lines: Sequence[str]) -> list[int]:
    """For each line the number of the last one before it that begins further left; -1 = there is none."""
    found, open_lines = list[int](), list[tuple[int, int]]()
    for number, line in enumerate(lines):
        text = line[:LONGEST_LINE]
        deep = len(text) - len(text.lstrip())
        if text.strip():
            while open_lines and open_lines[-1][0] >= deep:
                open_lines.pop()
        found.append(open_lines[-1][1] if open_lines else -1)
        if text.strip():
            open_lines.append((deep, number))
    return found


def defines_member(lines: Sequence[str], names: Sequence[str]) -> bool:
    """Tell whether a line defines two of these names that follow each other as one, with a dot or colons between them.

    >>> defines_member(["app.use = function use(pot) {"], ("app", "use")), defines_member(["app.use()"], ("app", "use"))
    (True, False)
    >>> [defines_member([line, "{"], ("Pot", "boil")) for line in ("void Pot::boil(int cups)", "  Pot::boil(2);")]
    [True, False]
    """
    pairs = list(pairwise(names))
    return any(
        (f"{owner}.{name}" in line and line.lstrip().startswith(f"{owner}.{name}") and defined_name(line) == name)
        # C++ defines the members of a class outside of it.
        or (f"{owner}::{name}" in line and _heads(lines, number, name))
        for number, line in enumerate(lines)
        for owner, name in pairs
    )


def _several(line: str) -> list[str]:
    """Names at the margin that one line assigns, as in `A, B = 1, 2`."""
    left, sign, right = line.partition("=")
    return [] if not sign or right[:1] == "=" or line[:1].isspace() else [name.strip() for name in left.split(",")]


def heading(lines: Sequence[str], number: int) -> str:
    """The heading that stands in this line (from 0) of a document; empty = none.

    >>> lines = ["# Tea", "Cups", "----", "pour"]
    >>> [heading(lines, number) for number in range(4)]
    ['Tea', 'Cups', '', '']
    """
    line = lines[number]
    if marked := MARKED.match(line):
        return marked[1].rstrip(" \t#=")
    is_title = line[:1].isalnum() or line[:1] in "`*"
    return line.strip() if is_title and number + 1 < len(lines) and UNDERLINE.match(lines[number + 1]) else ""


def best_name(names: Iterable[str], asked: Sequence[str], rarity: Mapping[str, float]) -> float:
    """Fit of the best of these names with a question, in [0, 1].

    A name is worth the share of the question's words that it holds, by their rarity, times the share of its own words
    that the question has.

    Args:
        names: that a file defines, or its headings.
        asked: distinct content words of the question.
        rarity: inverse document frequency of each of them.

    >>> best_name(["PotLid", ""], ("pot", "blue"), {"pot": 1.0, "blue": 3.0})
    0.125
    """
    total = sum(rarity.get(word, 0.0) for word in asked)
    wanted, best = frozenset(asked), 0.0
    for name in names:
        held = frozenset(words(name))
        if shared := held & wanted:
            best = max(best, sum(rarity.get(word, 0.0) for word in shared) * len(shared) / len(held))
    return best / total if total else 0.0


def asked_stem(path: str, asked: Sequence[str]) -> float:
    """Share of the words of a file's name, without its ending, that a question has.

    >>> asked_stem("tea/pot_lid.py", ("pot",)), asked_stem("tea/__init__.py", ("tea",))
    (0.5, 0.0)
    """
    held = frozenset(words(PurePosixPath(path).stem))
    return len(held.intersection(asked)) / len(held) if held else 0.0
