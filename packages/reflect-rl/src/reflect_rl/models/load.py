"""A causal language model with its tokenizer: loading and saving.

Weights are read from safetensors only and no code that comes with a model is ever run, so that a downloaded model can
compute but not act. torch and transformers load with the first model, not with the configuration.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from reflect_rl.config import ModelConfig, Rule
from reflect_rl.errors import ModelError
from reflect_rl.models.chat_template import ChatFrame, frame_of, start_ids
from reflect_rl.models.precision import choose
from reflect_rl.models.source import (
    HUB,
    base_model,
    base_of,
    check_weight_files,
    explained,
    has_adapter,
    has_tokenizer,
    reads_plain_text,
    resolve,
)
from reflect_rl.models.trainable import (
    check_adapter,
    keep_input_format,
    load_adapter,
    new_adapter,
    recompute_activations,
    train_last_blocks,
)
from reflect_rl.store import read_json_value, write_json
from reflect_rl.types import Progress, silent

LABELS = "labels.json"
"""File of a model's folder: the labels of the listed actions that it was trained with."""
SCORING = "scoring.json"
"""File of a policy's folder: the rule by which its actions are scored."""
KEPT_CHARACTERS = 200
"""Longest last line of a prompt, with an answer, whose tokens are kept."""

if TYPE_CHECKING:
    import torch
    from peft import PeftModel
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


