"""The words of an answer: when it is a guess, and where the list begins."""

import pytest

from reflect_locate.ranking import TOLD, find, passages
from reflect_locate.repositories.gate import IngestRules
from reflect_locate.repositories.ingest import ingest
from reflect_locate.repositories.roles import TESTS, is_document
from reflect_locate.repositories.snapshot import LeftOut, Snapshot
from reflect_locate.repositories.tree import Tree
from tiny_player import FILES, write_files

QUESTION = "Where are rate limits parsed?"


@pytest.fixture
def tree():
    return Tree(Snapshot("kettle", FILES))


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("rate limits parsed", True),
        ("rate limits parsed quantum chromodynamics", True),  # 3 of 5 words stand in the tree
        ("rate limits quantum chromodynamics", False),  # 2 of 4
        ("rate quantum chromodynamics gluon", False),  # 1 of 4
        ("limits quantum chromodynamics gluon confinement", False),
    ],
)
def test_where_half_of_the_words_stand_nowhere_an_answer_is_a_guess(tree, question, found):
    answer = find(tree, question, threshold=0.01)
    assert (answer.found, answer.files[0].path) == (found, "src/limits.py")


def test_without_a_word_of_the_tree_the_list_begins_with_the_readme():
    files = {**FILES, "CHANGELOG.md": "# Changes\n", "AUTHORS": "Somebody\n", "a/README.md": "# A\n"}
    answer = find(Tree(Snapshot("kettle", files)), "quantum chromodynamics", threshold=0)
    assert [entry.path for entry in answer.files[:3]] == ["README.md", "AUTHORS", "CHANGELOG.md"]
    assert answer.sureness == "a guess"


def test_an_empty_file_does_not_head_a_list_of_guesses():
    tree = Tree(Snapshot("kettle", {"README.md": "\n", "a.py": "", "b/c.py": "x = 1\n"}))
    assert [entry.path for entry in find(tree, "quantum chromodynamics").files] == ["b/c.py", "README.md", "a.py"]


@pytest.mark.parametrize(
    ("path", "prefix", "word"),
    [("z/last.py", "", "likely"), ("", "", "likely"), ("docs/z.md", "src", "sure"), ("src/z.py", "src", "likely")],
)
def test_files_over_the_limit_make_an_answer_less_sure(path, prefix, word):
    reason = "over the limit of the snapshot" + ("" if path else ": 3 more")
    tree = Tree(Snapshot("kettle", FILES, [LeftOut(path, reason)]), prefix)
    assert find(tree, QUESTION).sureness == word
    assert find(Tree(Snapshot("kettle", FILES, [LeftOut("a.png", "binary")])), QUESTION).sureness == "sure"


@pytest.mark.parametrize(
    ("path", "reason", "word"),
    [
        ("src/z.c", "too large", "likely"),
        ("z.txt", "too large", "sure"),
        ("z.json", "too large", "sure"),
        ("z/", "too many entries", "likely"),
        ("z/", "too deep", "likely"),
        ("./", "too many entries", "likely"),
    ],
)
def test_large_sources_and_folders_over_a_limit_make_an_answer_less_sure(path, reason, word):
    assert find(Tree(Snapshot("kettle", FILES, [LeftOut(path, reason)])), QUESTION).sureness == word


def test_a_limit_that_is_met_is_noticed(tmp_path):
    rules = IngestRules(max_total_bytes=sum(map(len, FILES.values())))
    folder = write_files(tmp_path / "kettle", {**FILES, "z/last.py": "x = 1\n"})
    assert find(Tree(ingest(folder, rules)), QUESTION).sureness == "likely"


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("which test checks the watchdog", True),
        ("tests of the parser", True),
        ("where is the parser tested", True),
        ("test for the parser", True),
        ("unit test of limits", True),
        ("test suite", True),
        ("how is the test split loaded", False),
        ("test client of the application", False),
        ("test a connection before use", False),
        ("the latest attestation", False),
    ],
)
def test_a_question_speaks_of_tests_by_more_than_the_word_test(question, wanted):
    assert bool(TESTS.search(question)) is wanted


def test_the_file_that_defines_a_thing_comes_before_those_that_use_it():
    uses = "def refill(cup):\n    return boil_water(cup)  # boil water\n"
    defines = "def boil_water(cup):\n    return cup\n" + "x = cup\n" * 20
    tree = Tree(Snapshot("kitchen", {"a/cup.py": uses, "b/main.py": defines}))
    files = find(tree, "boil water").files
    assert [(entry.path, entry.evidence.defined) for entry in files] == [("b/main.py", 1.0), ("a/cup.py", 0.0)]
    assert files[0].evidence.coverage == files[1].evidence.coverage == 1


