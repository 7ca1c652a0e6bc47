"""Seconds and memory of one supervised step: ours, and two plain loops of transformers.

    python -m reflect_bench.step ours --shape SmolLM2-360M --threads 2

Adapters are trained; of the small shape, all weights. A step has 32 rows of 300 tokens, and the last forty of each are
targets. Weights and tokens are random, since the time depends on neither. One way in a process: peak memory is that of
the process. All steps have the same rows. So with `--train-layers` the frozen blocks have read them in the first one,
which is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PretrainedConfig

from reflect_bench.clock import now, peak_memory_mb
from reflect_bench.shapes import ADAPTERS
from reflect_bench.sizes import SHAPES
from reflect_bench.supervised import IGNORED
from reflect_rl.config import EmbeddedConfig, LoRAConfig, ModelConfig
from reflect_rl.models.embedded import build_embedded
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.precision import Precision
from reflect_rl.models.score import completion_losses, micro_batches, token_budget

ROWS, TOKENS, TARGETS = 32, 300, 40
PLAIN_ROWS = 4
"""Rows of a micro-batch of the plain loop."""
SMALL = LlamaConfig(
    hidden_size=192, num_hidden_layers=4, intermediate_size=512, num_attention_heads=4, vocab_size=4096,
    tie_word_embeddings=True,
)  # fmt: skip
"""The size of the embedded model that learns AutoExplore."""


def random_model(
    shape: PretrainedConfig,
    precision: Precision = "bfloat16",
    *,
    checkpointing: bool = False,
    device: str = "cpu",
    train_layers: int = 0,
) -> LanguageModel:
    """A model of random weights, with adapters of rank 16 to train, or all weights of a small one."""
    with tempfile.TemporaryDirectory() as folder:
        # Saved and loaded, so that it goes the way of every other model.
        with torch.device(device):
            network = AutoModelForCausalLM.from_config(shape, dtype=torch.bfloat16)
        network.save_pretrained(folder)
        small = build_embedded(("one step",), EmbeddedConfig(hidden_size=16, layers=1, heads=2), 0)
        small.tokenizer.save_pretrained(folder)
        del network
        adapters = LoRAConfig() if shape is SMALL else ADAPTERS
        config = ModelConfig(
            path=folder,
            device=device,
            precision=precision,
            lora=adapters,
            gradient_checkpointing=checkpointing,
            train_layers=train_layers,
        )
        return load_model(config, trainable=True)


def steps_of(model: LanguageModel, rows: torch.Tensor, targets: int) -> dict[str, Callable[[], None]]:
    """The ways to add up the gradient of a batch.

    Args:
        model: a trainable model.
        rows: (N, T) token ids, on the model's device.
        targets: tokens at the end of each row that are learned.
    """
    count, width = rows.shape
    mask = [0] * (width - targets) + [1] * targets
    network: Any = model.model

    @torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed)
    def ours() -> None:
        for part in micro_batches([width] * count, token_budget(model)):
            losses = completion_losses(model, [rows[i].tolist() for i in part], [mask] * len(part))
            (losses.sum() / (count * targets)).backward()

    @torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed)
    def plain(size: int) -> None:
        for first in range(0, count, size):
            ids = rows[first : first + size]
            labels = ids.clone()
            labels[:, : width - targets] = IGNORED
            loss = network(input_ids=ids, labels=labels, use_cache=False).loss
            (loss * len(ids) / count).backward()

    return {"ours": ours, "plain": lambda: plain(PLAIN_ROWS), "whole": lambda: plain(count)}


def measure(model: LanguageModel, way: str, rows: torch.Tensor, targets: int, repeats: int) -> list[float]:
    """Seconds of each of some steps, after one that is not counted."""
    step = steps_of(model, rows, targets)[way]
    optimizer = torch.optim.AdamW([weight for weight in model.model.parameters() if weight.requires_grad])
    model.model.train()
    seconds = []
    for _ in range(repeats + 1):
        started = now(model.device)
        step()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(now(model.device) - started)
    return seconds[1:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=("ours", "plain", "whole"), help="`plain`: four rows at once; `whole`: all rows")
    shapes = SHAPES | {"small": SMALL}
    parser.add_argument("--shape", choices=shapes, default="SmolLM2-135M")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--precision", choices=("float32", "mixed", "bfloat16"), default="bfloat16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--train-layers", type=int, default=0, help="train the last so many blocks; 0 = all")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = random_model(
        shapes[options.shape],
        options.precision,
        checkpointing=options.checkpointing,
        device=options.device,
        train_layers=options.train_layers,
    )
    rows = torch.randint(0, shapes[options.shape].vocab_size, (ROWS, TOKENS)).to(model.device)
    seconds = measure(model, options.way, rows, TARGETS, options.repeats)
    told = ", ".join(f"{value:.3g}" for value in seconds)
    where = f"{options.threads} threads" if options.device == "cpu" else options.device
    title = f"{options.way}, {options.shape}, {options.precision}, {where}"
    print(f"{title}: {told} s, {peak_memory_mb(model.device) * 1e6 / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
