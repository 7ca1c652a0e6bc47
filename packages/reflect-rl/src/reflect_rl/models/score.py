"""Action scoring: log π(a|s) over the admissible actions. One function for rollouts, training and evaluation.

Rules:

- `choice_token` (Reflect-RL, "single-prompt action enumeration"): each action is one label token; the logits of the
  labels of the admissible actions at the prompt's last position, softmax over them. One forward pass and |A| logits a
  state.
- `line_end`: each action is a line of the list in the prompt; the logit of the end token where its line ends, softmax
  over the lines. One forward pass as well, but no label has to be found: what an action is has been read there.
- `sum` (SayCan): log π(a|s) ∝ Σ_j log p(a_j | s, a_<j) over the tokens of the action's own text.
- `token_mean` (TWOSOME, token normalisation): the mean instead of the sum.

What sequences begin with alike is read once, forwards and backwards: the texts of a state's actions behind its prompt,
and with wide models the states of an episode that begin with the turns before (`models/prefixes.py`). Only the hidden
states that are needed are projected, and under `choice_token` only onto the label rows; nowhere is there a
vocabulary-wide projection over all positions. Equal prompts of a batch are computed once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from reflect_rl.config import Rule
from reflect_rl.errors import ModelError, UserError
from reflect_rl.models.frozen import FrozenBlocks, frozen_of
from reflect_rl.models.graphs import COLUMNS
from reflect_rl.models.kept import Beginning, Kept, Layers
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.memory import GB, activation_bytes, free_bytes
from reflect_rl.models.network import REUSE_TOKENS, Network, Past, Read, Tree, alike, context_of, reads_trees, shares
from reflect_rl.models.prefixes import Row, merge, pack

ACTIVATIONS_ON_CPU, ACTIVATIONS_ON_GPU, GPU_SHARE = 2 * 2**30, 8 * 2**30, 0.25
"""Most bytes of activations that a micro-batch leaves for its backward pass; their largest share of a GPU's memory."""

SHOWN = 60
"""Characters of the beginning and of the end of a text that a message shows."""

LISTED = ("choice_token", "line_end")
"""Rules whose prompts list the actions; under the others an action is its text, which the model writes and ends."""

Ids = Sequence[int]


@dataclass(frozen=True)
class Scores:
    """Letters: N turns, A the largest number of admissible actions among them, H hidden size."""

    log_probs: Tensor
    """(N, A) log π(a|s), rows sum to one in probability; -inf where `admissible` is False."""
    admissible: Tensor
    """(N, A) True = this action exists in this state."""
    hidden: Tensor
    """(N, H) hidden state of the prompt's last position."""
    values: Tensor | None = None
    """(N, outputs) what the critic's head reads from it; None without one."""


