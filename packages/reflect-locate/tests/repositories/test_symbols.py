"""Functions, classes and headings of small files, with the lines that a reader would give them."""

import pytest

from reflect_locate.repositories import symbols as module
from reflect_locate.repositories.symbols import GRAMMARS, LONGEST_PARSED, MODULES, symbols

PYTHON = '''\
"""A kettle."""

import os


@cached
@property
def volume():
    return 1


class Kettle:
    """Boils."""

    size = 2

    async def boil(self):
        def inner():
            pass

        return inner


if os.name == "nt":

    def whistle(): ...
else:
    try:
        import bell
    except ImportError:

        def whistle(): ...
'''

MARKDOWN = """\
Tea
===

Intro.

## Green ##

```sh
# no heading: a comment inside a fence
```

### Leaves

Dry.

Water
-----

Hot.
"""

C = """\
#include <stdio.h>

int boil(int degrees);

static int *pour(struct cup *cup)
{
    return 0;
}

struct cup {
    int size;
};
"""

GO = """\
package tea

type Cup struct {
	Size int
}

func (c *Cup) Pour() int {
	return c.Size
}
"""


def rows(path, text):
    return [(entry.name, entry.kind, entry.first, entry.last) for entry in symbols(path, text)]


def test_python_has_functions_and_classes_with_decorators_and_names_around_them():
    assert rows("kettle.py", PYTHON) == [
        ("volume", "function", 6, 9),
        ("Kettle", "class", 12, 21),
        ("Kettle.boil", "function", 17, 21),
        ("Kettle.boil.inner", "function", 18, 19),
        ("whistle", "function", 26, 26),
        ("whistle", "function", 32, 32),
    ]


def test_python_has_functions_in_the_cases_of_a_match_and_in_stubs():
    text = "match kind:\n    case 1:\n        def boil(): ...\n    case _:\n        def pour(): ...\n"
    assert rows("tea.py", text) == [("boil", "function", 3, 3), ("pour", "function", 5, 5)]
    assert rows("tea.pyi", "class Cup:\n    def pour(self) -> int: ...\n") == [
        ("Cup", "class", 1, 2),
        ("Cup.pour", "function", 2, 2),
    ]


@pytest.mark.parametrize(
    ("body", "is_empty"),
    [
        ("pass", True),
        ("...", True),
        ('"""Says what it would do."""', True),
        ('"""Says."""; raise NotImplementedError("write it")', True),
        ("raise NotImplementedError", True),
        ("return", True),
        ("raise ValueError", False),
        ("return None", False),
        ("def inner(): pass", False),
    ],
)
def test_a_python_function_that_does_nothing_is_told(body, is_empty):
    around, function, *_ = symbols("a.py", f"class A:\n    def f(self):\n        {body}\n")
    assert (around.is_empty, function.is_empty) == (False, is_empty)


def test_documents_have_sections_that_end_before_the_next_of_their_level():
    # Underlines have levels of their own, in the order in which they come: `=` is the first, `-` the second.
    assert rows("tea.md", MARKDOWN) == [
        ("Tea", "heading", 1, 19),
        ("Green", "heading", 6, 15),
        ("Leaves", "heading", 12, 15),
        ("Water", "heading", 16, 19),
    ]


@pytest.mark.parametrize("path", ["tea.markdown", "tea.mdx"])
def test_other_endings_of_markdown_are_read_alike(path):
    assert rows(path, MARKDOWN) == rows("tea.md", MARKDOWN)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("# Tea", "Tea"),
        ("#\tTea", "Tea"),
        ("###### Tea  ##", "Tea"),
        ("# Tea # pot", "Tea # pot"),
        ("# Tea ## ", "Tea ##"),
        ("#Tea", None),
        ("####### Tea", None),
        ("#", None),
        ("#   ", None),
        ("## ##", None),
    ],
)
def test_a_heading_is_named_without_its_marks(line, name):
    assert [entry.name for entry in symbols("tea.md", line)] == ([] if name is None else [name])


def test_a_heading_may_have_a_long_gap():
    # A pattern that tries each length of the gap takes minutes.
    (found,) = symbols("tea.md", f"# kettle{' ' * 400_000}x")
    assert found.name.rstrip() == "kettle"


