"""An adapter worked into its base model: a whole model, on which another training can put an adapter of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from reflect_rl.config import ModelConfig
from reflect_rl.errors import ModelError
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.source import base_of, has_adapter, resolve
from reflect_rl.store import whole_folder


def merge_adapter(adapter: str | Path, folder: Path) -> None:
    """Write the model W + s B A, for weights W of the base and an adapter of matrices A and B with the scale s.

    The sum is taken in float32 and written in the number format of the base (Hu et al. 2022, section 4.1).

    Args:
        adapter: folder or hub name of an adapter, such as a trained player.
        folder: place of the new model; it must be absent or empty.

    Raises:
        ModelError: there is no such adapter, its base is missing, or the place is taken; nothing is written then.
    """
    import torch
    from transformers import AutoConfig

    source = resolve(adapter)
    if not has_adapter(source) and Path(source).is_dir() and not any(Path(source).glob("*.safetensors")):
        raise ModelError(f"{str(adapter)!r} holds no adapter and no model. Name the folder of a trained player.")
    if not has_adapter(source):
        raise ModelError(f"{str(adapter)!r} is a whole model, so there is nothing to merge. Use it as model.path.")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ModelError(f"{str(folder)!r} is there already. Name a new folder.")
    loaded = load_model(ModelConfig(precision="float32", device="cpu"), source, trainable=False)
    wrapped: Any = loaded.model
    # Not that of the loaded model, which is float32 now.
    stored = AutoConfig.from_pretrained(base_of(source), trust_remote_code=False, local_files_only=True).dtype
    merged = wrapped.merge_and_unload().to(stored or torch.float32)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # A name of its own: the place is one of the user's, and so may be what lies beside it.
        scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise ModelError(f"cannot write {str(folder)!r}: {error.strerror}. Name another folder.") from error
    with whole_folder(folder, scratch, replaces=False) as fresh:
        LanguageModel(merged, loaded.tokenizer, labels=loaded.labels, rule=loaded.rule).save(fresh)
        fresh.chmod(0o755)
