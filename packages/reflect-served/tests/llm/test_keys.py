"""The key goes to the server in one header, and nowhere else."""

from __future__ import annotations

import logging
import traceback

import pytest

from fault_server import DROP, ECHO_KEY, EMPTY_CHOICES, HALF, REFUSE_KEY, FaultServer, question, refuse, say
from reflect_rl.errors import ConfigError
from reflect_served.llm import Endpoint, EndpointError
from reflect_served.llm.connection import without_key

SECRET = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _key_and_no_pauses(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}\n")
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)


def written(folder):
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


FAULTS = {
    "refused": REFUSE_KEY,
    "refused request": refuse(400, f"bad key {SECRET}"),
    "broken": refuse(500, f"key {SECRET} broke me"),
    "no JSON": say(SECRET.encode()),
    "other shape": say({"choices": SECRET}),
    "empty": EMPTY_CHOICES,
    "dropped": DROP,
    "half": HALF,
    "ending": say({"choices": [{"message": {"content": SECRET}, "finish_reason": "error"}], "model": SECRET}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_no_message_no_traceback_no_log_and_no_file_has_it(tmp_path, name, caplog, capfd):
    with FaultServer(fault=FAULTS[name]) as server, caplog.at_level(logging.DEBUG):
        endpoint = Endpoint(server.config(retries=1), tmp_path)
        with pytest.raises(EndpointError) as caught:
            endpoint.answer([question("q")])
    assert server.headers[0]["authorization"] == f"Bearer {SECRET}"
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    told = [str(caught.value), "".join(traceback.format_exception(caught.value)), caplog.text, *capfd.readouterr()]
    told += [repr(endpoint.config), endpoint.config.model_dump_json(), repr(endpoint.wording)]
    assert [text for text in told if SECRET in text] == []
    assert written(tmp_path) == []


def test_an_answer_that_repeats_it_is_kept_without_it(tmp_path):
    with FaultServer(fault=ECHO_KEY) as server:
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("q", top_logprobs=1)])
        assert Endpoint(server.config(), tmp_path).answer([question("q", top_logprobs=1)])[0].text == answer.text
    assert answer.text == "The key is (OPENAI_API_KEY)."
    assert answer.logprobs == (("(OPENAI_API_KEY)", -1.0),)
    assert written(tmp_path) == []


def test_an_ending_and_a_name_that_repeat_it_are_kept_without_it_and_short(tmp_path):
    reply = {"choices": [{"message": {"content": "x"}, "finish_reason": f"{SECRET} " * 99}], "model": f"{SECRET} " * 99}
    with FaultServer(fault=say(reply)) as server:
        (answer,) = Endpoint(server.config(), tmp_path).answer([question("q")])
    assert answer.ending.startswith("(OPENAI_API_KEY)")
    assert len(answer.ending) < 400
    assert written(tmp_path) == []


@pytest.mark.parametrize("begun", [60, 75])
def test_an_unreadable_reply_is_cut_behind_it(tmp_path, begun):
    with FaultServer(fault=say(b"x" * begun + SECRET.encode())) as server, pytest.raises(EndpointError) as caught:
        Endpoint(server.config(retries=0), tmp_path).answer([question("q")])
    assert SECRET[:5] not in str(caught.value)


@pytest.mark.parametrize(
    "written_as", [r"k\/1+\"", "k%2F1%2b%22", r"k\u002F1\u002b\u0022", r"k\\\/1+\\\"", r"k/1%2B\""]
)
def test_it_is_known_in_the_ways_that_json_and_addresses_write_it(written_as):
    assert without_key(f"bad key {written_as}.", 'k/1+"', "KEY") == "bad key (KEY)."


def test_a_dry_run_does_not_print_it(tmp_path):
    with FaultServer() as server:
        text = Endpoint(server.config(), tmp_path).preview([question(f"my key is {SECRET}")])
    assert "my key is (OPENAI_API_KEY)" in text
    assert SECRET not in text


def test_the_wrong_key_is_named_by_its_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("AZURE_KEY", SECRET)
    with FaultServer(key="another") as server:
        with pytest.raises(
            EndpointError, match=r"provided: \(AZURE_KEY\).*Set AZURE_KEY to the server's key"
        ) as caught:
            Endpoint(server.config(key_variable="AZURE_KEY"), tmp_path).answer([question("q")])
        server.key = SECRET
        Endpoint(server.config(key_variable="AZURE_KEY"), tmp_path).answer([question("q")])
    assert SECRET not in str(caught.value)
    assert len(server.bodies) == 2


def test_without_a_key_a_server_gets_none_and_nothing_else_of_the_users(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, SECRET)
    with FaultServer() as server:
        Endpoint(server.config(), tmp_path).answer([question("q")])
    assert server.headers[0]["authorization"] == "Bearer none"
    assert SECRET not in str(server.headers)


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_is_none_is_refused_without_showing_it(tmp_path, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with FaultServer() as server, pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        Endpoint(server.config(), tmp_path).answer([question("q")])
    assert key not in str(caught.value)
    assert server.bodies == []