def micro_batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices in groups of similar length, each of at most `max_tokens` tokens after padding (at least one row).

    Args:
        lengths: tokens of each row.
        max_tokens: rows of a group times the length of its longest row.

    >>> list(micro_batches([5, 2, 2, 5], 10))
    [[1, 2], [0, 3]]
    """
    group: list[int] = []
    # Rows of similar length stand together, so that little is padding.
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if group and (len(group) + 1) * lengths[index] > max_tokens:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def fast_tokens(hidden_size: int, *, on_cpu: bool) -> int:
    """Padded tokens of a forward pass that are fast, whatever the memory (docs/reference/speed.md)."""
    # More activations would leave a processor's caches. Narrow models need more tokens to be worth a pass.
    return max(1280, (5000 // hidden_size) ** 2) if on_cpu else 16_384


def token_budget(model: LanguageModel) -> int:
    """Padded tokens of a forward pass that are fast and fit: as many as fill a GPU, or stay in a processor's caches.

    Where gradients are wanted, the activations of deep models are the limit.
    """
    width: int = model.model.get_output_embeddings().weight.shape[1]
    on_cpu = model.device.type == "cpu"
    fast = fast_tokens(width, on_cpu=on_cpu)
    if not torch.is_grad_enabled():
        return fast
    budget, each = _activations(model)
    return max(1, min(fast, budget // each))


def most_activations(device: torch.device) -> int:
    """Bytes of activations that a micro-batch may leave on a device for its backward pass."""
    if device.type == "cpu":
        return ACTIVATIONS_ON_CPU
    whole = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else sys.maxsize
    return min(ACTIVATIONS_ON_GPU, int(GPU_SHARE * whole))


def _activations(model: LanguageModel) -> tuple[int, int]:
    """Bytes that a micro-batch may leave for its backward pass, and those of a token."""
    return most_activations(model.device), activation_bytes(model.model.config, checkpointing=model.checkpointing)


def check_fits(model: LanguageModel, tokens: int) -> None:
    """Refuse to train on a row of so many tokens, which goes through the model whole, where the memory is too small.

    Raises:
        ModelError: its activations are more than a micro-batch may take, and more than the device has free.
    """
    budget, each = _activations(model)
    needed = tokens * each
    if needed <= budget or needed <= (free := free_bytes(model.device)):
        return
    raise ModelError(
        f"a row of {tokens} tokens leaves about {needed / GB:.1f} GB of activations for its backward pass, and "
        f"{free / GB:.1f} GB are free. Set model.gradient_checkpointing = true, lower model.train_layers, or make the "
        "environment's states shorter."
    )


def check_context(
    model: LanguageModel,
    tokens: int,
    text: str = "",
    new: int = 0,
    reflection: str = "",
    *,
    most_new: str = "reflector.max_new_tokens",
    shortening: str = "",
    actions: int | None = 0,
) -> None:
    """Refuse a text that the model cannot read at once.

    Args:
        model: the language model.
        tokens: length of the text.
        text: its state, for the message.
        new: tokens of the reflection or answer that is to follow it.
        reflection: one that it holds.
        most_new: name of the setting that limits what follows, or the reflection that it holds.
        shortening: name of a setting that makes the text shorter the lower it is; empty where there is none.
        actions: how many it lists; None = some, and nobody has counted them.

    Raises:
        ModelError: it is longer than the model's context.
    """
    limit = context_of(model.model.config)
    if limit is not None and tokens + new > limit:
        shown = " ".join(text.split())
        # States of a game often begin alike, and what tells them apart stands near their end.
        ends = f" and ends {shown[-SHOWN:]!r}" if len(shown) > 2 * SHOWN else ""
        begins = f" whose state begins {shown[:SHOWN]!r}{ends}" if shown else ""
        said = len(model.encode(reflection)) if reflection else 0
        follow = f" and {new} are to follow" if new else f" with the {said} of its reflection" if said else ""
        # With LongRoPE it is not the limit that config.json shows first.
        named = getattr(model.model.config, "max_position_embeddings", limit)
        longrope = " with LongRoPE's short factors" if limit != named else ""
        # A shorter reflection is no remedy where the rest is too long.
        enough = (new and tokens < limit) or tokens - limit <= said
        lowered = " or ".join(filter(None, [most_new if enough else "", shortening]))
        lower = f"Lower {lowered}. " if lowered else ""
        remedy = "make the environment's states shorter"
        # The rest of the prompt is its list; a shorter state is no remedy for a long one.
        listed = tokens - said - len(model.encode(text)) if actions != 0 and text else 0
        if listed > tokens / 2:
            follow += f", {listed} of them in its list of {f'{actions} ' if actions else ''}actions"
            remedy = "set prompt.scoring = 'sum', which lists no actions, or let the game list fewer"
        raise ModelError(
            f"a prompt{begins} has {tokens} tokens{follow}, the model's context holds {limit}{longrope}. "
            f"{lower}Set model.path to a model with a longer context (for the embedded one: "
            f"model.embedded.context_tokens), or {remedy}."
        )


def read(
    model: LanguageModel,
    sequences: Sequence[Ids],
    positions: Sequence[tuple[int, int]],
    vocabulary: Tensor | None = None,
    network: torch.nn.Module | None = None,
    trees: Sequence[Sequence[int]] = (),
    past: Past | None = None,
    begun: AbstractContextManager[None] | None = None,
) -> Read:
    """Run one forward pass over right-padded sequences, read at M positions only.

    Args:
        model: the language model.
        sequences: N sequences of token ids.
        positions: M pairs (sequence, place in it).
        vocabulary: (V,) tokens whose logits are wanted, None = all.
        network: the module that does the pass, where it is wrapped or has a critic (default: the model alone).
        trees: of each sequence, the place of the token that each token follows, -1 for the first (unset: the one
            before it).
        past: what was read before the sequences, and where to keep what is read now.
        begun: see `Network.forward`.

    Raises:
        ModelError: a sequence is longer than the model's context.
    """
    tree = Tree.of(trees, model.device) if trees else None
    before = 0 if past is None else int(past.lengths.max())
    check_context(model, before + (max(map(len, sequences)) if tree is None else 1 + int(tree.depths.max())))
    # Nobody reads behind a row's end. With the padding token there, transformers would warn that a mask is missing.
    ids = pad_sequence([torch.as_tensor(sequence) for sequence in sequences], batch_first=True)
    # A batch whose completions are all empty reads nothing.
    rows, columns = torch.tensor(positions, device=model.device, dtype=torch.long).view(-1, 2).T
    answer: Read = (network or Network(model))(ids.to(model.device), rows, columns, vocabulary, tree, past, begun)
    return answer


def score(  # noqa: PLR0913 (each is the caller's to know)
    model: LanguageModel,
    prompts: Sequence[Ids],
    actions: Sequence[Sequence[Ids]],
    rule: Rule = "choice_token",
    max_tokens: int | None = None,
    network: torch.nn.Module | None = None,
    temperature: float = 1.0,
    kept: Kept | None = None,
    *,
    together: bool = False,
) -> Scores:
    """Log-probabilities of the admissible actions of N states.

    Args:
        model: the policy's language model.
        prompts: N prompts as token ids.
        actions: for each prompt, of each admissible action: under `choice_token` the id of its label token, under
            `line_end` the place in the prompt of its line's last token, otherwise the token ids of its text.
        rule: see the top of the file.
        max_tokens: upper bound on the padded tokens of one forward pass (default: `token_budget`).
        network: see `read`.
        temperature: what the scores are divided by before the softmax, above 0; above 1 makes actions more alike.
        kept: prompts that a wide model has read before, without gradients; those that it reads now are added.
        together: see `least_shared`.

    Raises:
        ModelError: a prompt is too long or empty, or an action has no token, or several under `choice_token`.
        UserError: a state lists no action.
        ValueError: unknown rule.
    """
    if rule not in get_args(Rule):
        raise ValueError(f"unknown scoring rule {rule!r}; known: {', '.join(get_args(Rule))}")
    if not all(actions):
        raise UserError("a state lists no action, so none can be chosen. Give its Observation at least one action.")
    if not all(map(len, prompts)):
        raise ModelError("an empty prompt cannot be scored: the tokenizer gave no tokens for it.")
    keys = [(tuple(p), tuple(map(tuple, a))) for p, a in zip(prompts, actions, strict=True)]
    # On DangerousTaxi only 15 to 37% of an update's prompts are different (docs/results/log.md).
    unique = list(dict.fromkeys(keys))
    place = {key: row for row, key in enumerate(unique)}
    rows = torch.tensor([place[key] for key in keys], device=model.device)
    scorer = _score_listed if rule in LISTED else _score_texts
    frozen = frozen_of(model.model) if rule in LISTED else None
    read_by = Passes(model, max_tokens or token_budget(model), network, kept, frozen, together)
    raw, hidden, values = scorer(model, unique, rule, read_by)
    counts = torch.tensor([len(a) for _, a in unique], device=model.device)
    admissible = torch.arange(raw.shape[1], device=model.device)[None] < counts[:, None]
    log_probs = torch.log_softmax((raw / temperature).masked_fill(~admissible, -torch.inf), dim=-1)
    return Scores(log_probs[rows], admissible[rows], hidden[rows], None if values is None else values[rows])


Key = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
Raw = tuple[Tensor, Tensor, Tensor | None]
"""Results for N states: (N, A) unnormalised scores, (N, H) hidden states, (N, outputs) of the critic."""


def _score_listed(model: LanguageModel, keys: list[Key], rule: Rule, passes: Passes) -> Raw:
    """Each prompt is read at its end, and under `line_end` at the end of each line."""
    if any(len(action) != 1 for _, actions in keys for action in actions):
        raise ModelError(f"under the rule {rule!r} every action needs a label of exactly one token.")
    by_line = rule == "line_end"
    if by_line and any(not 0 <= action[0] < len(prompt) for prompt, actions in keys for action in actions):
        raise ModelError(f"under the rule {rule!r} every action needs a line that ends inside its prompt.")
    tokens = [model.end_id] if by_line else sorted({action[0] for _, actions in keys for action in actions})
    column, vocabulary = {token: i for i, token in enumerate(tokens)}, torch.tensor(tokens, device=model.device)
    prompts = [prompt for prompt, _ in keys]
    reads = [[len(prompt) - 1, *(action[0] for action in actions if by_line)] for prompt, actions in keys]
    found = _Found(keys, model.device)
    for taken, answer in passes(prompts, reads, [len(prompt) + 1 for prompt in prompts], vocabulary):
        for state, (end, *lines) in taken.items():
            at = lines or [end] * len(keys[state][1])
            labels = [column.get(token, 0) for (token,) in keys[state][1]]
            found.scores.append(answer.logits[at, [0] * len(at) if by_line else labels])
            found.places += [(state, number) for number in range(len(at))]
            found.keep(state, answer, end)
    return found.raw()


def _score_texts(model: LanguageModel, keys: list[Key], rule: Rule, passes: Passes) -> Raw:
    """The text of each action is read behind its prompt, where a token of it comes next."""
    if not all(action for _, actions in keys for action in actions):
        raise ModelError(f"under the rule {rule!r} every action needs a text of at least one token.")
    owners = [(state, number) for state, (_, actions) in enumerate(keys) for number in range(len(actions))]
    # Nothing asks for what follows an action's last token, so that token is not read.
    texts = [keys[state][0] + keys[state][1][number][:-1] for state, number in owners]
    first = [len(keys[state][0]) - 1 for state, _ in owners]
    reads = [range(start, len(text)) for start, text in zip(first, texts, strict=True)]
    found = _Found(keys, model.device)
    for taken, answer in passes(texts, reads, [start + 1 for start in first]):
        at = torch.tensor([place for places in taken.values() for place in places], device=model.device)
        owned = [owners[text] for text in taken]
        tokens = [token for state, number in owned for token in keys[state][1][number]]
        # Not `log_softmax`, which would keep a second tensor of this size.
        chosen = answer.logits[at, tokens] - answer.logits.logsumexp(-1)[at]
        for owner, part, places in zip(
            owned, chosen.split(list(map(len, taken.values()))), taken.values(), strict=True
        ):
            found.scores.append((part.sum() if rule == "sum" else part.mean())[None])
            found.places.append(owner)
            # Each action of a state has read the same prompt, so any of them gives its hidden state.
            found.keep(owner[0], answer, places[0])
    return found.raw()


class _Found:
    """Scores as the passes give them, in any order."""

    def __init__(self, keys: list[Key], device: torch.device) -> None:
        self.shape, self.device = (len(keys), max(len(actions) for _, actions in keys)), device
        self.scores: list[Tensor] = []
        self.places: list[tuple[int, int]] = []
        """State and action of each score."""
        self.states: dict[int, tuple[Tensor, Tensor | None]] = {}

    def keep(self, state: int, answer: Read, row: int) -> None:
        """Keep what was read at the end of a state's prompt."""
        self.states[state] = answer.hidden[row], None if answer.values is None else answer.values[row]

    def raw(self) -> Raw:
        table = torch.zeros(self.shape, device=self.device)
        # Out of place, because gradients flow through it.
        table = table.index_put(tuple(torch.tensor(self.places, device=self.device).T), torch.cat(self.scores))
        hidden, values = zip(*(self.states[row] for row in range(self.shape[0])), strict=True)
        return table, torch.stack(hidden), None if values[0] is None else torch.stack(values)


