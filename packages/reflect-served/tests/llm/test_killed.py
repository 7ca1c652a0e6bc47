"""A process that is killed or interrupted in the middle of a batch loses nothing that arrived."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from fault_server import HANG, FaultServer, question, rows
from reflect_served.llm import Endpoint

RUN = """
import sys
from pathlib import Path
from reflect_served.llm import ChatRequest, Endpoint, EndpointConfig
config = EndpointConfig(base_url=sys.argv[1], model="tiny", parallel_requests=2)
requests = [ChatRequest((("user", f"q {number}"),), 16) for number in range(30)]
Endpoint(config, Path(sys.argv[2])).answer(requests)
"""


def until(condition, process):
    deadline = time.monotonic() + 20
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_the_same_command_asks_only_for_the_rest(tmp_path, ending):
    with FaultServer([None] * 12, HANG) as server:
        process = subprocess.Popen([sys.executable, "-c", RUN, server.url, str(tmp_path)], stderr=subprocess.DEVNULL)
        # Two hang, so the twelve answers have been read; they are on the disk a moment later.
        until(lambda: len(server.bodies) == 14 and len(rows(tmp_path, "answers")) == 12, process)
        process.send_signal(ending)
        process.wait(15)  # the two that hang say nothing for 20 s
        answered = {body["messages"][0]["content"] for body in server.bodies[:12]}
        server.released.set()
        server.fault = None
        server.counts.clear()
        endpoint = Endpoint(server.config(), tmp_path)
        # The two that were under way count with the most that they can have taken: 4 + 32 + 16 tokens.
        assert endpoint.log.reserved.tokens == 2 * 52
        answers = endpoint.answer([question(f"q {number}") for number in range(30)])
    assert [answer.text for answer in answers] == [f"answer to q {number}" for number in range(30)]
    assert sum(answer.cached for answer in answers) == 12
    assert server.counts == {f"q {number}": 1 for number in range(30) if f"q {number}" not in answered}
    assert len(rows(tmp_path, "answers")) == 30