def test_a_document_may_have_a_hundred_thousand_sections():
    # Where each section looks at all behind it, this takes minutes.
    found = symbols("tea.md", "# a\n" * 100_000)
    assert [(entry.first, entry.last) for entry in found] == [(line, line) for line in range(1, 100_001)]


def test_sections_end_before_the_next_of_their_level_or_a_higher_one():
    text = "".join(f"{'#' * level} {number}\n" for number, level in enumerate([2, 3, 5, 4, 3, 1, 6, 1], start=1))
    assert [entry.last for entry in symbols("tea.md", text)] == [5, 4, 3, 4, 5, 7, 7, 8]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("~~~\n```\n# a\n```\n~~~\n# b\n", ["b"]),
        ("````\n```\n# a\n````\n# b\n", ["b"]),
        ("```\n# a\n`````\n# b\n", ["b"]),
        ("```\n# a\n```sh\n# b\n``` \n# c\n", ["c"]),
        ("```one line```\n# a\n", ["a"]),
        ("~~~ sh `x`\n# a\n~~~\n# b\n", ["b"]),
    ],
)
def test_code_ends_with_the_mark_that_began_it(text, names):
    assert [entry.name for entry in symbols("tea.md", text)] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("---\n# shown at the side\ntitle: Tea\n---\n\n# Tea\n", [("Tea", 6)]),
        ("---\ntitle: Tea\n\n# not shown\n...\n# Tea\n", [("Tea", 6)]),
        ("+++\n# shown at the side\ntitle = 'Tea'\n+++\n# Tea\n", [("Tea", 5)]),
        ("---\n\n# Tea\n\n---\n# Pots\n", [("Tea", 3), ("Pots", 6)]),  # rules
        ("---\n# Tea\n", [("Tea", 2)]),  # no end
        ("---", []),
    ],
)
def test_settings_before_a_document_are_no_headings(text, names):
    assert [(entry.name, entry.first) for entry in symbols("tea.md", text)] == names


@pytest.mark.parametrize("path", ["CMakeLists.txt", "a/requirements.txt", "requirements/dev.txt"])
def test_comments_of_lists_are_no_headings(path):
    assert symbols(path, "# Find the kettle\nkettle\n") == ()
    assert symbols("notes.txt", "# Find the kettle\nkettle\n") != ()


def test_tildes_underline_titles_of_restructured_text():
    text = "Tea\n===\n\nGreen\n~~~~~\n\nHot.\n\nPots\n~~~~\n"
    assert rows("tea.rst", text) == [("Tea", "heading", 1, 10), ("Green", "heading", 4, 8), ("Pots", "heading", 9, 10)]


ASCIIDOC = """\
= Tea

====
An example.
====

== Green ==

App
----
== no heading: a listing
----

[source,sh]
+
----
== another one
-----
== still
----

=== Leaves

== Water
"""


def test_asciidoc_has_sections_and_no_headings_in_blocks():
    assert rows("tea.adoc", ASCIIDOC) == [
        ("Tea", "heading", 1, 24),
        ("Green", "heading", 7, 23),
        ("Leaves", "heading", 22, 23),
        ("Water", "heading", 24, 24),
    ]


GREETINGS = {
    "c": "int tea(void) { return 1; }",
    "cpp": "int tea() { return 1; }",
    "c_sharp": "class tea { }",
    "go": "package p\nfunc tea() { }",
    "java": "class tea { }",
    "javascript": "function tea() { }",
    "php": "<?php function tea() { }",
    "ruby": "def tea\n1\nend",
    "rust": "fn tea() { }",
    "tsx": "function tea() { return <b>tea</b>; }",
    "typescript": "function tea(cup: Cup) { return <Cup>cup; }",
}
"""Language -> a definition; the last two are read by their own grammars only."""


@pytest.mark.parametrize("language", MODULES)
def test_each_language_is_read_by_its_own_grammar(language):
    pytest.importorskip(MODULES[language][0])
    endings = [ending for ending, own in GRAMMARS.items() if own == language]
    assert endings
    for ending in endings:
        assert [row[0] for row in rows(f"a{ending}", GREETINGS[language])] == ["tea"]
    tree = module._parser(language).parse(GREETINGS[language].encode())
    assert not tree.root_node.has_error


def test_each_language_has_a_grammar():
    assert set(GRAMMARS.values()) == set(MODULES) == set(GREETINGS)


