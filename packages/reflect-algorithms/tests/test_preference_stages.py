"""The stages `pairs` and `reward`, and the methods that learn from them, from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from reflect_report.preferences.records import OTHER_SIDE, read_preferences
from reflect_rl.cli.main import main
from reflect_rl.config import parse
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.stages import plan, stages_of
from run_toy import corridor_run

SETTINGS = corridor_run(
    '["dpo", "rrhf", "rlhf", "ppo_max"]',
    """\
[sft.base]
steps = 2
[sft.policy_plain]
steps = 2
[preferences.pairs]
count = 12
noise = 0.1
[preferences.training]
steps = 3
batch_size = 4
[rlft]
total_turns = 40
starts_per_update = 2
validate_every = 0
""",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("preferences")
    (folder / "run.toml").write_text(SETTINGS)
    assert main(["run", str(folder / "run.toml"), "--output-dir", str(folder / "run")]) == 0
    return folder


def test_a_run_makes_pairs_and_a_reward_and_has_rows_of_its_methods(run: Path):
    unit = run / "run" / "starts-4" / "seed-0"
    rows = json.loads((run / "run" / "results.json").read_text())
    assert {row["method"] for row in rows} == {"dpo", "rrhf", "rlhf", "ppo_max"}
    found = read_preferences(unit / "pairs" / "preferences.jsonl")
    assert len(found) == 12
    assert {one.source for one in found} == {"reward"}
    card = json.loads((unit / "pairs" / "card.json").read_text())
    assert card["learned"] + card["held_out"] == card["pairs"] <= 12
    assert "pair_accuracy" in json.loads((unit / "reward" / "card.json").read_text())
    assert {path.name for path in (unit / "reward").iterdir()} >= {"head.safetensors", "reward.json", "model"}
    metrics = [json.loads(line) for line in (unit / "learn" / "rlhf" / "metrics.jsonl").read_text().splitlines()]
    assert {"reward/true_return", "reward/learned_return", "reward/kl"} <= set(metrics[-1])


def test_policies_and_reward_model_have_cards(run: Path):
    unit = run / "run" / "starts-4" / "seed-0"
    made = json.loads((unit / "pairs" / "card.json").read_text())
    pairs = f"- **data**: {made['learned']} preferences; {made['held_out']} others were held out"
    card = (unit / "learn" / "dpo" / "model" / "README.md").read_text()
    reward = (unit / "reward" / "model" / "README.md").read_text()
    assert pairs in card
    assert pairs in reward
    assert "- **method**: supervised training on `policy_plain`, then DPO (method `dpo`)" in card
    assert "[preferences.dpo]\nbeta = 0.1" in card
    assert "| dpo | far | sampled |" in card
    assert reward.startswith("# reward model for corridor")
    assert "the head `head.safetensors` in the folder above" in reward
    measured = json.loads((unit / "reward" / "card.json").read_text())["pair_accuracy"]
    assert f"- `pair_accuracy`: {measured}" in reward


def test_the_same_run_gives_the_same_pairs_and_weights(run: Path):
    again = ["run", str(run / "run.toml"), "--output-dir", str(run / "again"), "--methods", "dpo", "rlhf"]
    assert main(again) == 0
    names = ["pairs/preferences.jsonl", "reward/head.safetensors"]
    names += [f"learn/{method}/model/model.safetensors" for method in ("dpo", "rlhf")]
    first, second = (run / name / "starts-4" / "seed-0" for name in ("run", "again"))
    assert [name for name in names if (first / name).read_bytes() != (second / name).read_bytes()] == []


def test_pairs_and_reward_are_made_where_a_method_needs_them():
    def kinds(*methods: str) -> list[str]:
        return [job.kind for job in plan(parse(RunConfig, {"methods": list(methods)}))]

    assert {"pairs", "reward"} <= set(kinds("rlhf"))
    assert "reward" not in kinds("dpo")
    assert not {"pairs", "reward", "log"} & set(kinds("sft"))
    assert kinds("rlhf").index("pairs") < kinds("rlhf").index("reward") < kinds("rlhf").index("learn")
    assert stages_of("learn")[-3:] == ("pairs", "reward", "learn")


def test_pairs_of_a_file_are_learned_from_and_those_of_another_game_are_refused(run: Path, capsys):
    path = run / "run" / "starts-4" / "seed-0" / "pairs" / "preferences.jsonl"
    shutil.copy(path, run / "answers.jsonl")
    words = ["--preferences.pairs.file", str(run / "answers.jsonl"), "--methods", "rrhf"]
    shared = ["--start-from", str(run / "run")]
    assert main(["run", str(run / "run.toml"), "--output-dir", str(run / "file"), *words, *shared]) == 0
    own = run / "file" / "starts-4" / "seed-0" / "pairs" / "preferences.jsonl"
    assert own.read_bytes() == path.read_bytes()
    words += ["--environment.length", "6", "--output-dir", str(run / "other")]
    assert main(["run", str(run / "run.toml"), *words]) != 0
    said = [json.loads(p.read_text()) if p.suffix == ".json" else p.read_text() for p in run.glob("other/**/error.txt")]
    assert "fingerprint" in str(said) + capsys.readouterr().err


def test_answers_that_were_dropped_are_told_where_too_few_are_left(run: Path, capsys):
    path = run / "run" / "starts-4" / "seed-0" / "pairs" / "preferences.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    other = [row | {"by": "ben", "choice": OTHER_SIDE[row["choice"]]} for row in rows]
    (run / "disagree.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (*rows, *other)))
    words = ["--preferences.pairs.file", str(run / "disagree.jsonl"), "--methods", "dpo"]
    words += ["--start-from", str(run / "run"), "--output-dir", str(run / "none")]
    assert main(["run", str(run / "run.toml"), *words]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert "0 pairs of 0 starts cannot be divided" in said
    assert "24 answers were dropped, since people disagree on their pairs" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("preferences.pairs.file=no.jsonl", "there is no file no.jsonl"),
        ("preferences.pairs.noise=0.6", "preferences.pairs.noise"),
        ("preferences.pairs.compare=cats", "preferences.pairs.compare"),
    ],
)
def test_wrong_settings_are_named(run: Path, tmp_path: Path, capsys, change, said):
    key, _, value = change.partition("=")
    assert main(["run", str(run / "run.toml"), "--output-dir", str(tmp_path / "out"), f"--{key}", value]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_damaged_reward_model_is_noticed(run: Path, capsys):
    shutil.copytree(run / "run", run / "damaged")
    unit = run / "damaged" / "starts-4" / "seed-0"
    (unit / "reward" / "head.safetensors").write_bytes(b"")
    (unit / "learn" / "rlhf" / "done").unlink()
    assert main(["learn", str(run / "run.toml"), "--output-dir", str(run / "damaged")]) == 2
    assert "reflect-rl reward" in " ".join(capsys.readouterr().err.split())
