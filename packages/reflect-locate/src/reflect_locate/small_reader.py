"""Small readers, as that of this package, by numpy: they take a moment, and torch would take seconds to load.

It is a Llama (Touvron et al. 2023, arXiv:2302.13971): RMS norms, rotary positions, and gated feed-forward layers. What
`reader.py` computes with the same folder differs by rounding alone; but what exceeds the context is left out here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from reflect_locate.reader_settings import ReaderSettings, read_settings
from reflect_locate.rereading import PassageReader, asked_after
from reflect_rl.errors import ModelError
from reflect_rl.store import read_json

PACKAGED = Path(__file__).with_name("player") / "reader"
LONGEST_QUESTION = 256
"""Tokens of a question that are read; memory grows with the square of all tokens, and one word may have thousands."""
REMEDY = "Train it again; of this package's own reader, install the package again."
Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SmallReader(PassageReader):
    """A small Llama without biases, with as many heads of keys as of queries, whose output weights are the input's."""

    settings: ReaderSettings
    tokenizer: Tokenizer
    weights: Mapping[str, Array]
    context: int
    """Most tokens that it reads."""
    layers: int
    heads: int
    epsilon: float
    """Constant of the norms."""
    theta: float
    """Base of the rotary frequencies."""

    def likelihood(self, question: str, text: str) -> float:
        """See `PassageReader`; the beginning of a prompt that exceeds the context is left out."""
        prompt = asked_after(text)
        head, whole = self._ids(prompt), self._ids(prompt + question)
        # A token may straddle the border; then the question is cut by itself.
        asked = whole[len(head) :] if whole[: len(head)] == head else self._ids(question)
        asked = asked[: min(LONGEST_QUESTION, self.context // 2)]
        ids = [*head, *asked][-self.context :]
        logits = self._logits(ids, len(ids) - len(asked) - 1)
        logits -= logits.max(axis=-1, keepdims=True)
        chosen = logits[np.arange(len(asked)), asked]
        return float((chosen - np.log(np.exp(logits).sum(axis=-1))).mean())

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _logits(self, ids: Sequence[int], first: int) -> Array:
        """Logits at each place from `first` to the last but one: (n, V)."""
        table = self.weights["model.embed_tokens.weight"]
        states, turn, hidden = table[ids], self._rotation(len(ids)), _later(len(ids))
        for number in range(self.layers):
            layer = f"model.layers.{number}."
            states = states + self._attended(self._norm(states, f"{layer}input_layernorm"), layer, turn, hidden)
            inner = self._norm(states, f"{layer}post_attention_layernorm")
            gate = self._times(inner, f"{layer}mlp.gate_proj")
            gated = gate / (1 + np.exp(-gate)) * self._times(inner, f"{layer}mlp.up_proj")
            states = states + self._times(gated, f"{layer}mlp.down_proj")
        found: Array = self._norm(states[first:-1], "model.norm") @ table.T
        return found

    def _attended(self, inner: Array, layer: str, turn: tuple[Array, Array], hidden: Array) -> Array:
        def split(part: str) -> Array:
            return (
                self._times(inner, f"{layer}self_attn.{part}_proj").reshape(len(inner), self.heads, -1).swapaxes(0, 1)
            )

        query, key = (_turned(split(part), turn) for part in "qk")
        scores = query @ key.swapaxes(1, 2) / np.float32(np.sqrt(query.shape[-1])) + hidden
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return self._times((shares @ split("v")).swapaxes(0, 1).reshape(len(inner), -1), f"{layer}self_attn.o_proj")

    def _times(self, states: Array, name: str) -> Array:
        product: Array = states @ self.weights[f"{name}.weight"].T
        return product

    def _norm(self, states: Array, name: str) -> Array:
        scale = np.sqrt((states**2).mean(axis=-1, keepdims=True) + np.float32(self.epsilon))
        normed: Array = states / scale * self.weights[f"{name}.weight"]
        return normed

    def _rotation(self, length: int) -> tuple[Array, Array]:
        """Cosines and sines of each place: (T, D) each."""
        size = self.weights["model.layers.0.self_attn.q_proj.weight"].shape[0] // self.heads
        angles = np.outer(np.arange(length), self.theta ** (-np.arange(0, size, 2) / size))
        turns = np.concatenate([angles, angles], axis=-1)
        return np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)


def _later(length: int) -> Array:
    """Minus infinity where a place would see a later one: (T, T)."""
    return np.triu(np.full((length, length), -np.inf, np.float32), 1)


def _turned(vectors: Array, turn: tuple[Array, Array]) -> Array:
    """Rotary positions: halves of each vector are turned against each other."""
    half = vectors.shape[-1] // 2
    other: Array = np.concatenate([-vectors[..., half:], vectors[..., :half]], axis=-1)
    turned: Array = vectors * turn[0] + other * turn[1]
    return turned


def load_small_reader(folder: Path = PACKAGED) -> SmallReader:
    """The reader of this package, or another small one.

    Args:
        folder: of a model that `is_small`.

    Raises:
        ConfigError: its settings are of another version, or damaged.
        ModelError: its weights or its tokenizer are damaged.
    """
    settings = read_settings(folder)
    config: dict[str, Any] = read_json(folder / "config.json", REMEDY)
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        weights = {name: value.astype(np.float32) for name, value in load_file(folder / "model.safetensors").items()}
    # The errors of the two libraries have no common class.
    except Exception as error:
        raise ModelError(f"the reader in {folder} is damaged: {error}. {REMEDY}") from error
    # Names of special tokens inside a file are text: one that holds `<|endoftext|>` ends nothing.
    tokenizer.encode_special_tokens = True
    return SmallReader(
        settings=settings,
        tokenizer=tokenizer,
        weights=weights,
        context=config["max_position_embeddings"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        epsilon=config["rms_norm_eps"],
        theta=config["rope_parameters"]["rope_theta"],
    )