def test_c_has_functions_with_a_body_and_structs():
    pytest.importorskip("tree_sitter_c")
    assert rows("tea.c", C) == [("pour", "function", 5, 8), ("cup", "class", 10, 12)]


def test_go_has_methods_and_types():
    pytest.importorskip("tree_sitter_go")
    assert rows("tea.go", GO) == [("Cup", "class", 3, 5), ("Cup.Pour", "function", 7, 9)]


def test_c_sharp_has_properties_and_records_without_a_body():
    pytest.importorskip("tree_sitter_c_sharp")
    text = (
        "class Pot {\n  /// The lid.\n  public int Lid {\n    get { return 3; }\n  }\n  public int Cups => 3;\n"
        "  int size = 3;\n}\nrecord Cup(int Size);\ndelegate void Boil(int cups);\n"
    )
    assert rows("tea.cs", text) == [
        ("Pot", "class", 1, 8),
        ("Pot.Lid", "function", 2, 5),
        ("Pot.Cups", "function", 6, 6),
        ("Cup", "class", 9, 9),
        ("Boil", "class", 10, 10),
    ]


def test_a_comment_directly_above_belongs_to_a_definition():
    pytest.importorskip("tree_sitter_go")
    text = (
        "package tea\n\n// Boil heats\n// the water.\nfunc Boil() {\n}\n\n// Far from it.\n\nfunc Pour() {\n}\n"
        "var cup = 1 // a cup\nfunc Fill() {\n}\n\n// Pot holds tea.\ntype Pot struct {\n}\n"
    )
    assert rows("tea.go", text) == [
        ("Boil", "function", 3, 6),
        ("Pour", "function", 10, 11),
        ("Fill", "function", 13, 14),
        ("Pot", "class", 16, 18),
    ]


def test_a_javadoc_belongs_to_its_method():
    pytest.importorskip("tree_sitter_java")
    text = (
        "/* Licence. */\n\n/**\n * A cup.\n */\nclass Cup {\n  /** Pours. */\n  int pour() {\n    return 1;\n  }\n}\n"
    )
    assert rows("Cup.java", text) == [("Cup", "class", 3, 11), ("Cup.pour", "function", 7, 10)]


def test_a_method_on_the_line_of_its_class_does_not_own_the_comment_of_the_class():
    pytest.importorskip("tree_sitter_java")
    text = "/** A cup. */\nclass Cup { int pour() { return 1; } }\n"
    assert rows("Cup.java", text) == [("Cup", "class", 1, 2), ("Cup.pour", "function", 2, 2)]


def test_a_comment_above_a_template_belongs_to_its_function():
    pytest.importorskip("tree_sitter_cpp")
    text = "// Pours.\ntemplate <class T>\nT pour() {\n  return 1;\n}\n"
    assert rows("cup.cpp", text)[-1] == ("pour", "function", 1, 5)


def test_java_has_classes_with_constructors_and_methods():
    pytest.importorskip("tree_sitter_java")
    text = "class Cup {\n  Cup(int size) {\n  }\n\n  int pour() {\n    return 1;\n  }\n}\n\ninterface Pot {\n}\n"
    assert rows("Cup.java", text) == [
        ("Cup", "class", 1, 8),
        ("Cup.Cup", "function", 2, 3),
        ("Cup.pour", "function", 5, 7),
        ("Pot", "class", 10, 11),
    ]


def test_c_sharp_has_classes_and_records_with_methods():
    pytest.importorskip("tree_sitter_c_sharp")
    text = "namespace Tea {\n  class Cup {\n    int Pour() {\n      return 1;\n    }\n  }\n}\n"
    assert rows("Cup.cs", text) == [("Cup", "class", 2, 6), ("Cup.Pour", "function", 3, 5)]


def test_cpp_has_classes_with_methods_inside_and_outside():
    pytest.importorskip("tree_sitter_cpp")
    text = "class Cup {\n  int pour() {\n    return 1;\n  }\n  void fill();\n};\n\nvoid Cup::fill() {\n}\n"
    for path in ("cup.cpp", "cup.h"):
        assert rows(path, text) == [
            ("Cup", "class", 1, 6),
            ("Cup.pour", "function", 2, 4),
            ("Cup::fill", "function", 8, 9),
        ]


