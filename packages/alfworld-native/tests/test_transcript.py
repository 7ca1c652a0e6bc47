"""The raw state text: the game's own words, no more than the last few answers, and what follows from those alone."""

from __future__ import annotations

from alfworld_native.engine import Game
from alfworld_native.memory import Memory
from alfworld_native.transcript import Transcript
from household_games import OPENING, kitchen_record

ROOM = OPENING.split("\n\n")[1]
TASK = "Your task is to: put a mug in countertop."


def transcript(history: int, *commands: str, history_step: int = 1) -> Transcript:
    record = kitchen_record("pick_and_place_simple")
    state = Game(record.problem, record.goal).start()
    memory = Memory(state.first().feedback, state.first().admissible)
    out = Transcript(state.first().feedback, state.first().admissible, history, history_step)
    for command in commands:
        step = state.step(command)
        out.add(command, memory, step.feedback, step.admissible)
        memory.update(command, step.feedback, step.admissible)
    return out


def test_it_begins_with_the_task_and_the_room():
    assert transcript(2).text == f"{TASK}\n{ROOM}"


def test_answers_follow_their_commands_word_for_word():
    expected = [TASK, ROOM, "> go to cabinet 2", "You arrive at loc 3. The cabinet 2 is closed."]
    assert transcript(2, "go to cabinet 2").text.split("\n") == expected


def test_only_the_last_answers_are_shown_and_the_opening_stays():
    text = transcript(2, "go to fridge 1", "open fridge 1", "close fridge 1").text
    assert text.split("\n") == [
        TASK,
        ROOM,
        *("> open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1."),
        *("> close fridge 1", "You close the fridge 1."),
    ]


def test_what_fell_out_of_the_window_is_not_recalled():
    commands = ("go to fridge 1", "open fridge 1", "go to sinkbasin 1", "go to countertop 1")
    assert "fridge 1" in transcript(5, *commands).recall().contents
    recalled = transcript(2, *commands).recall()
    assert set(recalled.contents) == {"sinkbasin 1", "countertop 1"}
    assert recalled.here == ("countertop 1",)


def test_the_hand_is_recalled():
    commands = ("go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", "go to sinkbasin 1")
    more = ("clean mug 1 with sinkbasin 1", "go to fridge 1", "go to dresser 1")
    recalled = transcript(2, *commands, *more).recall()
    assert (recalled.held, recalled.conditions) == ("mug 1", {"mug 1": {"clean"}})


def test_the_oldest_answers_may_leave_together():
    commands = ("go to fridge 1", "open fridge 1", "close fridge 1", "go to sinkbasin 1", "go to countertop 1")
    texts = [transcript(3, *commands[:count], history_step=2).text for count in range(1, 6)]
    shown = [tuple(line[2:] for line in text.split("\n") if line.startswith("> ")) for text in texts]
    # Between two such turns the text only grows, so that a model can go on from what it has read.
    assert shown == [commands[:1], commands[:2], commands[:3], commands[2:4], commands[2:5]]


def test_what_left_together_is_not_recalled():
    commands = ("go to fridge 1", "open fridge 1", "go to sinkbasin 1", "go to countertop 1")
    assert "fridge 1" not in transcript(3, *commands, history_step=2).recall().contents
