"""Passes of a model on a GPU as CUDA graphs.

A pass of a small model is thousands of short kernels, and to launch them one by one takes several times as long as
their work. A graph launches them at once, forwards and backwards. It knows one shape, so rows and columns are rounded
up, and a shape is captured when it comes again. Where capturing is not possible, the pass runs as it is.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from reflect_rl.launch import collector_off

COLUMNS = 64
"""Columns of a pass are a multiple of it; of longer passes, of two or four times as much."""
SEEN = 8
"""Times that a shape is computed as it is. To capture takes as long as a capture saves in about so many passes."""
KEPT_SHAPES = 64
"""Most captured shapes of a model."""
UNUSED = 500
"""Passes since its last use after which a captured shape may give way to another."""
STATE = 2
"""Place of `state_of` in the key of a captured pass."""
WARM_UP = 2
"""Runs before a capture, in which libraries choose their kernels."""

Replay = Callable[[], None]


class _Switch:
    on = True


@contextmanager
def uncaptured() -> Iterator[None]:
    """Run every pass as it is, to compare or to look for a fault."""
    before, _Switch.on = _Switch.on, False
    try:
        yield
    finally:
        _Switch.on = before


def capturing() -> bool:
    """False inside `uncaptured`."""
    return _Switch.on


def rounded(count: int) -> int:
    """The number of rows, rounded up to a power of two or to three quarters of one.

    >>> [rounded(count) for count in (1, 3, 5, 9, 33, 49)]
    [1, 3, 6, 12, 48, 64]
    """
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 else power


def columns_of(tokens: int) -> int:
    """The number of columns, rounded up, so that long passes have few shapes.

    >>> columns_of(1), columns_of(64), columns_of(65), columns_of(513), columns_of(1025)
    (64, 64, 128, 640, 1280)
    """
    unit = COLUMNS * (1 if tokens <= 8 * COLUMNS else 2 if tokens <= 16 * COLUMNS else 4)
    return -(-tokens // unit) * unit


def captured(device: torch.device, pool: Any, *steps: Callable[[], object]) -> list[Replay] | None:
    """Graphs of steps that run one after the other and leave their results in tensors that stay.

    Nothing changes in what is drawn at random afterwards.

    Args:
        device: a GPU.
        pool: memory for what they compute; graphs that share it must not run in between.
        steps: what to capture.

    Returns:
        What replays each step; None where that is not possible, after a warning.
    """
    stream, now = _stream(device.index), torch.cuda.current_stream(device)
    # Before, and not inside: a graph that ends while another one is captured would break it.
    gc.collect()
    with torch.cuda.device(device), torch.random.fork_rng([now.device_index]), collector_off():
        try:
            stream.wait_stream(now)
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    for step in steps:
                        step()
            now.wait_stream(stream)
            return [_graph(step, pool, stream) for step in steps]
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            # A model that asks the processor in its midst, as one that chooses experts token by token. A capture that
            # fails leaves its stream behind, and torch's generator in a capture until one comes to its end.
            torch.cuda.set_stream(now)
            _graph(torch.zeros(1, device=device).zero_, None, stream)
            warnings.warn(f"passes of this model run slower, as they cannot be captured: {error}", stacklevel=2)
            return None


@cache
def _stream(index: int | None) -> torch.cuda.Stream:
    """The stream of all captures on a GPU: memory that one has freed can be taken again on the same stream alone."""
    return torch.cuda.Stream(index)


def _graph(step: Callable[[], object], pool: Any, stream: torch.cuda.Stream) -> Replay:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        step()
    return graph.replay


def state_of(network: nn.Module) -> int:
    """A number that changes where weights lie elsewhere, or others are trained: a graph then computes with old ones."""
    return hash(tuple((weight.data_ptr(), weight.requires_grad) for weight in network.parameters()))


class _Unread(DynamicLayer):
    """A layer of a cache that keeps nothing."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """The keys and values themselves."""
        return key_states, value_states


def _states(inside: Any, inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor] | None = None) -> Tensor:
    """Hidden states of the last layer, with other weights in the place of some."""
    options: dict[str, Any] = {"use_cache": False}
    if "attention_mask" not in inputs:
        # Without a cache, and while it is captured, transformers would build a mask for rows that may be several.
        cache = DynamicCache(config=inside.config)
        cache.layers = [_Unread() for _ in cache.layers]
        options = {"attention_mask": None, "use_cache": True, "past_key_values": cache}
    values = {**inputs, **options}
    found = torch.func.functional_call(inside, dict(weights), (), values) if weights else inside(**values)
    states: Tensor = found.last_hidden_state
    return states


def _padded(inputs: Mapping[str, Tensor], rows: int, columns: int, lowest: float) -> dict[str, Tensor]:
    """The inputs, padded at their ends."""
    found = {}
    for name, part in inputs.items():
        shape = (rows, 1, columns, columns) if name == "attention_mask" else (rows, columns)
        found[name] = part.new_full(shape, lowest if name == "attention_mask" else 0)
        found[name][tuple(slice(size) for size in part.shape)] = part
    return found


class _Pass:
    """A pass of one shape: hidden states of the last layer, and gradients of the weights if it learns."""

    def __init__(self, inside: Any, inputs: dict[str, Tensor], gradients: dict[str, Tensor], *, learns: bool) -> None:
        self.inside, self.inputs = inside, inputs
        trained = {name: weight for name, weight in inside.named_parameters() if weight.requires_grad and learns}
        # Tensors apart for autograd, in the memory of the weights: what autograd keeps for a weight belongs to the
        # stream of an earlier pass, and must not take part in a capture.
        self.weights = {name: weight.detach().requires_grad_() for name, weight in trained.items()}
        self.live: Tensor | None = None
        with torch.no_grad():
            self.output = _states(inside, inputs).clone()
        self.slope = torch.zeros_like(self.output)
        # All passes of a model leave theirs in the same tensors.
        self.gradients = [gradients[name] for name in self.weights]
        self.used: list[bool] = []
        self.replays: list[Replay] = [self._forward, self._backward] if self.weights else [self._forward]

    def _forward(self) -> None:
        self.live = None
        with torch.set_grad_enabled(bool(self.weights)):
            self.live = _states(self.inside, self.inputs, self.weights)
        self.output.copy_(self.live.detach())

    def _backward(self) -> None:
        live = self.live
        if live is None:
            raise ValueError("a pass that did not run forwards has no gradient")
        found = torch.autograd.grad(live, [*self.weights.values()], self.slope, allow_unused=True)
        self.used = [part is not None for part in found]
        torch._foreach_copy_(self.own_gradients(), [part for part in found if part is not None])

    def own_gradients(self) -> list[Tensor]:
        """Those of the weights that have a part in the pass."""
        return [part for part, used in zip(self.gradients, self.used, strict=True) if used]

    def capture(self, pool: Any) -> bool:
        """Make graphs of it; False where that is not possible."""
        replays = captured(self.output.device, pool, *self.replays)
        # Its activations lie in the pool, where the next pass may write.
        self.live = None
        if replays is not None:
            self.replays = replays
        return replays is not None


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, graphs: Graphs, one: _Pass, *_: Tensor) -> Tensor:
        context.one, context.token = one, _Token()
        # It lives as long as somebody may still ask for the gradient.
        graphs.awaited = weakref.ref(context.token)
        one.replays[0]()
        return one.output.detach()

    @staticmethod
    @once_differentiable
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        one: _Pass = context.one
        one.slope.copy_(slopes[0])
        one.replays[1]()
        context.token = None
        # Copies: autograd would keep these tensors as the gradients of the weights, and the next pass writes to them.
        copies = iter(torch._foreach_mul(one.own_gradients(), 1.0))
        return None, None, *(next(copies) if used else None for used in one.used)


class _Token:
    """Held by a pass that has run forwards and not backwards."""


class Graphs:
    """The captured passes of one model."""

    def __init__(self) -> None:
        self.passes: OrderedDict[tuple[Any, ...], _Pass | None] = OrderedDict()
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.number = 0
        """Passes so far."""
        self.used: dict[tuple[Any, ...], int] = {}
        """Number of the last pass of each captured shape."""
        self.pool: Any = None
        self.gradients: dict[str, Tensor] = {}
        self.possible = True
        """No capture has failed."""
        self.awaited: weakref.ref[_Token] | None = None

    @property
    def busy(self) -> bool:
        """True = a pass has run forwards and not backwards, and its activations lie in the pool."""
        return self.awaited is not None and self.awaited() is not None

    def __deepcopy__(self, memo: Any) -> Graphs:
        """None of them: they belong to the weights of one model."""
        return Graphs()

    def states(self, inside: Any, inputs: Mapping[str, Tensor], most: int, lowest: float) -> Tensor:
        """(≥ N, ≥ T, H) hidden states of the last layer, valid until the next pass.

        Padded in the same way whether they are captured or not, so that a training that goes on computes the same.

        Args:
            inside: the model without its projection onto the vocabulary.
            inputs: `input_ids` (N, T); of trees `attention_mask` (N, 1, T, T) and `position_ids` (N, T) as well.
            most: tokens that the model's positions allow.
            lowest: what hides a token in a mask.
        """
        learns = torch.is_grad_enabled()
        parameters = [weight for weight in inside.parameters() if weight.requires_grad] if learns else []
        count, tokens = inputs["input_ids"].shape
        rows, columns = rounded(count), max(tokens, min(columns_of(tokens), most))
        whole = _padded(inputs, rows, columns, lowest)
        # A rate of dropout is a number in a graph.
        drops = {module.p for module in inside.modules() if isinstance(module, nn.Dropout)} if inside.training else ()
        key = rows, columns, state_of(inside), len(inputs), bool(parameters), inside.training, *sorted(drops)
        fixed = capturing() and self.possible and not torch.is_inference_mode_enabled()
        fixed = fixed and not (parameters and (_several() or _recomputes(inside)))
        one = self._pass(key, inside, whole, learns=bool(parameters)) if fixed and not self.busy else None
        if one is None:
            return _states(inside, whole)
        for name, part in whole.items():
            one.inputs[name].copy_(part)
        if not parameters:
            one.replays[0]()
            return one.output
        states: Tensor = _Replayed.apply(self, one, *parameters)
        return states

    def _pass(self, key: tuple[Any, ...], inside: Any, inputs: dict[str, Tensor], *, learns: bool) -> _Pass | None:
        """The captured pass of this key, if its shape has come often enough; None as well where there is none."""
        self.number += 1
        if key not in self.passes:
            self.seen[key] += 1
            if self.seen[key] <= SEEN or not self._room(key):
                return None
            self.passes[key] = self._captured(
                inside, {name: part.clone() for name, part in inputs.items()}, learns=learns
            )
        self.passes.move_to_end(key)
        self.used[key] = self.number
        return self.passes[key]

    def _room(self, key: tuple[Any, ...]) -> bool:
        """Tell whether there is room for one more shape, after dropping one that is not in use."""
        if len(self.passes) < KEPT_SHAPES:
            return True
        # Shapes of weights that lie elsewhere now do not come again.
        oldest = next((other for other in self.passes if other[STATE] != key[STATE]), next(iter(self.passes)))
        if oldest[STATE] == key[STATE] and self.number - self.used[oldest] <= UNUSED:
            return False
        del self.passes[oldest], self.used[oldest]
        return True

    def _captured(self, inside: Any, inputs: dict[str, Tensor], *, learns: bool) -> _Pass | None:
        device = inputs["input_ids"].device
        on_gpu = device.type == "cuda"
        for name, weight in inside.named_parameters():
            if learns and weight.requires_grad and name not in self.gradients:
                self.gradients[name] = torch.zeros_like(weight)
        with torch.random.fork_rng([device.index or 0] if on_gpu else []):
            one = _Pass(inside, inputs, self.gradients, learns=learns)
        if not on_gpu:
            return one
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        self.possible = one.capture(self.pool)
        return one if self.possible else None


def _several() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _recomputes(inside: Any) -> bool:
    return any(getattr(module, "gradient_checkpointing", False) for module in inside.modules())
