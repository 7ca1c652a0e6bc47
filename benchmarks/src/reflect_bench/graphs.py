"""Gain by CUDA graphs: milliseconds of passes of SmolLM2-135M with adapters, captured and as they are.

    python -m reflect_bench.graphs --device cuda

Prompts are random words, since the time does not depend on them. Captured passes are timed when their shape has come
often enough to be captured. Texts are also written by transformers' own `generate`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from reflect_bench.clock import now, peak_memory_mb
from reflect_bench.shapes import pretrained
from reflect_rl.models.generate import generate
from reflect_rl.models.graphs import SEEN, uncaptured
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import completion_losses, score

WORDS = "the passenger waits at 0 4 blocked east taxi south of wall pick up drop off goal north west list turn"
LABELS, TARGETS, NEW = 10, 40, 60


def prompts_of(model: LanguageModel, count: int, words: int) -> list[list[int]]:
    """Prompts of so many random words."""
    return [model.encode_prompt(" ".join(random.Random(k).choices(WORDS.split(), k=words))) for k in range(count)]


def timed(model: LanguageModel, action: Callable[[], Any], repeats: int) -> list[float]:
    """Milliseconds of the action, after it has run often enough to be captured."""
    for _ in range(SEEN + 2):
        action()
    found = []
    for _ in range(repeats):
        started = now(model.device)
        action()
        found.append(1e3 * (now(model.device) - started))
    return found


def actions_of(model: LanguageModel, rows: Sequence[int], words: int) -> dict[str, Callable[[], Any]]:
    """The passes that are measured, by name."""
    network: Any = model.model
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)
    labels = [tuple((token,) for token in range(300, 300 + LABELS))]

    def read(prompts: list[list[int]]) -> None:
        network.eval()
        with torch.no_grad():
            score(model, prompts, labels * len(prompts))

    def write(prompts: list[list[int]]) -> None:
        network.eval()
        generate(model, prompts, NEW)

    def train(prompts: list[list[int]]) -> None:
        network.train()
        width = min(map(len, prompts))
        mask = [0] * (width - TARGETS) + [1] * TARGETS
        completion_losses(model, [prompt[:width] for prompt in prompts], [mask] * len(prompts)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    found: dict[str, Callable[[], Any]] = {}
    for count in rows:
        prompts = prompts_of(model, count, words)
        size = f"{count} rows of {len(prompts[0])} tokens"
        for name, action in {"score": read, f"write {NEW} tokens": write, "train": train}.items():
            found[f"{name}, {size}"] = partial(action, prompts)
    return found


@torch.no_grad()
def theirs(model: LanguageModel, count: int, words: int) -> None:
    """The texts by transformers' `generate`, with its own cache."""
    network: Any = model.model.eval()
    prompts = prompts_of(model, count, words)
    width = max(map(len, prompts))
    ids = torch.tensor([[model.pad_id] * (width - len(prompt)) + prompt for prompt in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=model.device)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed):
        network.generate(
            input_ids=ids, attention_mask=mask, do_sample=False, max_new_tokens=NEW, pad_token_id=model.pad_id
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=("float32", "mixed", "bfloat16"), default="bfloat16")
    parser.add_argument("--rows", type=int, nargs="+", default=[8, 16, 64])
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    model = pretrained(options.device, options.precision, trainable=True)
    for name, action in actions_of(model, options.rows, options.words).items():
        with uncaptured():
            plain = timed(model, action, options.repeats)
        captured = timed(model, action, options.repeats)
        told = (", ".join(f"{value:.0f}" for value in times) for times in (captured, plain))
        print("{}: {} ms captured, {} ms as it is".format(name, *told), flush=True)
    for count in options.rows:
        times = timed(model, partial(theirs, model, count, options.words), 1)
        print(f"write {NEW} tokens by transformers, {count} rows: {times[0]:.0f} ms", flush=True)
    print(f"peak {peak_memory_mb(model.device) * 1e6 / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
