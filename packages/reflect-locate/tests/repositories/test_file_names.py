"""Files that a question names: by a path, by a name with its ending, or by the words of a name."""

import unicodedata

import pytest

from reflect_locate.repositories.file_names import files_asked_for

PATHS = ("LICENSE", "README.md", "lib/pot.js", "src/README.md", "src/pot_lid.py", "src/tea.py", "tests/tea.py")


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("src/tea.py", ["src/tea.py"]),
        ("./src/tea.py", ["src/tea.py"]),
        ("`src/tea.py:12-40`", ["src/tea.py"]),
        ("SRC/TEA.PY", ["src/tea.py"]),
        ("src\\tea.py", ["src/tea.py"]),
        ("/home/me/kitchen/src/tea.py", ["src/tea.py"]),
        ("tea.py", ["src/tea.py", "tests/tea.py"]),
        ("(see pot_lid.py).", ["src/pot_lid.py"]),
        ("at kitchen.pots.Lid.open(pot_lid.py:12)", ["src/pot_lid.py"]),
        ("at Lid.open (/srv/kitchen/lib/pot.js:12:5)", ["lib/pot.js"]),
        ("what does pot_lid.py do?", ["src/pot_lid.py"]),
        ("update pot_lid.py and lib/pot.js", ["src/pot_lid.py", "lib/pot.js"]),
        ("lib/pot", ["lib/pot.js"]),
        ("pot_lid.py line 3", ["src/pot_lid.py"]),
        ("lines 3 to 9 of pot_lid.py", ["src/pot_lid.py"]),
        ("src.pot_lid", ["src/pot_lid.py"]),
        ("src::pot_lid", ["src/pot_lid.py"]),
        ("what is in lib/", ["lib/pot.js"]),
        ("/src", ["src/README.md"]),
        ("bakery/", []),
        ("Session.get", []),
        # The whole path is one file's, though others end with it.
        ("README.md", ["README.md"]),
        ("lid.py", []),
        ("and/or e.g. 1.5", []),
        ("which tests check pot_lid.py", []),
        ("tests of pot_lid.py", []),
        ("does pot_lid.py close while soup boils over", []),
    ],
)
def test_a_path_or_a_name_with_its_ending_names_files(question, found):
    asked = files_asked_for(question, PATHS)
    assert (list(asked.paths), asked.is_written) == (found, bool(found))


BLANKS = ("First Steps.md", "docs/Getting Started/First Steps.md", "docs/Getting Started/intro.md", "docs/steps.md")


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("docs/Getting Started/First Steps.md", ["docs/Getting Started/First Steps.md"]),
        ("what does `getting started/first steps.md:3` say?", ["docs/Getting Started/First Steps.md"]),
        ("/home/me/kitchen/docs/Getting Started/intro.md", ["docs/Getting Started/intro.md"]),
        ("where is First Steps.md", ["First Steps.md"]),
        ("Started/First Steps.md", []),
        ("First Steps.md and docs/Getting Started/intro.md", ["First Steps.md", "docs/Getting Started/intro.md"]),
        ("steps.md", ["docs/steps.md"]),
    ],
)
def test_a_name_with_blanks_is_one_word(question, found):
    assert list(files_asked_for(question, BLANKS).paths) == found


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("README", ["README.md"]),
        ("license", ["LICENSE"]),
        ("the readme", ["README.md", "src/README.md"]),
        ("pot lids", ["src/pot_lid.py"]),
        ("PotLid", ["src/pot_lid.py"]),
        ("the pot", ["lib/pot.js"]),
        ("the lid", []),
        ("blue pot lids", []),
        ("where is it?", []),
    ],
)
def test_words_name_a_file_that_has_no_others(question, found):
    asked = files_asked_for(question, PATHS)
    assert (list(asked.paths), asked.is_written) == (found, False)


def test_words_that_stand_in_a_path_alone_are_told():
    assert files_asked_for("which soup is in src/tea.py", PATHS).words == {"src", "tea", "py"}
    assert files_asked_for("the teas of src/tea.py", PATHS).words == {"src", "py"}


def test_a_module_may_begin_with_the_name_of_the_tree():
    paths = ("pots.py", "a/pots.py", "lids/__init__.py")
    assert files_asked_for("tea.pots", paths, "tea-1.2").paths == ("pots.py",)
    assert files_asked_for("tea.lids", paths, "tea").paths == ("lids/__init__.py",)
    assert files_asked_for("kettle.pots", paths, "tea").paths == ()