def test_a_files_own_name_is_evidence():
    tree = Tree(Snapshot("kitchen", {"kettle.py": "x = 1  # kettle", "other_thing.py": "x = 1  # kettle"}))
    assert {entry.path: entry.evidence.stem for entry in find(tree, "Where is the kettle?").files} == {
        "kettle.py": 1.0,
        "other_thing.py": 0.0,
    }


USES = "def refill(cup):\n    return boil_water(cup) + MOST_CUPS  # boil water, boil_water: most cups\n"
DEFINES = "MOST_CUPS = 9\n\n\ndef boil_water(cup):\n    return cup\n" + "x = cup\n" * 200


@pytest.mark.parametrize(
    ("question", "first"),
    [("boil_water", 4), ("boil_water()", 4), ("Where is boil_water?", 4), ("MOST_CUPS", 1), ("kitchen.boil_water", 4)],
)
def test_a_question_that_is_a_name_finds_its_definition(question, first):
    tree = Tree(
        Snapshot("kitchen", {"a/water.py": USES * 5, "b/main.py": DEFINES, "boil/water.toml": "boil_water = 1\n"})
    )
    answer = find(tree, question)
    assert answer.files[0].path == "b/main.py"
    assert answer.found
    lines = answer.with_lines(tree, 1)[0].lines
    assert lines.excerpt_line == first
    assert passages(tree, answer, 1)[0][0] == "b/main.py"


def test_a_definition_is_found_although_ten_files_hold_its_words_more_often():
    files = {f"use{number}.py": USES * 20 for number in range(30)}
    assert find(Tree(Snapshot("kitchen", files | {"z.py": DEFINES})), "boil_water").files[0].path == "z.py"


def test_a_name_of_words_that_stand_in_every_file_is_found():
    tree = Tree(Snapshot("kitchen", {"a.py": "x = 1\n", "b.py": "y = 1\n" * 30 + "def get_all():\n    return 1\n"}))
    answer = find(tree, "get_all")
    assert answer.files[0].path == "b.py"
    assert answer.with_lines(tree, 1)[0].lines.symbol == "get_all"


def test_a_sentence_that_mentions_a_name_is_about_something_else():
    tree = Tree(Snapshot("kitchen", {"a.py": USES, "b.py": DEFINES}))
    answer = find(tree, "Which kettle is used by boil_water for guests, soup and tea in winter?")
    assert {entry.evidence.written for entry in answer.files} == {None}


@pytest.mark.parametrize("question", ["files", "C++", "where is it?", "🎉🎉"])
def test_a_question_without_a_word_to_compare_is_a_guess(question):
    tree = Tree(Snapshot("kitchen", {"a.py": USES, "README.md": "# Kitchen\n"}))
    answer = find(tree, question)
    assert (answer.files[0].path, answer.sureness) == ("README.md", "a guess")
    assert answer.with_lines(tree, 1)[0].lines.first == 1


SETTINGS = {
    "tea/defaults.py": "MOST_CUPS = 9\nPOT = 1\n",
    "tea/most_cups.py": "def count(most, cups):\n    return most, cups, MOST_CUPS\n",
    "tea/bar.py": "class Bar:\n    def most_cups(self):\n        return MOST_CUPS  # most cups\n",
    "new/settings.py.tmpl": "MOST_CUPS = 2\n# most cups\n",
}


def test_a_constant_comes_before_names_that_are_written_otherwise():
    files = find(Tree(Snapshot("kitchen", SETTINGS)), "MOST_CUPS").files
    assert files[0].path == "tea/defaults.py"
    assert {entry.path: entry.evidence.defined for entry in files}["tea/bar.py"] == 0
    # As words it is the function that they name.
    assert find(Tree(Snapshot("kitchen", SETTINGS)), "most cups").files[0].path == "tea/bar.py"


def test_a_word_alone_may_mean_a_class():
    files = {"pot.py": "class Kettle:\n    pass\n", "app.py": "from pot import Kettle\n\nkettle = Kettle()\n"}
    found = {entry.path: entry.evidence for entry in find(Tree(Snapshot("kitchen", files)), "kettle").files}
    assert (found["pot.py"].defined, found["app.py"].written) == (1, 0.7)


