"""The wheel alone, in an environment with NumPy and Gymnasium: nothing of reflect-rl, no torch, no pydantic."""

import json
import zipfile
from pathlib import Path

import pytest

from installed_wheel import FreshEnvironment, install_wheel

PROJECT = Path(__file__).parents[1]
LIBRARIES = ("numpy", "gymnasium", "cloudpickle", "farama_notifications", "typing_extensions")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    return install_wheel(tmp_path_factory.mktemp("wheel"), PROJECT, LIBRARIES)


def test_a_generated_game_is_won_where_only_numpy_and_gymnasium_are(fresh: FreshEnvironment):
    answer = json.loads(
        fresh.run("""
import json
from importlib.util import find_spec
import alfworld_native
from alfworld_native import best_commands, generate_games, open_game

state = open_game(generate_games("test", 1)[0]).start()
while not state.won:
    state.step(best_commands(state)[0])
absent = [name for name in ("torch", "pydantic", "reflect_rl", "transformers") if find_spec(name) is None]
print(json.dumps({"won": state.won, "absent": absent, "file": alfworld_native.__file__}))
""")
    )
    assert answer["absent"] == ["torch", "pydantic", "reflect_rl", "transformers"]
    assert answer["won"]
    assert Path(answer["file"]).is_relative_to(fresh.folder)


def test_the_gymnasium_environment_works_there(fresh: FreshEnvironment):
    text = fresh.run("""
import gymnasium
import alfworld_native.environment
print(gymnasium.make("alfworld_native/Household-v0").reset(seed=0)[0])
""")
    assert text.startswith("-= Welcome to TextWorld, ALFRED! =-")


def test_the_wheel_has_types_licence_and_the_adapter_and_no_tests(fresh: FreshEnvironment):
    names = set(zipfile.ZipFile(fresh.wheel).namelist())
    assert {"alfworld_native/py.typed", "alfworld_native/plugin/env.py"} <= names
    assert any(name.endswith("/LICENSE") for name in names)
    assert not any("test" in name for name in names)
    point = fresh.run("""
from importlib.metadata import entry_points
print([point.value for point in entry_points(group="reflect_rl.environments", name="alfworld")])
""")
    assert "alfworld_native.plugin" in point