@pytest.mark.parametrize("question", ["changelog", "the release notes", "where is the change log?", "News"])
def test_notes_of_changes_are_found_whatever_their_name(question):
    asked = files_asked_for(question, ("CHANGES.rst", "README.md", "src/changes.py"))
    assert (asked.paths, asked.is_written) == (("CHANGES.rst",), True)


def test_a_source_may_be_called_as_notes_of_changes_are():
    asked = files_asked_for("changelog", ("CHANGELOG.md", "src/changelog.py"))
    assert (asked.paths, asked.is_written) == (("CHANGELOG.md",), False)
    asked = files_asked_for("the changelog", ("CHANGELOG.md", "src/changelog.py"))
    assert (asked.paths, asked.is_written) == (("CHANGELOG.md", "src/changelog.py"), False)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("kitchen/src/tea.py", ["src/tea.py"]),
        ("../home/kitchen/src/tea.py:3", ["src/tea.py"]),
        ("kitchen/LICENSE", ["LICENSE"]),
        ("chicken/src/tea.py", []),
        ("kitchen/tea.py", []),
    ],
)
def test_a_path_may_begin_above_the_tree(question, found):
    assert list(files_asked_for(question, PATHS, "kitchen").paths) == found


@pytest.mark.parametrize(("disk", "keyboard"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_an_accent_is_one_character_or_two(disk, keyboard):
    paths = [unicodedata.normalize(disk, path) for path in ("src/größe.ts", "über uns.md", "größe.py")]
    for question, place in (("src/größe.ts:5", 0), ("über uns.md", 1), ("größe.py", 2)):
        asked = files_asked_for(unicodedata.normalize(keyboard, question), paths)
        assert (asked.paths, asked.lines) == ((paths[place],), {paths[place]: 5} if ":" in question else {})


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("thread 'main' panicked at src/tea.py:12:9: the pot was empty while it boiled", {"src/tea.py": 12}),
        ("lib/pot.js(12,5): error TS2345: Argument of type 'cup' is not assignable to type 'mug'.", {"lib/pot.js": 12}),
        ("ReferenceError: cup is not defined at file:///home/me/kitchen/lib/pot.js:12:5", {"lib/pot.js": 12}),
        ("empty input throws in https://example.org/me/kitchen/blob/main/lib/pot.js#L12 why", {"lib/pot.js": 12}),
        (r"mug has no member named size, seen in C:\work\kitchen\lib\pot.js:12", {"lib/pot.js": 12}),
        ('Traceback (most recent call last): File "src/tea.py", line 3, in boil raise KeyError', {"src/tea.py": 3}),
        ("kettle fails to whistle while water boils in lib/pot.js on line 7", {"lib/pot.js": 7}),
        ("Invalid read of size 8 at 0x401: parse (pot_lid.py:12)", {"src/pot_lid.py": 12}),
        ("KeyError while water boils: cup, saucer and mug at lib/pot.js:1:2 and src/pot_lid.py:3", {"lib/pot.js": 1}),
        ("tests whether water boils and the kettle whistles in lib/pot.js:3", {}),
        # Two files end with it, and any project has a file of this name at its top.
        ("cup is not defined, so the kettle never whistles at tea.py:3", {}),
        ("cup is not defined, so the kettle never whistles at /srv/shop/LICENSE:3", {}),
        ("cup is not defined, so the kettle never whistles at /srv/kitchen/LICENSE:3", {"LICENSE": 3}),
    ],
)
def test_a_line_makes_a_path_the_place_of_a_message(question, found):
    asked = files_asked_for(question, PATHS, "kitchen")
    assert (dict(asked.lines), list(asked.paths)) == (found, list(found))
    assert asked.is_written == bool(found)


def test_a_trace_that_ends_where_it_broke_names_its_last_place():
    trace = (
        'Traceback (most recent call last): File "src/tea.py", line 3, in serve boil(water) '
        'File "lib/pot.js", line 9, in boil raise KeyError(cup) while the kettle whistles'
    )
    assert files_asked_for(trace, PATHS).lines == {"lib/pot.js": 9}


def test_long_words_take_no_time():
    # Cubic, the first of these took minutes.
    for word in ("a.b/" * 20_000, "x" * 80_000, 'a."' * 20_000):
        assert files_asked_for(f"{word} on tea.py, line 12", ("src/tea.py",)).lines == {"src/tea.py": 12}
