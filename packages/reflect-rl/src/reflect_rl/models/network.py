"""The forward pass of the policy and its critic, as one module.

Whatever wraps a module to train it on several processes (DDP, FSDP, DeepSpeed) must see every pass, so the projection
onto the vocabulary and the critic's head are inside.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

if TYPE_CHECKING:
    from reflect_rl.models.load import LanguageModel

REUSE_WIDTH, REUSE_TOKENS = 512, 128
"""Smallest hidden size, and fewest tokens saved, from which rows that begin alike share that computation."""


def reuses(config: Any) -> bool:
    """Tell whether rows that begin alike share that computation: in wide models, without a backward pass to slow."""
    return bool(config.hidden_size >= REUSE_WIDTH) and not torch.is_grad_enabled()


class Read(NamedTuple):
    """Results of a pass at M positions of a padded batch. V: rows of the vocabulary that were asked for."""

    hidden: Tensor
    """(M, H) hidden states of the last layer."""
    logits: Tensor
    """(M, V) float32."""
    values: Tensor | None
    """(M, outputs) float32, None without a critic."""


class Network(nn.Module):
    """The language model, and the critic's head if there is one."""

    def __init__(self, model: LanguageModel, head: nn.Module | None = None) -> None:
        super().__init__()
        self.language_model: Any = model.model
        self.head = head
        self.mixed = model.mixed

    def forward(self, input_ids: Tensor, rows: Tensor, columns: Tensor, vocabulary: Tensor | None = None) -> Read:
        """Read the positions (rows[m], columns[m]).

        Args:
            input_ids: (N, T) right-padded.
            rows: (M,) sequence of each position.
            columns: (M,) place of each position in its sequence.
            vocabulary: (V,) tokens whose logits are wanted, None = all.
        """
        with torch.autocast(input_ids.device.type, torch.bfloat16, enabled=self.mixed):
            shared, cached = self._beginning(input_ids, columns)
            # No mask: padding is on the right, where causal attention never looks.
            states = self._backbone()(input_ids=input_ids[:, shared:], attention_mask=None, **cached)
            # Only these positions are projected: logits of all would be the largest tensor of the pass.
            hidden = states.last_hidden_state[rows, columns - shared]
            logits = self._project(hidden, vocabulary).float()
        return Read(hidden, logits, None if self.head is None else self.head(hidden))

    def _beginning(self, input_ids: Tensor, columns: Tensor) -> tuple[int, dict[str, Any]]:
        """Length of a beginning that all rows share and nobody reads, and its keys and values for the rest of the pass.

        It is computed as one row, where `reuses` says so.
        """
        backbone, count = self._backbone(), len(input_ids)
        if reuses(self.language_model.config) and "past_key_values" in signature(backbone.forward).parameters:
            shared = min(int((input_ids == input_ids[0]).all(0).cumprod(0).sum()), int(columns.min()))
            cache = DynamicCache(config=self.language_model.config)
            # Other layers keep a sliding window or a recurrent state, which is not one column for each token.
            if shared * (count - 1) >= REUSE_TOKENS and all(type(layer) is DynamicLayer for layer in cache.layers):
                kept = {"use_cache": True, "past_key_values": cache}
                backbone(input_ids=input_ids[:1, :shared], attention_mask=None, **kept)
                # With checkpointed activations a model in training keeps nothing.
                if cache.get_seq_length() == shared:
                    cache.batch_repeat_interleave(count)
                    return shared, kept
        return 0, {"use_cache": False}

    def _backbone(self) -> nn.Module:
        outer = self.language_model
        # PEFT changes layers in place, so the model inside has the adapters as well.
        base = outer.get_base_model() if hasattr(outer, "get_base_model") else outer
        backbone: nn.Module = getattr(base, base.base_model_prefix)
        return backbone

    def _project(self, hidden: Tensor, vocabulary: Tensor | None) -> Tensor:
        head = self.language_model.get_output_embeddings()
        weight = head.weight if vocabulary is None else head.weight[vocabulary]
        bias = getattr(head, "bias", None)
        logits = nn.functional.linear(hidden, weight, bias if bias is None or vocabulary is None else bias[vocabulary])
        # Gemma 2 caps its logits; `check_scoring` refuses models that do anything else to theirs.
        cap = getattr(self.language_model.config, "final_logit_softcapping", None)
        return logits if cap is None else torch.tanh(logits / cap) * cap


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
