"""The places that `model.path` may name, and the messages when a model cannot be loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reflect_rl.errors import ModelError
from reflect_rl.models.catalogue import KNOWN, folder_of_gguf, folder_of_known

__all__ = ["EMBEDDED", "base_model", "base_of", "explained", "has_adapter", "resolve"]

EMBEDDED = "embedded"
"""The `path` that stands for the small model which the pipeline builds itself."""

ADAPTER_CONFIG = "adapter_config.json"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def resolve(path: str | Path) -> str:
    """The absolute local folder that a path names, or the hub id as it is.

    A folder comes before a known name, a known name before a hub id. A GGUF file stands for the folder that it is
    converted to.

    Raises:
        ModelError: there is no such model, or it cannot be converted.
    """
    if str(path) == EMBEDDED:
        raise ModelError("the embedded model is built from a run's texts, so it is loaded from its folder in the run.")
    folder = Path(path).expanduser()
    if folder.is_dir():
        # Absolute, because an adapter records where its base model is.
        return str(folder.resolve())
    if folder.is_file() and folder.suffix.lower() == ".gguf":
        return str(folder_of_gguf(folder.resolve()))
    if folder.exists():
        raise ModelError(f"model path {str(path)!r} is a file. Name the folder that holds config.json, or a GGUF file.")
    if isinstance(path, str) and path in KNOWN:
        return str(folder_of_known(path))
    # A misspelt file is not asked for at the hub.
    if isinstance(path, str) and HUB_ID.fullmatch(path) and folder.suffix.lower() != ".gguf":
        return path
    raise ModelError(f"no model folder {str(path)!r}. Name an existing folder, or a hub id such as 'gpt2'.")


def has_adapter(source: str) -> bool:
    """Tell whether a folder or hub id holds an adapter and not a whole model."""
    from transformers.utils import find_adapter_config_file

    with explained(source):
        return find_adapter_config_file(source) is not None


def base_of(adapter: str) -> str:
    """The folder or hub id of the model that an adapter changes.

    Raises:
        ModelError: the adapter does not say, or it is missing.
    """
    from transformers.utils import cached_file

    with explained(adapter):
        file = cached_file(adapter, ADAPTER_CONFIG)
        base = json.loads(Path(str(file)).read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not base:
        raise ModelError(
            f"the adapter {adapter!r} names no base model. Set base_model_name_or_path in {ADAPTER_CONFIG}."
        )
    try:
        return resolve(str(base))
    except ModelError:
        raise ModelError(
            f"the base model {base!r} of the adapter {adapter!r} is missing. "
            f"Put it back, or correct base_model_name_or_path in {ADAPTER_CONFIG}."
        ) from None


def base_model(path: str | Path) -> str:
    """The folder or hub id of the whole model behind a path, whose adapter it may name.

    Raises:
        ModelError: there is no such model.
    """
    source = resolve(path)
    return base_of(source) if has_adapter(source) else source


@contextmanager
def explained(source: str) -> Iterator[None]:
    """Turn what goes wrong inside into a ModelError that names the model and a remedy."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise ModelError(
            f"the weights of {source!r} are corrupt: {error}. Copy or download the model again."
        ) from error
    except (OSError, ValueError, RuntimeError, ImportError, KeyError) as error:
        # transformers goes on for lines about access tokens and caches.
        first = str(error).strip().partition("\n")[0]
        raise ModelError(f"cannot load the model {source!r}: {first} {_remedy(source, str(error))}") from error


def _remedy(source: str, message: str) -> str:
    if "out of memory" in message:
        return "Use precision = 'bfloat16', quantization, or a smaller model."
    if Path(source).is_dir():
        return "Check the files of the folder; models that bring their own code are not supported."
    return "Check the name and the connection, or download the model and give its folder as path."
