"""Labels are one token each, for every tokenizer family."""

from __future__ import annotations

from string import ascii_uppercase

import pytest

from reflect_rl import prompts as render
from reflect_rl.config import ModelConfig
from reflect_rl.errors import ModelError
from reflect_rl.models.embedded import EmbeddedConfig, build_embedded
from reflect_rl.models.labels import PROMPT_END, find_labels
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.types import Observation, View
from tiny_models import KINDS, save_bytes, save_tiny


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
    labels = find_labels(families["gpt2"], 200)
    assert labels.texts == tuple(str(number) for number in range(200))
    assert labels.kind == "numbers"
    assert labels.sentence.endswith("one token for each of these 200 numbers.")


@pytest.mark.parametrize("kind", KINDS)
def test_ten_actions_have_numbers_everywhere(families, kind):
    assert find_labels(families[kind], 10).texts == tuple("0123456789")


@pytest.mark.parametrize(("kind", "count"), [("gpt2", 201), ("llama", 11), ("qwen", 71)])
def test_where_a_number_is_split_all_labels_are_letters(families, kind, count):
    labels = find_labels(families[kind], count)
    assert labels.texts[:26] == tuple(ascii_uppercase)[:count]
    assert all(text.isascii() and text.isalpha() and len(text) <= 4 for text in labels.texts)
    assert labels.kind == "letters"
    assert f"below {count} into several tokens" in labels.sentence
    # Two capitals come before small letters, these before words of any letters.
    ranks = [0 if text.isupper() and len(text) <= 2 else len(text) for text in labels.texts]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", [PROMPT_END, "Taxi at 1 1.\nActions: 0 south 12 cd ..\n # Action:\n"])
def test_each_label_is_one_own_token_right_after_the_prompt(families, kind, prompt):
    model = families[kind]
    labels = find_labels(model, 200)
    start = model.encode(prompt)
    for text, token in zip(labels.texts, labels.ids, strict=True):
        assert model.encode(prompt + text) == [*start, token]
        assert model.decode([token]) == text
    assert len(set(labels.ids)) == 200 == len(set(labels.texts))


@pytest.mark.parametrize("kind", ["llama", "qwen"])
def test_a_longer_list_of_letters_begins_with_the_shorter_one(families, kind):
    short, long = find_labels(families[kind], 20), find_labels(families[kind], 70)
    assert long.texts[:20] == short.texts
    assert long.ids[:20] == short.ids


def test_too_few_labels_name_the_number_found(families):
    message = r"100000 actions need one-token labels, .* has \d{3,4}\. Set prompt\.scoring = 'line_end' or 'sum', which"
    with pytest.raises(ModelError, match=message):
        find_labels(families["qwen"], 100_000)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("line_end", "Actions are listed one to a line, without labels."),
        ("sum", "Actions are not listed: each is scored by its own text."),
        ("token_mean", "Actions are not listed: each is scored by the mean of its text's tokens."),
    ],
)
def test_rules_without_labels_ask_nothing_of_the_tokenizer(tmp_path, rule, sentence):
    model = load_model(ModelConfig(device="cpu"), save_bytes(tmp_path / "bytes"), trainable=False)
    # Of 256 bytes 26 capitals and 26 small letters are labels.
    with pytest.raises(ModelError, match=r"100 actions need .* has 52\."):
        find_labels(model, 100)
    labels = find_labels(model, 100, rule)
    # A critic has an output for each action, and a screen shows its number.
    assert len(labels.ids) == 100
    assert labels.texts[:2] == ("0", "1")
    assert labels.sentence == sentence


def test_embedded_model_has_numbers_as_far_as_it_was_told():
    texts = ["Actions: 0 south 1 north\n # Action:\n0"]
    model = build_embedded(texts, EmbeddedConfig(vocabulary_size=400), 0, [str(number) for number in range(71)])
    assert find_labels(model, 71).texts == tuple(str(number) for number in range(71))
    with pytest.raises(ModelError, match=r"^500 actions need one-token labels, .* of the embedded model has \d+\."):
        find_labels(model, 500)
    # Without being told it has the ten digits.
    assert find_labels(build_embedded(texts, EmbeddedConfig(vocabulary_size=400), 0), 11).texts == tuple("ABCDEFGHIJK")


def test_a_number_in_the_state_leads_to_the_letter_in_the_list():
    seen = Observation("You see mug =1. x =10", ("look", "take mug", "wait"))
    view = View(seen, (0, 1, 2), "Next: take mug =1.")
    listed = render.policy_prompt(view, ("A", "B", "C")).partition("Actions:")[2]
    assert listed == " A look B take mug =1 C wait\n # Action:\n"
    # Where labels are numbers, the label itself is the number.
    listed = render.policy_prompt(view, ("0", "1", "2")).partition("Actions:")[2]
    assert listed == " 0 look 1 take mug 2 wait\n # Action:\n"
