"""One run through all stages, in processes of its own, and what can be done with its folder afterwards."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tiny_run import METHODS, ROOT, SMOKE, TINY

import reflect_rl as rrl
from reflect_rl.envs.dangerous_taxi import DangerousTaxi
from reflect_rl.errors import UnknownNameError, UserError
from reflect_rl.evaluation.evaluate import ResultRow
from reflect_rl.runs.folder import alone

UNIT = "starts-4/seed-0"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Folder and output of a run."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    command = [
        sys.executable,
        "-m",
        "reflect_rl.cli.main",
        "run",
        str(SMOKE),
        "--output-dir",
        str(folder),
        *METHODS,
        *TINY,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the run folder that a test may change."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


def same_command(call, run, verb="run"):
    return call(verb, SMOKE, "--output-dir", run, *METHODS, *TINY)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def rows(run):
    return json.loads((run / "results.json").read_text())


def test_an_agent_of_a_run_plays_as_it_was_evaluated(finished):
    folder, _ = finished
    loaded = rrl.load_agent(folder, "reflect_rl", device="cpu")
    assert (loaded.origin.method, loaded.origin.starts) == ("reflect_rl", 4)
    assert loaded.reflector.reflect([rrl.View(rrl.Observation("a state", ("north",)), (0,))]) != [None]
    with pytest.raises(UserError, match=r"Name one with method=\."):
        rrl.load_agent(folder)
    with pytest.raises(UnknownNameError, match="Did you mean 'reflect_rl'"):
        rrl.load_agent(folder, "reflect_lr")
    with pytest.raises(UnknownNameError, match=f"Did you mean '{UNIT}'"):
        rrl.load_agent(folder, "reflect_rl", unit="starts-4/seed-1")


def test_a_run_takes_its_environment_as_a_class_or_a_spec(run):
    file = run / "config.json"
    settings = json.loads(file.read_text())
    # The run is on DangerousTaxi. Its settings fit those of a class over it, which no distribution provides.
    settings["environment"]["name"] = "own_taxi:OwnTaxi"
    own = ModuleType("own_taxi")
    own.OwnTaxi = type("OwnTaxi", (DangerousTaxi,), {"__module__": "own_taxi", "name": "dangerous_taxi"})
    for env in (DangerousTaxi, rrl.make_env("dangerous_taxi")):
        assert rrl.load_agent(run, "sft", env=env, device="cpu").origin.environment == "dangerous_taxi"
    with pytest.raises(UserError, match=r"is a run on 'dangerous_taxi', and env is the class 'own_taxi:OwnTaxi'"):
        rrl.load_agent(run, "sft", env=own.OwnTaxi)
    file.write_text(json.dumps(settings))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "own_taxi", own)
        for env in (own.OwnTaxi, rrl.make_env(own.OwnTaxi), "own_taxi:OwnTaxi"):
            assert rrl.load_agent(run, "sft", env=env, device="cpu").origin.environment == "own_taxi:OwnTaxi"
        with pytest.raises(UserError, match=r"Give env='own_taxi:OwnTaxi', or its class"):
            rrl.load_agent(run, "sft", env=DangerousTaxi)


def test_the_output_is_lines_of_this_program_only(finished):
    _, done = finished
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    jobs = [line for line in lines if line.startswith("done  ")]
    assert len(jobs) == 9  # data; base, reflector and two policies; one RLFT; three evaluations
    assert lines[: len(jobs)] == jobs
    assert "\x1b" not in done.stdout
    assert lines[-1].startswith("report: ")


def test_the_folder_is_laid_out_as_the_readme_says(finished):
    run, _ = finished
    unit = run / UNIT
    for name in ("config.json", "run.json", "results.json", "report.html"):
        assert (run / name).stat().st_size > 0
    for name in ("episodes.jsonl", "card.json", "reflector.jsonl", "policy_reflect.jsonl"):
        assert (unit / "data" / name).stat().st_size > 0
    for name in ("base", "reflector", "policy_plain", "policy_reflect"):
        assert (unit / "models" / name / "model.safetensors").exists()
        assert (unit / "sft" / name / "metrics.jsonl").exists()
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (unit / "rlft" / "reflect_rl" / name).exists()
    for method in ("random", "sft", "reflect_rl"):
        assert (unit / "evaluation" / method / "rows.json").exists()
        assert (unit / "evaluation" / method / "episodes.jsonl").exists()
    assert not list(run.rglob("error.txt"))
    assert not list(run.rglob("*.new"))


def test_each_row_of_the_results_says_what_was_measured(finished):
    run, _ = finished
    table = rows(run)
    # random is sampled only: 1 decoding + 2 + 2, each in 2 modes at 2 horizons
    assert len(table) == (1 + 2 + 2) * 2 * 2
    assert [ResultRow.model_validate(row).model_dump(mode="json", exclude_none=True) for row in table] == table
    assert all({"mean_return", "mean_turns", "turns_per_second", "fingerprint"} <= set(row) for row in table)
    assert {row["episodes"] for row in table} == {6}
    card = json.loads((run / "run.json").read_text())
    assert card["command"].startswith("reflect-rl run ")
    assert card["finished"] is not None
    assert len(card["stages"]) == 9


def test_the_same_command_does_nothing_twice(call, run):
    before = times(run / UNIT)
    answer = same_command(call, run)
    assert answer.code == 0
    assert "done  " not in answer.output
    assert times(run / UNIT) == before


def test_a_job_without_its_mark_is_done_again_with_the_same_result(call, run):
    before = rows(run)
    (run / UNIT / "evaluation" / "sft" / "done").unlink()
    answer = call("run", run)
    assert [line.split("  (")[0] for line in answer.output.splitlines() if line.startswith("done")] == [
        f"done  {UNIT} eval sft"
    ]

    def without_speed(table):
        return [{key: value for key, value in row.items() if key != "turns_per_second"} for row in table]

    assert without_speed(rows(run)) == without_speed(before)


def deterministic(folder):
    """What must not depend on when or how a run ran: bytes of models, episodes and data, and rows without the clock."""
    out = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors" or path.name == "episodes.jsonl" or ("/data/" in name and path.is_file()):
            out[name] = path.read_bytes()
        elif path.name == "metrics.jsonl":
            table = [json.loads(line) for line in path.read_text().splitlines()]
            out[name] = [{k: v for k, v in r.items() if not k.startswith(("time/", "memory/"))} for r in table]
    table = [{key: value for key, value in row.items() if key != "turns_per_second"} for row in rows(folder)]
    return out | {"results.json": table}


def test_the_same_seed_gives_the_same_run_to_the_last_bit(call, finished, tmp_path):
    answer = call("run", SMOKE, "--output-dir", tmp_path / "run", *METHODS, *TINY, "--workers", "1")
    assert answer.code == 0, answer
    first, second = deterministic(finished[0]), deterministic(tmp_path / "run")
    assert len(first) > 15
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_other_settings_need_another_folder(call, run):
    answer = call("run", SMOKE, "--output-dir", run, *METHODS, *TINY, "--rlft.num_envs", "3")
    assert "other settings: rlft.num_envs is 64 there and 3 here. Choose another --output-dir" in answer.mistake
    assert call("eval", run, "--workers", "1").code == 0


def test_a_folder_at_work_is_left_alone(call, run):
    with alone(run):
        assert f"another process is at work in {run}. Wait for it" in same_command(call, run).mistake
    assert same_command(call, run).code == 0


def test_trained_players_can_be_watched(call, run):
    answer = call("play", run, "--player", "reflect_rl", "--decoding", "sampled", "--unit", UNIT)
    assert answer.code == 0
    assert "Analyze: " in answer.output
    assert answer.output.count(">   ") == answer.output.count(" reward ")
    folder = run / UNIT / "models"
    answer = call("play", run, "--player", folder / "policy_reflect", "--reflections", folder / "reflector")
    assert answer.code == 0
    assert "Analyze: " in answer.output


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_broken_config_can_be_deleted_because_the_card_knows_its_hash(call, run):
    cut(run / "config.json")
    assert "config.json is not readable" in same_command(call, run).mistake
    assert "Delete the file; the same command writes it again." in same_command(call, run).mistake
    (run / "config.json").unlink()
    assert (
        "by the hash in its run.json"
        in call("run", SMOKE, "--output-dir", run, *METHODS, *TINY, "--rlft.num_envs", "3").mistake
    )
    assert same_command(call, run).code == 0
    assert json.loads((run / "config.json").read_text())["rlft"]["total_turns"] == 40


def test_a_broken_card_can_be_deleted(call, run):
    cut(run / "run.json")
    assert "run.json is not readable" in same_command(call, run).mistake
    (run / "run.json").unlink()
    assert same_command(call, run).code == 0
    assert json.loads((run / "run.json").read_text())["benchmark"] == "dangerous_taxi"


def test_a_folder_of_unknown_settings_is_refused(call, run):
    (run / "config.json").unlink()
    (run / "run.json").unlink()
    assert "unknown settings: config.json and run.json are missing" in same_command(call, run).mistake


@pytest.mark.parametrize("text", ['[{"benchmark": "dangerous', "{}", "[1]"])
def test_broken_rows_name_the_evaluation_to_do_again(call, run, text):
    folder = run / UNIT / "evaluation" / "sft"
    (folder / "rows.json").write_text(text)
    assert f"Delete {folder / 'done'} and run `reflect-rl eval` again." in same_command(call, run).mistake


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json", None])
def test_a_broken_model_names_the_training_to_do_again(call, run, file):
    folder = run / UNIT / "models" / "policy_plain"
    if file is None:
        shutil.rmtree(folder)
    else:
        cut(folder / file)
    mark = run / UNIT / "sft" / "policy_plain" / "done"
    assert f"elete {mark} and run `reflect-rl sft` again." in call("play", run, "--player", "sft").mistake
    mark.unlink()
    if file is None:
        assert "Run `reflect-rl sft` first." in call("play", run, "--player", "sft").mistake


def test_a_mistake_inside_a_worker_arrives_as_one_message(call, run):
    data = run / UNIT / "data" / "policy_plain.jsonl"
    lines = data.read_text().splitlines()
    data.write_text("\n".join([*lines[:2], lines[2][:20], *lines[3:]]) + "\n")
    (run / UNIT / "sft" / "policy_plain" / "done").unlink()
    answer = call("sft", run)
    assert f"{data}, line 3 is no JSON" in answer.mistake
    assert f"Delete {data.parent / 'done'} and run `reflect-rl data` again." in answer.mistake
    assert answer.output == ""


def test_a_run_with_the_supervised_models_of_another_trains_the_same_policy(call, finished, tmp_path):
    source = finished[0]
    before = times(source)
    flags = ("--start-from", source, "--trackers", "tensorboard")
    answer = call("rlft", SMOKE, "--output-dir", tmp_path / "run", *METHODS, *TINY, *flags)
    assert answer.code == 0, answer
    taken = ("data", "sft base", "sft reflector", "sft policy_reflect", "sft policy_plain")
    assert answer.output.splitlines()[: len(taken)] == [f"taken {UNIT} {job}  (from {source})" for job in taken]
    assert times(source) == before
    model = f"{UNIT}/rlft/reflect_rl/model/model.safetensors"
    assert (tmp_path / "run" / model).read_bytes() == (source / model).read_bytes()
    assert list((tmp_path / "run" / UNIT / "rlft" / "reflect_rl" / "tensorboard").iterdir())


def test_players_that_learn_nothing_need_no_demonstrations(call, tmp_path):
    answer = call("run", SMOKE, "--output-dir", tmp_path / "run", "--methods", "random", "oracle", *TINY)
    assert answer.code == 0, answer.errors
    done = {line.split("  (")[0] for line in answer.output.splitlines() if line.startswith("done")}
    assert done == {f"done  {UNIT} eval random", f"done  {UNIT} eval oracle"}  # two workers, in the order they end
    assert not (tmp_path / "run" / UNIT / "data").exists()
    assert (tmp_path / "run" / "report.html").exists()
