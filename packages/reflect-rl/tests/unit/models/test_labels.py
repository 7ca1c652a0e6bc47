"""Labels are one token each, for every tokenizer family."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

import pytest

from reflect_rl.errors import ModelError
from reflect_rl.models.embedded import EmbeddedConfig, build_embedded
from reflect_rl.models.labels import PROMPT_END, find_labels
from reflect_rl.models.load import LanguageModel, ModelConfig, load_model
from reflect_rl.prompts import render
from tiny_models import KINDS, save_tiny

LETTERS = (*ascii_uppercase, *ascii_lowercase)


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> dict[str, LanguageModel]:
    folder = tmp_path_factory.mktemp("families")
    return {
        kind: load_model(ModelConfig(device="cpu"), save_tiny(kind, folder / kind), trainable=False) for kind in KINDS
    }


def test_prompt_end_is_the_end_of_every_policy_prompt():
    assert render.ACTION.endswith(PROMPT_END)
    assert render.ACTION == "\n" + PROMPT_END


def test_gpt2_has_one_token_for_each_of_0_to_199(families):
    labels = find_labels(families["gpt2"], 252)
    # 200 numbers and 52 letters are 252 labels.
    assert labels.texts == (*(str(number) for number in range(200)), *LETTERS)


@pytest.mark.parametrize("kind", ["llama", "qwen"])
def test_tokenizers_that_split_numbers_go_on_with_letters_and_short_words(families, kind):
    labels = find_labels(families[kind], 252)
    assert labels.texts[:62] == (*"0123456789", *LETTERS)
    words = labels.texts[62:]
    assert len(words) == 190
    assert all(2 <= len(word) <= 4 and word.isascii() and word.isalnum() and not word.isdigit() for word in words)
    assert list(words) == sorted(words, key=lambda word: (len(word), word))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", [PROMPT_END, "Taxi at 1 1.\nActions: 0 south 12 cd ..\n # Action:\n"])
def test_each_label_is_one_own_token_right_after_the_prompt(families, kind, prompt):
    model = families[kind]
    labels = find_labels(model, 252)
    start = model.encode(prompt)
    for text, token in zip(labels.texts, labels.ids, strict=True):
        assert model.encode(prompt + text) == [*start, token]
        assert model.decode([token]) == text
    assert len(set(labels.ids)) == 252 == len(set(labels.texts))


@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_list_begins_with_the_shorter_one(families, kind):
    short, long = find_labels(families[kind], 20), find_labels(families[kind], 70)
    assert long.texts[:20] == short.texts
    assert long.ids[:20] == short.ids


def test_too_few_labels_name_the_number_found(families):
    with pytest.raises(ModelError, match=r"100000 actions need one-token labels, .* has \d{3,4}\."):
        find_labels(families["qwen"], 100_000)


def test_a_label_must_be_one_token_after_every_context(families):
    # In the Llama family a label after a bare start is written with the leading space of the text, so none fits both.
    with pytest.raises(ModelError, match="has 0"):
        find_labels(families["llama"], 1, contexts=(PROMPT_END, ""))


def test_embedded_model_has_ten_digits_and_all_letters():
    model = build_embedded(["Actions: 0 south 1 north\n # Action:\n0"], EmbeddedConfig(vocabulary_size=400), 0)
    labels = find_labels(model, 62)
    assert labels.texts == (*"0123456789", *LETTERS)
