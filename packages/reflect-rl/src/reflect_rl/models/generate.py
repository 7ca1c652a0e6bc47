"""Batched generation for the reflection player, through Hugging Face's `generate` with its KV cache.

Wide models read the prompts before that, in passes of a size that is fast, each beginning that prompts share once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, GenerationConfig
from transformers.cache_utils import DynamicLayer

from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import Tree, backbone, reads_trees, wide
from reflect_rl.models.score import check_context, micro_batches, shared_rows, token_budget


def generate_greedy(model: LanguageModel, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[str]:
    """The most likely continuation of each prompt, without the end token; see `generate`."""
    return [text_of(model, ids) for ids in generate(model, prompts, max_new_tokens)]


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
    max_tokens: int = 16_384,
) -> list[list[int]]:
    """Tokens of a continuation of each prompt, up to the end token, which is included, or `max_new_tokens`.

    Args:
        model: a language model in eval mode.
        prompts: token ids, any lengths; rows of a batch are left-padded.
        max_new_tokens: length limit of a continuation.
        sampled: draw from the model's distribution, by torch's generator, instead of taking the most likely text.
        max_tokens: upper bound on the padded tokens of one batch, new tokens included.

    Raises:
        ModelError: prompt and `max_new_tokens` together exceed the model's context.
    """
    check_context(model, max(map(len, prompts), default=0), new=max_new_tokens)
    network: Any = model.model
    found: dict[int, list[int]] = {}
    # A row keeps keys and values for its prompt and for all new tokens.
    for group in micro_batches([len(prompt) + max_new_tokens for prompt in prompts], max_tokens):
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
                if wide(network.config) and min(len(prompts[i]) for i in group) > 1:
                    _read_without_last_tokens(model, [tuple(prompts[i]) for i in group], cache)
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
        for index, new in zip(group, output[:, width:].tolist(), strict=True):
            # Rows that ended early are filled up, with the end token where there is no padding token.
            found[index] = new[: new.index(model.end_id) + 1] if model.end_id in new else new
    return [found[i] for i in range(len(prompts))]


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


def _read_without_last_tokens(model: LanguageModel, prompts: Sequence[tuple[int, ...]], cache: DynamicCache) -> None:
    """Fill an empty cache with prompts, padded on the left, but for their last token, which `generate` reads itself."""
    network: Any = model.model
    read = [prompt[:-1] for prompt in prompts]
    width = max(map(len, read))
    places = [range(len(prompt)) for prompt in read]
    for rows in shared_rows(model, read, places, [len(prompt) + 1 for prompt in read], token_budget(model)):
        found = DynamicCache(config=network.config)
        options: dict[str, Any] = {}
        if any(row.branches for row in rows):
            tree = Tree.of([row.parents for row in rows], model.device)
            options = {"attention_mask": tree.mask.to(network.dtype), "position_ids": tree.depths}
        ids = pad_sequence([torch.tensor(row.ids) for row in rows], batch_first=True).to(model.device)
        backbone(network)(input_ids=ids, past_key_values=found, use_cache=True, **options)
        layers: Any = zip(cache.layers, found.layers, strict=True)
        for whole, layer in layers:
            parts: tuple[torch.Tensor, ...] = (layer.keys, layer.values)
            if not whole.is_initialized:
                whole.update(*(part.new_zeros(len(read), part.shape[1], width, part.shape[3]) for part in parts))
            for k, row in enumerate(rows):
                for prompt, columns in row.places.items():
                    for into, part in zip((whole.keys, whole.values), parts, strict=True):
                        into[prompt, :, width - len(columns) :] = part[k, :, columns]


@contextmanager
def _own_defaults_set_aside(model: LanguageModel) -> Iterator[None]:
    """Set aside defaults of a model, such as a repetition penalty, that change which text is the most likely one."""
    before = model.model.generation_config
    model.model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.model.generation_config = before
