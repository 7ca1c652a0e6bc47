"""What chat models are told, and how their answers are read: strictly, and in one place."""

from __future__ import annotations

import json
import math
from importlib import import_module

import pytest
from hypothesis import given, strategies as st

from reflect_rl import registry
from reflect_rl.prompts import advice_text, reflector_messages
from reflect_rl.types import Observation, View
from reflect_served.players.prompts import (
    choice_schema,
    label_log_probs,
    number_messages,
    parse_choice,
    policy_messages,
)

SEEN = View(Observation("You are at 3.", ("left", "right", "wait")), (2, 0, 1), "Go left.")


@pytest.mark.parametrize(
    "answer",
    [
        "Action: 2",
        "The door is left, so I go there.\n\nAction: 2",
        "action:2\n",
        "I think.\n**Action:** 2",
        "I think.\n**Action: 2**",
        "I think.\nAction: `2`.",
        "Action: 2\nStill the same.\nAction: 2",
        "2",
        " 2\n",
        '{"thought": "Action: 1 would be wrong", "action": 2}',
        '```json\n{"thought": "left", "action": 2}\n```',
        "```\nAction: 2\n```",
        "<think>\nAction: 1\n</think>\n\nAction: 2",
        "It is left. Action: 1\n</think>\n\nAction: 2",  # the template had begun the thoughts
        'Hm.\n</think>\n{"action": 2}',
        "I could also take 0 or 1.\nAction: 2",
    ],
)
def test_an_answer_that_names_one_listed_number_at_its_end_is_that_number(answer: str):
    assert parse_choice(answer, 3) == 2


@pytest.mark.parametrize(
    "answer",
    [
        "",
        " \n",
        "Action: 3",  # not listed
        "Action: -1",
        "Action: +2",
        "Action: 02",
        "Action: 2.5",
        "Action: 1e0",
        "Action: ²",
        "Action: ٢",  # a digit of another script
        "Action: 99999999999999999999999",
        "Action: two",
        "Action: left",
        "Action: 2 left",
        "Action: 1 or 2",
        "Action:",
        "Action: N",
        "I choose 2",
        "The number is 2.",
        "Action: 1\nAction: 2",
        "Action: left\nAction: 2",
        "Action: 2\nAnd then I go on.",
        "My action: 2",
        "2 3",
        "1\n2",
        "```\nAction: 2\n```\nThat is my choice.",
        "I think.\n```\nAction: 2\n```",
        "```python\nmove(2)\n```",
        '{"action": 3}',
        '{"action": -1}',
        '{"action": "2"}',
        '{"action": 2.0}',
        '{"action": true}',
        '{"action": null}',
        '{"action": 1, "action": 2}',
        '{"thought": "left"}',
        '{"action": 2} {"action": 2}',
        '{"action": 2',
        "[2]",
        '{"a":' * 100_000,
        "<think>\nIt is long.\nAction: 2",  # cut off in its thoughts
    ],
)
def test_anything_else_is_no_answer(answer: str):
    assert parse_choice(answer, 3) is None


@given(st.text(), st.integers(1, 20))
def test_a_read_number_is_always_listed(answer: str, count: int):
    for text in (answer, f"{answer}\nAction: 7", f"Action: {answer}"):
        number = parse_choice(text, count)
        assert number is None or 0 <= number < count


@given(st.text(alphabet="ab \n`{}", max_size=30), st.integers(0, 30), st.integers(1, 20))
def test_a_thought_without_numbers_does_not_change_the_choice(thought: str, number: int, count: int):
    read = parse_choice(f"So: {thought}.\nAction: {number}", count)
    assert read == (number if number < count else None)


def test_the_policy_is_told_the_rules_the_state_the_advice_and_the_actions_in_their_order():
    (system, rules), (user, text) = policy_messages("Walk to the goal.", SEEN)
    assert (system, user) == ("system", "user")
    assert "Walk to the goal." in rules
    assert "Action: N" in rules
    assert text == "# State\nYou are at 3.\n\n# Advice\nGo left.\n\n# Actions\n0: wait\n1: left\n2: right"
    assert policy_messages("Walk to the goal.", SEEN, as_json=True)[1] == (user, text)
    assert number_messages("Walk to the goal.", SEEN)[1] == (user, text)


