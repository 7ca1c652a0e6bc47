"""Check of a training against the memory that is free, before it starts; what would make it fit.

Runs ask before a model is loaded, callers of the Python API with a model that is loaded already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from reflect_rl.config import EMBEDDED, LoRAConfig, ModelConfig
from reflect_rl.errors import ModelError
from reflect_rl.launch import local_process_count
from reflect_rl.models.memory import GB, Estimate, estimate, free_bytes

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

    from reflect_rl.models.load import LanguageModel

PROCESSES = "--num_processes"
"""Flag of a launcher that sets the number of processes."""


@dataclass(frozen=True)
class Demand:
    """Memory that trainings at the same time ask of a device."""

    name: str
    """Name of their model, for messages."""
    model: ModelConfig
    size_of: Callable[[ModelConfig], Estimate]
    """Estimate of one training with some settings of the model."""
    jobs: int
    """Number of trainings."""
    flag: str
    """Flag that sets it."""
    process: int = 0
    """Bytes that each takes beside the estimate."""
    taken: int = 0
    """Bytes of the estimate that each has taken already, with a model that is loaded."""

    def each(self, setting: ModelConfig) -> int:
        """Bytes of one training with some settings of the model."""
        return self.size_of(setting).total + self.process


@dataclass(frozen=True)
class Room:
    """Memory of trainings that fit."""

    needed: int
    """Bytes of all of them."""
    free: int
    """Bytes that the device has for them."""
    sentence: str
    """Both numbers and the parts of the first, for the user."""


def training_bytes(
    causal: PretrainedConfig,
    setting: ModelConfig,
    device: torch.device,
    *,
    models: float = 1,
    micro_batch_tokens: int | None = None,
    network: torch.nn.Module | None = None,
) -> Estimate:
    """Memory of one training on a device.

    Args:
        causal: shape of the causal language model.
        setting: number format, adapters, quantisation.
        device: where it is trained.
        models: see `estimate`.
        micro_batch_tokens: most tokens of a pass (None: what is fast on the device, up to its limit of activations).
        network: see `estimate`.
    """
    from reflect_rl.models.score import fast_tokens, most_activations

    tokens = micro_batch_tokens or fast_tokens(causal.hidden_size, on_cpu=device.type == "cpu")
    most = math.inf if micro_batch_tokens else most_activations(device)
    return estimate(causal, setting, models=models, micro_batch_tokens=tokens, activations=most, network=network)


def check_room(demand: Demand, device: torch.device) -> Room:
    """Refuse trainings that do not fit into the memory of a device.

    Raises:
        ModelError: they do not; the message has the numbers, and the settings under which they would.
    """
    now, jobs, free = demand.size_of(demand.model), demand.jobs, free_bytes(device)
    needed, taken = demand.each(demand.model) * jobs, demand.taken * jobs
    parts = (
        f"{jobs} at once, each weights {now.weights / GB:.1f}, gradients and optimiser {now.training / GB:.1f}, "
        f"activations {now.activations / GB:.1f}"
    )
    if needed <= free + taken:
        return Room(needed, free + taken, f"memory: about {needed / GB:.1f} of {(free + taken) / GB:.1f} GB ({parts})")
    loaded = f", of which the loaded model has taken {taken / GB:.1f} GB" if taken else ""
    raise ModelError(
        f"training {demand.name!r} needs about {needed / GB:.1f} GB ({parts}){loaded}, and {device.type} has "
        f"{free / GB:.1f} GB free. {_remedy(demand, free + taken)} a smaller model, close other programs, or take a "
        "machine with more memory."
    )


def check_loaded(
    model: LanguageModel,
    *,
    trainings: int = 1,
    micro_batch_tokens: int | None = None,
    beside: LanguageModel | None = None,
) -> None:
    """Refuse to train copies of a loaded model, which stays as it is, where their memory is more than what is free.

    Args:
        model: in the format in which it is trained.
        trainings: one after the other, whose results all stay.
        micro_batch_tokens: see `training_bytes`.
        beside: another loaded model, of which a copy is trained in turn with that of the first, with its settings.

    Raises:
        ModelError: see `check_room`.
    """
    network: Any = model.model
    weights = list(network.parameters())

    def size_of(setting: ModelConfig) -> Estimate:
        models = 1 + trainings * _own_share(setting, network)
        one = training_bytes(
            network.config,
            setting,
            model.device,
            models=models,
            micro_batch_tokens=micro_batch_tokens,
            network=network,
        )
        if beside is None:
            return one
        other: Any = beside.model
        share = _own_share(setting, other)
        two = training_bytes(other.config, setting, beside.device, models=share, micro_batch_tokens=1, network=other)
        # Both optimisers stay, and one model at a time has activations.
        return replace(one, weights=one.weights + two.weights, training=one.training + two.training)

    # Every process of a launch has a model; those on GPUs have one each.
    jobs = local_process_count() if model.device.type == "cpu" else 1
    taken = sum(weight.numel() * weight.element_size() for weight in weights)
    setting = _settings_of(model)
    check_room(Demand(setting.path, setting, size_of, jobs, PROCESSES, taken=taken), model.device)


def _own_share(setting: ModelConfig, network: Any) -> float:
    """Share of the weights that a copy does not share with the model, as they are trained; adapters are not counted."""
    # A copy shares nothing with a model that was loaded to play (`agent.trainable_copy`).
    if not any(weight.requires_grad for weight in network.parameters()):
        return 1.0
    if setting.lora.rank:
        return 0.0
    return setting.train_layers / network.config.num_hidden_layers if setting.train_layers else 1.0


def _settings_of(model: LanguageModel) -> ModelConfig:
    """Settings under which a loaded model is trained, as far as its memory depends on them."""
    import torch

    from reflect_rl.models.trainable import blocks_of

    network: Any = model.model
    try:
        blocks = getattr(*blocks_of(network))
        trained = sum(any(weight.requires_grad for weight in block.parameters()) for block in blocks)
    except LookupError:
        # Nor could some of its blocks have been chosen (`trainable.train_last_blocks`).
        trained = 0
    coarse = network.get_input_embeddings().weight.dtype is torch.bfloat16
    bits = [name for name in ("4bit", "8bit") if getattr(network, f"is_loaded_in_{name}", False)]
    return ModelConfig(
        path=model.name or EMBEDDED,
        lora=LoRAConfig(rank=getattr(network.active_peft_config, "r", 1) if model.has_adapter else 0),
        quantization=bits[0] if bits else "none",
        train_layers=trained if trained < network.config.num_hidden_layers else 0,
        precision="bfloat16" if coarse else "mixed" if model.mixed else "float32",
        gradient_checkpointing=model.checkpointing,
    )


def _remedy(demand: Demand, free: int) -> str:
    """The settings under which a training would fit, as the beginning of a sentence that goes on with other remedies.

    Args:
        demand: what is asked for.
        free: bytes.
    """
    model, jobs, each = demand.model, demand.jobs, demand.each(demand.model)
    fitting = [f"{demand.flag} {free // each} ({free // each * each / GB:.1f} GB)"] if each <= free else []
    alone, together = _smaller(model)
    # One job at a time where several do not fit, whatever the model's settings.
    for workers in dict.fromkeys((jobs, 1)):
        with_workers = "" if workers == jobs else f"{demand.flag} 1 and "
        for text, setting in () if fitting and workers < jobs else (*alone, together):
            size = demand.each(setting) * workers
            if size <= free and not (fitting and setting is together[1]):
                fitting.append(f"{with_workers}{text} ({size / GB:.1f} GB)")
    if fitting:
        return f"Set {', or '.join(fitting)}; or use"
    name, least = together[0], demand.each(together[1]) / GB
    return f"With {name}, one at a time, it would still need {least:.1f} GB. Use" if name else "Use"


def _smaller(model: ModelConfig) -> tuple[list[tuple[str, ModelConfig]], tuple[str, ModelConfig]]:
    """Settings that are not made yet and need less memory: each alone, and all of them."""
    rank = model.lora.rank or 16
    lora = {"lora": model.lora.model_copy(update={"rank": rank}), "precision": "bfloat16"}
    changes: dict[str, dict[str, Any]] = {
        "model.gradient_checkpointing = true": {"gradient_checkpointing": True},
        f"model.lora.rank = {rank} with model.precision = 'bfloat16'": lora,
    }
    if find_spec("bitsandbytes"):
        changes["model.quantization = '4bit' with model.lora.rank = " + str(rank)] = lora | {"quantization": "4bit"}
    alone = [(text, model.model_copy(update=change)) for text, change in changes.items()]
    alone = [(text, setting) for text, setting in alone if setting != model]
    both = model.model_copy(update=lora | {"gradient_checkpointing": True})
    return alone, (" and ".join(text for text, setting in alone if setting.quantization == model.quantization), both)