# Compared by identity, which also keeps models hashable.
@dataclass(eq=False)
class LanguageModel:
    """A causal language model and its tokenizer.

    Raises:
        ModelError: the tokenizer has no end token, or more tokens than the model has embeddings.
    """

    model: PreTrainedModel | PeftModel
    tokenizer: PreTrainedTokenizerBase
    mixed: bool = False
    """Matrix products in bfloat16, whatever the format of the weights."""
    chat: ChatFrame | None = None
    """Text that the chat template puts around a prompt; None = prompts are plain text."""
    checkpointing: bool = False
    """Activations are computed once more in the backward pass."""
    labels: tuple[str, ...] = ()
    """Labels of the listed actions that it was trained with from Python; empty: those that its tokenizer suggests."""
    rule: Rule | None = None
    """Rule by which its actions are scored; None: it was not trained as a policy."""

    def __post_init__(self) -> None:
        if self.tokenizer.eos_token_id is None:
            raise ModelError(
                f"the tokenizer of {self.name!r} has no end token. Set `eos_token` in its tokenizer_config.json."
            )
        embeddings: Any = self.model.get_input_embeddings()
        rows = embeddings.weight.shape[0]
        # Fewer tokens than rows are usual: embeddings are padded to a round number.
        if len(self.tokenizer) > rows:
            raise ModelError(
                f"the tokenizer of {self.name!r} has {len(self.tokenizer)} tokens, its model only {rows} embeddings. "
                "They belong to different models, or transformers has added a token: then resize_token_embeddings of "
                "transformers makes room in the model."
            )

    @property
    def name(self) -> str:
        """Folder the model was loaded from, or its name at the hub; empty for one that was just built."""
        return str(getattr(self.model, "name_or_path", ""))

    @property
    def title(self) -> str:
        """Name of the model in messages."""
        return repr(self.name) if self.name else "the embedded model"

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.model.parameters()).device

    @property
    def has_adapter(self) -> bool:
        """True = an adapter stands on weights that were trained before."""
        from peft import PeftModel

        return isinstance(self.model, PeftModel)

    @property
    def end_id(self) -> int:
        """Token after which a text ends."""
        return int(self.tokenizer.eos_token_id)

    @property
    def pad_id(self) -> int:
        """Token that fills rows of unequal length; the end token for tokenizers without one."""
        pad = self.tokenizer.pad_token_id
        return self.end_id if pad is None else int(pad)

    @cached_property
    def _start(self) -> list[int]:
        return start_ids(self.tokenizer)

    def encode_prompt(self, prompt: str) -> list[int]:
        """Token ids of what a player is asked: as a user's message where there is a chat template, else the text."""
        if self.chat is None:
            return self.encode(prompt)
        return [*self.chat.head_ids, *self._plain(prompt.rstrip()), *self.chat.tail_ids]

    def encode_lines(self, head: str, lines: Sequence[str], tail: str) -> tuple[list[int], list[int]]:
        """Token ids of a prompt that lists actions on lines, and the place of the last token of each line.

        Lines are tokenised one by one, so that a line has the same tokens in every list.

        Args:
            head: text before the first line.
            lines: without their line breaks.
            tail: text after the last one.
        """
        ids = [*(self._start if self.chat is None else self.chat.head_ids), *self._plain(head)]
        ends = []
        for line in lines:
            ids += self._plain(line + "\n")
            ends.append(len(ids) - 1)
        after = [] if self.chat is None else self.chat.tail_ids
        return [*ids, *self._plain(tail), *after], ends

    def encode(self, text: str) -> list[int]:
        """Token ids of a text: the start token if this tokenizer adds one, then the text.

        The names of special tokens inside the text are plain text here: a file that contains `</s>` ends nothing.
        """
        return self._start + self._plain(text)

    def _plain(self, text: str) -> list[int]:
        return _plain(self.tokenizer, text)

    def encode_answers(self, prompt: str, texts: Iterable[str]) -> tuple[list[int], list[tuple[int, ...]]]:
        """Token ids of a prompt, and of each text where it answers the prompt.

        A prompt's ids never depend on what comes after it. If the last line, tokenised alone, gives the prompt's last
        ids, it alone decides how a text is cut, and is tokenised with each text in place of the whole prompt.
        """
        ids = self.encode_prompt(prompt)
        ending, head = self._ending(prompt, ids)
        return ids, [self._answer(ending, head, text) for text in texts]

    def encode_after(self, prompt: str, text: str) -> list[int]:
        """Token ids of `text` where it answers `prompt` (see `encode_answers`)."""
        return list(self.encode_answers(prompt, [text])[1][0])

    def continuation(self, prompt: str, text: str) -> list[int] | None:
        """Token ids of `text` right after `prompt`; None where a token would straddle the border."""
        ending = prompt if self.chat is None else self.chat.border
        joined = _continued(self.tokenizer, ending, tuple(self._plain(ending)), text)
        return None if joined is None else list(joined)

    def _ending(self, prompt: str, ids: Sequence[int]) -> tuple[str, tuple[int, ...]]:
        """The end of a prompt that decides how a text after it is cut, and its ids.

        It is the whole prompt where no part is known to decide.
        """
        if self.chat is not None:
            # The end of the message is the same after every prompt.
            return self.chat.border, tuple(self._plain(self.chat.border))
        line = prompt.rstrip().rfind("\n") + 1
        # Some tokenizers join a line break with what stands before it, some with what stands behind.
        for place in (line, line - 1):
            own = self._plain(prompt[place:]) if place > 0 else []
            if own and ids[-len(own) :] == own:
                return prompt[place:], tuple(own)
        return prompt, tuple(ids[len(self._start) :])

    def _answer(self, ending: str, head: tuple[int, ...], text: str) -> tuple[int, ...]:
        # Commands come again and again, long texts hardly.
        if len(ending) + len(text) <= KEPT_CHARACTERS:
            own = self._kept_continued(ending, head, text)
        else:
            own = _continued(self.tokenizer, ending, head, text)
        return tuple(self._plain(text)) if own is None else own

    @cached_property
    def _kept_continued(self) -> Callable[[str, tuple[int, ...], str], tuple[int, ...] | None]:
        # It holds the tokenizer and not the model: a model in a circle of references is freed late.
        return lru_cache(100_000)(partial(_continued, self.tokenizer))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""
        text = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def save(self, folder: Path) -> None:
        """Write a Hugging Face folder: configuration, safetensors, tokenizer.

        A model with an adapter writes the adapter alone, which records where its base model is.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if self.has_adapter:
            # PEFT would ask the hub for the base model to see whether its embeddings were resized.
            self.model.save_pretrained(str(folder), save_embedding_layers=False)
            # PEFT's form of a model card, empty but for the place of the base model.
            (folder / "README.md").unlink(missing_ok=True)
        else:
            self.model.save_pretrained(str(folder))
        self.tokenizer.save_pretrained(str(folder))
        if self.labels:
            write_json(folder / LABELS, list(self.labels))
        else:
            (folder / LABELS).unlink(missing_ok=True)
        if self.rule is None:
            (folder / SCORING).unlink(missing_ok=True)
        else:
            write_json(folder / SCORING, self.rule)

    def hash(self) -> str:
        """SHA-256 over names, formats and values of all parameters: equal exactly if no weight has changed."""
        import torch

        digest = hashlib.sha256()
        for name, weight in sorted(self.model.named_parameters()):
            digest.update(f"{name}|{weight.dtype}|{tuple(weight.shape)}|".encode())
            # As bytes, because NumPy has no bfloat16.
            digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def _plain(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    # `verbose` would warn of a long text without naming it; `check_context` refuses it by name.
    return tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True, verbose=False)


def _continued(
    tokenizer: PreTrainedTokenizerBase, ending: str, head: tuple[int, ...], text: str
) -> tuple[int, ...] | None:
    """Ids of a text after an ending with the ids `head`; None where a token would straddle the border."""
    # Tokenisers that put a space before a text's first word do not do so inside a text; the whole is therefore
    # tokenised at once.
    whole = tuple(_plain(tokenizer, ending + text))
    return whole[len(head) :] if whole[: len(head)] == head else None


def load_model(
    config: ModelConfig,
    path: str | Path | None = None,
    *,
    trainable: bool,
    seed: int = 0,
    progress: Progress = silent,
) -> LanguageModel:
    """The model that a path names, in evaluation mode (whoever trains or samples sets the mode).

    Args:
        config: number format, device, adapters.
        path: what `ModelConfig.path` may be; default: `config.path`.
        trainable: whether weights get gradients: those of the adapter if there is one, else all. A model that is not
            trainable has no parameter that requires a gradient.
        seed: for the random start of new adapters.
        progress: told which number format `auto` stands for here, and why.

    Raises:
        ModelError: the model cannot be used; the message says why and what to do.
    """
    from reflect_rl.models.frozen import keep_frozen
    from reflect_rl.models.network import reads_trees

    device = device_of(config.device)
    if config.precision == "auto":
        # Runs settle `auto` once for all jobs; this is for a model that is loaded alone.
        found = choose(device, adapters=config.lora.rank > 0)
        config = config.model_copy(update={"precision": found.precision})
        progress(1, 1, found.sentence)
    named = config.path if path is None else path
    source = resolve(named)
    adapter = source if has_adapter(source) else None
    base = base_of(source) if adapter else source
    check_trainable(config, adapter, trainable)
    tokenizer = _load_tokenizer(base, config, source)
    model: Any = _load_weights(base, config, device)
    if str(named).startswith(HUB) and not adapter:
        # An adapter records this name of its base; the place of the cache would be of use on this machine only.
        model.name_or_path = str(named).removeprefix(HUB)
    if adapter:
        model = load_adapter(model, adapter, trainable)
        # Nothing is set by a player: the sections of a run share the settings of its training.
        if trainable:
            check_adapter(model, adapter, config.lora)
    elif trainable and config.lora.rank:
        with forked_rng(seed):
            # The draw of the adapters must not move the global generator, from which others may draw later.
            model = new_adapter(model, config.lora, str(model.name_or_path))
    if adapter or config.lora.rank:
        from reflect_rl.models.dropout import draw_places

        draw_places(model)
    # Quantised weights were placed while they were loaded.
    if config.quantization == "none":
        with explained(base):
            model = model.to(device)
    if not trainable:
        model.requires_grad_(False)
    elif config.gradient_checkpointing:
        with explained(base):
            recompute_activations(model)
    # After the adapters are made, so that those of the lower blocks are frozen as well.
    if trainable and config.train_layers:
        train_last_blocks(model, config.train_layers, base)
    # New adapters of a model in bfloat16 are in float32; their products are taken in bfloat16 as well.
    mixed = config.precision == "mixed" or (config.precision == "bfloat16" and bool(adapter or config.lora.rank))
    if mixed:
        keep_input_format(model)
    language_model = LanguageModel(
        model.eval(),
        tokenizer,
        mixed,
        frame_of(tokenizer, base),
        trainable and config.gradient_checkpointing,
        _learned_labels(Path(source)),
        _learned_rule(Path(source)),
    )
    # Now, while no training has begun; the answers are kept.
    reads_trees(language_model)
    if trainable and config.train_layers:
        keep_frozen(language_model, config.train_layers)
    return language_model


def _learned_labels(folder: Path) -> tuple[str, ...]:
    """Labels that a folder's model was trained with, where it was saved with them."""
    if not (folder / LABELS).is_file():
        return ()
    found = read_json_value(folder / LABELS, "Save the model again.")
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ModelError(f"{folder / LABELS} holds no list of labels. Save the model again.")
    return tuple(found)