@dataclass(frozen=True)
class Passes:
    """Passes of a model over sequences, each of at most `max_tokens` padded tokens (at least one row)."""

    model: LanguageModel
    max_tokens: int
    network: torch.nn.Module | None = None
    kept: Kept | None = None
    frozen: FrozenBlocks | None = None
    """Where each sequence is read whole by the frozen blocks, once."""
    together: bool = False
    """See `least_shared`."""

    def __call__(
        self,
        sequences: Sequence[tuple[int, ...]],
        reads: Sequence[Sequence[int]],
        whole: Sequence[int],
        vocabulary: Tensor | None = None,
    ) -> Iterator[tuple[dict[int, list[int]], Read]]:
        """For each of a pass, by number, the rows of the answer that are its reads; and the answer.

        Args:
            sequences: N sequences. The first position that is read ends a prompt, which is kept.
            reads: of each, the positions that are read.
            whole: see `least_shared`.
            vocabulary: see `read`.
        """
        kept = self.kept if shares(self.model.model) and reads_trees(self.model) else None
        if kept is None or torch.is_grad_enabled():
            for rows in shared_rows(self.model, sequences, reads, whole, self.max_tokens, together=self.together):
                yield self._pass(rows, vocabulary)
            return
        for _, found in self._going_on(kept, sequences, reads, whole, vocabulary):
            yield found

    def prompts(self, prompts: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, Layers]]:
        """Keys and values of different prompts, with the number of each, of a model that reads trees."""
        ends, alone = [[len(ids) - 1] for ids in prompts], [len(ids) + 1 for ids in prompts]
        # No logits are wanted; one is the least that a pass gives.
        least = torch.tensor([self.model.end_id], device=self.model.device)
        for found, _ in self._going_on(self.kept or Kept(0), prompts, ends, alone, least):
            yield from found.items()

    def _going_on(
        self,
        kept: Kept,
        sequences: Sequence[tuple[int, ...]],
        reads: Sequence[Sequence[int]],
        whole: Sequence[int],
        vocabulary: Tensor | None,
    ) -> Iterator[tuple[dict[int, Layers], tuple[dict[int, list[int]], Read]]]:
        """Passes that go on from what is kept, and keep the prompts that they read; these, and what they found."""
        # Nothing that is read may lie before where a row goes on.
        free = [sequence[: min(places) + 1] for sequence, places in zip(sequences, reads, strict=True)]
        # Texts of a state have one prompt, which is looked up once.
        known = {ids: kept.beginning(ids, REUSE_TOKENS) for ids in dict.fromkeys(free)}
        begun = {i: one for i, ids in enumerate(free) if (one := known[ids])}
        for rows, past in self._rows(sequences, reads, whole, begun):
            result, layers = self._pass(rows, vocabulary, past), dict[int, Layers]()
            for k, row in enumerate(rows):
                # Texts of a state follow one prompt.
                for prompt, i in {sequences[i][: reads[i][0] + 1]: i for i in row.places}.items():
                    layers[i] = past.layers(k, row.path(row.places[i][0]))
                    kept.add(prompt, layers[i], begun.get(i))
            yield layers, result

    def _rows(
        self,
        sequences: Sequence[tuple[int, ...]],
        reads: Sequence[Sequence[int]],
        whole: Sequence[int],
        begun: Mapping[int, Beginning],
    ) -> Iterator[tuple[list[Row], Past]]:
        """Rows of each pass, and where it goes on."""
        fresh = [i for i in range(len(sequences)) if i not in begun]
        for rows in shared_rows(self.model, *_some(fresh, sequences, reads, whole), self.max_tokens):
            yield [row.named(fresh) for row in rows], Past.of([], len(rows), self.model)
        # Only texts of the same state share a row, which then goes on from one beginning.
        texts, places, prompts = _some(list(begun), sequences, reads, whole)
        merged = merge(texts, places, prompts, prompts, self.max_tokens)
        rows = [row.named(list(begun)) for row in merged]
        starts = [min((begun[i] for i in row.places), key=lambda one: one.tokens) for row in rows]
        rest = [row.behind(start.tokens) for row, start in zip(rows, starts, strict=True)]
        for group in micro_batches([len(row.ids) for row in rest], self.max_tokens):
            yield [rest[k] for k in group], Past.of([starts[k].layers for k in group], len(group), self.model)

    def _pass(
        self, rows: Sequence[Row], vocabulary: Tensor | None, past: Past | None = None
    ) -> tuple[dict[int, list[int]], Read]:
        reads = [(k, place) for k, row in enumerate(rows) for own in row.places.values() for place in own]
        number = {place: m for m, place in enumerate(dict.fromkeys(reads))}
        behind = past is not None and past.cache.get_seq_length() > 0
        trees = [row.parents for row in rows] if behind or any(row.branches for row in rows) else ()
        # A player that keeps prompts goes on from the turn before, which its frozen blocks have read as well.
        begun = None if self.frozen is None or past is not None else self._begun(self.frozen, rows)
        answer = read(self.model, [row.ids for row in rows], list(number), vocabulary, self.network, trees, past, begun)
        taken = {i: [number[k, place] for place in own] for k, row in enumerate(rows) for i, own in row.places.items()}
        return taken, answer

    def _begun(self, frozen: FrozenBlocks, rows: Sequence[Row]) -> AbstractContextManager[None] | None:
        """Hidden states that the frozen blocks give; None where rows share most of what they read."""
        paths = [[row.path(max(places)) for places in row.places.values()] for row in rows]
        # Rows that begin alike are read faster together than each by itself, and hardly come back.
        if sum(len(path) for row in paths for path in row) > 2 * sum(len(row.ids) for row in rows):
            return None
        parts = []
        for row, own in zip(rows, paths, strict=True):
            known = [(path, frozen.states([row.ids[place] for place in path])) for path in own]
            states = known[0][1].new_zeros(len(row.ids), known[0][1].shape[-1])
            for path, values in known:
                states[path] = values
            parts.append(states)
        return frozen.replaced(pad_sequence(parts, batch_first=True))


