"""BM25, computed by hand."""

from __future__ import annotations

import math

import pytest

from reflect_locate.repositories.index import BM25

# Lengths 2, 4 and 3, mean 3. With k1 = 1.2 and b = 0.75 the denominators are tf + 1.2 * (0.25 + 0.75 * length / 3).
BOOKS = {"a": ["red", "car"], "b": ["red", "red", "bus", "stop"], "c": ["bike", "stop", "sign"]}


def test_scores_are_those_of_the_formula():
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))  # "red" stands in 2 of 3: ln 1.6
    in_a = rarity * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3))  # 2.2 / 1.9
    in_b = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 3))  # 4.4 / 3.5
    ranked = BM25(BOOKS).rank(["red"])
    assert [name for name, _ in ranked] == ["b", "a"]
    assert [score for _, score in ranked] == pytest.approx([in_b, in_a])


def test_the_score_of_a_query_is_the_sum_over_its_distinct_words():
    index = BM25(BOOKS)
    scores = {word: dict(index.rank([word])) for word in ("red", "stop")}
    assert dict(index.rank(["red", "stop", "red"]))["b"] == pytest.approx(scores["red"]["b"] + scores["stop"]["b"])


def test_rare_words_weigh_more_and_unknown_ones_nothing():
    index = BM25(BOOKS)
    assert index.rarity("bike") == pytest.approx(math.log(1 + 2.5 / 1.5))
    assert index.rarity("bike") > index.rarity("red") > index.rarity("unknown") == 0
    assert index.rank(["unknown"]) == []


def test_ties_stay_in_the_order_of_the_documents():
    assert [name for name, _ in BM25({"z": ["a"], "y": ["a"], "x": ["b"]}).rank(["a"])] == ["z", "y"]


@pytest.mark.parametrize("documents", [{}, {"a": []}, {"a": [], "b": []}])
def test_nothing_is_found_where_nothing_is(documents: dict[str, list[str]]):
    assert BM25(documents).rank(["a"]) == []


def test_no_word_finds_no_document():
    assert BM25(BOOKS).rank([]) == []
