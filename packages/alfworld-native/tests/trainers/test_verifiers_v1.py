"""The taskset of verifiers 0.4, with a server in the place of a model; its chat program is installed by uv."""

import asyncio
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from alfworld_native import generate_games, open_game
from alfworld_native.compat.experts import shortest_plan

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def vf():
    module = pytest.importorskip("verifiers.v1", reason="verifiers is not installed")
    if not hasattr(module, "EvalClientConfig"):
        pytest.skip("this version of verifiers has another interface")
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed, which verifiers installs its chat program with")
    return module


@pytest.fixture
def url():
    """A streaming endpoint whose model knows the solution of the first game."""
    plan = shortest_plan(open_game(generate_games("train", 1)[0]).start())

    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        told = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "table", "choices": [choice]}
        return f"data: {json.dumps(told)}\n\n".encode()

    class Model(BaseHTTPRequestHandler):
        def do_POST(self):
            messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
            command = plan[sum(message["role"] == "assistant" for message in messages)]
            body = chunk({"role": "assistant", "content": command}) + chunk({}, "stop") + b"data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()


def test_an_episode_is_played_and_won(vf, url, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("TABLE_KEY", "none")
    agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    taskset = {"id": "household_taskset", "count": 2}
    env = vf.load_environment(vf.SingleAgentEnvConfig.model_validate({"taskset": taskset, "agent": agent}))
    tasks = list(env.taskset)
    assert [task.data.idx for task in tasks] == [0, 1]
    context = vf.ModelContext(model="table", client=vf.EvalClientConfig(base_url=url, api_key_var="TABLE_KEY"))

    async def played():
        async with env.serving():
            return await env.run_episode(tasks[0], context)

    episode = asyncio.run(played())
    assert episode.ok, episode.errors
    assert episode.traces[0].rewards["won"].score == 1.0
