"""GGUF files, the format of llama.cpp, turned once into an ordinary safetensors folder.

Quantised weights are multiplied out and kept in bfloat16. The configuration, the tokenizer and the chat template come
from the file's own fields, read as data.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from filelock import FileLock

from reflect_rl.errors import ModelError
from reflect_rl.store import whole_folder, write_json

GGUF_FOLDER = "gguf"
"""Folder of the cache for files that users bring."""
CARD = "source.json"
MAGIC = b"GGUF"


def is_complete(folder: Path) -> bool:
    """Tell whether a folder of the cache holds a model; a copy that was broken off may have left a part of one."""
    from safetensors import SafetensorError, safe_open

    weights = sorted(folder.glob("*.safetensors"))
    try:
        # The header tells how long the file must be.
        for file in weights:
            with safe_open(str(file), framework="np"):
                pass
    except (SafetensorError, OSError):
        return False
    return bool(weights) and all((folder / name).is_file() for name in ("config.json", "tokenizer.json"))


def check_package() -> None:
    """Refuse where the package `gguf` is missing, with a ModelError."""
    if importlib.util.find_spec("gguf") is None:
        raise ModelError("GGUF files need the package gguf: pip install reflect-rl[gguf]")


def convert_once(gguf: Path, folder: Path, *, source: str, tied: bool | None = None) -> Path:
    """Convert a GGUF file into `folder`, whole or not at all; a folder that holds a model is taken as it is.

    Args:
        gguf: the file.
        folder: where the model goes.
        source: where the file is from, for the folder's card.
        tied: whether the embeddings are tied (None: as the file's tensors say).

    Raises:
        ModelError: the file is no GGUF, is incomplete, or is of an unknown architecture or quantisation, or the package
            `gguf` is missing.
    """
    if is_complete(folder):
        return folder
    check_package()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".convert.lock")):
        # Another process may have converted it while this one waited for the lock.
        if is_complete(folder):
            return folder
        with whole_folder(folder) as fresh:
            _convert(gguf, fresh, _has_tied_embeddings(gguf) if tied is None else tied)
            write_json(fresh / CARD, {"source": source})
            # safetensors makes files that nobody else may read; the card has the permissions that the umask leaves.
            for file in fresh.iterdir():
                file.chmod((fresh / CARD).stat().st_mode)
    return folder


def _has_tied_embeddings(gguf: Path) -> bool:
    """Tell whether the file, which must be a whole one, has no output matrix of its own."""
    from gguf import GGUFReader

    with gguf.open("rb") as file:
        if file.read(4) != MAGIC:
            raise ModelError(f"{str(gguf)!r} is no GGUF file. Name one, or a model folder with config.json.")
    try:
        reader = GGUFReader(gguf)
        names = {tensor.name for tensor in reader.tensors}
        parts = reader.fields["split.count"].contents() if "split.count" in reader.fields else 1
    except Exception as error:  # what a damaged file leads to is any exception
        raise ModelError(_refusal(gguf, error)) from error
    if parts > 1:
        raise ModelError(
            f"{str(gguf)!r} is one of {parts} parts of a GGUF file. Join them with `llama-gguf-split --merge`."
        )
    # GGUF has no field for it: a file with tied embeddings lacks the output matrix.
    return "output.weight" not in names


def _convert(gguf: Path, folder: Path, tied: bool) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        # Multiplied out in float32 and rounded once, to bfloat16 below.
        file: dict[str, Any] = {"gguf_file": gguf.name, "trust_remote_code": False}
        read: Any = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), dtype=torch.float32, output_loading_info=True, **file
        )
        loaded, found = read
        # transformers gives missing parameters random values, with a warning only.
        if missing := sorted(found["missing_keys"] - ({"lm_head.weight"} if tied else set())):
            raise ValueError(f"{len(missing)} parameters are missing, the first is {missing[0]!r}")
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **file)
    except Exception as error:  # what a damaged file leads to is any exception
        raise ModelError(_refusal(gguf, error)) from error
    # A model that was loaded from a GGUF refuses to be saved, so its tensors move into a model that never saw the file.
    read_from = ("quantization_config", "_name_or_path")
    values = {key: value for key, value in loaded.config.to_dict().items() if key not in read_from}
    config = type(loaded.config)(**values | {"tie_word_embeddings": tied})
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict(loaded.state_dict(), strict=True)
    model.tie_weights()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _refusal(gguf: Path, error: Exception) -> str:
    said = str(error).strip().partition("\n")[0]
    text = str(error)
    # The exceptions are plain ones of Python; only their text tells the causes apart.
    if "GGMLQuantizationType" in text or "not yet implemented" in text or "quantiz" in text.lower():
        return (
            f"the weights of {str(gguf)!r} are in a quantisation that the package gguf does not know ({said}). Convert "
            "the file to Q8_0 or F16 with llama.cpp, or update the package gguf."
        )
    if "architecture" in text:
        return (
            f"the architecture of {str(gguf)!r} is not read from GGUF by transformers ({said}). Use the model's "
            "safetensors folder."
        )
    return f"cannot read {str(gguf)!r}: it is incomplete or damaged ({said}). Copy or download it again."
