"""An endpoint is asked each distinct question once ever, so many at a time, and with no more than it offers."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from fault_server import FaultServer, question, refuse, rows, say
from reflect_rl.errors import ConfigError, RunFolderError
from reflect_served.llm import ChatAnswer, Endpoint, EndpointConfig, EndpointError, RefusedError

SCHEMA = {"type": "object", "properties": {"action": {"enum": ["left", "right"]}}}


@pytest.fixture(autouse=True)
def _no_key_and_no_pauses(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)


def many(count, **changes):
    return [question(f"q {number}", **changes) for number in range(count)]


def texts(endpoint, requests):
    return [answer.text for answer in endpoint.answer(requests)]


def test_answers_come_in_the_order_of_the_requests(tmp_path):
    with FaultServer() as server:
        endpoint = Endpoint(server.config(), tmp_path)
        assert texts(endpoint, many(9)) == [f"answer to q {number}" for number in range(9)]
        assert texts(endpoint, []) == []
    assert server.most_at_once <= 4


def test_what_is_on_the_wire(tmp_path):
    with FaultServer() as server:
        request = question("q", response=SCHEMA, top_logprobs=3, stop=("\n",), sample=2)
        Endpoint(server.config(seed=40), tmp_path).answer([request])
        Endpoint(server.config(reasoning=True, reasoning_effort="low", temperature=1), tmp_path).answer([question("q")])
    schema = {"name": "answer", "schema": SCHEMA, "strict": True}
    assert server.bodies[0] == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "q"}],
        "stream": False,
        "max_tokens": 16,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": schema},
        "logprobs": True,
        "top_logprobs": 3,
        "stop": ["\n"],
        "seed": 42,
    }
    assert server.bodies[1] == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "q"}],
        "stream": False,
        "max_completion_tokens": 16,
        "reasoning_effort": "low",
    }


def test_an_answer_says_what_it_took(tmp_path):
    with FaultServer() as server:
        endpoint = Endpoint(server.config(price_input=1e6, price_output=1e5), tmp_path)
        (first,) = endpoint.answer([question("one two three")])
        (again,) = endpoint.answer([question("one two three")])
    # 3 words asked; "answer to one two three" has 5
    assert (first.text, first.ending, first.cached, first.logprobs) == ("answer to one two three", "stop", False, None)
    assert (first.prompt_tokens, first.completion_tokens) == (3, 5)
    assert 0 < first.seconds < 10
    assert again == ChatAnswer(first.text, "stop", 3, 5, again.seconds, True)
    spent = endpoint.spent
    assert (spent.requests, spent.cached, spent.prompt_tokens, spent.completion_tokens) == (1, 1, 3, 5)
    assert spent.cost == 3 + 0.5


def test_tokens_that_the_server_does_not_count_are_counted_as_they_are_at_most(tmp_path):
    reply = say({"choices": [{"message": {"content": "four"}, "finish_reason": None}], "usage": None})
    with FaultServer([reply]) as server:
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("ten bytes!")])
    # 10 bytes and 16 each for the message and the answer's head; "four" is at most 4 tokens and an end
    assert (answer.prompt_tokens, answer.completion_tokens, answer.ending) == (42, 5, "stop")


@pytest.mark.parametrize("count", [2**64 - 1, 10**30, -1, 2.5, True, "3"])
def test_numbers_that_no_count_can_be_are_not_taken_for_one(tmp_path, count):
    usage = {"prompt_tokens": count, "completion_tokens": count}
    reply = say({"choices": [{"message": {"content": "four"}, "finish_reason": "stop"}], "usage": usage})
    with FaultServer([reply]) as server:
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("ten bytes!")])
    assert (answer.text, answer.prompt_tokens, answer.completion_tokens) == ("four", 42, 5)


def test_a_log_probability_that_is_no_number_of_a_machine_is_none(tmp_path):
    entry = {"top_logprobs": [{"token": "four", "logprob": -(10**400)}]}
    choice = {"message": {"content": "four"}, "finish_reason": "stop", "logprobs": {"content": [entry]}}
    with FaultServer([say({"choices": [choice]})]) as server:
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("q")])
    assert (answer.text, answer.logprobs) == ("four", None)


def test_nothing_is_asked_twice_by_another_object_on_the_same_folder(tmp_path):
    with FaultServer() as server:
        first = texts(Endpoint(server.config(), tmp_path), many(5))
        assert texts(Endpoint(server.config(parallel_requests=1, retries=0), tmp_path), many(5)) == first
    assert server.counts == Counter({f"q {number}": 1 for number in range(5)})


def test_two_open_objects_see_each_others_answers(tmp_path):
    with FaultServer() as server:
        one, two = (Endpoint(server.config(), tmp_path) for _ in range(2))
        one.answer([question("q")])
        assert two.answer([question("q")])[0].cached
    assert server.counts == {"q": 1}


def test_answers_that_are_here_need_neither_server_nor_package_nor_key(tmp_path, monkeypatch):
    with FaultServer() as server:
        config = server.config()
        first = texts(Endpoint(config, tmp_path), many(3))
    monkeypatch.setitem(sys.modules, "openai", None)
    assert texts(Endpoint(config, tmp_path), many(3)) == first
    with pytest.raises(ConfigError, match=r"pip install 'reflect-served\[api\]'"):
        Endpoint(config, tmp_path).answer([question("new")])


@pytest.mark.parametrize(
    ("config", "request_"),
    [
        ({"temperature": 0.5}, {}),
        ({"temperature": None}, {}),
        ({"seed": 1}, {}),
        ({"reasoning": True}, {}),
        ({"reasoning_effort": "low"}, {}),
        ({}, {"max_new_tokens": 17}),
        ({}, {"response": SCHEMA}),
        ({}, {"top_logprobs": 2}),
        ({}, {"stop": ("x",)}),
        ({}, {"sample": 1}),
        ({}, {"messages": (("system", "q"),)}),
        ({}, {"messages": (("user", "q"), ("user", "q"))}),
    ],
)
def test_whatever_determines_the_answer_is_another_request(tmp_path, config, request_):
    with FaultServer() as server:
        Endpoint(server.config(), tmp_path).answer([question("q")])
        Endpoint(server.config(**config), tmp_path).answer([question("q", **request_)])
        assert len(server.bodies) == 2


def test_another_path_or_model_is_another_request_and_the_scheme_is_none(tmp_path):
    with FaultServer() as server:
        Endpoint(server.config(), tmp_path).answer([question("q")])
        Endpoint(server.config(base_url=f"{server.url}/"), tmp_path).answer([question("q")])
        assert len(server.bodies) == 1
        with pytest.raises(EndpointError, match="404"):
            Endpoint(server.config(base_url=f"http://{server.host}"), tmp_path).answer([question("q")])
        with pytest.raises(EndpointError, match="404"):
            Endpoint(server.config(model="other"), tmp_path).answer([question("q")])


def test_equal_requests_at_the_same_time_are_sent_once(tmp_path):
    def slow(handler, body):
        time.sleep(0.1)
        handler.complete(body)

    with FaultServer([slow]) as server:
        endpoint = Endpoint(server.config(), tmp_path)
        assert texts(endpoint, [question("q")] * 4) == ["answer to q"] * 4
        server.faults.append(slow)
        threads = [threading.Thread(target=endpoint.answer, args=([question("p")],)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert server.counts == {"q": 1, "p": 1}
    assert (endpoint.spent.requests, endpoint.spent.cached) == (2, 6)


def test_equal_requests_at_the_same_time_fail_together(tmp_path):
    def slow(handler, body):
        time.sleep(0.1)
        handler.refuse(400, "no")

    with FaultServer([slow]) as server:
        results = list(Endpoint(server.config(), tmp_path).ask([question("q")] * 4))
    assert [type(result) for _, result in results] == [RefusedError] * 4
    assert server.counts == {"q": 1}


def test_without_a_folder_answers_are_kept_in_memory():
    with FaultServer() as server:
        endpoint = Endpoint(server.config(), None)
        assert texts(endpoint, [question("q")]) == texts(endpoint, [question("q")])
    assert server.counts == {"q": 1}


def test_requests_under_way_are_bounded(tmp_path):
    three = threading.Barrier(3)

    def in_threes(handler, body):
        three.wait(timeout=20)
        handler.complete(body)

    with FaultServer(fault=in_threes) as server:
        Endpoint(server.config(parallel_requests=3), tmp_path).answer(many(12))
    assert server.most_at_once == 3


def test_progress_is_told_after_each_answer_with_the_cost_so_far(tmp_path):
    told = []
    with FaultServer() as server:
        endpoint = Endpoint(server.config(price_output=1e6, parallel_requests=1), tmp_path)
        endpoint.answer(many(3), lambda done, total, spent: told.append((done, total, spent.cost)))
    # "answer to q 0" is four words
    assert told == [(1, 3, 4.0), (2, 3, 8.0), (3, 3, 12.0)]


def test_what_arrives_after_the_asker_has_left_is_kept(tmp_path):
    def slow(handler, body):
        time.sleep(0.2)
        handler.complete(body)

    with FaultServer([None, slow, slow]) as server:
        before = set(threading.enumerate())
        endpoint = Endpoint(server.config(parallel_requests=3), tmp_path)
        results = endpoint.ask(many(8))
        next(results)
        results.close()
        # What is under way, here or on its way to the server, ends with its thread.
        for thread in set(threading.enumerate()) - before:
            if thread.name == "endpoint request":
                thread.join(timeout=20)
                assert not thread.is_alive()
        sent = len(server.bodies)
        assert sent < 8
        assert len(rows(tmp_path, "answers")) == sent
        Endpoint(server.config(), tmp_path).answer(many(8))
    assert set(server.counts.values()) == {1}


OFFERED = {"response": SCHEMA, "top_logprobs": 2, "stop": ("\n",)}


def test_logprobs_of_the_first_token_where_they_are_offered(tmp_path):
    with FaultServer() as server:
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("q", **OFFERED)])
        (again,) = Endpoint(server.config(), tmp_path).answer([question("q", **OFFERED)])
    assert answer.logprobs == again.logprobs == (("0", -1.0), ("1", -2.0))


@pytest.mark.parametrize(
    "refused", [["response_format"], ["top_logprobs", "logprobs"], ["response_format", "logprobs"]]
)
def test_what_a_server_does_not_take_is_tried_once_and_then_left_out(tmp_path, refused):
    with FaultServer(refused=refused) as server:
        endpoint = Endpoint(server.config(), tmp_path)
        answers = endpoint.answer([question(f"q {number}", **OFFERED) for number in range(8)])
        sent = len(server.bodies)
        Endpoint(server.config(), tmp_path).answer([question("new", **OFFERED)])
    assert all(answer.text.startswith("answer to") for answer in answers)
    assert (answers[0].logprobs is None) == ("logprobs" in refused)
    assert 9 <= sent <= 12  # 8, and those of the first four at a time that found it out
    assert server.counts["new"] == 2  # each object finds it out


def test_features_are_remembered_for_each_server_and_model(tmp_path):
    with FaultServer(refused=["logprobs"]) as poor, FaultServer() as rich:
        Endpoint(poor.config(), tmp_path).answer([question("q", top_logprobs=2)])
        (answer,) = Endpoint(rich.config(), tmp_path).answer([question("q", top_logprobs=2)])
    assert answer.logprobs


def test_a_refusal_that_stays_without_the_feature_teaches_nothing(tmp_path):
    with FaultServer(fault=refuse(400, "the prompt is too long; logprobs")) as server:
        endpoint = Endpoint(server.config(), tmp_path)
        with pytest.raises(RefusedError, match="too long"):
            endpoint.answer([question("q", top_logprobs=2)])
        server.fault = None
        (answer,) = endpoint.answer([question("q", top_logprobs=2)])
    assert answer.logprobs
    assert len(server.bodies) == 3


def test_a_copy_of_the_request_in_a_refusal_is_not_the_servers_word(tmp_path):
    detail = [{"loc": ["body", "messages"], "msg": "too long", "input": {"logprobs": True}}]
    fault = lambda handler, body: handler.answer({"detail": detail}, 422)  # noqa: E731
    with FaultServer([fault]) as server, pytest.raises(RefusedError):
        Endpoint(server.config(), tmp_path).answer([question("q", top_logprobs=2)])
    assert len(server.bodies) == 1


def test_one_odd_schema_does_not_take_the_feature_from_the_others(tmp_path):
    with FaultServer() as server:
        endpoint = Endpoint(server.config(), tmp_path)
        endpoint.answer([question("q", response=SCHEMA)])
        server.faults.append(refuse(400, "Invalid schema for response_format"))
        endpoint.answer([question("odd", response={"type": "odd"})])
        endpoint.answer([question("p", response=SCHEMA)])
    assert [("response_format" in body) for body in server.bodies] == [True, True, False, True]


def test_a_stop_that_the_server_does_not_know_is_cut_here(tmp_path):
    with FaultServer(refused=["stop"], write=lambda text: "go left\nUser: more") as server:
        assert texts(Endpoint(server.config(), tmp_path), [question("q", stop=("\n",))]) == ["go left"]


def test_the_list_says_what_left_and_not_what_it_said(tmp_path):
    with FaultServer() as server:
        endpoint = Endpoint(server.config(price_input=1), tmp_path, "annotate")
        endpoint.answer([question("a private matter")])
        endpoint.answer([question("a private matter")])
    assert b"private" not in b"".join(json.dumps(row).encode() for row in rows(tmp_path))
    ((sent,), (kept,)) = rows(tmp_path), rows(tmp_path, "answers")
    names = ("host", "local", "model", "purpose", "status", "prompt_tokens", "completion_tokens", "cost", "answered_by")
    assert [sent[name] for name in names] == [server.host, 1, "tiny", "annotate", "200", 3, 5, 3e-6, "tiny-1"]
    # 16 bytes and 16 tokens each for the message and the answer's head; 16 tokens of answer
    assert (sent["most_tokens"], len(sent["sha256"])) == (16 + 32 + 16, 64)
    assert (kept["text"], kept["model"]) == ("answer to a private matter", "tiny-1")


def test_a_dry_run_sends_nothing_and_says_what_it_would(tmp_path):
    with FaultServer() as server:
        config = server.config(price_input=1e6, price_output=1e6, max_cost=500, max_total_tokens=900)
        endpoint = Endpoint(config, tmp_path, "annotate")
        endpoint.answer([question("known")])
        text = endpoint.preview([question("known"), question("new"), question("new"), question("newer")])
        assert server.counts == {"known": 1}
    assert f"Would ask {server.url} (model 'tiny', this machine) for: annotate." in text
    assert "4 requests, 3 different; 1 answered already, 2 to send, 4 at a time." in text
    # 3 + 5 bytes and twice 32 around them; 16 tokens each to answer
    assert "Tokens: prompts about 18, at most 72; answers at most 32." in text
    assert "Cost: about 50, at most 104." in text
    assert "Spent so far: 4," in text
    assert "Budget: cost 500." in text
    assert "\n--- user:\nnew\n---\nNothing was sent." in text
    assert '{"model": "tiny", "stream": false, "max_tokens": 16, "temperature": 0.0}' in text
    assert "newer" not in text
    elsewhere = EndpointConfig(base_url="https://api.example.org/v1", model="m", allow_remote=True)
    shown = Endpoint(elsewhere, None).preview([question("one\n\x1b[31mtwo")])
    assert "ANOTHER MACHINE" in shown
    assert "\none\n?[31mtwo\n" in shown


def test_without_an_address_there_is_no_endpoint():
    with pytest.raises(ConfigError, match=r"annotate\.base_url is empty"):
        Endpoint(EndpointConfig(), None, section="annotate")


@pytest.mark.parametrize("table", ["CREATE TABLE requests (mine TEXT)", "CREATE TABLE answers (mine TEXT)"])
def test_a_file_of_another_kind_is_named(tmp_path, table):
    path = tmp_path / "requests.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(table)
    connection.close()
    with FaultServer() as server, pytest.raises(RunFolderError, match=r"requests\.sqlite cannot be used .*begin anew"):
        Endpoint(server.config(), tmp_path)
    path.write_text("no database\n" * 100)
    with FaultServer() as server, pytest.raises(RunFolderError, match=r"requests\.sqlite cannot be used"):
        Endpoint(server.config(), tmp_path)


def test_an_answer_is_found_whatever_the_server_has_refused_since(tmp_path):
    with FaultServer(refused=["logprobs"]) as server:
        Endpoint(server.config(), tmp_path).answer([question("q", top_logprobs=2)])
        sent = len(server.bodies)
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("q", top_logprobs=2)])
        assert answer.cached
        assert "1 answered already, 0 to send" in Endpoint(server.config(), tmp_path).preview(
            [question("q", top_logprobs=2)]
        )
    assert len(server.bodies) == sent == 2


def test_the_import_is_light():
    code = "import sys, reflect_served.llm; print({'torch', 'openai', 'httpx', 'httpx2'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
