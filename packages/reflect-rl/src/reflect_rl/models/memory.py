"""Memory that a language model takes: weights, what training adds to them, and activations.

The activations of a transformer block are counted in numbers a token: about ten vectors of the hidden size and four of
the feed-forward size stay for the backward pass. Measured with SmolLM2-135M, adapters on all linear layers and bfloat16
products, they come to 5 bytes a number (16-bit values, some of them kept in 32 bits as well).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

    from reflect_rl.config import ModelConfig

GB = 1e9
CGROUP = Path("/sys/fs/cgroup/memory.max")
"""Bytes that a container may use, or `max`."""
HIDDEN_VECTORS, FEED_FORWARD_VECTORS = 10, 4
BYTES_A_NUMBER = 5
ADAPTERS = ".lora_"
"""Part of the names of PEFT's adapters."""

WRITTEN_TOKENS = 16_384
"""Most padded tokens of a batch of texts that are written together, prompts included."""
WRITTEN_BYTES_ON_GPU = 2 * 2**30
"""Bytes of their keys and values up to which a GPU writes more of them: a step takes hardly longer with more rows."""


def activation_bytes(config: PretrainedConfig, *, checkpointing: bool = False) -> int:
    """Bytes that stay for the backward pass, for each token of a micro-batch.

    Args:
        config: of a causal language model.
        checkpointing: blocks keep their input only and are computed once more, one at a time.

    >>> from types import SimpleNamespace
    >>> activation_bytes(SimpleNamespace(num_hidden_layers=30, hidden_size=576, intermediate_size=1536))
    1785600
    """
    layers, hidden = int(config.num_hidden_layers), int(config.hidden_size)
    # GPT-2 and others name no feed-forward size.
    wide = int(getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * hidden)
    block = BYTES_A_NUMBER * (HIDDEN_VECTORS * hidden + FEED_FORWARD_VECTORS * wide)
    # Checkpointed: each block's input at 4 bytes a number, and the one block that is computed again.
    return layers * 4 * hidden + block if checkpointing else layers * block


def free_bytes(device: torch.device) -> int:
    """Bytes that this process can still take on a device."""
    if device.type == "cuda":
        import torch

        # Memory that torch holds and does not use is free for torch alone.
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + int(unused)
    import psutil

    limit = CGROUP.read_text().strip() if CGROUP.is_file() else "max"
    # Available, not free: the system gives back what it uses to cache files.
    available = int(psutil.virtual_memory().available)
    return min(available, int(limit)) if limit.isdigit() else available


def token_bytes(config: PretrainedConfig, size: int) -> int:
    """Bytes of the keys and values of a token, in numbers of this size."""
    heads = int(config.num_attention_heads)
    each = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    groups = int(getattr(config, "num_key_value_heads", None) or heads)
    return 2 * int(config.num_hidden_layers) * groups * each * size


def written_tokens(config: PretrainedConfig, size: int, *, on_gpu: bool) -> int:
    """Most padded tokens of a batch of texts that are written together, keys and values in numbers of this size."""
    return max(WRITTEN_TOKENS, WRITTEN_BYTES_ON_GPU // token_bytes(config, size)) if on_gpu else WRITTEN_TOKENS


def play_bytes(
    config: PretrainedConfig, setting: ModelConfig, *, readers: int, writes: bool, on_gpu: bool = False
) -> int:
    """Most bytes of keys and values that players hold while they play; short games need far fewer.

    Args:
        config: of a causal language model.
        setting: its number format.
        readers: players that keep the prompts that they have read.
        writes: one of them writes reflections, in batches.
        on_gpu: the players are on a GPU.
    """
    from reflect_rl.models.kept import KEPT_BYTES
    from reflect_rl.models.network import wide

    # Keys and values of a token are in the format of the weights.
    size = 2 if setting.precision == "bfloat16" else 4
    texts = written_tokens(config, size, on_gpu=on_gpu) * token_bytes(config, size)
    return writes * texts + (readers * KEPT_BYTES if wide(config, on_gpu=on_gpu) else 0)


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
    config: PretrainedConfig,
    setting: ModelConfig,
    *,
    models: float,
    micro_batch_tokens: int,
    activations: float,
    network: torch.nn.Module | None = None,
) -> Estimate:
    """Memory of training a model of this configuration, from its shape alone: no weight is read.

    Args:
        config: shape of the causal language model.
        setting: number format, adapters, quantisation.
        models: how many the process holds: the policy, and others beside it, or what they do not share with it.
        micro_batch_tokens: most tokens of a pass.
        activations: most bytes of activations that a micro-batch of several rows may leave (infinity: any number).
        network: the model, where it is loaded, with any settings (None: one of this shape is made without weights).
    """
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = network
    if network is None:
        # Tensors without data, so the shape of a model of any size can be asked.
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    # Adapters are counted by their rank. In 4 bits two numbers share a byte.
    weights = [weight for name, weight in model.named_parameters() if ADAPTERS not in name]
    parameters = sum(weight.numel() * (2 if weight.dtype is torch.uint8 else 1) for weight in weights)
    bits = {"4bit": 4, "8bit": 8, "none": 16 if setting.precision == "bfloat16" else 32}[setting.quantization]
    share = setting.train_layers / config.num_hidden_layers if setting.train_layers else 1.0
    if setting.lora.rank:
        head = model.get_output_embeddings()
        # PEFT's `all-linear` leaves the output layer out.
        parts = [part for name, part in model.named_modules() if ADAPTERS not in name]
        linear = [part for part in parts if isinstance(part, torch.nn.Linear) and part is not head]
        trained = share * sum(setting.lora.rank * (m.in_features + m.out_features) for m in linear)
        # Adapters are in float32: weight, gradient, two moments of AdamW.
        each = 4 + 4 + 8
    else:
        # The weights themselves are counted below.
        trained, each = share * parameters, 4 + 8
    # Under autocast the float32 weights of a pass have copies in bfloat16.
    copies = 2 * parameters if setting.precision == "mixed" else 0
    tokens = activation_bytes(config, checkpointing=setting.gradient_checkpointing)
    # A micro-batch ends at whichever of the two limits comes first.
    kept = int(min(micro_batch_tokens * tokens, activations))
    return Estimate(parameters, int(models * parameters * bits / 8) + copies, int(trained * each), kept)