CONVERSIONS = """\
class Foo {
  operator bool() const { return true; }
  explicit operator const char *() { return 0; }
  template <class T> operator std::vector<T> &() { return v; }
  bool operator==(const Foo &o) const { return true; }
  int operator()(int x) { return x; }
  int &operator[](int x) { return a[x]; }
  Foo &pour() { return *this; }
  int (*get())(int) { return 0; }
};
Foo::operator int() const { return 1; }
Foo &Foo::operator+=(Foo o) { return *this; }
"""


def test_operators_of_cpp_are_named_without_their_parameters():
    pytest.importorskip("tree_sitter_cpp")
    names = ["bool", "const char *", "std::vector<T> &", "==", "()", "[]"]
    spaced = [f"Foo.operator{' ' * name[0].isalpha()}{name}" for name in names]
    assert [entry.name for entry in symbols("foo.cpp", CONVERSIONS)] == [
        "Foo",
        *spaced,
        "Foo.pour",
        "Foo.get",
        "Foo::operator int",
        "Foo::operator+=",
    ]


RUST = """\
//! Tea.

/// A cup.
#[derive(Debug)]
pub struct Cup {
    size: u8,
}

impl Cup {
    const SIZE: u8 = 1; // Not of `pour`.
    pub fn pour(&self) -> u8 {
        1
    }

    /// Fills.
    /// Twice.
    #[inline]
    fn fill() {}
}

impl<T> Pot for Kettle<T> {
    fn boil(&self) {}
}

trait Pot {
    fn boil(&self);
}

struct Unit;
"""


def test_rust_has_structs_and_what_is_implemented_with_attributes_and_comments():
    pytest.importorskip("tree_sitter_rust")
    assert rows("tea.rs", RUST) == [
        ("Cup", "class", 3, 7),
        ("Cup", "class", 9, 19),
        ("Cup.pour", "function", 11, 13),
        ("Cup.fill", "function", 15, 18),
        ("Kettle<T>", "class", 21, 23),
        ("Kettle<T>.boil", "function", 22, 22),
        ("Pot", "class", 25, 27),
        ("Unit", "class", 29, 29),
    ]


RUST_TESTS = """\
fn boil() {}

#[derive(Test)]
struct Cup {}

#[cfg(all(unix, test))]
mod boiling {
    fn kettle() {}
    /// Steams.
    #[test]
    fn steams() {}
}

#[tokio::test(flavor = "x")]
// Slow.
async fn pours() {}

mod drinking {
    #![cfg(test)]
    fn sips() {}
}
"""


def marked(text):
    return [entry.name for entry in symbols("tea.rs", text) if entry.is_test]


def test_tests_of_rust_are_known_by_their_attributes():
    pytest.importorskip("tree_sitter_rust")
    names = ["boiling", "boiling.kettle", "boiling.steams", "pours", "drinking", "drinking.sips"]
    assert marked(RUST_TESTS) == names
    assert marked("#![cfg(test)]\nfn boil() {}\n") == ["boil"]


@pytest.mark.parametrize(
    ("attribute", "is_test"),
    [
        ("cfg(all(test, unix))", True),
        ('cfg(all(feature = "std", test))', True),
        ("cfg_attr(not(loom), test)", True),
        ("::core::prelude::v1::test", True),
        ("wasm_bindgen_test", True),
        ("bench", True),
        ("testing", False),
        ("cfg(not(test))", False),
        ("cfg(any(test, fuzzing))", False),
        ('cfg(feature = "test")', False),
        ("cfg_attr(test, derive(Debug))", False),
        ("test::helper", False),
    ],
)
def test_an_attribute_makes_a_test_or_not(attribute, is_test):
    pytest.importorskip("tree_sitter_rust")
    assert marked(f"#[{attribute}]\nfn boil() {{}}\n") == (["boil"] if is_test else [])


JAVASCRIPT = """\
/** Boils. */
export function boil() {
  return 1;
}

class Cup extends Pot {
  // Pours.
  pour() {
    return 1;
  }
}

/**
 * Takes a kettle.
 */
tea.use = function use(kettle) {
  return kettle;
};

const fill = (cup) => {
  return cup;
};
const size = 3;
module.exports = {
  empty: function () {
  },
};
"""


