"""Memory that a language model takes: weights, what training adds to them, and activations.

The activations of a transformer block are counted in numbers a token: about ten vectors of the hidden size and four of
the feed-forward size stay for the backward pass. Measured with SmolLM2-135M, adapters on all linear layers and bfloat16
products, they come to 5 bytes a number (16-bit values, some of them kept in 32 bits as well).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["Shape", "activation_bytes", "shape_of"]

HIDDEN_VECTORS, FEED_FORWARD_VECTORS = 10, 4
BYTES_A_NUMBER = 5


@dataclass(frozen=True)
class Shape:
    """What of a model's configuration decides about memory."""

    layers: int
    hidden_size: int
    intermediate_size: int
    vocabulary_size: int


def shape_of(config: PretrainedConfig) -> Shape:
    """The shape of a causal language model; GPT-2 and others name no feed-forward size, it is 4 x hidden then."""
    hidden = int(config.hidden_size)
    wide = getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * hidden
    return Shape(int(config.num_hidden_layers), hidden, int(wide), int(config.vocab_size))


def activation_bytes(shape: Shape, *, checkpointing: bool = False) -> int:
    """Bytes that stay for the backward pass, for each token of a micro-batch.

    Args:
        shape: of the model.
        checkpointing: blocks keep their input only and are computed once more, one at a time.

    >>> activation_bytes(Shape(30, 576, 1536, 49152))
    1785600
    """
    block = BYTES_A_NUMBER * (HIDDEN_VECTORS * shape.hidden_size + FEED_FORWARD_VECTORS * shape.intermediate_size)
    return shape.layers * 4 * shape.hidden_size + block if checkpointing else shape.layers * block