def _some(
    numbers: Sequence[int],
    sequences: Sequence[tuple[int, ...]],
    reads: Sequence[Sequence[int]],
    whole: Sequence[int],
) -> tuple[list[tuple[int, ...]], list[Sequence[int]], list[int]]:
    return [sequences[i] for i in numbers], [reads[i] for i in numbers], [whole[i] for i in numbers]


def shared_rows(
    model: LanguageModel,
    sequences: Sequence[tuple[int, ...]],
    reads: Sequence[Sequence[int]],
    whole: Sequence[int],
    max_tokens: int,
    *,
    together: bool = False,
) -> Iterator[list[Row]]:
    """Sequences in rows, in groups of at most `max_tokens` padded tokens (at least one row); see `merge`.

    Args:
        model: the model that will read them.
        sequences: N sequences.
        reads: of each, the positions that are read.
        whole: see `least_shared`.
        max_tokens: see above.
        together: see `least_shared`.
    """
    rows = merge(sequences, reads, least_shared(model, sequences, whole, together=together), whole, max_tokens)
    # Where nothing is shared, in the order in which they were given.
    rows = pack(rows) if any(row.branches for row in rows) else sorted(rows, key=lambda row: min(row.places))
    for group in micro_batches([len(row.ids) for row in rows], max_tokens):
        yield [rows[i] for i in group]


