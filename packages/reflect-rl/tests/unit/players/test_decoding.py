"""Ways to choose an action, and their temperatures."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from reflect_rl.evaluation.evaluate import EvaluationConfig, evaluate
from reflect_rl.players.decoding import drawn
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.rollout import NoReflector
from reflect_rl.types import View
from toy import SPEC, tiny_player, training_tasks


@pytest.fixture(scope="module")
def player():
    model, labels = tiny_player(0)
    for weight in model.model.parameters():
        # Larger weights, so that the distributions are not uniform.
        weight.data.mul_(4 if weight.dim() > 1 else 1)
    return model, labels


@pytest.fixture(scope="module")
def view():
    observation = SPEC.make().reset(training_tasks()[0], np.random.default_rng(0))
    return View(observation, tuple(range(len(observation.actions))))


def test_scores_are_divided_by_the_temperature(player, view):
    rows = {
        name: np.array(LanguageModelPolicy(*player, name).decide([view], [np.random.default_rng(0)])[0].log_probs)
        for name in ("sampled", "greedy", "sampled@0.25", "sampled@3")
    }
    assert rows["sampled"].std() > 0.1
    assert (rows["greedy"] == rows["sampled"]).all()
    for name, temperature in (("sampled@0.25", 0.25), ("sampled@3", 3.0)):
        scores = rows["sampled"] / temperature
        assert rows[name] == pytest.approx(scores - np.logaddexp.reduce(scores), abs=1e-5)


def test_draws_follow_the_temperature(player, view):
    policy = LanguageModelPolicy(*player, "sampled@0.25")
    decisions = policy.decide([view] * 2000, [np.random.default_rng(seed) for seed in range(2000)])
    counts = np.bincount([decision.index for decision in decisions], minlength=len(view.order)) / 2000
    assert counts == pytest.approx(np.exp(decisions[0].log_probs), abs=0.04)


def test_a_temperature_is_sampled_as_often_as_temperature_one(player):
    config, mode = EvaluationConfig(split="validation", repetitions=2), SPEC.modes[0]
    count = len(SPEC.tasks(mode, "validation"))
    for name, copies in (("sampled", 2), ("sampled@0.5", 2), ("greedy", 1)):
        policy = LanguageModelPolicy(*player, name)
        episodes, _ = evaluate(SPEC, config, mode, name, NoReflector(), policy)
        assert len(episodes) == copies * count


def test_settings_know_the_decodings():
    assert EvaluationConfig(decodings=("sampled", "sampled@0.4")).decodings == ("sampled", "sampled@0.4")
    with pytest.raises(ValidationError, match=r"no decoding named 'gredy'\. Did you mean 'greedy'"):
        EvaluationConfig(decodings=("gredy",))
    with pytest.raises(ValidationError, match=r"no decoding named '0.4'\. Known: greedy, sampled, sampled@T\."):
        EvaluationConfig(decodings=("0.4",))
    with pytest.raises(ValidationError, match="Did you mean 'sampled@T'"):
        EvaluationConfig(decodings=("sample@0.4",))


class Fixed:
    """A generator that always draws the same number."""

    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


@pytest.mark.parametrize(("number", "expected"), [(0.0, 1), (0.2, 1), (0.3, 2), (0.999, 2)])
def test_an_action_is_drawn_by_its_share_and_one_of_the_probability_zero_never(number, expected):
    assert drawn((-np.inf, np.log(0.25), np.log(0.75)), Fixed(number)) == expected


def test_a_draw_above_the_rounded_sum_takes_the_last_action():
    # The sum is 0.8, as if rounding had lost the rest.
    assert drawn((np.log(0.4), np.log(0.4)), Fixed(np.nextafter(1.0, 0.0))) == 1
