"""Rows of the results table that this package adds: scripted players that read names, and indexes of the files."""

from __future__ import annotations

from reflect_locate.envs import index_floor
from reflect_rl.envs.base import HasFiles
from reflect_rl.evaluation.methods import Method

_FILES = (HasFiles,)

NAME_GREEDY = Method("name_greedy", "Greedy by name", script="name_greedy", needs=_FILES, colour="#DDCC77", place=12)
READER = Method("reader", "Best-first reader", script="reader", needs=_FILES, colour="#999933", place=14)
BM25_NAMES = Method(
    "bm25_names", "BM25, names", measure=index_floor.bm25_names, needs=_FILES, colour="#88AACC", place=22
)
BM25_CONTENTS = Method(
    "bm25_contents", "BM25, full contents", measure=index_floor.bm25_contents, needs=_FILES, colour="#446688", place=24
)
