"""Micro-batches dealt out to processes."""

from hypothesis import given, strategies as st

from reflect_rl.training.loop import dealt


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=40), st.integers(1, 8))
def test_every_micro_batch_goes_to_one_process_and_none_has_much_more_than_another(sizes, count):
    shares = dealt(sizes, count)
    assert sorted(number for share in shares for number in share) == list(range(len(sizes)))
    loads = [sum(sizes[i] for i in share) for share in shares]
    assert max(loads) - min(loads) <= max(sizes)
    assert sum(map(bool, shares)) == min(count, len(sizes))


def test_a_process_alone_keeps_the_order():
    assert dealt([3, 9, 1, 9], 1) == [[0, 1, 2, 3]]
