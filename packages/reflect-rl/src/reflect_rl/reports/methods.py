"""The methods that are compared: their order, their names for readers, and one look for each in every figure.

Colours are from Okabe & Ito's palette (2008), those of floors, chat models and lexical reflection from Tol's muted one
(2018), which colour-blind readers can tell apart. A method trained without negative examples has the colour of its full
version, dashed or hatched. Where a method was trained with several RL algorithms, each of them is a line of its own,
in the colour of the algorithm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

__all__ = [
    "ALGORITHMS",
    "DECODINGS",
    "INK",
    "METHODS",
    "NO_ALGORITHM",
    "REFERENCE",
    "REFERENCES",
    "UNKNOWN_ALGORITHM",
    "Algorithm",
    "Method",
    "algorithms_in_order",
    "decoding_rank",
    "describe",
    "describe_algorithm",
    "in_order",
    "lines_in_order",
    "with_several_algorithms",
]


@dataclass(frozen=True, slots=True)
class Method:
    """How one method is shown."""

    name: str
    """As in the files of a run folder."""
    label: str
    colour: str
    dashed: bool = False
    start: str = ""
    """The method that its online training starts from; empty = no online training."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How one RL algorithm is shown where a method was trained with several."""

    name: str
    """As in `rlft.algorithm.name`."""
    label: str
    colour: str


INK = "#010203"
"""Placeholder for the colour of text and axes; in a finished figure it is `currentColor`."""

METHODS = (
    Method("random", "Random", "#999999"),
    Method("oracle", "Oracle", "#777777"),
    Method("name_greedy", "Greedy by name", "#DDCC77"),
    Method("reader", "Best-first reader", "#999933"),
    Method("advice", "Lexical advice, followed", "#44AA99"),
    Method("bm25_names", "BM25, names", "#88AACC"),
    Method("bm25_contents", "BM25, full contents", "#446688"),
    Method("chat", "Chat model", "#332288"),
    Method("chat_reflect", "Chat model, reflection", "#117733"),
    Method("base", "Untuned", "#000000"),
    Method("sft", "SFT", "#56B4E9"),
    Method("rlft", "RLFT", "#E69F00", start="base"),
    Method("sft_rlft", "SFT + RLFT", "#CC79A7", start="sft"),
    Method("sft_reflect", "SFT, reflection", "#009E73"),
    Method("sft_reflect_no_negatives", "SFT, reflection, no negatives", "#009E73", dashed=True),
    Method(
        "reflect_rl_no_negatives", "Reflect-RL, no negatives", "#D55E00", dashed=True, start="sft_reflect_no_negatives"
    ),
    Method("reflect_rl", "Reflect-RL", "#D55E00", start="sft_reflect"),
    Method("sft_lexical", "SFT, lexical reflection", "#AA4499"),
    Method("sft_lexical_no_negatives", "SFT, lexical reflection, no negatives", "#AA4499", dashed=True),
    Method(
        "reflect_rl_lexical_no_negatives",
        "Reflect-RL, lexical, no negatives",
        "#882255",
        dashed=True,
        start="sft_lexical_no_negatives",
    ),
    Method("reflect_rl_lexical", "Reflect-RL, lexical", "#882255", start="sft_lexical"),
)
"""In the order in which tables list them: from no learning to all of it."""

ALGORITHMS = (
    Algorithm("reinforce", "REINFORCE", "#999999"),
    Algorithm("expected", "Expected", "#009E73"),
    Algorithm("rloo", "RLOO", "#0072B2"),
    Algorithm("grpo", "GRPO", "#56B4E9"),
    Algorithm("gigpo", "GiGPO", "#CC79A7"),
    Algorithm("raft", "RAFT", "#E69F00"),
    Algorithm("ppo", "PPO", "#D55E00"),
)
"""In the order in which tables list them; the paper's last, as among the methods."""

NO_ALGORITHM = "none"
"""Algorithm of a method without online training."""

