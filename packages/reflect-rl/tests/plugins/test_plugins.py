"""A package that adds one part of each kind by entry points, installed and run without touching this one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from installing import install, output

PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "stranger"
version = "1.0"
[project.entry-points."reflect_rl.environments"]
lights = "stranger:Lights"
[project.entry-points."reflect_rl.methods"]
brightest = "stranger:BRIGHTEST"
sft_noted = "stranger:SFT_NOTED"
[project.entry-points."reflect_rl.algorithms"]
plain_gradient = "stranger:PlainGradient"
[project.entry-points."reflect_rl.policies"]
brightest = "stranger:BrightestPolicy"
[project.entry-points."reflect_rl.reflectors"]
noting = "stranger:NotingReflector"
[project.entry-points."reflect_rl.commands"]
count-lights = "stranger:count_lights"
[tool.setuptools]
py-modules = ["stranger"]
"""

MODULE = '''
"""A game of lights: switch on the one that is named."""

import reflect_rl as rrl
from reflect_rl.algorithms import Advantages, Loss, PolicyGradientConfig, rewards_to_go

COLOURS = ("red", "green", "blue", "white")


class Lights(rrl.TextEnv):
    max_episode_steps = 2
    max_actions = 4

    def tasks(self, mode, split):
        places = {"train": range(12), "validation": range(12, 16), "test": range(16, 24)}[split]
        return [rrl.Task(f"{split}/{n}", mode, split, {"wanted": n % 4, "room": n}) for n in places]

    def reset(self, task, rng):
        self.wanted, self.room = task.data["wanted"], task.data["room"]
        return self._see()

    def step(self, action):
        won = action == self.wanted
        return rrl.Step(self._see(), 1.0 if won else -0.1, won, won)

    def _see(self):
        return rrl.Observation(f"Room {self.room}. Switch on {COLOURS[self.wanted]}.", COLOURS)


class BrightestPolicy:
    name = "brightest"
    sees_oracle = False

    def decide(self, views, rngs):
        return [rrl.Decision(view.observation.actions.index("white"), self.name) for view in views]


class NotingReflector:
    name = "noting"
    sees_oracle = False

    def reflect(self, views):
        return ["The light is " + view.observation.text.rpartition(" ")[2] for view in views]


class Config(PolicyGradientConfig):
    name: str = "plain_gradient"


class PlainGradient:
    Config = Config
    epochs = 1
    critic = "none"

    def __init__(self, config):
        self.config = config

    def advantages(self, trajectories, values):
        returns = [self.returns(trajectory) for trajectory in trajectories]
        return Advantages(returns, returns, self.returns)

    def returns(self, trajectory):
        return rewards_to_go(trajectory.rewards, self.config.gamma)

    def loss(self, batch, outputs):
        return Loss(-(batch.advantages * outputs.chosen(batch)).mean())


BRIGHTEST = rrl.Method("brightest", "Always the white light", script="brightest", colour="#AA3377")
SFT_NOTED = rrl.Method("sft_noted", "SFT, noted", policy="policy_plain", writer="noting", online=True)


def count_lights(arguments, console):
    console.print(f"{len(COLOURS)} lights, {' '.join(arguments)}")
'''

RUN = """
output_dir = "run"
methods = ["random", "brightest", "sft_rlft", "sft_noted"]
workers = 1
[environment]
name = "lights"
[model]
device = "cpu"
[model.embedded]
hidden_size = 16
layers = 1
[data]
label_source = "successes"
demonstration_starts = [12]
[sft.base]
steps = 2
[sft.policy_plain]
steps = 2
[rlft]
total_turns = 20
starts_per_update = 4
validate_every = 0
[rlft.algorithm]
name = "plain_gradient"
[evaluation]
decodings = ["greedy"]
"""

API = """
import reflect_rl as rrl
from reflect_rl import registry
writer = registry.find("reflectors", "noting")()
episodes = rrl.collect("lights", "brightest", writer, episodes=4)
print({turn.reflection for episode in episodes for turn in episode.turns} <= {"The light is " + c + "." for c in
      ("red", "green", "blue", "white")})
model = rrl.load_model("embedded", hidden_size=16, layers=1, device="cpu")
agent = rrl.train_rl(model, "lights", algorithm="plain_gradient", turns=10, reflector=writer, validate_every=0)
print(agent.origin.algorithm, agent.reflector.name, rrl.evaluate("brightest", "lights", horizon=1).successes)
"""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """The variables under which the package is installed, and an empty folder."""
    folder = tmp_path_factory.mktemp("stranger")
    package = folder / "package"
    package.mkdir()
    (package / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (package / "stranger.py").write_text(MODULE, encoding="utf-8")
    return install(package, folder / "installed"), folder


def test_a_run_with_environment_methods_algorithm_and_policy_of_a_stranger(stranger):
    environment, folder = stranger
    (folder / "run.toml").write_text(RUN, encoding="utf-8")
    output((sys.executable, "-m", "reflect_rl", "run", "run.toml"), folder, environment)
    rows = json.loads((folder / "run" / "results.json").read_text(encoding="utf-8"))
    assert [(row["method"], row["algorithm"]) for row in rows] == [
        ("random", "none"),
        ("brightest", "none"),
        ("sft_rlft", "plain_gradient"),
        ("sft_noted", "plain_gradient"),
    ]
    # Of the eight test tasks two want the white light.
    assert next(row["successes"] for row in rows if row["method"] == "brightest") == 2
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "Always the white light" in page
    played = folder / "run" / "starts-12" / "seed-0" / "evaluation" / "sft_noted" / "episodes.jsonl"
    first = json.loads(played.read_text(encoding="utf-8").splitlines()[0])
    assert first["turns"][0]["reflection"].startswith("The light is ")


def test_the_python_api_finds_the_parts_by_name(stranger):
    environment, folder = stranger
    printed = output((sys.executable, "-W", "ignore", "-c", API), folder, environment)
    assert "True\nplain_gradient noting 2\n" in printed


def test_a_command_of_a_stranger(stranger):
    environment, folder = stranger
    command = (sys.executable, "-m", "reflect_rl", "count-lights", "all", "of", "them")
    assert output(command, folder, environment) == "4 lights, all of them\n"


def test_without_the_package_the_names_are_unknown(tmp_path: Path):
    message = output((sys.executable, "-m", "reflect_rl", "count-lights"), tmp_path, code=2)
    assert "no command 'count-lights'" in message
