"""Options of a benchmark: parts to measure, and effort for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from reflect_rl.config import Frozen

Shape = Literal["embedded", "gpt2-small", "gpt2-xl", "qwen3-0.6b", "smollm2-135m"]

GENERATED = "generated"
"""Name in place of a folder with household games: games that are made for the measurement."""


class BenchOptions(Frozen):
    """Speed of training: ratios to loops in the style of the public reference code, inside one run."""

    file: Path | None = Field(None, alias="json")
    """File for the figures; written after each measurement."""
    shapes: tuple[Shape, ...] = Field((), max_length=5)
    """Models: `embedded` (the default small model), `gpt2-small`, `gpt2-xl`, `qwen3-0.6b` with random weights, and
    `smollm2-135m` as `reflect-rl model get` brings it, with adapters of rank 16. Default: the first two; with --quick
    the first."""
    threads: tuple[Annotated[int, Field(ge=1, le=256)], ...] = Field((1, 2), min_length=1)
    """Numbers of threads to measure with."""
    quick: bool = False
    """Less of everything, in about a minute; the ratios are rougher."""
    exploring: tuple[str, ...] = ()
    """Trees on which the environment AutoExplore is measured, instead of training: `stdlib`, `installed:rich`, a folder
    or an archive."""
    household: str | None = Field(None, json_schema_extra={"bare": GENERATED})
    """Measure the household games of ALFWorld instead of training: those of a folder, or generated ones where none is
    named. Where the extra `textworld` of alfworld-native is installed, TextWorld plays a few of them as well."""
    online: tuple[Path, ...] = ()
    """Run files whose online RL is measured, instead of the comparison: one rollout and one update of a random model,
    for each step that made it faster. `--starts` lowers the number of tasks."""
    run: Path | None = None
    """Run folder whose trained players play in the shape `embedded` (default: random weights)."""
    actions: Literal["auto", "policy", "solver"] = "auto"
    """Player that chooses the actions: the `policy` itself, or the `solver` with probability 0.95 and else the policy,
    which gives a policy with random weights episodes of a realistic length. `auto`: the policy if it is trained."""
    reference_reflection: Literal["full", "until_end"] = "full"
    """Reflections of the reference style: always 100 tokens, or until every row has written its end token."""
    updates: int | None = Field(None, ge=1)
    """Updates of online training (default: by shape)."""
    starts: int | None = Field(None, ge=1)
    """Tasks per update, each played 4 times (default: by shape)."""
    max_episode_steps: int | None = Field(None, ge=1)
    """Longest episode in turns (default: by shape)."""
    reference_seconds: float | None = Field(None, gt=0)
    """Time for the reference style in online training; what it does not reach is extrapolated by turns."""
    device: str = "cpu"
    """`cpu`, `cuda` or `cuda:1`."""
    precision: Literal["float32", "mixed", "bfloat16"] = "float32"
    """Number format: of everything, or `mixed` = weights in float32 and matrix products in bfloat16."""
    profile: Path | None = None
    """File for a table of the operations in which one rollout and one update of ours spend their time."""


@dataclass(frozen=True)
class Effort:
    """Amount of measuring for one shape."""

    updates: int
    starts: int
    max_episode_steps: int | None
    """Longest episode, None = the environment's."""
    reference_seconds: float
    """Time for the reference style in online training."""
    pairs: int
    """Repetitions of each measurement of action scoring."""
    text_tokens: int
    """Tokens up to which scoring by texts is measured; beyond it, some of the actions are, and the rest is inferred."""
    peak_size: int
    """Side of the square matrices whose product is the peak."""
    episodes_per_start: int = 4


def effort_of(options: BenchOptions, shape: Shape) -> Effort:
    """The effort for a shape: what a processor does in minutes, and a GPU in less."""
    gpu, small = options.device != "cpu", shape == "embedded"
    if gpu or small:
        effort = Effort(6 if small else 2, 16, None, 60.0, 5, 60_000, 8192 if gpu else 2048)
        if options.quick:
            effort = replace(effort, updates=2, starts=8, reference_seconds=12.0, pairs=3, text_tokens=12_000)
    else:
        effort = Effort(1, 2, 8, 60.0, 1, 12_000, 2048)
        if options.quick:
            effort = replace(effort, starts=1, max_episode_steps=4, reference_seconds=20.0, text_tokens=3_000)
    names = ("updates", "starts", "max_episode_steps", "reference_seconds")
    return replace(effort, **{name: value for name in names if (value := getattr(options, name)) is not None})
