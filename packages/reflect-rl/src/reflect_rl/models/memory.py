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

    from reflect_rl.config import ModelConfig

HIDDEN_VECTORS, FEED_FORWARD_VECTORS = 10, 4
BYTES_A_NUMBER = 5


@dataclass(frozen=True)
class Shape:
    """Sizes in a model's configuration that decide about memory."""

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
        shape: sizes of the model.
        checkpointing: blocks keep their input only and are computed once more, one at a time.

    >>> activation_bytes(Shape(30, 576, 1536, 49152))
    1785600
    """
    block = BYTES_A_NUMBER * (HIDDEN_VECTORS * shape.hidden_size + FEED_FORWARD_VECTORS * shape.intermediate_size)
    # Checkpointed: each block's input at 4 bytes a number, and the one block that is computed again.
    return shape.layers * 4 * shape.hidden_size + block if checkpointing else shape.layers * block


@dataclass(frozen=True)
class Estimate:
    """Bytes of one training process."""

    parameters: int
    """Number of weights, not bytes."""
    weights: int
    """Weights of all models that the process holds."""
    training: int
    """Trained copies, gradients and the optimiser's two moments."""
    activations: int
    """Activations of one micro-batch."""

    @property
    def total(self) -> int:
        """Sum of weights, training and activations."""
        return self.weights + self.training + self.activations


def estimate(
    config: PretrainedConfig, setting: ModelConfig, *, models: int, micro_batch_tokens: int, activations: float
) -> Estimate:
    """Memory of training a model of this configuration, from its shape alone: no weight is read.

    Args:
        config: shape of the causal language model.
        setting: number format, adapters, quantisation.
        models: how many the process holds: the policy, and frozen ones beside it.
        micro_batch_tokens: most tokens of a pass.
        activations: most bytes of activations that a micro-batch of several rows may leave (infinity: any number).
    """
    import torch
    from transformers import AutoModelForCausalLM

    # Tensors without data, so the shape of a model of any size can be asked.
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters = sum(weight.numel() for weight in model.parameters())
    bits = {"4bit": 4, "8bit": 8, "none": 16 if setting.precision == "bfloat16" else 32}[setting.quantization]
    share = setting.train_layers / config.num_hidden_layers if setting.train_layers else 1.0
    if setting.lora.rank:
        head = model.get_output_embeddings()
        # PEFT's `all-linear` leaves the output layer out.
        linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not head]
        trained = share * sum(setting.lora.rank * (m.in_features + m.out_features) for m in linear)
        # Adapters are in float32: weight, gradient, two moments of AdamW.
        each = 4 + 4 + 8
    else:
        # The weights themselves are counted below.
        trained, each = share * parameters, 4 + 8
    # Under autocast the float32 weights of a pass have copies in bfloat16.
    copies = 2 * parameters if setting.precision == "mixed" else 0
    tokens = activation_bytes(shape_of(config), checkpointing=setting.gradient_checkpointing)
    # A micro-batch ends at whichever of the two limits comes first.
    kept = int(min(micro_batch_tokens * tokens, activations))
    return Estimate(parameters, models * parameters * bits // 8 + copies, int(trained * each), kept)
