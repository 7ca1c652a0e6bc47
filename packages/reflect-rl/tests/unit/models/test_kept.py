"""Prompts that go on from prompts read before give the same texts, from fewer tokens."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, strategies as st

from reflect_rl.config import ModelConfig
from reflect_rl.models.generate import generate
from reflect_rl.models.kept import Batch, Kept
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.prefixes import common
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.types import Observation, View
from tiny_models import save_tiny

NEW_TOKENS = 8


@pytest.fixture(params=["gpt2", "llama"])
def model(request, tmp_path, monkeypatch) -> LanguageModel:
    found = load_model(ModelConfig(device="cpu"), save_tiny(request.param, tmp_path), trainable=False)
    with torch.no_grad():
        for weight in found.model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    for place in ("network.REUSE_WIDTH", "score.REUSE_TOKENS", "generate.REUSE_TOKENS"):
        monkeypatch.setattr(f"reflect_rl.models.{place}", 1)
    return found


def turns(count: int) -> list[list[list[int]]]:
    """Prompts of four games that grow from turn to turn, each by another number of tokens, and end alike."""
    draw = random.Random(0)
    games = [[draw.randrange(5, 60) for _ in range(draw.randrange(3, 30))] for _ in range(4)]
    found = []
    for _ in range(count):
        found.append([[*game, 2, 3] for game in games])
        for game in games:
            game += [draw.randrange(5, 60) for _ in range(draw.randrange(1, 12))]
    return found


def test_texts_are_those_without_and_only_what_is_new_is_read(model, passes):
    calls = turns(4)
    expected = [generate(model, prompts, NEW_TOKENS) for prompts in calls]
    assert len({tuple(text) for texts in expected for text in texts}) > 8
    kept, shapes = Kept(), passes(model)
    for number, (prompts, texts) in enumerate(zip(calls, expected, strict=True)):
        shapes.clear()
        assert generate(model, prompts, NEW_TOKENS, kept=kept) == texts
        # At most eleven tokens of a turn and the second last are new; of a group, as many for all as for the longest.
        assert number == 0 or sum(rows * columns for rows, columns in shapes if columns > 1) <= 4 * 12


def test_a_game_that_begins_anew_and_a_prompt_of_one_token_among_the_others(model):
    first, second, third = turns(3)
    mixed = [third[0], second[1], [40, 41, 42, 43, 44], first[2][:4], second[3]]
    expected = generate(model, mixed, NEW_TOKENS)
    kept = Kept()
    generate(model, second, NEW_TOKENS, kept=kept)
    assert generate(model, mixed, NEW_TOKENS, kept=kept) == expected
    assert generate(model, [*mixed, [7]], NEW_TOKENS, kept=kept)[:-1] == expected
    # Word for word the same prompts once more: one token of each is read again.
    assert generate(model, mixed, NEW_TOKENS, kept=kept) == expected


def test_a_reflection_player_goes_on_from_its_last_states(model, passes):
    text = "Passenger waits at 0 4. Blocked: east."
    states = [text, f"{text} Find the file.", f"{text} Find the file. 0 1 2"]
    alone = [FrozenReflector(model, NEW_TOKENS).reflect([View(Observation(state, ("a",)), (0,))]) for state in states]
    player, shapes = FrozenReflector(model, NEW_TOKENS), passes(model)
    texts = [player.reflect([View(Observation(state, ("a",)), (0,))]) for state in states]
    assert texts == alone
    read = [columns for _, columns in shapes if columns > 1]
    assert len(read) == 3
    assert max(read[1:]) < read[0]


def batch(*prompts: tuple[int, ...]) -> Batch:
    width = max(map(len, prompts))
    keys = torch.zeros(len(prompts), 1, width, 1)
    for row, prompt in enumerate(prompts):
        keys[row, 0, width - len(prompt) :, 0] = torch.tensor(prompt)
    return Batch(prompts, [(keys, keys + 0.5)], width)


def test_the_oldest_batch_goes_first_and_one_that_is_too_large_is_not_kept():
    one, two = batch((1, 2, 3)), batch((4, 5, 6))
    kept = Kept(most_bytes=one.bytes + two.bytes)
    kept.add(one)
    kept.add(two)
    assert kept.beginning((1, 2, 3, 4)).tokens == 3
    kept.add(batch((7, 8, 9)))
    assert kept.beginning((1, 2, 3, 4)).tokens == 0
    assert kept.beginning((4, 5, 6, 7)).tokens == kept.beginning((7, 8, 9, 9)).tokens == 3
    kept.add(batch((1,) * 100))
    assert kept.beginning((1, 1, 1)) is None


@given(st.lists(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=6).map(tuple), min_size=1), max_size=3))
def test_the_longest_beginning_is_found_with_its_own_keys(batches):
    kept = Kept()
    for prompts in batches:
        kept.add(batch(*prompts))
    for prompt in [(1, 2, 3, 1), (2,), (3, 3, 1, 2, 2)]:
        longest = max((common(prompt, other) for prompts in batches for other in prompts), default=None)
        found = kept.beginning(prompt)
        if longest is None:
            assert found is None
            continue
        assert found.tokens == min(longest, len(prompt) - 1)
        ((keys, values),) = found.layers()
        assert keys[0, :, 0].tolist() == list(prompt[: found.tokens])
        assert torch.equal(values, keys + 0.5)
