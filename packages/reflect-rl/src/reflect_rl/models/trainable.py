"""Choice of the weights that are trained (adapters, the last blocks, or all), and of what the backward pass keeps."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflect_rl.errors import ModelError
from reflect_rl.models.source import ADAPTER_WEIGHTS, explained

if TYPE_CHECKING:
    from peft import PeftModel
    from torch.nn import Module
    from transformers import PreTrainedModel

    from reflect_rl.config import LoRAConfig

FLOATS = ("F32", "BF16", "F16")
"""Formats of adapters, by their names in safetensors."""


def load_adapter(model: PreTrainedModel, adapter: str, trainable: bool) -> PeftModel:
    """Put the adapter of a folder on a model.

    Args:
        model: the base model.
        adapter: folder of the adapter.
        trainable: the adapter's weights get gradients.

    Raises:
        ModelError: its weights are no safetensors, or not exactly those of the adapter that its settings describe.
    """
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors import safe_open

    # PEFT would fall back to `adapter_model.bin`, a pickle file.
    if not (Path(adapter) / ADAPTER_WEIGHTS).is_file():
        raise ModelError(f"the adapter {adapter!r} has no {ADAPTER_WEIGHTS}; pickle files are refused. Convert it.")
    with explained(adapter):
        with safe_open(str(Path(adapter) / ADAPTER_WEIGHTS), framework="pt") as file:
            # Format and shape stand in the header, so no weight is read here.
            given = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it is no dictionary)
            formats = {name: str(part.get_dtype()) for name, part in given.items()}
        # PEFT leaves weights that are not in the file as they were drawn, and warns; below that is an error.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = PeftModel.from_pretrained(model, adapter, is_trainable=trainable, local_files_only=True)
        wanted = get_peft_model_state_dict(made, save_embedding_layers=False)
    for fault, names in {
        "lacks": wanted.keys() - formats.keys(),
        "does not fit, it also has": formats.keys() - wanted.keys(),
        f"must hold numbers of a format in {', '.join(FLOATS)}; another one has": {
            name for name, found in formats.items() if found not in FLOATS
        },
    }.items():
        if names:
            raise ModelError(
                f"the adapter {adapter!r} {fault} {len(names)} weights, the first is {min(names)!r}. Copy it again."
            )
    return made


def recompute_activations(model: Any) -> None:
    """Keep the inputs of blocks only; the backward pass computes the rest once more."""
    # transformers 5 renamed the method; the older name goes away in 6.
    renamed = hasattr(model, "activation_checkpointing_enable")
    enable = model.activation_checkpointing_enable if renamed else model.gradient_checkpointing_enable
    # The reentrant kind gives no gradient to a block whose input needs none, as behind frozen embeddings.
    enable({"use_reentrant": False})


def check_adapter(model: PeftModel, adapter: str, asked: LoRAConfig) -> None:
    """Refuse an adapter with other settings than those that are asked for; a default asks for nothing.

    Raises:
        ModelError: one differs, for the adapter keeps its own.
    """
    fields = {"rank": "r", "alpha": "lora_alpha", "dropout": "lora_dropout", "target_modules": "target_modules"}
    for name, field in fields.items():
        found, value = getattr(model.active_peft_config, field, None), getattr(asked, name)
        if value not in (found, type(asked).model_fields[name].default):
            # PEFT keeps names of layers as a set, whose order is chance.
            told = found if isinstance(found, int | float | str) else ", ".join(sorted(found or ()))
            raise ModelError(
                f"the adapter {adapter!r} has {name} {told} and keeps it, and lora.{name} is {value}. "
                + ("Leave it out." if isinstance(found, set) else f"Set lora.{name} to {told}, or leave it out.")
            )


def new_adapter(model: PreTrainedModel, config: LoRAConfig, source: str) -> PeftModel:
    """Put new adapters on a model, which change nothing before they are trained.

    Args:
        model: the base model.
        config: rank, scale and layers.
        source: name of the base model, which a saved adapter records.

    Raises:
        ModelError: the model has no such layers.
    """
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    lora = LoraConfig(
        task_type="CAUSAL_LM",
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=config.target_modules,
        # GPT-2 keeps its matrices transposed.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
        base_model_name_or_path=source,
    )
    try:
        with warnings.catch_warnings():
            # PEFT asks the model for activation checkpointing by a name that transformers warns about.
            warnings.simplefilter("ignore", FutureWarning)
            return get_peft_model(model, lora)
    except ValueError as error:
        raise ModelError(f"lora.target_modules {config.target_modules!r} does not fit {source!r}: {error}") from None


def keep_input_format(model: Any) -> None:
    """Leave the inputs of adapters in bfloat16, for passes under autocast.

    PEFT turns them into float32 and autocast turns them back, at every linear layer. The backward pass kept both: with
    SmolLM2-135M, 4 rows of 300 tokens took 3.1 GB instead of 2.5.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers: list[Any] = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.cast_input_dtype_enabled = False


def train_last_blocks(model: Any, count: int, source: str) -> None:
    """Freeze everything below the last `count` transformer blocks, the embeddings and the output layer.

    The backward pass ends at the lowest trained block, which saves its time and memory below.

    Args:
        model: with or without adapters; what is trainable in the last blocks stays so.
        count: of blocks.
        source: name of the model, for messages.

    Raises:
        ModelError: the model has fewer blocks.
    """
    total = int(model.config.num_hidden_layers)
    if count > total:
        raise ModelError(f"model.train_layers is {count}, {source!r} has {total} blocks. Set it to {total} or less.")
    try:
        owner, name = blocks_of(model)
    except LookupError:
        raise ModelError(
            f"the blocks of {source!r} were not found. Set model.train_layers = 0, or use lora.rank."
        ) from None
    blocks = getattr(owner, name)
    # By identity: tensors compare element by element.
    kept = {id(weight) for block in list(blocks)[total - count :] for weight in block.parameters()}
    for weight in model.parameters():
        if id(weight) not in kept:
            weight.requires_grad_(False)


def blocks_of(model: Any) -> tuple[Module, str]:
    """The module that holds the transformer blocks of a model, and the name under which it does.

    Raises:
        LookupError: there is no list of as many modules as the model has blocks.
    """
    from torch.nn import ModuleList

    total = int(model.config.num_hidden_layers)
    # Architectures name this list differently; its length is what they share.
    for module in model.modules():
        for name, part in module.named_children():
            if isinstance(part, ModuleList) and len(part) == total:
                return module, name
    raise LookupError(f"no list of {total} blocks")
