"""The forward pass of the policy and its critic, as one module.

Whatever wraps a module to train it on several processes (DDP, FSDP, DeepSpeed) must see every pass, so the projection
onto the vocabulary and the critic's head are inside.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from reflect_rl.models.attention import ATTENTION
from reflect_rl.models.graphs import Graphs
from reflect_rl.models.kept import Layers
from reflect_rl.models.prefixes import ROW_TOKENS

if TYPE_CHECKING:
    from reflect_rl.models.load import LanguageModel

GRAPHS = "_reflect_rl_graphs"
"""Attribute of a network that holds its captured passes, which end with it."""
READS_TREES = "_reflect_rl_reads_trees"
"""Attribute of a network that says whether it has read a tree right."""
ROUNDING, COARSE_ROUNDING = 0.01, 0.1
"""Largest mean errors of vectors, as parts of their length, that rounding explains: in float32, and otherwise.

Hidden states of SmolLM2-135M differ by 1e-6, and by 0.01 in bfloat16, those of a model that misreads a tree by 0.5.
"""
REUSE_WIDTH, REUSE_WIDTH_ON_GPU, REUSE_TOKENS = 512, 2048, 128
"""Smallest hidden sizes, and fewest tokens saved, from which rows that begin alike share that computation."""


def wide(config: Any, *, on_gpu: bool) -> bool:
    """Tell whether a model is so wide that rows which begin alike should share that computation.

    On a GPU the arithmetic of narrower ones takes less time than to gather what is shared.
    """
    return bool(config.hidden_size >= (REUSE_WIDTH_ON_GPU if on_gpu else REUSE_WIDTH))


def shares(network: Any, *, together: bool = False) -> bool:
    """Tell whether a model, where it is, should read once what rows begin with alike.

    Args:
        network: the model.
        together: rows that begin alike were put together for this; then narrow models share, too, on a processor.
    """
    on_gpu = next(network.parameters()).device.type == "cuda"
    return wide(network.config, on_gpu=on_gpu) or (together and not on_gpu)


class Read(NamedTuple):
    """Results of a pass at M positions of a padded batch. V: rows of the vocabulary that were asked for."""

    hidden: Tensor
    """(M, H) hidden states of the last layer."""
    logits: Tensor
    """(M, V) float32."""
    values: Tensor | None
    """(M, outputs) float32, None without a critic."""


class Past(NamedTuple):
    """Tokens that were read before the rows of a pass, which adds its own."""

    cache: DynamicCache
    """Keys and values, (N, heads, P, d) in each layer, padded on the left; empty where nothing was read."""
    lengths: Tensor
    """(N,) tokens of each row."""

    @classmethod
    def of(cls, rows: Sequence[Layers], count: int, model: LanguageModel) -> Past:
        """Keys and values read before each of `count` rows; no `rows` = nothing."""
        cache = DynamicCache(config=model.model.config)
        lengths = [row[0][0].shape[1] for row in rows] or [0] * count
        # Padded on the left, so that the tokens to come follow at once.
        short = [max(lengths) - length for length in lengths]
        for number, layer in enumerate(zip(*rows, strict=True)):
            keys, values = (
                torch.stack([nn.functional.pad(part, (0, 0, n, 0)) for part, n in zip(side, short, strict=True)])
                for side in zip(*layer, strict=True)
            )
            cache.update(keys, values, number)
        return cls(cache, torch.tensor(lengths, device=model.device))

    def layers(self, row: int, places: Sequence[int]) -> Layers:
        """Keys and values read before a row and, after the pass, at these places of it."""
        before = int(self.lengths.max())
        start = before - int(self.lengths[row])
        own = torch.tensor([*range(start, before), *(before + place for place in places)], device=self.lengths.device)
        caches: Any = self.cache.layers
        return [(layer.keys[row][:, own], layer.values[row][:, own]) for layer in caches]


class Tree(NamedTuple):
    """Rows of N trees of at most T tokens, which a model reads as it reads sequences: each path as if it were alone."""

    depths: Tensor
    """(N, T) position of each token on its path."""
    mask: Tensor
    """(N, 1, T, T) 0 where a token sees another one, the lowest number where it does not."""

    @classmethod
    def of(cls, parents: Sequence[Sequence[int]], device: torch.device) -> Tree:
        """The trees of these parents, the place before each token on its path; -1 for the first of a tree.

        Args:
            parents: of each row, one place for each of its tokens, at least one.
            device: where they are wanted.
        """
        longest = max(map(len, parents))
        depths = np.zeros((len(parents), longest), np.int64)
        sees = np.zeros((len(parents), longest, longest), bool)
        # Padding sees itself: a token that sees nothing would be NaN.
        sees[:, range(longest), range(longest)] = True
        before = np.tri(longest, dtype=bool)
        for row, places in enumerate(parents):
            own = np.asarray(places)
            # Tokens that follow one another see what the first of them sees, and those between. Trees may stand side
            # by side; the first token of one follows none.
            starts = [0, *(np.flatnonzero(own[1:] != np.arange(len(own) - 1)) + 1).tolist()]
            for start, end in itertools.pairwise([*starts, len(own)]):
                parent, count = int(own[start]), end - start
                depths[row, start:end] = np.arange(count) + (depths[row, parent] + 1 if parent >= 0 else 0)
                if parent >= 0:
                    sees[row, start:end, :start] = sees[row, parent, :start]
                sees[row, start:end, start:end] = before[:count, :count]
        lowest = torch.finfo(torch.bfloat16).min
        # Moved first: as numbers it is four times as large.
        mask = torch.where(torch.from_numpy(sees).to(device), 0.0, lowest)[:, None]
        return cls(torch.from_numpy(depths).to(device), mask)

    def behind(self, past: Past) -> Tree:
        """The trees as they go on from what was read before, which each of their tokens sees."""
        longest = past.cache.get_seq_length()
        padding = torch.arange(longest, device=self.mask.device) < longest - past.lengths[:, None]
        mask = self.mask.new_zeros(*self.mask.shape[:3], longest)
        mask = mask.masked_fill(padding[:, None, None], torch.finfo(torch.bfloat16).min)
        return Tree(self.depths + past.lengths[:, None], torch.cat([mask, self.mask], -1))


def reads_trees(model: LanguageModel) -> bool:
    """Tell whether a model can read trees: only the mask hides tokens, and positions are numbers that it is given.

    Not so where attention is a window, a recurrence, or biased by distances in the row. What a model does not say of
    itself shows in a small tree, which it reads once.
    """
    network: Any = model.model
    if not _plain(network):
        return False
    # Without weights, nothing can be tried.
    if model.device.type == "meta":
        return True
    if READS_TREES not in vars(network):
        vars(network)[READS_TREES] = _reads_a_tree(model)
    return bool(vars(network)[READS_TREES])


def _plain(network: Any) -> bool:
    known = "position_ids" in signature(backbone(network).forward).parameters
    config = network.config
    plain = config._attn_implementation in (ATTENTION, "sdpa", "eager") and not getattr(config, "alibi", False)
    return known and plain and all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)


def _reads_a_tree(model: LanguageModel) -> bool:
    """Tell whether a model reads two branches, far behind their beginning in a row, as it reads each by itself."""
    network: Any = model.model
    training = [module for module in network.modules() if module.training]
    network.eval()
    try:
        with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed):
            together, alone = _two_branches(model)
    except torch.OutOfMemoryError:
        raise
    except Exception:  # what an architecture does with a mask that it does not expect is any exception
        return False
    finally:
        for module in training:
            module.training = True
    return alike(model, together, alone)


def _two_branches(model: LanguageModel) -> tuple[Tensor, Tensor]:
    """Hidden states (2, 3, H) of two branches behind one beginning: in one row, and in a row for each."""
    network: Any = model.model
    inside, device, begun = backbone(network), model.device, 6
    # Usual tokens: of others, rounding to bfloat16 alone can change the half of a hidden state.
    ids = torch.tensor((model.encode("0 1 2 3") * 12)[:12], device=device)
    start, ways = ids[:begun], ids[begun:].view(2, 3)
    alone = inside(input_ids=torch.cat([start.expand(2, -1), ways], 1), attention_mask=None, use_cache=False)
    cache = DynamicCache(config=network.config)
    inside(input_ids=start[None], attention_mask=None, use_cache=True, past_key_values=cache)
    # Between the two are as many hidden columns as other prompts may take, which a window of columns would not bridge.
    far = max(0, min(ROW_TOKENS, context_of(network.config) or ROW_TOKENS) - len(ids))
    layers: Any = cache.layers
    for layer in layers:
        layer.keys, layer.values = (nn.functional.pad(part, (0, 0, 0, far)) for part in (layer.keys, layer.values))
    tree = Tree.of([[-1, 0, 1, -1, 3, 4]], device)
    hidden = nn.functional.pad(tree.mask, (far, 0), value=torch.finfo(torch.bfloat16).min)
    together = inside(
        input_ids=ways.view(1, -1),
        attention_mask=nn.functional.pad(hidden, (begun, 0)).to(network.dtype),
        position_ids=tree.depths + begun,
        use_cache=True,
        past_key_values=cache,
    )
    expected = alone.last_hidden_state[:, begun:].float()
    return together.last_hidden_state.view_as(expected).float(), expected


def alike(model: LanguageModel, found: Tensor, expected: Tensor) -> bool:
    """Tell whether vectors (..., size) of a model, computed in two ways, differ by no more than rounding explains."""
    network: Any = model.model
    coarse = model.mixed or network.dtype is not torch.float32 or hasattr(network, "quantization_method")
    # The mean: in bfloat16 a single token may come to another expert.
    error = ((found - expected).norm(dim=-1) / expected.norm(dim=-1)).mean()
    return bool(error < (COARSE_ROUNDING if coarse else ROUNDING))


def pads_left(network: Any) -> bool:
    """Tell whether a row may begin with padding: a model is given the positions, or it has no table of them.

    Decoders of BART's family, and recurrent ones that take no mask, count every column.
    """
    given = signature(backbone(network).forward).parameters
    return "position_ids" in given or ("attention_mask" in given and context_of(network.config) is None)


def context_of(config: Any) -> int | None:
    """Most tokens of a text that a model can read; None for architectures without a table of positions (Bloom, Mamba).

    With LongRoPE a longer text turns all positions of a pass by other factors, also those of the texts beside it, so
    the context ends where the short factors do.
    """
    rope = getattr(config, "rope_parameters", None) or {}
    parts = [part for part in (rope, *rope.values()) if isinstance(part, dict) and part.get("rope_type") == "longrope"]
    limits = [getattr(config, "max_position_embeddings", None)]
    limits += [part.get("original_max_position_embeddings") for part in parts]
    return min((limit for limit in limits if limit is not None), default=None)


class Network(nn.Module):
    """The language model, and the critic's head if there is one."""

    def __init__(self, model: LanguageModel, head: nn.Module | None = None) -> None:
        super().__init__()
        self.language_model: Any = model.model
        self.head = head
        self.mixed = model.mixed

    def forward(
        self,
        input_ids: Tensor,
        rows: Tensor,
        columns: Tensor,
        vocabulary: Tensor | None = None,
        tree: Tree | None = None,
        past: Past | None = None,
        begun: AbstractContextManager[None] | None = None,
    ) -> Read:
        """Read the positions (rows[m], columns[m]).

        Args:
            input_ids: (N, T) right-padded.
            rows: (M,) sequence of each position.
            columns: (M,) place of each position in its sequence.
            vocabulary: (V,) tokens whose logits are wanted, None = all.
            tree: what follows what, where the rows are no plain sequences.
            past: what was read before, if the rows are trees, or where keys and values are wanted.
            begun: puts what the lowest trained block reads in the place of the blocks below (`models/frozen.py`).
        """
        kind = input_ids.device.type
        # A graph must not hold weights that were cast before it.
        with torch.autocast(kind, torch.bfloat16, enabled=self.mixed, cache_enabled=kind != "cuda"):
            shared, options = 0, dict[str, Any](use_cache=False)
            if past is None and begun is None:
                shared, options = self._beginning(input_ids, columns)
            elif past is not None:
                options = {"use_cache": True, "past_key_values": past.cache}
                tree = tree.behind(past) if tree is not None else None
            # No mask otherwise: padding is on the right, where causal attention never looks.
            options["attention_mask"] = None
            if tree is not None:
                options["attention_mask"] = tree.mask[:, :, shared:].to(self.language_model.dtype)
                options["position_ids"] = tree.depths[:, shared:]
            states = None if shared or past is not None or begun is not None else self._replayed(input_ids, options)
            if states is None:
                inside = backbone(self.language_model)
                with begun or nullcontext():
                    states = inside(input_ids=input_ids[:, shared:], **options).last_hidden_state
            # Only these positions are projected: logits of all would be the largest tensor of the pass.
            hidden = states[rows, columns - shared]
            logits = self.project(hidden, vocabulary).float()
        return Read(hidden, logits, None if self.head is None else self.head(hidden))

    def _replayed(self, input_ids: Tensor, options: dict[str, Any]) -> Tensor | None:
        """Hidden states of a pass that a GPU replays; None where it has to run as it is."""
        network = self.language_model
        if input_ids.device.type != "cuda" or hasattr(network, "quantization_method") or not _plain(network):
            return None
        held = vars(network).setdefault(GRAPHS, Graphs())
        parts = {name: part for name, part in options.items() if isinstance(part, Tensor)}
        most = context_of(network.config) or sys.maxsize
        lowest = torch.finfo(torch.bfloat16).min
        states: Tensor = held.states(backbone(network), {"input_ids": input_ids, **parts}, most, lowest)
        return states

    def _beginning(self, input_ids: Tensor, columns: Tensor) -> tuple[int, dict[str, Any]]:
        """Length of a beginning that all rows share and nobody reads, and its keys and values for the rest of the pass.

        It is computed as one row, in wide models and without a backward pass to slow.
        """
        inside, count = backbone(self.language_model), len(input_ids)
        reuses = shares(self.language_model) and not torch.is_grad_enabled()
        if reuses and "past_key_values" in signature(inside.forward).parameters:
            shared = min(int((input_ids == input_ids[0]).all(0).cumprod(0).sum()), int(columns.min()))
            cache = DynamicCache(config=self.language_model.config)
            # Other layers keep a sliding window or a recurrent state, which is not one column for each token.
            if shared * (count - 1) >= REUSE_TOKENS and all(type(layer) is DynamicLayer for layer in cache.layers):
                kept = {"use_cache": True, "past_key_values": cache}
                inside(input_ids=input_ids[:1, :shared], attention_mask=None, **kept)
                # With checkpointed activations a model in training keeps nothing.
                if cache.get_seq_length() == shared:
                    cache.batch_repeat_interleave(count)
                    return shared, kept
        return 0, {"use_cache": False}

    def project(self, hidden: Tensor, vocabulary: Tensor | None = None) -> Tensor:
        """Logits of hidden states (M, H) for these rows of the vocabulary, None = all."""
        head = self.language_model.get_output_embeddings()
        weight = head.weight if vocabulary is None else head.weight[vocabulary]
        bias = getattr(head, "bias", None)
        logits = nn.functional.linear(hidden, weight, bias if bias is None or vocabulary is None else bias[vocabulary])
        # Gemma 2 caps its logits; `check_scoring` refuses models that do anything else to theirs.
        cap = getattr(self.language_model.config, "final_logit_softcapping", None)
        return logits if cap is None else torch.tanh(logits / cap) * cap


def backbone(outer: Any) -> nn.Module:
    """The model without its projection onto the vocabulary."""
    # PEFT changes layers in place, so the model inside has the adapters as well.
    base = outer.get_base_model() if hasattr(outer, "get_base_model") else outer
    # The prefix of Llama 4 is that of a model which sees, too.
    inside: nn.Module = getattr(base, base.base_model_prefix if hasattr(base, base.base_model_prefix) else "model")
    return inside


class ValueHead(nn.Module):
    """Linear or one-hidden-layer head with one output (V) or one per action (Q).

    The hidden state is detached: on small models a value gradient into the trunk destroys the policy. The output layer
    starts at zero, so that the first advantages are plain returns.
    """

    def __init__(self, hidden_size: int, kind: Literal["linear", "mlp"] = "linear", outputs: int = 1) -> None:
        super().__init__()
        last = nn.Linear(hidden_size, outputs)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = last if kind == "linear" else nn.Sequential(nn.Linear(hidden_size, hidden_size), nn.Tanh(), last)

    def forward(self, hidden: Tensor) -> Tensor:
        """Values (N, outputs) of hidden states (N, H), in float32."""
        values: Tensor = self.layers(hidden.detach().to(torch.float32))
        return values
