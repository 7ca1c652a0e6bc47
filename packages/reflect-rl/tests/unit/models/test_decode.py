"""Writing as a GPU does it: the step that is captured there, run as it is on a processor."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models.decode import _MEMORIES, LEAST_ROWS, _height, written
from reflect_rl.models.generate import generate
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.network import reads_trees
from tiny_models import KINDS, save_tiny

TEXTS = ["Taxi", "Passenger waits at 0 4. Blocked: east.", "Find the file that answers the question. cd ..", "0"]


@pytest.fixture(params=KINDS)
def model(request, tmp_path) -> LanguageModel:
    """A tiny model that is trained with adapters, on a processor also where there is a GPU."""
    config = ModelConfig(device="cpu", lora=LoRAConfig(rank=2))
    model = load_model(config, save_tiny(request.param, tmp_path / "model"), trainable=True)
    if not reads_trees(model):
        pytest.skip("its attention is no plain one")
    for weight in model.model.parameters():
        # Larger weights make continuations that vary instead of repeating one token.
        weight.data.mul_(4 if weight.dim() > 1 else 1)
    return model


def ids(model: LanguageModel, texts: list[str]) -> list[list[int]]:
    return [model.encode(text) for text in texts]


@torch.no_grad()
def cut(model: LanguageModel, prompts: list[list[int]], tokens: int) -> list[list[int]]:
    table = written(model, prompts, tokens, sampled=False).tolist()
    return [new[: new.index(model.end_id) + 1] if model.end_id in new else new for new in table]


def test_it_writes_what_generate_writes(model):
    prompts = ids(model, TEXTS)
    for tokens in (1, 2, 20):
        assert cut(model, prompts, tokens) == generate(model, prompts, tokens)


def test_batches_of_other_shapes_in_between_change_nothing(model):
    prompts = ids(model, TEXTS)
    before = cut(model, prompts, 20)
    assert cut(model, ids(model, TEXTS[::-1] * 3), 8) == generate(model, ids(model, TEXTS[::-1] * 3), 8)
    assert cut(model, prompts, 200) == generate(model, prompts, 200)
    assert cut(model, prompts, 20) == before


def test_changed_weights_write_other_texts(model):
    prompts = ids(model, TEXTS)
    before = cut(model, prompts, 20)
    for name, weight in model.model.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(std=0.5, generator=torch.Generator().manual_seed(0))
    after = cut(model, prompts, 20)
    assert after == generate(model, prompts, 20)
    assert after != before


def test_inference_mode_may_come_and_go(model):
    prompts = ids(model, TEXTS)
    with torch.inference_mode():
        first = cut(model, prompts, 12)
    assert cut(model, prompts, 12) == first


def test_weights_that_lie_elsewhere_write_other_texts(model):
    prompts = ids(model, TEXTS)
    before = cut(model, prompts, 20)
    for weight in model.model.parameters():
        weight.data = weight.data.flip(0) if weight.dim() > 1 else weight.data.clone()
    assert cut(model, prompts, 20) == generate(model, prompts, 20) != before


def test_sampled_tokens_follow_the_models_distribution(model):
    prompt = model.encode("Taxi")
    with torch.no_grad():
        chances = torch.softmax(model.model(torch.tensor([prompt])).logits[0, -1].float(), -1)
        drawn = written(model, [prompt] * 4000, 1, sampled=True)[:, 0]
    likeliest = int(chances.argmax())
    expected = float(chances[likeliest])
    # Four standard deviations of the share.
    assert abs(float((drawn == likeliest).float().mean()) - expected) < 4 * (expected * (1 - expected) / 4000) ** 0.5


def test_a_gpu_pads_small_batches_as_far_as_memory_allows():
    config = LlamaConfig(num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, hidden_size=4096)
    large = SimpleNamespace(device=torch.device("cuda"), model=SimpleNamespace(config=config, dtype=torch.bfloat16))
    # Keys and values of 16,384 tokens of such a model are 2 GiB.
    assert [_height(large, count, 256) for count in (1, 8, 9)] == [LEAST_ROWS, LEAST_ROWS, 12]
    assert [_height(large, count, 8192) for count in (1, 2)] == [2, 2]


def test_a_model_that_is_dropped_leaves_nothing(model, tmp_path):
    other = load_model(ModelConfig(device="cpu"), save_tiny("llama", tmp_path / "other"), trainable=False)
    held = len(_MEMORIES)
    with torch.no_grad():
        written(other, [other.encode("Taxi")], 4, sampled=False)
    assert len(_MEMORIES) == held + 1
    del other
    import gc

    gc.collect()
    assert len(_MEMORIES) == held
