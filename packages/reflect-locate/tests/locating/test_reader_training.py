"""Training a language model to choose among the candidates of the index."""

from __future__ import annotations

import io
import math
import shutil
from dataclasses import dataclass, replace

import pytest
import torch
from rich.console import Console

from reflect_locate.cli.train_reader import run
from reflect_locate.evidence import Evidence
from reflect_locate.places import mean_reciprocal_rank
from reflect_locate.questions.build import build_task_set
from reflect_locate.questions.config import TasksConfig
from reflect_locate.reader import Reader, load_reader
from reflect_locate.reader_settings import ReaderSettings, ReaderTraining
from reflect_locate.reader_training import READ, TEMPERATURE, Reading, log_policy, readings, train_reader
from reflect_locate.reader_weight import Asked, best_bound, best_weight
from reflect_rl.config import ModelConfig
from reflect_rl.errors import ConfigError, ModelError, TrainingError, UserError
from reflect_rl.models import precision
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.precision import Choice
from reflect_rl.store import read_json, read_jsonl, write_json
from tiny_player import project_files, save_tiny_player, write_files

SETTINGS = ReaderSettings(candidates=4, lines=4, lines_before=0, longest=120)
COLOURS = ("red", "green", "blue", "amber")
ROWS_TO_LEARN = [
    Reading(
        f"row/{number}",
        f"Where is {colour} paint?",
        tuple(f"File {other}.py:\n{other}" for other in COLOURS),
        (0.5, 0.5, 0.5, 0.5),
        tuple(other == colour for other in COLOURS),
    )
    for number, colour in enumerate(COLOURS)
]
"""The file that names the colour is the right one."""
QUICK = ReaderTraining(steps=24, batch_size=4, learning_rate=1e-2, warmup_steps=2, save_steps=8)


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    return save_tiny_player(tmp_path_factory.mktemp("reader") / "tiny") / "policy"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    write_files(folder / "shop", project_files())
    # Equal files would count as copies, and have no questions.
    other = {path: text.replace("Robots", "Machines") for path, text in project_files().items()}
    write_files(folder / "other", other)
    projects = {"train": [str(folder / "shop")], "validation": [str(folder / "other")], "test": []}
    config = TasksConfig.model_validate({"output_dir": folder / "set", **projects})
    return build_task_set(config, lambda text: None)


def fresh(player) -> LanguageModel:
    return load_model(ModelConfig(path=str(player)), trainable=True)


def trained(player, folder, config=QUICK, rows=ROWS_TO_LEARN, seed=0) -> LanguageModel:
    model = fresh(player)
    train_reader(model, rows, config, folder, seed, lambda done, total, note: None)
    return model


def rates(model: LanguageModel) -> list[float]:
    """Probability of the right file of each row."""
    found = []
    for row in ROWS_TO_LEARN:
        likelihoods = torch.tensor(Reader(model).likelihoods(row.question, row.passages))
        policy = log_policy(torch.tensor(row.scores), likelihoods).exp()
        found.append(float(policy[row.right.index(True)]))
    return found


def test_the_policy_is_the_softmax_of_the_scores_and_the_likelihoods():
    weights = [math.exp((0.5 + READ * -2.0) / TEMPERATURE), math.exp((0.4 + READ * -1.0) / TEMPERATURE)]
    found = log_policy(torch.tensor([0.5, 0.4]), torch.tensor([-2.0, -1.0])).exp().tolist()
    assert found == pytest.approx([weight / sum(weights) for weight in weights])


@pytest.mark.parametrize("objective", ["sft", "rl"])
def test_both_objectives_learn_to_choose_the_right_file(player, tmp_path, objective):
    before = rates(fresh(player))
    after = rates(trained(player, tmp_path, QUICK.model_copy(update={"objective": objective, "steps": 60})))
    assert sum(after) / len(after) > 0.2 + sum(before) / len(before)


def test_the_losses_are_those_of_the_policy_before_the_step(player, tmp_path):
    right = rates(fresh(player))
    for objective, loss in (("sft", -sum(map(math.log, right)) / 4), ("rl", -sum(right) / 4)):
        trained(player, tmp_path / objective, QUICK.model_copy(update={"objective": objective, "steps": 1}))
        assert read_jsonl(tmp_path / objective / "metrics.jsonl", "")[0]["loss"] == pytest.approx(loss, abs=1e-3)


