"""The embedded model: map cells are tokens, unknown text survives, seeds decide the weights."""

from __future__ import annotations

from string import ascii_uppercase

import pytest
import torch
from pydantic import ValidationError

from reflect_rl.config import ModelConfig
from reflect_rl.errors import ModelError
from reflect_rl.models.embedded import EmbeddedConfig, build_embedded
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.prompts import lines_prompt, parts_of
from reflect_rl.types import Observation, View

MAP = "+---------+\n|R: | : :G|\n| : | : : |\n| : : : : |\n| | : | : |\n|Y| : |B: |\n+---------+\n"
TEXTS = [
    MAP + f"Past actions: {word}\n # Analyze:\nTaxi at {row} 4 . Next I should {word} .\n # Action:\n{row}"
    for row, word in enumerate(["south", "north", "east", "west", "pickup"])
]


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return build_embedded(TEXTS, EmbeddedConfig(), 0)


def pieces(model: LanguageModel, text: str) -> list[str]:
    return [model.decode([token]) for token in model.encode(text)]


def test_a_map_cell_with_its_separator_is_one_token(model):
    assert pieces(model, "|R: | : :G|\n") == ["|", "R:", " |", " :", " :", "G|", "\n"]


@pytest.mark.parametrize("row", ["|R: | : :G|", "| : | : : |", "|T: | : :G|", "|X| :O|P:D|", "|Z|Q:W|V:K|"])
def test_every_map_row_has_six_tokens_at_the_same_places(model, row):
    # A row is the left wall and five cells of two characters; T, X, Z, ... never occur in the texts it learned from.
    assert len(row) == 11
    assert pieces(model, row) == [row[0], *(row[place : place + 2] for place in range(1, 11, 2))]


@pytest.mark.parametrize("separator", [":", "|"])
def test_all_capital_letters_and_the_space_behave_alike(model, separator):
    cells = [letter + separator for letter in (*ascii_uppercase, " ")]
    assert all(len(model.encode(cell)) == 1 for cell in cells)
    assert len({model.encode(cell)[0] for cell in cells}) == 27


def test_words_and_numbers_of_the_texts_are_one_token_with_their_space():
    model = build_embedded(TEXTS, EmbeddedConfig(pieces="words"), 0)
    assert pieces(model, "Taxi at 3 4 . Next I should south") == [
        *("Taxi", " at", " 3", " 4", " .", " Next", " I", " should", " south")
    ]


def test_a_phrase_of_the_texts_is_one_token():
    model = build_embedded(TEXTS, EmbeddedConfig(pieces="phrases"), 0)
    assert pieces(model, "Taxi at 3 4 . Next I should south") == ["Taxi at", " 3", " 4", " .", " Next I should south"]


def test_a_listed_number_stands_alone_and_that_of_a_name_does_not():
    """`look 2 go` may be action 2; `shelf 1 3 go`, `shelf 1.` and `shelf 1=4` end a name."""
    text = "Actions: 0 look 1 inventory 2 go to shelf 1 3 go to shelf 12\nYou see shelf 1. Open: shelf 1=4, shelf 12"
    labels = [str(number) for number in range(13)]
    model = build_embedded([text], EmbeddedConfig(vocabulary_size=2048, pieces="phrases"), 0, labels)
    assert pieces(model, text) == [
        *("Actions", ":", " 0", " look", " 1", " inventory", " 2", " go to shelf 1", " 3", " go to shelf 12", "\n"),
        *("You see shelf 1", ".", " Open", ":", " shelf 1", "=", "4", ",", " shelf 12"),
    ]
    assert find_labels(model, 13).texts == tuple(labels)


@pytest.mark.parametrize("text", ["zqx", "naïve 日本語 🚕", "\t  def f(x):\r\n    return x", "a  b\n\n", "\x00\x7f"])
def test_text_never_seen_becomes_bytes_and_decodes_back_exactly(model, text):
    ids = model.encode(text)
    assert model.decode(ids) == text
    assert model.tokenizer.unk_token_id is None
    assert len(model.encode("🚕")) == 4


