"""Whatever a server does: nothing is lost, nothing is asked twice, and the message says what to do."""

from __future__ import annotations

import gzip
import socket
import time
from collections import Counter

import pytest

from fault_server import DRIP, DROP, EMPTY_CHOICES, HALF, HANG, HUGE, FaultServer, end, question, refuse, rows, say
from reflect_served.llm import Endpoint, EndpointConfig, EndpointError, RefusedError

QUESTIONS = [question(f"q {number}") for number in range(8)]
ONCE = Counter({f"q {number}": 1 for number in range(8)})


class Watch:
    """The time of the package `openai`, which passes at once."""

    def __init__(self):
        self.pauses, self.time = [], time.time

    def sleep(self, seconds):
        self.pauses.append(seconds)


@pytest.fixture
def watch(monkeypatch):
    watch = Watch()
    monkeypatch.setattr("openai._base_client.time", watch)
    return watch


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def answered(endpoint):
    answers = endpoint.answer(QUESTIONS)
    assert [answer.text for answer in answers] == [f"answer to {request.messages[0][1]}" for request in QUESTIONS]


PASSING = {
    "429": refuse(429, "slow down"),
    "429 with seconds": refuse(429, retry_after="7"),
    "500": refuse(500),
    "503": refuse(503, retry_after="7"),
    "408": refuse(408),
    "dropped": DROP,
    "half": HALF,
    "half a JSON": say(b'{"choices": [{"mess'),
    "a page": say(b"<html>busy</html>"),
    "empty choices": EMPTY_CHOICES,
    "null choices": say({"choices": None}),
    "no message": say({"choices": [{}]}),
    "a list": say([]),
    "abort": end("abort"),
    "huge": HUGE,
}


UNREADABLE = {"half a JSON", "a page", "empty choices", "null choices", "no message", "a list", "abort", "huge"}
"""Faults after which the request is sent once more without a pause."""


@pytest.mark.parametrize("name", PASSING)
def test_a_fault_that_passes_is_no_fault(tmp_path, watch, name):
    with FaultServer([None, PASSING[name], None]) as server:
        endpoint = Endpoint(server.config(parallel_requests=2), tmp_path)
        answered(endpoint)
        # One was sent twice, and its answer is kept like the others.
        assert sorted(server.counts.values()) == [1] * 7 + [2]
        answered(Endpoint(server.config(), tmp_path))
        assert len(server.bodies) == 9
    if name in UNREADABLE:
        assert watch.pauses == []
    elif "with" in name or name == "503":
        assert watch.pauses == [7]
    else:
        (pause,) = watch.pauses
        assert 0.375 <= pause <= 0.5  # half a second, less up to a quarter


def test_a_server_that_hangs_is_given_up_and_asked_again(tmp_path, watch):
    with FaultServer([HANG]) as server:
        answered(Endpoint(server.config(timeout_seconds=0.3), tmp_path))
    assert sorted(server.counts.values()) == [1] * 7 + [2]


def test_an_answer_that_drips_is_given_up_in_time(tmp_path, watch):
    with FaultServer(fault=DRIP) as server:
        began = time.monotonic()
        with pytest.raises(EndpointError, match=r"did not answer within 0\.3 s, 1 times"):
            Endpoint(server.config(timeout_seconds=0.3, retries=0), tmp_path).answer(QUESTIONS[:1])
        assert time.monotonic() - began < 60  # of 80 s that the answer takes