@pytest.mark.parametrize("path", ["tea.js", "tea.mjs", "tea.ts", "tea.tsx"])
def test_javascript_has_functions_that_are_given_to_names(path):
    pytest.importorskip("tree_sitter_javascript")
    pytest.importorskip("tree_sitter_typescript")
    assert rows(path, JAVASCRIPT) == [
        ("boil", "function", 1, 4),
        ("Cup", "class", 6, 11),
        ("Cup.pour", "function", 7, 10),
        ("tea.use", "function", 13, 18),
        ("fill", "function", 20, 22),
        ("empty", "function", 25, 26),
    ]


@pytest.mark.parametrize("path", ["tea.js", "tea.ts", "tea.tsx"])
def test_members_that_are_given_functions_are_functions_and_classes_may_be_given_to_names(path):
    pytest.importorskip("tree_sitter_javascript")
    pytest.importorskip("tree_sitter_typescript")
    text = (
        "export const Pot = class {\n  // Pours.\n  pour = (cup) => cup;\n  #lid = function () {};\n"
        "  size = 3;\n  static of = async () => new Pot();\n};\ntea.Cup = class {\n  fill() {\n  }\n};\n"
    )
    assert rows(path, text) == [
        ("Pot", "class", 1, 7),
        ("Pot.pour", "function", 2, 3),
        ("Pot.#lid", "function", 4, 4),
        ("Pot.of", "function", 6, 6),
        ("tea.Cup", "class", 8, 11),
        ("tea.Cup.fill", "function", 9, 10),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        # Each pair of braces is four levels, each pair of brackets is three.
        ("x=()=>{" * 20_000 + "kettle()" + "}" * 20_000, module.DEEPEST // 4),
        ("(" * 45_000 + "x=()=>1" + ").a=()=>1" * 45_000, module.DEEPEST // 3),
        ("(" * 400 + "[" + "x=()=>1," * 5_000 + "]" + ")" * 400, 5_000),
        ("// Boils.\n" * 48_000 + "function boil() {}\n", 1),
    ],
    ids=["deep", "deep on the left", "deep and wide", "commented"],
)
def test_a_script_of_any_shape_is_looked_at_once(text, count):
    pytest.importorskip("tree_sitter_javascript")
    # Where the way from the root is gone again for each node, these take minutes.
    found = symbols("tea.js", text)
    assert (len(found), found[-1].first) == (count, 1)


def test_typescript_has_interfaces_and_decorated_classes():
    pytest.importorskip("tree_sitter_typescript")
    text = (
        "// A cup.\nexport interface Cup {\n  size: number;\n}\n\n@Component()\n"
        "export class Pot {\n  boil(): void {\n  }\n}\n"
        "declare function pour(): void;\nenum Tea { Green }\nabstract class Kettle {\n  abstract boil(): void;\n}\n"
    )
    assert rows("tea.ts", text) == [
        ("Cup", "class", 1, 4),
        ("Pot", "class", 6, 10),
        ("Pot.boil", "function", 8, 9),
        ("Tea", "class", 12, 12),
        ("Kettle", "class", 13, 15),
    ]


def test_ruby_has_modules_classes_and_methods_also_empty_ones():
    pytest.importorskip("tree_sitter_ruby")
    text = (
        "# Tea.\nmodule Tea\n  class Cup\n    # Pours.\n    def pour\n      1\n    end\n\n"
        "    def self.make\n    end\n  end\nend\n"
    )
    assert rows("tea.rb", text) == [
        ("Tea", "class", 1, 12),
        ("Tea.Cup", "class", 3, 11),
        ("Tea.Cup.pour", "function", 4, 7),
        ("Tea.Cup.make", "function", 9, 10),
    ]


def test_php_has_functions_classes_and_traits():
    pytest.importorskip("tree_sitter_php")
    text = (
        "<?php\n/** Boils. */\nfunction boil() {\n  return 1;\n}\n\nclass Cup {\n  // Pours.\n"
        "  public function pour() {\n    return 1;\n  }\n}\ntrait Hot {\n}\n"
    )
    assert rows("tea.php", text) == [
        ("boil", "function", 2, 5),
        ("Cup", "class", 7, 12),
        ("Cup.pour", "function", 8, 11),
        ("Hot", "class", 13, 14),
    ]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tea.lua", "function boil()\n  return 1\nend\n"),
        ("tea.py", "def broken(:\n"),
        ("tea.py", "x = " + "(" * 5000),
        ("tea.py", "def f(): ...\n" + "#" * LONGEST_PARSED),
        ("tea.csv", "# a\n"),
        ("tea.md", ""),
    ],
    ids=["no grammar", "no Python", "too deep", "too long", "no document", "empty"],
)
def test_other_files_have_no_symbols(path, text):
    assert rows(path, text) == []