def test_special_tokens_cannot_be_written_as_text(model):
    ids = model.encode("a<|endoftext|>b<|padding|>")
    assert not {model.end_id, model.pad_id} & set(ids)
    assert model.end_id != model.pad_id
    assert model.decode([*ids, model.end_id]) == "a<|endoftext|>b<|padding|>"


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_seed_decides_the_weights_and_nothing_else_moves(architecture):
    config = EmbeddedConfig(architecture=architecture)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, same, other = (build_embedded(TEXTS, config, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.hash() == same.hash() != other.hash()
    assert first.tokenizer.backend_tokenizer.to_str() == same.tokenizer.backend_tokenizer.to_str()


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_the_shape_is_the_configured_one(architecture):
    shape = EmbeddedConfig(architecture=architecture, hidden_size=32, layers=2, heads=2, context_tokens=64)
    config = build_embedded(TEXTS, shape, 0).model.config
    assert config.model_type == architecture
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (32, 2, 2)
    assert config.max_position_embeddings == 64
    assert config.tie_word_embeddings
    assert config.vocab_size % 8 == 0


def test_vocabulary_keeps_its_bound():
    # 320 = 2 special tokens + 256 bytes + 54 cells + 8 merges.
    model = build_embedded(TEXTS, EmbeddedConfig(vocabulary_size=320), 0)
    assert len(model.tokenizer) == 320 == model.model.config.vocab_size


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_saved_embedded_model_comes_back_bit_for_bit(tmp_path, architecture):
    built = build_embedded(TEXTS, EmbeddedConfig(architecture=architecture), 3)
    built.save(tmp_path)
    loaded = load_model(ModelConfig(device="cpu"), tmp_path, trainable=False)
    ids = torch.tensor([built.encode(MAP)])
    assert loaded.encode(TEXTS[0] + "日本 zq") == built.encode(TEXTS[0] + "日本 zq")
    assert loaded.hash() == built.hash()
    with torch.no_grad():
        assert torch.equal(loaded.model(ids).logits, built.model(ids).logits)


def test_labels_of_two_digits_are_one_token_even_if_no_text_holds_them():
    labels = [str(number) for number in range(50)]
    plain, labelled = (build_embedded(TEXTS, EmbeddedConfig(), 0, chosen) for chosen in ((), labels))
    assert all(len(labelled.encode(label)) == 1 for label in labels)
    assert len({labelled.encode(label)[0] for label in labels}) == 50
    assert list(find_labels(labelled, 50).texts) == labels
    # Without them no merge of the texts makes such a number.
    assert not any(len(plain.encode(label)) == 1 for label in labels[10:])
    assert labelled.decode(labelled.encode("Actions: 0 cd .. 17 cat a.py=49")) == "Actions: 0 cd .. 17 cat a.py=49"


def test_labels_of_one_digit_change_nothing():
    labels = ["0", "1", "2", "3", "4", "5"]
    plain, labelled = (build_embedded(TEXTS, EmbeddedConfig(), 0, chosen) for chosen in ((), labels))
    assert labelled.tokenizer.backend_tokenizer.to_str() == plain.tokenizer.backend_tokenizer.to_str()
    assert labelled.hash() == plain.hash()


@pytest.mark.parametrize("count", [10, 18, 100])
def test_where_labels_leave_no_room_nothing_is_merged(count):
    # 2 special tokens + 256 bytes + 54 cells + (count - 10) labels leave 320 - 312 - (count - 10) merges, if any.
    model = build_embedded(TEXTS, EmbeddedConfig(vocabulary_size=320), 0, [str(number) for number in range(count)])
    assert len(model.tokenizer) == max(320, 312 + count - 10)


def test_no_texts_is_an_error():
    with pytest.raises(ModelError, match="needs texts"):
        build_embedded([], EmbeddedConfig(), 0)


def test_heads_must_divide_the_width():
    with pytest.raises(ValidationError, match="hidden_size 64 is not a multiple of 2 x heads = 10"):
        EmbeddedConfig(heads=5)


@pytest.mark.parametrize("pieces", ["words", "phrases"])
def test_a_name_has_the_same_tokens_in_a_reflection_and_in_a_list(pieces):
    """A model copies what it meets again; of tokens that only look alike it would have to learn every pair."""
    view = View(
        Observation("You are in a kitchen.", ("go to fridge 1", "go to shelf 2")), (0, 1), "Next: go to shelf 2."
    )
    prompt = lines_prompt(view)
    model = build_embedded([prompt] * 20, EmbeddedConfig(pieces=pieces, vocabulary_size=600), 0)
    head, lines, tail = parts_of(prompt)
    ids, ends = model.encode_lines(head, lines, tail)
    listed = ids[ends[0] + 1 : ends[1]]
    assert model.decode(listed) == " go to shelf 2"
    said = model.encode(head)
    assert any(said[place : place + len(listed)] == listed for place in range(len(said)))


@pytest.mark.parametrize("count", [101, 300, 1200])
def test_labels_of_any_length_are_one_token_each(count):
    # Numbers of other lengths between them, so that merging finds pieces such as `00` and `07`.
    texts = [f"cup {number * 7 % 1300} of 00{number} Action: {number % count}" for number in range(300)]
    labels = [str(number) for number in range(count)]
    built = build_embedded(texts, EmbeddedConfig(hidden_size=16, layers=1, heads=2), 0, labels)
    assert list(find_labels(built, count).texts) == labels
