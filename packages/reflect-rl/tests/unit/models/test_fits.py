"""Number format, trained blocks, memory and context: what is chosen, computed by hand, and refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoConfig, LlamaConfig

from reflect_rl.config import LoRAConfig, ModelConfig, parse
from reflect_rl.errors import ModelError
from reflect_rl.models import fits, memory
from reflect_rl.models.fits import _settings_of, check_loaded
from reflect_rl.models.load import load_model
from reflect_rl.models.memory import Estimate, activation_bytes, estimate, play_bytes
from reflect_rl.models.precision import _seconds, choose
from reflect_rl.models.score import (
    ACTIVATIONS_ON_CPU,
    ACTIVATIONS_ON_GPU,
    check_context,
    check_fits,
    most_activations,
    token_budget,
)
from reflect_rl.runs import check as settle
from reflect_rl.runs.config import RunConfig
from reflect_rl.store import write_json
from reflect_rl.training.config import SFTConfig
from reflect_rl.training.sft import train_sft
from tiny_models import save_tiny

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    return save_tiny("llama", tmp_path_factory.mktemp("tiny"), hidden_size=16, layers=3)


@pytest.mark.parametrize(
    ("seconds", "adapters", "expected"),
    [
        ({torch.float32: 3.0, torch.bfloat16: 1.0}, True, "bfloat16"),
        ({torch.float32: 3.0, torch.bfloat16: 1.0}, False, "mixed"),
        ({torch.float32: 1.2, torch.bfloat16: 1.0}, True, "float32"),
        ({torch.float32: 1.0, torch.bfloat16: 5.0}, False, "float32"),
    ],
)
def test_bfloat16_is_chosen_where_it_is_clearly_faster(seconds, adapters, expected):
    choice = choose(CPU, adapters=adapters, seconds=lambda device, dtype: seconds[dtype])
    assert choice.precision == expected
    assert f"precision: {expected} (on cpu" in choice.sentence


def run_config(folder: Path, model: dict) -> RunConfig:
    return parse(RunConfig, {"output_dir": str(folder), "methods": ["sft"], "model": {"device": "cpu"} | model})


def test_a_run_that_goes_on_keeps_its_number_format(tmp_path, monkeypatch):
    config = run_config(tmp_path, {"precision": "auto"})
    monkeypatch.setattr(
        "reflect_rl.models.precision._seconds", lambda device, dtype: 1.0 if dtype is torch.float32 else 0.1
    )
    choose.cache_clear()
    settled, notes = settle.settle(config, trains=True)
    assert settled.model.precision == "mixed"
    assert "10.0 times as fast" in notes[0]
    write_json(tmp_path / "config.json", {"model": {"precision": "float32"}})
    settled, notes = settle.settle(config, trains=True)
    assert (settled.model.precision, notes) == ("float32", [])
    choose.cache_clear()


def test_several_processes_on_processors_measure_no_number_format(tmp_path, monkeypatch):
    monkeypatch.setattr(settle, "process_count", lambda: 2)
    settled, notes = settle.settle(run_config(tmp_path, {"precision": "auto"}), trains=True)
    assert settled.model.precision == "float32"
    assert notes == ["precision: float32 (auto: several processes measure nothing; `reflect-rl data` first does)"]


def test_a_run_takes_the_number_format_of_the_run_that_it_starts_from(tmp_path):
    write_json(tmp_path / "before" / "config.json", {"model": {"precision": "mixed"}})
    before = run_config(tmp_path / "new", {"precision": "auto"}).model_copy(update={"start_from": tmp_path / "before"})
    settled, notes = settle.settle(before, trains=False)
    assert (settled.model.precision, notes) == ("mixed", [])


def test_a_script_needs_no_number_format(tmp_path):
    config = run_config(tmp_path, {"precision": "auto"}).model_copy(update={"methods": ("random",)})
    assert settle.settle(config, trains=True)[1] == []


def test_the_first_product_of_a_format_is_not_counted(monkeypatch):
    """It may load kernels, which would make the other format look faster."""
    clock = iter([0.0, 0.3, *(0.3 + 0.001 * tick for tick in range(100))])
    monkeypatch.setattr("reflect_rl.models.precision.time.perf_counter", lambda: next(clock))
    assert _seconds(CPU, torch.float32) == pytest.approx(0.001)


@pytest.mark.parametrize("rank", [0, 4])
def test_only_the_last_blocks_are_trained(llama, rank):
    config = ModelConfig(device="cpu", train_layers=1, lora=LoRAConfig(rank=rank, dropout=0))
    model = load_model(config, llama, trainable=True)
    trained = {name for name, weight in model.model.named_parameters() if weight.requires_grad}
    assert trained
    # Of blocks 0, 1, 2 the last; with adapters nothing but them.
    assert all("layers.2." in name and (not rank or "lora_" in name) for name in trained)
    before = {name: weight.detach().clone() for name, weight in model.model.named_parameters()}
    model.model(torch.tensor([[5, 6, 7]])).logits.square().sum().backward()
    torch.optim.SGD([w for w in model.model.parameters() if w.requires_grad], lr=1.0).step()
    changed = {name for name, weight in model.model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed
    assert changed <= trained


def test_more_blocks_than_there_are_are_refused(llama):
    with pytest.raises(ModelError, match=r"train_layers is 4, .* has 3 blocks"):
        load_model(ModelConfig(device="cpu", train_layers=4), llama, trainable=True)


def test_memory_by_hand(llama):
    causal = AutoConfig.from_pretrained(llama)
    # A block: q and o 16 x 16, k and v 16 x 8 (one of two heads), three of 16 x 32, two norms of 16.
    block = 2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 32 + 2 * 16
    parameters = 2 * causal.vocab_size * 16 + 3 * block + 16
    kept = {"models": 2, "micro_batch_tokens": 100, "activations": 10**9}
    full = estimate(causal, ModelConfig(), **kept)
    assert full.parameters == parameters
    assert full.weights == 2 * parameters * 4
    assert full.training == parameters * (4 + 8)
    # 10 vectors of 16 and 4 of 32 numbers, 5 bytes each, 3 blocks, 100 tokens.
    assert full.activations == 3 * 5 * (10 * 16 + 4 * 32) * 100
    # Rank 2: (in + out) numbers of each of the seven layers, three times 4 and once more 4 bytes.
    adapters = 3 * 2 * (2 * 32 + 2 * 24 + 3 * 48)
    lora = estimate(causal, ModelConfig(precision="bfloat16", lora=LoRAConfig(rank=2)), **kept)
    assert (lora.weights, lora.training) == (2 * parameters * 2, adapters * 16)
    last = estimate(causal, ModelConfig(lora=LoRAConfig(rank=2), train_layers=1), **kept)
    assert last.training == adapters * 16 // 3
    assert estimate(causal, ModelConfig(), **kept | {"activations": 1000}).activations == 1000


def test_a_run_that_does_not_fit_is_refused_with_the_number_and_a_remedy(llama, tmp_path, monkeypatch):
    config = run_config(tmp_path, {"path": str(llama)})
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**6)
    # The process alone takes more.
    with pytest.raises(
        ModelError,
        match=r"needs about 1\.1 GB .* 0\.0 GB free\. With .* it would still need 0\.9 GB\. Use a smaller model, close",
    ):
        settle.settle(config, trains=True)
    settle.settle(config, trains=False)
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**12)
    assert settle.settle(config, trains=True)[1][0].startswith("memory: about 1.1 of 1000.0 GB")


def test_memory_of_play_by_hand(llama):
    causal = AutoConfig.from_pretrained(llama)
    # Keys and values of one head of 8 numbers in three layers, 4 bytes each, of each written token.
    assert play_bytes(causal, ModelConfig(), readers=2, writes=True) == 16_384 * 2 * 3 * 8 * 4
    # Models of that width keep nothing.
    assert play_bytes(causal, ModelConfig(), readers=2, writes=False) == 0
    smollm2 = LlamaConfig(hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3)
    setting = ModelConfig(precision="bfloat16", lora=LoRAConfig(rank=2))
    assert play_bytes(smollm2, setting, readers=2, writes=True) == 16_384 * 2 * 30 * 3 * 64 * 2 + 2 * 2**30


@pytest.mark.parametrize(
    ("model", "ratio", "said"), [({}, 4.0, True), ({}, 1.0, False), ({"precision": "float32"}, 4.0, False)]
)
def test_a_run_in_the_default_format_is_told_of_a_faster_one(llama, tmp_path, monkeypatch, model, ratio, said):
    choose.cache_clear()
    monkeypatch.setattr(
        "reflect_rl.models.precision._seconds", lambda device, dtype: ratio if dtype is torch.float32 else 1.0
    )
    settled, notes = settle.settle(run_config(tmp_path, {"path": str(llama)} | model), trains=True)
    choose.cache_clear()
    assert settled.model.precision == "float32"
    assert any("--model.precision auto takes it" in note for note in notes) is said


@pytest.mark.parametrize(
    ("precision", "ratio", "said"), [("mixed", 0.2, True), ("mixed", 1.1, False), ("float32", 0.2, False)]
)
def test_a_run_in_bfloat16_is_told_where_the_processor_is_slow_at_it(tmp_path, monkeypatch, precision, ratio, said):
    choose.cache_clear()
    monkeypatch.setattr(
        "reflect_rl.models.precision._seconds", lambda device, dtype: ratio if dtype is torch.float32 else 1.0
    )
    settled, notes = settle.settle(run_config(tmp_path, {"precision": precision}), trains=True)
    choose.cache_clear()
    assert settled.model.precision == precision
    slow = [note for note in notes if "takes 5.0 times as long as in float32. A new run with" in note]
    assert bool(slow) is said


@pytest.mark.parametrize(
    ("method", "free", "said"),
    [
        ("reflect_rl", 10**12, r"; play with long states adds up to 2\.0 GB$"),
        ("reflect_rl", 2 * 10**9, r"; play with long states adds up to 2\.0 GB and may not fit$"),
        ("sft_reflect", 10**12, r"\)$"),
    ],
)
def test_the_note_names_what_play_adds(llama, tmp_path, monkeypatch, method, free, said):
    values = {"output_dir": str(tmp_path), "methods": [method], "model": {"path": str(llama), "device": "cpu"}}
    monkeypatch.setattr(fits, "free_bytes", lambda device: free)
    monkeypatch.setattr("reflect_rl.models.memory.play_bytes", lambda *_, **__: 2 * 10**9)
    assert re.search(said, settle.settle(parse(RunConfig, values), trains=True)[1][0])


def test_where_nothing_is_trained_no_memory_of_a_training_is_asked_for(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**6)
    values = {"output_dir": str(tmp_path), "methods": ["prompted", "base"]}
    config = parse(RunConfig, values | {"model": {"path": str(llama), "device": "cpu"}})
    assert settle.settle(config, trains=True)[1] == []


def test_damaged_weights_are_refused_before_anything_is_played(llama, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(llama, copy)
    (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"are corrupt.*Copy or download the model again"):
        settle.settle(run_config(tmp_path, {"path": str(copy)}), trains=False)


@pytest.mark.parametrize(
    ("sft", "named"),
    [
        ({}, "sft.policy_reflect, sft.reflector: learning_rate is 0.003 by default, for small models."),
        ({"reflector": {"learning_rate": 2e-4}}, "sft.policy_reflect: learning_rate is 0.003 by default"),
        ({"reflector": {"learning_rate": 2e-4}, "policy_reflect": {"learning_rate": 3e-3}}, None),
    ],
)
def test_a_pretrained_model_with_the_rate_of_a_small_one_is_told(llama, tmp_path, monkeypatch, sft, named):
    values = {"output_dir": str(tmp_path), "methods": ["sft_reflect"], "sft": sft}
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**12)
    for model, says in (({"path": str(llama), "device": "cpu"}, named), ({"path": "embedded"}, None)):
        notes = settle.settle(parse(RunConfig, values | {"model": model}), trains=True)[1]
        told = [note for note in notes if "learning_rate" in note]
        assert len(told) == (says is not None)
        assert says is None or told[0].startswith(says)


def test_a_prompted_reflection_player_is_counted_beside_the_policy(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**12)
    counts = []
    monkeypatch.setattr(fits, "estimate", lambda *_, models, **__: counts.append(models) or Estimate(1, 1, 1, 1))
    for kind in ("own", "prompted"):
        values = {"output_dir": str(tmp_path), "methods": ["reflect_rl"], "reflector": {"kind": kind}}
        settle.settle(parse(RunConfig, values | {"model": {"path": str(llama), "device": "cpu"}}), trains=True)
    half = len(counts) // 2
    assert max(counts[:half]) == max(counts[half:]) == 2


CHECKPOINTS = {"gradient_checkpointing": True}
ADAPTERS = {"lora": {"rank": 4}, "precision": "bfloat16"}
LESS = "model.gradient_checkpointing = true"
OTHER = "a smaller model, close other programs, or take a machine with more memory."
RANK = "model.lora.rank = 16 with model.precision = 'bfloat16'"


@pytest.mark.parametrize(
    ("free", "setting", "workers", "remedy"),
    [
        # A process takes 700 MB, the models 0.5 MB or less; activations 420.5 MB, with checkpoints 158.9 MB.
        (1_000_000_000, {}, 1, f"Set {LESS} (0.9 GB); or use {OTHER}"),
        (859_230_000, {}, 1, f"Set {LESS} and {RANK} (0.9 GB); or use {OTHER}"),
        (859_230_000, CHECKPOINTS, 1, f"Set {RANK} (0.9 GB); or use {OTHER}"),
        (859_230_000, ADAPTERS, 1, f"Set {LESS} (0.9 GB); or use {OTHER}"),
        (858_430_000, CHECKPOINTS | ADAPTERS, 1, f"Use {OTHER}"),
        # Two at once need 2.25 GB, with checkpoints 1.72 GB.
        (1_200_000_000, {}, 2, f"Set --workers 1 (1.1 GB); or use {OTHER}"),
        (2_000_000_000, ADAPTERS, 2, f"Set --workers 1 (1.1 GB), or {LESS} (1.7 GB); or use {OTHER}"),
        (2_000_000_000, {}, 2, f"Set --workers 1 (1.1 GB), or {LESS} (1.7 GB); or use {OTHER}"),
        (1_000_000_000, {}, 2, f"Set --workers 1 and {LESS} (0.9 GB); or use {OTHER}"),
    ],
)
def test_remedies_are_those_that_are_not_set_and_fit(llama, tmp_path, monkeypatch, free, setting, workers, remedy):
    model = {"path": str(llama), "device": "cpu"} | setting
    config = parse(
        RunConfig,
        {"output_dir": str(tmp_path), "methods": ["sft"], "model": model, "seeds": [0, 1], "workers": workers},
    )
    monkeypatch.setattr(fits, "free_bytes", lambda device: free)
    with pytest.raises(ModelError) as refused:
        settle.settle(config, trains=True)
    assert str(refused.value).partition(" GB free. ")[2] == remedy


@pytest.mark.parametrize(
    ("local", "free", "told"),
    [
        (None, 2_000_000_000, r"\(2 at once, each .*Set --num_processes 1 \(1\.1 GB\)"),
        ("2", 2_000_000_000, r"\(2 at once"),
        ("1", 1_000_000_000, r"\(1 at once"),
        ("1", 2_000_000_000, None),
    ],
)
def test_each_process_of_a_launch_on_this_machine_takes_memory(llama, tmp_path, monkeypatch, local, free, told):
    # Workers have no effect in a launch.
    values = {"output_dir": str(tmp_path), "methods": ["sft"], "seeds": [0, 1, 2], "workers": 3}
    config = parse(RunConfig, values | {"model": {"path": str(llama), "device": "cpu"}})
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if local:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    monkeypatch.setattr(fits, "free_bytes", lambda device: free)
    if told is None:
        assert "(1 at once" in settle.settle(config, trains=True)[1][0]
    else:
        with pytest.raises(ModelError, match=told):
            settle.settle(config, trains=True)


@pytest.mark.parametrize(
    ("methods", "tokens", "expected"),
    # 97,344 tokens are fast, 420.5 MB. Online training takes ten times as many where it is told so, whatever the cap.
    [(["sft_rlft"], 10, "0.4"), (["sft_rlft"], 973_440, "4.2"), (["sft"], 973_440, "0.4")],
)
def test_supervised_training_does_not_read_the_budget_of_online_training(
    llama, tmp_path, monkeypatch, methods, tokens, expected
):
    values = {"output_dir": str(tmp_path), "methods": methods, "rlft": {"micro_batch_tokens": tokens}}
    config = parse(RunConfig, values | {"model": {"path": str(llama), "device": "cpu"}})
    monkeypatch.setattr(fits, "free_bytes", lambda device: 10**12)
    assert f"activations {expected})" in settle.settle(config, trains=True)[1][0]


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"precision": "mixed", "gradient_checkpointing": True},
        {"precision": "bfloat16", "lora": {"rank": 4}},
        {"precision": "mixed", "lora": {"rank": 4}, "train_layers": 1},
        {"train_layers": 2},
    ],
)
def test_a_loaded_model_tells_the_settings_that_its_memory_depends_on(llama, setting):
    config = parse(ModelConfig, {"path": str(llama), "device": "cpu"} | setting)
    found = _settings_of(load_model(config, trainable=True))
    assert found.model_copy(update={"device": "cpu"}) == config


@pytest.mark.parametrize(
    ("setting", "trainable", "trainings", "models"),
    [
        # The model that stays, and a copy for each training; of three blocks one is trained, the others are shared.
        ({}, True, 1, 2),
        ({}, True, 2, 3),
        ({"train_layers": 1}, True, 1, 4 / 3),
        # Copies share the weights under an adapter, unless it was loaded to play.
        ({"lora": {"rank": 4}}, True, 2, 1),
        ({}, False, 1, 2),
    ],
)
def test_a_loaded_model_is_refused_where_its_copies_do_not_fit(
    llama, monkeypatch, setting, trainable, trainings, models
):
    config = parse(ModelConfig, {"path": str(llama), "device": "cpu"} | setting)
    model = load_model(config, trainable=trainable)
    weights = list(model.model.parameters())
    own = sum(4 * weight.numel() for weight in weights)
    # 97,344 tokens are fast for this width, and (5000 / 16)² of them leave 4,320 bytes each.
    need = estimate(model.model.config, config, models=models, micro_batch_tokens=312**2, activations=10**12).total
    monkeypatch.setattr(fits, "free_bytes", lambda device: need - own)
    check_loaded(model, trainings=trainings)
    monkeypatch.setattr(fits, "free_bytes", lambda device: need - own - 1)
    with pytest.raises(ModelError, match=r"\(1 at once, .*, of which the loaded model has taken 0\.0 GB, and cpu"):
        check_loaded(model, trainings=trainings)


def test_an_adapter_that_was_loaded_to_play_is_copied_with_its_base(llama, tmp_path, monkeypatch):
    load_model(ModelConfig(device="cpu", lora=LoRAConfig(rank=4)), llama, trainable=True).save(tmp_path)
    counts = []
    monkeypatch.setattr(fits, "estimate", lambda *_, models, **__: counts.append(models) or Estimate(1, 1, 1, 1))
    for trainable in (True, False):
        check_loaded(load_model(ModelConfig(device="cpu"), tmp_path, trainable=trainable))
    assert counts[0] == 1
    assert counts[-1] == 2


def test_each_process_of_a_launch_has_loaded_the_model(llama, monkeypatch):
    model = load_model(ModelConfig(device="cpu"), llama, trainable=True)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    # One needs 421 MB.
    monkeypatch.setattr(fits, "free_bytes", lambda device: 8 * 10**8)
    with pytest.raises(ModelError, match=r"needs about 0\.8 GB \(2 at once, .* Set --num_processes 1 \(0\.4 GB\)"):
        check_loaded(model)


def test_a_container_has_what_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=5000))
    monkeypatch.setattr(memory, "CGROUP", tmp_path / "memory.max")
    assert memory.free_bytes(CPU) == 5000
    for text, expected in (("max\n", 5000), ("9000\n", 5000), ("1000\n", 1000)):
        (tmp_path / "memory.max").write_text(text)
        assert memory.free_bytes(CPU) == expected


def test_a_row_that_does_not_fit_is_refused_before_it_is_read(llama, tmp_path, monkeypatch):
    model = load_model(ModelConfig(device="cpu"), llama, trainable=True)
    each = activation_bytes(model.model.config)
    check_fits(model, ACTIVATIONS_ON_CPU // each)
    monkeypatch.setattr("reflect_rl.models.score.free_bytes", lambda device: ACTIVATIONS_ON_CPU + each)
    check_fits(model, ACTIVATIONS_ON_CPU // each + 1)
    with pytest.raises(ModelError, match=r"a row of \d+ tokens leaves about 2.1 GB .* 2.1 GB are free. Set model.grad"):
        check_fits(model, ACTIVATIONS_ON_CPU // each + 2)
    monkeypatch.setattr("reflect_rl.models.score.ACTIVATIONS_ON_CPU", 10 * each)
    monkeypatch.setattr("reflect_rl.models.score.free_bytes", lambda device: 20 * each)
    with pytest.raises(ModelError, match="a row of"):
        train_sft(model, [("map " * 40, "1")], SFTConfig(steps=1), tmp_path, 0, ends=False, progress=lambda *_: None)
    assert not list(tmp_path.iterdir())


def test_a_long_prompt_is_shown_with_its_end(llama):
    model = load_model(ModelConfig(device="cpu"), llama, trainable=False)
    with pytest.raises(ModelError, match=r"begins '(map )+.*' and ends '.*taxi at 4 2' has"):
        check_context(model, 10**6, "map " * 50 + "taxi at 4 2")


def test_activations_take_at_most_a_quarter_of_a_gpu(monkeypatch):
    found = []
    for gigabytes in (80, 16):
        monkeypatch.setattr("torch.cuda.mem_get_info", lambda device, size=gigabytes: (0, size * 2**30))
        found.append(most_activations(torch.device("cuda")))
    assert found == [ACTIVATIONS_ON_GPU, 4 * 2**30]
    # A Mac's GPU is not asked.
    assert [most_activations(torch.device(kind)) for kind in ("cpu", "mps")] == [ACTIVATIONS_ON_CPU, ACTIVATIONS_ON_GPU]


def test_micro_batches_of_deep_models_fit(llama):
    smollm2 = LlamaConfig(num_hidden_layers=30, hidden_size=576, intermediate_size=1536)
    # 2 GiB / (30 x 5 x (10 x 576 + 4 x 1536)) = 1,202 tokens: four rows of 300.
    assert ACTIVATIONS_ON_CPU // activation_bytes(smollm2) == 1202
    # With checkpoints a token keeps 30 inputs of 576 numbers, and one whole block.
    assert activation_bytes(smollm2, checkpointing=True) == 30 * 4 * 576 + 5 * (10 * 576 + 4 * 1536)
    # A shallow model is limited by speed: (5000 / 16)², rounded down before it is squared.
    model = load_model(ModelConfig(device="cpu"), llama, trainable=True)
    assert token_budget(model) == 312**2


def test_a_prompt_beyond_the_context_names_its_state_and_the_setting(llama):
    model = load_model(ModelConfig(device="cpu"), llama, trainable=False)
    with pytest.raises(ModelError, match=r"begins 'Taxi at 1 1\.' has 513 tokens, .* holds 512\. Set model\.path"):
        check_context(model, 513, "Taxi at\n1 1.")


@pytest.mark.parametrize(("tokens", "lowers"), [(520, True), (600, False)])
def test_a_reflection_that_makes_a_prompt_too_long_is_named(llama, tokens, lowers):
    model = load_model(ModelConfig(device="cpu"), llama, trainable=False)
    reflection = "I must go. " * 4
    said = len(model.encode(reflection))
    # The context holds 512: of 520 tokens the reflection is what is too much, of 600 not.
    assert 8 <= said < 88
    with pytest.raises(ModelError, match=f"{tokens} tokens with the {said} of its reflection, ") as refused:
        check_context(model, tokens, "Taxi", reflection=reflection)
    assert ("Lower reflector.max_new_tokens. " in str(refused.value)) is lowers


def test_what_makes_a_prompt_shorter_is_named_first(llama):
    model = load_model(ModelConfig(device="cpu"), llama, trainable=False)
    names = {"most_new": "prompted.max_new_tokens", "shortening": "prompted.examples"}
    both = r"500 tokens and 13 are to follow, .* holds 512\. Lower prompted.max_new_tokens or prompted.examples\. Set"
    with pytest.raises(ModelError, match=both):
        check_context(model, 500, "Taxi", 13, **names)
    # Without any answer it is too long as well.
    with pytest.raises(ModelError, match=r"holds 512\. Lower prompted.examples\. Set model.path"):
        check_context(model, 513, "Taxi", 13, **names)
    check_context(model, 499, "Taxi", 13, **names)
