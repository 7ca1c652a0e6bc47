"""All answers so far, by all that determines them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from reflect_rl.errors import RunFolderError
from reflect_rl.llm.exchange import ChatAnswer
from reflect_rl.llm.journal import Journal

__all__ = ["CACHE", "Cache"]

CACHE = "cache.jsonl"
REMEDY = "Delete it, and everything is asked again."


class Cache:
    """Answers in memory and, with a folder, on the disk, where other processes find them too.

    Args:
        folder: of the file `cache.jsonl` (None: only in memory).

    Raises:
        RunFolderError: the file cannot be read, or holds something else.
    """

    def __init__(self, folder: Path | None) -> None:
        self._lock = threading.Lock()
        self._answers: dict[str, ChatAnswer] = {}
        self._journal = Journal(folder / CACHE, REMEDY) if folder is not None else None
        self.find("")

    def find(self, key: str) -> ChatAnswer | None:
        """The answer under this key (`key_of`), marked as cached."""
        with self._lock:
            if key not in self._answers and self._journal is not None:
                for row in self._journal.fresh():
                    self._answers.setdefault(*self._entry(row))
            return self._answers.get(key)

    def keep(self, key: str, answer: ChatAnswer, model: str) -> None:
        """See an answer to the disk; `model` is who wrote it, by the server's own words."""
        row = {
            "key": key,
            "text": answer.text,
            "ending": answer.ending,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "seconds": round(answer.seconds, 3),
            "logprobs": answer.logprobs,
            "model": model,
        }
        with self._lock:
            if self._journal is not None:
                self._journal.add(row)
            self._answers[key] = replace(answer, cached=True)

    def _entry(self, row: dict[str, Any]) -> tuple[str, ChatAnswer]:
        try:
            logprobs = row["logprobs"] and tuple((str(token), float(value)) for token, value in row["logprobs"])
            counts = int(row["prompt_tokens"]), int(row["completion_tokens"])
            return str(row["key"]), ChatAnswer(
                str(row["text"]), str(row["ending"]), *counts, float(row["seconds"]), True, logprobs
            )
        except (KeyError, TypeError, ValueError):
            path = self._journal.path if self._journal is not None else CACHE
            raise RunFolderError(f"{path} holds other rows than answers. {REMEDY}") from None
