"""An adapter and its base as one model: the same function, the same format, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rich.console import Console

from reflect_rl.cli import model as command
from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.errors import ModelError, UserError
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.merge import merge_adapter
from tiny_models import save_tiny

WITH_ADAPTER = ModelConfig(device="cpu", lora=LoRAConfig(rank=2, dropout=0))


@pytest.fixture
def adapter(tmp_path) -> Path:
    model = load_model(WITH_ADAPTER, save_tiny("llama", tmp_path / "base"), trainable=True)
    with torch.no_grad():
        for name, weight in model.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.05)
    model.save(tmp_path / "adapter")
    return tmp_path / "adapter"


def logits(model: LanguageModel) -> torch.Tensor:
    with torch.no_grad():
        return model.model(torch.tensor([model.encode("turn left")])).logits


def test_a_merged_model_computes_what_the_adapter_on_its_base_does(adapter, tmp_path):
    console = Console(record=True, soft_wrap=True)
    command.run(["merge", str(adapter), str(tmp_path / "new" / "merged")], console)
    merged = load_model(ModelConfig(device="cpu"), tmp_path / "new" / "merged", trainable=False)
    both = load_model(ModelConfig(device="cpu"), adapter, trainable=False)
    base = load_model(ModelConfig(device="cpu"), tmp_path / "base", trainable=False)
    torch.testing.assert_close(logits(merged), logits(both), rtol=1e-4, atol=1e-5)
    assert (logits(merged) - logits(base)).abs().max() > 1e-3
    assert not merged.has_adapter
    assert merged.encode("turn left") == both.encode("turn left")
    assert f'model.path = "{tmp_path / "new" / "merged"}"' in console.export_text()
    # Nothing half-written stays beside it.
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["merged"]


def test_the_format_is_that_of_the_base(adapter, tmp_path):
    # The base as it would be downloaded: sixteen bits a number.
    load_model(ModelConfig(device="cpu", precision="bfloat16"), tmp_path / "base", trainable=False).save(
        tmp_path / "base"
    )
    merge_adapter(adapter, tmp_path / "merged")
    stored = load_model(ModelConfig(device="cpu", precision="bfloat16"), tmp_path / "merged", trainable=False)
    size = (tmp_path / "merged" / "model.safetensors").stat().st_size
    assert size == pytest.approx(2 * sum(p.numel() for p in stored.model.parameters()), rel=0.2)


def test_what_is_not_merged(adapter, tmp_path):
    with pytest.raises(ModelError, match=r"base' is a whole model, so there is nothing to merge"):
        merge_adapter(tmp_path / "base", tmp_path / "merged")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match=r"taken' is there already\. Name a new folder"):
        merge_adapter(adapter, tmp_path / "taken")
    assert [file.name for file in (tmp_path / "taken").iterdir()] == ["notes.txt"]
    with pytest.raises(ModelError, match=r"cannot write .*notes\.txt.x'"):
        merge_adapter(adapter, tmp_path / "taken" / "notes.txt" / "x")
    with pytest.raises(UserError, match="an adapter and a new folder, got 1 name"):
        command.run(["merge", str(adapter)], Console())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["adapter", "base", "taken"]


def test_a_folder_that_appears_meanwhile_is_not_overwritten(adapter, tmp_path, monkeypatch):
    save = LanguageModel.save

    def slowly(model, folder):
        save(model, folder)
        (tmp_path / "merged").mkdir()
        (tmp_path / "merged" / "notes.txt").write_text("mine")

    monkeypatch.setattr(LanguageModel, "save", slowly)
    (tmp_path / "merged.new").mkdir()
    with pytest.raises(OSError, match="not empty"):
        merge_adapter(adapter, tmp_path / "merged")
    assert [file.name for file in (tmp_path / "merged").iterdir()] == ["notes.txt"]
    # What lies beside it is the user's.
    assert sorted(file.name for file in tmp_path.iterdir()) == ["adapter", "base", "merged", "merged.new"]
