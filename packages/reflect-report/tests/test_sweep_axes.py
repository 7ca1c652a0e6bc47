"""Fields that a sweep varies: what is understood, and what is refused in one sentence."""

import pytest

from reflect_report.sweep.axes import Axis, Span, combinations, name_of, parse_axes, parse_axis, setting_of
from reflect_rl.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        ("rlft.learning_rate=1e-4,3e-4", "rlft.learning_rate", ("1e-4", "3e-4")),
        ("rlft.learning-rate=1e-4", "rlft.learning_rate", ("1e-4",)),
        ("seed=0..2", "seeds", ("0", "1", "2")),
        ("x=-1..1", "x", ("-1", "0", "1")),
        ("x=3..3", "x", ("3",)),
        ("path=../a,..", "path", ("../a", "..")),
        ('model.lora.target_modules="q{1,2}",v', "model.lora.target_modules", ("q{1,2}", "v")),
        ("text=a=b", "text", ("a=b",)),
    ],
)
def test_values_and_ranges_are_read(text, field, values):
    assert parse_axis(text) == Axis(field, values)


def test_a_search_keeps_intervals_and_lists_seeds():
    assert parse_axis("x=1e-5..1e-3:log", searches=True) == Span("x", 1e-5, 1e-3, is_whole=False, is_log=True)
    assert parse_axis("x=4..16", searches=True) == Span("x", 4, 16, is_whole=True, is_log=False)
    assert parse_axis("seed=0..1", searches=True) == Axis("seeds", ("0", "1"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a", "--over 'a' names no values"),
        ("=1", "names no values"),
        ("a=", "a value is missing"),
        ("a=1,,2", "a value is missing"),
        ("a=1,2,1", "'1' is there twice"),
        ("a=2..0", "the range is empty, since 2 is above 0. Write 0..2."),
        ("a=0..", "the range lacks an end"),
        ("a=0.1..0.3", "only a range of whole numbers"),
        ("a=1..3:log", "only a range of whole numbers"),
        ("a=0..1:log", "a logarithm needs ends above 0"),
        ("a=1e999..2e999", "too large for a number"),
        ("a=0..1000", "1,001 values are more than the 1,000 cells"),
    ],
)
def test_what_cannot_be_varied_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(ConfigError) as refused:
        parse_axis(text)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_field_stands_in_one_axis_and_one_axis_is_needed():
    with pytest.raises(ConfigError, match="--over seeds is given twice"):
        parse_axes(["seed=0", "seeds=1"])
    with pytest.raises(ConfigError, match="--over is missing"):
        parse_axes([])


def test_cells_are_all_combinations_the_last_axis_fastest():
    cells = list(combinations([Axis("a.x", ("1", "2")), Axis("seeds", ("0", "1"))]))
    assert cells == [(("a.x", x), ("seeds", s)) for x in "12" for s in "01"]
    assert [setting_of(cell) for cell in cells] == [(("a.x", x),) for x in "1122"]
    with pytest.raises(ConfigError, match=r"1,024 cells"):
        list(combinations([Axis(f"a{k}", ("1", "2")) for k in range(10)]))


def test_names_of_folders_tell_cells_apart():
    assert name_of((("rlft.learning_rate", "1e-4"), ("seeds", "0"))) == "learning_rate=1e-4,seed=0"
    # The same last word: whole names.
    assert name_of((("sft.base.steps", "1"), ("sft.reflector.steps", "2"))) == "sft.base.steps=1,sft.reflector.steps=2"
    names = {name_of((("model.path", path),)) for path in ("a/b", "a_b", "a\x1bb", "../a", "x" * 300, "x" * 301)}
    assert len(names) == 6
    assert all("/" not in name and "\x1b" not in name and len(name) < 120 for name in names)
