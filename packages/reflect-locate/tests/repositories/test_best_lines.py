"""The part of a file that answers a question: a question about a function gets that function."""

import pytest

from reflect_locate.repositories.best_lines import LONGEST, LONGEST_LINE, WINDOW, best_lines
from reflect_locate.repositories.words import words

PYTHON = '''\
"""Tools of a kitchen."""


def boil_water(kettle):
    """Heat the kettle until steam comes."""
    kettle.on()
    return kettle.steam


class Timer:
    """Counts seconds."""

    def start(self):
        self.seconds = 0

    def stop_bell(self):
        """Silence the bell of the timer."""
        self.bell = None


def pour(cup):
    return cup
'''

MARKDOWN = """\
# Kettle

Boils water.

## Descaling

Fill it with vinegar.

## Guarantee

Two years.
"""

TEXT = "\n".join(
    [*(f"const unused{number} = {number};" for number in range(45)), "function descale(kettle) {", "  vinegar();", "}"]
)

C = """\
#include <stdio.h>

static int count;

int boil_water(int degrees)
{
    return degrees > 99;
}

int pour_tea(int cups)
{
    return cups;
}
"""


def best(path, text, question, most=1):
    return best_lines(path, text, dict.fromkeys(words(question), 1.0), most)


def place(path, text, question):
    (found,) = best(path, text, question)
    return found.symbol, found.kind, found.first, found.last


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where is water boiled?", ("boil_water", "function", 4, 7)),
        ("How does the kettle make steam?", ("boil_water", "function", 4, 7)),
        ("Where is the bell stopped?", ("Timer.stop_bell", "function", 16, 18)),
        ("timer start", ("Timer.start", "function", 13, 14)),
        ("pour into a cup", ("pour", "function", 21, 22)),
        ("tools of the kitchen", ("", "", 1, 1)),
    ],
)
def test_a_question_about_a_python_function_gets_that_function(question, expected):
    assert place("kitchen.py", PYTHON, question) == expected


def test_a_question_about_a_section_gets_that_section():
    assert place("kettle.md", MARKDOWN, "descale with vinegar") == ("Descaling", "heading", 5, 8)


def test_a_file_without_symbols_has_a_window_around_the_words():
    symbol, kind, first, last = place("kettle.lua", TEXT, "descale a kettle")
    assert (symbol, kind) == ("", "")
    # Line 46 has both words; windows of 20 lines begin with the first line.
    assert (first, last) == (41, 48)
    assert best("kettle.lua", TEXT, "descale a kettle")[0].excerpt == (
        "function descale(kettle) {",
        "  vinegar();",
        "}",
    )


def test_what_follows_the_last_line_feed_is_no_line():
    (one,) = best("a.txt", "vinegar\n", "vinegar")
    assert (one.first, one.last, one.excerpt) == (1, 1, ("vinegar",))
    (nothing,) = best("a.txt", "vinegar\n", "kettle")
    assert (nothing.first, nothing.last) == (1, 1)
    assert place("kettle.md", MARKDOWN, "guarantee of two years") == ("Guarantee", "heading", 9, 11)


def test_a_window_ends_where_a_function_begins():
    text = "KETTLE = 1\n\n\ndef boil():\n    return 3\n\n\nVINEGAR = 2\nBELL = 3\n\n\ndef pour():\n    return 4\n"
    found = best("a.py", text, "kettle vinegar bell", most=5)
    assert sorted((entry.symbol, entry.first, entry.last) for entry in found) == [("", 1, 1), ("", 8, 9)]


def test_a_long_gap_between_functions_has_several_windows():
    text = "def boil():\n    return 3\n\n" + "x = 1\n" * 30 + "vinegar = 2\n" + "def pour():\n    return 4\n"
    # The gap has lines 4 to 34, so its second window begins at line 24.
    assert place("a.py", text, "vinegar") == ("", "", 24, 34)


def test_a_question_about_a_c_function_gets_that_function():
    pytest.importorskip("tree_sitter_c")
    assert place("tea.c", C, "Where is water boiled?") == ("boil_water", "function", 5, 8)
    assert place("tea.c", C, "pour the tea") == ("pour_tea", "function", 10, 13)


def test_without_a_word_of_the_question_the_beginning_is_shown():
    (found,) = best("kettle.lua", TEXT, "guarantee", most=3)
    assert (found.first, found.last, found.score) == (1, WINDOW, 0.0)
    assert found.excerpt[0] == "const unused0 = 0;"


def test_several_parts_are_those_with_words_only():
    # The bell stands in three lines and in the name, the kettle in four of a longer function.
    found = best("kitchen.py", PYTHON, "kettle bell", most=5)
    assert [entry.symbol for entry in found] == ["Timer.stop_bell", "boil_water"]
    assert found[0].score > found[1].score > 0


def test_a_rare_word_counts_for_more():
    (found,) = best_lines("kitchen.py", PYTHON, {"kettl": 0.1, "bell": 3.0})
    assert found.symbol == "Timer.stop_bell"


