"""The live page: what is served, to whom, and that nothing is made twice or written."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra `live` is not installed")
pytest.importorskip("starlette", reason="the extra `live` is not installed")

import uvicorn

from reflect_report import live
from reflect_report.live import LivePage
from reflect_report.server import HOSTS, application, listen
from reflect_rl.errors import RunFolderError, UserError
from reflect_rl.runs.folder import JobProgress, _machine

from .conftest import episode_row, result_row, write_full_run, write_json, write_lines

TOKEN = "a-token-of-the-test"


class Clock:
    """Seconds that pass when the test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_full_run(tmp_path / "run", "clean", (10,), (0,))


def later(page: LivePage, clock: Clock, seconds: float = 1000) -> live.Look:
    """The look after a long time."""
    clock.now += seconds
    return page.look()


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


@contextmanager
def served(page: LivePage) -> Iterator[int]:
    """The port of a server of this page."""
    with listen(0) as opened:
        settings = uvicorn.Config(application(page, TOKEN), log_level="error", lifespan="off", ws="none")
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield opened.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)


def ask(port: int, path: str = f"/{TOKEN}/state", method: str = "GET", **headers: str) -> tuple[int, str]:
    """Status and text of an answer; a header that is named here takes the place of the usual one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_nothing_is_made_anew_while_no_file_changes(run: Path, clock: Clock) -> None:
    page = LivePage([run], clock)
    first = page.look()
    for _ in range(5):
        assert later(page, clock) is first
    assert page.makings == 1


def test_only_the_sections_of_a_changed_file_have_a_new_version(run: Path, clock: Clock) -> None:
    page = LivePage([run], clock)
    before = page.look().page.versions
    with (run / "starts-10" / "seed-0" / "rlft" / "reflect_rl" / "metrics.jsonl").open("a") as lines:
        lines.write(json.dumps({"turns": 99_999, "rollout/success_rate": 0.987}) + "\n")
    after = later(page, clock).page.versions
    assert {name for name in before if before[name] != after[name]} == {"curves"}
    assert page.makings == 2


def test_looks_are_a_second_apart_and_costly_ones_further(run: Path, clock: Clock, monkeypatch) -> None:
    page = LivePage([run], clock)
    metrics = run / "starts-10" / "seed-0" / "rlft" / "reflect_rl" / "metrics.jsonl"

    def append() -> None:
        with metrics.open("a") as lines:
            lines.write('{"turns": 1}\n')

    append()
    later(page, clock, 0.5)
    assert page.makings == 1
    made = page._make

    def slow() -> live.Look:
        clock.now += 10
        return made()

    monkeypatch.setattr(page, "_make", slow)
    later(page, clock, 0.6)
    assert page.makings == 2
    append()
    # Ten seconds of work allow the next after fifty.
    later(page, clock, 49)
    assert page.makings == 2
    later(page, clock, 2)
    assert page.makings == 3


def test_a_folder_that_vanishes_is_told_and_comes_back(run: Path, clock: Clock, tmp_path: Path) -> None:
    page = LivePage([run], clock)
    before = page.look()
    run.rename(tmp_path / "away")
    gone = later(page, clock)
    assert f"no run folder '{run}'" in gone.fault
    assert gone.page == before.page
    (tmp_path / "away").rename(run)
    back = later(page, clock)
    assert (back.fault, back.page) == ("", before.page)


@pytest.mark.parametrize("name", ["config.json", "run.json", "results.json"])
def test_a_file_that_is_half_written_is_told_and_comes_back(run: Path, clock: Clock, name: str) -> None:
    page = LivePage([run], clock)
    whole = (run / name).read_text()
    (run / name).write_text(whole[: len(whole) // 2])
    assert name in later(page, clock).fault
    (run / name).write_text(whole)
    assert later(page, clock).fault == ""


def test_half_lines_cost_these_lines_alone(run: Path, clock: Clock) -> None:
    page = LivePage([run], clock)
    for path in run.rglob("*.jsonl"):
        with path.open("a") as lines:
            lines.write('{"half')
    look = later(page, clock)
    assert look.fault == ""
    assert "1 unreadable lines" in look.page.sections["result"]


def test_results_are_those_of_the_evaluations_before_results_json_is_written(tmp_path: Path, clock: Clock) -> None:
    write_json(tmp_path / "config.json", {"data": {"label_source": "clean"}})
    write_json(tmp_path / "run.json", {"schema_version": 2, "benchmark": "dangerous_taxi"})
    page = LivePage([tmp_path], clock)
    assert "No method is evaluated yet." in page.look().page.sections["result"]
    folder = tmp_path / "starts-100" / "seed-0" / "evaluation" / "reflect_rl"
    write_lines(folder / "episodes.jsonl", [episode_row()])
    write_json(folder / "rows.json", [result_row()])
    (folder / "done").touch()
    assert "Reflect-RL wins 80.0%" in later(page, clock).page.sections["result"]
    # A run that begins anew leaves the results of its last end.
    write_json(tmp_path / "results.json", [result_row(successes=1)])
    assert "Reflect-RL wins 80.0%" in later(page, clock).page.sections["result"]


def test_a_killed_process_is_seen_though_no_file_changes(run: Path, clock: Clock) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    folder = run / "starts-10" / "seed-0" / "rlft" / "mine"
    told = JobProgress(done=1, total=4, began=9e9, updated=0, process=process.pid, machine=_machine())
    write_json(folder / "progress.json", told.model_dump())
    page = LivePage([run], clock)
    assert "rlft mine 25% of 4." in page.look().summary
    process.kill()
    process.wait()
    look = later(page, clock)
    assert "no job at work" in look.summary
    assert '<td class="state-stopped">stopped</td>' in look.page.sections["now"]


def test_the_page_writes_nothing(run: Path, clock: Clock) -> None:
    before = tree(run)
    page = LivePage([run], clock)
    with served(page) as port:
        for path in ("", "state", "section/result", "section/now", "section/episodes"):
            assert ask(port, f"/{TOKEN}/{path}")[0] == 200
    assert tree(run) == before


def test_who_may_ask(run: Path) -> None:
    with served(LivePage([run])) as port:
        assert ask(port)[0] == 200
        for host in HOSTS:
            # A tunnel has another port at its near end.
            for place in (f"{host}:{port}", host, f"{host}:9"):
                assert ask(port, Host=place)[0] == 200
                assert ask(port, Host=place, Origin=f"http://{place}")[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", ""):
            assert ask(port, Host=host)[0] == 400
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://localhost:{port}", ""):
            assert ask(port, Origin=origin)[0] == 403
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
            assert ask(port, method=method)[0] == 405
        for path in (
            "/",
            "/state",
            f"/{TOKEN[:-1]}/state",
            f"/{TOKEN}x/state",
            "/%00/state",
            "/%C3%A4/state",
            "//",
        ):
            assert ask(port, path)[0] == 404
        for path in ("section/../state", "section/page", "section/%2e%2e", "report.html", "../../etc/passwd"):
            assert ask(port, f"/{TOKEN}/{path}")[0] == 404


def test_answers_may_not_be_embedded_kept_or_told_of(run: Path) -> None:
    with served(LivePage([run])) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for path in ("", "state", "section/result", "nothing"):
            connection.request("GET", f"/{TOKEN}/{path}")
            answer = connection.getresponse()
            answer.read()
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert answer.headers["Server"] in (None, "uvicorn")
        connection.close()


def test_a_port_in_use_is_a_mistake_and_two_servers_stand_side_by_side(run: Path) -> None:
    with served(LivePage([run])) as one, served(LivePage([run])) as other:
        assert ask(one)[0] == ask(other)[0] == 200
        with pytest.raises(
            UserError, match=rf"cannot serve on port {one}: address already in use. Name another --port"
        ):
            listen(one)


def test_only_this_machine_reaches_it(run: Path) -> None:
    with listen(0) as opened:
        assert opened.getsockname()[0] == "127.0.0.1"
        assert opened.family == socket.AF_INET


def test_a_folder_without_a_run_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run folder"):
        LivePage([tmp_path / "nowhere"])
