"""Preferences in a browser: one answer after the other, from this page alone, and nothing hostile in it runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra `live` is not installed")
pytest.importorskip("starlette", reason="the extra `live` is not installed")

import uvicorn
from starlette.testclient import TestClient

from reflect_report.preferences.browser import application
from reflect_report.preferences.pairs import Pair
from reflect_report.preferences.records import EpisodeSide, Preference, hash_of_episode
from reflect_report.preferences.session import Session
from reflect_report.server import listen
from reflect_rl.types import Decision, Episode, Observation, Task, Turn

from .browser import CHROMIUM, browser

TOKEN, PORT = "a-token-of-the-test", 5999
HERE = f"http://127.0.0.1:{PORT}"
HOSTILE = "</pre><script>window.attacked=1</script><img src=x onerror=window.attacked=1>\"'"


def pair(number: int, text: str = "You are at 1.") -> Pair:
    task = Task(f"{text}/{number}", "far", "train", {})
    observation = Observation(text, (text, "left"), "0")
    sides = []
    for index in (0, 1):
        turn = Turn(observation, (0, 1), text, Decision(index, "m"), 0.25)
        episode = Episode(task, (turn,), True, False, True, number, "corridor-v1")
        sides.append(EpisodeSide(sha256=hash_of_episode(episode), method="m", unit="u", decoding="d", episode=episode))
    return Pair(task, *sides)


def session_of(tmp_path: Path, pairs: list[Pair], wanted: int | None = None) -> Session:
    def make(one: Pair, choice) -> Preference:
        values = {"pair": one.hash, "environment": "corridor-v1", "fingerprint": "f", "task": one.task}
        return Preference(**values, left=one.left, right=one.right, choice=choice, by="anna", source="person", when="")

    return Session(tmp_path / "p.jsonl", pairs, set(), len(pairs) if wanted is None else wanted, make)


def choices(tmp_path: Path) -> list[str]:
    path = tmp_path / "p.jsonl"
    return [json.loads(line)["choice"] for line in path.read_text().splitlines()] if path.exists() else []


def client_of(session: Session) -> TestClient:
    return TestClient(application(session, TOKEN), base_url=HERE, follow_redirects=False)


def test_answers_are_written_one_after_the_other_until_the_end(tmp_path):
    pairs = [pair(1), pair(2)]
    session = session_of(tmp_path, pairs, wanted=3)
    client = client_of(session)
    first = client.get(f"/{TOKEN}/")
    assert "pair 1 of 2" in first.text
    assert "There are 2 pairs, fewer than the 3 that were asked for." in first.text
    # Neither the reward nor who played is on the page.
    assert "0.25" not in first.text.partition("</style>")[2]
    for one, choice in zip(pairs, ("left", "equal"), strict=True):
        sent = client.post(f"/{TOKEN}/answer", data={"pair": one.hash, "choice": choice}, headers={"Origin": HERE})
        assert (sent.status_code, sent.headers["location"]) == (303, f"/{TOKEN}/")
    assert choices(tmp_path) == ["left", "equal"]
    assert "All 2 pairs are answered." in client.get(f"/{TOKEN}/").text


def test_an_old_page_a_wrong_word_and_a_long_body_answer_nothing(tmp_path):
    pairs = [pair(1), pair(2)]
    client = client_of(session_of(tmp_path, pairs))
    for fields in ({"pair": pairs[1].hash, "choice": "left"}, {"pair": pairs[0].hash, "choice": "both"}, {}):
        sent = client.post(f"/{TOKEN}/answer", data=fields, headers={"Origin": HERE})
        assert sent.status_code == 303
    long = client.post(f"/{TOKEN}/answer", data={"choice": "x" * 5000}, headers={"Origin": HERE})
    assert long.status_code == 413
    assert choices(tmp_path) == []


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"Origin": "http://evil.example"}, f"/{TOKEN}/answer", 403),
        ({"Origin": "null"}, f"/{TOKEN}/answer", 403),
        ({}, f"/{TOKEN}/answer", 403),
        ({"Origin": HERE}, "/another-token/answer", 404),
        ({"Origin": "http://evil.example", "Host": "evil.example"}, f"/{TOKEN}/answer", 400),
        ({"Origin": f"http://evil.example:{PORT}", "Host": f"evil.example:{PORT}"}, f"/{TOKEN}/answer", 400),
    ],
)
def test_only_this_page_may_answer(tmp_path, headers, path, status):
    one = pair(1)
    client = client_of(session_of(tmp_path, [one]))
    sent = client.post(path, data={"pair": one.hash, "choice": "left"}, headers=headers)
    assert sent.status_code == status
    assert choices(tmp_path) == []


def test_the_page_may_run_and_load_nothing(tmp_path):
    answer = client_of(session_of(tmp_path, [pair(1, HOSTILE)])).get(f"/{TOKEN}/")
    assert "<script" not in answer.text
    assert "<img" not in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "script" not in policy
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.fixture
def served(tmp_path) -> Iterator[tuple[str, Session]]:
    session = session_of(tmp_path, [pair(1, HOSTILE), pair(2)])
    with listen(0) as opened:
        settings = uvicorn.Config(application(session, TOKEN), log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{opened.getsockname()[1]}/{TOKEN}/", session
        server.should_exit = True
        thread.join(30)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; the page is not tried in a browser")
def test_a_browser_answers_with_its_buttons(served, tmp_path):
    address, session = served
    with browser(tmp_path / "profile") as tab:
        for width in (1280, 400):
            tab.open(address, width)
            assert tab.do("document.documentElement.scrollWidth") == width
        assert HOSTILE in tab.do('document.querySelector("pre.state").textContent')
        assert tab.do("window.attacked") is None
        for word in ("Right is better", "Skip"):
            before = session.done
            tab.do(f'[...document.querySelectorAll("button")].find(b => b.textContent === "{word}").click()')
            while session.done == before:
                assert threading.active_count() > 1
            tab.open(address)
        assert "All 2 pairs are answered." in tab.do("document.body.textContent")
        assert tab.errors == []
    assert choices(tmp_path) == ["right", "skip"]
