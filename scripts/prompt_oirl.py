"""Prompt-OIRL with a local model: play a log under all templates, learn from it, and report (docs/guides/offline.md).

python scripts/prompt_oirl.py --model smollm2-135m --env corridor --starts 20 --out runs/prompts

Each template's episodes are a file in the folder; a script that is started again plays those that are missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import reflect_rl as rrl
from reflect_algorithms.prompt_oirl import TEMPLATES, Trial, logged_trials, report_of
from reflect_rl.agent import Agent, Blueprint
from reflect_rl.envs.base import EnvSpec
from reflect_rl.prompts import rules_of
from reflect_rl.store import write_json


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, learn, and write `report.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--env", default="corridor")
    parser.add_argument("--starts", type=int, default=20, help="starts to learn from, and as many to test on at most")
    parser.add_argument("--episodes", type=int, default=1, help="episodes of each start under each template")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    spec = rrl.make_env(options.env)
    policy = _agent(options.model, spec, options.seed).policy()

    def trials(split: str) -> list[Trial]:
        # One of each mode in turn, so that a few starts show all modes.
        rows = [spec.tasks(mode, split) for mode in spec.modes]
        tasks = [row[k] for k in range(max(map(len, rows))) for row in rows if k < len(row)][: options.starts]
        place, seed = options.out / split, options.seed
        return logged_trials(spec, tasks, policy, TEMPLATES, place, seed, episodes_per_start=options.episodes)

    report = asdict(report_of(trials("train"), trials("test"), TEMPLATES))
    write_json(options.out / "report.json", report)
    for name, value in report.items():
        print(f"{name:26}{value:.3f}")


def _agent(name: str, spec: EnvSpec, seed: int) -> Agent:
    model = rrl.load_model(name, seed=seed)
    if isinstance(model, Blueprint):
        # A model from nothing learns its words here, and plays at random: for trying the script out.
        model = model.build([template.filled("You are at 0.", rules_of(spec)) for template in TEMPLATES], 20)
    return Agent.of(model, spec.max_actions)


if __name__ == "__main__":
    main()