def test_an_interrupted_training_ends_with_the_same_weights(player, tmp_path):
    whole = trained(player, tmp_path / "whole")

    def stop(done: int, total: int, note: str) -> None:
        if done == 11:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_reader(fresh(player), ROWS_TO_LEARN, QUICK, tmp_path / "cut", 0, stop)
    assert trained(player, tmp_path / "cut").hash() == whole.hash()
    steps = [row["step"] for row in read_jsonl(tmp_path / "cut" / "metrics.jsonl", "")]
    assert steps == list(range(1, 25))


def test_a_step_that_would_spoil_the_weights_is_refused(player, tmp_path):
    with pytest.raises(TrainingError):
        trained(player, tmp_path, QUICK.model_copy(update={"stop_grad_norm": 1e-9}))


def test_what_is_read_are_the_best_files_of_the_index(tasks):
    questions = tasks.draw("train", 20, 0)
    rows = list(readings([(tasks, question) for question in questions], SETTINGS))
    assert [row.key for row in rows] == [question.key for question in questions]
    assert 10 < sum(row.is_choice for row in rows) <= len(rows) == 20
    for row in rows:
        assert len(row.passages) == len(row.scores) == len(row.right) <= 4
        assert row.is_choice == (sum(row.right) == 1)
        assert list(row.scores) == sorted(row.scores, reverse=True)
        # The sentence that the question was made from is masked.
        assert not any(row.question in text for text in row.passages)


def test_nothing_to_learn_from_is_told(player, tmp_path):
    with pytest.raises(UserError, match="no question has a right and a wrong file"):
        trained(player, tmp_path, rows=[])


def test_the_command_trains_a_reader_that_locate_can_use(tasks, player, tmp_path):
    out = tmp_path / "out"
    words = ["--start-from", str(player), "--rank", "0", "--precision", "float32", "--output-dir", str(out)]
    sizes = ["--steps", "2", "--batch-size", "2", "--questions", "12", "--candidates", "3", "--longest", "120"]
    sizes += ["--validation-questions", "6"]
    run([str(tasks.folder), *words, *sizes], Console(quiet=True))
    reader = load_reader(str(out / "model"), "float32")
    asked = [Asked.model_validate(row) for row in read_jsonl(out / "validation.jsonl", "")]
    assert len(asked) == 6
    sizes_read = ReaderSettings(small_share=0, candidates=3, lines=8, lines_before=2, longest=120)
    weight = best_weight(asked)
    chosen = {"weight": weight, "likely": best_bound(asked, weight)}
    assert reader.settings == sizes_read.model_copy(update=chosen)
    assert reader.model.hash() != fresh(player).hash()
    # Killed while it was finding candidates, it goes on from there.
    lines = (out / "readings.jsonl").read_text().splitlines(keepends=True)
    (out / "readings.jsonl").write_text("".join(lines[:3]) + lines[3][:20])
    shutil.rmtree(out / "checkpoints")
    judged = (out / "validation.jsonl").read_text().splitlines(keepends=True)
    (out / "validation.jsonl").write_text("".join(judged[:2]) + judged[2][:20])
    run([str(tasks.folder), *words, *sizes], Console(quiet=True))
    assert (out / "readings.jsonl").read_text() == "".join(lines)
    assert load_reader(str(out / "model"), "float32").model.hash() == reader.model.hash()
    assert load_reader(str(out / "model"), "float32").settings == reader.settings
    with pytest.raises(ConfigError, match=r"another value of seed \(0, now 1\)"):
        run([str(tasks.folder), *words, *sizes, "--seed", "1"], Console(quiet=True))


