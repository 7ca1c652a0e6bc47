"""Counted words on disk: the same ranking as in memory, and a cache that never stands in the way."""

import errno
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock

from reflect_locate.repositories import index_cache, word_store
from reflect_locate.repositories.index_cache import open_store
from reflect_locate.repositories.passages import PassageIndex
from reflect_locate.repositories.snapshot import Snapshot, digest_of
from reflect_locate.repositories.stored_index import StoredIndex
from reflect_locate.repositories.tree import Tree
from reflect_locate.repositories.tree_index import index_matches
from reflect_locate.repositories.word_store import StaleStoreError, WordStore, count_words
from tiny_player import FILES, project_files

QUESTION = "Where do robots paint apples inside the kitchen"


def test_words_are_counted_as_passages_count_them():
    text = (
        "RateLimit rate_limit limits\n__all__ HTTP_server a_2b_\n"
        "  x = 'ümlaut' 限制 HTTPServer2\u2028rate\n\trate-limits, rates\nrates"
    )
    counts, index = count_words(text), PassageIndex("a.py", text)
    assert {word: index.count(word) for word in counts} == dict(counts)
    assert index.size == counts.total()


@pytest.mark.parametrize("root", ["", "shop/north"])
def test_the_ranking_is_that_of_the_index_in_memory(tmp_path, root):
    tree = Tree(Snapshot("shop", project_files() | {"shop/north/copy.py": project_files()["shop/north/m00.py"]}), root)
    store, note = open_store(tmp_path, tree.snapshot, tmp_path.parent / "cache")
    matches, rarity = StoredIndex(tree, store).ask(QUESTION)
    expected = index_matches(tree, QUESTION)
    assert (matches, list(matches.contents)) == (expected, list(expected.contents))
    assert note == ""
    # "robots" stands in every file: log(1 + 0.5 / (n + 0.5)).
    assert 0 < rarity["robot"] < rarity["appl"]


def test_a_masked_file_is_another_text():
    masked = Tree(Snapshot("kettle", FILES), masks={"src/limits.py": ((3, 26),)})
    matches, _ = StoredIndex(masked, WordStore()).ask("parsing of rate limits")
    assert matches == index_matches(masked, "parsing of rate limits")


@pytest.fixture
def counted(monkeypatch):
    """Texts that were counted."""
    texts = []

    def count(text, pieces=None):
        texts.append(text)
        return count_words(text, pieces)

    monkeypatch.setattr(word_store, "count_words", count)
    return texts


def opened(tmp_path, files):
    store, note = open_store(tmp_path / "project", Snapshot("x", files), tmp_path / "cache")
    store.close()
    return note


def test_only_changed_files_are_counted_again(tmp_path, counted):
    opened(tmp_path, FILES)
    assert sorted(counted) == sorted(FILES.values())
    counted.clear()
    moved = {("moved/" + path): text for path, text in FILES.items()} | {"new.md": "# New\n"}
    opened(tmp_path, moved)
    assert counted == ["# New\n"]


def test_many_additions_are_joined_and_nothing_is_lost(tmp_path):
    store = WordStore(tmp_path / "store")
    texts = [f"common word{number}x" for number in range(70)]
    for text in texts:
        store.add({digest_of(text): text})
    assert len(store.pairs("common")) == 70
    (rows,) = (
        sqlite3.connect(tmp_path / "store").execute("SELECT count(*) FROM entries WHERE word = 'common'").fetchone()
    )
    assert rows <= word_store.MOST_SEGMENTS


