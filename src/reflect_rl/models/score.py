"""Action scoring: log π(a|s) over the admissible actions. One function for rollouts, training and evaluation.

Rules:

- `choice_token` (Reflect-RL, "single-prompt action enumeration"): each action is one label token; the logits of the
  labels of the admissible actions at the prompt's last position, softmax over them. One forward pass and |A| logits a
  state.
- `sum` (SayCan): log π(a|s) ∝ Σ_j log p(a_j | s, a_<j) over the tokens of the action's own text.
- `token_mean` (TWOSOME, token normalisation): the mean instead of the sum.

Only the hidden states that are needed are projected, and under `choice_token` only onto the label rows; nowhere is
there a vocabulary-wide projection over all positions. Equal prompts of a batch are computed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from reflect_rl.core.errors import ModelError
from reflect_rl.models.load import LanguageModel

__all__ = ["Rule", "Scores", "check_scoring", "completion_losses", "hidden_states", "micro_batches", "score"]

Rule = Literal["choice_token", "sum", "token_mean"]
Ids = Sequence[int]


@dataclass(frozen=True)
class Scores:
    """Letters: N turns, A the largest number of admissible actions among them, H hidden size."""

    log_probs: Tensor
    """(N, A) log π(a|s), rows sum to one in probability; -inf where `admissible` is False."""
    admissible: Tensor
    """(N, A) True = this action exists in this state."""
    hidden: Tensor
    """(N, H) hidden state of the prompt's last position (what a value head reads)."""


