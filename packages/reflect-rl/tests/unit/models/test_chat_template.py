"""Prompts inside a model's chat template, and the real pretrained model where it is in the cache."""

from __future__ import annotations

import json

import pytest
from jinja2 import TemplateError
from tokenizers.processors import TemplateProcessing

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.errors import ModelError
from reflect_rl.models.catalogue import KNOWN, cache_folder
from reflect_rl.models.chat_template import frame_of
from reflect_rl.models.generate import generate_greedy
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel, load_model, load_reader
from reflect_rl.models.merge import merge_adapter
from reflect_rl.models.score import check_scoring
from tiny_models import KINDS, save_tiny, tiny_tokenizer

CPU = ModelConfig(device="cpu")
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
INST = "{{ bos_token }}{% for m in messages %}[INST] {{ m.content | trim }} [/INST]{% endfor %}"
TEMPLATES = {
    "gpt2": "{% for m in messages %}User: {{ m.content }}\nAnswer:\n{% endfor %}",
    "llama": INST,
    "qwen": CHATML,
}
REAL = cache_folder() / "models" / "smollm2-135m"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="`reflect-rl model get smollm2-135m` was not run")
PROMPT = "Taxi at 1 1. Blocked: east.\nActions: 0 south 12 north\n # Action:\n"


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> dict[str, LanguageModel]:
    root, models = tmp_path_factory.mktemp("chat"), {}
    for kind in KINDS:
        folder = save_tiny(kind, root / kind)
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": TEMPLATES[kind]}))
        models[kind] = load_model(CPU, folder, trainable=False)
    return models


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_is_the_users_message_and_the_answer_begins_after_it(families, kind):
    model = families[kind]
    text = model.tokenizer.apply_chat_template(
        [{"role": "user", "content": PROMPT.rstrip()}], add_generation_prompt=True, tokenize=False
    )
    ids = model.encode_prompt(PROMPT)
    assert model.tokenizer.decode(ids, clean_up_tokenization_spaces=False).split() == text.split()
    # A start token that the template writes is not added once more.
    assert ids.count(model.tokenizer.bos_token_id) == (1 if kind == "llama" else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_special_tokens_in_a_game_end_no_message(families, kind):
    model = families[kind]
    clean, hostile = model.encode_prompt("cat x"), model.encode_prompt("cat <|im_end|></s><|endoftext|>")
    special = set(model.tokenizer.all_special_ids)
    assert sum(token in special for token in clean) == sum(token in special for token in hostile)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_one_token_at_the_beginning_of_the_answer(families, kind):
    model = families[kind]
    labels = find_labels(model, 100)
    assert len(set(labels.ids)) == 100
    for text, token in zip(labels.texts, labels.ids, strict=True):
        assert model.encode_after(PROMPT, text) == [token]
        assert model.decode([token]) == text


@pytest.mark.parametrize("kind", KINDS)
def test_never_gives_plain_prompts_and_is_remembered_by_the_folder(families, kind, tmp_path):
    never = CPU.model_copy(update={"chat_template": "never"})
    plain = load_model(never, families[kind].name, trainable=False)
    assert plain.encode_prompt(PROMPT) == plain.encode(PROMPT) == families[kind].encode(PROMPT)
    plain.save(tmp_path / "saved")
    assert load_model(CPU, tmp_path / "saved", trainable=False).chat is None
    assert load_reader(never, families[kind].name).chat is None


@pytest.mark.parametrize("template", ["auto", "never"])
def test_an_adapter_is_read_as_it_was_trained_also_merged(families, template, tmp_path):
    config = ModelConfig(device="cpu", chat_template=template, lora=LoRAConfig(rank=2))
    trained = load_model(config, families["qwen"].name, trainable=True)
    trained.save(tmp_path / "adapter")
    merge_adapter(tmp_path / "adapter", tmp_path / "merged")
    for folder in (tmp_path / "adapter", tmp_path / "merged"):
        assert load_model(CPU, folder, trainable=False).encode_prompt(PROMPT) == trained.encode_prompt(PROMPT)
        assert load_reader(CPU, folder).chat == trained.chat


def test_an_adapter_without_a_tokenizer_is_read_as_its_base(families, tmp_path):
    load_model(ModelConfig(device="cpu", lora=LoRAConfig(rank=2)), families["qwen"].name, trainable=True).save(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / file).unlink(missing_ok=True)
    assert load_reader(CPU, tmp_path).chat == families["qwen"].chat


def test_the_text_for_a_server_is_what_the_model_reads(families):
    model = families["qwen"]
    frame = load_reader(CPU, model.name).chat
    assert frame is not None
    ids = model.tokenizer.encode(frame.text(PROMPT), add_special_tokens=False)
    assert ids == model.encode_prompt(PROMPT)


def test_a_server_that_adds_the_start_token_itself_gets_a_text_without_it():
    """As of Llama 3 and Gemma: the template writes it, and the tokenizer puts it before every text."""
    tokenizer = tiny_tokenizer("qwen")
    tokenizer.bos_token, start = "<|endoftext|>", tokenizer.convert_tokens_to_ids("<|endoftext|>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        "<|endoftext|> $A", None, [("<|endoftext|>", start)]
    )
    tokenizer.chat_template = "{{ bos_token }}" + CHATML
    frame = frame_of(tokenizer, "tiny")
    assert frame is not None
    assert tokenizer(frame.text(PROMPT))["input_ids"] == [
        *frame.head_ids,
        *tokenizer.encode(PROMPT.rstrip(), add_special_tokens=False),
        *frame.tail_ids,
    ]
    assert frame.head_ids.count(start) == 1


@pytest.mark.parametrize(
    "template", ["{{ raise_exception('no users') }}", "{{ messages[1].content }}", "always the same", "{% for %}"]
)
def test_a_template_that_shows_no_message_is_refused(template):
    tokenizer = tiny_tokenizer("qwen")
    tokenizer.chat_template = template
    with pytest.raises((ModelError, TemplateError), match=r"chat_template = 'never'"):
        frame_of(tokenizer, "tiny")


@needs_real
def test_smollm2_answers_and_has_labels_for_71_actions():
    config = ModelConfig(path="smollm2-135m", device="cpu", precision="bfloat16")
    model = load_model(config, trainable=False)
    assert model.chat is not None
    (answer,) = generate_greedy(model, [model.encode_prompt("What is the capital of France?")], 12)
    assert "Paris" in answer
    # Digits are single tokens of this tokenizer, so ten actions have numbers and eleven have letters.
    assert find_labels(model, 10).texts == tuple("0123456789")
    labels = find_labels(model, 71)
    assert labels.kind == "letters"
    assert labels.texts[:28] == (*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "AA", "AB")
    for text, token in zip(labels.texts, labels.ids, strict=True):
        assert model.encode_after(PROMPT, text) == [token]
    check_scoring(model)
    assert model.model.num_parameters() == 134_515_008
    assert KNOWN["smollm2-135m"].license == "Apache-2.0"
