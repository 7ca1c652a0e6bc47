"""Loading and saving: exactness, adapters, frozen players, and what each mistake is told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaForSequenceClassification,
    T5Config,
    T5ForConditionalGeneration,
)

from reflect_rl.agent import trainable_copy
from reflect_rl.config import LoRAConfig, ModelConfig, parse
from reflect_rl.errors import ConfigError, ModelError
from reflect_rl.models.load import LanguageModel, load_model, load_reader
from reflect_rl.models.score import check_scoring
from reflect_rl.models.source import resolve
from tiny_models import KINDS, save_tiny, tiny_tokenizer

CPU = ModelConfig(device="cpu")
ADAPTER = ModelConfig(device="cpu", lora=LoRAConfig(rank=4))
TEXT = "Taxi at 1 1. Blocked: east.\nActions: 0 south 12 north\n # Action:\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("tiny")
    return {kind: save_tiny(kind, root / kind) for kind in KINDS}


@pytest.fixture
def broken(folders, tmp_path) -> Path:
    """A copy of the tiny Llama folder, free to be damaged."""
    return Path(shutil.copytree(folders["llama"], tmp_path / "broken"))


def logits(model: LanguageModel, text: str = TEXT) -> torch.Tensor:
    # As all passes of the program: adapters in float32 beside weights in bfloat16 need it.
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=model.mixed):
        return model.model(torch.tensor([model.encode(text)])).logits


def train_a_step(model: LanguageModel) -> None:
    weights = [weight for weight in model.model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=0.5)
    model.model.train()
    with torch.autocast("cpu", torch.bfloat16, enabled=model.mixed):
        scores = model.model(torch.tensor([model.encode(TEXT)])).logits[0, -1]
    scores.float().log_softmax(-1)[5].neg().backward()
    optimizer.step()
    model.model.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_encode_adds_the_start_token_only_where_the_tokenizer_does(folders, kind):
    model = load_model(CPU, folders[kind], trainable=False)
    body = tiny_tokenizer(kind).encode(TEXT, add_special_tokens=False)
    assert model.encode(TEXT) == ([model.tokenizer.bos_token_id] if kind == "llama" else []) + body
    assert model.encode("") == ([1] if kind == "llama" else [])
    assert model.decode(model.encode(TEXT)) == TEXT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["</s>", "<|endoftext|>", "<|im_end|>", "<s>", "<unk>", "cat </s>x<|endoftext|>\n"])
def test_names_of_special_tokens_are_plain_text(folders, kind, text):
    model = load_model(CPU, folders[kind], trainable=False)
    body = model.encode(text)[1:] if kind == "llama" else model.encode(text)
    assert not set(body) & set(model.tokenizer.all_special_ids)
    assert model.decode(body) == text
    # The other way round: the tokenizer itself would have ended the text here.
    end = model.tokenizer.eos_token
    assert model.end_id in model.tokenizer.encode(end)
    assert model.end_id not in model.encode(end)


def test_end_and_padding_tokens(folders):
    llama, qwen = (load_model(CPU, folders[kind], trainable=False) for kind in ("llama", "qwen"))
    assert llama.end_id == llama.tokenizer.convert_tokens_to_ids("</s>") == llama.pad_id
    assert qwen.end_id == qwen.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert qwen.pad_id == qwen.tokenizer.convert_tokens_to_ids("<|endoftext|>")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_saved_model_comes_back_bit_for_bit(folders, tmp_path, kind, precision):
    config = ModelConfig(device="cpu", precision=precision)
    model = load_model(config, folders[kind], trainable=precision == "float32")
    if precision == "float32":
        before = model.hash()
        train_a_step(model)
        assert model.hash() != before
    model.save(tmp_path / "saved")
    again = load_model(config, tmp_path / "saved", trainable=False)
    assert next(again.model.parameters()).dtype is getattr(torch, precision)
    assert torch.equal(logits(again), logits(model))
    assert again.hash() == model.hash()
    assert again.encode(TEXT) == model.encode(TEXT)
    names = {file.name for file in (tmp_path / "saved").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_trains_alone_and_comes_back_bit_for_bit(folders, tmp_path, kind, recwarn):
    base = load_model(CPU, folders[kind], trainable=False)
    model = load_model(ADAPTER, folders[kind], trainable=True)
    assert not [warning for warning in recwarn if issubclass(warning.category, FutureWarning)]
    # B starts at zero (Hu et al. 2022), so a new adapter changes nothing.
    assert torch.equal(logits(model), logits(base))
    trained = [name for name, weight in model.model.named_parameters() if weight.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    train_a_step(model)
    assert not torch.equal(logits(model), logits(base))
    model.save(tmp_path / "adapter")
    names = {file.name for file in (tmp_path / "adapter").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"} <= names
    assert "model.safetensors" not in names
    again = load_model(CPU, tmp_path / "adapter", trainable=False)
    assert torch.equal(logits(again), logits(model))
    assert again.hash() == model.hash()
    assert not any(weight.requires_grad for weight in again.model.parameters())


def test_training_goes_on_with_the_adapter_of_the_folder(folders, tmp_path):
    model = load_model(ADAPTER, folders["qwen"], trainable=True)
    train_a_step(model)
    model.save(tmp_path / "adapter")
    again = load_model(CPU, tmp_path / "adapter", trainable=True)
    assert torch.equal(logits(again), logits(model))
    train_a_step(again)
    again.save(tmp_path / "second")
    assert torch.equal(logits(load_model(CPU, tmp_path / "second", trainable=False)), logits(again))


def test_an_adapter_of_another_rank_is_refused(folders, tmp_path):
    load_model(ADAPTER, folders["qwen"], trainable=True).save(tmp_path)
    with pytest.raises(ModelError, match=r"has rank 4 and keeps it, and lora\.rank is 8\. Set lora\.rank to 4"):
        load_model(ModelConfig(device="cpu", lora=LoRAConfig(rank=8)), tmp_path, trainable=True)


@pytest.mark.parametrize(("name", "value"), [("alpha", 64), ("dropout", 0.5), ("target_modules", ".*q_proj")])
def test_an_adapter_with_another_scale_or_dropout_is_refused(folders, tmp_path, name, value):
    load_model(ADAPTER, folders["qwen"], trainable=True).save(tmp_path)
    asked = ModelConfig(device="cpu", lora=LoRAConfig(**{name: value}))
    with pytest.raises(
        ModelError, match=rf"has {name} .* and keeps it, and lora\.{name} is {re.escape(str(value))}\. "
    ):
        load_model(asked, tmp_path, trainable=True)
    # Whoever only plays trains nothing, and the defaults ask for nothing.
    load_model(asked, tmp_path, trainable=False)
    load_model(CPU, tmp_path, trainable=True)


def test_the_seed_decides_a_new_adapter_and_the_global_generator_is_untouched(folders):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, same, other = (load_model(ADAPTER, folders["gpt2"], trainable=True, seed=seed).hash() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first == same != other


def test_an_adapter_in_bfloat16_comes_back_bit_for_bit(folders, tmp_path):
    config = ModelConfig(device="cpu", precision="bfloat16", lora=LoRAConfig(rank=2))
    model = load_model(config, folders["llama"], trainable=True)
    train_a_step(model)
    model.save(tmp_path)
    assert torch.equal(logits(load_model(config, tmp_path, trainable=False)), logits(model))


def test_the_inputs_of_adapters_stay_in_bfloat16_where_products_are(folders):
    for precision, casts in (("bfloat16", False), ("mixed", False), ("float32", True)):
        config = ModelConfig(device="cpu", precision=precision, lora=LoRAConfig(rank=2))
        modules = load_model(config, folders["llama"], trainable=True).model.modules()
        found = {part.cast_input_dtype_enabled for part in modules if hasattr(part, "cast_input_dtype_enabled")}
        assert found == {casts}


def test_a_frozen_model_has_no_gradients_and_no_dropout(folders):
    model = load_model(ADAPTER, folders["gpt2"], trainable=False)
    assert not any(weight.requires_grad for weight in model.model.parameters())
    assert not any(module.training for module in model.model.modules())
    assert torch.equal(logits(model), logits(model))
    assert not any("lora_" in name for name, _ in model.model.named_parameters())


def test_the_hash_sees_one_changed_weight(folders):
    model = load_model(CPU, folders["gpt2"], trainable=False)
    before = model.hash()
    assert model.hash() == before == load_model(CPU, folders["gpt2"], trainable=False).hash()
    weight = next(model.model.parameters())
    weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0))
    assert model.hash() != before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [0, 4])
def test_gradient_checkpointing_gives_the_same_gradients(folders, kind, rank):
    gradients = []
    for checkpointing in (False, True):
        config = ModelConfig(device="cpu", gradient_checkpointing=checkpointing, lora=LoRAConfig(rank=rank, dropout=0))
        model = load_model(config, folders[kind], trainable=True)
        model.model.train()
        for module in model.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        flags = [
            module.gradient_checkpointing
            for module in model.model.modules()
            if hasattr(module, "gradient_checkpointing")
        ]
        assert set(flags) == {checkpointing}
        ids = torch.tensor([model.encode(TEXT)])
        model.model(ids, use_cache=False).logits[0, -1].log_softmax(-1)[5].backward()
        gradients.append({name: weight.grad for name, weight in model.model.named_parameters() if weight.requires_grad})
    plain, recomputed = gradients
    assert plain.keys() == recomputed.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(gradient, recomputed[name], rtol=1e-4, atol=1e-6)


def refused(match: str, path: str | Path, config: ModelConfig = CPU, trainable: bool = False) -> None:
    with pytest.raises(ModelError, match=match):
        load_model(config, path, trainable=trainable)


def test_a_missing_folder(tmp_path):
    refused("there is no folder .*nowhere", tmp_path / "nowhere")
    refused("is a file", Path(__file__))


def test_the_embedded_model_is_not_loaded_by_its_name():
    refused("built from a run's texts", "embedded")


def test_a_folder_without_configuration(broken):
    (broken / "config.json").unlink()
    refused(r"has no config\.json", broken)


def test_a_folder_without_tokenizer(broken):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    refused("has no tokenizer", broken)


def test_a_folder_without_weights(broken):
    (broken / "model.safetensors").unlink()
    refused("has no weights", broken)


@pytest.mark.parametrize("damage", ["gone", "pickle", "cut off", "no safetensors"])
def test_damaged_weights_are_found_before_they_are_loaded(broken, damage):
    """`load_reader` is asked before a run plays its first demonstration."""
    file, before = broken / "model.safetensors", load_reader(CPU, broken)
    assert before.encode("north")
    if damage == "cut off":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "no safetensors":
        file.write_bytes(b"hello")
    else:
        file.unlink()
    if damage == "pickle":
        (broken / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    message = {"gone": "has no weights", "pickle": "pickle files, which can run code"}.get(damage, "are corrupt")
    with pytest.raises(ModelError, match=message):
        load_reader(CPU, broken)


def test_weights_that_are_no_numbers(broken):
    table = load_file(broken / "model.safetensors")
    save_file(
        {name: torch.full_like(weight, torch.nan) for name, weight in table.items()}, broken / "model.safetensors"
    )
    with pytest.raises(ModelError, match="computes values that are no numbers"):
        check_scoring(load_model(CPU, broken, trainable=False))


@pytest.mark.parametrize("text", ["[1]", '{"model_type": "gpt2", "vocab_size": "many"}', '{"model_type": 3}', "{}"])
def test_a_configuration_of_nonsense_is_explained(broken, text):
    (broken / "config.json").write_text(text)
    refused("cannot load the model|is a|lack", broken)


def test_a_model_that_sees_is_refused(broken):
    (broken / "config.json").write_text(json.dumps({"model_type": "gemma3"}))
    refused("models of type 'gemma3' read more than text", broken)


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{{ messages[0].nothing.nothing }}", "{{ range(10 ** 9) | list }}"]
)
def test_a_chat_template_that_fails_is_explained(broken, template):
    (broken / "chat_template.jinja").write_text(template)
    refused(r"the chat template of .* cannot be rendered .* Set model\.chat_template = 'never'", broken)


def test_a_gguf_file_that_is_not_there(no_network):
    refused("there is no file 'm/missing.gguf'", "m/missing.gguf")
    assert not no_network


def test_pickled_weights_are_never_opened(broken):
    (broken / "model.safetensors").unlink()
    (broken / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    refused("pickle files, which can run code and are refused. Convert", broken)


def test_a_pickled_adapter_is_refused(folders, tmp_path):
    load_model(ADAPTER, folders["gpt2"], trainable=True).save(tmp_path)
    (tmp_path / "adapter_model.safetensors").rename(tmp_path / "adapter_model.bin")
    refused(r"has no adapter_model\.safetensors; pickle files are refused", tmp_path)


@pytest.mark.parametrize("keep", [0, 4, 100, -64])
def test_cut_weights_are_corrupt(broken, keep):
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    refused("corrupt|cannot load", broken)


def test_a_configuration_that_is_no_json(broken):
    (broken / "config.json").write_text("{")
    refused(r"cannot load the model .* config\.json is damaged: copy", broken)


def test_half_a_tokenizer_is_named(broken):
    file = broken / "tokenizer.json"
    file.write_text(file.read_text()[:2000])
    refused(r"^cannot load the model '[^']*': [^.]+\. tokenizer\.json is damaged: copy or download it again\.$", broken)


def test_weights_of_another_shape(broken):
    config = json.loads((broken / "config.json").read_text())
    config["hidden_size"] *= 2
    (broken / "config.json").write_text(json.dumps(config))
    refused("cannot load the model", broken)


def test_models_that_do_not_generate_from_left_to_right(tmp_path):
    shape = {
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "hidden_size": 8,
        "intermediate_size": 8,
        "vocab_size": 99,
    }
    BertForMaskedLM(BertConfig(**shape)).save_pretrained(tmp_path / "bert")
    seq2seq = T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, vocab_size=99)
    T5ForConditionalGeneration(seq2seq).save_pretrained(tmp_path / "t5")
    for kind in ("bert", "t5"):
        tiny_tokenizer("gpt2").save_pretrained(tmp_path / kind)
        refused(f"'{kind}' model, which is no causal language model", tmp_path / kind)


def test_weights_without_a_language_model_head(folders, tmp_path):
    LlamaForSequenceClassification.from_pretrained(folders["llama"]).save_pretrained(tmp_path)
    tiny_tokenizer("llama").save_pretrained(tmp_path)
    refused(r"lack 1 parameters .* 'lm_head\.weight'", tmp_path)


def test_code_that_comes_with_a_model_is_not_run(broken):
    config = json.loads((broken / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"}}
    (broken / "config.json").write_text(json.dumps(config))
    (broken / "code.py").write_text("raise SystemExit('code was run')")
    refused("brings its own code, which is never run. Choose one that transformers knows", broken)


def test_a_tokenizer_without_end_token(broken):
    file = broken / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"eos_token": None}))
    refused("has no end token. Set `eos_token`", broken)


def test_a_tokenizer_of_another_model(broken):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    tiny_tokenizer("gpt2").save_pretrained(broken)
    refused("belong to different models", broken)


def test_an_adapter_whose_base_is_gone(broken, tmp_path):
    load_model(ADAPTER, broken, trainable=True).save(tmp_path / "adapter")
    shutil.rmtree(broken)
    refused("base model .*broken' of the adapter .* is missing. Put it back", tmp_path / "adapter")


@pytest.fixture
def no_network(monkeypatch) -> list[str]:
    """Hosts that were asked for; each look-up fails, as on a machine without a connection."""
    asked: list[str] = []

    def look_up(host, *_, **__):
        asked.append(str(host))
        raise OSError("no connection")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    return asked


def hub_cache(folder: Path, monkeypatch, hub_id: str, model: Path) -> None:
    """Lay out a cache of huggingface_hub that holds one downloaded model."""
    repository = folder / f"models--{hub_id.replace('/', '--')}"
    shutil.copytree(model, repository / "snapshots" / "0123abcd")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abcd")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))


@pytest.mark.parametrize("path", ["./nodel", "models/mine", "/no/such/place", "gpt2", "~/nodel"])
def test_a_mistyped_folder_is_never_asked_for_at_the_hub(path, no_network):
    refused(f"there is no folder '{path}'.*hub is written 'hub:", path)
    assert not no_network


def test_what_looks_like_a_hub_id_is_told_how_to_write_it(no_network):
    refused("there is no folder 'nobody/model'.*'hub:nobody/model'", "nobody/model")
    assert not no_network


def test_a_mistyped_known_name(no_network):
    refused("there is no folder 'smollm2-153m'. Did you mean 'smollm2-135m'", "smollm2-153m")


def test_a_hub_model_without_connection(tmp_path, monkeypatch, no_network):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    name = "hub:nobody/no-such-model"
    refused(rf"cannot load the model '{name}': .*[^.]\. Check .*connection, or download", name)
    assert no_network  # the test sees connections


def test_a_hub_name_without_owner():
    refused("'gpt2' is no model of the hub. Write hub:owner/name", "hub:gpt2")


def test_a_hub_model_that_was_downloaded_needs_no_connection(folders, tmp_path, monkeypatch, no_network):
    hub_cache(tmp_path, monkeypatch, "owner/tiny", folders["llama"])
    here, there = (load_model(CPU, path, trainable=False).hash() for path in (folders["llama"], "hub:owner/tiny"))
    assert here == there
    assert not no_network


def test_an_interrupted_download_is_not_taken_for_a_model(folders, tmp_path, monkeypatch, no_network):
    hub_cache(tmp_path, monkeypatch, "owner/tiny", folders["llama"])
    (next((tmp_path / "models--owner--tiny").glob("snapshots/*")) / "model.safetensors").unlink()
    refused("cannot load the model 'hub:owner/tiny'|is not whole", "hub:owner/tiny")
    assert no_network


@pytest.mark.parametrize("gone", ["model.safetensors", "tokenizer.json", "config.json"])
def test_what_the_hub_leaves_incomplete_is_said_at_once(folders, tmp_path, monkeypatch, gone):
    """Its client returns what is there where nobody answers."""
    hub_cache(tmp_path, monkeypatch, "owner/tiny", folders["llama"])
    place = next((tmp_path / "models--owner--tiny").glob("snapshots/*"))
    (place / gone).unlink()
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(place))
    with pytest.raises(
        ModelError, match=r"download of hub:owner/tiny is not whole.* `reflect-rl model get hub:owner/tiny`"
    ):
        resolve("hub:owner/tiny")


def test_an_adapter_of_the_hub_is_whole_without_a_model_beside_it(folders, tmp_path, monkeypatch, no_network):
    load_model(ADAPTER, folders["llama"], trainable=True).save(tmp_path / "adapter")
    hub_cache(tmp_path / "cache", monkeypatch, "owner/adapter", tmp_path / "adapter")
    assert load_model(CPU, "hub:owner/adapter", trainable=False).has_adapter
    assert not no_network


def test_an_adapter_asks_nobody_for_its_base(folders, tmp_path, monkeypatch, no_network):
    hub_cache(tmp_path / "cache", monkeypatch, "owner/tiny", folders["llama"])
    load_model(ADAPTER, "hub:owner/tiny", trainable=True).save(tmp_path / "adapter")
    settings = tmp_path / "adapter" / "adapter_config.json"
    # As every other program writes it, and without a place of this machine.
    assert json.loads(settings.read_text())["base_model_name_or_path"] == "owner/tiny"
    load_model(CPU, tmp_path / "adapter", trainable=False)
    shutil.rmtree(tmp_path / "cache")
    refused("not on this machine. Get it with `reflect-rl model get hub:owner/tiny`", tmp_path / "adapter")
    assert not no_network


@pytest.mark.skipif(torch.cuda.is_available(), reason="states what happens without CUDA")
@pytest.mark.parametrize("device", ["cuda", "cuda:3"])
def test_cuda_that_is_absent(folders, device):
    refused(f"device '{device}' is absent.*Use device = 'auto' or 'cpu'", folders["gpt2"], ModelConfig(device=device))


def test_a_device_nobody_knows(folders):
    refused("no device 'gpu'. Known: auto, cpu", folders["gpt2"], ModelConfig(device="gpu"))


def test_quantization_names_its_extra(folders, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    config = ModelConfig(device="cpu", quantization="8bit")
    refused(r"pip install reflect-rl\[quantization\]", folders["gpt2"], config)


@pytest.mark.parametrize("quantization", ["8bit", "4bit"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_quantized_model_learns_the_same_after_a_rollout(tmp_path, kind, quantization):
    pytest.importorskip("bitsandbytes", reason="needs the extra 'quantization'")
    # Width 64: bitsandbytes packs 4-bit weights in blocks of 64.
    folder = save_tiny(kind, tmp_path / "base", hidden_size=64)
    config = ModelConfig(device="cpu", quantization=quantization, lora=LoRAConfig(rank=4, dropout=0))
    model = load_model(config, folder, trainable=True)
    for module in model.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0

    def gradients() -> dict[str, torch.Tensor]:
        model.model.zero_grad()
        model.model.train()
        model.model(torch.tensor([model.encode(TEXT)]), use_cache=False).logits[0, -1].log_softmax(-1)[5].backward()
        model.model.eval()
        return {name: weight.grad for name, weight in model.model.named_parameters() if weight.grad is not None}

    before, weights = gradients(), model.hash()
    logits(model)
    assert model.hash() == weights
    after = gradients()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(after[name].any() for name in after if "lora_B" in name)
    train_a_step(model)
    model.save(tmp_path / "adapter")
    again = load_model(config, tmp_path / "adapter", trainable=False)
    assert torch.equal(logits(again), logits(model))
    assert again.hash() == model.hash()


def test_quantized_weights_need_an_adapter_to_train(folders):
    config = ModelConfig(device="cpu", quantization="4bit")
    refused(r"4bit weights cannot be trained. Set lora\.rank", folders["gpt2"], config, trainable=True)


def test_whole_weights_are_not_trained_in_bfloat16(folders):
    config = ModelConfig(device="cpu", precision="bfloat16")
    refused(r"lose small steps to rounding\. Set lora\.rank, or precision", folders["gpt2"], config, trainable=True)


def test_a_model_that_was_loaded_to_play_in_bfloat16_is_not_trained_whole(folders):
    config = ModelConfig(device="cpu", precision="bfloat16")
    model = load_model(config, folders["gpt2"], trainable=False)
    with pytest.raises(ModelError, match=r"lose small steps to rounding\. Set lora\.rank, or precision"):
        trainable_copy(model)


def test_target_modules_that_name_no_layer(folders):
    config = ModelConfig(device="cpu", lora=LoRAConfig(rank=2, target_modules="nothing"))
    refused("lora.target_modules 'nothing' does not fit", folders["gpt2"], config, trainable=True)


def test_configuration_keeps_its_bounds():
    assert parse(ModelConfig, {"lora": {"rank": 64}}).lora.rank == 64
    with pytest.raises(ConfigError, match=r"lora\.dropout"):
        parse(ModelConfig, {"lora": {"dropout": 1.0}})
    with pytest.raises(ConfigError, match="Did you mean 'rank'"):
        parse(ModelConfig, {"lora": {"rnak": 1}})


def test_the_configuration_loads_no_torch():
    code = "import sys, reflect_rl.models.load, reflect_rl.models.embedded, reflect_rl.models.labels\n"
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'tokenizers')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "../outside.safetensors", "/etc/x.safetensors", ".safetensors", 7]
)
def test_an_index_opens_nothing_but_safetensors_of_its_folder(broken, name):
    decoy = (broken / "model.safetensors").rename(broken / "decoy.safetensors")
    shutil.copy(decoy, broken.parent / "outside.safetensors")
    torch.save({}, broken / "pytorch_model.bin")
    (broken / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    refused("names the file .* which is no safetensors file of that folder", broken)


@pytest.mark.parametrize("index", ["[]", "null", "{}", '{"weight_map": []}'])
def test_an_index_without_a_map(broken, index):
    (broken / "model.safetensors").unlink()
    (broken / "model.safetensors.index.json").write_text(index)
    refused("has no weight_map", broken)


def test_parts_of_a_model_are_read_by_their_index(broken):
    whole = load_model(CPU, broken, trainable=False)
    table = load_file(broken / "model.safetensors")
    (broken / "model.safetensors").unlink()
    index = {}
    for number, names in enumerate((sorted(table)[:3], sorted(table)[3:])):
        save_file({name: table[name] for name in names}, broken / f"part-{number}.safetensors", {"format": "pt"})
        index |= dict.fromkeys(names, f"part-{number}.safetensors")
    (broken / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    assert load_model(CPU, broken, trainable=False).hash() == whole.hash()
    (broken / "part-1.safetensors").unlink()
    refused("lacks 1 of 2 weight files. Put part-1.safetensors there", broken)


def test_weights_that_config_json_names_are_refused(broken):
    settings = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(settings | {"transformers_weights": "other.safetensors"}))
    refused("sets transformers_weights", broken)


def half(table):
    return {name: table[name] for name in sorted(table)[::2]}


def more(table):
    return table | {"base_model.model.stranger.lora_A.weight": torch.zeros(4, 4)}


def integers(table):
    return {name: value.to(torch.int32) for name, value in table.items()}


def doubles(table):
    first = min(table)
    return table | {first: table[first].double()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (half, "lacks .* weights, the first is"),
        (more, "also has 1 weights.*stranger"),
        (integers, "numbers of a format"),
        (doubles, "F32, BF16, F16; another one has 1 w"),
    ],
)
def test_an_adapter_is_loaded_whole_or_not_at_all(folders, tmp_path, change, message):
    load_model(ADAPTER, folders["llama"], trainable=True).save(tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    save_file(change(load_file(file)), file)
    refused(message, tmp_path)


def test_an_adapter_of_an_adapter_is_refused(folders, tmp_path):
    load_model(ADAPTER, folders["llama"], trainable=True).save(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    settings = json.loads((tmp_path / "two" / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = str(tmp_path / "one")
    (tmp_path / "two" / "adapter_config.json").write_text(json.dumps(settings))
    refused("is an adapter itself", tmp_path / "two")
