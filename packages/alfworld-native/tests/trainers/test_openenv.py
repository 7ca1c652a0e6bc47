"""An OpenEnv server and its generic client over the loopback address."""

import runpy
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from alfworld_native import GameError, generate_games, open_game
from alfworld_native.compat.experts import shortest_plan
from alfworld_native.trainers import openenv as household

EXAMPLE = Path(__file__).parents[2] / "examples" / "openenv_client.py"


@pytest.fixture(scope="module")
def url():
    pytest.importorskip("openenv", reason="the extra `openenv` is not installed")
    import uvicorn

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(household.make_app(), host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def test_two_clients_play_games_of_their_own(url):
    from openenv.core import GenericEnvClient

    winning = shortest_plan(open_game(generate_games("test", 1, first=5)[0]).start())
    with GenericEnvClient(base_url=url).sync() as one, GenericEnvClient(base_url=url).sync() as other:
        first = one.reset(seed=5, split="test")
        assert first.observation["text"].startswith("-= Welcome to TextWorld, ALFRED! =-")
        other.reset(seed=6, split="test")
        rewards = []
        for command in winning:
            assert command in first.observation["admissible_commands"]
            first = one.step({"command": command})
            rewards.append(first.reward)
            other.step({"command": "look"})
        assert rewards == [0.0] * (len(winning) - 1) + [1.0]
        assert first.done
        assert first.observation["won"]
        assert one.state()["step_count"] == len(winning)
        assert not other.step({"command": "inventory"}).done


def test_the_example_plays_a_game(url, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["openenv_client.py", url])
    runpy.run_path(str(EXAMPLE))
    told = capsys.readouterr().out
    assert told.count("\n> ") <= 50
    assert "won {'episode_id'" in told


def test_resets_without_a_seed_go_on_to_the_next_game_whichever_client_asks(monkeypatch):
    stand_in = SimpleNamespace(
        Action=BaseModel,
        Environment=object,
        Observation=BaseModel,
        State=SimpleNamespace,
        create_fastapi_app=lambda environment, *_, **__: environment,
    )
    monkeypatch.setitem(sys.modules, "openenv", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "openenv.core", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "openenv.core.env_server", stand_in)
    make_game = household.make_app()
    one, other = make_game(), make_game()
    played = [one.reset(), one.reset(seed=7), one.reset(), other.reset(), other.reset(seed=0)]
    openings = [open_game(generate_games("train", 1, first=number)[0]).start().first() for number in (0, 7, 1, 2, 0)]
    assert [begun.text for begun in played] == [opening.feedback for opening in openings]


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "openenv", None)
    monkeypatch.setitem(sys.modules, "openenv.core.env_server", None)
    with pytest.raises(GameError, match=r"alfworld-native\[openenv\]"):
        household.make_app()