def test_a_type_comes_before_the_code_about_it():
    shows = "impl Debug for TeaPot {\n    fn fmt(&self) {\n        tea_pot(self)\n    }\n}\n"
    text = f"pub struct TeaPot {{\n    size: u8,\n}}\n\n{shows}"
    answer = find(tree := Tree(Snapshot("kitchen", {"pot.rs": text, "cup.rs": "use TeaPot;\n"})), "TeaPot")
    assert answer.with_lines(tree, 1)[0].lines.first == 1


WITH_TESTS = """\
fn parse(text: &str) -> u32 {
    // The limit of a cup.
    text.parse()
}

#[cfg(test)]
mod tests {
    #[test]
    fn parse_limit() {
        // The limit of a cup is parsed.
        assert_eq!(parse("limit"), 3)
    }
}
"""


@pytest.mark.parametrize(
    ("question", "symbol"),
    [
        ("Where is the limit of a cup parsed?", "parse"),
        ("Which test parses the limit of a cup?", "tests.parse_limit"),
    ],
)
def test_a_question_gets_the_code_and_not_its_test_beside_it_unless_it_asks_for_tests(question, symbol):
    pytest.importorskip("tree_sitter_rust")
    tree = Tree(Snapshot("kitchen", {"src/limit.rs": WITH_TESTS, "src/cup.rs": "// Cups.\n"}))
    assert find(tree, question).with_lines(tree, 1)[0].lines.symbol == symbol


def test_an_answer_with_an_unknown_word_is_never_sure():
    tree = Tree(Snapshot("kitchen", {"limits.py": "# Parsing of rate limits.", "clock.py": "# Watches."}))
    assert find(tree, "Where are rate limits parsed?").sureness == "sure"
    assert find(tree, "Where are rate limits of zebras parsed?").sureness == "likely"


KITCHEN = {
    "README.md": "# Kitchen\n",
    "src/tea.py": '"""Drinks."""\n\nx = 1\n\n\ndef boil(tea):\n    return tea\n',
    "src/uses.py": "from src import tea  # tea tea.py: tea of src\n" * 9,
    "tests/test_tea.py": "from src import tea  # tea.py\n" * 9,
}


@pytest.mark.parametrize("question", ["tea.py", "src/tea.py", "What does tea.py do?", "the tea", "tea"])
def test_the_file_that_a_question_names_comes_first(question):
    answer = find(Tree(Snapshot("kitchen", KITCHEN)), question)
    assert (answer.files[0].path, answer.sureness) == ("src/tea.py", "sure")
    assert [entry.evidence.asked for entry in answer.files] == [True] + [False] * (len(answer.files) - 1)
    assert answer.files[0].score >= 0.5 >= answer.files[1].score


def test_words_that_name_a_file_choose_no_lines_in_it():
    tree = Tree(Snapshot("kitchen", KITCHEN))
    assert find(tree, "src/tea.py").with_lines(tree, 1)[0].lines.first == 1
    assert find(tree, "boil in tea.py").with_lines(tree, 1)[0].lines.symbol == "boil"


def test_of_several_files_of_a_name_none_is_sure():
    tree = Tree(Snapshot("kitchen", KITCHEN | {"old/tea.py": "x = 1  # tea\n"}))
    answer = find(tree, "tea.py", threshold=0)
    assert {entry.path for entry in answer.files[:2]} == {"src/tea.py", "old/tea.py"}
    assert answer.sureness == "likely"


@pytest.mark.parametrize("defines", ["def tea():\n", "class Tea:\n"])
def test_words_that_are_a_definitions_name_elsewhere_name_no_file(defines):
    files = find(Tree(Snapshot("kitchen", KITCHEN | {"src/leaves.py": defines})), "the tea").files
    assert {entry.evidence.asked for entry in files} == {None}


def test_no_test_is_named_by_words_alone():
    tree = Tree(Snapshot("kitchen", {"tests/tea.py": "x = tea\n", "a.py": "y = tea\n"}))
    assert {entry.evidence.asked for entry in find(tree, "tea").files} == {None}
    assert find(tree, "tests/tea.py").files[0].path == "tests/tea.py"


def test_a_question_for_instructions_names_no_file():
    answer = find(Tree(Snapshot("kitchen", KITCHEN)), "how do I use tea.py?")
    assert {entry.evidence.asked for entry in answer.files} == {None}


