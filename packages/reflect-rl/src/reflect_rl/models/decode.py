"""Writing on a GPU: reading the prompts is a CUDA graph, and so is the step that adds a token to each row.

Keys and values have room for all tokens to come, and a mask hides what is not read, so that every step has one shape.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from reflect_rl.models.graphs import KEPT_SHAPES, Replay, captured, capturing, columns_of, rounded, state_of
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.memory import written_tokens
from reflect_rl.models.network import Network, backbone, context_of

LEAST_ROWS = 8
"""A step of fewer rows takes as long; padded to so many, batches that shrink have few shapes."""
LOOK = 8
"""Steps between two looks whether all rows have ended; each look waits for the GPU."""


class _PlacedLayer(DynamicLayer):
    """Keys and values of a layer in tensors that stay: those of prompts at their beginning, a new one at a place."""

    def __init__(self, sides: tuple[Tensor, Tensor], place: Tensor) -> None:
        super().__init__()
        self.sides, self.place = sides, place

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens, (N, heads, new, d); those of all columns that are read."""
        new = key_states, value_states
        if key_states.shape[2] > 1:
            for side, part in zip(self.sides, new, strict=True):
                side[:, :, : part.shape[2]] = part
            return new
        for side, part in zip(self.sides, new, strict=True):
            side.index_copy_(2, self.place, part)
        return self.sides


@dataclass(frozen=True)
class _Batch:
    """Tensors of R prompts of T tokens and C columns, on which the two steps work."""

    cache: DynamicCache
    prompts: Tensor
    """(R, T) padded on the right."""
    ends: Tensor
    """(R,) place of the last token of each prompt."""
    ids: Tensor
    """(R, 1) the token that each row has written last."""
    positions: Tensor
    """(R, 1) its position in its row's text."""
    place: Tensor
    """(1,) the column in which it stands, from T."""
    mask: Tensor
    """(R, 1, 1, C) 0 where a column is seen, the lowest number elsewhere."""
    written: Tensor
    """(R, C) tokens by column."""


@dataclass
class _Memory:
    """Things of a model that stay between two batches."""

    layout: list[tuple[int, int, torch.dtype]] = field(default_factory=list)
    """Heads, numbers a head and their format: of the keys and the values of each layer."""
    storage: list[Tensor] = field(default_factory=list)
    """Bytes of keys and values; batches of all shapes lie in the same place."""
    shapes: OrderedDict[tuple[int, ...], tuple[_Batch, list[Replay] | None]] = field(default_factory=OrderedDict)
    """By rows, tokens, columns, sampling, capturing and `state_of`; None where there are no graphs."""
    pool: Any = None
    possible: bool = True
    """No capture has failed."""


_MEMORIES: WeakKeyDictionary[LanguageModel, _Memory] = WeakKeyDictionary()


def written(model: LanguageModel, prompts: Sequence[Sequence[int]], max_new_tokens: int, *, sampled: bool) -> Tensor:
    """(N, max_new_tokens) tokens that follow each prompt; what stands behind a row's end token means nothing.

    Args:
        model: a model that reads trees, in eval mode. Its weights may change between two calls, but only in place.
        prompts: N prompts, of at least one token each.
        max_new_tokens: tokens to write.
        sampled: see `generate`.
    """
    count, longest = len(prompts), max(map(len, prompts))
    limit = context_of(model.model.config)
    # A prompt of one token would look like a step.
    tokens = max(2, longest, min(columns_of(longest), limit or longest))
    rows = [[*prompt, *[0] * (tokens - len(prompt))] for prompt in prompts]
    # Weights that autocast has cast once would stay the same in a graph, whatever they become.
    cast = torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed, cache_enabled=False)
    # Tensors that are made in inference mode could not be written to outside of it.
    with torch.inference_mode(False), torch.no_grad(), cast:
        columns = columns_of(tokens + max_new_tokens)
        batch, replays = _shape(model, _height(model, count, columns), tokens, columns, sampled=sampled)
        batch.prompts[:count] = torch.tensor(rows, device=model.device)
        batch.ends[:count] = torch.tensor([len(prompt) - 1 for prompt in prompts], device=model.device)
        steps = partial(_read, model, batch, sampled=sampled), partial(_advance, model, batch, sampled=sampled)
        read, advance = replays or steps
        read()
        for number in range(1, max_new_tokens):
            new = batch.written[:count, tokens : tokens + number]
            if number % LOOK == 0 and bool((new == model.end_id).any(1).all()):
                break
            advance()
    return batch.written[:count, tokens : tokens + max_new_tokens].clone()


def _height(model: LanguageModel, count: int, columns: int) -> int:
    """Rows of a batch of `count` prompts, padded as far as memory allows."""
    if model.device.type != "cuda":
        return rounded(count)
    most = written_tokens(model.model.config, model.model.dtype.itemsize, on_gpu=True) // columns
    return max(rounded(count), min(LEAST_ROWS, most))


