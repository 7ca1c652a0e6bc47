"""The places that `model.path` may name, and the messages when a model cannot be loaded.

Every place comes to a folder on this machine. The network is used only for a path that begins with `hub:`, so that a
mistyped folder is never asked for elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reflect_rl.config import EMBEDDED
from reflect_rl.errors import ModelError, ReflectRLError, suggestion
from reflect_rl.models.catalogue import KNOWN, folder_of_gguf, folder_of_known
from reflect_rl.paths import expanded

HUB = "hub:"
"""Beginning of a path that names a model of the Hugging Face hub."""

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

TOKENIZER_CONFIG, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
"""Files of a tokenizer that may hold its chat template."""

TOKENIZER_FILES = ("tokenizer.json", "*.model", "vocab.*", "*.tiktoken", "tekken.json")

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PLAIN_WEIGHTS = re.compile(r"[\w-][\w.-]*\.safetensors")

HUB_FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.tiktoken", "vocab.*", "merges.txt")
"""Files that are taken from a hub repository: no pickle files, no code."""


def resolve(path: str | Path) -> str:
    """The absolute local folder that a path names.

    A folder comes before a known name. A GGUF file stands for the folder that it is converted to. `hub:owner/name` is
    downloaded once into the cache of huggingface_hub and found there afterwards.

    Raises:
        ModelError: there is no such model, or it cannot be converted or downloaded.
    """
    if str(path) == EMBEDDED:
        raise ModelError("the embedded model is built from a run's texts, so it is loaded from its folder in the run.")
    folder = expanded(path)
    if folder.is_dir():
        # Absolute, because an adapter records where its base model is.
        return str(folder.resolve())
    if folder.is_file() and folder.suffix.lower() == ".gguf":
        return str(folder_of_gguf(folder.resolve()))
    if folder.exists():
        raise ModelError(f"model path {str(path)!r} is a file. Name the folder that holds config.json, or a GGUF file.")
    name = str(path)
    if name in KNOWN:
        return str(folder_of_known(name))
    if name.startswith(HUB):
        return str(_of_hub(name.removeprefix(HUB), download=True))
    if folder.suffix.lower() == ".gguf":
        raise ModelError(f"there is no file {name!r}. Name a GGUF file that is there.")
    hub = f"{HUB}{name}" if HUB_ID.fullmatch(name) else f"{HUB}owner/name"
    close = suggestion(name, KNOWN)
    near = f" {close}" if close.startswith("Did") else ""
    raise ModelError(f"there is no folder {name!r}.{near} A model of the Hugging Face hub is written {hub!r}.")


def _of_hub(hub_id: str, *, download: bool) -> Path:
    """The folder of a hub repository in the cache of huggingface_hub; a `ModelError` where it cannot be had."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    if not HUB_ID.fullmatch(hub_id):
        raise ModelError(f"{hub_id!r} is no model of the hub. Write hub:owner/name.")

    def folder(*, offline: bool) -> Path:
        # Files in folders of the repository are other formats of the same weights.
        found = snapshot_download(
            hub_id, allow_patterns=[*HUB_FILES], ignore_patterns=["*/*"], local_files_only=offline
        )
        return Path(found)

    # The cache first: all jobs of a run then load one revision, and nothing is asked twice.
    try:
        cached = folder(offline=True)
        if not download or _is_whole(cached):
            return cached
    except LocalEntryNotFoundError:
        if not download:
            raise ModelError(
                f"the hub model {hub_id!r} is not on this machine. Get it with `reflect-rl model get hub:{hub_id}`."
            ) from None
    with explained(f"{HUB}{hub_id}"):
        found = folder(offline=False)
    # Where the hub does not answer, its client returns what an earlier download has left.
    if not _is_whole(found):
        raise ModelError(
            f"the download of {HUB}{hub_id} is not whole: configuration, tokenizer or safetensors weights are missing. "
            f"Run `reflect-rl model get {HUB}{hub_id}` again; a repository without safetensors weights is not read."
        )
    return found


def _is_whole(folder: Path) -> bool:
    """Tell whether a download has ended; one that was interrupted leaves some of the files out."""
    if has_adapter(str(folder)):
        return (folder / ADAPTER_WEIGHTS).is_file()
    return (
        (folder / "config.json").is_file()
        and has_tokenizer(folder)
        and all((folder / name).is_file() for name in weight_files(folder))
    )


def has_tokenizer(folder: Path) -> bool:
    """Tell whether a folder holds a tokenizer."""
    return any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES)


