"""Hidden states of frozen blocks, kept: below the trained blocks each prompt is read once.

With `model.train_layers` the blocks below never change, and a game's prompts come back in every pass over supervised
rows and in update after update. On a processor, later passes compute the trained blocks alone.

Each prompt is read by itself, so what is kept does not depend on the pass in which it first came, and an interrupted
training goes on to the same weights.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reflect_rl.models.network import alike, backbone, context_of
from reflect_rl.models.trainable import blocks_of

if TYPE_CHECKING:
    from reflect_rl.models.load import LanguageModel

KEPT_BYTES = 2**30
"""Most bytes of hidden states that are kept: about 2,700 prompts of 170 tokens with SmolLM2-135M in float32."""

FROZEN = "_reflect_rl_frozen"
"""Attribute of a network that holds its `FrozenBlocks`, which end with it."""


class FrozenBlocks:
    """The blocks below the lowest trained one; the oldest prompts go first where all take more than `most_bytes`."""

    def __init__(self, model: LanguageModel, count: int, most_bytes: int = KEPT_BYTES) -> None:
        self.network: Any = model.model
        self.mixed, self.count, self.most_bytes = model.mixed, count, most_bytes
        self.owner, self.name = blocks_of(self.network)
        self.below: list[nn.Module] = list(getattr(self.owner, self.name))[:count]
        self.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenBlocks:
        """Frozen blocks of a copy of the network, which has read nothing yet."""
        twin = copy.copy(self)
        memo[id(self)] = twin
        for name in ("network", "owner", "below"):
            setattr(twin, name, copy.deepcopy(getattr(self, name), memo))
        twin.clear()
        return twin

    def clear(self) -> None:
        """Forget all prompts."""
        self._version: list[tuple[int, int]] = []
        self._held: dict[tuple[int, ...], Tensor] = {}
        self.bytes = 0

    def states(self, prompt: Sequence[int]) -> Tensor:
        """(T, H) what the lowest trained block reads of the T tokens of a prompt."""
        key = tuple(prompt)
        states = self._held.pop(key, None)
        if states is None:
            states = self._read(key)
            self.bytes += _bytes(states)
        # The last place is that of the latest.
        self._held[key] = states
        while self.bytes > self.most_bytes:
            self.bytes -= _bytes(self._held.pop(next(iter(self._held))))
        return states

    @contextmanager
    def replaced(self, states: Tensor) -> Iterator[None]:
        """Let passes of the network begin above the frozen blocks, with these hidden states (N, T, H)."""
        blocks: Any = getattr(self.owner, self.name)
        stand_ins = [_StandIn(block, states) for block in self.below]
        setattr(self.owner, self.name, nn.ModuleList([*stand_ins, *blocks[self.count :]]))
        try:
            yield
        finally:
            setattr(self.owner, self.name, blocks)

    def check(self) -> bool:
        """Tell whether the blocks are frozen and whole; prompts are forgotten if the weights are other ones.

        Once for each call that scores: it looks at every weight.
        """
        weights = self._weights()
        version = [(id(weight), weight._version) for weight in weights]
        if version != self._version:
            self.clear()
            self._version = version
        # A sharded weight is a part of itself, which a pass outside the wrapped module cannot use.
        return not any(weight.requires_grad or hasattr(weight, "full_tensor") for weight in weights)

    def _weights(self) -> list[nn.Parameter]:
        """All weights but those of the trained blocks, as they are now: what shards a network replaces them."""
        above = {id(weight) for block in getattr(self.owner, self.name)[self.count :] for weight in block.parameters()}
        return [weight for weight in self.network.parameters() if id(weight) not in above]

    @torch.no_grad()
    def _read(self, prompt: tuple[int, ...]) -> Tensor:
        """Run a prompt through the frozen blocks alone, in eval mode."""
        training = [module for module in self.network.modules() if module.training]
        self.network.eval()
        handle = self.below[-1].register_forward_hook(_stop)
        try:
            with torch.autocast("cpu", torch.bfloat16, enabled=self.mixed):
                ids = torch.tensor([prompt])
                backbone(self.network)(input_ids=ids, attention_mask=None, use_cache=False)
        except _ReachedError as reached:
            return reached.states[0]
        finally:
            handle.remove()
            for module in training:
                module.training = True
        raise RuntimeError("the pass did not come through the frozen blocks")


def keep_frozen(model: LanguageModel, trained: int) -> None:
    """Keep the hidden states below the last `trained` blocks of a network, if it can be done and pays.

    Not on a GPU, where passes are replayed whole, nor for a network that does more with its blocks than run one after
    the other, which shows on a short prompt.
    """
    network: Any = model.model
    count = int(network.config.num_hidden_layers) - trained
    if count <= 0 or model.device.type != "cpu" or hasattr(network, "quantization_method"):
        return
    found = FrozenBlocks(model, count)
    if _is_plain(found, model):
        found.clear()
        vars(network)[FROZEN] = found


def frozen_of(network: Any) -> FrozenBlocks | None:
    """Frozen blocks of a network; None where nothing is kept, or they are trained after all, or weights are sharded."""
    found: FrozenBlocks | None = vars(network).get(FROZEN)
    return found if found is not None and found.check() else None


@torch.no_grad()
def _is_plain(frozen: FrozenBlocks, model: LanguageModel) -> bool:
    """Tell whether a network that begins above its frozen blocks reads a short prompt as the whole one does."""
    inside, ids = backbone(frozen.network), model.encode("0 1 2 3")[: context_of(frozen.network.config)]
    whole = {"input_ids": torch.tensor([ids]), "attention_mask": None, "use_cache": False}
    try:
        with torch.autocast("cpu", torch.bfloat16, enabled=model.mixed):
            expected = inside(**whole).last_hidden_state
            with frozen.replaced(frozen.states(ids)[None]):
                found = inside(**whole).last_hidden_state
    except torch.OutOfMemoryError:
        raise
    except Exception:  # what an architecture does without its lower blocks is any exception
        return False
    return alike(model, found.float(), expected.float())


class _ReachedError(Exception):
    """The frozen blocks were run."""

    def __init__(self, states: Tensor) -> None:
        self.states = states
        super().__init__()


def _stop(block: nn.Module, inputs: Any, output: Any) -> None:
    raise _ReachedError(output)


class _StandIn(nn.Module):
    """The place of a frozen block: gives what the last of them gave, whatever it is given."""

    def __init__(self, block: nn.Module, states: Tensor) -> None:
        super().__init__()
        # In a tuple, which no module takes for its own part.
        self._block, self._states = (block,), states

    def forward(self, *_: Any, **__: Any) -> Tensor:
        return self._states

    def __getattr__(self, name: str) -> Any:
        # Networks ask their blocks for settings, such as the kind of attention.
        return getattr(vars(self)["_block"][0], name)


def _bytes(states: Tensor) -> int:
    return states.numel() * states.element_size()
