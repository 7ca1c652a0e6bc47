"""`reflect-rl new`: the packages that it writes work as they are."""

from __future__ import annotations

import json
import sys

import pytest

from installing import install, output

TINY = (
    *("--model.embedded.hidden-size", "16", "--model.embedded.layers", "1", "--sft.base.steps", "2"),
    *("--sft.policy-plain.steps", "2", "--rlft.total-turns", "30", "--rlft.validate-every", "0", "--workers", "1"),
    *("--methods", "sft", "sft_rlft", "--evaluation.decodings", "greedy"),
)


@pytest.mark.parametrize("kind", ["environment", "algorithm"])
def test_a_written_package_passes_its_tests_and_runs(call, tmp_path, kind):
    answer = call("new", kind, tmp_path / "my-part")
    assert f"{kind} 'my_part' written to" in answer.output
    package = tmp_path / "my-part"
    environment = install(package, tmp_path / "installed")
    python = (sys.executable, "-m")
    assert "passed" in output(
        (*python, "pytest", "-q", "-p", "no:cacheprovider", "test_my_part.py"), package, environment
    )
    # The algorithm learns nothing in so few turns; the run of the environment is the one that its page promises.
    words = TINY if kind == "algorithm" else ("--workers", "1")
    output((*python, "reflect_rl", "run", str(package / "run.toml"), *words), tmp_path, environment)
    rows = json.loads((tmp_path / "runs" / "my_part" / "results.json").read_text(encoding="utf-8"))
    if kind == "algorithm":
        assert list(dict.fromkeys(row["algorithm"] for row in rows)) == ["none", "my_part"]
        return
    assert {row["benchmark"] for row in rows} == {"my_part"}
    random, trained = (
        next(row for row in rows if (row["method"], row["decoding"]) == player)
        for player in (("random", "sampled"), ("sft_rlft", "greedy"))
    )
    assert trained["ci95"][0] > random["ci95"][1]


def test_what_cannot_be_written(call, tmp_path):
    assert (
        "no template for 'enviroment'. Did you mean 'environment'?" in call("new", "enviroment", tmp_path / "a").mistake
    )
    assert "exists. Name a folder that does not" in call("new", "algorithm", tmp_path).mistake
    assert "'9' cannot name a Python module" in call("new", "algorithm", tmp_path / "9").mistake
    assert "takes what to make and a folder" in call("new", "algorithm").mistake
    for words in (("--help",), ("environment", "--help"), ("environment", tmp_path / "a", "--help"), ("-h",)):
        answer = call("new", *words)
        assert (answer.code, "usage: reflect-rl new" in answer.output) == (0, True)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("name", ["numpy", "json", "reflect_rl"])
def test_names_of_other_modules_are_refused(call, tmp_path, name):
    message = call("new", "environment", tmp_path / name).mistake
    assert f"a module {name!r} is installed, and the package would hide it. Name another folder." in message
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("algorithm", "ppo"), ("algorithm", "g2po"), ("environment", "corridor"), ("environment", "dangerous-taxi")],
)
def test_names_of_other_parts_are_refused(call, tmp_path, kind, name):
    message = call("new", kind, tmp_path / name).mistake
    told = f"the {kind} {name.replace('-', '_')!r} exists already, and no two can share a name. Name another folder"
    assert f"{told}, such as 'my-{name}'." in message
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("name", "suggested"), [("bad name!", "bad-name"), ("-mine", "mine"), ("game_", "game"), ("a+b", "a-b")]
)
def test_names_that_no_package_can_have_are_refused(call, tmp_path, name, suggested):
    message = call("new", "environment", tmp_path / name).mistake
    assert f"error: {name!r} cannot name a package, whose name has ASCII letters" in message
    assert message.endswith(f"Name the folder {suggested!r}.\n")
    assert not (tmp_path / name).exists()


def test_the_next_steps_can_be_pasted(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "pip install -e 'my games/lamps'\n" in call("new", "environment", "my games/lamps").output
    assert "pip install -e ./-mine/lamps\n" in call("new", "environment", "-mine/lamps").output