def check_weight_files(source: str) -> None:
    """Refuse a folder whose weights are not there, are pickle files, or are cut off; only headers are read.

    Raises:
        ModelError: see above; the message names the file.
    """
    from safetensors import safe_open

    folder = Path(source)
    names = weight_files(folder)
    missing = [name for name in names if not (folder / name).is_file()]
    # transformers would only say that it misses a safetensors file.
    if missing and any(any(folder.glob(pattern)) for pattern in ("*.bin", "*.pt", "*.pth")):
        raise ModelError(
            f"the weights in {source!r} are pickle files, which can run code and are refused. "
            "Convert them to safetensors (`model.save_pretrained(folder)` does)."
        )
    if missing:
        lacks = "has no weights" if len(missing) == len(names) else f"lacks {len(missing)} of {len(names)} weight files"
        raise ModelError(f"the model folder {source!r} {lacks}. Put {missing[0]} there.")
    for name in names:
        with explained(source), safe_open(str(folder / name), framework="np"):
            pass


def weight_files(folder: Path) -> list[str]:
    """The names of the files that hold a model's weights: one, or the parts that the index lists.

    Raises:
        ModelError: the index is damaged, or names a file that is no safetensors of this folder.
    """
    index = folder / INDEX
    # The same order as in transformers: the index counts only where there is no single file.
    if (folder / WEIGHTS).is_file() or not index.is_file():
        return [WEIGHTS]
    with explained(str(folder)):
        values = json.loads(index.read_text(encoding="utf-8"))
    parts = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(parts, dict) or not parts:
        raise ModelError(f"{str(index)!r} has no weight_map. Copy or download the model again.")
    for name in parts.values():
        # transformers would open whatever stands here, also pickle files and paths that lead out of the folder.
        if not isinstance(name, str) or not PLAIN_WEIGHTS.fullmatch(name):
            raise ModelError(
                f"{str(index)!r} names the file {name!r}, which is no safetensors file of that folder. Pickle files "
                "can run code and are refused. Convert the model, or download it again."
            )
    return sorted(set(parts.values()))


def has_adapter(source: str) -> bool:
    """Tell whether a folder holds an adapter and not a whole model."""
    return (Path(source) / ADAPTER_CONFIG).is_file()


def reads_plain_text(adapter: str) -> bool:
    """Tell whether an adapter was saved with a tokenizer that has no chat template, whatever that of its base has."""
    settings, template = Path(adapter) / TOKENIZER_CONFIG, Path(adapter) / TEMPLATE
    # Adapters of other programs often come without a tokenizer, which says nothing.
    if not settings.is_file() or template.is_file():
        return False
    with explained(adapter):
        return json.loads(settings.read_text(encoding="utf-8")).get("chat_template") is None


def base_of(adapter: str) -> str:
    """The folder of the model that an adapter changes; one of the hub must be on this machine already.

    Raises:
        ModelError: the adapter does not say, or the model is missing.
    """
    with explained(adapter):
        values = json.loads((Path(adapter) / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    base = values.get("base_model_name_or_path") if isinstance(values, dict) else None
    if not base:
        raise ModelError(
            f"the adapter {adapter!r} names no base model. Set base_model_name_or_path in {ADAPTER_CONFIG}."
        )
    hub_id, is_folder = str(base).removeprefix(HUB), expanded(str(base)).exists()
    try:
        # The adapter may be somebody else's: its file must not decide that something is downloaded.
        is_hub = not is_folder and HUB_ID.fullmatch(hub_id)
        found = str(_of_hub(hub_id, download=False)) if is_hub else resolve(str(base))
    except ModelError as error:
        own = str(error) if "`reflect-rl model get" in str(error) else "Put it back."
        raise ModelError(
            f"the base model {base!r} of the adapter {adapter!r} is missing. {own} Or correct "
            f"base_model_name_or_path in {ADAPTER_CONFIG}."
        ) from None
    # transformers would follow the second adapter by itself, to wherever it leads.
    if has_adapter(found):
        raise ModelError(
            f"the base {base!r} of the adapter {adapter!r} is an adapter itself. "
            "Merge that one first (`reflect-rl model merge`) and name the result in its place."
        )
    return found


def base_model(path: str | Path) -> str:
    """The folder of the whole model behind a path, whose adapter it may name.

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
    except ReflectRLError:
        raise
    except Exception as error:  # what a damaged folder leads to is any exception
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"the model {source!r} brings its own code, which is never run. Choose one that transformers knows."
            ) from error
        # transformers goes on for lines about access tokens and caches.
        first = str(error).strip().partition("\n")[0].rstrip(".:")
        raise ModelError(f"cannot load the model {source!r}: {first}. {_remedy(source, str(error))}") from error


def _remedy(source: str, message: str) -> str:
    if "out of memory" in message:
        return "Use precision = 'bfloat16', quantization, or a smaller model."
    # Readers of JSON say what is wrong, and not always in which file.
    for file in sorted(Path(source).glob("*.json")):
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return f"{file.name} is damaged: copy or download it again."
    if Path(source).is_dir():
        return "Check the files of the folder, or copy or download the model again."
    return "Check the name and the connection, or download the model and give its folder as path."
