"""Corpora by name; the package index is a server on this machine."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import io
import os
import platform
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reflect_locate.repositories.corpora import CorpusError, corpus, project_name
from reflect_locate.repositories.ingest import left_out_counts
from reflect_locate.repositories.ingest_config import IngestConfig
from reflect_locate.repositories.snapshot import SnapshotError
from reflect_rl.errors import UserError


def sdist(text: str = "x = 1\n") -> bytes:
    """A source archive whose `setup.py` would leave a trace if anybody ran it."""
    buffer = io.BytesIO()
    files = {"My.Pkg-1.0/my_pkg/code.py": text, "My.Pkg-1.0/setup.py": "open('PWNED', 'w')", "My.Pkg-1.0/PKG-INFO": "-"}
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


class Index:
    """A package index that serves what it is given and notes what it was asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, str | None]] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append((self.path, self.headers.get("Authorization")))
                code, body = index.pages.get(self.path, (404, b"nothing here"))
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", body.decode())
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"

    def release(self, name: str, data: bytes, sha256: str | None = None, project: str = "my-pkg") -> str:
        """Add a file to the page of a project; returns its hash."""
        digest = hashlib.sha256(data).hexdigest()
        fragment = f"#sha256={digest if sha256 is None else sha256}" if sha256 != "" else ""
        self.pages[f"/files/{name}"] = (200, data)
        page = self.pages.get(f"/simple/{project}/", (200, b"<!DOCTYPE html><html><body>"))[1]
        anchor = f'<a href="../../files/{name}{fragment}" data-requires-python="&gt;=3.8">{name}</a><br/>\n'
        self.pages[f"/simple/{project}/"] = (200, page + anchor.encode())
        return digest


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    server = Index()
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{server.address}/simple/")
    yield server
    server.server.shutdown()
    server.server.server_close()


def test_the_standard_library() -> None:
    snapshot = corpus("stdlib")
    assert snapshot.name == f"stdlib-{platform.python_version()}"
    assert {"argparse.py", "secrets.py", "asyncio/tasks.py"} <= snapshot.files.keys()
    assert len(snapshot.files) > 500
    parts = {part for path in snapshot.files for part in path.split("/")}
    assert not parts & {"test", "tests", "site-packages", "__pycache__", "lib-dynload", "idle_test"}
    assert not any(path.startswith("_sysconfigdata") for path in snapshot.files)  # it tells where Python was built


def test_an_installed_distribution() -> None:
    snapshot = corpus("installed:NumPy")
    assert snapshot.name == f"numpy-{importlib.metadata.version('numpy')}"
    assert "numpy/__init__.py" in snapshot.files
    assert all(path.endswith(tuple(IngestConfig().suffixes)) for path in snapshot.files)
    assert not any("dist-info" in path for path in snapshot.files)


def installed(folder: Path, record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "a.py").write_text("a")
    info = folder / "pkg-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n")
    (info / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(str(folder))


def test_a_list_of_files_that_leads_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside.py").write_text("OUTSIDE")
    (tmp_path / "site" / "way").mkdir(parents=True)
    names = (
        "pkg/a.py",
        "../outside.py",
        "/etc/passwd",
        "pkg/../../outside.py",
        "pkg/link.py",
        "docs/outside.py",
        "pkg/none.py",
    )
    record = "".join(f"{name},,\n" for name in names)
    installed(tmp_path / "site", record, monkeypatch)
    (tmp_path / "site" / "pkg" / "link.py").symlink_to(tmp_path / "outside.py")
    (tmp_path / "site" / "docs").symlink_to(tmp_path)
    snapshot = corpus("installed:pkg")
    assert dict(snapshot.files) == {"pkg/a.py": "a"}
    counts = left_out_counts(snapshot.left_out)
    assert counts["unsafe name"] == 1
    assert sum(counts.values()) == 4  # and two links, and a file that is not there


def test_an_installed_distribution_without_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "site", "pkg-1.0.dist-info/METADATA,,\n", monkeypatch)
    with pytest.raises(SnapshotError, match="'installed:pkg' has no file to read"):
        corpus("installed:pkg")


def test_a_distribution_that_is_not_installed() -> None:
    with pytest.raises(
        CorpusError, match=r"no distribution 'no-such-thing' is installed.*sdist:no-such-thing==VERSION"
    ):
        corpus("installed:no-such-thing")


