"""Adapted layers computed by products alone, against PEFT's own forward pass."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners import lora
from torch import nn
from transformers import AutoModelForCausalLM

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models import lora as ours
from reflect_rl.models.load import load_model
from tiny_models import save_tiny

CONFIG = ModelConfig(device="cpu", lora=LoRAConfig(rank=4, alpha=12, dropout=0.0))
IDS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny("llama", tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(autouse=True)
def _any_number_of_rows(monkeypatch):
    monkeypatch.setattr(ours, "FEWEST_ROWS", 1)


def layers_of(model):
    return [module for module in model.modules() if isinstance(module, lora.Linear)]


def trained(model):
    """The model, with an adapter that has learned something: new ones change nothing."""
    torch.manual_seed(0)
    for layer in layers_of(model):
        for part in layer.lora_B.values():
            nn.init.normal_(part.weight, std=0.3)
    return model


def one_layer(bias=True, size=5, **settings):
    torch.manual_seed(0)
    plain = LoraConfig(r=2, lora_alpha=6, target_modules=["0"], **settings)
    model = trained(get_peft_model(nn.Sequential(nn.Linear(size, 3, bias=bias)), plain))
    ours.accelerate(model, mixed=False)
    return model


def passes(model, x, mixed=False):
    """Result, and gradients of the adapter and of the input: the short way's, then PEFT's."""
    found = []
    for kind in (ours.AdaptedLinear, lora.Linear):
        for layer in layers_of(model):
            layer.__class__ = kind
        model.zero_grad()
        given = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            result = model(given)
        result.float().square().sum().backward()
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        assert all(weight.grad.dtype == weight.dtype for weight in weights)
        found.append([result, given.grad, *(weight.grad.clone() for weight in weights)])
    return zip(*found, strict=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 5)])
def test_values_and_gradients_are_those_of_peft(bias, shape):
    for mine, theirs in passes(one_layer(bias), torch.randn(shape)):
        assert mine.dtype == theirs.dtype == torch.float32
        assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_products_in_bfloat16_are_as_close_to_the_exact_ones_as_those_of_peft():
    model, x = one_layer(size=256), torch.randn(64, 256)
    exact = [theirs for _, theirs in passes(model, x)]
    for (mine, theirs), wanted in zip(passes(model, x, mixed=True), exact, strict=True):
        assert mine.dtype == theirs.dtype
        # A number in bfloat16 has 8 bits; some tensors have few numbers, whose errors vary by chance.
        errors = [float((found - wanted).detach().norm() / wanted.detach().norm()) for found in (mine, theirs)]
        assert errors[0] < min(2**-6, 1.5 * errors[1])


def test_the_equation_by_hand():
    model = one_layer()
    (layer,) = layers_of(model)
    for weight, value in ((layer.base_layer.weight, 1), (layer.base_layer.bias, 7)):
        nn.init.constant_(weight, value)
    nn.init.constant_(layer.lora_A["default"].weight, 0.5)
    nn.init.constant_(layer.lora_B["default"].weight, 2)
    # W x + b = 5 + 7. A x = 2.5 twice, B A x = 2 · 2.5 · 2 = 10, s = 6/2.
    assert model(torch.ones(1, 5)).tolist() == [[42.0] * 3]


def add_second(model):
    model.add_adapter("second", LoraConfig(r=2, target_modules=["0"]))
    model.base_model.set_adapter(["default", "second"])


def unfreeze(model):
    layers_of(model)[0].base_layer.weight.requires_grad_(True)


def few_rows(_):
    ours.FEWEST_ROWS = 5


def watch(model):
    layers_of(model)[0].lora_A["default"].register_forward_hook(lambda *_: None)


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({"use_dora": True}, None),
        ({"lora_dropout": 0.5}, nn.Module.train),
        ({"lora_bias": True}, None),
        ({}, add_second),
        ({}, unfreeze),
        ({}, watch),
        ({}, few_rows),
        ({}, lambda model: model.merge_adapter()),
    ],
)
def test_everything_else_is_left_to_peft(settings, change, monkeypatch):
    model = one_layer(**settings)
    if change:
        change(model)
    monkeypatch.setattr(ours._AdaptedProduct, "apply", pytest.fail)
    assert model(torch.randn(4, 5)).shape == (4, 3)


@pytest.mark.parametrize("settings", [{}, {"lora_dropout": 0.5}])
def test_one_adapter_without_dropout_takes_the_short_way(settings, monkeypatch):
    model, seen = one_layer(**settings).eval(), []
    monkeypatch.setattr(ours._AdaptedProduct, "apply", lambda *parts: seen.append(parts) or torch.zeros(4, 3))
    model(torch.randn(4, 5))
    assert len(seen) == 1


def test_a_disabled_adapter_changes_nothing():
    model, x = one_layer(), torch.randn(4, 5)
    (layer,) = layers_of(model)
    with model.disable_adapter():
        assert torch.equal(model(x), layer.base_layer(x))
    assert not torch.allclose(model(x), layer.base_layer(x))


def test_a_merged_model_gives_the_same(folder):
    model = trained(load_model(CONFIG, folder, trainable=True).model)
    with torch.no_grad():
        before = model(IDS).logits
        assert torch.allclose(model.merge_and_unload()(IDS).logits, before, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_saved_adapter_is_the_same_in_plain_peft(kind, tmp_path):
    source = save_tiny(kind, tmp_path / kind)
    model = load_model(CONFIG, source, trainable=True)
    trained(model.model)
    model.save(tmp_path / "adapter")
    plain = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(source), tmp_path / "adapter").eval()
    with torch.no_grad():
        assert torch.allclose(plain(IDS).logits, model.model(IDS).logits, atol=1e-5)


def gradients(folder, kind, **settings):
    """Gradients of the adapters of a whole model, whose layers are of this kind."""
    loaded = load_model(CONFIG.model_copy(update=settings), folder, trainable=True)
    model = trained(loaded.model).train()
    # Otherwise the kinds below would be compared with themselves.
    assert {type(layer) for layer in layers_of(model)} == {ours.AdaptedLinear}
    for layer in layers_of(model):
        layer.__class__ = kind
    with torch.autocast("cpu", torch.bfloat16, enabled=loaded.mixed):
        scores = model(IDS, use_cache=False).logits
    scores.float().log_softmax(-1)[..., 3].sum().backward()
    return torch.cat([part.grad.flatten() for part in model.parameters() if part.requires_grad])


@pytest.mark.parametrize("checkpointing", [True, False])
def test_gradients_of_a_model_are_those_of_peft(folder, checkpointing):
    exact = gradients(folder, lora.Linear)
    mine = gradients(folder, ours.AdaptedLinear, gradient_checkpointing=checkpointing)
    assert float((mine - exact).norm() / exact.norm()) < 1e-5


@pytest.mark.parametrize("precision", ["mixed", "bfloat16"])
def test_models_with_products_in_bfloat16_get_gradients_in_float32(folder, precision):
    found = gradients(folder, ours.AdaptedLinear, precision=precision)
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    assert found.count_nonzero() > 0.9 * found.numel()
