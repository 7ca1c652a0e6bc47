"""What becomes of an answer: each reason and each repair is reached, and nothing else is touched."""

from dataclasses import replace
from typing import get_args

import pytest

from reflect_served.annotation.prompts import Told
from reflect_served.annotation.verdict import REASONS, REPAIRS, Reason, Repair, verdict_on

TOLD = Told("You are at 3. Last action: wait.", ("left", "right", "wait"), 1, "wait", "suboptimal", "right")
CHOOSING = replace(TOLD, best=None)
GOOD = "Waiting was a mistake. The goal is to the right. Next: right."


def verdict(answer, told=TOLD, ending="stop", names=(), max_words=60):
    return verdict_on(answer, ending, told, names, max_words)


def test_a_good_answer_is_kept_as_it_is():
    found = verdict(GOOD)
    assert (found.text, found.action, found.repairs, found.reason) == (GOOD, 1, (), None)


DROPPED: list[tuple[Reason, str, dict]] = [
    ("refused", "I'm sorry, but I can't help with that.", {}),
    ("refused", "", {"ending": "content_filter"}),
    ("cut_off", "Waiting was a mist", {"ending": "length"}),
    ("cut_off", "<think>Let me see", {"ending": "length"}),
    ("cut_off", f"{GOOD} The goal", {"ending": "length"}),
    ("spoiler", f"{GOOD} As you told me, right is best. Next: right.", {"ending": "length"}),
    ("contradicts", "I go left. I go left. I go left. I go", {"ending": "length"}),
    ("empty", "", {}),
    ("empty", "  \n ", {}),
    ("empty", "<think>The note says right.</think>", {}),
    ("empty", "Next: right.", {}),
    ("empty", "The best next action is: right.", {}),
    ("spoiler", "As you told me, right is best. Next: right.", {}),
    ("unseen", "The file is limits.py. Next: right.", {"names": ("limits.py",)}),
    ("marks", "I wait. # Action: 1 Next: right.", {}),
    ("no_action", "The goal is to the right.", {"told": CHOOSING}),
    ("inadmissible", "The goal is near. Next: jump.", {"told": CHOOSING}),
    ("several", "The goal is near. Next: do not go left, go right.", {"told": CHOOSING}),
    ("contradicts", "The goal is near. Next: right is bad, so go left.", {}),
    ("contradicts", "The goal is near. Next: left.", {}),
    ("contradicts", "The goal is near. Next: left, then right.", {}),
    ("contradicts", "The goal is near. I go left.", {}),
    ("too_long", "one two three four five six seven eight nine ten. Next: right.", {"max_words": 10}),
]


@pytest.mark.parametrize(("reason", "answer", "settings"), DROPPED)
def test_what_is_dropped_and_why(reason, answer, settings):
    found = verdict(answer, **settings)
    assert (found.text, found.action, found.reason) == (None, None, reason)


def test_every_reason_is_reached_and_explained():
    assert {reason for reason, _, _ in DROPPED} == set(get_args(Reason)) == set(REASONS)


REPAIRED: list[tuple[Repair, str, dict]] = [
    ("thoughts", f"<think>The note says right.\nSo right.</think>\n\n{GOOD}", {}),
    ("thoughts", f"The note says right.</think>{GOOD}", {}),
    ("label", f"Reflection: {GOOD}", {}),
    ("label", f"**Reflection:** {GOOD}", {}),
    ("label", f"Here is the player's reflection:\n{GOOD}", {}),
    ("label", f"# Analyze:\n{GOOD}", {}),
    ("quotes", f'"{GOOD}"', {}),
    ("quotes", f"“{GOOD}”", {}),
    ("layout", GOOD.replace(". ", ".\n"), {}),
    ("layout", "- " + GOOD.replace(". ", ".\n- "), {}),
    ("layout", f"```\n{GOOD}\n```", {}),
    ("layout", GOOD.replace("right.", "**right**."), {}),
    ("loop", f"{GOOD} The goal is to the right. Next: right. The go", {"ending": "length"}),
    ("loop", f"{GOOD} Next: right. Next: right.", {"ending": "length"}),
    ("ending", GOOD.removesuffix("."), {}),
    ("ending", GOOD.replace("Next: right.", ""), {}),
    ("ending", GOOD.replace("Next: right.", "So my next action is: Right!"), {}),
    ("ending", GOOD.replace("Next: right.", "The best next action is: right."), {}),
    ("ending", GOOD.replace("Next: right.", "Next: right, because the goal is there."), {}),
    ("ending", GOOD.replace("Next: right.", "Next: go on."), {}),
    ("ending", GOOD.replace("Next: right.", "Next: `RIGHT`"), {}),
]