def test_several_task_sets_give_as_many_questions_each(tasks, player, tmp_path):
    projects = {"train": [str(tmp_path / "third")], "validation": [str(tmp_path / "fourth")], "test": []}
    for name in ("third", "fourth"):
        files = {path: text.replace("Robots", name.title()) for path, text in project_files().items()}
        write_files(tmp_path / name, files)
    config = TasksConfig.model_validate({"output_dir": tmp_path / "second", **projects})
    second = build_task_set(config, lambda text: None)
    sizes = ["--start-from", str(player), "--rank", "0", "--precision", "float32", "--steps", "1", "--batch-size", "2"]
    sizes += ["--questions", "5", "--validation-questions", "3", "--longest", "120"]
    out = tmp_path / "out"
    run([str(tasks.folder), str(second.folder), *sizes, "--output-dir", str(out)], Console(quiet=True))
    for name, drawn, projects in (("readings", 5, ("shop", "third")), ("validation", 3, ("other", "fourth"))):
        keys = [row["key"].split("/")[0] for row in read_jsonl(out / f"{name}.jsonl", "")]
        assert keys == [project for project in projects for _ in range(drawn)]
    with pytest.raises(ConfigError, match="another value of tasks"):
        run([str(tasks.folder), *sizes, "--output-dir", str(out)], Console(quiet=True))
    with pytest.raises(ConfigError, match="are one and the same"):
        run([str(tasks.folder), f"{tasks.folder.parent}/./{tasks.folder.name}", *sizes], Console(quiet=True))


def test_the_weight_is_not_chosen_on_a_project_that_another_set_trains_on(tasks, player, tmp_path):
    config = TasksConfig.model_validate({"output_dir": tmp_path / "second", **tasks.card["settings"]})
    projects = {"train": config.validation, "validation": config.train}
    second = build_task_set(config.model_copy(update=projects | {"output_dir": tmp_path / "second"}), lambda text: None)
    sizes = ["--start-from", str(player), "--rank", "0", "--precision", "float32", "--steps", "1", "--batch-size", "2"]
    sizes += ["--questions", "5", "--validation-questions", "3", "--longest", "120"]
    said = Console(record=True, width=200, file=io.StringIO())
    run([str(tasks.folder), str(second.folder), *sizes, "--output-dir", str(tmp_path / "out")], said)
    assert "6 validation questions are left out: another set trains on other, shop" in said.export_text()
    assert not (tmp_path / "out" / "validation.jsonl").exists()
    assert load_reader(str(tmp_path / "out" / "model"), "float32").settings.weight == ReaderSettings().weight


def test_a_task_set_has_to_be_named():
    with pytest.raises(ConfigError, match="name the folder of a task set"):
        run([], Console(quiet=True))


def test_the_format_that_was_measured_at_the_start_is_kept(tasks, player, tmp_path, monkeypatch):
    chosen = iter([Choice("float32", "precision: float32", 1.0, ""), Choice("mixed", "precision: mixed", 2.0, "")])
    monkeypatch.setattr(precision, "choose", lambda device, *, adapters: next(chosen))
    out = tmp_path / "out"
    words = ["--start-from", str(player), "--rank", "0", "--output-dir", str(out), "--candidates", "3"]
    sizes = ["--batch-size", "2", "--questions", "12", "--longest", "120", "--steps", "2"]
    run([str(tasks.folder), *words, *sizes], Console(quiet=True))
    begun = read_json(out / "options.json", "")
    assert (begun["precision"], begun["settled_precision"]) == ("auto", "float32")
    # The second answer is never asked for.
    run([str(tasks.folder), *words, *sizes], Console(quiet=True))
    assert read_json(out / "options.json", "") == begun
    assert next(chosen).precision == "mixed"


def test_a_reader_with_adapters_is_gone_on_from(tasks, player, tmp_path):
    sizes = ["--precision", "float32", "--steps", "1", "--batch-size", "2", "--questions", "4"]
    sizes += ["--validation-questions", "0"]
    first = ["--start-from", str(player), "--rank", "2", "--output-dir", str(tmp_path / "first")]
    run([str(tasks.folder), *first, *sizes], Console(quiet=True))
    adapted = load_reader(str(tmp_path / "first" / "model"), "float32")
    again = ["--start-from", str(tmp_path / "first" / "model"), "--rank", "0", "--output-dir", str(tmp_path / "second")]
    run([str(tasks.folder), *again, *sizes], Console(quiet=True))
    assert load_reader(str(tmp_path / "second" / "model"), "float32").model.hash() != adapted.model.hash()


def test_a_damaged_settings_file_is_named(player, tmp_path):
    folder = tmp_path / "reader"
    shutil.copytree(player, folder)
    write_json(folder / "reader.json", {"version": 1, "weight": 1.0})
    with pytest.raises(ConfigError, match="version"):
        load_reader(str(folder), "float32")
    (folder / "reader.json").write_text("{")
    with pytest.raises(UserError, match=r"reader\.json"):
        load_reader(str(folder), "float32")


