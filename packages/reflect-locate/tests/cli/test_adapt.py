"""`reflect-rl adapt`, from a repository to the table; and what it says about mistakes."""

import json

import pytest
from rich.console import Console

from reflect_locate.adapt import Outcome, compare
from reflect_locate.cli.adapt import comparison_table, parse_adapt, run
from reflect_locate.cli.export import run as export
from reflect_locate.trained_player import load_player, load_settings
from reflect_rl.errors import ConfigError, UserError
from tiny_player import project_files, save_tiny_player, write_files


@pytest.fixture
def adapted(tmp_path, capsys):
    """Calls the verb on a folder; what it prints."""
    player = save_tiny_player(tmp_path / "player", context_tokens=2048, max_episode_steps=5)
    small = ["--starts", 2, "--sft-steps", 2, "--rlft-turns", 10, "--questions", 10, "--episodes", 1]

    def adapted(project):
        words = [project, "--output-dir", tmp_path / "out", "--model", player, *small]
        run([str(word) for word in words], Console(width=160, highlight=False, soft_wrap=True, markup=False))
        return capsys.readouterr().out

    return adapted


def test_an_interrupted_adaptation_says_that_it_goes_on(adapted, tmp_path, monkeypatch):
    def press_ctrl_c(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("reflect_locate.cli.adapt._measure", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt, match="the same command goes on from the last checkpoint"):
        adapted(write_files(tmp_path / "alder", project_files()))


def test_a_repository_is_learnt_and_measured_before_and_after(adapted, tmp_path):
    said = adapted(write_files(tmp_path / "alder", project_files()))
    for part in ("done  starts-2/seed-0 data", "sft policy_lexical", "rlft reflect_rl_lexical", "before %", "after %"):
        assert part in said
    out = tmp_path / "out"
    table = json.loads((out / "adapted.json").read_text())
    assert [entry["name"] for entry in table["comparisons"]][:2] == ["first", "first 5"]
    assert table["comparisons"][0]["questions"] == 10
    assert len((out / "after.jsonl").read_text().splitlines()) == 10
    settings = load_settings(tmp_path / "player")[0]
    before, after = load_player(tmp_path / "player", device="cpu"), load_player(out / "player", device="cpu")
    assert before.model.hash() != after.model.hash()
    assert before.labels == after.labels
    assert after.settings.environment.max_episode_steps == 5
    # What was made can be exported, from its folder or from the player in it, with its weights and settings.
    for number, source in enumerate((out, out / "player")):
        target = tmp_path / f"exported-{number}"
        export([str(source), str(target), "--questions", "0"], Console(quiet=True))
        exported = load_player(target, device="cpu")
        assert exported.model.hash() == after.model.hash() == exported.settings.trained["weights"]
        assert (exported.settings.weights, exported.settings.threshold) == (settings.weights, settings.threshold)
        assert "tasks" not in json.loads((target / "settings.json").read_text())["environment"]
    # Its threshold can be measured on the questions that were made for it.
    assert (
        load_settings(out)[0].environment.tasks == load_settings(out / "player")[0].environment.tasks == out / "tasks"
    )
    # The same command goes on, and everything is done.
    again = adapted(tmp_path / "alder")
    assert "made before" in again
    assert "done  " not in again


def test_a_repository_with_few_questions_is_refused_before_any_training(adapted, tmp_path):
    with pytest.raises(UserError, match="held-out questions, and a comparison needs 10"):
        adapted(write_files(tmp_path / "kettle"))
    assert not (tmp_path / "out/run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [([], "name one repository"), (["a", "b"], "Got 2"), (["a", "--questions", "3"], "questions")],
)
def test_mistakes_in_the_words_are_named(words, message):
    with pytest.raises(ConfigError, match=message):
        parse_adapt(words)


def test_the_table_shows_rates_with_intervals():
    before = [Outcome(str(key), 0, "none", 3) for key in range(10)]
    after = [Outcome(str(key), 1, "none", 3) for key in range(10)]
    console = Console(width=120, record=True)
    console.print(comparison_table(compare(before, after)))
    text = console.export_text()
    # Wilson's interval of 0 of 10 is 0 to 27.8 %.
    assert "0.0 (0 to 28)" in text
    assert "100.0 (72 to 100)" in text
    assert "+100.0" in text
