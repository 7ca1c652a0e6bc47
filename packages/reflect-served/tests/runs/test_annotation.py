"""A run whose reflections a language model writes: one job for all units, nothing asked twice, results that say so."""

from __future__ import annotations

import json
import re

import pytest

from fault_server import FaultServer, refuse, rows
from reflect_rl.config import parse
from reflect_rl.errors import ConfigError, RunFolderError
from reflect_rl.runs.check import check
from reflect_rl.runs.config import RunConfig, fingerprint, result_mark
from reflect_rl.runs.folder import read_card, write_card
from reflect_rl.runs.stages import execute, plan
from reflect_rl.runs.start import begin, open_run
from reflect_served.annotation.stage import card_text, preview_annotations, questions_of
from reflect_served.llm import EndpointError


def obedient(text: str) -> str:
    found = re.search(r"The best next action is: (.*)", text)
    assert found
    return f"I look where the goal is. Next: {found[1]}."


def config(folder, server=None, data=None, **changes) -> RunConfig:
    values = {
        "output_dir": str(folder),
        "methods": ["random", "sft_reflect"],
        "environment": {"name": "corridor", "lengths": 2},
        "model": {"embedded": {"hidden_size": 16, "layers": 1, "heads": 2}},
        "endpoint": {"base_url": server.url, "model": "tiny", "retries": 0} if server else {},
        "data": {"demonstration_starts": [1], "perturbed_episodes_per_start": 2, "restarts_per_start": 0}
        | {"annotator": "endpoint"}
        | (data or {}),
    }
    return parse(RunConfig, values | changes)


def do(run: RunConfig, *kinds: str) -> list[str]:
    """Do the unfinished jobs of these kinds here; what they say on the way."""
    open_run(run, "")
    notes: list[str] = []
    for job in plan(run):
        if job.kind in kinds and not job.done:
            job.folder.mkdir(parents=True, exist_ok=True)
            execute(job, run, lambda done, total, note: notes.append(f"{done}/{total} {note}"))
    return notes


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_job_annotates_all_units_before_their_data():
    run = config("x", seeds=[0, 1])
    jobs = list(plan(run))
    assert [job.title for job in jobs if job.kind in ("annotate", "data")] == [
        "annotate",
        "starts-1/seed-0 data",
        "starts-1/seed-1 data",
    ]
    assert all(job.needs == (jobs[0].folder,) for job in jobs if job.kind == "data")
    assert "annotate" not in [job.kind for job in plan(config("x", data={"annotator": "oracle"}))]


def test_the_data_sets_hold_the_models_texts_and_nothing_is_asked_twice(tmp_path):
    with FaultServer(write=lambda text: "" if "action (wait)" in text else obedient(text)) as server:
        run = config(tmp_path / "run", server, seeds=[0, 1])
        notes = do(run, "annotate")
        sent = sum(server.counts.values())
        assert set(server.counts.values()) == {1}
        assert notes[-1].startswith(f"{sent}/{sent} ")
        assert notes[-1].endswith(" tokens")
        do(run, "data")
        assert sum(server.counts.values()) == sent
    card = json.loads((tmp_path / "run/annotation/card.json").read_text())
    verdicts = lines(tmp_path / "run/annotation/annotations.jsonl")
    assert len(verdicts) == sent == sum(card["questions"].values())
    assert card["dropped"] == {"empty": sum(row["reason"] == "empty" for row in verdicts)}
    assert card["annotator"]["model"] == "tiny"
    left_out = rows = 0
    for seed in (0, 1):
        folder = tmp_path / f"run/starts-1/seed-{seed}/data"
        part = json.loads((folder / "card.json").read_text())["annotation"]
        assert part["turns"] == card["units"][f"starts-1/seed-{seed}"]
        table = lines(folder / "reflector.jsonl")
        assert all(row["completion"].startswith("I look where the goal is. Next: ") for row in table)
        texts = [turn["reflection"] for episode in lines(folder / "episodes.jsonl") for turn in episode["turns"]]
        assert sum(text is not None for text in texts) == len(table)
        left_out, rows = left_out + part["turns_left_out"], rows + len(table)
        # `policy_plain` needs no reflection, and keeps all rows.
        assert len(lines(folder / "policy_plain.jsonl")) == len(table) + part["turns_left_out"]
    assert card["turns_left_out"] == left_out > 0
    assert card["turns"] == left_out + rows
    shown = card_text(run)
    assert f"{sent} questions" in shown
    assert "empty: nothing is left" in shown
    assert f"files: {tmp_path / 'run/annotation'}" in shown


def test_what_was_answered_before_a_failure_is_kept(tmp_path):
    with FaultServer([None] * 3, refuse(401), obedient) as server:
        run = config(tmp_path / "run", server)
        with pytest.raises(EndpointError, match="401"):
            do(run, "annotate")
        assert not (tmp_path / "run/annotation/annotations.jsonl").exists()
        answered = len(rows(tmp_path / "run/endpoint", "answers"))
        server.fault = None
        before = sum(server.counts.values())
        do(run, "annotate")
        total = len(lines(tmp_path / "run/annotation/annotations.jsonl"))
        assert answered == 3
        assert sum(server.counts.values()) - before == total - answered


