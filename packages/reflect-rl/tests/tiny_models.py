"""Tiny randomly initialised models of three families, each with a tokenizer of its family's kind, made without network.

- `gpt2`: byte-level BPE whose merges make each of 0..199 one token, with and without a leading space; no start token.
- `llama`: SentencePiece-like BPE: spaces as `▁`, one before the text; bytes as `<0x..>`; single digits; start `<s>`.
- `qwen`: byte-level BPE behind Qwen's regular expression, which cuts numbers into digits; no start token.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX, Qwen2Tokenizer

from reflect_rl.models.load import forked_rng

Kind = Literal["gpt2", "llama", "qwen"]
KINDS: tuple[Kind, ...] = ("gpt2", "llama", "qwen")
CONTEXT_TOKENS = 512
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())


def save_tiny(kind: Kind, folder: Path, seed: int = 0, hidden_size: int = 16, layers: int = 2) -> Path:
    """Write a model of this kind and its tokenizer into `folder`, as Hugging Face folders are; returns the folder."""
    tokenizer = tiny_tokenizer(kind)
    with forked_rng(seed):
        model = _model(kind, tokenizer, hidden_size, layers)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_bytes(folder: Path, context_tokens: int = 8192) -> Path:
    """Write a Llama whose tokenizer has the 256 bytes and an end token, and nothing else; returns the folder."""
    tokenizer = GPT2Tokenizer(vocab=_vocabulary(["<|endoftext|>", *BYTES], []), merges=[])
    with forked_rng(0):
        model = _model("llama", tokenizer, hidden_size=16, layers=1)
    # A byte is a token, so a state with its actions is long.
    model.config.max_position_embeddings = context_tokens
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_tokenizer(kind: Kind) -> PreTrainedTokenizerBase:
    """A tokenizer of this kind, learned from a few kilobytes made here."""
    return {"gpt2": _gpt2, "llama": _llama, "qwen": _qwen}[kind]()


def corpus() -> list[str]:
    """Sentences of the games, numbers, and words made of syllables."""
    syllables = ["".join(parts) for parts in product("bcdfghklmnprstvw", "aeiou")]
    words = [first + second for first, second in zip(syllables, reversed(syllables), strict=True)]
    return [
        "The last move east was a mistake, I must correct it. Taxi at 1 1. Passenger waits at 0 4.",
        "Blocked: east. Next I should go south.\nActions: 0 south 1 north 2 east 3 west 4 pickup\n # Action:\n",
        "Find the file that answers the question. cd .. cat README.md id src/main.py",
        "\n".join(words * 3),
        " ".join(words * 3),
    ]


def _train(pieces: Any, alphabet: list[str], texts: list[str], size: int) -> list[tuple[str, str]]:
    """The merges that BPE finds in the texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pieces
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]


def _vocabulary(first: list[str], merges: list[tuple[str, str]]) -> dict[str, int]:
    entries = dict.fromkeys([*first, *(left + right for left, right in merges)])
    return {entry: index for index, entry in enumerate(entries)}


def _gpt2() -> PreTrainedTokenizerBase:
    # Numbers come often enough to be merged before the words.
    numbers = "\n".join(f"{number}\n {number}" for number in range(200))
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
    merges = _train(pieces, BYTES, [*corpus(), *[numbers] * 40], 1400)
    return GPT2Tokenizer(vocab=_vocabulary(["<|endoftext|>", *BYTES], merges), merges=merges)


def _qwen() -> PreTrainedTokenizerBase:
    pieces = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    merges = _train(pieces, BYTES, corpus(), 1000)
    return Qwen2Tokenizer(
        vocab=_vocabulary(BYTES, merges), merges=merges, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )


def _llama() -> PreTrainedTokenizerBase:
    pieces = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Digits(individual_digits=True)]
    )
    printable = ["▁", *(chr(code) for code in range(33, 127))]
    texts = [line for text in corpus() for line in text.split("\n")]
    merges = _train(pieces, printable, texts, 900)
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *printable]
    return LlamaTokenizer(vocab=_vocabulary(first, merges), merges=merges, add_bos_token=True)


def _model(kind: Kind, tokenizer: PreTrainedTokenizerBase, hidden_size: int, layers: int) -> PreTrainedModel:
    ends = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if kind == "gpt2":
        config = GPT2Config(n_embd=hidden_size, n_layer=layers, n_head=2, n_positions=CONTEXT_TOKENS, **ends)
        return GPT2LMHeadModel(config)
    shape = {
        "hidden_size": hidden_size,
        "intermediate_size": 2 * hidden_size,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": CONTEXT_TOKENS,
    }
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**shape, **ends))
    return Qwen3ForCausalLM(Qwen3Config(**shape, **ends, head_dim=hidden_size // 2, tie_word_embeddings=True))