@pytest.mark.parametrize(("repair", "answer", "settings"), REPAIRED)
def test_what_is_repaired(repair, answer, settings):
    found = verdict(answer, **settings)
    assert (found.text, found.action, found.reason) == (GOOD, 1, None)
    assert repair in found.repairs


def test_a_long_answer_loses_whole_sentences_and_keeps_its_end():
    # 4 + 7 words fit into 13 with the 2 of the ending; the third sentence does not.
    answer = "Waiting was a mistake. The goal is to the right side. I see no wall anywhere. Next: right."
    found = verdict(answer, max_words=13)
    assert found.text == "Waiting was a mistake. The goal is to the right side. Next: right."
    assert found.repairs == ("shortened",)


def test_every_repair_is_reached_and_explained():
    assert {repair for repair, _, _ in REPAIRED} | {"shortened"} == set(get_args(Repair)) == set(REPAIRS)


@pytest.mark.parametrize(("ending", "action"), [("Next: left.", 0), ("Next: WAIT", 2), ("next action: go left", 0)])
def test_an_annotator_that_chooses_names_any_action_of_the_list(ending, action):
    found = verdict(f"Waiting was a mistake. {ending}", told=CHOOSING)
    assert found.action == action
    assert found.text == f"Waiting was a mistake. Next: {CHOOSING.actions[action]}."


@pytest.mark.parametrize(
    ("written", "action"),
    [
        ("cd ...", "cd .."),
        ("cd ..", "cd .."),
        ("cat a.py =1.", "cat a.py"),
        ("cat a.py", "cat a.py"),
        ("cat A.py.", "cat A.py"),
        ("I take cat a.py now.", "cat a.py"),
        ("cat /src/a.py.", "cat /src/a.py"),
    ],
)
def test_actions_with_names_and_numbers_are_understood(written, action):
    told = Told("State", ("cd ..", "cat a.py", "cat A.py", "cat /src/a.py"), None, numbered=True)
    found = verdict(f"I look around. Next: {written}", told=told)
    assert found.action is not None
    assert told.actions[found.action] == action
    assert found.text == f"I look around. Next: {action} ={found.action}."


def test_the_name_of_an_action_may_be_written_in_two_words():
    told = Told("Map", ("south", "pickup", "dropoff"), 1)
    found = verdict("I stand beside the passenger. Next: pick up the passenger.", told=told)
    assert found.text == "I stand beside the passenger. Next: pickup."


NESTED = Told("State", ("go", "go left", "go to shelf 1", "go to shelf 10", "Go", "left"), None)


@pytest.mark.parametrize(
    ("written", "action"),
    [
        ("I go left now.", "go left"),
        ("I go on.", "go"),
        ("then Go on.", "Go"),
        ("first go to shelf 10 and see.", "go to shelf 10"),
        ("go left, and go left again.", "go left"),
        ("go left, then go.", None),
        ("go to shelf 1 or go to shelf 10.", None),
        ("I turn left and go left.", None),
    ],
)
def test_the_longest_action_at_a_place_counts_as_one_and_two_places_are_dropped(written, action):
    found = verdict(f"I look around. Next: {written}", told=NESTED)
    named = None if found.action is None else NESTED.actions[found.action]
    assert (named, found.reason) == (action, None if action else "several")


def test_only_the_last_next_counts():
    found = verdict("My next: left was wrong. The goal is to the right. Next: right.")
    assert found.text == "My next: left was wrong. The goal is to the right. Next: right."