UNKNOWN_ALGORITHM = "unknown"
"""Algorithm of online training that neither the results nor the configuration name."""

REFERENCE = "reflect_rl"
"""The method that the others are compared with."""

REFERENCES = (REFERENCE, "reflect_rl_lexical")
"""All such methods: by who writes the reflections."""

DECODINGS = ("sampled", "greedy")
"""In the order in which tables list them."""

_BY_NAME = {method.name: method for method in METHODS}
_RANK = {method.name: rank for rank, method in enumerate(METHODS)}
_ALGORITHMS = {algorithm.name: algorithm for algorithm in ALGORITHMS}
_ALGORITHM_RANK = {algorithm.name: rank for rank, algorithm in enumerate(ALGORITHMS)}


def describe(name: str, algorithm: str = "") -> Method:
    """The look of a method; one that is not listed is shown under its own name, in blue.

    Args:
        name: the method.
        algorithm: the algorithm that tells it from other lines of the same method; empty if there is no need.

    >>> describe("sft_rlft").label, describe("mine").label, describe("reflect_rl", "grpo").label
    ('SFT + RLFT', 'mine', 'Reflect-RL (GRPO)')
    """
    method = _BY_NAME.get(name) or Method(name, name, "#0072B2")
    if not algorithm:
        return method
    look = describe_algorithm(algorithm)
    return replace(method, label=f"{method.label} ({look.label})", colour=look.colour)


def describe_algorithm(name: str) -> Algorithm:
    """The look of an algorithm; one that is not listed is shown under its own name, in ink.

    >>> describe_algorithm("gigpo").label, describe_algorithm("mine.algorithm").label
    ('GiGPO', 'mine.algorithm')
    """
    return _ALGORITHMS.get(name) or Algorithm(name, name, INK)


def with_several_algorithms(lines: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Methods that occur with more than one algorithm.

    Args:
        lines: method and algorithm of each line of a table or figure.

    >>> sorted(with_several_algorithms([("sft", "none"), ("rlft", "ppo"), ("rlft", "grpo")]))
    ['rlft']
    """
    distinct = [method for method, _ in set(lines)]
    return frozenset(method for method in distinct if distinct.count(method) > 1)


def in_order(names: Iterable[str]) -> list[str]:
    """Distinct names in listing order; unlisted ones last, by alphabet.

    >>> in_order(["reflect_rl", "mine", "sft", "sft"])
    ['sft', 'reflect_rl', 'mine']
    """
    return sorted(set(names), key=lambda name: (_RANK.get(name, len(METHODS)), name))


def algorithms_in_order(names: Iterable[str]) -> list[str]:
    """Distinct names in listing order; unlisted ones last, by alphabet.

    >>> algorithms_in_order(["ppo", "mine", "reinforce", "ppo"])
    ['reinforce', 'ppo', 'mine']
    """
    return sorted(set(names), key=lambda name: (_ALGORITHM_RANK.get(name, len(ALGORITHMS)), name))


def lines_in_order(lines: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Distinct pairs of method and algorithm in listing order.

    >>> lines_in_order([("reflect_rl", "ppo"), ("reflect_rl", "rloo"), ("sft", "none")])
    [('sft', 'none'), ('reflect_rl', 'rloo'), ('reflect_rl', 'ppo')]
    """
    distinct = set(lines)
    methods = in_order(method for method, _ in distinct)
    algorithms = algorithms_in_order(algorithm for _, algorithm in distinct)
    return sorted(distinct, key=lambda line: (methods.index(line[0]), algorithms.index(line[1])))


def decoding_rank(decoding: str) -> tuple[int, str]:
    """Sort key of a decoding; an unlisted one comes last.

    >>> sorted(["beam", "greedy", "sampled"], key=decoding_rank)
    ['sampled', 'greedy', 'beam']
    """
    return DECODINGS.index(decoding) if decoding in DECODINGS else len(DECODINGS), decoding
