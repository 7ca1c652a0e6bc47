"""Batched generation for the reflection player, through Hugging Face's `generate` with its KV cache.

Wide models read the prompts before that, in passes of a size that is fast, each beginning that prompts share once. A
frozen one goes on from prompts that it has read before. On a GPU `models/decode.py` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import torch
from transformers import DynamicCache, GenerationConfig
from transformers.cache_utils import DynamicLayer

from reflect_rl.models.decode import written
from reflect_rl.models.graphs import columns_of
from reflect_rl.models.kept import Kept
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.memory import written_tokens
from reflect_rl.models.network import pads_left, reads_trees, shares
from reflect_rl.models.score import Passes, check_context, micro_batches, token_budget


def generate_greedy(
    model: LanguageModel, prompts: Sequence[Sequence[int]], max_new_tokens: int, kept: Kept | None = None
) -> list[str]:
    """The most likely continuation of each prompt as text, without the end token; arguments as of `generate`.

    Raises:
        ModelError: prompt and `max_new_tokens` together exceed the model's context.
        ValueError: the model is in training mode.
    """
    return [text_of(model, ids) for ids in generate(model, prompts, max_new_tokens, kept=kept)]


def text_of(model: LanguageModel, ids: Sequence[int]) -> str:
    """Text of a continuation, without the end token."""
    return model.decode(ids[:-1] if ids and ids[-1] == model.end_id else ids)


@torch.no_grad()
def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    sampled: bool = False,
    max_tokens: int | None = None,
    kept: Kept | None = None,
) -> list[list[int]]:
    """Tokens of a continuation of each prompt, up to the end token, which is included, or `max_new_tokens`.

    Args:
        model: a language model in eval mode.
        prompts: token ids, any lengths; rows of a batch are left-padded, or of one length.
        max_new_tokens: length limit of a continuation.
        sampled: draw from the model's distribution, by torch's generator, instead of taking the most likely text.
        max_tokens: upper bound on the padded tokens of one batch, new tokens included (default: `written_tokens`).
        kept: prompts that the model has read before; what a wide one reads now is added. Only where its weights do not
            change.

    Raises:
        ModelError: prompt and `max_new_tokens` together exceed the model's context.
        ValueError: the model is in training mode, in which dropout draws and checkpointed activations keep nothing.
    """
    if model.model.training:
        raise ValueError("a model in training mode cannot write: call eval() first.")
    check_context(model, max(map(len, prompts), default=0), new=max_new_tokens)
    network: Any = model.model
    graphs = model.device.type == "cuda" and reads_trees(model)
    limit = max_tokens or written_tokens(network.config, network.dtype.itemsize, on_gpu=graphs)
    found: dict[int, list[int]] = {}
    # A row keeps keys and values for its prompt and for all new tokens.
    lengths = [len(prompt) + max_new_tokens for prompt in prompts]
    if graphs:
        # Rows are rounded up, by half at most, or to a few where memory allows.
        lengths, limit = [columns_of(columns_of(len(p)) + max_new_tokens) for p in prompts], 2 * limit // 3
    for group in _groups(model, lengths, limit):
        if graphs:
            table = written(model, [prompts[i] for i in group], max_new_tokens, sampled=sampled)
            found |= {i: _ended(model, new) for i, new in zip(group, table.tolist(), strict=True)}
            continue
        width = max(len(prompts[i]) for i in group)
        # Padded on the left: `generate` writes on behind the last column, which has to be the prompt's end.
        ids = torch.tensor([[model.pad_id] * (width - len(prompts[i])) + list(prompts[i]) for i in group])
        mask = torch.tensor([[0] * (width - len(prompts[i])) + [1] * len(prompts[i]) for i in group])
        # `generate` cuts the last states out; of a cut, torch copies the vocabulary's weights for each row.
        whole = network.get_output_embeddings().register_forward_pre_hook(lambda _, states: (states[0].contiguous(),))
        autocast = torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed)
        with _own_defaults_set_aside(model), whole, autocast:
            read = {}
            if reads_trees(model):
                cache = _roomy_cache(model, width + max_new_tokens)
                if shares(network) and min(len(prompts[i]) for i in group) > 1:
                    _read_without_last_tokens(model, [prompts[i] for i in group], cache, kept)
                read = {"past_key_values": cache}
            output = network.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                # Greedy, the text is a function of the prompt, and can be cached. Sampled, the distribution is whole,
                # since its probabilities are learnt from.
                **({"do_sample": True, "top_k": 0} if sampled else {"do_sample": False}),
                num_beams=1,
                max_new_tokens=max_new_tokens,
                eos_token_id=model.end_id,
                pad_token_id=model.pad_id,
                **read,
            )
        found |= {i: _ended(model, new) for i, new in zip(group, output[:, width:].tolist(), strict=True)}
    return [found[i] for i in range(len(prompts))]


def _groups(model: LanguageModel, lengths: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Groups of `micro_batches`; of one length each, where padding on the left would move what follows it."""
    for group in micro_batches(lengths, limit):
        if pads_left(model.model):
            yield group
        else:
            yield from (list(same) for _, same in groupby(group, lambda i: lengths[i]))


def _ended(model: LanguageModel, new: list[int]) -> list[int]:
    """The tokens up to the end token: rows that ended early are filled up."""
    return new[: new.index(model.end_id) + 1] if model.end_id in new else new


class _RoomyLayer(DynamicLayer):
    """Keys and values of a layer with room for all tokens to come: a new token is written behind the others.

    transformers' own layer copies all of them for each new token, which took more time than any product.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room, self.whole = room, list[torch.Tensor]()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add the keys and values of new tokens, (N, heads, new, d); those of all tokens."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            shapes = [(*part.shape[:2], self.room, part.shape[3]) for part in (key_states, value_states)]
            self.whole = [key_states.new_empty(shape) for shape in shapes]
        before = self.get_seq_length()
        after = before + key_states.shape[2]
        for whole, part in zip(self.whole, (key_states, value_states), strict=True):
            whole[:, :, before:after] = part
        self.keys, self.values = (whole[:, :, :after] for whole in self.whole)
        return self.keys, self.values


def _roomy_cache(model: LanguageModel, tokens: int) -> DynamicCache:
    """An empty cache with room for so many tokens of each row."""
    cache = DynamicCache(config=model.model.config)
    cache.layers = [_RoomyLayer(tokens) for _ in cache.layers]
    return cache


def _read_without_last_tokens(
    model: LanguageModel, prompts: Sequence[Sequence[int]], cache: DynamicCache, kept: Kept | None
) -> None:
    """Fill an empty cache with prompts, padded on the left, but for their last token, which `generate` reads itself."""
    read = [tuple(prompt[:-1]) for prompt in prompts]
    width, layers = max(map(len, read)), list[Any](cache.layers)
    different = list(dict.fromkeys(read))
    for number, found in Passes(model, token_budget(model), kept=kept).prompts(different):
        ids = different[number]
        rows = [row for row, own in enumerate(read) if own == ids]
        for layer, (keys, values) in zip(layers, found, strict=True):
            if not layer.is_initialized:
                shape = len(read), keys.shape[0], width, keys.shape[2]
                layer.update(keys.new_zeros(shape), values.new_zeros(shape))
            layer.keys[rows, :, width - len(ids) :], layer.values[rows, :, width - len(ids) :] = keys, values


@contextmanager
def _own_defaults_set_aside(model: LanguageModel) -> Iterator[None]:
    """Set aside defaults of a model, such as a repetition penalty, that change which text is the most likely one."""
    before = model.model.generation_config
    model.model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.model.generation_config = before
