"""`reflect-rl serve`, driven by a real MCP client: over the pipes of a process, and over HTTP on this machine."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import anyio
import psutil
import pytest

from reflect_locate.cli.serve import parse_serve
from reflect_rl.errors import ConfigError
from tiny_player import PLACES, THINGS, VERBS, project_files, save_tiny_player, write_files

mcp = pytest.importorskip("mcp")

PROGRAM = """
import sys
from rich.console import Console
from reflect_locate.cli.serve import run
from reflect_rl.errors import UserError
try:
    run(sys.argv[1:], Console())
except UserError as error:
    sys.exit(f"error: {error}")
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """The command: a program and its folder."""
    return ["-c", PROGRAM, str(write_files(tmp_path_factory.mktemp("served") / "kettle")), "--no-cache"]


async def ask(server):
    async with mcp.Client(server, read_timeout_seconds=60) as client:
        good = await client.call_tool("find_file", {"question": "Where are rate limits parsed?", "top_k": 1})
        lines = await client.call_tool("find_passage", {"question": "Where are rate limits parsed?"})
        outline = await client.call_tool("what_is_in", {"path": "src"})
        bad = await client.call_tool("find_file", {"question": "rates", "path": "/etc"})
        return good, lines, outline, bad


def check(good, lines, outline, bad):
    assert (good.is_error, lines.is_error, outline.is_error, bad.is_error) == (False, False, False, True)
    files = good.structured_content["files"]
    assert len(files) == 1
    assert (files[0]["path"], files[0]["first_line"], files[0]["sureness"]) == ("src/limits.py", 4, "sure")
    best = lines.structured_content["passages"][0]
    assert (best["path"], best["first_line"], best["last_line"]) == ("src/limits.py", 4, 5)
    entries = outline.structured_content["file_entries"]
    assert [entry["path"] for entry in entries] == ["src/clock.py", "src/limits.py"]
    assert "'/etc' is outside of what is served" in bad.content[0].text


def test_a_port_without_http_is_refused():
    with pytest.raises(ConfigError, match=r"--port 5 does nothing without --http\. Add --http\."):
        parse_serve(["kettle", "--port", "5"])


def test_a_client_asks_over_stdin_and_stdout(words):
    server = mcp.StdioServerParameters(command=sys.executable, args=words)
    check(*anyio.run(ask, server))


def test_a_session_of_fifty_questions_takes_no_more_memory(tmp_path):
    """Of the whole process, in which texts and arrays count, too; the first questions fill its caches."""
    folder = write_files(tmp_path / "shop", project_files())
    server = mcp.StdioServerParameters(command=sys.executable, args=["-c", PROGRAM, str(folder), "--no-cache"])
    asked = [f"{verb} {thing} {place}" for verb in VERBS for thing in THINGS for place in PLACES][:50]
    assert len(asked) == 50

    async def session():
        before, taken = set(psutil.Process().children()), []
        async with mcp.Client(server, read_timeout_seconds=60) as client:
            (process,) = set(psutil.Process().children()) - before
            for number, question in enumerate(asked, start=1):
                for name in ("find_file", "find_passage"):
                    assert not (await client.call_tool(name, {"question": question})).is_error
                if number in (20, 50):
                    taken.append(process.memory_info().rss)
        return taken

    early, late = anyio.run(session)
    # A tenth of a megabyte for each question would be three times as much.
    assert late - early < 2**20


def test_a_client_asks_a_trained_player(words, tmp_path):
    player = save_tiny_player(tmp_path / "player")
    server = mcp.StdioServerParameters(command=sys.executable, args=[*words, "--model", str(player), "--episodes", "2"])

    async def walked():
        async with mcp.Client(server, read_timeout_seconds=60) as client:
            return await client.call_tool("find_file", {"question": "Where are rate limits parsed?"})

    result = anyio.run(walked)
    assert result.is_error is False
    assert any(file["walk"] for file in result.structured_content["files"])


ASKED_WITHOUT_A_MODEL = """
import sys
import reflect_locate.cli.serve
from reflect_locate.serve import make_server
from reflect_locate.served_answers import SearchService
from reflect_locate.served_folders import ServedFolders

service = SearchService(ServedFolders(sys.argv[1:]))
make_server(service)
for find in (service.find_file, service.find_passage):
    assert find("Where are rate limits parsed?", "", 5, lambda: False)
assert service.what_is_in("src/limits.py", lambda: False).symbols
print(sorted({"torch", "transformers"} & set(sys.modules)))
"""


def test_no_model_library_is_loaded_unless_a_model_is_asked_for(tmp_path):
    project = write_files(tmp_path / "kettle")
    process = subprocess.run(
        [sys.executable, "-c", ASKED_WITHOUT_A_MODEL, str(project)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (process.stdout, process.stderr) == ("[]\n", "")


def test_stdout_carries_the_protocol_only(words):
    process = subprocess.run(
        [sys.executable, *words], input="", capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == ""
    assert "kettle: 4 files; left out: nothing" in process.stderr


@contextmanager
def serving(words):
    """A server over HTTP on a free port; its address."""
    with subprocess.Popen(
        [sys.executable, *words, "--http", "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for line in process.stderr:
                if found := re.search(r"serving (http://127\.0\.0\.1:\d+/mcp)", line):
                    yield found[1]
                    return
            raise AssertionError("the server did not start")
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module")
def address(words):
    with serving(words) as address:
        yield address


def test_a_client_asks_over_http(address):
    check(*anyio.run(ask, address))


def status(address, **headers):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    request = urllib.request.Request(address, data=b"{}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_other_hosts_and_origins_are_refused(address):
    place = address.removeprefix("http://").removesuffix("/mcp")
    assert status(address, Host=place) == 400  # the body is no message
    assert status(address, Host="evil.example:80") == 421
    assert status(address, Host="evil.example") == 421
    assert status(address, Host=place, Origin="http://evil.example") == 403


def test_only_this_machine_is_listened_to(address):
    port = int(address.rsplit(":", 1)[1].removesuffix("/mcp"))
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("this system does not list its sockets there")
    rows = [line.split()[1] for line in table.read_text().splitlines() if f":{port:04X} 00000000:0000" in line]
    assert rows == [f"0100007F:{port:04X}"]


def test_a_taken_port_is_a_mistake(words, address):
    port = address.rsplit(":", 1)[1].removesuffix("/mcp")
    command = [sys.executable, *words, "--http", "--port", port]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert f"port {port} of 127.0.0.1 cannot be used" in process.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "name the folders"), (["x", "--port", "99999"], "port"), (["x", "--htp"], "Did you mean '--http'")],
)
def test_mistakes_in_the_words_are_named(words, message):
    with pytest.raises(ConfigError, match=message):
        parse_serve(words)


def test_flags_have_values():
    paths, options = parse_serve(["a", "b", "--http", "--port", "0", "--no-search"])
    assert paths == ("a", "b")
    assert (options.http, options.port, options.search) == (True, 0, False)
