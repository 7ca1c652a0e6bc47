"""The language model of `locate --deep`, by torch: any one, to be read with or to be trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from reflect_locate.reader_settings import SETTINGS, ReaderSettings, read_settings
from reflect_locate.rereading import PassageReader, asked_after
from reflect_rl.config import ModelConfig
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.score import completion_losses
from reflect_rl.store import write_json


@dataclass(frozen=True)
class Reader(PassageReader):
    """A loaded language model."""

    model: LanguageModel
    settings: ReaderSettings = field(default_factory=ReaderSettings)

    def likelihood(self, question: str, text: str) -> float:
        """See `PassageReader`."""
        ids, mask = question_after(self.model, text, question)
        with torch.inference_mode():
            return -float(completion_losses(self.model, [ids], [mask]).mean())

    def save(self, folder: Path) -> None:
        """Write the model and the settings; `load_reader` reads them."""
        self.model.save(folder)
        write_json(folder / SETTINGS, self.settings.model_dump(mode="json"))


def question_after(model: LanguageModel, text: str, question: str) -> tuple[list[int], list[int]]:
    """Tokens of a passage with the question, and for each of them whether it is the question's.

    Args:
        model: which reads.
        text: a passage.
        question: as it was asked.
    """
    prompt = asked_after(text)
    head, (body,) = model.encode_answers(prompt, [question])
    return [*head, *body], [0] * len(head) + [1] * len(body)


def load_reader(path: str, precision: str = "auto") -> Reader:
    """The model of a name, a folder or a hub id, with the settings that a trained reader has beside it.

    Args:
        path: as `model.path`.
        precision: number format.

    Raises:
        ConfigError: its settings are of another version, or damaged.
        ModelError: it cannot be loaded; the message says what to do.
    """
    config = ModelConfig.model_validate({"path": path, "precision": precision})
    settings = read_settings(Path(path))
    return Reader(load_model(config, trainable=False), settings)
