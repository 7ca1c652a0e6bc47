"""The short form of the attacks; `scripts/attack` runs the long one."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import commands
import corruption
import endpoints
import hostile
import kills
import pytest
import sessions
from table import Table

GENERATORS = {hostile: 80, endpoints: 10, sessions: 10, corruption: 12, commands: 20, kills: 4}
"""Cases of each generator."""


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.__name__)
def test_no_attack_is_silent_or_escapes_or_ends_unexpectedly(generator: ModuleType, tmp_path: Path) -> None:
    if generator is sessions:
        pytest.importorskip("mcp")
    table = Table().add(generator.attempts(tmp_path / "place", 0, range(GENERATORS[generator])))
    assert not table.faults, f"\n{table}"
    assert table.tried == GENERATORS[generator]


def test_sixty_questions_keep_nobody_waiting_and_one_that_is_cancelled_frees_the_worker() -> None:
    """By the order of replies, not by a clock: the search ends only when it is cancelled, after the other replies."""
    pytest.importorskip("mcp")
    with sessions.Session() as session:
        session.ask(0, "wait")
        for number in range(1, 60):
            session.ask(number, f"q{number}")
        session.request("cheap", "ping")
        session.request("list", "tools/list")
        before = session.until("cheap", "list", *range(9, 60))
        # The first is searched for and eight wait; the others are refused, and cheap requests answered, at once.
        assert {reply["id"] for reply in before if sessions.is_answer(reply)} <= {"cheap", "list"}
        session.cancel(0)
        after = session.until(*range(1, 9))
        assert sorted(reply["id"] for reply in after if sessions.is_answer(reply)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert session.began[0] == "wait"
    assert sorted(session.began[1:]) == [f"q{number}" for number in range(1, 9)]


def test_a_question_of_two_megabytes_is_refused_before_any_work() -> None:
    pytest.importorskip("mcp")
    with sessions.Session() as session:
        session.ask("large", "x" * 2_000_000)
        session.ask("long", "x" * 500_000)
        large, long = sorted(session.until("large", "long"), key=lambda reply: reply["id"])
        assert "more than 1000000 bytes" in str(large["error"])
        assert "more than 4000 characters" in str(long["result"])
        session.ask("last", "q")
        session.until("last")
    assert session.began == ["q"]
