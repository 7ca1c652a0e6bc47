"""Models to measure with: the default small one, and larger shapes with random weights and the same tokenizer.

The tokenizer is always the embedded one, learned from the game's texts, so that nothing is downloaded; the networks
keep the full number of vocabulary rows of their shape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, GPT2Config, PretrainedConfig, Qwen3Config

from reflect_bench.options import Shape
from reflect_rl.config import EmbeddedConfig, LoRAConfig, ModelConfig
from reflect_rl.data.generate import DATASETS, DataConfig, Row, demonstrations, rows
from reflect_rl.envs.base import EnvSpec
from reflect_rl.models.embedded import build_embedded
from reflect_rl.models.load import LanguageModel, forked_rng, load_model

Ends = dict[str, Any]
PRETRAINED: Shape = "smollm2-135m"
ADAPTERS = LoRAConfig(rank=16, alpha=32, dropout=0.0)


@cache
def examples_of(spec: EnvSpec, seed: int, starts: int = 8) -> tuple[Row, ...]:
    """Rows of a few demonstrations, of all data sets of supervised training."""
    count = spec.max_actions
    labels = [str(number) for number in range(count)]
    pools = demonstrations(DataConfig(), spec, starts, seed, excluded=frozenset())
    episodes = [episode for pool in pools.values() for episode in pool]
    return tuple(row for name in DATASETS for row in rows(name, episodes, labels, frozenset()))


def texts_of(spec: EnvSpec, seed: int, starts: int = 8) -> tuple[str, ...]:
    """Prompts and answers of a few demonstrations, which the tokenizer is learned from."""
    return tuple(row.prompt + row.completion for row in examples_of(spec, seed, starts))


def pretrained(device: str, precision: Literal["float32", "mixed", "bfloat16"], *, trainable: bool) -> LanguageModel:
    """The pretrained model, with new adapters where it is to be trained.

    Raises:
        ModelError: it was not downloaded yet.
    """
    config = ModelConfig(path=PRETRAINED, device=device, precision=precision, lora=ADAPTERS)
    return load_model(config, trainable=trainable)


def build(
    shape: Shape, texts: Sequence[str], seed: int, embedded: EmbeddedConfig, device: torch.device, precision: str
) -> LanguageModel:
    """A model with random weights whose reflections are words.

    Args:
        shape: which network; not the pretrained one, whose weights are its own.
        texts: what the tokenizer is learned from.
        seed: for the weights.
        embedded: the small model's shape; its `context_tokens` hold for the larger ones where they exceed their own.
        device: where the weights go.
        precision: `float32`, `mixed` or `bfloat16`.
    """
    # A text of random words must have as many tokens when it is read again; phrases would join or split them.
    small = build_embedded(texts, embedded.model_copy(update={"pieces": "words"}), seed)
    network: Any = small.model
    if shape != "embedded":
        ends = {"bos_token_id": None, "eos_token_id": small.end_id, "pad_token_id": small.pad_id}
        with forked_rng(seed):
            network = AutoModelForCausalLM.from_config(
                _network(shape, embedded.context_tokens, ends), dtype=torch.float32, attn_implementation="sdpa"
            )
    write_words(network, small)
    network.to(device=device, dtype=torch.bfloat16 if precision == "bfloat16" else torch.float32)
    return LanguageModel(network.eval(), small.tokenizer, precision == "mixed")


def _network(shape: Shape, context_tokens: int, ends: Ends) -> PretrainedConfig:
    if shape == "qwen3-0.6b":
        return Qwen3Config(
            vocab_size=151_936,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            max_position_embeddings=max(40_960, context_tokens),
            tie_word_embeddings=True,
            **ends,
        )
    layers, width, heads = {"gpt2-small": (12, 768, 12), "gpt2-xl": (48, 1600, 25)}[shape]
    return GPT2Config(n_layer=layers, n_embd=width, n_head=heads, n_positions=max(1024, context_tokens), **ends)


def write_words(network: Any, model: LanguageModel) -> None:
    """Rows of the vocabulary that are words become ten times as large, so that the likeliest token is always one.

    Random weights would otherwise write bytes and tokens that no tokenizer knows, and a text of 96 of them does not
    have 96 tokens when it is read again. No operation is saved by it. No end token is ever written.
    """
    words = [token for token in range(len(model.tokenizer)) if _is_word(model, token)]
    with torch.no_grad():
        network.get_output_embeddings().weight[words] *= 10


def _is_word(model: LanguageModel, token: int) -> bool:
    text = model.decode([token])
    return re.fullmatch(r" [a-z]+", text) is not None and model.encode(text) == [token]
