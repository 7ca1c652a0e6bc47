"""The budget is never exceeded, also by what is under way or was lost, and what came is kept."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from threading import Barrier

import pytest

from fault_server import DROP, HANG, FaultServer, question, refuse, rows
from reflect_rl.errors import UserError
from reflect_served.llm import Amount, BudgetError, Endpoint

MOST = 3 + 32 + 16
"""Tokens that `q 0` can take: its bytes, 16 around the message and 16 for the answer's head; 16 of the answer."""

USED = 2 + 4
"""Words of `q 0` and of `answer to q 0`."""

QUESTIONS = [question(f"q {number}") for number in range(10)]


@pytest.fixture(autouse=True)
def _no_key_and_no_pauses(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)


def test_the_first_request_that_could_exceed_the_budget_is_not_sent(tmp_path):
    # After k answers the next one may take 6 k + 51 tokens: at most 80 for k = 4, not for k = 5.
    with FaultServer() as server:
        config = server.config(max_total_tokens=80, parallel_requests=1)
        with pytest.raises(BudgetError, match=r"tokens 30 \+ at most 0 .* at most 51, annotate\.max_total_tokens = 80"):
            Endpoint(config, tmp_path, section="annotate").answer(QUESTIONS)
        assert len(server.bodies) == 5
        more = server.config(max_total_tokens=1000)
        assert len(Endpoint(more, tmp_path).answer(QUESTIONS)) == 10
        assert len(server.bodies) == 10


def test_money_is_counted_by_the_prices(tmp_path):
    # A prompt of at most 35 tokens at 0.2, an answer of at most 16 at 1: at most 23. Used: 2 x 0.2 + 4 = 4.4.
    with FaultServer() as server:
        config = server.config(price_input=2e5, price_output=1e6, max_cost=32, parallel_requests=1)
        with pytest.raises(BudgetError, match=r"cost 13.2 .* at most 23, endpoint\.max_cost = 32") as caught:
            Endpoint(config, tmp_path).answer(QUESTIONS)
    assert len(server.bodies) == 3
    assert isinstance(caught.value, UserError)
    assert "All answers so far are kept. Raise the limit, and the same command goes on from here." in str(caught.value)


def test_what_is_under_way_is_counted_and_waited_for(tmp_path):
    asked, both = count(), Barrier(2)

    def wait(handler, body):
        # The first two wait for each other, so they are under way at once however slow the machine is.
        if next(asked) < 2:
            both.wait(60)
        handler.complete(body)

    # Room for two at a time: 102 tokens and less than 153; and for all ten: nine answers take 54, the last at most 51.
    with FaultServer(fault=wait) as server:
        config = server.config(max_total_tokens=2 * MOST + 10, parallel_requests=8)
        assert len(Endpoint(config, tmp_path).answer(QUESTIONS)) == 10
    assert server.most_at_once == 2


def test_the_budget_is_that_of_the_folder(tmp_path):
    with FaultServer() as server:
        config = server.config(max_total_tokens=80, parallel_requests=1)
        Endpoint(config, tmp_path).answer(QUESTIONS[:3])
        one, two = Endpoint(config, tmp_path), Endpoint(config, tmp_path)
        one.answer(QUESTIONS[3:4])
        two.answer(QUESTIONS[4:5])
        with pytest.raises(BudgetError):
            one.answer(QUESTIONS[5:6])
    assert len(server.bodies) == 5


def test_known_answers_cost_nothing(tmp_path):
    with FaultServer() as server:
        config = server.config(max_total_tokens=60)
        for _ in range(5):
            Endpoint(config, tmp_path).answer(QUESTIONS[:1])
    assert len(server.bodies) == 1


@pytest.mark.parametrize("fault", [DROP, HANG], ids=["dropped", "hang"])
def test_a_request_whose_answer_was_lost_counts_with_the_most_it_can_have_cost(tmp_path, fault):
    with FaultServer([fault]) as server:
        endpoint = Endpoint(server.config(timeout_seconds=0.3, max_total_tokens=MOST + USED + MOST), tmp_path)
        endpoint.answer(QUESTIONS[:1])
        assert (endpoint.log.known, endpoint.log.reserved) == (Amount(USED), Amount(MOST))
        assert endpoint.spent.prompt_tokens + endpoint.spent.completion_tokens == USED
        endpoint.answer(QUESTIONS[1:2])
        with pytest.raises(BudgetError, match=r"at most 51 for requests without an answer"):
            endpoint.answer(QUESTIONS[2:3])


def test_a_refusal_costs_nothing(tmp_path):
    with FaultServer([refuse(500), refuse(429)]) as server:
        endpoint = Endpoint(server.config(max_total_tokens=60), tmp_path)
        endpoint.answer(QUESTIONS[:1])
    assert (endpoint.log.known, endpoint.log.reserved) == (Amount(USED), Amount())
    assert endpoint.spent.requests == 3


def test_what_a_killed_process_had_under_way_counts(tmp_path):
    with FaultServer() as server:
        config = server.config(max_total_tokens=100)
        Endpoint(config, tmp_path).log.begin({"messages": [{"content": "q 0"}], "max_tokens": 16}, "0" * 64)
        assert Endpoint(config, tmp_path).log.reserved == Amount(MOST)
        with pytest.raises(BudgetError):
            Endpoint(config, tmp_path).answer(QUESTIONS[:1])
        assert server.bodies == []


def test_each_attempt_is_listed_before_it_is_sent(tmp_path):
    seen = []

    def look(handler, body):
        seen.append([row["status"] for row in rows(tmp_path)])
        handler.refuse(500, "no")

    with FaultServer([look, look]) as server:
        Endpoint(server.config(), tmp_path).answer(QUESTIONS[:1])
    assert seen == [[None], ["500", None]]


def test_without_a_folder_the_budget_holds_as_well():
    with FaultServer() as server:
        endpoint = Endpoint(server.config(max_total_tokens=80, parallel_requests=1), None)
        with pytest.raises(BudgetError):
            endpoint.answer(QUESTIONS)
    assert len(server.bodies) == 5


SPEND = """
import sys
from pathlib import Path
from reflect_served.llm import BudgetError, ChatRequest, Endpoint, EndpointConfig
config = EndpointConfig(base_url=sys.argv[1], model="tiny", parallel_requests=4, max_total_tokens=300)
try:
    Endpoint(config, Path(sys.argv[2])).answer([ChatRequest((("user", f"{sys.argv[3]} {k}"),), 16) for k in range(100)])
except BudgetError:
    print("stopped")
"""


def test_processes_at_work_in_one_folder_share_its_budget(tmp_path):
    most = []

    def look(handler, body):
        handler.complete(body)
        listed = rows(tmp_path)
        most.append(
            sum(r["prompt_tokens"] + r["completion_tokens"] if r["status"] else r["most_tokens"] for r in listed)
        )

    with FaultServer(fault=look) as server:
        command = [sys.executable, "-c", SPEND, server.url, str(tmp_path)]
        processes = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "abc"]
        assert [process.communicate(timeout=60)[0] for process in processes] == ["stopped\n"] * 3
    assert 0 < max(most) <= 300
    # 300 tokens are 50 answers of 6; the next one could take 51. The last process may be refused while three of its own
    # requests are under way, for each of which as much is set aside.
    spent = sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows(tmp_path))
    assert 300 - 4 * MOST < spent <= 300
    assert len(server.bodies) == len(rows(tmp_path))
