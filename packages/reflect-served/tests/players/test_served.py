"""A served reflection player writes what the frozen one writes; what goes wrong is an error that says what to do."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from fault_server import rows
from reflect_rl.config import parse
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import ConfigError, FaultyPlayerError, ModelError, PlayerTimeoutError, RunFolderError
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.prompts import reflection_prompt
from reflect_rl.rollout import RandomPolicy, Request, play
from reflect_rl.runs.check import check
from reflect_rl.runs.config import RunConfig
from reflect_rl.types import View
from reflect_rl.watchdog import Limits
from reflect_served.llm import ServerAddress, is_loopback
from reflect_served.players.served import ServedReflector
from reflect_served.settings import ServerConfig
from reflection_server import ReflectionServer, hang
from toy import SMALL, SPEC, tiny_player, training_tasks

SECRET = "sk-very-secret-0123456789"


def lively_model(seed=3):
    """Large weights, so that different prompts get different answers."""
    model, _ = tiny_player(seed)
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.mul_(16 if weight.dim() > 1 else 1)
    return model


@pytest.fixture(scope="module")
def model():
    return lively_model()


@pytest.fixture(autouse=True)
def _no_key_and_no_pauses(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.001)


def views(count=8):
    out = []
    for task in training_tasks()[:count]:
        game = Corridor(SMALL)
        out.append(View(replace(game.reset(task), actions=()), ()))
    return out


def failing(model, fault, error=FaultyPlayerError, **changes):
    """The message of the error that a server with this fault leads to, and the number of requests it got."""
    with ReflectionServer(model, fault=fault) as server:
        player = ServedReflector(server.config(**changes), 8)
        with pytest.raises(error) as caught:
            player.reflect(views(1))
        message = str(caught.value)
        assert f"127.0.0.1:{server.http.server_port}" in message
        assert "'tiny'" in message
        assert player.hit_rate == 0
        assert not player._cache
        return message, len(server.requests)


def test_the_served_reflections_are_those_of_the_frozen_player(model):
    expected = FrozenReflector(model, 8).reflect(views())
    assert len(set(expected)) > 3
    with ReflectionServer(model) as server:
        player = ServedReflector(server.config(), 8)
        player.check()
        assert player.reflect(views()) == expected
        assert player.reflect(views()[::-1]) == expected[::-1]
        sent = sorted(server.requests, key=lambda body: body["prompt"])
        assert [body["prompt"] for body in sent] == sorted({reflection_prompt(view) for view in views()})
        assert all(
            body | {"prompt": ""}
            == {"model": "tiny", "prompt": "", "max_tokens": 8, "temperature": 0, "frequency_penalty": 0}
            for body in sent
        )
        assert 2 <= server.most_at_once <= 4
    assert (player.requests, player.hits) == (16, 8)
    assert player.origin == {"reflection_server": player.server.host, "reflection_model": "tiny"}


def test_whole_games_are_the_same_with_a_served_reflection_player(model):
    requests = [Request(task, k) for k, task in enumerate(training_tasks())]
    expected = play(SPEC, requests, FrozenReflector(model, 8), RandomPolicy())
    with ReflectionServer(model) as server:
        assert play(SPEC, requests, ServedReflector(server.config(), 8), RandomPolicy()) == expected


def test_one_request_at_a_time_where_only_one_is_allowed(model):
    with ReflectionServer(model, fault=lambda handler, body: bool(time.sleep(0.01))) as server:
        ServedReflector(server.config(parallel_requests=1), 8).reflect(views())
        assert server.most_at_once == 1


def test_an_empty_text_that_the_server_finished_is_an_answer(model):
    fault = lambda handler, body: handler.choices([{"text": "", "finish_reason": "stop"}])  # noqa: E731
    with ReflectionServer(model, fault=fault) as server:
        player = ServedReflector(server.config(), 8)
        assert player.reflect(views(1)) == [""]
        assert player.reflect(views(1)) == [""]
        assert len(server.requests) == 1


def test_a_text_that_is_longer_than_was_asked_for_is_cut_as_a_chat_answer_is(model):
    """Eight tokens have at most 8 * 128 characters; a lone surrogate is no character."""
    fault = lambda handler, body: handler.choices([{"text": "\ud800" + "x" * 5000, "finish_reason": "stop"}])  # noqa: E731
    with ReflectionServer(model, fault=fault) as server:
        assert ServedReflector(server.config(), 8).reflect(views(1)) == ["?" + "x" * 1023]


def test_what_leaves_this_machine_is_listed_before_it_is_sent(model, tmp_path, monkeypatch):
    with ReflectionServer(model) as server:
        ServedReflector(server.config(), 8, folder=tmp_path / "list").reflect(views())
        assert not (tmp_path / "list").exists()
        local = len(server.requests)
        monkeypatch.setattr(ServerAddress, "is_local", property(lambda self: False))
        player = ServedReflector(server.config(), 8, folder=tmp_path / "list")
        player.check()
        player.reflect(views())
        listed = rows(tmp_path / "list")
        assert len(listed) == len({row["sha256"] for row in listed}) == len(server.requests) - local == 8
        expected = (player.server.host, 0, "tiny", "reflections")
        assert {tuple(row[k] for k in ("host", "local", "model", "purpose")) for row in listed} == {expected}
        # The server gives no counts, so they are the most that they can be.
        assert {(row["status"], row["answered_by"]) for row in listed} == {("200", "tiny")}
        assert all(row["prompt_tokens"] > 0 and row["cost"] == 0 for row in listed)
        (tmp_path / "file").touch()
        before = len(server.requests)
        with pytest.raises(RunFolderError, match="cannot be written"):
            ServedReflector(server.config(), 8, folder=tmp_path / "file").reflect(views())
        assert len(server.requests) == before


def test_an_answer_that_cannot_be_read_ends_its_row(model, tmp_path, monkeypatch):
    monkeypatch.setattr(ServerAddress, "is_local", property(lambda self: False))
    fault = lambda handler, body: handler.choices([])  # noqa: E731
    with ReflectionServer(model, fault=fault) as server, pytest.raises(FaultyPlayerError, match="without a text"):
        ServedReflector(server.config(), 8, folder=tmp_path).reflect(views(1))
    assert [(row["status"], row["cost"]) for row in rows(tmp_path)] == [("unreadable", None)]


def test_a_key_that_an_answer_repeats_is_no_part_of_the_reflection(model, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    fault = lambda handler, body: handler.choices([{"text": f"use {SECRET}", "finish_reason": "stop"}])  # noqa: E731
    with ReflectionServer(model, fault=fault) as server:
        assert ServedReflector(server.config(), 96).reflect(views(1)) == ["use (OPENAI_API_KEY)"]


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def test_nobody_at_the_address():
    server = ServerConfig(base_url=f"http://127.0.0.1:{free_port()}/v1", model="runs/x/models/reflector")
    player = ServedReflector(server, 8)
    with pytest.raises(FaultyPlayerError, match=r"cannot be reached: .*refused.*vllm serve runs/x/models/reflector"):
        player.reflect(views(1))
    with pytest.raises(ModelError, match="cannot be reached"):
        player.check()


def test_a_server_that_fails_is_asked_again_and_then_named(model):
    message, asked = failing(model, lambda handler, body: handler.refuse(500, "out of memory"))
    assert "HTTP 500" in message
    assert "out of memory" in message
    assert asked == 3


@pytest.mark.parametrize("codes", [[500, 429], [503, 408]], ids=str)
def test_a_failure_that_passes_is_no_failure(model, codes):
    failures = iter(codes)  # no more than one request is tried again, whichever they meet
    fault = lambda handler, body: handler.refuse(code, "wait") if (code := next(failures, 0)) else False  # noqa: E731
    expected = FrozenReflector(model, 8).reflect(views(4))
    with ReflectionServer(model, fault=fault) as server:
        assert ServedReflector(server.config(parallel_requests=2), 8).reflect(views(4)) == expected


def test_a_server_that_hangs_is_given_up(model):
    message, asked = failing(model, hang(2), PlayerTimeoutError, timeout_seconds=0.1)
    assert "within 0.1 s, 3 times" in message
    assert "reflector.server.timeout_seconds" in message
    assert asked == 3


def test_the_watchdog_does_not_wait_for_the_server(model):
    with ReflectionServer(model, fault=hang(60)) as server:
        began = time.monotonic()
        with pytest.raises(PlayerTimeoutError, match=r"'served'.*limits\.player_seconds"):
            play(
                SPEC,
                [Request(training_tasks()[0], 0)],
                ServedReflector(server.config(), 8),
                RandomPolicy(),
                limits=Limits(player_seconds=0.3),
            )
        assert time.monotonic() - began < 50


def test_after_a_failure_nothing_more_is_asked(model):
    with ReflectionServer(model, fault=lambda handler, body: handler.refuse(400, "no room")) as server:
        player = ServedReflector(server.config(parallel_requests=1), 8)
        with pytest.raises(FaultyPlayerError, match=r"HTTP 400.*no room.*reflector\.max_new_tokens"):
            player.reflect(views())
        for thread in threading.enumerate():
            if thread.name == "reflection request":
                thread.join(5)
        assert len(server.requests) < 4


@pytest.mark.parametrize(
    "choices", [None, [], [{"text": None, "finish_reason": "stop"}], [{"finish_reason": "stop"}]], ids=str
)
def test_an_answer_without_a_text_is_no_reflection(model, choices):
    message, _ = failing(model, lambda handler, body: handler.choices(choices))
    assert "without a text" in message


@pytest.mark.parametrize("ending", ["content_filter", "abort", "error"])
def test_a_text_that_was_broken_off_is_no_reflection(model, ending):
    message, _ = failing(model, lambda handler, body: handler.choices([{"text": "Ne", "finish_reason": ending}]))
    assert f"broke off: {ending}" in message


@pytest.mark.parametrize("body", [b'{"choices": [{"te', b"<html>hello</html>", b"[]", b"", b"7", b'{"choices": 7}'])
def test_an_answer_that_is_no_completion_is_no_reflection(model, body):
    message, _ = failing(model, lambda handler, _: handler.send(200, body))
    assert "cannot be read" in message or "without a text" in message


def test_a_page_instead_of_an_answer_is_no_reflection(model):
    page = {"Content-Type": "text/html"}
    message, _ = failing(model, lambda handler, _: handler.send(200, b"<html>hello</html>", page))
    assert "without a text" in message


def test_a_dropped_connection_is_named(model):
    def drop(handler, body):
        handler.close_connection = True
        return True

    message, asked = failing(model, drop)
    assert "cannot be reached: Server disconnected" in message
    assert asked == 3


def test_a_server_cannot_send_the_client_elsewhere(model):
    with ReflectionServer(model) as other:
        there = {"Location": f"{other.url}/completions"}
        message, _ = failing(model, lambda handler, body: handler.send(307, b"{}", there))
        assert f"redirects to '{other.url}/completions' (HTTP 307), which is not followed" in message
        assert "Set reflector.server.base_url" in message
        assert other.requests == []


def test_a_server_on_this_machine_is_never_asked_through_a_proxy(model, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with ReflectionServer(model) as server:
        assert ServedReflector(server.config(), 8).reflect(views(1)) != [None]


def test_a_model_that_the_server_does_not_have_is_found_at_once(model):
    with ReflectionServer(model) as server:
        player = ServedReflector(server.config(model="runs/x/models/reflector"), 8)
        with pytest.raises(ModelError, match=r"runs/x/models/reflector.*It lists: tiny\..*reflector\.server\.model"):
            player.check()
        with pytest.raises(FaultyPlayerError, match=r"HTTP 404.*does not exist"):
            player.reflect(views(1))


@pytest.mark.parametrize("listing", [[], ["another"], None], ids=str)
def test_a_server_that_does_not_list_the_model_may_serve_it(model, listing):
    with ReflectionServer(model) as server:
        server.listed = listing
        ServedReflector(server.config(), 8).check()
        with pytest.raises(ModelError, match="HTTP 404.*absent does not exist" if not listing else "It lists: another"):
            ServedReflector(server.config(model="absent"), 8).check()


def test_a_wrong_key_is_found_at_once(model, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with ReflectionServer(model) as server:
        server.key = "another"
        with pytest.raises(ModelError, match=r"HTTP 401.*Set OPENAI_API_KEY") as caught:
            ServedReflector(server.config(), 8).check()
        assert server.requests == []
    assert SECRET not in str(caught.value)


def test_a_wrong_path_is_found_at_once(model):
    with ReflectionServer(model) as server:
        player = ServedReflector(server.config(base_url=server.url.removesuffix("/v1")), 8)
        with pytest.raises(ModelError, match=r"HTTP 404.*mostly in /v1"):
            player.check()


def test_a_server_that_answers_for_any_name_is_not_believed(model):
    fault = lambda handler, body: handler.choices([{"text": "Go.", "finish_reason": "length"}])  # noqa: E731
    with (
        ReflectionServer(model, "other", fault) as server,
        pytest.raises(ModelError, match=r"does not serve this model\. It lists: other"),
    ):
        ServedReflector(server.config(model="mine"), 8).check()


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(model, monkeypatch, caplog, capfd):
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}\n")

    def repeat(handler, body):
        return handler.refuse(401, f"wrong key {handler.headers['Authorization']}")

    with ReflectionServer(model, fault=repeat) as server, caplog.at_level(0):
        player = ServedReflector(server.config(), 8)
        with pytest.raises(FaultyPlayerError, match=r"HTTP 401.*OPENAI_API_KEY") as caught:
            player.reflect(views(1))
        assert server.headers[0]["authorization"] == f"Bearer {SECRET}"
    written = [str(caught.value), caplog.text, *capfd.readouterr(), str(player.origin), player.server.model_dump_json()]
    assert [text for text in written if SECRET in text] == []


def test_without_a_key_nothing_is_read_from_elsewhere(model):
    with ReflectionServer(model) as server:
        ServedReflector(server.config(), 8).check()
        assert server.headers[0]["authorization"] == "Bearer none"


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_is_none_is_refused_without_showing_it(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        ServedReflector(ServerConfig(base_url="http://127.0.0.1:1/v1"), 8)
    assert key not in str(caught.value)


def test_words_of_a_server_cannot_steer_the_terminal(model):
    message, _ = failing(model, lambda handler, body: handler.refuse(400, "a\x1b[2Jb\nc" + "x" * 5000))
    assert "\x1b" not in message
    assert "\n" not in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    "address",
    ["http://localhost:8000/v1", "http://127.0.0.1:8000/v1", "https://127.8.9.1", "http://[::1]:8000/v1", ""],
)
def test_addresses_of_this_machine(address):
    assert ServerConfig(base_url=address).base_url == address


REMOTE = [
    "http://10.0.0.7:8000/v1",
    "https://api.openai.com/v1",
    "http://localhost.example.org/v1",
    "http://127.0.0.1.example.org/v1",
    "http://0.0.0.0:8000/v1",
    "http://[2001:db8::1]/v1",
    "http://2130706433/v1",
]


@pytest.mark.parametrize("address", REMOTE)
def test_another_machine_needs_leave(address):
    with pytest.raises(ValidationError, match="allow_remote = true"):
        ServerConfig(base_url=address)
    assert not ServerConfig(base_url=address, allow_remote=True).is_local


@pytest.mark.parametrize(
    "address",
    [
        f"http://user:{SECRET}@127.0.0.1:8000/v1",
        f"http://127.0.0.1:8000/v1?key={SECRET}",
        f"http://127.0.0.1:8000\\@{SECRET}/v1",
        f"http://127.0.0.1:8000/v1#{SECRET}",
        f"{SECRET}://127.0.0.1",
        "127.0.0.1:8000/v1",
        "http:///v1",
    ],
)
@pytest.mark.parametrize("allowed", [False, True])
def test_an_address_with_more_in_it_is_refused_without_repeating_it(address, allowed):
    with pytest.raises(ConfigError, match=r"reflector\.server: base_url is no plain address") as caught:
        parse(RunConfig, {"reflector": {"server": {"base_url": address, "allow_remote": allowed}}})
    assert SECRET not in str(caught.value)


def test_the_folder_is_part_of_the_name(tmp_path):
    assert ServerConfig().of(tmp_path).model == str(tmp_path)
    assert ServerConfig(model="lora:{folder}").of(tmp_path).model == f"lora:{tmp_path}"
    assert ServerConfig(model="mine").of(tmp_path).model == "mine"


def run_config(**values):
    server = {"base_url": "http://127.0.0.1:1/v1", "model": "mine"}
    return parse(RunConfig, {"environment": {"name": "corridor"}, "reflector": {"server": server}, **values})


@pytest.mark.parametrize(
    "values",
    [
        {"seeds": [0, 1]},
        {"data": {"demonstration_starts": [2, 3]}},
        {"methods": ["sft_reflect", "sft_reflect_no_negatives"]},
    ],
)
def test_one_name_for_several_reflection_models_is_refused(values):
    values = {"data": {"demonstration_starts": [2]}, "methods": ["reflect_rl"]} | values
    with pytest.raises(ConfigError, match=r"'mine' names one model, and the run has 2 reflection players.*\{folder\}"):
        check(run_config(**values))


def test_one_name_for_the_one_reflection_model_is_fine():
    check(run_config(data={"demonstration_starts": [2]}, methods=["sft", "sft_reflect", "reflect_rl"], seeds=[3]))


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "openai", None)
    with pytest.raises(ConfigError, match=r"pip install 'reflect-served\[api\]'"):
        ServedReflector(ServerConfig(base_url="http://127.0.0.1:1/v1"), 8)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'reflect-served\[api\]'"):
        check(run_config(data={"demonstration_starts": [2]}, methods=["reflect_rl"]))


def test_the_address_pattern_leaves_no_room_for_surprises():
    assert is_loopback("http://127.0.0.1:8000/v1")
    assert not is_loopback("http://127.0.0.1:8000/v1\n")
    assert not is_loopback("http://127.0.0.1:8000/v1 ")
