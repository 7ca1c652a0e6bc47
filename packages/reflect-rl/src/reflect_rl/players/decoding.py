"""Names of the ways to choose an action: `greedy`, `sampled`, and `sampled@T` at the temperature T."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from reflect_rl.errors import UnknownNameError, suggestion
from reflect_rl.types import Decoding

NAMED = {"greedy": 0.0, "sampled": 1.0}
AT = "sampled@"


def temperature_of(decoding: Decoding) -> float:
    """Temperature of a decoding, 0 = greedy.

    Raises:
        UnknownNameError: there is no such decoding.

    >>> [temperature_of(name) for name in ("greedy", "sampled@0.4", "sampled")]
    [0.0, 0.4, 1.0]
    """
    name = str(decoding)
    if name in NAMED:
        return NAMED[name]
    if not name.startswith(AT):
        raise UnknownNameError(f"no decoding named {decoding!r}. {suggestion(name, (*NAMED, f'{AT}T'))}")
    told = name.removeprefix(AT)
    try:
        value = float(told)
    except ValueError:
        value = math.nan
    # One spelling for each: rows of results are told apart by it.
    if not 0 < value < math.inf or value == 1 or told != f"{value:g}":
        raise UnknownNameError(
            f"no decoding named {decoding!r}. Behind {AT} stands a temperature above 0, not 1, in its shortest form "
            "and with at most six digits, such as sampled@0.4."
        )
    return value


def drawn(log_probs: Sequence[float], rng: np.random.Generator) -> int:
    """The number of an action that is drawn by these log-probabilities; one number of the generator is used."""
    cumulative = np.cumsum(np.exp(log_probs))
    # Rounding may leave the sum below 1; scaled by it and cut to the last index, every draw finds an action.
    return min(int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")), len(log_probs) - 1)


def _known(decoding: str) -> str:
    try:
        temperature_of(decoding)
    except UnknownNameError as error:
        # Pydantic tells this together with the name of the setting.
        raise ValueError(str(error)) from None
    return decoding


DecodingSetting = Annotated[Decoding, AfterValidator(_known)]
"""A decoding in a file of settings or on a command line."""