def test_a_file_is_found_by_its_name_beside_many_of_its_words():
    files = {f"use{number}.py": "tea.py\n" * 20 for number in range(30)}
    assert find(Tree(Snapshot("kitchen", files | {"z/tea.py": ""})), "tea.py").files[0].path == "z/tea.py"


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("where is the warmup of the rate", "a.py"),
        ("json with the warmup of the rate", "runs/1.json"),
        ("runs/1.json", "runs/1.json"),
    ],
)
def test_data_comes_behind_code_unless_it_is_asked_for(question, first):
    data = {f"runs/{number}.json": '{"warmup": 1, "rate": 2}\n' for number in range(1, 30)}
    code = "x = rate  # rate\n\n\n# warmup\n"
    files = find(Tree(Snapshot("kitchen", data | {"a.py": code})), question).files
    assert files[0].path == first
    assert {entry.path for entry in files if entry.evidence.is_data} == (
        {entry.path for entry in files if entry.path != "a.py"} if first == "a.py" else set()
    )


def test_a_member_that_is_defined_as_it_is_written_comes_before_a_variable_of_its_owners_name():
    files = {
        "lib/app.js": "var app = function (cup) {\n  return cup\n}\n// app.use\n",
        "lib/main.js": "var app = {}\n" + "x = 1\n" * 99 + "app.use = function use (cup) {\n  return cup\n}\n",
    }
    found = find(Tree(Snapshot("kitchen", files)), "app.use").files
    assert [(entry.path, entry.evidence.written) for entry in found] == [("lib/main.js", 1.0), ("lib/app.js", 0.0)]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("which page tells about the watchdog", True),
        ("Which document of the project explains limits?", True),
        ("what page is about limits", True),
        ("which page shows the limits", False),
        ("which document is parsed first", False),
        ("where does the page tell its limits", False),
    ],
)
def test_a_page_that_tells_something_is_a_document(question, wanted):
    assert bool(TOLD.search(question)) is wanted
    tree = Tree(Snapshot("kitchen", {"a.md": "# Limits\n", "a.py": "x = 1  # limits\n"}))
    is_document = {entry.path: entry.evidence.is_document for entry in find(tree, f"{question} limits").files}
    assert is_document["a.md"] is not wanted


def test_the_modules_of_a_qualified_name_choose_among_its_definitions():
    pot = "class Pot:\n    def pour(self):\n        return tea\n"
    tree = Tree(Snapshot("kitchen", {f"{name}.py": pot for name in ("a/pots", "b/pots", "b/lids")}))
    assert find(tree, "b.lids.Pot.pour").files[0].path == "b/lids.py"
    assert find(tree, "b.pots.Pot.pour").files[0].path == "b/pots.py"


@pytest.mark.parametrize(("question", "line"), [("Pot.size", 4), ("Pot.SIZES", 2), ("Pot.pour", 6), ("Pot", 1)])
def test_a_field_of_a_class_is_shown_and_not_its_head(question, line):
    text = "class Pot:\n    SIZES = [1, 2]\n\n    size: int = 1\n\n    def pour(self):\n        return self.size\n"
    tree = Tree(Snapshot("kitchen", {"pots.py": text, "tea.py": "x = Pot.size\n"}))
    first = find(tree, question).with_lines(tree, 1)[0]
    assert (first.path, first.lines.excerpt_line) == ("pots.py", line)


def test_a_test_may_be_named_by_its_very_name():
    tree = Tree(Snapshot("kitchen", {"tests/conftest.py": "x = tea\n", "a.py": "conftest = tea\n"}))
    assert find(tree, "conftest").files[0].path == "tests/conftest.py"


def test_notes_of_changes_are_no_guess_because_their_name_stands_nowhere():
    tree = Tree(Snapshot("kitchen", {"CHANGES.rst": "Version 1\n", "a.py": "y = tea\n"}))
    answer = find(tree, "changelog")
    assert (answer.files[0].path, answer.sureness) == ("CHANGES.rst", "sure")


def test_lists_of_requirements_and_builds_are_no_documents():
    assert not any(map(is_document, ("CMakeLists.txt", "a/dev-requirements.txt", "requirements/tests.in")))
    assert is_document("docs/requirements.md")


TESTED = {
    "kettle.py": "# The kettle.\ndef kettle():\n    return kettle  # what tests whether the kettle covers it\n",
    "tests/test_kettle.py": "import kettle\n\n\ndef test_kettle():\n    assert kettle\n",
    "tea.py": "x = 1\n",
}


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("tests of the kettle", "tests/test_kettle.py"),
        ("where are the tests for the kettle?", "tests/test_kettle.py"),
        ("which test covers the kettle", "tests/test_kettle.py"),
        ("what tests whether the kettle covers it", "kettle.py"),
    ],
)
def test_a_question_that_begins_with_tests_is_for_them_alone(question, first):
    assert find(Tree(Snapshot("kitchen", TESTED)), question).files[0].path == first