def test_a_model_that_is_missing_leaves_nothing_behind(tasks, tmp_path):
    with pytest.raises(ModelError, match="no-such-model"):
        run(
            [str(tasks.folder), "--start-from", "no-such-model", "--output-dir", str(tmp_path / "out")],
            Console(quiet=True),
        )
    assert not (tmp_path / "out").exists()


def test_a_passage_that_is_too_long_is_told(player, tmp_path):
    row = replace(ROWS_TO_LEARN[0], passages=tuple("word " * 3000 for _ in COLOURS))
    with pytest.raises(ModelError, match=r"tokens, more than the model reads\. Lower --lines or --longest"):
        trained(player, tmp_path, rows=[row])


def test_settings_travel_with_the_model(player, tmp_path):
    reader = replace(load_reader(str(player), "float32"), settings=SETTINGS)
    reader.save(tmp_path)
    assert load_reader(str(tmp_path), "float32").settings == SETTINGS
    assert read_json(tmp_path / "reader.json", "")["candidates"] == 4


def asked(right: int, nats: float) -> Asked:
    """A question with two files: the index says the first one, and the model the second one, by so many nats."""
    evidence = (Evidence(1.0, 1.0, 1.0, None), Evidence(0.5, 0.5, 0.5, None))
    told = tuple(number == right for number in range(2))
    return Asked(key="", has_file=True, evidence=evidence, right=told, likelihoods=(-nats, 0.0), seconds=0.0)


def test_the_weight_is_the_best_one_by_reciprocal_rank():
    # The index leads by 0.5 of 2.4 in its evidence, the model by 0.5 in its own: they are even at the weight 2.4.
    assert asked(1, 2.0).place(2.0)[0] == 2
    assert asked(1, 2.0).place(3.0)[0] == 1
    assert best_weight([asked(1, 2.0)]) == 3.0
    assert best_weight([asked(0, 2.0)]) == 0.25
    # One question that the model spoils counts less than two that it mends.
    mixed = [asked(0, 2.0), asked(1, 2.0), asked(1, 2.0)]
    assert best_weight(mixed) == 3.0
    assert mean_reciprocal_rank([entry.place(3.0)[0] for entry in mixed]) == pytest.approx((0.5 + 1 + 1) / 3)
    assert mean_reciprocal_rank([entry.place(0.0)[0] for entry in mixed]) == pytest.approx((1 + 0.5 + 0.5) / 3)


@dataclass(frozen=True)
class Told:
    """A question whose first file is right or not, with the confidence by the index alone and after the reading."""

    right: bool
    alone: float
    read: float

    def place(self, weight: float) -> tuple[int, float]:
        return 1 if self.right else 2, self.read if weight else self.alone


@pytest.mark.parametrize(
    ("answers", "bound"),
    [
        ([(True, 0.3, 0.35), (False, 0.3, 0.3)], 0.22),  # half are right, before and after
        ([(True, 0.3, 0.35), (False, 0.1, 0.25)], 0.26),  # the reader makes a wrong guess likely
        ([(True, 0.3, 0.35), (False, 0.1, 0.5)], 0.22),  # what is sure does not count
        ([(True, 0.3, 0.1), (False, 0.1, 0.39)], 0.34),  # no bound will do
        ([(True, 0.1, 0.3)], 0.22),  # by the index alone nothing is likely
    ],
)
def test_likely_stays_as_true_as_by_the_index_alone(answers, bound):
    assert best_bound([Told(*answer) for answer in answers], 1.0) == bound


def test_without_questions_about_other_projects_the_weight_is_that_of_an_untrained_model(tasks, player, tmp_path):
    words = ["--start-from", str(player), "--rank", "0", "--precision", "float32", "--output-dir", str(tmp_path)]
    sizes = ["--steps", "1", "--batch-size", "2", "--questions", "4", "--validation-questions", "0"]
    run([str(tasks.folder), *words, *sizes], Console(quiet=True))
    assert load_reader(str(tmp_path / "model"), "float32").settings.weight == ReaderSettings().weight
    assert not (tmp_path / "validation.jsonl").exists()
