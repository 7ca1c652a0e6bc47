"""The stages `log` and `learn` in a run folder, from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from reflect_algorithms.methods import LearnedMethod
from reflect_algorithms.stages import learned_methods
from reflect_rl import registry
from reflect_rl.cli.main import main
from reflect_rl.config import parse
from reflect_rl.evaluation.methods import find_method
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.stages import plan, stages, stages_of
from run_toy import corridor_run

METHODS = ["random", "bc", "filtered_bc", "rvs", "a_lol", "dagger", "morel", "gail", "archer", "rcrl"]
SETTINGS = corridor_run(
    json.dumps(METHODS),
    """\
[sft]
base = { steps = 2 }
policy_plain = { steps = 2 }
[offline.training]
steps = 3
[offline.log]
episodes_per_start = 4
[offline.rcrl]
rounds = 2
episodes = 12
[offline.archer]
rounds = 2
episodes = 4
critic_steps = 2
[offline.morel]
members = 2
[rlft]
total_turns = 20
starts_per_update = 2
validate_every = 0
""",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    (folder / "run.toml").write_text(SETTINGS)
    assert main(["run", str(folder / "run.toml"), "--output-dir", str(folder / "run")]) == 0
    return folder


def rows_of(folder: Path) -> dict[str, float]:
    table = json.loads((folder / "results.json").read_text())
    return {row["method"]: row["success_rate"] for row in table}


def test_a_run_has_rows_of_its_methods(run: Path):
    unit = run / "run" / "starts-4" / "seed-0"
    assert set(METHODS) == set(rows_of(run / "run"))
    card = json.loads((unit / "log" / "card.json").read_text())
    assert (card["episodes"], card["players"], card["with_probabilities"]) == (16, ["random", "erring_expert"], True)
    assert (unit / "learn" / "bc" / "model" / "model.safetensors").is_file()
    assert (unit / "learn" / "bc" / "metrics.jsonl").is_file()


def test_the_log_comes_before_the_trainings_and_these_before_the_evaluation():
    order = list(stages())
    assert order.index("log") < order.index("learn") < order.index("eval")
    assert {"log", "learn"} <= set(stages_of("learn"))
    assert "learn" in stages_of("eval")


def test_a_method_is_planned_once_with_the_one_it_goes_on_from():
    config = parse(RunConfig, {"methods": ["random", "filtered_bc", "bc"]})
    assert list(learned_methods(config)) == ["filtered_bc", "bc"]
    assert sum(job.kind == "learn" for job in plan(config)) == 2
    jobs = [job for job in plan(parse(RunConfig, {"methods": ["a_lol"]})) if job.kind == "learn"]
    assert [job.name for job in jobs] == ["bc", "a_lol"]
    assert jobs[0].folder in jobs[1].needs


def test_a_run_that_starts_from_another_learns_from_its_own_log(run: Path):
    words = ["--output-dir", str(run / "other"), "--start-from", str(run / "run"), "--offline.log.quality", "random"]
    assert main(["learn", str(run / "run.toml"), *words, "--methods", "bc"]) == 0
    card = json.loads((run / "other" / "starts-4" / "seed-0" / "log" / "card.json").read_text())
    assert card["players"] == ["random"]
    models = [run / name / "starts-4" / "seed-0" for name in ("run", "other")]
    texts = [(unit / "models" / "base" / "model.safetensors").read_bytes() for unit in models]
    assert texts[0] == texts[1]


def test_policies_that_are_asked_for_an_outcome_read_it(run: Path):
    unit = run / "run" / "starts-4" / "seed-0"
    row = json.loads((unit / "evaluation" / "rvs" / "episodes.jsonl").read_text().splitlines()[0])
    episode = row.get("episode", row)
    assert {turn["reflection"] for turn in episode["turns"]} == {"Asked: win."}


def test_each_trained_policy_has_a_card_with_its_log_its_settings_and_its_results(run: Path):
    unit = run / "run" / "starts-4" / "seed-0"
    cards = {name: (unit / "learn" / name / "model" / "README.md").read_text() for name in METHODS[1:]}
    log = json.loads((unit / "log" / "card.json").read_text())
    lost_and_won = f"log of 16 episodes, {log['won']} of them won, played by random, erring_expert"
    assert [name for name, text in cards.items() if lost_and_won in text] == [
        n for n in cards if n not in ("dagger", "archer", "rcrl")
    ]
    assert "- **method**: Behaviour cloning (method `bc`), then A-LoL (method `a_lol`)" in cards["a_lol"]
    assert '[offline.a_lol]\nvariant = "turn"' in cards["a_lol"]
    assert "[offline.training]\nsteps = 3" in cards["a_lol"]
    assert "and the labels of its solver" in cards["dagger"]
    assert "(the reflection)" in cards["rvs"]
    assert "then Return-conditioned RL (method `rcrl`); in place of a reflection it reads what" in cards["rcrl"]
    assert "[offline.rcrl]\nrounds = 2" in cards["rcrl"]
    assert "online RL of 20 turns" in cards["gail"]
    assert "- `unknown_share`: " in cards["morel"]
    assert all(f"| {name} | far | sampled |" in text for name, text in cards.items())
    assert not any(str(run) in text for text in cards.values())


def test_the_settings_that_a_card_shows_exist():
    values = parse(RunConfig, {}).model_dump(mode="json")
    for name in registry.names("methods"):
        method = find_method(name)
        for section in method.settings if isinstance(method, LearnedMethod) else ():
            part = values
            for key in section.split("."):
                assert key in part, (name, section)
                part = part[key]


def test_a_run_without_such_methods_has_no_such_jobs(capsys, tmp_path: Path):
    assert not {job.kind for job in plan(parse(RunConfig, {}))} & {"log", "learn"}


def test_a_deleted_model_is_noticed(run: Path, capsys):
    unit = run / "run" / "starts-4" / "seed-0"
    shutil.copytree(run / "run", run / "damaged")
    place = run / "damaged" / "starts-4" / "seed-0"
    (place / "learn" / "bc" / "model" / "model.safetensors").write_bytes(b"")
    (place / "evaluation" / "bc" / "done").unlink()
    assert main(["eval", str(run / "run.toml"), "--output-dir", str(run / "damaged")]) == 2
    assert "run `reflect-rl learn` again" in " ".join(capsys.readouterr().err.split())
    assert (unit / "learn" / "bc" / "done").is_file()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("offline.log.episodes=no.jsonl", "there is no file no.jsonl"),
        ("offline.log.quality=good", "offline.log.quality"),
        ("offline.training.steps=0", "offline.training.steps"),
    ],
)
def test_wrong_settings_are_named(run: Path, tmp_path: Path, capsys, change, said):
    key, _, value = change.partition("=")
    words = ["run", str(run / "run.toml"), "--output-dir", str(tmp_path / "out"), f"--{key}", value]
    assert main(words) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_the_core_names_the_package_of_every_part():
    """What is not installed must be named by its package."""
    for kind in ("algorithms", "methods", "stages", "settings"):
        points = registry._installed(kind).values()
        own = [point.name for point in points if point.value.startswith("reflect_algorithms")]
        assert own
        assert {registry.COMPANIONS[kind].get(name) for name in own} == {"reflect-algorithms"}