def test_where_there_are_no_tests_nothing_comes_behind_them():
    tree = Tree(Snapshot("kitchen", {path: text for path, text in TESTED.items() if "/" not in path}))
    assert find(tree, "tests of the kettle").files[0].score == find(tree, "tested by the kettle").files[0].score


def test_a_large_source_makes_no_guess_of_a_likely_answer():
    files = {
        "a.py": "# The lid of the kettle.\nx = 1\n",
        "b.py": "# The lid of a pot, and its kettle, in many words.\n",
    }
    found = [find(Tree(Snapshot("x", files, out)), "lid of the kettle") for out in ([], [LeftOut("z.c", "too large")])]
    assert [answer.sureness for answer in found] == ["likely", "likely"]


NUMBERED = {
    "kettle.py": "import line\n\n\ndef lines():\n    return line.all()\n\n\ndef boil():\n    heat()\n\n    return 1\n",
    "line.py": "# Each line of the kettle.\n",
}


@pytest.mark.parametrize(
    ("question", "shown", "excerpt"),
    [
        ("kettle.py:9", (8, 11), 9),
        ("kettle.py:9:5:", (8, 11), 9),
        ("kettle.py line 8", (8, 11), 8),
        ("what is on lines 8-11 of kettle.py?", (8, 11), 8),
        ('File "/srv/kitchen/kettle.py", line 11, in boil', (8, 11), 11),
        ("kettle.py#L1", (1, 1), 1),
        # A blank line belongs to what stands before it.
        ("kettle.py:10", (8, 11), 9),
        ("kettle.py:7", (4, 5), 5),
        # There is no such line, so the file is shown from its beginning.
        ("kettle.py:9000", (1, 11), 1),
        ("kettle.py:0", (1, 11), 1),
    ],
)
def test_a_line_that_is_named_with_its_file_is_shown(question, shown, excerpt):
    tree = Tree(Snapshot("kitchen", NUMBERED))
    answer = find(tree, question)
    (first, *_) = answer.with_lines(tree, 1)
    assert (first.path, answer.sureness) == ("kettle.py", "sure")
    assert ((first.lines.first, first.lines.last), first.lines.excerpt_line) == (shown, excerpt)
    path, lines = passages(tree, answer, 1)[0]
    assert (path, (lines.first, lines.last)) == ("kettle.py", shown)


def test_each_file_has_the_line_that_is_named_behind_it():
    tree = Tree(Snapshot("kitchen", NUMBERED | {"pot.py": "x = 1\n\n\ndef lid():\n    return x\n"}))
    answer = find(tree, "kettle.py:9 pot.py:5")
    assert {entry.path: entry.lines.excerpt_line for entry in answer.with_lines(tree, 2)} == {
        "kettle.py": 9,
        "pot.py": 5,
    }


MESSAGES = {
    "cups.py": "# Cups of tea.\ndef left(tea):\n    return tea.cups_left\n\n\ndef tea():\n    return left\n",
    "pour.py": 'x = 1\n\n\ndef fill(c):\n    raise E(f"no tea is left for {c}")\n\n\ndef tea():\n    return left\n',
    "docs.md": "# No tea is left\n\nThe message `no tea is left for` tells that.\n",
    "tests/test_cups.py": 'def test_tea():\n    raises("no tea is left for")\n',
}


def test_a_source_that_holds_the_words_of_an_error_message_comes_first():
    tree = Tree(Snapshot("kitchen", MESSAGES))
    answer = find(tree, "no tea is left for 'a cup'")
    (first, *_) = answer.with_lines(tree, 4)
    assert (first.path, first.lines.symbol, first.lines.excerpt_line) == ("pour.py", "fill", 5)
    assert {entry.path: entry.evidence.quoted for entry in answer.files if entry.evidence.quoted} == {"pour.py": 5 / 7}


def test_copies_of_a_masked_sentence_are_no_quotes():
    masked = Tree(Snapshot("kitchen", MESSAGES), masks={"cups.py": [(0, 14)]})
    assert {entry.evidence.quoted for entry in find(masked, "no tea is left for 'a cup'").files} == {None}