def test_an_sdist_is_downloaded_once_and_never_run(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    index.release("My.Pkg-1.0.tar.gz", sdist())
    index.release("my_pkg-1.0-py3-none-any.whl", b"a wheel")
    snapshot = corpus("sdist:My_Pkg==1.0", cache=tmp_path / "cache")
    assert dict(snapshot.files) == {"my_pkg/code.py": "x = 1\n", "setup.py": "open('PWNED', 'w')"}
    assert snapshot.name == "my-pkg-1.0"
    assert [path for path, _ in index.asked] == ["/simple/my-pkg/", "/files/My.Pkg-1.0.tar.gz"]
    index.pages.clear()  # as without network
    assert corpus("sdist:my.pkg==1.0", cache=tmp_path / "cache").identity == snapshot.identity
    assert len(index.asked) == 2
    assert not (tmp_path / "PWNED").exists()


def test_versions_that_are_written_differently(index: Index, tmp_path: Path) -> None:
    index.release("my_pkg-1.0.tar.gz", sdist())
    assert corpus("sdist:my-pkg==1", cache=tmp_path).files["my_pkg/code.py"] == "x = 1\n"


def test_another_file_than_the_index_promised(index: Index, tmp_path: Path) -> None:
    index.release("my_pkg-1.0.tar.gz", sdist(), sha256="0" * 64)
    with pytest.raises(CorpusError, match=f"expected sha256 {'0' * 64}, found {hashlib.sha256(sdist()).hexdigest()}"):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_pinned_hash(index: Index, tmp_path: Path) -> None:
    digest = index.release("my_pkg-1.0.tar.gz", sdist())
    with pytest.raises(CorpusError, match=f"expected sha256 {'1' * 64}, found {digest}"):
        corpus(f"sdist:my-pkg==1.0#sha256={'1' * 64}", cache=tmp_path)
    assert corpus(f"sdist:my-pkg==1.0#sha256={digest.upper()}", cache=tmp_path).files
    with pytest.raises(CorpusError, match="expected sha256 1111"):  # also when another one is in the cache
        corpus(f"sdist:my-pkg==1.0#sha256={'1' * 64}", cache=tmp_path)


def test_an_index_without_hashes(index: Index, tmp_path: Path) -> None:
    digest = index.release("my_pkg-1.0.tar.gz", sdist(), sha256="")
    with pytest.raises(CorpusError, match=r"gives no sha256 for my_pkg-1.0.tar.gz. Add #sha256="):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)
    assert corpus(f"sdist:my-pkg==1.0#sha256={digest}", cache=tmp_path).files


def test_a_damaged_cache_is_not_used(index: Index, tmp_path: Path) -> None:
    index.release("my_pkg-1.0.tar.gz", sdist())
    identity = corpus("sdist:my-pkg==1.0", cache=tmp_path).identity
    (kept,) = (path for path in tmp_path.rglob("*.tar.gz"))
    kept.write_bytes(sdist("evil = 1\n"))
    assert corpus("sdist:my-pkg==1.0", cache=tmp_path).identity == identity
    assert len(index.asked) == 4


def test_a_version_that_is_not_there(index: Index, tmp_path: Path) -> None:
    index.release("my_pkg-1.0.tar.gz", sdist())
    index.release("my_pkg_extra-1.1.tar.gz", sdist())  # another project
    with pytest.raises(CorpusError, match=r"sdist:my-pkg==1.1: the index http.* has no sdist.*Did you mean '1.0'"):
        corpus("sdist:my-pkg==1.1", cache=tmp_path)


def test_a_project_with_wheels_only(index: Index, tmp_path: Path) -> None:
    index.release("my_pkg-1.0-py3-none-any.whl", b"")
    with pytest.raises(CorpusError, match="lists no sdist at all"):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)


def test_a_project_that_is_not_there(index: Index, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"sdist:none==1.0: the index .* has no project of this name"):
        corpus("sdist:none==1.0", cache=tmp_path)


def test_a_server_that_refuses(index: Index, tmp_path: Path) -> None:
    index.pages["/simple/my-pkg/"] = (503, b"")
    with pytest.raises(CorpusError, match="answered 503 Service Unavailable"):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)


def test_without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, index: Index) -> None:
    index.server.server_close()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(CorpusError, match=r"cannot reach http://127.0.0.1:9/simple/my-pkg/.*or give a folder"):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)