def _learned_rule(folder: Path) -> Rule | None:
    """Rule that a folder's policy was trained with, where it was saved with it."""
    if not (folder / SCORING).is_file():
        return None
    found: Rule = read_json_value(folder / SCORING, "Save the model again.")
    if found not in get_args(Rule):
        raise ModelError(f"{folder / SCORING} names none of {', '.join(get_args(Rule))}. Save the model again.")
    return found


def load_reader(config: ModelConfig, path: str | Path | None = None) -> LanguageModel:
    """The model of `load_model` without its weights, which can read texts and compute nothing.

    Raises:
        ModelError: the model cannot be used, as far as its files tell without reading the weights.
    """
    import torch
    from transformers import AutoModelForCausalLM

    source = resolve(config.path if path is None else path)
    base = base_model(source)
    tokenizer = _load_tokenizer(base, config, source)
    with explained(base), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(_causal_config(base))
    check_weight_files(base)
    return LanguageModel(model, tokenizer, chat=frame_of(tokenizer, base), labels=_learned_labels(Path(source)))


@contextmanager
def forked_rng(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Draw torch's random numbers from `seed` inside; afterwards the global generators are as before.

    Args:
        seed: of the numbers.
        device: where else than on the CPU numbers are drawn. Weights are drawn on the CPU whatever the device.
    """
    import torch

    devices: list[Any] = list(range(torch.cuda.device_count())) if device and device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        # `torch.manual_seed` seeds the CPU and all GPUs.
        seeded = torch.default_generator.manual_seed if device is None or device.type == "cpu" else torch.manual_seed
        seeded(seed)
        yield


def check_trainable(config: ModelConfig, adapter: str | None, trainable: bool) -> None:
    """Refuse weights that cannot be trained in their format, or read, with a ModelError."""
    if trainable and config.quantization != "none" and not config.lora.rank and adapter is None:
        raise ModelError(
            f"{config.quantization} weights cannot be trained. Set lora.rank (the paper: 64), or quantization = 'none'."
        )
    if trainable and config.precision == "bfloat16" and not config.lora.rank and adapter is None:
        raise ModelError(IN_BFLOAT16)
    if config.quantization != "none" and importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError(
            f"quantization {config.quantization!r} needs bitsandbytes: pip install reflect-rl[quantization]"
        )


# A step of 1e-5 changes a weight of 0.02 by a part in 2,000; numbers in bfloat16 are a part in 256 apart.
IN_BFLOAT16 = (
    "weights in bfloat16 would lose small steps to rounding. Set lora.rank, or precision = 'mixed', which trains "
    "weights in float32 with products in bfloat16."
)


def check_weights(network: torch.nn.Module) -> None:
    """Refuse to train all weights of a model that was loaded to play, with a ModelError."""
    import torch

    if any(not weight.is_floating_point() for weight in network.parameters()):
        raise ModelError("quantised weights cannot be trained. Set lora.rank, or quantization = 'none'.")
    if any(weight.dtype is torch.bfloat16 for weight in network.parameters()):
        raise ModelError(IN_BFLOAT16)


def device_of(name: str) -> torch.device:
    """The device that `ModelConfig.device` names.

    Raises:
        ModelError: there is none of this name.
    """
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            # A launcher of several processes on a machine numbers them; each takes the GPU of its number.
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    # torch knows more names, of devices that no model here was tried on.
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise ModelError(f"no device {name!r}. Known: auto, cpu, cuda, cuda:N, mps.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ModelError(
            f"device {name!r} is absent: this machine offers {torch.cuda.device_count()} CUDA devices to torch. "
            "Use device = 'auto' or 'cpu'."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ModelError("device 'mps' is absent on this machine. Use device = 'auto' or 'cpu'.")
    return device


def _load_tokenizer(base: str, config: ModelConfig, source: str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    folder = Path(base)
    # transformers 5 builds an empty tokenizer where the files are missing, so they are looked for first.
    if folder.is_dir() and not has_tokenizer(folder):
        raise ModelError(f"the model folder {base!r} has no tokenizer. Copy its tokenizer.json there.")
    with explained(base):
        tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=False, local_files_only=True)
    if config.chat_template == "never" or (source != base and reads_plain_text(source)):
        # A model that was trained on plain prompts is saved without the template, so that nobody puts it back. The
        # base of an adapter has it still.
        tokenizer.chat_template = None
    return tokenizer


def _causal_config(source: str) -> PretrainedConfig:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    if Path(source).is_dir() and not (Path(source) / "config.json").is_file():
        raise ModelError(f"the model folder {source!r} has no config.json. Name the folder that holds it.")
    with explained(source):
        config = AutoConfig.from_pretrained(source, trust_remote_code=False, local_files_only=True)
    # BERT has a causal variant in transformers, so the type alone does not tell.
    masked = any("ForMaskedLM" in name for name in config.architectures or ())
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or masked:
        raise ModelError(
            f"{source!r} is a {config.model_type!r} model, which is no causal language model. "
            "Choose one that generates text from left to right (GPT-2, Llama, Qwen, ...)."
        )
    # Models that also see or hear keep their language model, and its sizes, one level below.
    if getattr(config, "hidden_size", None) is None:
        raise ModelError(f"models of type {config.model_type!r} read more than text. Choose one that reads text alone.")
    return config


def _load_weights(source: str, config: ModelConfig, device: torch.device) -> PreTrainedModel:
    import torch
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM

    from reflect_rl.models.attention import ATTENTION

    causal = _causal_config(source)
    check_weight_files(source)
    # A setting of the model's own config.json, which would name other weights than those that were checked.
    if getattr(causal, "transformers_weights", None) is not None:
        raise ModelError(f"config.json of {source!r} sets transformers_weights. Remove it and name the files as usual.")
    quantized = {} if config.quantization == "none" else _quantized(config, device)
    # Asked for first: transformers refuses `sdpa` for architectures without it.
    offers_sdpa = getattr(MODEL_FOR_CAUSAL_LM_MAPPING[type(causal)], "_supports_sdpa", False)

    def loaded(attention: str) -> Any:
        return AutoModelForCausalLM.from_pretrained(
            source,
            config=causal,
            dtype=torch.bfloat16 if config.precision == "bfloat16" else torch.float32,
            attn_implementation=attention,
            use_safetensors=True,
            trust_remote_code=False,
            # A folder is complete, or it is refused: nothing is looked for elsewhere.
            local_files_only=True,
            output_loading_info=True,
            **quantized,
        )

    with explained(source):
        try:
            model, found = loaded(ATTENTION if offers_sdpa else "eager")
        except KeyError as error:
            # Falcon looks its attention up in a list of its own, before any weight is read.
            if error.args != (ATTENTION,):
                raise
            model, found = loaded("sdpa")
    # transformers gives missing parameters random values, with a warning only.
    if missing := sorted(found["missing_keys"]):
        raise ModelError(
            f"the weights in {source!r} lack {len(missing)} parameters of a causal language model, "
            f"the first is {missing[0]!r}. The file is incomplete, or it belongs to another kind of model."
        )
    _keep_weight_layout(model)
    return model


def _quantized(config: ModelConfig, device: torch.device) -> dict[str, Any]:
    """Arguments of `from_pretrained` for 8-bit (Dettmers et al. 2022) or 4-bit NF4 (Dettmers et al. 2023) weights."""
    import torch
    from transformers import BitsAndBytesConfig

    if device.type == "mps":
        raise ModelError(f"quantization {config.quantization!r} does not run on device 'mps'. Use 'cuda', or 'none'.")
    eight = config.quantization == "8bit"
    settings = BitsAndBytesConfig(
        load_in_8bit=eight,
        load_in_4bit=not eight,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float32 if config.precision == "float32" else torch.bfloat16,
    )
    # The empty name is the whole model.
    return {"quantization_config": settings, "device_map": {"": str(device)}}


def _keep_weight_layout(model: Any) -> None:
    # On CPUs with AVX512-BF16, bitsandbytes (0.50) repacks 4-bit weights at the first pass without gradients, for a
    # kernel that has no backward. Training after a rollout would silently lose the gradients of most layers.
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