def test_a_long_section_is_cut_around_its_best_lines():
    text = "# All\n" + "".join(f"line {number}\n" for number in range(500)) + "vinegar\n" + "end\n" * 500
    (found,) = best("a.md", text, "vinegar")
    assert found.last - found.first + 1 == LONGEST
    # Line 1 is the heading, so number 499 stands in line 501, and the word in line 502.
    assert found.first < 502 < found.last
    assert "vinegar" in found.excerpt


def test_a_line_can_be_printed():
    (found,) = best("a.txt", "vinegar\x1b[2J" + "x" * 1000, "vinegar")
    (line,) = found.excerpt
    assert "\x1b" not in line
    assert len(line) == LONGEST_LINE


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n"])
def test_an_empty_file_has_no_lines_to_fail_on(text):
    (found,) = best("a.py", text, "vinegar")
    assert found.first == 1


def function(name: str, *lines: str) -> str:
    return "\n".join([f"def {name}():", *(f"    {line}" for line in lines), "    return None\n"])


def test_a_function_whose_whole_name_is_asked_for_comes_first():
    # `bell` stands in more lines of the second function, but half of its name is not asked for.
    text = function("ring_bell", *["wait()"] * 6) + function("ring_gong", *["bell()"] * 6)
    assert [entry.symbol for entry in best("a.py", text, "ring the bell", most=2)] == ["ring_bell", "ring_gong"]


def test_words_that_stand_close_together_come_first():
    apart = function("first", "vinegar()", "wait()", "wait()", "kettle()")
    near = function("second", "wait()", "vinegar()", "kettle()", "wait()")
    assert best("a.py", apart + near, "vinegar kettle")[0].symbol == "second"


def test_a_word_that_few_functions_hold_counts_for_more_than_one_that_all_hold():
    # In the whole tree both words are as rare.
    text = "".join(function(name, "kettle()", "kettle.on()") for name in ("one", "two", "three"))
    assert best("a.py", text + function("four", "vinegar()", "wait()"), "kettle vinegar")[0].symbol == "four"


def test_files_are_compared_without_what_is_rare_in_each():
    # Alone in its file, or among functions that do not hold it: the word counts the same, since the lengths are equal.
    found = function("descale", "vinegar()")
    long = found + "".join(function(f"other{number}", "wait()") for number in range(20))
    (alone,), (among,) = best("a.py", found.strip(), "vinegar"), best("b.py", long.strip(), "vinegar")
    assert (alone.symbol, among.symbol) == ("descale", "descale")
    # One line holds it, in a part of mean length: 1 / (1 + 1.2) x 2.2. As the best two lines hold it alone, 1 is added.
    assert alone.score == among.score == pytest.approx(1 * 2.2 / (1 + 1.2) + 1)


def test_a_file_that_is_longer_than_what_is_scored_keeps_its_symbols():
    """Cut anywhere, Python is no Python, and a parser finds nothing in it."""
    functions = [f"def filler_{number}():\n    return {number}\n\n\n" for number in range(7_000)]
    text = "".join(functions) + PYTHON
    assert 200_000 < len(text) < 500_000
    best = best_lines("kitchen.py", text, dict.fromkeys(words("boil the kettle"), 1.0))[0]
    assert best.symbol == "boil_water"


def test_the_very_name_that_is_asked_for_comes_first():
    text = PYTHON + "\n\ndef stop():\n    bell = timer = stop = None\n"
    rarity = dict.fromkeys(words("stop_bell"), 1.0)
    assert best_lines("kitchen.py", text, rarity, names=("stop",))[0].symbol == "stop"
    best = best_lines("kitchen.py", text, rarity, names=("stop_bell",))[0]
    assert (best.symbol, best.excerpt[0].strip()) == ("Timer.stop_bell", "def stop_bell(self):")


def test_a_method_of_a_class_is_that_of_this_class():
    text = "".join(
        f"class {name}:\n    def get(self):\n        return 1\n\n\n" for name in ("Cache", "Session", "Store")
    )
    rarity = dict.fromkeys(words("Session.get"), 1.0)
    best = best_lines("a.py", text, rarity, names=("Session", "get"))[0]
    assert (best.symbol, best.excerpt_line) == ("Session.get", 7)


def test_a_class_comes_before_its_constructor():
    pytest.importorskip("tree_sitter_java")
    text = (
        "class Pot extends Vessel {\n  private int cups;\n\n  Pot(int cups) {\n    this(cups, new Pot());\n  }\n\n"
        "  Pot pour() {\n    return this;\n  }\n}\n"
    )
    rarity = dict.fromkeys(words("Pot"), 1.0)
    assert best_lines("Pot.java", text, rarity, names=("Pot",))[0].first == 1


