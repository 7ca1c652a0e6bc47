"""Pauses are those that the server asks for, or doubled and jittered ones; all within a bound. No test waits."""

from __future__ import annotations

import numpy as np
import pytest

from reflect_rl.llm.errors import Failure
from reflect_rl.llm.patience import Clock, Patience, wanted_pause

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


class Watch:
    """A clock that only `sleep` moves."""

    def __init__(self):
        self.time, self.pauses = NOW, []

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.time += seconds

    def patience(self, retries=5, longest=120.0, seed=0):
        return Patience(retries, longest, Clock(lambda: self.time, self.sleep, np.random.default_rng(seed)))


def status(code, words="no", **headers):
    return Failure("status", words, code, tuple((name.replace("_", "-"), text) for name, text in headers.items()))


def test_pauses_double_and_are_jittered_down_to_half():
    watch = Watch()
    patience = watch.patience(retries=7, longest=10)
    assert [patience.again(status(500), k) for k in range(1, 9)] == [True] * 7 + [False]
    # 0.5, 1, 2, 4, 8, then the bound
    for pause, full in zip(watch.pauses, [0.5, 1, 2, 4, 8, 10, 10], strict=True):
        assert full / 2 <= pause <= full
    assert len({pause / full for pause, full in zip(watch.pauses, [0.5, 1, 2, 4, 8, 10, 10], strict=True)}) > 5


def test_two_threads_do_not_come_back_together():
    pauses = []
    for seed in (1, 2):
        watch = Watch()
        watch.patience(seed=seed).again(status(500), 1)
        pauses += watch.pauses
    assert pauses[0] != pauses[1]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:50 GMT"}, 30),
        ({"retry_after": "Tue, 14 Nov 2023 22:13:10 GMT"}, 0),
        # by the server's own clock, which is an hour late
        ({"retry_after": "Tue, 14 Nov 2023 21:14:20 GMT", "date": "Tue, 14 Nov 2023 21:13:20 GMT"}, 60),
        ({}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
    ],
)
def test_what_a_server_asks_for(headers, seconds):
    assert wanted_pause(status(429, **headers), NOW) == seconds


def test_all_threads_wait_when_the_server_has_told_one():
    watch = Watch()
    patience = watch.patience()
    assert patience.again(status(429, retry_after="7"), 1)
    assert watch.pauses == []
    patience.wait()  # this thread, or another
    assert watch.pauses == [7]
    patience.wait()
    assert watch.pauses == [7]


def test_a_server_that_asks_for_more_than_the_bound_is_not_asked_again():
    watch = Watch()
    assert not watch.patience(longest=60).again(status(429, retry_after="3600"), 1)
    assert watch.pauses == []


@pytest.mark.parametrize("code", [400, 401, 403, 404, 413, 422, 501])
def test_what_does_not_pass_is_not_tried_again(code):
    assert not Watch().patience().again(status(code, retry_after="1"), 1)


@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(code):
    assert Watch().patience().again(status(code), 1)


def test_an_account_without_credit_does_not_pass():
    assert not Watch().patience().again(status(429, '{"code": "insufficient_quota"}'), 1)


def test_an_unreadable_answer_is_asked_for_once_more():
    patience = Watch().patience()
    assert [patience.again(Failure("unreadable"), k) for k in (1, 2)] == [True, False]
    assert not Watch().patience(retries=0).again(Failure("unreadable"), 1)
