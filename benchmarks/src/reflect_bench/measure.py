"""All figures of one model shape with one number of threads, in the process it is called in."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch

from reflect_bench.clock import matmul_peak
from reflect_bench.options import BenchOptions, Effort, Shape, effort_of
from reflect_bench.players import cast, player
from reflect_bench.reference import BATCH_EPISODES, REFLECTION_TOKENS
from reflect_bench.scoring import CONTEXT_TOKENS, measure_scoring
from reflect_bench.shapes import PRETRAINED, build, examples_of, texts_of
from reflect_bench.supervised import measure_supervised
from reflect_bench.training import measure_training
from reflect_rl.config import EmbeddedConfig
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.dangerous_taxi import DangerousTaxi

HEADLINE = (20, 500)
"""|A| and |s| of the figure that stands for action scoring."""


def measure(options: BenchOptions, shape: Shape, report: Callable[[str], None]) -> dict[str, Any]:
    """The figures; `docs/reference/speed.md` explains each.

    Args:
        options: what to measure.
        shape: of the model.
        report: called with what is being measured.
    """
    effort = effort_of(options, shape)
    device = torch.device(options.device)
    report("matrix product")
    peak = _peak(options, effort, device)
    report("building the players")
    players = cast(options, shape, device)
    head = {
        "shape": shape,
        "threads": torch.get_num_threads(),
        "device": options.device,
        "precision": options.precision,
        "weights": players.weights,
        "actions": players.actions,
        "parameters": sum(p.numel() for p in players.policy.model.parameters()),
        "effort": vars(effort),
        "reference": {
            "batch_episodes": BATCH_EPISODES,
            "reflection_tokens": REFLECTION_TOKENS,
            "reflection": options.reference_reflection,
        },
        "longest_reflection_tokens": players.max_new_tokens,
    }
    training = measure_training(
        players,
        lambda: player(options, shape, device, "policy_reflect"),
        effort,
        report,
        until_end=options.reference_reflection == "until_end",
    )
    rows = examples_of(EnvSpec.of(DangerousTaxi), seed=0)
    training |= measure_supervised(players.policy, rows, effort.pairs, report)
    del players
    gc.collect()
    cells = _scoring(options, shape, effort, device, report)
    report("matrix product")
    # The machine may have been busy the first time.
    peak = max(peak, _peak(options, effort, device))
    return head | {
        **training,
        "scoring_ratio_a20_s500": next(c["ratio"] for c in cells if (c["actions"], c["state_tokens"]) == HEADLINE),
        "matmul_peak_gflops": peak,
        "update_matmul_fraction": training["update_gflops"] / peak,
        "scoring": cells,
    }


def _peak(options: BenchOptions, effort: Effort, device: torch.device) -> float:
    dtype = torch.float32 if options.precision == "float32" else torch.bfloat16
    return matmul_peak(device, dtype, effort.peak_size)


def _scoring(
    options: BenchOptions, shape: Shape, effort: Effort, device: torch.device, report: Callable[[str], None]
) -> list[dict[str, Any]]:
    if shape == PRETRAINED:
        model = player(options, shape, device, "reflector")
    else:
        texts = texts_of(EnvSpec.of(DangerousTaxi), seed=0)
        model = build(shape, texts, 0, EmbeddedConfig(context_tokens=CONTEXT_TOKENS), device, options.precision)
    return measure_scoring(model, effort.pairs, effort.text_tokens, report)
