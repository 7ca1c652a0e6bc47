"""Measurements of online training, on the corridor."""

import pytest

from reflect_bench import training
from reflect_bench.options import Effort
from reflect_bench.ours import Ours
from reflect_bench.players import Cast
from reflect_bench.training import Row, measure_ours, measure_training
from toy import SPEC, tiny_player

EFFORT = Effort(
    updates=2, starts=2, max_episode_steps=4, reference_seconds=0.4, pairs=1, text_tokens=1000, peak_size=64
)


def tiny_cast(actions="policy"):
    (policy, labels), (reflector, _) = tiny_player(seed=0), tiny_player(seed=1)
    return Cast(policy, reflector, labels, SPEC, "far", 8, False, "random", actions)


def test_the_figures_of_a_measurement():
    notes = []
    figures = measure_training(tiny_cast(), lambda: tiny_cast().policy, EFFORT, notes.append)
    assert notes == [f"update {k} of 2, {who}" for k in (1, 2) for who in ("ours", "reference style")]
    rows = figures["updates"]
    assert [row["episodes"] for row in rows] == [8, 8]
    assert figures["turns"] == sum(row["turns"] for row in rows)
    assert 0 < figures["model_share"] < 1
    assert 0 < figures["unique_prompt_share"] < 1
    assert 0 < figures["memo_hit_rate"] < 1
    assert figures["mean_reflection_tokens"] > 0
    assert figures["peak_memory_mb"] > 100
    for row in rows:
        assert 1 <= row["reference_rollout_turns"] <= row["turns"]
        # The default algorithm passes twice over each batch.
        assert 1 <= row["reference_update_turns"] <= 2 * row["turns"]
        assert row["operations"] > 0
        # Both sides play with the weights of the same update.
        assert row["disagreement"] < 1e-4


def test_ratios_are_those_of_the_sums_except_for_the_median_over_updates():
    first = Row(10, 4, 5, 1.0, 1.0, 0.5, 4_000_000_000, 10.0, 2.0, 3, 7, 1e-6)
    second = Row(30, 4, 5, 1.0, 3.0, 2.5, 6_000_000_000, 10.0, 18.0, 4, 8, 1e-7)
    figures = training._figures([first, second])
    assert figures["whole_rlft_ratio"] == pytest.approx(40 / 6)
    assert figures["rollout_ratio"] == pytest.approx(10)
    assert figures["update_ratio"] == pytest.approx(4)
    assert figures["update_gflops"] == pytest.approx(3)
    assert figures["model_share"] == pytest.approx(0.5)
    assert figures["turns_per_second"] == pytest.approx({"ours": 40 / 6, "reference": 1})
    assert figures["rollout_turns_per_second"] == pytest.approx({"ours": 20, "reference": 2})
    assert figures["episodes_per_hour"] == pytest.approx({"ours": 4800, "reference": 720})
    assert figures["unique_prompt_share"] == 0.25
    assert figures["reference_turns_measured"] == {"rollout": 7, "update": 15}
    assert figures["disagreement"] == 1e-6


def test_measuring_changes_nothing():
    """The second update of a measured player ends at the weights of one that was not measured."""
    measured, plain = Ours(tiny_cast(), EFFORT), Ours(tiny_cast(), EFFORT)
    for update in range(2):
        measure_ours(measured, update)
        plain.learn(plain.roll_out(update), update)
    assert measured.cast.policy.hash() == plain.cast.policy.hash()
    assert plain.cast.policy.hash() != tiny_cast().policy.hash()


def test_operations_are_those_of_the_forward_and_backward_passes():
    """A linear layer costs 2 operations per weight and token forward and 4 backward; the labels cost some more."""
    ours = Ours(tiny_cast(), EFFORT)
    episodes = ours.roll_out(0)
    network = ours.cast.policy.model.transformer
    weights = sum(
        p.numel()
        for name, p in network.named_parameters()
        if name.endswith(("attn.weight", "proj.weight", "fc.weight"))
    )
    row, _ = measure_ours(Ours(tiny_cast(), EFFORT), 0)
    views, _, plan = ours.plan(episodes, 0)
    tokens = sum(
        len(ours.cast.policy.encode(text))
        for turns in plan
        for text in {training.policy_prompt(views[turn], ours.cast.labels.texts) for turn in turns}
    )
    # The lower bound has no padding.
    assert 6 * weights * tokens * 0.95 < row.operations < 6 * weights * tokens * 1.6


def test_a_warm_up_leaves_weights_and_memory_as_they_were():
    ours = Ours(tiny_cast(), EFFORT)
    before = ours.cast.policy.hash()
    ours.warm_up()
    assert ours.cast.policy.hash() == before
    assert ours.reflector.requests == 0
    assert all(parameter.grad is None for parameter in ours.learner.parameters)


def test_the_solver_plays_most_actions_and_the_policy_says_how_likely_they_were():
    ours, effort = Ours(tiny_cast("solver"), EFFORT), Ours(tiny_cast(), EFFORT)
    guided, free = ours.roll_out(0), effort.roll_out(0)
    assert sum(e.success for e in guided) > sum(e.success for e in free)
    first, other = guided[0].turns[0], free[0].turns[0]
    assert first.decision.log_probs == pytest.approx(other.decision.log_probs, abs=1e-6)