def test_a_property_of_c_sharp_is_that_of_its_class():
    pytest.importorskip("tree_sitter_c_sharp")
    text = (
        "class Pot\n{\n    public Pot(int mostCups)\n    {\n        MostCups = mostCups;\n    }\n\n"
        "    public int MostCups { get; set; }\n}\n"
    )
    rarity = dict.fromkeys(words("Pot.MostCups"), 1.0)
    best = best_lines("Pot.cs", text, rarity, names=("Pot", "MostCups"))[0]
    assert (best.symbol, best.first) == ("Pot.MostCups", 8)


def test_a_method_of_go_is_that_of_its_type():
    pytest.importorskip("tree_sitter_go")
    text = (
        "package tea\n\nfunc (p *Pot) Close() error {\n\tfor _, jar := range p.jars {\n\t\t// The jar closes first.\n"
        "\t\tjar.Close()\n\t}\n\treturn nil\n}\n\nfunc (j *Jar[T]) Close() error {\n\treturn nil\n}\n"
    )
    rarity = dict.fromkeys(words("Jar.Close"), 1.0)
    best = best_lines("tea.go", text, rarity, names=("Jar", "Close"))[0]
    assert (best.symbol, best.first) == ("Jar.Close", 11)


HANDLERS = '''\
class Handler:
    def check_cookie(self):
        """Verifies that the cookie is that of the form."""
        token = self.get_cookie()
        if not token:
            raise ValueError("missing")


class ErrorHandler(Handler):
    def check_cookie(self):
        # Errors change nothing, so the cookie is not checked.
        pass
'''


@pytest.mark.parametrize(
    ("question", "names", "first"),
    [
        ("check cookie", (), 2),
        ("check_cookie", ("check_cookie",), 2),
        ("ErrorHandler.check_cookie", ("ErrorHandler", "check_cookie"), 10),
    ],
)
def test_a_function_that_does_nothing_comes_behind_one_of_its_name_that_does(question, names, first):
    rarity = dict.fromkeys(words(question), 1.0)
    assert best_lines("handlers.py", HANDLERS, rarity, names=names)[0].first == first


def test_a_function_that_does_nothing_is_shown_where_no_other_has_its_name():
    text = HANDLERS.replace("check_cookie", "verify", 1)
    rarity = dict.fromkeys(words("check_cookie"), 1.0)
    assert best_lines("handlers.py", text, rarity, names=("check_cookie",))[0].first == 10


def test_the_function_that_does_nothing_is_shown_where_its_class_is_named():
    text = HANDLERS.replace("class Handler:", "class Interface:\n    def check_cookie(self): ...\n\n\nclass Handler:")
    rarity = dict.fromkeys(words("Interface.check_cookie"), 1.0)
    found = best_lines("handlers.py", text, rarity, names=("Interface", "check_cookie"))[0]
    assert found.symbol == "Interface.check_cookie"


OVERLOADS = """\
class Context:
    @overload
    def invoke(self, command: Command) -> None: ...

    @overload
    def invoke(self, command: Function) -> int: ...

    def invoke(self, command):
        # Functions return what they return.
        return command()
"""


@pytest.mark.parametrize("names", [("invoke",), ("Context", "invoke")])
def test_the_declarations_of_a_method_come_behind_it(names):
    question = ".".join(names)
    found = best_lines("context.py", OVERLOADS, dict.fromkeys(words(question), 1.0), names=names)[0]
    assert (found.symbol, found.first) == ("Context.invoke", 8)


RUST = """\
pub struct PotBuilder;

impl PotBuilder {
    pub fn new() -> PotBuilder {
        PotBuilder
    }
}

pub struct Pot<W> {
    lid: W,
    next: Option<W>,
}

impl<W: Write> Pot<W> {
    pub fn new(lid: W) -> Pot<W> {
        Pot { lid, next: None }
    }
}

impl<W> Iterator for Pot<W> {
    fn next(&mut self) -> Option<W> {
        self.next.take()
    }
}
"""


@pytest.mark.parametrize(
    ("names", "first"),
    [
        (("Pot",), 9),
        # Of several types with such a function the one that is named, whatever it is about.
        (("Pot", "new"), 15),
        (("PotBuilder", "new"), 4),
        # A function rather than the field of its name.
        (("Pot", "next"), 21),
        (("Pot", "lid"), 9),
    ],
)
def test_a_type_that_is_about_others_is_asked_for_without_them(names, first):
    pytest.importorskip("tree_sitter_rust")
    rarity = dict.fromkeys(words("::".join(names)), 1.0)
    assert best_lines("pot.rs", RUST, rarity, names=names)[0].first == first


def test_an_excerpt_has_the_last_line_although_a_blank_one_stands_before_it():
    text = "# Release notes\n\n- Refunds are idempotent now.\n- Rate limiting per tenant.\n"
    (part,) = best("notes.md", text, "rate limiting per tenant")[:1]
    assert (part.excerpt_line, part.excerpt) == (3, ("- Refunds are idempotent now.", "- Rate limiting per tenant."))
