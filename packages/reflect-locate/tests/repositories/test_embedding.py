"""Nearness of names by the static embedding of wordllama."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflect_locate.repositories import embedding as module
from reflect_locate.repositories.embedding import TABLE, Embedding, installed, spelled
from reflect_rl.errors import UserError


@pytest.fixture
def embedding() -> Embedding:
    pytest.importorskip("wordllama", reason="needs the extra `meaning`")
    return installed()


def test_names_of_one_field_are_nearer_than_others(embedding: Embedding):
    question = "Close the connection to the server"
    near = sorted(("socket", "colors", "recipes"), key=lambda name: -embedding.nearness(question, name))
    assert near[0] == "socket"
    assert embedding.nearness("socket", "socket") == 1.0
    assert embedding.nearness(question, "socket") == embedding.nearness("socket", question)


def test_a_text_without_tokens_is_near_nothing(embedding: Embedding):
    assert embedding.nearness("", "socket") == 0.0


@pytest.mark.parametrize(
    ("name", "words"),
    [("rateLimits.ts", "rate Limits"), ("___", "___"), ("Makefile", "Makefile"), (".bashrc", "bashrc")],
)
def test_how_a_name_is_spelled(name: str, words: str):
    assert spelled(name) == words


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    installed.cache_clear()
    with pytest.raises(UserError, match=r"pip install 'reflect-locate\[meaning\]'"):
        installed()
    installed.cache_clear()


def test_a_damaged_table_is_refused(tmp_path: Path):
    (tmp_path / TABLE).parent.mkdir()
    (tmp_path / TABLE).write_bytes(b"no table")
    with pytest.raises(UserError, match="no table that can be read"):
        Embedding(tmp_path)
