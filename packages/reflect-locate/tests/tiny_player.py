"""Players for tests: one with a tiny model of random weights, and one that plays by a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from reflect_locate.envs import autoexplore
from reflect_locate.trained_player import PlayerSettings
from reflect_rl.models.embedded import EmbeddedConfig, build_embedded
from reflect_rl.players.scripted import LexicalReflector
from reflect_rl.store import write_json
from reflect_rl.types import Decision, View

FILES = {
    "README.md": "# Kettle\n\nBoils water for tea.\n",
    "src/limits.py": '"""Parsing of rate limits."""\n\n\ndef parse_limit(text: str) -> int:\n    return int(text)\n',
    "src/clock.py": '"""Wall clocks and stop watches."""\n',
    "docs/guide.md": "# Guide\n\nHow to descale the kettle with vinegar.\n",
}


def write_files(folder: Path, files: dict[str, str] | None = None) -> Path:
    """The files, in a folder; returns it."""
    for path, text in (FILES if files is None else files).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def project_files(count: int = 60) -> dict[str, str]:
    """Modules in six folders; each says in its docstring what its function's name says too."""
    texts = {}
    for number in range(count):
        verb, thing, place = VERBS[number % 6], THINGS[number // 6 % 10], PLACES[number % 7]
        path = f"shop/{FOLDERS[number % 6]}/m{number:02}.py"
        texts[path] = (
            f'"""Robots {verb} {thing} inside the {place} on day {number}."""\n\n\n'
            f"def {verb}_{thing}({place}: int) -> None:\n    ...\n"
        )
    return texts


FOLDERS = ("north", "south", "east", "west", "upper", "lower")
VERBS = ("paint", "sort", "melt", "count", "bake", "fold")
THINGS = ("apples", "bricks", "candles", "drums", "engines", "feathers", "guitars", "hammers", "icicles", "jackets")
PLACES = ("kitchen", "library", "museum", "nursery", "orchard", "palace", "quarry")


def save_tiny_player(folder: Path, threshold: float = 0.0, context_tokens: int = 512, **environment: Any) -> Path:
    """A player with random weights; returns its folder."""
    settings = PlayerSettings(
        environment=autoexplore.Config(**{"search": True, **environment}), threshold=threshold, trained={"by": "tests"}
    )
    count = autoexplore.AutoExplore(settings.environment).max_actions
    labels = [str(number) for number in range(count)]
    shape = EmbeddedConfig(hidden_size=16, layers=1, heads=2, context_tokens=context_tokens)
    model = build_embedded([f"Task: find\nActions: {' '.join(labels)}\n # Action:\n0"], shape, 0, labels)
    model.save(folder / "policy")
    values = settings.model_dump(mode="json")
    del values["environment"]["tasks"]
    write_json(folder / "settings.json", {**values, "labels": labels})
    return folder


Script = Callable[[Sequence[str]], dict[str, float]]
"""Admissible actions -> probabilities of some of them; the others share what is left. The likeliest is taken."""


@dataclass
class ScriptedPolicy:
    """Plays the likeliest action of a script."""

    script: Script
    name: str = "scripted"
    sees_oracle: bool = False

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        return [self._decide(view.observation.actions) for view in views]

    def _decide(self, actions: Sequence[str]) -> Decision:
        chosen = self.script(actions)
        rest = (1 - sum(chosen.values())) / max(len(actions) - len(chosen), 1)
        row = [chosen.get(action, rest) for action in actions]
        return Decision(int(np.argmax(row)), self.name, tuple(math.log(max(value, 1e-30)) for value in row))


@dataclass
class ScriptedPlayer:
    """What `locate` needs of a player; `scripts` are those of greedy and of sampled play."""

    greedy: Script
    sampled: Script
    settings: PlayerSettings = field(default_factory=PlayerSettings)
    reflector: LexicalReflector = field(default_factory=lambda: LexicalReflector(autoexplore.AutoExplore()))

    def policy(self, decoding: str) -> ScriptedPolicy:
        return ScriptedPolicy(self.greedy if decoding == "greedy" else self.sampled)
