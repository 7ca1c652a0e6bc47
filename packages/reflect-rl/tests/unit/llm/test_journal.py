"""A journal loses no row that was added, whoever is killed while adding the next one."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest

from reflect_rl.errors import RunFolderError
from reflect_rl.llm.journal import Journal


def test_rows_come_back_in_their_order_and_once(tmp_path):
    journal = Journal(tmp_path / "folder" / "rows.jsonl", "Delete it.")
    assert journal.fresh() == []
    journal.add({"k": 1, "text": "ü\ud800\u2028\n"})
    journal.add({"k": 2})
    assert journal.fresh() == [{"k": 1, "text": "ü\ud800\u2028\n"}, {"k": 2}]
    assert journal.fresh() == []


def test_two_writers_see_each_others_rows(tmp_path):
    one, two = (Journal(tmp_path / "rows.jsonl", "Delete it.") for _ in range(2))
    one.add({"k": 1})
    two.add({"k": 2})
    assert one.fresh() == two.fresh() == [{"k": 1}, {"k": 2}]


@pytest.mark.parametrize("torn", [b'{"k": 2, "text": "\xc3', b'{"k": 2}', b"{" + b"x" * 200_000])
def test_what_a_killed_writer_left_is_removed_by_the_next_row(tmp_path, torn):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"k": 1}\n' + torn)
    journal = Journal(path, "Delete it.")
    assert journal.fresh() == [{"k": 1}]
    journal.add({"k": 3})
    assert journal.fresh() == [{"k": 3}]
    assert path.read_text() == '{"k": 1}\n{"k": 3}\n'


def test_a_file_with_nothing_but_a_torn_row(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"k"')
    Journal(path, "Delete it.").add({"k": 3})
    assert path.read_text() == '{"k": 3}\n'


@pytest.mark.parametrize("text", ["no json\n{}\n", "[1]\n", "7\n", "\xff\n"])
def test_a_file_of_another_kind_is_named(tmp_path, text):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunFolderError, match=r"rows\.jsonl.*Delete it"):
        Journal(path, "Delete it.").fresh()


def test_threads_do_not_mix_their_rows(tmp_path):
    journals = [Journal(tmp_path / "rows.jsonl", "Delete it.") for _ in range(4)]

    def write(number):
        for k in range(10):
            journals[number].add({"number": number, "k": k, "text": "x" * 5000})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 40
    assert [row["k"] for row in rows if row["number"] == 2] == list(range(10))


@pytest.mark.skipif(os.name != "posix", reason="file modes of POSIX")
def test_only_the_user_may_read_it(tmp_path):
    Journal(tmp_path / "rows.jsonl", "Delete it.").add({})
    assert stat.S_IMODE((tmp_path / "rows.jsonl").stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(RunFolderError, match=r"rows\.jsonl"):
        Journal(tmp_path / "folder" / "rows.jsonl", "Delete it.").add({})