def micro_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices in groups of similar length, each of at most `max_tokens` tokens after padding (at least one row).

    >>> list(micro_batches([5, 2, 2, 5], 10))
    [[1, 2], [0, 3]]
    """
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if group and (len(group) + 1) * lengths[index] > max_tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def hidden_states(model: LanguageModel, sequences: Sequence[Ids]) -> Tensor:
    """Last-layer hidden states of right-padded sequences, (N, T, H); positions after a sequence's end are meaningless.

    Raises:
        ModelError: a sequence is longer than the model's context, or empty.
    """
    lengths = [len(sequence) for sequence in sequences]
    limit = getattr(model.model.config, "max_position_embeddings", None)
    if limit is not None and max(lengths) > limit:
        raise ModelError(
            f"a prompt has {max(lengths)} tokens, the model's context holds {limit}. "
            "Use a model with a longer context (for the embedded one: model.embedded.context_tokens)."
        )
    if not min(lengths):
        raise ModelError("an empty prompt cannot be scored: the tokenizer gave no tokens for it.")
    ids = torch.full((len(sequences), max(lengths)), model.pad_id, dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.as_tensor(sequence, dtype=torch.long)
    ids = ids.to(model.device)
    # Causal attention never looks right, so right padding needs no mask unless rows differ in length.
    mask = None
    if min(lengths) != max(lengths):
        mask = (torch.arange(ids.shape[1])[None] < torch.tensor(lengths)[:, None]).long().to(model.device)
    return _backbone(model)(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state


def score(
    model: LanguageModel,
    prompts: Sequence[Ids],
    actions: Sequence[Sequence[Ids]],
    rule: Rule = "choice_token",
    max_tokens: int = 16_384,
) -> Scores:
    """Log-probabilities of the admissible actions of N states.

    Args:
        model: the policy's language model.
        prompts: N prompts as token ids.
        actions: for each prompt, the token ids of each admissible action: under `choice_token` the one label token of
            the action, otherwise the tokens of its text.
        rule: see the top of the file.
        max_tokens: upper bound on the padded tokens of one forward pass.

    Raises:
        ModelError: a prompt is too long or empty, or an action has no token, or several under `choice_token`.
        ValueError: unknown rule, or a state without actions.
    """
    if rule not in get_args(Rule):
        raise ValueError(f"unknown scoring rule {rule!r}; known: {', '.join(get_args(Rule))}")
    if not all(actions):
        raise ValueError("a state without admissible actions cannot be scored")
    keys = [(tuple(p), tuple(map(tuple, a))) for p, a in zip(prompts, actions, strict=True)]
    unique = list(dict.fromkeys(keys))
    place = {key: row for row, key in enumerate(unique)}
    rows = torch.tensor([place[key] for key in keys], device=model.device)
    scorer = _score_labels if rule == "choice_token" else _score_texts
    raw, hidden = scorer(model, unique, rule, max_tokens)
    counts = torch.tensor([len(a) for _, a in unique], device=model.device)
    admissible = torch.arange(raw.shape[1], device=model.device)[None] < counts[:, None]
    log_probs = torch.log_softmax(raw.float().masked_fill(~admissible, -torch.inf), dim=-1)
    return Scores(log_probs[rows], admissible[rows], hidden[rows])


Key = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


def _score_labels(model: LanguageModel, keys: list[Key], rule: Rule, max_tokens: int) -> tuple[Tensor, Tensor]:
    if any(len(action) != 1 for _, actions in keys for action in actions):
        raise ModelError("under the rule 'choice_token' every action needs a label of exactly one token.")
    width = max(len(actions) for _, actions in keys)
    label_ids = sorted({action[0] for _, actions in keys for action in actions})
    column = {label: i for i, label in enumerate(label_ids)}
    columns = torch.tensor(
        [[column[a[0]] for a in actions] + [0] * (width - len(actions)) for _, actions in keys], device=model.device
    )
    hidden = _last_hidden(model, [prompt for prompt, _ in keys], max_tokens)
    return _project(model, hidden, torch.tensor(label_ids, device=model.device)).gather(1, columns), hidden


def _score_texts(model: LanguageModel, keys: list[Key], rule: Rule, max_tokens: int) -> tuple[Tensor, Tensor]:
    if not all(prompt for prompt, _ in keys):
        raise ModelError("an empty prompt cannot be scored: the tokenizer gave no tokens for it.")
    if not all(action for _, actions in keys for action in actions):
        raise ModelError(f"under the rule {rule!r} every action needs a text of at least one token.")
    places = [(row, column) for row, (_, actions) in enumerate(keys) for column in range(len(actions))]
    sequences = [keys[row][0] + keys[row][1][column] for row, column in places]
    raw = torch.zeros(len(keys), max(len(actions) for _, actions in keys), device=model.device)
    results: dict[int, Tensor] = {}
    last: dict[int, Tensor] = {}
    for group in micro_batches([len(sequence) for sequence in sequences], max_tokens):
        states = hidden_states(model, [sequences[i] for i in group])
        for k, i in enumerate(group):
            start, stop = len(keys[places[i][0]][0]) - 1, len(sequences[i]) - 1
            logits = _project(model, states[k, start:stop]).float()
            tokens = torch.tensor(sequences[i][start + 1 :], device=model.device)
            log_probs = torch.log_softmax(logits, -1).gather(1, tokens[:, None])[:, 0]
            results[i] = log_probs.sum() if rule == "sum" else log_probs.mean()
            last[places[i][0]] = states[k, start]
    order = range(len(places))
    raw = raw.index_put(tuple(torch.tensor(places, device=model.device).T), torch.stack([results[i] for i in order]))
    return raw, torch.stack([last[row] for row in range(len(keys))])


def _last_hidden(model: LanguageModel, prompts: Sequence[Ids], max_tokens: int) -> Tensor:
    groups = list(micro_batches([len(prompt) for prompt in prompts], max_tokens))
    parts = []
    for group in groups:
        states = hidden_states(model, [prompts[i] for i in group])
        ends = torch.tensor([len(prompts[i]) - 1 for i in group], device=model.device)
        parts.append(states[torch.arange(len(group), device=model.device), ends])
    order = torch.tensor([i for group in groups for i in group], device=model.device)
    return torch.cat(parts)[torch.argsort(order)]


def _backbone(model: LanguageModel) -> torch.nn.Module:
    outer: Any = model.model
    base = outer.get_base_model() if hasattr(outer, "get_base_model") else outer
    backbone: torch.nn.Module = getattr(base, base.base_model_prefix)
    return backbone


def _project(model: LanguageModel, hidden: Tensor, rows: Tensor | None = None) -> Tensor:
    """Logits of the given vocabulary rows (all when None), (..., rows)."""
    head = model.model.get_output_embeddings()
    weight = head.weight if rows is None else head.weight[rows]
    bias = getattr(head, "bias", None)
    logits = torch.nn.functional.linear(hidden, weight, bias if bias is None or rows is None else bias[rows])
    cap = getattr(model.model.config, "final_logit_softcapping", None)
    return logits if cap is None else torch.tanh(logits / cap) * cap


def completion_losses(model: LanguageModel, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> Tensor:
    """-log p of every labelled token, (M,): the supervised loss, projecting only the positions that are trained on.

    Args:
        model: the model.
        input_ids: (N, T) right-padded.
        attention_mask: (N, T) 1 = a token, 0 = padding.
        labels: (N, T) the token at each position that is a target, else -100; M of them are targets.
    """
    hidden = _backbone(model)(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
    targets = labels[:, 1:]
    chosen = targets != -100
    return torch.nn.functional.cross_entropy(
        _project(model, hidden[:, :-1][chosen]).float(), targets[chosen], reduction="none"
    )


def check_scoring(model: LanguageModel) -> None:
    """Prove on a short prompt that our logits are the model's own.

    Raises:
        ModelError: the architecture changes hidden states or logits in a way that this file does not know.
    """
    ids = model.encode("0 1 2 3")[:8]
    with torch.no_grad():
        ours = _project(model, hidden_states(model, [ids])[0, -1]).float()
        theirs = model.model(input_ids=torch.tensor([ids], device=model.device)).logits[0, -1].float()
    if not torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2 * float(theirs.abs().max().clamp(min=1))):
        kind = getattr(model.model.config, "model_type", type(model.model).__name__)
        raise ModelError(
            f"models of type {kind!r} transform their logits in a way that action scoring does not support."
        )