def test_without_a_quote_the_scores_stay_as_they_are():
    tree = Tree(Snapshot("kitchen", MESSAGES))
    assert {entry.evidence.quoted for entry in find(tree, "left tea for no cup").files} == {None}


def test_the_place_that_a_message_tells_comes_first_and_is_no_guess():
    files = {
        "src/tea.rs": "fn boil() {}\n" * 9,
        "src/panic.rs": "fn panic_on_empty_thread() {}\n",
        "a.rs": "// unwrap\n",
    }
    answer = find(Tree(Snapshot("kitchen", files)), "thread 'main' panicked at src/tea.rs:4:9: unwrap on a None value")
    assert (answer.files[0].path, answer.lines["src/tea.rs"], answer.sureness) == ("src/tea.rs", 4, "likely")


def test_a_long_trace_is_answered_by_its_last_place():
    files = {f"app/step{number}.py": f"x = 1\n\n\ndef step{number}(order):\n    pass\n" for number in range(9)}
    frames = (f'  File "/srv/shop/{path}", line 5, in step\n    return helper(order)\n' for path in files)
    trace = "Traceback (most recent call last):\n" + "".join(frames) + "ValueError: the basket is empty"
    answer = find(Tree(Snapshot("shop", files)), trace)
    assert (answer.files[0].path, answer.lines["app/step8.py"]) == ("app/step8.py", 5)


def test_the_source_that_holds_a_message_comes_before_a_place_on_the_way():
    files = {"main.py": "serve()\n", "pots.py": "def boil():\n    raise TeaError('no tea is left for this cup')\n"}
    told = 'File "main.py", line 1, in serve TeaError: no tea is left for this cup'
    answer = find(Tree(Snapshot("kitchen", files)), told)
    assert (answer.files[0].path, answer.lines["pots.py"]) == ("pots.py", 2)


def test_a_member_of_cpp_is_found_where_it_is_defined_outside_of_its_class():
    header = "class Pot {\n public:\n  int boil(int cups);\n  int boil(int cups, int pots);\n};\n"
    files = {"include/pot.h": header, "src/pot.cc": "int Pot::boil(int cups) {\n  return cups;\n}\n"}
    answer = find(Tree(Snapshot("kitchen", files)), "Pot::boil")
    assert (answer.files[0].path, answer.sureness) == ("src/pot.cc", "sure")
    uses = files | {"src/main.cc": "int main() {\n  Pot::boil(3);\n  return Pot::boil(4);\n}\n"}
    assert find(Tree(Snapshot("kitchen", uses)), "Pot::boil").files[0].path == "src/pot.cc"


@pytest.mark.parametrize(
    "question", ["rotate checkpoints", "where are the rotate checkpoints?", "`rotate checkpoints`"]
)
@pytest.mark.parametrize("name", ["rotate_checkpoints", "rotateCheckpoints", "_rotate_checkpoints"])
def test_a_name_with_blanks_is_found_in_a_file_that_holds_its_words_seldom(question, name):
    # Thirty files have each word on many lines, and so come before the one that defines the function.
    files = {f"a{number}.py": "rotate checkpoints\n" * 20 for number in range(30)}
    files["z.py"] = f"def {name}(folder):\n    pass\n" + "x = 1\n" * 400
    assert find(Tree(Snapshot("kitchen", files)), question).files[0].path == "z.py"


def test_a_name_is_found_although_many_files_use_it():
    files = {f"a{number}.py": "pour_tea()\n" * 20 for number in range(300)}
    files["z.py"] = "def pour_tea():\n    pass\n" + "x = 1\n" * 400
    answer = find(Tree(Snapshot("kitchen", files)), "pour_tea")
    assert (answer.files[0].path, answer.sureness) == ("z.py", "sure")


def test_a_function_comes_before_a_method_of_its_name():
    files = {
        "a.py": "class Pot:\n    def as_cup(self):\n        return self.as_cup\n",
        "b.py": "def as_cup(pot):\n    return pot\n" + "x = 1\n" * 40,
    }
    tree = Tree(Snapshot("kitchen", files))
    assert find(tree, "as_cup").files[0].path == "b.py"
    # A question that names the class asks for the method.
    assert find(tree, "Pot.as_cup").files[0].path == "a.py"
    # In a file that has both, it is the function that counts.
    both = Tree(Snapshot("kitchen", {"a.py": files["a.py"] + files["b.py"], "b.py": files["b.py"]}))
    assert [entry.evidence.written for entry in find(both, "as_cup").files] == [1.0, 1.0]
