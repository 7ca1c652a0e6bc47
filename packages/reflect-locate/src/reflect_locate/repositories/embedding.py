"""Nearness of short texts by a static embedding: a vector for each token, and no network.

The table and its tokenizer are files of the package wordllama (`pip install 'reflect-locate[meaning]'`; Miller, 2024,
WordLlama: 256 numbers for each token of a large model's vocabulary). No code of that package is run, and nothing is
downloaded.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reflect_rl.errors import UserError

TABLE = Path("weights", "l2_supercat_256.safetensors")
TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
MISSING = (
    "names cannot be compared by their meaning, as the package wordllama with its table of words is not installed. "
    "Install it with: pip install 'reflect-locate[meaning]', or set environment.names to words"
)
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Embedding:
    """Vectors of short texts.

    Args:
        folder: of the installed package wordllama.

    Raises:
        UserError: the folder lacks the table or the tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        # Loaded where used: most calls of this package compare words alone.
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        try:
            (self._table,) = load_file(folder / TABLE).values()
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        except Exception as error:  # the libraries raise types of their own, for a missing and for a damaged file
            raise UserError(f"{MISSING}. {folder} has no table that can be read: {error}") from None
        self._vector = lru_cache(100_000)(self._embed)

    def nearness(self, one: str, other: str) -> float:
        """Cosine of two texts, in [-1, 1]; 0 where one of them has no token.

        >>> embedding = installed()  # doctest: +SKIP
        >>> embedding.nearness("free memory", "gc") > embedding.nearness("free memory", "logging")  # doctest: +SKIP
        True
        """
        # Rounded, so that libraries of other machines, which sum in another order, choose the same name.
        return round(float(self._vector(one) @ self._vector(other)), 5)

    def _embed(self, text: str) -> NDArray[np.float32]:
        """The mean of the tokens' vectors, shape [256], of length 1."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        mean = self._table[ids].astype(np.float32).mean(0) if ids else np.zeros(self._table.shape[1], np.float32)
        length = float(np.linalg.norm(mean))
        return mean / length if length else mean


@lru_cache(1)
def installed() -> Embedding:
    """The embedding of the installed package, loaded once.

    Raises:
        UserError: it is not installed.
    """
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise UserError(f"{MISSING}.")
    return Embedding(Path(found.submodule_search_locations[0]))


@lru_cache(100_000)
def spelled(name: str) -> str:
    """The words of a name, as somebody would say them; its ending is left out.

    Numbers stay with their letters, as in `utf8`, which the embedding knows; `words.pieces` cuts them off.

    >>> spelled("rate_limits.py"), spelled("httpClient.ts"), spelled("__init__.py")
    ('rate limits', 'http Client', 'init')
    """
    stem = name.rpartition(".")[0] or name
    return re.sub(r"[_\W]+", " ", HUMP.sub(" ", stem)).strip() or name