def test_a_password_is_sent_to_the_index_alone_and_never_shown(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.release("my_pkg-1.0.tar.gz", sdist())
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:s%40cret@{index.address}/simple")
    assert corpus("sdist:my-pkg==1.0", cache=tmp_path).files
    login = "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert [header for _, header in index.asked] == [login, login]
    digest = hashlib.sha256(sdist("y = 2\n")).hexdigest()
    elsewhere = (
        f'<a href="http://localhost:{index.server.server_port}/files/other-2.tar.gz#sha256={digest}">other-2.tar.gz</a>'
    )
    index.pages["/simple/other/"] = (200, elsewhere.encode())
    index.pages["/files/other-2.tar.gz"] = (200, sdist("y = 2\n"))
    assert corpus("sdist:other==2", cache=tmp_path).files
    assert index.asked[-1] == ("/files/other-2.tar.gz", None)
    with pytest.raises(CorpusError) as caught:
        corpus("sdist:none==1", cache=tmp_path)
    assert "cret" not in str(caught.value)


def test_a_password_is_not_sent_on_to_where_the_index_leads(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.release("my_pkg-1.0.tar.gz", sdist())
    index.pages["/moved"] = index.pages["/files/my_pkg-1.0.tar.gz"]
    index.pages["/files/my_pkg-1.0.tar.gz"] = (302, f"http://localhost:{index.server.server_port}/moved".encode())
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:secret@{index.address}/simple")
    assert corpus("sdist:my-pkg==1.0", cache=tmp_path).files
    assert index.asked[-1] == ("/moved", None)


@pytest.mark.parametrize(
    "link", ["file:///etc/passwd", "ftp://127.0.0.1/my_pkg-1.0.tar.gz", "../../../my_pkg-1.0.tar.gz/../x"]
)
def test_links_of_the_index_that_are_none(index: Index, tmp_path: Path, link: str) -> None:
    index.pages["/simple/my-pkg/"] = (200, f'<a href="{link}#sha256={"0" * 64}">my_pkg-1.0.tar.gz</a>'.encode())
    with pytest.raises(CorpusError):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "name", ["../my_pkg-1.0.tar.gz", "a/my_pkg-1.0.tar.gz", ".my_pkg-1.0.tar.gz", "my pkg-1.0.tar.gz"]
)
def test_file_names_of_the_index_that_lead_out_of_the_cache(index: Index, tmp_path: Path, name: str) -> None:
    index.pages["/simple/my-pkg/"] = (200, f'<a href="/files/x#sha256={"0" * 64}">{name}</a>'.encode())
    with pytest.raises(CorpusError, match="no sdist"):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)


def test_an_index_that_is_no_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "file:///etc")
    with pytest.raises(CorpusError, match="'file:///etc' is no address"):
        corpus("sdist:my-pkg==1.0", cache=tmp_path)


WRONG = [
    "sdist:flask",
    "sdist:../x==1",
    "sdist:a==../1",
    "sdist:a==1#sha256=12",
    "sdist:==1",
    "installed:../x",
    "installed:",
]


@pytest.mark.parametrize("spec", WRONG)
def test_specs_that_are_none(spec: str, tmp_path: Path) -> None:
    for act in (project_name, lambda text: corpus(text, cache=tmp_path)):
        with pytest.raises(CorpusError, match="Example: "):
            act(spec)
    assert issubclass(CorpusError, UserError)


def test_a_path_is_a_corpus_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    assert dict(corpus(str(tmp_path)).files) == {"a.py": "x"}


SAME = ["sdist:Flask_Login==0.6.3", "installed:flask.login", "clone", "flask-login-0.6.3", "Flask-Login-0.6.3.tar.gz"]
SAME += ["flask_login-0.6.3-py3-none-any.whl", "flask-login-main.zip", "flask-login@HEAD~3", "flask-login.git"]


@pytest.mark.parametrize("spec", SAME)
def test_all_forms_of_a_project_are_one_group(spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("clone", "flask-login-0.6.3", "flask-login", "flask-login.git"):
        Path(name).mkdir()
    Path("clone/pyproject.toml").write_text('[project]\nname = "Flask-Login"\n')
    assert project_name(spec) == "flask-login"


@pytest.mark.parametrize(
    "text", ["", "[project]\nname = 3", 'project = "x"', "= broken", '[project]\nname = "../../x"', "\udcff"]
)
def test_a_project_file_without_a_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "pyproject.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert project_name(str(tmp_path / "thing")) == "thing"


def test_importing_loads_no_network_and_no_torch() -> None:
    code = (
        "import sys, reflect_locate.repositories.corpora; print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.split() == ["False", "False"]
