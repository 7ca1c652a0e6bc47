"""Weights of the evidence, fitted to questions with known answers.

In a question's list the probability of a file is the softmax of its weighted sum, as in conditional logit (McFadden
1974) and ListNet (Cao et al. 2007, top one). The weights are those under which the right files are most likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reflect_locate.evidence import DEFAULT_WEIGHTS, KINDS, Evidence, Weights

# No language model reads beside a player, no history is known to it, and it looks at no names, so questions that
# players were asked tell nothing of these weights.
FITTED = tuple(kind for kind in KINDS if kind not in ("read", "history", "defined", "stem", "written"))
"""Kinds that are fitted unless others are named."""
Vector = NDArray[np.float64]
PRIOR_STD = 2.0
"""Standard deviation of the normal prior of each weight around a multiple of that to begin with, on the scale of the
softmax; the weights of clear evidence are near 5 there."""
STEPS = 3000
"""Enough for the third digit of 250 questions' weights."""
LEAST = 1e-3
"""Smallest weight, so that every file has a score."""


def fit(
    lists: Sequence[Sequence[tuple[Evidence, bool]]], start: Weights = DEFAULT_WEIGHTS, kinds: Sequence[str] = FITTED
) -> Weights:
    """The weights under which the right files of these lists are most likely, given a prior around `start`.

    Where each question has one right file this is convex; it is solved by projected gradients with momentum (Beck and
    Teboulle 2009, "A fast iterative shrinkage-thresholding algorithm").

    Args:
        lists: for each question its candidates, and whether each is right; lists in which none is right, or all are,
            tell nothing and are left out. So are test files, whose place is not for the weights to decide.
        start: weights whose ratios hold where the lists say nothing.
        kinds: of evidence whose weights are fitted, the largest of which becomes 1; the others stay as in `start`.
    """
    sources = [[(evidence, is_right) for evidence, is_right in pairs if not evidence.is_test] for pairs in lists]
    # Where all candidates are right or none is, the likelihood is flat.
    told = [pairs for pairs in sources if len({is_right for _, is_right in pairs}) > 1]
    if not told:
        return start
    most = max(map(len, told))
    # Padded to the longest list; the mask `there` keeps the padding out of every sum.
    table = np.zeros((len(told), most, len(kinds)))
    there, right = (np.zeros((len(told), most), dtype=bool) for _ in range(2))
    for number, pairs in enumerate(told):
        table[number, : len(pairs)] = [[getattr(evidence, kind) or 0.0 for kind in kinds] for evidence, _ in pairs]
        there[number, : len(pairs)] = True
        right[number, : len(pairs)] = [is_right for _, is_right in pairs]
    prior = np.array([getattr(start, kind) for kind in kinds])

    def slope(weights: Vector) -> Vector:
        """Gradient of -log posterior; the multiple of `start` that the prior is around is the nearest one."""
        sums = table @ weights
        expected = [np.einsum("qf,qfk->k", _softmax(sums, mask), table) for mask in (there, right)]
        # Only ratios matter for a ranking, so the prior must not pull towards a length.
        away = weights - prior * (weights @ prior) / (prior @ prior)
        return expected[0] - expected[1] + away / PRIOR_STD**2

    # The Hessian of a logsumexp is at most half the squared diameter of its rows, and each is in the unit cube.
    rate = 1 / (len(told) * len(kinds) / 2 + PRIOR_STD**-2)
    weights = before = prior
    for step in range(STEPS):
        ahead = weights + step / (step + 3) * (weights - before)
        # Projected on weights of at least zero: evidence may be useless, but never speaks against a file.
        before, weights = weights, np.maximum(ahead - rate * slope(ahead), 0)
    # Evidence that points away from the right files is worth nothing, and perhaps all of it does.
    if not weights.max():
        return start
    found = np.maximum(weights / weights.max(), LEAST).round(3).tolist()
    return replace(start, **dict(zip(kinds, found, strict=True)))


def _softmax(sums: Vector, mask: NDArray[np.bool_]) -> Vector:
    """(Q, F) of each row, over the places of the mask, which has some in each row."""
    open_sums = np.where(mask, sums, -np.inf)
    powers = np.exp(open_sums - open_sums.max(1, keepdims=True))
    whole: Vector = powers / powers.sum(1, keepdims=True)
    return whole
