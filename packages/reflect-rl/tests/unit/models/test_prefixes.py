"""Sequences that begin alike share a row: which tokens it holds, and that scores and gradients stay what they were."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, strategies as st

from reflect_rl.models import network
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.prefixes import Row, common, merge, pack, prefix_batches
from reflect_rl.models.score import completion_losses, row_tokens, score

# Three states of one game as raw text grows, another game, and one that is cut off.
FIRST = tuple(range(30, 42))
STATES = [FIRST, (*FIRST, 50, 51, 52), (*FIRST, 50, 51, 53, 54), (60, 61, 62, 63, 64, 65), FIRST[:9]]
RULES = ("choice_token", "line_end", "sum", "token_mean")
ids = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


@pytest.fixture
def model(scaled_model) -> LanguageModel:
    return scaled_model


def actions_of(rule: str) -> list[list[list[int]]]:
    if rule == "choice_token":
        return [[[20], [21], [22]]] * 5
    if rule == "line_end":
        return [[[2], [len(state) - 2], [len(state) - 1]] for state in STATES]
    return [[[20, 21], [20, 22, 23], [24]]] * 5


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("graded", [False, True])
def test_states_of_an_episode_are_one_row_in_wide_models(model, rule, graded, monkeypatch, passes):
    actions = actions_of(rule)

    def computed() -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        model.model.zero_grad()
        with torch.set_grad_enabled(graded):
            result = score(model, STATES, actions, rule)
            if graded:
                (result.log_probs[:, 0] * torch.tensor([1.0, -2.0, 3.0, 0.5, 1.5])).sum().backward()
        gradients = [weight.grad.clone() for weight in model.model.parameters() if weight.grad is not None]
        return result.log_probs.detach(), result.hidden.detach(), gradients

    expected = computed()
    shapes = passes(model)
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    monkeypatch.setattr("reflect_rl.models.score.REUSE_TOKENS", 1)
    found = computed()
    # One row for the game of which three states and a cut-off one are there, and one for the other.
    assert shapes[-1][0] == 2
    game = len(FIRST) + 5
    assert shapes[-1][1] == (game if rule in ("choice_token", "line_end") else game + 4 * 2)
    torch.testing.assert_close(found[0], expected[0], atol=2e-5, rtol=0)
    torch.testing.assert_close(found[1], expected[1], atol=1e-5, rtol=1e-4)
    assert len(found[2]) == (len(expected[2]) if graded else 0)
    for ours, theirs in zip(found[2], expected[2], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_supervised_losses_of_rows_that_begin_alike_are_those_of_each_alone(model, monkeypatch, passes):
    masks = [[0] * (len(state) - 3) + [1, 0, 1] for state in STATES]
    weights = torch.linspace(-1, 2, 2 * len(STATES))

    def computed() -> tuple[torch.Tensor, list[torch.Tensor]]:
        model.model.zero_grad()
        losses = completion_losses(model, STATES, masks)
        (losses * weights).sum().backward()
        return losses.detach(), [weight.grad.clone() for weight in model.model.parameters() if weight.grad is not None]

    expected = computed()
    shapes = passes(model)
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    monkeypatch.setattr("reflect_rl.models.score.REUSE_TOKENS", 1)
    found = computed()
    assert shapes == [(2, len(FIRST) + 5)]
    torch.testing.assert_close(found[0], expected[0], atol=2e-5, rtol=1e-5)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def merged(sequences: list[tuple[int, ...]], least: int, limit: int) -> list[Row]:
    alone = [len(sequence) + 1 for sequence in sequences]
    return merge(sequences, [range(len(s)) for s in sequences], [least] * len(sequences), alone, limit)


@pytest.mark.parametrize("width", [1, 10_000])
def test_the_texts_of_a_state_follow_its_prompt_in_one_row_however_long_it_is(model, monkeypatch, passes, width):
    # Beyond the limit each text had a row of its own, with the whole prompt once more, which took all memory.
    monkeypatch.setattr(network, "REUSE_WIDTH", width)
    monkeypatch.setattr("reflect_rl.models.prefixes.ROW_TOKENS", 20)
    prompt, texts = tuple(range(3, 33)), [(40 + k, 70, 71, 72) for k in range(8)]
    assert row_tokens(model, prompt, texts, "sum") == 30 + 8 * 3
    shapes = passes(model)
    long = score(model, [prompt], [texts], "sum").log_probs
    assert shapes == [(1, 30 + 8 * 3)]
    monkeypatch.setattr("reflect_rl.models.prefixes.ROW_TOKENS", 1024)
    torch.testing.assert_close(score(model, [prompt], [texts], "sum").log_probs, long)


@given(st.lists(ids, max_size=12), st.integers(1, 4), st.integers(1, 20))
def test_every_sequence_can_be_read_off_its_row(sequences, least, limit):
    rows = merged(sequences, least, limit)
    assert sorted(number for row in rows for number in row.places) == list(range(len(sequences)))
    for row in rows:
        assert len(row.ids) <= limit or len(row.places) == 1 or len({sequences[n] for n in row.places}) == 1
        for number, places in row.places.items():
            assert tuple(row.ids[place] for place in places) == sequences[number]
            assert [row.parents[place] for place in places] == [-1, *places[:-1]]
        # No beginning stands in a row twice.
        children = list(zip(row.parents, row.ids, strict=True))
        assert len(set(children)) == len(children)


@given(st.lists(ids, min_size=1, max_size=12), st.integers(1, 4))
def test_packed_rows_hold_the_same_and_are_no_longer_than_the_longest(sequences, least):
    rows = merged(sequences, least, 20)
    longest, tokens = max(len(row.ids) for row in rows), sum(len(row.ids) for row in rows)
    packed = pack(rows)
    assert sum(len(row.ids) for row in packed) == tokens
    assert max(len(row.ids) for row in packed) == longest
    # Two rows that fit into one would have been put there.
    lengths = sorted(len(row.ids) for row in packed)
    assert len(lengths) == 1 or lengths[0] + lengths[1] > longest
    assert sorted(number for row in packed for number in row.places) == list(range(len(sequences)))
    for row in packed:
        for number, places in row.places.items():
            assert tuple(row.ids[place] for place in places) == sequences[number]
            assert [row.parents[place] for place in places] == [-1, *places[:-1]]


@given(st.lists(ids, max_size=12), st.integers(1, 4), st.integers(1, 30), st.integers(4, 12))
def test_a_group_has_no_more_padded_tokens_than_its_limit(sequences, least, limit, row_tokens):
    lengths, whole = list(map(len, sequences)), [len(sequence) + 1 for sequence in sequences]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reflect_rl.models.prefixes.ROW_TOKENS", row_tokens)
        for group, _ in prefix_batches(sequences, lengths, [least] * len(sequences), limit):
            own = [sequences[i] for i in group]
            rows = merge(own, [()] * len(own), [least] * len(own), [whole[i] for i in group], 1000)
            # As a pass has them (`shared_rows`), with their padding.
            rows = pack(rows) if any(row.branches for row in rows) else rows
            assert len(rows) * max((len(row.ids) for row in rows), default=0) <= limit or len(group) == 1


@given(ids, ids)
def test_common_counts_what_both_begin_with(one, other):
    expected = next((k for k, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    assert common(one, other) == (min(len(one), len(other)) if expected is None else expected)


@given(st.lists(st.tuples(ids, st.integers(0, 5)), max_size=12), st.integers(1, 4), st.integers(1, 30))
def test_groups_hold_every_row_once_and_count_a_beginning_once(rows, least, limit):
    prompts = [prompt for prompt, _ in rows]
    lengths = [len(prompt) + more for prompt, more in rows]
    groups = prefix_batches(prompts, lengths, [least] * len(rows), limit)
    assert sorted(i for group, _ in groups for i in group) == list(range(len(rows)))
    for group, counted in groups:
        shared = [common(prompts[a], prompts[b]) for a, b in pairwise(group)]
        tokens = sum(lengths[i] for i in group) - sum(count for count in shared if count >= least)
        assert tokens == counted <= limit or len(group) == 1
