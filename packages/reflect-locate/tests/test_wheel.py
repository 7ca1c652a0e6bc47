"""The wheel in an environment of its own: its player, its verbs and its data come with it, its tests do not."""

import json
from pathlib import Path

import pytest

from installed_wheel import FreshEnvironment, check_contents, install_above, registered
from tiny_player import FILES, write_files

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    return install_above(tmp_path_factory.mktemp("wheel"), PROJECT, "reflect_served")


def test_a_file_is_found_by_the_player_in_the_wheel(fresh: FreshEnvironment, tmp_path: Path):
    project = write_files(tmp_path / "kettle", FILES)
    answer = json.loads(
        fresh.run(f"""
import json
import reflect_locate
from reflect_locate import SearchOptions, load_player, locate, open_repository

answer = locate(load_player(), open_repository({str(project)!r}), "Where are rate limits parsed?", SearchOptions(1))
print(json.dumps({{"first": answer.files[0].path, "found": answer.found, "file": reflect_locate.__file__}}))
""")
    )
    assert (answer["first"], answer["found"]) == ("src/limits.py", True)
    assert Path(answer["file"]).is_relative_to(fresh.folder)


def test_the_verbs_environments_and_methods_are_registered(fresh: FreshEnvironment):
    groups = registered(fresh, "reflect-locate")
    assert groups["reflect_rl.commands"] == ["adapt", "export", "locate", "serve", "tasks", "train_reader"]
    assert groups["reflect_rl.environments"] == ["autoexplore", "autoexplore_paper"]
    assert groups["reflect_rl.methods"] == ["bm25_contents", "bm25_names", "name_greedy", "reader"]


def test_the_wheel_has_types_licence_player_and_benchmark_and_no_tests(fresh: FreshEnvironment):
    data = (
        "player/settings.json",
        "player/policy/model.safetensors",
        "player/reader/model.safetensors",
        "questions/benchmark.json",
    )
    check_contents(fresh.names, "reflect_locate", *data)