def _chosen(model: LanguageModel, states: Tensor, *, sampled: bool) -> Tensor:
    """(R, 1) the likeliest token after each hidden state (R, H), or a drawn one."""
    logits = Network(model).project(states).float()
    if not sampled:
        return logits.argmax(-1, keepdim=True)
    # `torch.multinomial` in its own words: a graph may draw numbers, but not check them on the processor.
    chances = torch.softmax(logits, -1)
    return (chances / torch.empty_like(chances).exponential_()).argmax(-1, keepdim=True)


def _read(model: LanguageModel, batch: _Batch, *, sampled: bool) -> None:
    """Read the prompts, and write the first token after each."""
    rows, tokens = batch.prompts.shape
    # No mask: padding is on the right, where causal attention never looks.
    states = backbone(model.model)(
        input_ids=batch.prompts, attention_mask=None, use_cache=True, past_key_values=batch.cache
    ).last_hidden_state
    last = states.gather(1, batch.ends[:, None, None].expand(rows, 1, states.shape[2]))[:, 0]
    batch.ids.copy_(_chosen(model, last, sampled=sampled))
    batch.positions.copy_(batch.ends[:, None] + 1)
    batch.place.fill_(tokens)
    batch.written.index_copy_(1, batch.place, batch.ids)
    batch.mask.fill_(torch.finfo(torch.bfloat16).min)
    seen = torch.arange(tokens, device=batch.ends.device) <= batch.ends[:, None]
    batch.mask[:, 0, 0, :tokens].masked_fill_(seen, 0.0)


def _advance(model: LanguageModel, batch: _Batch, *, sampled: bool) -> None:
    """Read the last token of each row, and write the one that follows it."""
    batch.mask.index_fill_(3, batch.place, 0.0)
    states = backbone(model.model)(
        input_ids=batch.ids,
        attention_mask=batch.mask,
        position_ids=batch.positions,
        use_cache=True,
        past_key_values=batch.cache,
    ).last_hidden_state
    batch.ids.copy_(_chosen(model, states[:, -1], sampled=sampled))
    batch.positions.add_(1)
    batch.place.add_(1)
    batch.written.index_copy_(1, batch.place, batch.ids)


def _shape(
    model: LanguageModel, rows: int, tokens: int, columns: int, *, sampled: bool
) -> tuple[_Batch, list[Replay] | None]:
    """A batch of this shape, and the graphs of its two steps."""
    memory = _MEMORIES.setdefault(model, _Memory())
    memory.layout = memory.layout or _layout(model)
    shapes = [(rows, heads, columns, each) for heads, each, _ in memory.layout]
    kinds = [kind for *_, kind in memory.layout]
    sizes = [torch.Size(shape).numel() * kind.itemsize for shape, kind in zip(shapes, kinds, strict=True)]
    if not memory.storage or memory.storage[0].numel() < sizes[0]:
        # Graphs know the old places.
        memory.shapes.clear()
        memory.storage.clear()
        memory.storage += [torch.zeros(size, dtype=torch.uint8, device=model.device) for size in sizes]
    key = rows, tokens, columns, sampled, capturing(), state_of(model.model)
    if key not in memory.shapes:
        parts = [
            held[:size].view(kind).view(shape)
            for held, size, kind, shape in zip(memory.storage, sizes, kinds, shapes, strict=True)
        ]
        batch = _batch(model, parts, rows, tokens, columns)
        memory.shapes[key] = batch, _graphs(model, batch, memory, sampled=sampled)
        if len(memory.shapes) > KEPT_SHAPES:
            memory.shapes.popitem(last=False)
    memory.shapes.move_to_end(key)
    return memory.shapes[key]


def _layout(model: LanguageModel) -> list[tuple[int, int, torch.dtype]]:
    """Heads, numbers a head and format of the keys and values of each layer, seen at one token."""
    cache = DynamicCache(config=model.model.config)
    one = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    backbone(model.model)(input_ids=one, attention_mask=None, use_cache=True, past_key_values=cache)
    layers: list[Any] = cache.layers
    return [(side.shape[1], side.shape[3], side.dtype) for layer in layers for side in (layer.keys, layer.values)]


def _batch(model: LanguageModel, parts: Sequence[Tensor], rows: int, tokens: int, columns: int) -> _Batch:
    device = model.device
    place = torch.zeros(1, dtype=torch.long, device=device)
    cache = DynamicCache(config=model.model.config)
    cache.layers = [_PlacedLayer(sides, place) for sides in zip(parts[::2], parts[1::2], strict=True)]
    numbers = partial(torch.zeros, dtype=torch.long, device=device)
    mask = torch.zeros(rows, 1, 1, columns, dtype=model.model.dtype, device=device)
    return _Batch(
        cache, numbers(rows, tokens), numbers(rows), numbers(rows, 1), numbers(rows, 1), place, mask,
        numbers(rows, columns),
    )  # fmt: skip


def _graphs(model: LanguageModel, batch: _Batch, memory: _Memory, *, sampled: bool) -> list[Replay] | None:
    if model.device.type != "cuda" or not capturing() or not memory.possible:
        return None
    memory.pool = memory.pool or torch.cuda.graph_pool_handle()
    steps = (partial(step, model, batch, sampled=sampled) for step in (_read, _advance))
    replays = captured(model.device, memory.pool, *steps)
    memory.possible = replays is not None
    return replays
