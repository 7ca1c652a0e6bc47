"""The SQLite file of a folder: kept answers, whoever else writes, for the user's eyes only."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest

from fault_server import rows
from reflect_rl.errors import RunFolderError
from reflect_served.llm import STORE, ChatAnswer, Store

ANSWER = ChatAnswer("\u00fc\u2028\n", "stop", 3, 2, 0.5, False, (("1", -0.5), ("2", -1.5)))

WRITE = """
import sys
from pathlib import Path
from reflect_served.llm import ChatAnswer, Store
store = Store(Path(sys.argv[1]))
for k in range(20):
    store.add(f"{sys.argv[2]} {k}", ChatAnswer("x" * 5000, "stop", 1, 1, 0.0, False), "m")
"""


def kept(text):
    return ChatAnswer(text, "stop", 3, 2, 0.5, True, (("1", -0.5), ("2", -1.5)))


def test_an_answer_comes_back_whole_and_is_marked_as_cached(tmp_path):
    store = Store(tmp_path / "folder" / STORE)
    assert store.find("k") is None
    assert not (tmp_path / "folder").exists()  # reading writes nothing
    store.add("k", ANSWER, "m")
    assert store.find("k") == kept(ANSWER.text)
    assert Store(tmp_path / "folder" / STORE).find("k") == kept(ANSWER.text)


def test_the_first_answer_to_a_request_stays(tmp_path):
    one, two = (Store(tmp_path / STORE) for _ in range(2))
    one.add("k", ANSWER, "m")
    two.add("k", ChatAnswer("later", "stop", 1, 1, 0.0, False), "m")
    assert one.find("k") == two.find("k") == kept(ANSWER.text)


def test_processes_that_open_a_new_file_together_lose_nothing(tmp_path):
    command = [sys.executable, "-c", WRITE, str(tmp_path / STORE)]
    processes = [subprocess.Popen([*command, name]) for name in "abcd"]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert len(rows(tmp_path, "answers")) == 80


def test_a_new_file_waits_for_a_process_that_writes_to_it(tmp_path):
    # Another process holds the file before its kind of log is chosen: there SQLite's own wait does not help.
    other = sqlite3.connect(tmp_path / STORE, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, other.execute, ("COMMIT",))
    release.start()
    store = Store(tmp_path / STORE)
    store.add("k", ANSWER, "m")
    release.join()
    other.close()
    assert store.find("k") == kept(ANSWER.text)


def test_threads_share_a_store(tmp_path):
    store = Store(tmp_path / STORE)

    def write(name):
        for k in range(10):
            store.add(f"{name} {k}", ANSWER, "m")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(tmp_path, "answers")) == 40


@pytest.mark.skipif(os.name != "posix", reason="file modes of POSIX")
def test_only_the_user_may_read_it(tmp_path):
    store = Store(tmp_path / STORE)
    store.add("k", ANSWER, "m")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}, modes


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(RunFolderError, match=r"requests\.sqlite cannot be written"):
        Store(tmp_path / "folder" / STORE).add("k", ANSWER, "m")