def test_a_dry_run_says_what_it_would_send_and_does_not(tmp_path):
    with FaultServer(write=obedient) as server:
        run = config(tmp_path / "run", server)
        shown = preview_annotations(run, questions_of(run))
        assert not server.bodies
    assert not (tmp_path / "run").exists()
    assert "for: annotations." in shown
    assert "PRIVATE NOTE" in shown
    assert "Nothing was sent." in shown


def test_an_endpoint_of_its_own_has_its_own_folder_and_budget(tmp_path):
    with FaultServer(write=obedient) as server:
        own = {"base_url": server.url, "model": "tiny", "price_input": 1.0, "max_cost": 1e-9}
        run = config(tmp_path / "run", data={"annotation": {"endpoint": own}})
        with pytest.raises(EndpointError, match=r"data\.annotation\.endpoint\.max_cost"):
            do(run, "annotate")
        assert not server.bodies
        # The limit may be raised in the same folder: it changes no text.
        richer = config(tmp_path / "run", data={"annotation": {"endpoint": own | {"max_cost": 5.0}}})
        assert "cost" in do(richer, "annotate")[-1]
    assert (tmp_path / "run/annotation/requests.sqlite").exists()
    assert not (tmp_path / "run/endpoint").exists()


def test_results_say_who_annotated_and_what(tmp_path):
    oracle = config(tmp_path / "oracle", data={"annotator": "oracle"})
    with (
        FaultServer(write=obedient) as server,
        FaultServer(write=lambda t: obedient(t).replace("look", "see")) as other,
    ):
        first, second = config(tmp_path / "first", server), config(tmp_path / "second", other)
        for run in (first, second):
            do(run, "annotate")
    # Who was asked, and how, is in both; what came of it only in the results of methods that learned from it.
    assert fingerprint(first) == fingerprint(second) != fingerprint(oracle)
    assert result_mark(first, learned=False) == fingerprint(first)
    assert len({result_mark(run, learned=True) for run in (first, second, oracle)}) == 3
    assert result_mark(oracle, learned=True) == fingerprint(oracle)
    longer = config(tmp_path / "first", server, data={"annotation": {"max_words": 61}})
    assert fingerprint(longer) != fingerprint(first)


def test_the_settings_of_an_annotator_that_is_not_asked_change_no_fingerprint():
    plain = config("x", data={"annotator": "oracle"})
    assert fingerprint(plain) == fingerprint(
        config("x", data={"annotator": "oracle", "annotation": {"max_words": 20, "actions": True}})
    )


def test_annotations_of_other_demonstrations_are_refused(tmp_path):
    with FaultServer(write=obedient) as server:
        run = config(tmp_path / "run", server)
        do(run, "annotate")
    path = tmp_path / "run/annotation/annotations.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(RunFolderError, match=r"has changed since it was made .* run `reflect-rl annotate` again"):
        do(run, "data")
    # A mark without checksums, of an earlier version, leaves it to the reader.
    (tmp_path / "run/annotation/done").write_text("")
    with pytest.raises(RunFolderError, match=r"lacks states of the demonstrations\. Delete .*/annotation/done"):
        do(run, "data")
    path.write_text('{"key": "x"}\n{"key": "y"}\n')
    with pytest.raises(RunFolderError, match="holds other rows than annotations"):
        do(run, "data")


def test_another_run_can_begin_with_the_annotations(tmp_path):
    with FaultServer(write=obedient) as server:
        run = config(tmp_path / "run", server)
        do(run, "annotate", "data")
        sent = sum(server.counts.values())
        mine = config(tmp_path / "mine", server, start_from=str(tmp_path / "run"))
        assert begin(mine, "") == ["annotate", "starts-1/seed-0 data"]
        do(mine, "annotate", "data")
        assert sum(server.counts.values()) == sent
    assert result_mark(mine, learned=True) == result_mark(run, learned=True)


def test_a_folder_of_a_version_without_annotators_goes_on(tmp_path):
    run = config(tmp_path / "run", data={"annotator": "oracle"})
    open_run(run, "")
    path = tmp_path / "run/config.json"
    before = json.loads(path.read_text())
    del before["data"]["annotator"]
    assert "endpoint" not in before
    path.write_text(json.dumps(before))
    older = read_card(tmp_path / "run").model_copy(update={"code_sha256": "of an older version"})
    write_card(tmp_path / "run", older)
    open_run(run, "")
    (tmp_path / "run/starts-1/seed-0/data").mkdir(parents=True)
    (tmp_path / "run/starts-1/seed-0/data/done").touch()
    with FaultServer() as server, pytest.raises(RunFolderError, match=r"data\.annotator is 'oracle' there"):
        open_run(config(tmp_path / "run", server), "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "data.annotator: 'endpoint' asks a language model, and none is named. Set endpoint.base_url"),
        ({"label_source": "paper"}, "data.label_source: under 'paper' the label is whatever was played"),
    ],
)
def test_mistakes_are_found_before_anything_begins(data, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        check(config("x", data=data))
