"""Texts of actions that begin alike are read once, and give scores and gradients of texts that are read apart."""

from __future__ import annotations

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.network import Tree, reads_trees
from reflect_rl.models.score import row_tokens, score
from reflect_rl.players.language_model import tokenize
from reflect_rl.types import Observation, View

PROMPTS = [[3, 4, 5, 6, 7], [8, 9, 10]]
# One is the beginning of another, two differ in their last token only, one has a single token.
ACTIONS = [[[20, 21], [20, 21, 22], [20, 23], [24], [25, 21, 22, 26]], [[20, 21, 22], [27, 21], [20, 21, 23]]]


@pytest.fixture
def model(scaled_model) -> LanguageModel:
    return scaled_model


def apart(model: LanguageModel, rule: str) -> list[torch.Tensor]:
    """log π(a|s) of each state from whole forward passes, one for each action."""
    rows = []
    for prompt, actions in zip(PROMPTS, ACTIONS, strict=True):
        raw = []
        for action in actions:
            logits = model.model(torch.tensor([prompt + action])).logits[0].log_softmax(-1)
            tokens = logits[len(prompt) - 1 + torch.arange(len(action)), torch.tensor(action)]
            raw.append(tokens.sum() if rule == "sum" else tokens.mean())
        rows.append(torch.stack(raw).log_softmax(-1))
    return rows


@pytest.mark.parametrize("implementation", ["reflect_rl_cpu", "sdpa", "eager"])
@pytest.mark.parametrize("rule", ["sum", "token_mean"])
def test_scores_and_gradients_are_those_of_texts_read_apart(model, rule, implementation):
    model.model.set_attn_implementation(implementation)
    weights = [torch.tensor([1.0, -2.0, 0.5, 3.0, 1.0]), torch.tensor([0.5, 1.0, -1.0])]
    expected = apart(model, rule)
    sum((row * weight).sum() for row, weight in zip(expected, weights, strict=True)).backward()
    gradients = {name: weight.grad.clone() for name, weight in model.model.named_parameters()}
    model.model.zero_grad()
    found = score(model, PROMPTS, ACTIONS, rule).log_probs
    rows = [found[0], found[1, :3]]
    sum((row * weight).sum() for row, weight in zip(rows, weights, strict=True)).backward()
    assert float(expected[0].detach().exp().std()) > 1e-3
    for ours, theirs in zip(rows, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)
    for name, weight in model.model.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[name], atol=1e-4, rtol=1e-3)
    assert max(float(gradient.abs().max()) for gradient in gradients.values()) > 1e-2


def test_a_state_is_one_row_of_its_prompt_and_the_beginnings_of_its_actions(model, passes):
    shapes = passes(model)
    with torch.no_grad():
        score(model, PROMPTS[:1], ACTIONS[:1], "sum")
    # Behind the prompt: 20, 20 21, 25, 25 21, 25 21 22. What follows a last token is not asked.
    assert shapes == [(1, 5 + 5)]
    assert row_tokens(model, PROMPTS[0], ACTIONS[0], "sum") == 10
    assert row_tokens(model, PROMPTS[0], [[1], [2]], "choice_token") == 5


@pytest.mark.parametrize("most", [1, 8, 9])
def test_long_lists_are_cut_into_rows_of_the_budget(model, most, passes):
    with torch.no_grad():
        whole = score(model, PROMPTS, ACTIONS, "sum").log_probs
        shapes = passes(model)
        cut = score(model, PROMPTS, ACTIONS, "sum", most).log_probs
    torch.testing.assert_close(cut, whole, atol=2e-5, rtol=0)
    # A new row reads the prompt again, so a row may have twice its tokens.
    assert all(rows * columns <= max(most, 2 * 5) for rows, columns in shapes)
    assert len(shapes) > 1


def test_models_with_a_window_read_each_text_apart(model, passes):
    config = MistralConfig(
        vocab_size=len(model.tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        sliding_window=3,
    )
    windowed = LanguageModel(MistralForCausalLM(config).eval(), model.tokenizer)
    assert reads_trees(model)
    assert not reads_trees(windowed)
    shapes = passes(windowed)
    with torch.no_grad():
        found = score(windowed, PROMPTS, ACTIONS, "sum").log_probs
        assert sum(rows for rows, _ in shapes) == 8
        expected = apart(windowed, "sum")
    torch.testing.assert_close(found[0], expected[0], atol=2e-5, rtol=0)
    assert row_tokens(windowed, PROMPTS[0], ACTIONS[0], "sum") == 6 + 7 + 6 + 5 + 8


def test_a_token_sees_its_own_path_and_nothing_else():
    # 0 - 1 - 2 and 0 - 1 - 3 - 4; a second row with two trees, 0 - 1 and 2 - 3, and padding.
    tree = Tree.of([[-1, 0, 1, 1, 3], [-1, 0, -1, 2]], torch.device("cpu"))
    assert tree.depths.tolist() == [[0, 1, 2, 2, 3], [0, 1, 0, 1, 0]]
    sees = (tree.mask[:, 0] == 0).int().tolist()
    assert sees[0] == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]]
    assert sees[1] == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize("rule", ["sum", "token_mean"])
def test_each_text_ends_so_that_an_action_that_begins_another_is_not_favoured(model, rule):
    view = View(Observation("You see a drawer.", ("go to drawer 1", "go to drawer 12")), (0, 1))
    _, (short, long) = tokenize(model, Labels((), ()), view, rule)
    assert short[-1] == long[-1] == model.end_id
    assert model.end_id not in (*short[:-1], *long[:-1])
