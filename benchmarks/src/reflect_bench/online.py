"""Whole online RL with the settings of a run file: one rollout and one update, for each step that made it faster.

The weights are random, so nothing is trained before. Reflections are as long as the teacher's, or a program writes them
where the run file says so. Most actions are the solver's (`GuidedPolicy`), so that episodes are as long as those of a
trained policy. Each step adds one change to the one before; all are measured in one process. CPU seconds are those of
all threads of the process.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table

from reflect_bench.players import GuidedPolicy
from reflect_bench.shapes import write_words
from reflect_rl.config import narrow, parse, read_toml
from reflect_rl.data.generate import demonstrations, rows
from reflect_rl.evaluation.methods import LEXICAL
from reflect_rl.models.attention import ATTENTION
from reflect_rl.models.embedded import build_for
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.precision import Choice, choose
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.rollout import Reflector, Request, play
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.models import lexical_reflector
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import Learner
from reflect_rl.types import seed_for, stream

DEMONSTRATED = 40
"""Most starts whose demonstrations the tokenizer is learned from."""


@dataclass(frozen=True)
class Step:
    """State of the program after a change."""

    name: str
    mixed: bool = True
    """Matrix products are computed in bfloat16."""
    pieces: Literal["words", "phrases"] = "phrases"
    attention: str = ATTENTION


STEPS = (
    Step("float32, tokens within words", mixed=False, pieces="words", attention="sdpa"),
    Step("products in bfloat16", pieces="words", attention="sdpa"),
    Step("tokens span phrases", attention="sdpa"),
    Step("backward pass of attention by products"),
)


def steps_for(choice: Choice) -> tuple[Step, ...]:
    """The steps; all in float32, without that to bfloat16, where bfloat16 is slower.

    Args:
        choice: of the number format on this machine.
    """
    if not choice.is_slower:
        return STEPS
    first, _, *rest = STEPS
    return (first, *(replace(step, mixed=False) for step in rest))


@dataclass(frozen=True)
class Measured:
    """One rollout and one update; seconds are CPU seconds unless they are named otherwise."""

    step: str
    turns: int
    unique_prompts: float
    """Different prompts / turns."""
    prompt_tokens: float
    parameters: int
    reflect_seconds: float
    policy_seconds: float
    environment_seconds: float
    learn_seconds: float
    wall_seconds: float

    @property
    def turns_per_cpu_second(self) -> float:
        """Turns of whole training for each CPU second."""
        parts = (self.reflect_seconds, self.policy_seconds, self.environment_seconds, self.learn_seconds)
        return self.turns / sum(parts)


def online_config(path: Path) -> RunConfig:
    """Settings of a run file; household games are generated for the measurement.

    Raises:
        ConfigError: the file cannot be read, or holds a wrong value.
    """
    values = read_toml(path)
    environment = values.setdefault("environment", {})
    if environment.get("name") == "alfworld":
        environment.pop("games", None)
        environment |= {"generated_games": 80, "most_validation_games": 4}
    return parse(narrow(RunConfig, values), values)


def measure_online(
    path: Path, starts: int | None, report: Callable[[str], None], steps: Sequence[Step] | None = None
) -> dict[str, Any]:
    """Figures of a run file, one row for each step.

    Args:
        path: the run file.
        starts: tasks of the update (None: as many as in the run).
        report: called with what is being measured.
        steps: what to measure (None: all that pay on this machine).
    """
    config = online_config(path)
    if steps is None:
        steps = steps_for(choose(torch.device("cpu"), adapters=False))
    spec = config.env
    starts_shown = min(DEMONSTRATED, *(len(spec.tasks(mode, "train")) for mode in config.data.modes or spec.modes))
    pools = demonstrations(config.data, spec, starts_shown, 0, excluded=frozenset())
    episodes = [episode for pool in pools.values() for episode in pool]
    labels = [str(number) for number in range(spec.max_actions)]
    tables = {
        name: rows(name, episodes, labels, frozenset()) for name in ("reflector", "policy_plain", "policy_reflect")
    }
    texts = [row.prompt + row.completion for table in tables.values() for row in table]
    prompts = [row.prompt for row in tables["policy_reflect"]]
    reflections = [row.completion for row in tables["reflector"]]
    measured = []
    for step in steps:
        report(step.name)
        model, reflector = (_model(config, texts, labels, step, seed) for seed in (1, 2))
        write_words(reflector.model, reflector)
        length = round(sum(len(reflector.encode(text)) for text in reflections) / len(reflections)) + 1
        tokens = sum(len(model.encode(prompt)) for prompt in prompts) / len(prompts)
        writer = lexical_reflector(spec) if config.reflector.kind == LEXICAL else FrozenReflector(reflector, length)
        measured.append(_measure(config, step.name, model, writer, starts or config.rlft.starts_per_update, tokens))
    return {
        "run_file": path.name,
        "environment": config.environment.model_dump(include={"name", "state", "advice", "history"}),
        "threads": torch.get_num_threads(),
        "steps": [asdict(row) | {"turns_per_cpu_second": row.turns_per_cpu_second} for row in measured],
    }


def _model(config: RunConfig, texts: list[str], labels: list[str], step: Step, seed: int) -> LanguageModel:
    shape = config.model.embedded.model_copy(update={"pieces": step.pieces})
    model = build_for(texts, shape, seed, labels, stream(0, "vocabulary"))
    model.model.set_attn_implementation(step.attention)
    return replace(model, mixed=step.mixed)


def _measure(
    config: RunConfig, name: str, model: LanguageModel, reflector: Reflector, starts: int, tokens: float
) -> Measured:
    settings, spec, labels = config.rlft, config.env, find_labels(model, config.env.max_actions)
    needed = settings.algorithm.needs_reference
    frozen: Any = copy.deepcopy(model.model)
    reference = replace(model, model=frozen.requires_grad_(False)) if needed else None
    policy = LanguageModelPolicy(model, labels, temperature=settings.temperature)
    learner = Learner(model, labels, settings, 0, Engine(model.device), reference=reference)
    pool = spec.tasks(spec.modes[-1], "train")
    chosen = stream(0, "tasks").choice(len(pool), min(starts, len(pool)), replace=False)
    requests = [
        Request(pool[i], seed_for(0, "episode", int(i), turn))
        for i in chosen
        for turn in range(settings.episodes_per_start)
    ]
    reflect, decide = _Clock(reflector, "reflect"), _Clock(policy, "decide")
    began, clock = time.perf_counter(), time.process_time()
    episodes = play(
        spec,
        requests,
        reflector,
        GuidedPolicy(policy),
        num_envs=settings.num_envs,
        max_episode_steps=settings.max_episode_steps,
    )
    played = time.process_time()
    metrics = learner.learn(*learner.batch_of(episodes), 0, settings.learning_rate)
    learnt = time.process_time()
    return Measured(
        step=name,
        turns=sum(len(episode.turns) for episode in episodes),
        unique_prompts=metrics["policy/unique_prompts"],
        prompt_tokens=tokens,
        parameters=sum(weight.numel() for weight in model.model.parameters()),
        reflect_seconds=reflect.seconds,
        policy_seconds=decide.seconds,
        environment_seconds=played - clock - reflect.seconds - decide.seconds,
        learn_seconds=learnt - played,
        wall_seconds=time.perf_counter() - began,
    )


class _Clock:
    """CPU seconds inside one method of an object, from now on."""

    def __init__(self, player: object, method: str) -> None:
        self.seconds = 0.0
        setattr(player, method, partial(self._timed, getattr(player, method)))

    def _timed(self, call: Callable[..., Any], *arguments: Any) -> Any:
        started = time.process_time()
        try:
            return call(*arguments)
        finally:
            self.seconds += time.process_time() - started


def table_of_online(results: Sequence[dict[str, Any]]) -> Table:
    """The figures as a table; the gain of a step is the ratio to the one before."""
    columns = ("run file", "step", "tokens", "reflect s", "policy s", "learn s", "turns / CPU s", "gain")
    table = Table(*columns, title="Whole online RL, CPU seconds of one update")
    for result in results:
        before = None
        for row in result["steps"]:
            rate = row["turns_per_cpu_second"]
            seconds = (f"{row[f'{part}_seconds']:.1f}" for part in ("reflect", "policy", "learn"))
            gain = "" if before is None else f"{rate / before:.2f}"
            table.add_row(result["run_file"], row["step"], f"{row['prompt_tokens']:.0f}", *seconds, f"{rate:.1f}", gain)
            before = rate
    return table
