"""Names that files define: read off lines of many languages, and weighed against a question."""

from __future__ import annotations

import pytest

from reflect_locate.repositories.definitions import asked_stem, best_name, defined_name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("def pour(cup):", "pour"),
        ("    async def pour_tea(cup):", "pour_tea"),
        ("class TeaPot(Pot):", "TeaPot"),
        ("func (p *Pot) Boil(c Cup) error {", "Boil"),
        ("func Boil() {", "Boil"),
        ("pub(crate) async fn boil(cup: &Cup) -> Tea {", "boil"),
        ("impl TeaPot for Kettle {", "TeaPot"),
        ("public static final class TeaPot {", "TeaPot"),
        ("export default function pourTea(cup) {", "pourTea"),
        ("export const pourTea = async (cup) => {", "pourTea"),
        ("app.pourTea = function pour(cup) {", "pourTea"),
        ("module.exports.pour = function (cup) {", "pour"),
        ("interface Pot {", "Pot"),
        ("pour_tea() {", "pour_tea"),
        ("fun pourTea(cup: Cup): Tea {", "pourTea"),
        # No definitions: a call, a comment, a sentence, an assignment.
        ("pour(cup)", ""),
        ("# def pour(cup):", ""),
        ("The class of tea is fixed.", ""),
        ("pour = cup", ""),
        ("", ""),
    ],
)
def test_the_name_that_a_line_defines(line, name):
    assert defined_name(line) == name


@pytest.mark.parametrize(
    "line", ["a." * 100_000, " " * 100_000, "pub " * 50_000, "func (" + "(" * 100_000, "x" * 100_000]
)
def test_hostile_lines_define_nothing(line):
    assert defined_name(line) == ""


def test_a_name_is_worth_the_words_that_it_shares_with_the_question():
    rarity = {"pour": 3.0, "tea": 1.0}
    asked = ("pour", "tea")
    assert best_name(["def pour_tea():"], asked, rarity) == 1
    assert best_name(["def pour():"], asked, rarity) == 3 / 4
    # Half of its words were not asked for.
    assert best_name(["def pour_milk():"], asked, rarity) == 3 / 8
    # The best one counts, and not their sum.
    assert best_name(["def pour():", "def tea():", "x = pour_tea"], asked, rarity) == 3 / 4
    assert best_name(["x = 1"], asked, rarity) == 0
    # Words that stand nowhere in the tree.
    assert best_name(["def pour():"], asked, {}) == 0


def test_the_words_of_a_files_own_name():
    assert asked_stem("src/tea_pot.py", ("tea", "pot", "lid")) == 1
    assert asked_stem("tea/cup.py", ("tea",)) == 0
    assert asked_stem("tea/.py", ("tea",)) == 0
