"""Intervals and tests against published and hand-computed values."""

import pytest

from reflect_rl.evaluation.compare import mcnemar_p_value, paired_difference
from reflect_rl.evaluation.evaluate import wilson_interval


def outcomes(both: int, only_a: int, only_b: int, neither: int) -> tuple[list[bool], list[bool]]:
    a = [True] * both + [True] * only_a + [False] * only_b + [False] * neither
    b = [True] * both + [False] * only_a + [True] * only_b + [False] * neither
    return a, b


def test_wilson_interval_of_newcombes_examples() -> None:
    # Newcombe 1998 (two-sided intervals for the single proportion), table I, method 3: 81/263 and 0/20.
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_wilson_interval_reaches_zero_and_one_exactly() -> None:
    assert wilson_interval(0, 7)[0] == 0.0
    assert wilson_interval(7, 7)[1] == 1.0


@pytest.mark.parametrize(("successes", "episodes"), [(-1, 5), (6, 5)])
def test_wilson_interval_refuses_impossible_counts(successes: int, episodes: int) -> None:
    with pytest.raises(ValueError, match="a count is wrong"):
        wilson_interval(successes, episodes)


def test_mcnemar_is_a_fair_coin_on_the_discordant_pairs() -> None:
    # 1 of 6 discordant: 2 (C(6,0) + C(6,1)) / 2^6 = 14/64.
    assert mcnemar_p_value(5, 1) == mcnemar_p_value(1, 5) == pytest.approx(14 / 64)
    assert mcnemar_p_value(3, 3) == 1.0
    assert mcnemar_p_value(0, 0) == 1.0


def test_paired_interval_by_hand() -> None:
    # 20 both, 12 only A, 2 only B, 16 neither: rates 0.64 and 0.44.
    # Wilson: (0.50141, 0.75863) and (0.31155, 0.57694).
    # phi = (20*16 - 12*2 - 25) / sqrt(32*18*22*28) = 271/595.66 = 0.45496
    # lower: dl1 = 0.13859, du2 = 0.13694 -> sqrt(0.019208 + 0.018753 - 2*0.45496*0.018979) = 0.14384 -> 0.0562
    # upper: du1 = 0.11863, dl2 = 0.12845 -> sqrt(0.014072 + 0.016500 - 2*0.45496*0.015238) = 0.12926 -> 0.3293
    result = paired_difference(*outcomes(20, 12, 2, 16))
    assert result.difference == pytest.approx(0.20)
    assert (result.lo, result.hi) == pytest.approx((0.0562, 0.3293), abs=2e-4)
    assert result.pairs == 50


def test_swapping_the_sides_mirrors_the_interval() -> None:
    a, b = outcomes(5, 4, 1, 3)
    forward, backward = paired_difference(a, b), paired_difference(b, a)
    assert backward.difference == pytest.approx(-forward.difference)
    assert (backward.lo, backward.hi) == pytest.approx((-forward.hi, -forward.lo))
    assert backward.p_value == forward.p_value


def test_negative_correlation_widens_the_interval() -> None:
    # The same rates (5/10 and 5/10), paired against and with each other.
    against = paired_difference(*outcomes(0, 5, 5, 0))
    along = paired_difference(*outcomes(5, 0, 0, 5))
    assert against.hi - against.lo > along.hi - along.lo


def test_pairs_must_match() -> None:
    with pytest.raises(ValueError, match="cannot pair 2 with 1"):
        paired_difference([True, False], [True])
    with pytest.raises(ValueError, match="cannot pair 0 with 0"):
        paired_difference([], [])


def test_a_paired_difference_reads_as_a_sentence():
    # 6 of 6 against 1 of 6 wins: 100 - 16.7 = 83.3 points; the 5 starts that only A won give p = 2 / 2^5 = 0.0625.
    found = str(paired_difference([True] * 6, [True] + [False] * 5))
    assert found.startswith("+83.3 percentage points [95% interval +")
    assert found.endswith("], 6 shared episodes, McNemar p = 0.0625")
