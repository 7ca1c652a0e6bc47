#!/usr/bin/env python3
"""A training step of SmolLM2-135M with adapters: PEFT's layers and ours take turns in one process, on one thread.

    reflect-rl model get smollm2-135m
    scripts/measure_adapters.py --repeats 3

The step has 16 rows of 128 random tokens and a loss at 20 of each. Seconds are those of the processor; the best counts.
Linux only: the peak of the memory is read from /proc.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from peft.tuners import lora

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models.load import load_model
from reflect_rl.models.lora import AdaptedLinear
from reflect_rl.models.network import Network

ROWS, TOKENS, READ = 16, 128, 20


def seconds(act: Callable[[], object]) -> float:
    """CPU time of a call."""
    started = time.process_time()
    act()
    return time.process_time() - started


def peak() -> int:
    """Megabytes of memory at most since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    adapters = LoRAConfig(rank=16, alpha=32, dropout=0.0)
    model = load_model(ModelConfig(path="smollm2-135m", precision="bfloat16", lora=adapters), trainable=True)
    layers = [module for module in model.model.modules() if isinstance(module, lora.Linear)]
    network = Network(model)
    torch.manual_seed(0)
    ids, targets = torch.randint(40_000, (ROWS, TOKENS)), torch.randint(40_000, (ROWS * READ,))
    rows, columns = torch.arange(ROWS).repeat_interleave(READ), torch.arange(TOKENS - READ, TOKENS).repeat(ROWS)

    def step() -> None:
        model.model.zero_grad()
        torch.nn.functional.cross_entropy(network(ids, rows, columns).logits, targets).backward()

    found: dict[type, list[tuple[float, ...]]] = {lora.Linear: [], AdaptedLinear: []}
    for _ in range(repeats):
        for kind, results in found.items():
            for layer in layers:
                layer.__class__ = kind
            Path("/proc/self/clear_refs").write_text("5")
            train, most = seconds(step), peak()
            with torch.no_grad():
                results.append((train, seconds(lambda: network(ids, rows, columns)), most))
    for kind, results in found.items():
        best = [min(column) for column in zip(*results, strict=True)]
        print(f"{kind.__module__}: step {best[0]:.2f} s, without gradients {best[1]:.2f} s, peak {best[2]:.0f} MB")


if __name__ == "__main__":
    main()