@pytest.mark.parametrize("damage", ["text", "cut", "version", "tables", "empty"])
def test_a_damaged_index_or_one_of_another_version_is_rebuilt(tmp_path, monkeypatch, damage):
    opened(tmp_path, project_files())
    (place,) = (tmp_path / "cache").glob("*.sqlite")
    whole = place.read_bytes()
    if damage == "version":
        monkeypatch.setattr(word_store, "FORMAT", word_store.FORMAT + 1)
    elif damage == "tables":
        place.unlink()
        with sqlite3.connect(place) as other:
            other.execute("CREATE TABLE made (version TEXT)")
    else:
        place.write_bytes({"text": b"no database" * 100, "cut": whole[: len(whole) // 2], "empty": b""}[damage])
    assert opened(tmp_path, project_files()) == "index rebuilt"
    store, note = open_store(tmp_path / "project", Snapshot("x", project_files()), tmp_path / "cache")
    assert (store.count, note) == (60, "")


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("stage", ["folder", "write"])
def test_a_full_disk_is_no_hindrance(tmp_path, monkeypatch, stage):
    if stage == "folder":
        monkeypatch.setattr(index_cache.Path, "mkdir", full)
    else:
        monkeypatch.setattr(index_cache, "_filled", full)
    store, note = open_store(tmp_path / "project", Snapshot("x", FILES), tmp_path / "cache")
    assert store.count == len(FILES)
    assert note.startswith(f"no cache in {tmp_path / 'cache'}: ")
    assert "No space left on device" in note


def test_a_database_that_cannot_grow_is_no_hindrance(tmp_path, monkeypatch):
    """SQLite's own limit of pages raises the error of a full disk, inside the transaction."""
    connect = sqlite3.connect

    def small(place, **settings):
        database = connect(place, **settings)
        if place != word_store.MEMORY:
            database.execute("PRAGMA max_page_count = 5")
        return database

    monkeypatch.setattr(word_store.sqlite3, "connect", small)
    store, note = open_store(tmp_path / "project", Snapshot("x", project_files(600)), tmp_path / "cache")
    assert (store.count, note) == (600, f"no cache in {tmp_path / 'cache'}: database or disk is full")
    # Nothing half-written stays: the next call with room starts from an empty store.
    monkeypatch.setattr(word_store.sqlite3, "connect", connect)
    assert opened(tmp_path, project_files(600)) == ""


def test_nothing_is_written_into_the_folder_that_is_asked_about(tmp_path):
    project = tmp_path / "home"
    project.mkdir()
    store, note = open_store(project, Snapshot("x", FILES), project / ".cache")
    assert (store.count, list(project.iterdir())) == (len(FILES), [])
    assert "no cache: its folder" in note


def test_words_of_private_files_are_private(tmp_path):
    opened(tmp_path, FILES)
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in (tmp_path / "cache").iterdir()}
    assert modes == {".sqlite": 0o600, ".lock": 0o600}
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_beyond_the_limit_the_oldest_stores_are_deleted(tmp_path, monkeypatch):
    for number in range(3):
        open_store(tmp_path / f"p{number}", Snapshot("x", FILES), tmp_path / "cache")[0].close()
        for path in (tmp_path / "cache").glob("*.sqlite"):
            os.utime(path, (path.stat().st_mtime - 100,) * 2)
    first, second, third = sorted((tmp_path / "cache").glob("*.sqlite"), key=lambda path: path.stat().st_mtime)
    monkeypatch.setattr(index_cache, "MOST_BYTES", 3 * first.stat().st_size)
    open_store(tmp_path / "p3", Snapshot("x", FILES), tmp_path / "cache")[0].close()
    left = set((tmp_path / "cache").glob("*.sqlite"))
    assert len(left) == 3
    assert first not in left
    assert {second, third} < left


def test_a_store_that_is_mostly_of_old_texts_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(index_cache, "FEW_TEXTS", 5)
    opened(tmp_path, project_files(60))
    opened(tmp_path, FILES)
    store, _ = open_store(tmp_path / "project", Snapshot("x", FILES), tmp_path / "cache")
    assert store.count == len(FILES)


def test_two_at_once_count_once_and_both_have_all(tmp_path, counted):
    snapshot = Snapshot("x", project_files())
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(open_store, tmp_path / "project", snapshot, tmp_path / "cache") for _ in range(4)]
    assert [job.result()[0].count for job in jobs] == [60] * 4
    assert [job.result()[1] for job in jobs] == [""] * 4
    assert len(counted) == 60


OPENED = """
import sys
from pathlib import Path
from reflect_locate.repositories import index_cache, word_store
from reflect_locate.repositories.snapshot import Snapshot

counted, count = [], word_store.count_words
word_store.count_words = lambda text, pieces=None: counted.append(text) or count(text, pieces)
folder = Path(sys.argv[1])
files = {f"m{number:03}.py": f"# Module {number}." + "def paint(): pass " * number for number in range(300)}
print("ready", flush=True)
sys.stdin.readline()
store, note = index_cache.open_store(folder / "project", Snapshot("x", files), folder / "cache")
print(store.count, len(counted), note)
"""


def test_two_processes_at_once_count_once_and_both_have_all(tmp_path):
    words = [sys.executable, "-c", OPENED, str(tmp_path)]
    both = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].split() for process in both]
    assert [row[0] for row in said] == ["300", "300"]
    assert sorted(row[1] for row in said) == ["0", "300"]
    assert [row[2:] for row in said] == [[], []]


def test_who_has_nothing_to_write_waits_for_nobody(tmp_path, monkeypatch):
    opened(tmp_path, FILES)
    (lock,) = (tmp_path / "cache").glob("*.lock")
    monkeypatch.setattr(index_cache, "LOCK_SECONDS", 0.01)
    with FileLock(lock):
        assert opened(tmp_path, FILES) == ""
        assert "no cache" in opened(tmp_path, FILES | {"new.md": "# New\n"})


def test_a_question_makes_its_store_the_one_used_last(tmp_path):
    opened(tmp_path, FILES)
    (place,) = (tmp_path / "cache").glob("*.sqlite")
    os.utime(place, (0, 0))
    opened(tmp_path, FILES)
    assert place.stat().st_mtime > 0


def test_a_changed_byte_never_changes_a_count_in_silence(tmp_path):
    """Every 97th byte in turn: counts are as before, a word is not found any more, or the damage is told."""
    texts = index_cache.texts_of(Snapshot("shop", project_files()))
    whole = WordStore(place := tmp_path / "store")
    whole.add(texts)
    words = sorted({word for text in texts.values() for word in count_words(text)})
    expected, sizes = {word: whole.pairs(word) for word in words}, {digest: whole.find(digest) for digest in texts}
    whole.close()
    told, data = 0, place.read_bytes()
    for position in range(0, len(data), 97):
        place.write_bytes(data[:position] + bytes((data[position] ^ 0x11,)) + data[position + 1 :])
        try:
            damaged = WordStore(place)
        except StaleStoreError:
            told += 1
            continue
        assert all(damaged.find(digest) in (size, None) for digest, size in sizes.items())
        for word in words:
            try:
                assert damaged.pairs(word) in (expected[word], {})
            except (StaleStoreError, sqlite3.DatabaseError):
                told += 1
        damaged.close()
    assert told > 0


@pytest.mark.parametrize("sealed", [b"", b"123", word_store._sealed("bus", b"12345678")[:-1], 7])
def test_entries_that_are_not_as_they_were_written_are_refused(sealed):
    assert word_store._opened("bus", word_store._sealed("bus", b"12345678")) == b"12345678"
    with pytest.raises(StaleStoreError), word_store._sound():
        word_store._opened("bus", sealed)
    with pytest.raises(StaleStoreError):
        word_store._opened("car", word_store._sealed("bus", b"12345678"))
