"""Draws of a search: a pure function of the trials, and trials that fall behind are given up."""

import json

import pytest

from reflect_report.sweep.axes import Axis, Span
from reflect_report.sweep.search import Trial, draw, gives_up, read_trials, reports_of, write_trials
from reflect_rl.errors import RunFolderError

AXES = (Span("rlft.learning_rate", 1e-5, 1e-2, is_whole=False, is_log=True), Axis("a.b", ("x", "y")))
RATE = Span("rate", 0.0, 1.0, is_whole=False, is_log=False)


def trial(number: int, success: float | None, reports=(), state="done") -> Trial:
    return Trial(number=number, values={"rate": f"{number / 100}"}, state=state, success=success, reports=reports)


def test_a_draw_follows_from_the_trials_before_it():
    pytest.importorskip("optuna")
    past = []
    for number in range(12):
        values = dict(draw(AXES, past, seed=0))
        assert values == dict(draw(AXES, past, seed=0))
        assert 1e-5 <= float(values["rlft.learning_rate"]) <= 1e-2
        assert values["a.b"] in ("x", "y")
        past.append(Trial(number=number, values=values, state="done", success=float(values["a.b"] == "x")))
    assert len({json.dumps(known.values) for known in past}) == 12
    assert draw(AXES, past[:3], seed=0) != draw(AXES, past[:3], seed=1)


def test_a_search_finds_the_better_half():
    pytest.importorskip("optuna")
    past = []
    for number in range(40):
        values = dict(draw((RATE,), past, seed=0))
        past.append(Trial(number=number, values=values, state="done", success=1 - abs(float(values["rate"]) - 0.8)))
    late = [abs(float(known.values["rate"]) - 0.8) for known in past[20:]]
    # Uniform draws lie 0.34 from 0.8 in the mean: (0.8 * 0.4 + 0.2 * 0.1).
    assert sum(late) / len(late) < 0.2


def test_a_finite_space_is_drawn_once_and_then_empty():
    pytest.importorskip("optuna")
    axes, past = (Axis("a", ("x", "y")), Span("b", 1, 2, is_whole=True, is_log=False)), []
    while (values := draw(axes, past, seed=0)) is not None:
        past.append(Trial(number=len(past), values=dict(values), state="done", success=0.5))
    assert sorted(tuple(known.values.values()) for known in past) == [("x", "1"), ("x", "2"), ("y", "1"), ("y", "2")]


def test_a_trial_below_the_median_of_finished_ones_is_given_up():
    pytest.importorskip("optuna")
    # At the second measurement the finished ones have 0.5, 0.6, 0.7, 0.8: the median is 0.65.
    past = [trial(k, 0.9, (0.4, 0.5 + k / 10)) for k in range(4)]
    running = trial(4, None, state="running")
    assert gives_up((RATE,), past, running.model_copy(update={"reports": (0.3, 0.6)}))
    assert not gives_up((RATE,), past, running.model_copy(update={"reports": (0.3, 0.7)}))
    # Its best measurement so far counts.
    assert not gives_up((RATE,), past, running.model_copy(update={"reports": (0.7, 0.6)}))
    # Three finished ones are too few, and without a measurement there is nothing to compare.
    assert not gives_up((RATE,), past[:3], running.model_copy(update={"reports": (0.3, 0.1)}))
    assert not gives_up((RATE,), past, running)


def test_reports_are_the_mean_over_modes_of_the_first_seed(tmp_path):
    rows = [
        {"update": 0, "validation/near/success_rate": 0.2, "validation/far/success_rate": 0.4},
        {"update": 1, "rollout/success_rate": 0.9},
        {"update": 2, "validation/near/success_rate": 0.5, "validation/far/success_rate": 1.0},
    ]
    for seed, kept in ((0, rows), (1, rows[:1])):
        folder = tmp_path / "starts-4" / f"seed-{seed}" / "rlft" / "reflect_rl"
        folder.mkdir(parents=True)
        # Half a line at the end: the file is being written.
        text = "".join(json.dumps(row) + "\n" for row in kept) + '{"update": 3, "valid'
        (folder / "metrics.jsonl").write_text(text)
    assert reports_of(tmp_path, "reflect_rl") == pytest.approx((0.3, 0.75))
    assert reports_of(tmp_path, "rlft") == ()


def test_trials_are_kept_and_a_damaged_file_is_named(tmp_path):
    known = [trial(0, 0.5, (0.1,)), trial(1, None, state="running")]
    write_trials(tmp_path, known)
    assert read_trials(tmp_path) == known
    (tmp_path / "trials.json").write_text('{"trials": [{"number": "x"}]}')
    with pytest.raises(RunFolderError, match=r"trials.json: .* Delete the file"):
        read_trials(tmp_path)
