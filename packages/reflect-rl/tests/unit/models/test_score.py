"""Action scoring: a distribution over the admissible actions that no batching, order or repetition changes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, strategies as st
from transformers import GraniteConfig, GraniteForCausalLM

from reflect_rl.config import ModelConfig
from reflect_rl.errors import ModelError, UserError
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel, forked_rng, load_model
from reflect_rl.models.score import LISTED, check_scoring, completion_losses, micro_batches, read, score
from reflect_rl.players.language_model import score_views
from reflect_rl.types import Observation, View
from tiny_models import KINDS, save_tiny

RULES = ("choice_token", "line_end", "sum", "token_mean")
PROMPTS = [
    "Taxi at 1 1. Blocked: east. # Action:\n",
    "Find the file. # Action:\n",
    "I must correct it.\nPassenger waits at 0 4. Next I should go south. # Action:\n",
    "0 # Action:\n",
]
TEXTS = [["south", "north", "pickup"], ["cat README.md", "cd .."], ["east"], ["west", "pickup now", "id src/main.py"]]


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> dict[str, LanguageModel]:
    folder = tmp_path_factory.mktemp("families")
    config = ModelConfig(device="cpu")
    models = {kind: load_model(config, save_tiny(kind, folder / kind), trainable=True) for kind in KINDS}
    for model in models.values():
        # Weights of the usual size give nearly uniform distributions, on which mistakes would not show.
        with torch.no_grad():
            for weight in model.model.parameters():
                weight.mul_(4 if weight.dim() > 1 else 1)
    return models


@pytest.fixture(params=KINDS)
def model(request, families) -> LanguageModel:
    return families[request.param]


def inputs(model: LanguageModel, rule: str) -> tuple[list[list[int]], list[list[list[int]]]]:
    prompts = [model.encode(text) for text in PROMPTS]
    if rule == "choice_token":
        return prompts, [[[10 + 7 * row + k] for k in range(len(texts))] for row, texts in enumerate(TEXTS)]
    if rule == "line_end":
        places = [[[len(p) - 1 - k] for k in range(len(texts))] for p, texts in zip(prompts, TEXTS, strict=True)]
        return prompts, places
    actions = [[model.encode_after(p, t) for t in texts] for p, texts in zip(PROMPTS, TEXTS, strict=True)]
    return prompts, actions


def full_logits(model: LanguageModel, ids: list[int]) -> torch.Tensor:
    return model.model(torch.tensor([ids])).logits[0].double()


def by_hand(model: LanguageModel, prompt: list[int], actions: list[list[int]], rule: str) -> torch.Tensor:
    """log π(a|s) from whole forward passes of the model, one for each action."""
    if rule == "choice_token":
        return full_logits(model, prompt)[-1, [action[0] for action in actions]].log_softmax(-1)
    if rule == "line_end":
        return full_logits(model, prompt)[[action[0] for action in actions], model.end_id].log_softmax(-1)
    raw = []
    for action in actions:
        logits = full_logits(model, prompt + action).log_softmax(-1)
        tokens = [float(logits[len(prompt) - 1 + j, token]) for j, token in enumerate(action)]
        raw.append(math.fsum(tokens) / (len(tokens) if rule == "token_mean" else 1))
    return torch.tensor(raw, dtype=torch.double).log_softmax(-1)


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_every_rule_equals_whole_forward_passes_of_the_model(model, rule):
    prompts, actions = inputs(model, rule)
    result = score(model, prompts, actions, rule)
    for row, (prompt, listed) in enumerate(zip(prompts, actions, strict=True)):
        expected = by_hand(model, prompt, listed, rule)
        torch.testing.assert_close(result.log_probs[row, : len(listed)].double(), expected, atol=2e-5, rtol=0)
        # Not a uniform row, on which a wrong position would go unnoticed.
        # The end token tells neighbouring places apart less than labels are told apart.
        assert len(listed) == 1 or float(expected.exp().std()) > (5e-3 if rule == "line_end" else 1e-2)


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_rows_sum_to_one_and_are_minus_infinity_exactly_where_there_is_no_action(model, rule):
    prompts, actions = inputs(model, rule)
    result = score(model, prompts, actions, rule)
    assert result.log_probs.dtype == torch.float32
    torch.testing.assert_close(result.log_probs.exp().sum(1), torch.ones(4))
    assert result.admissible.tolist() == [[True] * 3, [True, True, False], [True, False, False], [True] * 3]
    assert torch.equal(result.log_probs.isneginf(), ~result.admissible)
    assert float(result.log_probs[2, 0]) == 0.0


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_permuting_the_actions_permutes_the_row(model, rule):
    prompts, actions = inputs(model, rule)
    row = score(model, prompts[:1], actions[:1], rule).log_probs[0]
    for order in itertools.permutations(range(3)):
        permuted = score(model, prompts[:1], [[actions[0][k] for k in order]], rule).log_probs[0]
        torch.testing.assert_close(permuted, row[list(order)], atol=1e-5, rtol=0)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("max_tokens", [1, 40, 10_000])
@torch.no_grad()
def test_neither_padding_nor_the_size_of_micro_batches_changes_anything(model, rule, max_tokens):
    prompts, actions = inputs(model, rule)
    batched = score(model, prompts, actions, rule, max_tokens)
    for row in range(4):
        alone = score(model, prompts[row : row + 1], actions[row : row + 1], rule)
        count = len(actions[row])
        torch.testing.assert_close(batched.log_probs[row, :count], alone.log_probs[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(batched.hidden[row], alone.hidden[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_repeated_states_get_the_same_row_and_cost_one_forward_pass(model, rule, monkeypatch):
    prompts, actions = inputs(model, rule)
    order = [1, 0, 1, 3, 0, 2]
    once = score(model, prompts, actions, rule)
    rows = count_rows(model, monkeypatch)
    repeated = score(model, [prompts[i] for i in order], [actions[i] for i in order], rule)
    torch.testing.assert_close(repeated.log_probs, once.log_probs[order], atol=1e-5, rtol=0)
    torch.testing.assert_close(repeated.hidden, once.hidden[order], atol=1e-5, rtol=1e-5)
    # Short trees stand side by side in one row.
    assert sum(rows) == 4 if rule in LISTED else sum(rows) <= 4


def count_rows(model: LanguageModel, monkeypatch) -> list[int]:
    """Rows of each forward pass through the backbone, appended as they happen."""
    backbone = getattr(model.model, model.model.base_model_prefix)
    rows: list[int] = []
    original = backbone.forward

    # With the signature of the original, which says what a model can be told.
    def forward(*args, position_ids=None, **kwargs):
        rows.append(len(kwargs["input_ids"]))
        return original(*args, position_ids=position_ids, **kwargs)

    monkeypatch.setattr(backbone, "forward", forward)
    return rows


def test_equal_prompts_with_other_actions_are_other_states(model):
    prompt = model.encode(PROMPTS[0])
    with torch.no_grad():
        result = score(model, [prompt, prompt], [[[10], [11]], [[11], [10]]])
    torch.testing.assert_close(result.log_probs[0], result.log_probs[1].flip(0), atol=1e-6, rtol=0)


@pytest.mark.parametrize("rule", RULES)
def test_the_gradient_of_a_repeated_state_counts_every_repetition(model, rule):
    prompts, actions = inputs(model, rule)
    order, weights = [0, 1, 0, 0, 3], torch.tensor([1.0, -2.0, 0.5, 3.0, 1.0])
    weight = next(w for name, w in model.model.named_parameters() if "embed" in name or "wte" in name)

    def gradient(pairs: list[tuple[list[int], float]]) -> torch.Tensor:
        model.model.zero_grad()
        for rows, scale in pairs:
            result = score(model, [prompts[i] for i in rows], [actions[i] for i in rows], rule)
            (result.log_probs[:, 0] * scale).sum().backward()
        assert weight.grad is not None
        return weight.grad.clone()

    together = gradient([(order, weights)])
    apart = gradient([([i], float(w)) for i, w in zip(order, weights, strict=True)])
    assert float(together.abs().max()) > 1e-3
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("rule", RULES)
def test_no_gradient_is_nan_beside_missing_actions(model, rule):
    prompts, actions = inputs(model, rule)
    model.model.zero_grad()
    result = score(model, prompts, actions, rule)
    result.log_probs[result.admissible].sum().backward()
    assert all(w.grad.isfinite().all() for w in model.model.parameters() if w.grad is not None)


@pytest.mark.parametrize("rule", RULES)
@torch.no_grad()
def test_the_vocabulary_is_never_projected_at_all_positions(model, rule, monkeypatch):
    prompts, actions = inputs(model, rule)
    head, weight = model.model.get_output_embeddings(), model.model.get_output_embeddings().weight
    linear, shapes = torch.nn.functional.linear, []

    def recording(x, w, bias=None):
        if w.shape[1] == weight.shape[1] and not any(w is other for other in layer_weights):
            shapes.append((x.shape[:-1].numel(), w.shape[0]))
        return linear(x, w, bias)

    layer_weights = [w for w in model.model.parameters() if w is not weight]
    monkeypatch.setattr(torch.nn.functional, "linear", recording)
    monkeypatch.setattr(head, "forward", lambda *_: pytest.fail("the vocabulary head was called"))
    score(model, prompts, actions, rule)
    if rule == "choice_token":
        labels = {action[0] for listed in actions for action in listed}
        assert shapes == [(len(prompts), len(labels))]
    elif rule == "line_end":
        # The end token alone, at each line and at each prompt's end, where the critic reads.
        ends = [
            {len(prompt) - 1, *(place for (place,) in listed)} for prompt, listed in zip(prompts, actions, strict=True)
        ]
        assert shapes == [(sum(map(len, ends)), 1)]
    else:
        # One row for each beginning of a state's actions, none for the tokens of the prompts.
        beginnings = {(row, *action[:k]) for row in range(4) for action in actions[row] for k in range(len(action))}
        assert sum(rows for rows, _ in shapes) == len(beginnings)


def test_mistakes_are_refused(families):
    model = families["llama"]
    with pytest.raises(ModelError, match="label of exactly one token"):
        score(model, [[1, 2]], [[[3], [4, 5]]])
    with pytest.raises(ModelError, match="a line that ends inside its prompt"):
        score(model, [[1, 2]], [[[0], [2]]], "line_end")
    with pytest.raises(ValueError, match="unknown scoring rule 'mean'"):
        score(model, [[1, 2]], [[[3]]], "mean")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a state lists no action"):
        score(model, [[1, 2], [1]], [[[3]], []])
    with pytest.raises(ModelError, match="600 tokens, the model's context holds 512"):
        score(model, [[7] * 600], [[[3]]])


@pytest.mark.parametrize("rule", ["choice_token", "line_end", "sum"])
def test_what_is_too_long_is_named_the_state_or_the_list_of_actions(families, rule):
    model, few, many = families["gpt2"], ("left", "right"), tuple(f"take number {k}" for k in range(200))
    labels = find_labels(model, 200, rule)
    longest = r"has \d+ tokens, \d+ of them in its list of 200 actions, the model's context holds 512\. .*'sum', which"

    def ask(text: str, actions: tuple[str, ...]) -> None:
        score_views(model, labels, [View(Observation(text, actions), tuple(range(len(actions))))], rule)

    with pytest.raises(ModelError, match=r"has \d+ tokens, the model's context holds 512\. .* states shorter\.$"):
        ask("wait " * 600, few)
    if rule == "sum":
        ask("Say b.", many)
        return
    with pytest.raises(ModelError, match=rf"^a prompt whose state begins 'Say b\.' {longest}"):
        ask("Say b.", many)


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_prompt_or_action_is_refused(families, rule):
    with pytest.raises(ModelError, match="an empty prompt"):
        score(families["qwen"], [[]], [[[3]]], rule)
    with pytest.raises(ModelError, match="token"):
        score(families["qwen"], [[1]], [[[3], []]], rule)


def test_check_scoring_accepts_the_families(model):
    check_scoring(model)


@pytest.mark.parametrize("scale", [0.25, 8.0])
def test_check_scoring_refuses_a_model_that_scales_its_logits(families, scale):
    tokenizer = families["llama"].tokenizer
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = GraniteConfig(**shape, num_key_value_heads=1, vocab_size=len(tokenizer), logits_scaling=scale)
    with forked_rng(0):
        granite = LanguageModel(GraniteForCausalLM(config).eval(), tokenizer)
    with pytest.raises(ModelError, match="'granite' transform their logits"):
        check_scoring(granite)


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 200))
def test_micro_batches_hold_every_row_once_within_the_limit(lengths, max_tokens):
    groups = list(micro_batches(lengths, max_tokens))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[i] for i in group) <= max_tokens


@torch.no_grad()
def test_hidden_states_are_those_of_each_sequence_alone(model):
    sequences = [[5, 6, 7, 8, 9], [5, 6]]
    places = [(row, column) for row, sequence in enumerate(sequences) for column in range(len(sequence))]
    together = read(model, sequences, places)
    alone = [read(model, [sequence], [(0, k) for k in range(len(sequence))]) for sequence in sequences]
    for name in ("hidden", "logits"):
        expected = torch.cat([getattr(part, name) for part in alone])
        torch.testing.assert_close(getattr(together, name), expected, atol=1e-5, rtol=1e-5)


def supervised_batch() -> tuple[list[list[int]], list[list[int]]]:
    """Rows of 3 to 40 tokens in no order of length, and masks by which the last one to four of them are targets."""
    generator = torch.Generator().manual_seed(0)
    ids, masks = [], []
    for row, length in enumerate([7, 40, 3, 12, 39, 3, 25, 8]):
        targets = 1 + row % 2 * min(3, length - 2)
        ids.append(torch.randint(5, 200, (length,), generator=generator).tolist())
        masks.append([0] * (length - targets) + [1] * targets)
    return ids, masks


def test_the_supervised_loss_is_that_of_each_row_alone(model):
    ids, masks = supervised_batch()
    with torch.no_grad():
        losses = completion_losses(model, ids, masks)
        for tokens, mask, own in zip(ids, masks, losses.split([sum(mask) for mask in masks]), strict=True):
            # The token before a target predicts it.
            places = [place for place in range(len(tokens) - 1) if mask[place + 1]]
            answer = read(model, [tokens], [(0, place) for place in places])
            targets = torch.tensor([tokens[place + 1] for place in places])
            expected = torch.nn.functional.cross_entropy(answer.logits, targets, reduction="none")
            torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-5)