def test_the_example_of_each_form_is_an_answer_that_can_be_read():
    for as_json in (False, True):
        rules = policy_messages("", SEEN, as_json=as_json)[0][1]
        assert parse_choice(rules.partition("Example of an answer:\n")[2], 3) == 2


def test_rules_and_states_with_braces_stay_as_they_are():
    view = View(Observation("{state} {rules}", ("a",)), (0,))
    (_, rules), (_, text) = policy_messages("{format} {0}", view)
    assert text.startswith("# State\n{state} {rules}")
    assert "{0}" in rules


def test_the_reflection_player_is_never_told_the_actions():
    told = reflector_messages("Walk to the goal.", SEEN)
    assert "Walk to the goal." in told[0][1]
    assert told[1] == ("user", "# State\nYou are at 3.")


def test_every_game_of_the_catalog_tells_its_rules_and_names_its_actions():
    exploring = ("cd FOLDER", "cat FILE", "id FILE")
    household = (
        "go to",
        "open",
        "close",
        "take",
        "put",
        "clean",
        "heat",
        "cool",
        "use",
        "examine",
        "look",
        "inventory",
    )
    spoken = {"autoexplore": exploring, "autoexplore_paper": exploring, "alfworld": household}
    for name in ("corridor", "dangerous_taxi", *spoken):
        game = registry.find("environments", name)
        assert 200 < len(game.rules) < 2000
        for action in spoken.get(name) or import_module(game.__module__).ACTIONS:
            assert f"`{action}`" in game.rules


def test_the_schema_admits_exactly_the_listed_numbers():
    schema = choice_schema(3)
    assert schema["properties"]["action"] == {"type": "integer", "enum": [0, 1, 2]}
    assert schema["required"] == ["thought", "action"]
    assert parse_choice(json.dumps({"thought": "", "action": 2}), 3) == 2


def test_first_tokens_become_a_distribution_over_the_listed_numbers():
    """0.5 and 0.1 + 0.1 for the two spellings of 2; 0.05 is no number; 0.25 is left, and 1 gets at most the least."""
    top = [("0", math.log(0.5)), ("2", math.log(0.1)), (" 2", math.log(0.1)), ("The", math.log(0.05))]
    row = label_log_probs(top, 3)
    assert row is not None
    assert [math.exp(value) for value in row] == pytest.approx([0.5 / 0.75, 0.05 / 0.75, 0.2 / 0.75])


def test_a_number_that_a_server_does_not_list_has_a_finite_logarithm():
    row = label_log_probs([("0", 0.0)], 2)
    assert row is not None
    assert math.exp(row[0]) == pytest.approx(1)
    assert math.isfinite(row[1])
    assert row[1] < -20


def test_numbers_of_several_tokens_give_no_distribution():
    """With 12 actions, `1` may be the beginning of `11`, unless the tokenizer is seen to keep such numbers whole."""
    assert label_log_probs([("1", -0.1), ("2", -3.0)], 12) is None
    assert label_log_probs([("1", -0.1), ("11", -3.0)], 12) is not None
    assert label_log_probs([("1", -0.1), ("2", -3.0)], 10) is not None


@pytest.mark.parametrize("top", [[], [("The", -0.1)], [("7", -0.1)], [("0", -math.inf)], [("0", math.nan)]])
def test_tokens_without_a_listed_number_give_no_distribution(top):
    assert label_log_probs(top, 3) is None


@given(
    st.lists(st.tuples(st.sampled_from(["0", "1", " 1", "2", "9", "x"]), st.floats(-60, 0)), max_size=8),
    st.integers(1, 10),
)
def test_what_the_tokens_tell_is_a_distribution(top, count: int):
    row = label_log_probs(top, count)
    if row is not None:
        assert len(row) == count
        assert all(map(math.isfinite, row))
        assert math.fsum(map(math.exp, row)) == pytest.approx(1)


def test_a_reflection_is_one_line_without_thoughts():
    assert advice_text("<think>a</think>\nThe last step\n\n was good.  Next: left.\n") == (
        "The last step was good. Next: left."
    )
    assert advice_text("<think>never ends") == ""
    assert advice_text("I wonder.\n</think>\n\nNext: left.") == "Next: left."