def test_nothing_in_a_file_is_executed(tmp_path):
    mark = tmp_path / "mark"
    text = f"open({str(mark)!r}, 'w')\n\n\ndef f(x=open({str(mark)!r}, 'w')): ...\n"
    assert rows("a.py", text) == [("f", "function", 4, 4)]
    assert not mark.exists()


def test_a_text_is_parsed_once_and_so_many_symbols_are_kept(monkeypatch):
    parsed, parse = list[str](), module._parsed
    monkeypatch.setattr(module, "_parsed", lambda ending, text: parsed.append(text) or parse(ending, text))
    kept = module.KeptSymbols(most=3)
    two, one, none = "def a(): ...\ndef b(): ...\n", "def c(): ...\n", "x = 1\n"
    for text in (two, one, two):
        assert kept.get(".py", text) == parse(".py", text)
    assert parsed == [two, one]
    # A document of the same text has other symbols.
    assert kept.get(".md", "# Tea\n") == parse(".md", "# Tea\n") != kept.get(".py", "# Tea\n")
    kept = module.KeptSymbols(most=3)
    parsed.clear()
    for text in (two, one, two, none, two, one):
        kept.get(".py", text)
    # `none` takes the place of `one`, which was not asked for longest.
    assert parsed == [two, one, none, one]
    larger = "".join(f"def f{number}(): ...\n" for number in range(4))
    assert len(kept.get(".py", larger)) == 4


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # A hyphen is the lower level whatever came before, so `End` does not end the section of `T`.
        ("# T\n\nAdd\n---\n\nEnd\n---\n", [("T", 1, 7), ("Add", 3, 5), ("End", 6, 7)]),
        ("Tea\n=\n\nCup\n--\n", [("Tea", 1, 5), ("Cup", 4, 5)]),
        ("# T\n<!-- # a -->\n<!--\n# b\n--> # c\n# d\n", [("T", 1, 5), ("d", 6, 6)]),
        ("a `<!--` b\n\n# T\n", [("T", 3, 3)]),
        ("---\ntitle: x\n---\n# T\n", [("T", 4, 4)]),
        ("- item\n---\n| cell |\n|--|\n", []),
    ],
)
def test_markdown_has_two_fixed_marks_below_titles_and_comments(text, found):
    assert [(name, first, last) for name, _, first, last in rows("tea.md", text)] == found


def test_c_names_types_without_a_name_by_their_typedef():
    pytest.importorskip("tree_sitter_c")
    text = (
        "typedef struct {\n  int a;\n} cup_t;\ntypedef enum { RED } red_t;\ntypedef int size;\nunion tea { int x; };\n"
    )
    assert rows("tea.c", text) == [("cup_t", "class", 1, 3), ("red_t", "class", 4, 4), ("tea", "class", 6, 6)]


@pytest.mark.parametrize("path", ["tea.ts", "tea.mts", "tea.cts"])
def test_typescript_has_types_and_namespaces(path):
    pytest.importorskip("tree_sitter_typescript")
    text = "type Cup = { size: 1 };\nnamespace Tea {\n  export function pour() {}\n}\n"
    assert rows(path, text) == [
        ("Cup", "class", 1, 1),
        ("Tea", "class", 2, 4),
        ("Tea.pour", "function", 3, 3),
    ]


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        (
            "tea.tsx",
            "const Cup = React.memo(function Cup() {\n  return 1;\n});\nconst all = cups.map(() => 1);\n",
            "Cup",
        ),
        ("tea.php", "<?php\n$pour = function () {\n  return 1;\n};\n", "$pour"),
        ("tea.rs", "macro_rules! pour {\n  () => {};\n}\n", "pour"),
        ("tea.hh", "inline int pour() {\n  return 1;\n}\n", "pour"),
    ],
)
def test_further_ways_to_define_a_function(path, text, name):
    pytest.importorskip("tree_sitter_cpp")
    assert [(found, kind) for found, kind, _, _ in rows(path, text)] == [(name, "function")]
