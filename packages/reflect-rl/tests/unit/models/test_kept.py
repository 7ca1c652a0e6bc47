"""Prompts that go on from prompts read before give the same texts, from fewer tokens."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from reflect_rl.config import ModelConfig
from reflect_rl.models.generate import generate
from reflect_rl.models.kept import Kept, Layers
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.prefixes import common
from reflect_rl.models.score import score
from reflect_rl.players.language_model import LanguageModelPolicy
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
    for place in ("network.REUSE_WIDTH", "score.REUSE_TOKENS"):
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


def layers(prompt: tuple[int, ...]) -> Layers:
    keys = torch.tensor(prompt, dtype=torch.float32)[None, :, None]
    return [(keys, keys + 0.5)]


def test_no_more_is_kept_than_there_is_room_for():
    kept = Kept(most_bytes=2 * 2 * 3 * 4)
    for prompt in ((1, 2, 3), (4, 5, 6), (7, 8, 9)):
        kept.add(prompt, layers(prompt))
    found = [kept.beginning((*prompt, 0)) for prompt in ((1, 2, 3), (4, 5, 6), (7, 8, 9))]
    assert [one.tokens for one in found if one] == [3, 3]
    kept.add((1,) * 100, layers((1,) * 100))
    assert kept.beginning((1,) * 101, least=2) is None
    assert kept.bytes == kept.most_bytes


def test_most_games_go_on_where_the_room_is_a_little_too_small_for_all():
    # Ten games in turn, room for eight: dropped by age, every prompt would be gone when its game comes again.
    games, tokens = 10, 4
    kept = Kept(most_bytes=8 * 2 * tokens * 4)
    found = 0
    for _ in range(50):
        for game in range(games):
            prompt = (game,) * tokens
            found += kept.beginning((*prompt, 0)) is not None
            kept.add(prompt, layers(prompt))
    assert found > 50 * games / 2


def test_a_prompt_takes_the_place_of_the_one_that_it_went_on_from():
    kept = Kept()
    kept.add((1, 2, 3), layers((1, 2, 3)))
    kept.add((1, 5), layers((1, 5)))
    found = kept.beginning((1, 2, 3, 4))
    kept.add((1, 2, 3, 4), layers((1, 2, 3, 4)), found)
    assert kept.bytes == (4 + 2) * 2 * 4
    assert kept.beginning((1, 2, 3, 9)).prompt == (1, 2, 3, 4)
    kept.clear()
    assert kept.beginning((1, 2, 3, 9)) is None
    assert kept.bytes == 0


def test_what_is_kept_is_a_copy():
    kept, whole = Kept(), layers((1, 2, 3))
    kept.add((1, 2, 3), whole)
    whole[0][0].zero_()
    assert kept.beginning((1, 2, 3, 4)).layers[0][0].flatten().tolist() == [1, 2, 3]


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=6).map(tuple), max_size=12))
def test_the_longest_beginning_is_found_with_its_own_keys(prompts):
    kept = Kept()
    for prompt in prompts:
        kept.add(prompt, layers(prompt))
    for prompt in [(1, 2, 3, 1), (2,), (3, 3, 1, 2, 2)]:
        longest = min(max((common(prompt, other) for other in prompts), default=0), len(prompt) - 1)
        found = kept.beginning(prompt)
        assert (found.tokens if found else 0) == longest
        if found:
            ((keys, values),) = found.layers
            assert keys[0, :, 0].tolist() == list(prompt[:longest])
            assert torch.equal(values, keys + 0.5)


@pytest.mark.parametrize("rule", ["sum", "token_mean", "choice_token", "line_end"])
@pytest.mark.parametrize("most_tokens", [60, 10_000])
def test_scores_are_those_without_and_only_what_is_new_is_read(model, passes, rule, most_tokens):
    draw = random.Random(1)
    kept, shapes = Kept(), passes(model)
    for number, prompts in enumerate(turns(4)):
        if rule in ("sum", "token_mean"):
            actions = [
                [[draw.randrange(5, 60) for _ in range(draw.randrange(1, 4))] for _ in range(5)] for _ in prompts
            ]
        elif rule == "line_end":
            # Lines end behind everything that earlier turns had.
            actions = [[[len(prompt) - 2], [len(prompt) - 1]] for prompt in prompts]
        else:
            actions = [[[7], [8], [9]] for _ in prompts]
        with torch.no_grad():
            expected = score(model, prompts, actions, rule, most_tokens)
            shapes.clear()
            found = score(model, prompts, actions, rule, most_tokens, kept=kept)
        torch.testing.assert_close(found.log_probs, expected.log_probs, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found.hidden, expected.hidden, atol=1e-4, rtol=1e-4)
        texts = sum(len(action) - 1 for own in actions for action in own)
        # At most eleven tokens of a turn and the two at the end are new; half of a small pass may be padding.
        again = number == 0 or rule == "line_end" or most_tokens > 60
        assert again or sum(map(prod, shapes)) < 2 * (4 * 13 + texts)
    assert kept.bytes > 0


def test_gradients_go_through_whole_prompts(model):
    first, second, *_ = turns(2)
    kept = Kept()
    model.model.requires_grad_(True)
    with torch.no_grad():
        score(model, first, [[[7], [8]]] * 4, kept=kept)
    held = kept.bytes
    score(model, second, [[[7], [8]]] * 4, kept=kept).log_probs.sum().backward()
    assert kept.bytes == held > 0


def test_a_policy_forgets_what_it_has_read_with_its_weights(model):
    labels = find_labels(model, 2)
    policy = LanguageModelPolicy(model, labels)
    views = [View(Observation(f"Taxi {more}", ("left", "right")), (0, 1)) for more in ("0", "0 1 2")]
    rng = [np.random.default_rng(0)]
    policy.decide(views[:1], rng)
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.mul_(1.5 if weight.dim() > 1 else 1)
    policy.forget()
    expected = LanguageModelPolicy(model, labels).decide(views[1:], rng)
    assert policy.decide(views[1:], rng)[0].log_probs == pytest.approx(expected[0].log_probs, abs=1e-5)
