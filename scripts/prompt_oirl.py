"""Prompt-OIRL with a local model: play a log under all templates, learn from it, and report (docs/guides/offline.md).

python scripts/prompt_oirl.py --model smollm2-135m --env corridor --starts 20 --out runs/prompts

Templates of your own are a JSON list of objects with `name` and `text`, such as configs/prompts/corridor.json.

Each template's episodes are a file in the folder; a script that is started again plays those that are missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

import reflect_rl as rrl
from reflect_algorithms.prompt_oirl import TEMPLATES, Template, Trial, logged_trials, read_templates, report_of
from reflect_rl.agent import Agent, Blueprint
from reflect_rl.config import Rule
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
    parser.add_argument("--templates", type=Path, help="JSON list of {name, text}; those of the package if left out")
    parser.add_argument("--scoring", choices=get_args(Rule), default="choice_token", help="how actions are scored")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    spec = rrl.make_env(options.env)
    templates = TEMPLATES if options.templates is None else read_templates(options.templates)
    agent = _agent(options.model, spec, templates, options.seed)
    policy = replace(agent, scoring=options.scoring).policy()

    def trials(split: str) -> list[Trial]:
        # One of each mode in turn, so that a few starts show all modes.
        rows = [spec.tasks(mode, split) for mode in spec.modes]
        tasks = [row[k] for k in range(max(map(len, rows))) for row in rows if k < len(row)][: options.starts]
        place, seed = options.out / split, options.seed
        return logged_trials(spec, tasks, policy, templates, place, seed, episodes_per_start=options.episodes)

    report = asdict(report_of(trials("train"), trials("test"), templates))
    write_json(options.out / "report.json", report)
    for name, value in report.items():
        print(f"{name:26}{value:.3f}")


def _agent(name: str, spec: EnvSpec, templates: Sequence[Template], seed: int) -> Agent:
    model = rrl.load_model(name, seed=seed)
    if isinstance(model, Blueprint):
        # A model from nothing learns its words here, and plays at random: for trying the script out.
        model = model.build([template.filled("You are at 0.", rules_of(spec)) for template in templates], 20)
    return Agent.of(model, spec.max_actions)


if __name__ == "__main__":
    main()
