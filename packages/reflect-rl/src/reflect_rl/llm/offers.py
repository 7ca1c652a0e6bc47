"""What a server has shown that it offers, or has refused; found out once, and remembered beside the answers."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reflect_rl.llm.errors import Failure
from reflect_rl.llm.exchange import FEATURES
from reflect_rl.store import read_json, write_json

__all__ = ["OFFERS", "Offers", "refused_features"]

OFFERS = "offers.json"


REFUSALS = (400, 422, 501)
"""HTTP statuses with which servers refuse a setting that they do not know."""


def refused_features(failure: Failure) -> frozenset[str]:
    """The features (`FEATURES`) that a refusal speaks of."""
    words = set(re.findall(r"[a-z_]+", failure.subject)) if failure.status in REFUSALS else set()
    return frozenset(feature for feature, names in FEATURES.items() if words & set(names))


class Offers:
    """The features (`FEATURES`) of one model at one address.

    Args:
        folder: of the file `offers.json` (None: only in memory).
        server: address and model.

    Raises:
        RunFolderError: the file cannot be read.
    """

    def __init__(self, folder: Path | None, server: str) -> None:
        self.server = server
        self._probing, self._learning = threading.Lock(), threading.Lock()
        self._path = folder / OFFERS if folder is not None else None
        self._known: dict[str, bool] = self._all().get(server, {})

    def refused(self) -> frozenset[str]:
        """What the server is known not to take."""
        return frozenset(name for name, offered in self._known.items() if not offered)

    @contextmanager
    def asking_for(self, features: frozenset[str]) -> Iterator[None]:
        """A block in which these are asked for; while one is unknown, only one thread is in it."""
        if self._known.keys() >= features:
            yield
            return
        self._probing.acquire()
        held = True
        if self._known.keys() >= features:  # found out meanwhile
            self._probing.release()
            held = False
        try:
            yield
        finally:
            if held:
                self._probing.release()

    def learn(self, accepted: frozenset[str], refused: frozenset[str]) -> None:
        """Remember what a request that was answered has shown; the first finding stays.

        Later refusals are about a request, for example about its own schema, and not about the feature.
        """
        with self._learning:
            found = dict.fromkeys(accepted, True) | dict.fromkeys(refused, False)
            if found.keys() <= self._known.keys():
                return
            self._known = found | self._known
            if self._path is not None:
                write_json(self._path, self._all() | {self.server: self._known})

    def _all(self) -> dict[str, dict[str, bool]]:
        if self._path is None or not self._path.exists():
            return {}
        found: dict[str, dict[str, bool]] = read_json(self._path, "Delete it, and the server is tried again.")
        return found
