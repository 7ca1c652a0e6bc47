"""What follows a prompt: its tokens, without moving the tokens of the prompt."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, strategies as st
from tokenizers import normalizers, pre_tokenizers

from reflect_rl.config import ModelConfig
from reflect_rl.models.chat_template import frame_of
from reflect_rl.models.labels import PROMPT_END, find_labels
from reflect_rl.models.load import LanguageModel, load_model
from tiny_models import KINDS, save_tiny

PROMPTS = [
    "Taxi at 1 1. Blocked: east.\nActions: 0 south 1 north\n # Action:\n",
    "Find the file.\nActions: 0 cat README.md 1 cd ..\n # Action:\n",
]
TEMPLATE = "{% for m in messages %}User: {{ m.content }}\nAnswer:\n{% endfor %}"


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> dict[str, LanguageModel]:
    folder = tmp_path_factory.mktemp("families")
    config = ModelConfig(device="cpu")
    return {kind: load_model(config, save_tiny(kind, folder / kind), trainable=False) for kind in KINDS}


def changed(model: LanguageModel, kind: str) -> LanguageModel:
    """The model with a tokenizer as other models of the family have it."""
    tokenizer = copy.deepcopy(model.tokenizer)
    if kind == "prefix space":
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    else:
        # The files of Llama 2 have no pre-tokenizer, so a piece may span words.
        tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        tokenizer.backend_tokenizer.pre_tokenizer = None
    return LanguageModel(model.model, tokenizer)


@pytest.fixture(scope="module")
def variants(families) -> dict[str, LanguageModel]:
    found = {
        "prefix space": changed(families["gpt2"], "prefix space"),
        "Llama 2": changed(families["llama"], "Llama 2"),
    }
    qwen = families["qwen"]
    tokenizer = copy.deepcopy(qwen.tokenizer)
    tokenizer.chat_template = TEMPLATE
    return {**found, "chat": LanguageModel(qwen.model, tokenizer, chat=frame_of(tokenizer, "tiny"))}


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_label_after_a_prompt_is_its_one_token(families, kind, prompt):
    labels = find_labels(families[kind], 60)
    assert prompt.endswith(PROMPT_END)
    for text, token in zip(labels.texts, labels.ids, strict=True):
        assert families[kind].encode_after(prompt, text) == [token]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["south", "cat README.md", "cd ..", "id src/main.py", "I begin. Next: 12 left."])
def test_prompt_and_completion_together_decode_to_the_whole(families, kind, text):
    model = families[kind]
    head, body = model.encode(PROMPTS[0]), model.encode_after(PROMPTS[0], text)
    assert body
    assert model.decode([*head, *body]) == PROMPTS[0] + text


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_would_straddle_the_border_is_split_there(families, kind):
    model = families[kind]
    # "mistake" is a word of the tokenizers' corpus, so its first letters are other tokens when it goes on.
    head, tail = "was a mis", "take"
    whole = model.encode(head + tail)
    assert whole[: len(model.encode(head))] != model.encode(head)
    body = model.encode_after(head, tail)
    assert model.decode(body).strip() == tail
    assert not set(body) & set(model.tokenizer.all_special_ids)


def test_the_start_token_is_not_repeated(families):
    llama = families["llama"]
    start = llama.tokenizer.bos_token_id
    assert llama.encode(PROMPTS[0])[0] == start
    for prompt, text in [(PROMPTS[0], "south"), ("was a mis", "take")]:
        assert start not in llama.encode_after(prompt, text)


LINES = [
    "go to shelf 1",
    "On the shelf 12, you see a mug.",
    "was a mis",
    " # Action:",
    "  ",
    "",
    "Next:",
    "été = 2 ",
    "\t.",
]
ANSWERS = ["go to shelf 1", "take", " south", "12", "\nnorth", "."]


@pytest.mark.parametrize("kind", [*KINDS, "prefix space", "Llama 2", "chat"])
@given(lines=st.lists(st.sampled_from(LINES), min_size=1, max_size=4), end=st.sampled_from(["", "\n", "\n\n", " "]))
def test_answers_are_cut_as_after_the_whole_prompt(families, variants, kind, lines, end):
    model, prompt = {**families, **variants}[kind], "\n".join(lines) + end
    ids, answers = model.encode_answers(prompt, ANSWERS)
    assert ids == model.encode_prompt(prompt)
    for text, answer in zip(ANSWERS, answers, strict=True):
        whole = model.continuation(prompt, text)
        assert list(answer) == (model.tokenizer.encode(text, add_special_tokens=False) if whole is None else whole)


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_of_a_long_prompt_is_read_once(families, kind, monkeypatch):
    model, read = families[kind], list[int]()
    prompt = "\n".join(["You open the drawer."] * 50) + "\n # Action:\n"
    encode = model.tokenizer.encode
    monkeypatch.setattr(model.tokenizer, "encode", lambda text, **rest: read.append(len(text)) or encode(text, **rest))
    for _ in range(2):
        model.encode_answers(prompt, ["go to shelf 1", "take the mug"])
    assert sum(length > 100 for length in read) == 2
