"""A beginning that prompts share is computed once, and gives what whole prompts give."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from reflect_rl.models import network
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import read, score
from reflect_rl.training.learner import no_dropout

BEGINNING = "You drive a taxi. Bring the passenger to the hotel. "
STATES = ["Taxi at 1 1.", "Taxi at 0 4. Blocked: east.", "Passenger waits at 0 4, I must correct it."]
ACTIONS = ["south", "north now", "pickup"]
RULES = ("choice_token", "line_end", "sum", "token_mean")


@pytest.fixture
def model(scaled_model) -> LanguageModel:
    return scaled_model


@pytest.fixture
def reused(monkeypatch):
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    monkeypatch.setattr(network, "REUSE_TOKENS", 1)


def inputs(model: LanguageModel, rule: str) -> tuple[list[list[int]], list[list[list[int]]]]:
    texts = [BEGINNING + state for state in STATES]
    prompts = [model.encode(text) for text in texts]
    if rule == "choice_token":
        return prompts, [[[20], [21], [22]]] * 3
    if rule == "line_end":
        return prompts, [[[len(prompt) - 1 - k] for k in range(3)] for prompt in prompts]
    return prompts, [[model.encode_after(text, action) for action in ACTIONS] for text in texts]


def common(rows: list[list[int]]) -> int:
    return next(k for k in range(min(map(len, rows))) if len({row[k] for row in rows}) > 1)


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_scores_are_those_of_whole_prompts(model, rule, monkeypatch, passes):
    prompts, actions = inputs(model, rule)
    whole = score(model, prompts, actions, rule)
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    monkeypatch.setattr(network, "REUSE_TOKENS", 1)
    shapes = passes(model)
    shared = score(model, prompts, actions, rule)
    assert shapes[0] == (1, common(prompts)), "the beginning is not one row"
    assert [rows for rows, _ in shapes[1:]] == [3], "a state is computed in more than one row"
    assert float(whole.log_probs.exp().std()) > 1e-3
    torch.testing.assert_close(shared.log_probs, whole.log_probs, atol=1e-5, rtol=0)
    torch.testing.assert_close(shared.hidden, whole.hidden, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_place_that_is_read_is_never_in_the_beginning(model, reused, passes):
    # One prompt begins with the whole other one, and the first is read at its second token as well.
    rows = [model.encode(BEGINNING), [*model.encode(BEGINNING), 5, 6]]
    places = [(0, 1), (0, len(rows[0]) - 1), (1, len(rows[1]) - 1)]
    expected = [model.model(torch.tensor([rows[row]])).logits[0, place] for row, place in places]
    shapes = passes(model)
    torch.testing.assert_close(read(model, rows, places).logits, torch.stack(expected), atol=1e-4, rtol=1e-4)
    assert shapes == [(1, 1), (2, len(rows[1]) - 1)]


def test_gradients_are_those_of_whole_prompts(model, reused, passes):
    prompts, actions = inputs(model, "choice_token")
    shapes = passes(model)
    score(model, prompts, actions).log_probs[:, 0].sum().backward()
    found = {name: weight.grad.clone() for name, weight in model.model.named_parameters()}
    assert [rows for rows, _ in shapes] == [3]
    model.model.zero_grad()
    for prompt, listed in zip(prompts, actions, strict=True):
        score(model, [prompt], [listed]).log_probs[0, 0].backward()
    for name, weight in model.model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, atol=1e-4, rtol=1e-3)


@torch.no_grad()
def test_small_models_and_short_beginnings_are_computed_whole(model, monkeypatch, passes):
    prompts, actions = inputs(model, "choice_token")
    shapes = passes(model)
    score(model, prompts, actions)
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    score(model, prompts, actions)
    monkeypatch.setattr(network, "REUSE_TOKENS", 2 * common(prompts))
    score(model, prompts, actions)
    assert [rows for rows, _ in shapes] == [3, 3, 1, 3]


def test_models_that_keep_less_than_all_tokens_compute_whole_prompts(model, reused, passes):
    config = MistralConfig(
        vocab_size=len(model.tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        sliding_window=4,
    )
    sliding = replace(model, model=MistralForCausalLM(config).eval())
    prompts, actions = inputs(sliding, "choice_token")
    shapes = passes(sliding)
    with torch.no_grad():
        result = score(sliding, prompts, actions)
        logits = sliding.model(torch.tensor([prompts[0]])).logits[0, -1, [20, 21, 22]]
    assert [rows for rows, _ in shapes] == [3, 1]
    torch.testing.assert_close(result.log_probs[0], logits.log_softmax(-1), atol=1e-5, rtol=0)


def test_checkpointed_activations_keep_no_keys(model, reused):
    prompts, actions = inputs(model, "choice_token")
    with torch.no_grad():
        whole = score(model, prompts[:1], actions[:1])
        model.model.gradient_checkpointing_enable()
        model.model.train()
        no_dropout(model.model)
        trained = score(model, prompts, actions)
    torch.testing.assert_close(trained.log_probs[0], whole.log_probs[0], atol=1e-5, rtol=0)
