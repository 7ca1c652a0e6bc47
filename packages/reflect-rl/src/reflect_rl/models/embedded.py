"""The embedded model: a small language model that starts from nothing, so that a first run needs no download.

Its tokenizer is byte-level BPE (Sennrich et al. 2016; Radford et al. 2019) learned from the texts of the run, with one
addition: a map cell with its separator (`R:`, ` |`, `G|`) is always one token. Every row of a map then has the same
number of tokens, and a place on the map is a place in the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import product
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np

from reflect_rl.config import EmbeddedConfig
from reflect_rl.errors import ModelError
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel, forked_rng

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PretrainedConfig

VOCABULARY_TEXTS = 60_000
"""Texts that the tokenizer is learned from at most; more would take minutes and change little."""

WORDS = r" ?\p{L}+"
# A number belongs to the words before it ("cabinet 2") only where it cannot be the number of a listed action: those are
# followed by a word. A label that were part of a longer token could not be copied.
PHRASES = r"(?: ?\p{L}+)+(?: \p{N}+(?=[\n.,;=)]|$| \p{N}+ \p{L}))?"
PIECES = {
    name: rf"[A-Z ][:|]|\n|{own}| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s"
    for name, own in (("words", WORDS), ("phrases", PHRASES))
}
"""A text is cut into these before merging: map cell, newline, words, number, punctuation, other space."""
END, PADDING = "<|endoftext|>", "<|padding|>"
SPACE = "Ġ"
"""A space, as byte-level BPE writes it."""


def build_embedded(
    texts: Iterable[str], config: EmbeddedConfig, seed: int, labels: Sequence[str] = ()
) -> LanguageModel:
    """A randomly initialised model whose tokenizer is learned from `texts`.

    Args:
        texts: prompts and answers as they will occur; text not seen here becomes byte tokens.
        config: the shape.
        seed: for the weights; the global random state of torch is not touched.
        labels: numbers that are one token each, whether merging finds them or not; they may exceed the vocabulary size.

    Raises:
        ModelError: `texts` is empty.
    """
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    from reflect_rl.models.attention import ATTENTION
    from reflect_rl.models.network import reads_trees

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_learn(texts, config, labels),
        eos_token=END,
        pad_token=PADDING,
        model_max_length=config.context_tokens,
        # Cleaning up would remove spaces before full stops and commas from decoded text.
        clean_up_tokenization_spaces=False,
    )
    # Matrix kernels prefer widths that are multiples of 8.
    rows = -(-len(tokenizer) // 8) * 8
    # Defaults of transformers name tokens of GPT-2's and Llama's vocabularies, which this one lacks.
    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    with forked_rng(seed):
        model = AutoModelForCausalLM.from_config(
            _shape(config, rows, ends), dtype=torch.float32, attn_implementation=ATTENTION
        )
    built = LanguageModel(model.eval(), tokenizer)
    # Now, as of a model that is loaded; the answer is kept.
    reads_trees(built)
    return built


def build_for(
    texts: Sequence[str], config: EmbeddedConfig, seed: int, labels: Sequence[str], rng: np.random.Generator
) -> LanguageModel:
    """A model from scratch that can read these texts and answer with these labels.

    Args:
        texts: prompts with their answers; of very many, a random part teaches the tokenizer.
        config: the shape.
        seed: for the weights.
        labels: of the actions; the tokenizer gets a token for each.
        rng: draws the part.

    Raises:
        ModelError: there are no texts, or the tokenizer lacks labels.
    """
    if len(texts) > VOCABULARY_TEXTS:
        texts = [texts[index] for index in rng.permutation(len(texts))[:VOCABULARY_TEXTS]]
    model = build_embedded(texts, config, seed, labels)
    # A label that the tokenizer cuts must not surface in training.
    if list(find_labels(model, len(labels)).texts) != list(labels):
        raise ModelError(f"the embedded tokenizer has no single tokens for the labels 0 to {len(labels) - 1}.")
    return model


def _empty(vocabulary: dict[str, int], merges: list[tuple[str, str]], pieces: str) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), "isolated"),
            # PIECES has cut the text; GPT-2's own pattern (use_regex) would cut map cells again.
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _learn(texts: Iterable[str], config: EmbeddedConfig, labels: Sequence[str]) -> Tokenizer:
    """Learn a tokenizer: specials, bytes, cells and labels first, then what merging finds in the texts."""
    from tokenizers import AddedToken, pre_tokenizers, trainers

    cells = [*product((*ascii_uppercase, SPACE), ":|")]
    longer = sorted((label for label in labels if len(label) > 1), key=len)
    # All 256 bytes, so that any text can be read.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = PIECES[config.pieces]
    learned = _empty({}, [], pieces)
    trainer = trainers.BpeTrainer(vocab_size=config.vocabulary_size, initial_alphabet=alphabet, show_progress=False)
    rows = [text for text in texts if text]
    if not rows:
        raise ModelError("the embedded model needs texts to learn its tokenizer from, got none.")
    learned.train_from_iterator(rows, trainer)
    found = [tuple(merge) for merge in json.loads(learned.to_str())["model"]["merges"]]
    free = max(0, config.vocabulary_size - 2 - len(alphabet) - len(cells) - len(longer))
    # A merge is built from earlier ones only, so that any first part of the list is complete.
    # Labels last: where they were merged first, a listed number and the space before it would stay two tokens.
    forced = {*cells, *((label[0], label[1]) for label in longer if len(label) == 2)}
    merges = [*cells, *[merge for merge in found if merge not in forced][:free]]
    known = {*alphabet, *(left + right for left, right in merges)}
    for label in longer:
        # Shorter ones came first. However earlier merges cut `107`, its parts must find each other.
        cuts = ((label[:place], label[place:]) for place in range(1, len(label)))
        merges += [cut for cut in cuts if known.issuperset(cut)]
        known.add(label)
    # Two merges may spell the same token; a dict keeps the first.
    entries = dict.fromkeys([END, PADDING, *alphabet, *(left + right for left, right in merges)])
    tokenizer = _empty({entry: index for index, entry in enumerate(entries)}, merges, pieces)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in (END, PADDING)])
    return tokenizer


def _shape(config: EmbeddedConfig, rows: int, ends: dict[str, Any]) -> PretrainedConfig:
    """Configuration of the network; both kinds have 8 x hidden^2 weights in the feed-forward part of a block."""
    from transformers import GPT2Config, LlamaConfig

    if config.architecture == "gpt2":
        return GPT2Config(
            vocab_size=rows,
            n_positions=config.context_tokens,
            n_embd=config.hidden_size,
            n_layer=config.layers,
            n_head=config.heads,
            # ReLU and learned positions gave more correct reflections than the Llama shape (docs/results/log.md).
            activation_function="relu",
            # Dropout made the reflection player worse (docs/results/log.md).
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            **ends,
        )
    return LlamaConfig(
        vocab_size=rows,
        max_position_embeddings=config.context_tokens,
        hidden_size=config.hidden_size,
        # Llama has three matrices here, GPT-2 two: 8/3 x hidden makes as many weights; rounded up to 8.
        intermediate_size=-(-config.hidden_size * 8 // 24) * 8,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        # As GPT-2 by default.
        tie_word_embeddings=True,
        attention_dropout=0.0,
        **ends,
    )