def least_shared(
    model: LanguageModel, sequences: Sequence[Ids], whole: Sequence[int], *, together: bool = False
) -> list[int]:
    """Tokens that each sequence must share with another one for both to be read in one row.

    Narrow models gain where a state's whole prompt is shared. Wide ones gain where a third of the sequence is, as
    in the states of an episode in raw text; narrow ones, too, if such states were put together.

    Args:
        model: the language model.
        sequences: N sequences.
        whole: of each, what narrow models ask for.
        together: the sequences were put together because they begin alike.
    """
    if not reads_trees(model):
        return [len(sequence) + 1 for sequence in sequences]
    if not shares(model.model, together=together):
        return list(whole)
    return [min(own, max(REUSE_TOKENS, len(ids) // 3)) for own, ids in zip(whole, sequences, strict=True)]


def row_tokens(model: LanguageModel, prompt: Ids, actions: Sequence[Ids], rule: Rule) -> int:
    """Tokens that the model reads to score a state's actions."""
    if rule in LISTED:
        return len(prompt)
    texts = [(*prompt, *action[:-1]) for action in actions]
    whole = [len(prompt)] * len(texts)
    least = least_shared(model, texts, whole)
    return sum(len(row.ids) for row in merge(texts, [()] * len(texts), least, whole, sys.maxsize))


def completion_losses(
    model: LanguageModel,
    input_ids: Sequence[Sequence[int]],
    masks: Sequence[Sequence[int]],
    network: torch.nn.Module | None = None,
    *,
    together: bool = False,
) -> Tensor:
    """-log p of every target, (M,): the supervised loss, projecting only the positions that are trained on.

    Wide models read once what rows begin with alike.

    Args:
        model: the model.
        input_ids: tokens of N rows.
        masks: of each row, 1 where a token is a target; M of them are. The first token of a row is never predicted.
        network: see `read`.
        together: see `least_shared`.
    """
    # Position t predicts token t + 1.
    reads = [[t for t in range(len(mask) - 1) if mask[t + 1]] for mask in masks]
    targets = [ids[t + 1] for ids, own in zip(input_ids, reads, strict=True) for t in own]
    sequences = [tuple(ids) for ids in input_ids]
    # Narrow models read each row by itself.
    whole = [len(ids) + 1 for ids in input_ids]
    # One pass, as callers have cut their rows to the budget.
    passes = Passes(model, sys.maxsize, network, frozen=frozen_of(model.model), together=together)
    ((taken, answer),) = passes(sequences, reads, whole)
    at = [place for number in range(len(input_ids)) for place in taken[number]]
    # All in their order, the most usual case: a selection would copy a tensor of vocabulary width.
    logits = answer.logits if at == list(range(len(answer.logits))) else answer.logits[at]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(targets, device=model.device), reduction="none")


def check_scoring(model: LanguageModel) -> None:
    """Prove on a short prompt that our logits are the model's own, and that they depend on no later token.

    Raises:
        ModelError: the architecture does not read from left to right, it changes hidden states or logits in a way that
            this file does not know, or the weights are damaged.
    """
    # One shape on a GPU as well, where passes are padded: bfloat16 rounds otherwise in another one.
    most = context_of(model.model.config) or COLUMNS
    ids = (model.encode("0 1 2 3") * COLUMNS)[: min(COLUMNS, most) if model.device.type == "cuda" else 8]
    half, end = len(ids) // 2, len(ids) - 1
    # The second row goes on with other tokens, none of them padding, of which transformers would warn.
    rows = [ids, [*ids[:half], *((token + 1) % len(model.tokenizer) for token in ids[half:])]]
    # In the same formats: with 30 layers, rounding to bfloat16 alone can exceed the tolerance.
    with torch.no_grad(), torch.autocast(model.device.type, torch.bfloat16, enabled=model.mixed):
        ours = read(model, rows, [(0, end), (1, end)]).logits
        theirs = model.model(input_ids=torch.tensor(rows, device=model.device)).logits.float()
    if not theirs.isfinite().all():
        raise ModelError("the model computes values that are no numbers. Copy or download its weights again.")
    kind = getattr(model.model.config, "model_type", type(model.model).__name__)
    if not alike(model, theirs[1, :half], theirs[0, :half]):
        raise ModelError(
            f"{model.name!r} is a {kind!r} model that looks at later tokens, so it is no causal language model. "
            "Choose one that generates text from left to right (GPT-2, Llama, Qwen, ...)."
        )
    if not torch.allclose(ours, theirs[:, end], rtol=1e-2, atol=1e-2 * float(theirs.abs().max().clamp(min=1))):
        raise ModelError(
            f"models of type {kind!r} transform their logits in a way that action scoring does not support."
        )
