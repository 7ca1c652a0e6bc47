"""`reflect-rl report --live`: its address, its end and its mistakes. What it serves is tested beside the page."""

import http.client
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="the extra `live` is not installed")
pytest.importorskip("starlette", reason="the extra `live` is not installed")


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}


def status(address: str) -> int:
    """Status of the answer of an address."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=30)
    connection.request("GET", place.path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def started(*words: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "reflect_rl", "report", *words]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


ENDINGS = [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "ended by SIGTERM")]


@pytest.mark.parametrize(("name", "code", "message"), ENDINGS)
def test_the_command_tells_its_address_and_ends_cleanly(run: Path, name: str, code: int, message: str) -> None:
    before = tree(run)
    process = started(str(run), "--live")
    assert process.stdout is not None
    first = process.stdout.readline().split()
    assert first[:2] == ["live", "page:"]
    place = urlsplit(first[2])
    assert place.hostname == "127.0.0.1"
    assert len(place.path.strip("/")) >= 32
    assert status(first[2]) == 200
    # A connection that is open does not hold it up.
    with socket.create_connection(("127.0.0.1", place.port)):
        process.send_signal(getattr(signal, name))
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, f"\n{message}; the page is no longer served.\n")
    assert tree(run) == before


def test_mistakes_of_the_command(call, run: Path, monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert (
            f"cannot serve on port {port}: address already in use."
            in call("report", run, "--live", "--port", port).mistake
        )
    assert "port: 65536 is too large" in call("report", run, "--live", "--port", 65536).mistake
    assert "no run folder 'nowhere'" in call("report", "nowhere", "--live").mistake
    found = importlib.util.find_spec
    monkeypatch.setattr("reflect_report.cli.serving.find_spec", lambda name: None if name == "uvicorn" else found(name))
    assert (
        call("report", run, "--live")
        .mistake.strip()
        .endswith("--live needs uvicorn, not installed here. Install: pip install 'reflect-report[live]'.")
    )