LASTING = {
    "401": (refuse(401), 1, r"HTTP 401.*Set OPENAI_API_KEY to the server's key"),
    "403": (refuse(403), 1, "Set OPENAI_API_KEY"),
    "404": (refuse(404, "no such model"), 1, r"no such model.*Does it serve this model.*annotate\.base_url"),
    "307": (refuse(307, location="http://127.0.0.1:9/v1"), 1, "HTTP 307"),
    "no credit": (refuse(429, "pay", "insufficient_quota"), 1, "no credit left"),
    "429": (refuse(429, "slow"), 3, r"slow.*lower annotate\.parallel_requests\..*goes on from here"),
    "429, long": (refuse(429, retry_after="900"), 1, r"Wait, or lower annotate\.parallel_requests"),
    "501": (refuse(501, "not built"), 1, "not built"),
    "500": (refuse(500, "out of memory"), 3, r"out of memory.*See the server's own log\..*goes on from here"),
    "dropped": (DROP, 3, r"cannot be reached: .*annotate\.base_url"),
    "half a JSON": (say(b'{"choi'), 2, r"cannot be read: .*\{\"choi.*annotate\.base_url"),
    "empty choices": (EMPTY_CHOICES, 2, "cannot be read: IndexError"),
    "huge": (HUGE, 2, "more than 16777216 bytes"),
    "no text": (say({"choices": [{"message": {"content": 7}}]}), 2, "the message is no text"),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_fault_that_stays_is_named_with_its_remedy_and_the_rest_goes_on_later(tmp_path, watch, name):
    fault, attempts, said = LASTING[name]
    with FaultServer([None, None], fault) as server:
        config = server.config(parallel_requests=1, retries=2)
        endpoint = Endpoint(config, tmp_path, section="annotate")
        with pytest.raises(EndpointError, match=said) as caught:
            endpoint.answer(QUESTIONS)
        assert f"{server.host} (model 'tiny')" in str(caught.value)
        # Two answers came; the third was tried so often; nobody was asked after that.
        assert [server.counts[f"q {number}"] for number in range(4)] == [1, 1, attempts, 0]
        server.fault = None
        server.counts.clear()
        answered(Endpoint(config, tmp_path))
        assert server.counts == ONCE - Counter(["q 0", "q 1"])


@pytest.mark.parametrize("code", [400, 413, 422])
def test_one_request_that_is_refused_does_not_stop_the_others(tmp_path, watch, code):
    with FaultServer([None, refuse(code, "no room")]) as server:
        endpoint = Endpoint(server.config(parallel_requests=1), tmp_path)
        results = dict(endpoint.ask(QUESTIONS))
        assert isinstance(results.pop(1), RefusedError)
        assert [results[number].text for number in results] == [f"answer to q {n}" for n in (0, 2, 3, 4, 5, 6, 7)]
        assert server.counts == ONCE
        server.faults.append(refuse(code, "no room"))
        with pytest.raises(RefusedError, match=r"no room.*endpoint\.reasoning = true"):
            endpoint.answer(QUESTIONS)
        answered(endpoint)
    assert watch.pauses == []


def test_when_the_first_three_are_refused_the_fault_is_not_in_the_requests(tmp_path):
    with FaultServer(fault=refuse(400, "unsupported parameter: 'max_tokens'")) as server:
        results = list(Endpoint(server.config(parallel_requests=1), tmp_path).ask(QUESTIONS))
        assert [isinstance(result, RefusedError) for _, result in results] == [True, True, False]
        assert "'max_tokens'" in str(results[2][1])
        assert "endpoint.reasoning = true" in str(results[2][1])
    assert len(server.bodies) == 3


def test_after_a_failure_those_under_way_are_waited_for_and_kept(tmp_path):
    def slow(handler, body):
        time.sleep(0.2)
        handler.complete(body)

    with FaultServer([slow, refuse(401), slow]) as server:
        results = list(Endpoint(server.config(parallel_requests=3), tmp_path).ask(QUESTIONS))
        errors = [result for _, result in results if isinstance(result, EndpointError)]
        assert (len(results), len(errors)) == (3, 1)
        assert len(rows(tmp_path, "answers")) == 2


def test_nobody_at_the_address(tmp_path, watch):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        endpoint = Endpoint(EndpointConfig(base_url=url, model="m", retries=2), tmp_path)
        with pytest.raises(
            EndpointError, match=r"cannot be reached: .*refused.*Start it, or correct endpoint\.base_url"
        ):
            endpoint.answer(QUESTIONS[:1])
    assert len(watch.pauses) == 2
    # Nothing reached anybody, so nothing can have been spent.
    assert endpoint.log.reserved.tokens == 0


@pytest.mark.parametrize("ending", ["length", "content_filter"])
def test_how_an_answer_ended_is_the_callers_to_judge(tmp_path, ending):
    with FaultServer([end(ending, "half a"), say({"choices": [{"message": {}, "finish_reason": ending}]})]) as server:
        first, second = (Endpoint(server.config(), tmp_path).answer([question(text)])[0] for text in "ab")
    assert [(answer.text, answer.ending) for answer in (first, second)] == [("half a", ending), ("", ending)]


def test_a_wrong_model_is_named(tmp_path):
    with FaultServer() as server, pytest.raises(EndpointError, match=r"model 'other'.*`other` does not exist"):
        Endpoint(server.config(model="other"), tmp_path).answer(QUESTIONS)
    assert sum(server.counts.values()) <= 4


def test_who_answered_in_place_of_the_model_is_written_down(tmp_path):
    with FaultServer([say({"model": "stranger", "choices": [{"message": {"content": "hello"}}]})]) as server:
        Endpoint(server.config(), tmp_path).answer([question("q")])
    (row,) = rows(tmp_path, "answers")
    assert row["model"] == "stranger"


def test_no_server_sends_the_client_elsewhere(tmp_path):
    with FaultServer() as other:
        there = refuse(307, location=f"{other.url}/chat/completions")
        message = rf"redirects to '{other.url}/chat/completions' \(HTTP 307\).*Set endpoint\.base_url to the address"
        with FaultServer(fault=there) as server, pytest.raises(EndpointError, match=message):
            Endpoint(server.config(), tmp_path).answer(QUESTIONS)
        assert other.bodies == []


def test_a_server_on_this_machine_is_asked_without_a_proxy(tmp_path, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with FaultServer() as server:
        answered(Endpoint(server.config(), tmp_path))


def test_words_of_a_server_cannot_steer_the_terminal(tmp_path):
    steering = refuse(401, "a\x1b[2Jb\nc" + "x" * 5000)
    with FaultServer(fault=steering) as server, pytest.raises(EndpointError) as caught:
        Endpoint(server.config(), tmp_path).answer(QUESTIONS)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 1000


def flood(handler, body):
    """ "100 Continue" without end: each read of the client succeeds."""
    while True:
        handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.02)


def drip_headers(handler, body):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X-Slow: yes\r\n")
        time.sleep(0.05)


@pytest.mark.parametrize("fault", [flood, drip_headers])
def test_an_answer_whose_headers_never_end_is_given_up_in_time(tmp_path, watch, fault):
    with (
        FaultServer(fault=fault) as server,
        pytest.raises(EndpointError, match=r"did not answer within 0\.5 s, 1 times"),
    ):
        Endpoint(server.config(timeout_seconds=0.5, retries=0), tmp_path).answer(QUESTIONS[:1])


def packed(encoding, data):
    return lambda handler, body: handler.send(data, 200, {"Content-Encoding": encoding})


BOMB = gzip.compress(bytes(100 * 2**20))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (packed("gzip", BOMB), "more than 16777216 bytes"),
        (packed("gzip", b"no gzip"), "cannot be unpacked"),
        (packed("br", b"x"), "packed with 'br'"),
        (say(b"[" * 100_000), "RecursionError"),
    ],
)
def test_what_a_reply_unfolds_to_is_bounded(tmp_path, fault, message):
    with FaultServer(fault=fault) as server, pytest.raises(EndpointError, match=message):
        Endpoint(server.config(retries=0), tmp_path).answer(QUESTIONS[:1])


def test_a_text_is_no_longer_than_the_tokens_that_were_asked_for(tmp_path):
    with FaultServer(write=lambda text: "x" * 1_000_000) as server:
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("one")])
    assert len(answer.text) == 16 * 128
