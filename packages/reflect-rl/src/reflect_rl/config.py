"""Configuration: TOML file + command line -> frozen, validated pydantic models.

Each field is a name, a type, a bound and a docstring; the docstring is its `--help`. Parts that are chosen by name
(environment, algorithm, curriculum) are narrowed to the `Config` of the chosen file, so that only its fields exist.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from reflect_rl import registry
from reflect_rl.errors import BrokenPartError, ConfigError, suggestion
from reflect_rl.paths import expanded

Model = TypeVar("Model", bound="Frozen")
Added = TypeVar("Added", bound="Section")


class Frozen(BaseModel):
    """A configuration part: immutable, and an unknown key is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        validate_default=True,
        allow_inf_nan=False,
    )

    takes_sections: ClassVar[bool] = False
    """True where installed distributions may add sections (`reflect_rl.settings`)."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_silent_conversion(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what pydantic would convert to something else than what was meant."""
        annotation = cls.model_fields[info.field_name].annotation if info.field_name else None
        kinds = {annotation, *get_args(annotation)}
        # Python counts true as 1, and an empty path as the current folder.
        if kinds & {int, float} and bool not in kinds:
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, bool):
                    raise PydanticCustomError("bool_as_number", "no number")
        if Path in kinds and value == "":
            raise PydanticCustomError("empty_path", "empty")
        # No shell has seen a path of a run file, and a folder named `~` is dangerous to delete.
        if Path in kinds and isinstance(value, str | Path) and str(value).startswith("~/"):
            found = expanded(value)
            # Defaults are paths; to refuse them would refuse every run where there is no home folder.
            if isinstance(value, str) and found.parts[:1] == ("~",):
                raise PydanticCustomError("no_home", "no home folder")
            return found
        return value


class Section(Frozen):
    """Settings that an installed distribution adds to a run, under the entry point group `reflect_rl.settings`.

    The name of the entry point is the section's place, for example `data.annotation` for `[data.annotation]`. Default
    values are taken as they are, without validation: of a package that a run does not use, no code runs.
    """

    free: ClassVar[tuple[str, ...]] = ()
    """Settings that change no result, so that a run may go on with others."""
    addresses: ClassVar[tuple[str, ...]] = ()
    """Settings of which only the presence changes results: servers move."""
    followed_by: ClassVar[tuple[str, ...]] = ("data", "sft", "rlft", "evaluation")
    """Folders of a unit that hold what follows from the section.

    An evaluation of what an installed stage has left in one of them needs the section as it was.
    """

    @classmethod
    def unset(cls) -> Self:
        """The section that says nothing: its defaults, none of which was validated."""
        return cast(Self, cls.model_construct())


def sections() -> dict[str, type[Section]]:
    """The sections that installed distributions add, by their places, outer ones first.

    Raises:
        ConfigError: one of them cannot be imported, or is no `Section`.
    """
    found = {name: _class_of("settings", name, "reflect_rl.settings") for name in registry.names("settings")}
    for name, kind in found.items():
        if not (isinstance(kind, type) and issubclass(kind, Section)):
            raise ConfigError(f"reflect_rl.settings: {name!r} is no model over reflect_rl.config.Section.")
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Section)}


def section(config: Frozen, place: str, kind: type[Added]) -> Added:
    """The values of a section.

    Args:
        config: the whole configuration.
        place: of the section, as its entry point says.
        kind: its model; where the configuration was not parsed, and so has no sections, its defaults.
    """
    value: object = config
    for key in place.split("."):
        # The class is made at run time with these fields, so no type checker knows them.
        value = getattr(value, key, None)
    return value if isinstance(value, kind) else kind.unset()


def sections_of(config: Frozen) -> dict[str, Section]:
    """The sections that say something else than their defaults, by their places."""
    found = {place: section(config, place, kind) for place, kind in sections().items()}
    return {place: part for place, part in found.items() if part != type(part).unset()}


# Shared with the models that `TextEnv` makes for classes without a `Config` of their own.
MOST_STEPS = 10_000

STEPS_HELP = "Turns after which an episode is truncated."


class EnvironmentConfig(Frozen):
    """The benchmark."""

    name: str = "dangerous_taxi"
    """Environment: an installed one, or `package.module:Class`."""
    max_episode_steps: int = Field(30, ge=1, le=MOST_STEPS, description=STEPS_HELP)
    modes: tuple[str, ...] = ()
    """Variants to train and evaluate (empty: all)."""


class AlgorithmConfig(Frozen):
    """The RL algorithm."""

    name: str = "ppo"
    """Algorithm: an installed one, or `package.module:Class`."""

    @property
    def needs_reference(self) -> bool:
        """True where the loss compares the policy with its frozen start, which then stays in memory."""
        return False

    @property
    def credits_episodes(self) -> bool:
        """True where a turn is credited with the return of its whole episode, whatever the discount."""
        return False


class CurriculumConfig(Frozen):
    """The order in which tasks are trained."""

    name: str = "uniform"
    """Curriculum: an installed one, or `package.module:Class`."""

    @property
    def named_modes(self) -> tuple[str, ...]:
        """Modes that the settings name, or several joined by plus signs; some curricula know none."""
        return ()


FOLDERS: dict[type[Frozen], registry.Kind] = {
    EnvironmentConfig: "environments",
    AlgorithmConfig: "algorithms",
    CurriculumConfig: "curricula",
}
"""Parts that are chosen by name, and the folder the name is looked up in."""


def narrow(model: type[Model], values: Mapping[str, Any], prefix: str = "") -> type[Model]:
    """The model with every named part replaced by the `Config` of the chosen file.

    Args:
        model: a configuration model.
        values: the raw values (nested mappings), which carry the names.
        prefix: dotted path of `model` inside the whole, for messages.

    Raises:
        ConfigError: a part is no table, or its name is no text.
        UnknownNameError: a name is not in the catalog.
    """
    return _narrow(model, values, prefix, sections() if model.takes_sections else {})


def _narrow(
    model: type[Model], values: Mapping[str, Any], prefix: str, added: Mapping[str, type[Section]]
) -> type[Model]:
    fields: dict[str, Any] = {}
    parts: dict[str, Any] = {key: field.annotation for key, field in model.model_fields.items()}
    for place, section_class in added.items():
        if place.rpartition(".")[0] == prefix.rstrip("."):
            parts[place.rpartition(".")[2]] = section_class
    # pydantic chooses between classes that are known beforehand; those of other packages are found at run time.
    for key, kind in parts.items():
        if not (isinstance(kind, type) and issubclass(kind, Frozen)):
            continue
        part = values.get(key, {})
        if not isinstance(part, Mapping):
            raise ConfigError(f"{prefix}{key}: expected a table [{prefix}{key}], got {part!r}.")
        chosen: type[Frozen] = kind
        # The name decides which keys the table may have, so it is read before anything is validated.
        if kind in FOLDERS:
            name = part.get("name", kind.model_fields["name"].default)
            if not isinstance(name, str):
                raise ConfigError(f"{prefix}{key}.name: expected a text, got {name!r}.")
            chosen = config_of(FOLDERS[kind], name, f"{prefix}{key}.name")
        else:
            chosen = _narrow(kind, part, f"{prefix}{key}.", added)
        if chosen is not kind or key not in model.model_fields:
            info = Field(default_factory=chosen)
            if issubclass(chosen, Section):
                info = Field(default_factory=chosen.unset, validate_default=False)
            fields[key] = (chosen, info)
    # A subclass, so that `isinstance` with the original model still holds.
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **fields) if fields else model


def config_of(kind: registry.Kind, name: str, key: str) -> type[Frozen]:
    """The settings of a part that is chosen by name.

    Args:
        kind: group of the part.
        name: of an installed part, or `package.module:Class`.
        key: where the name was given, for messages.

    Raises:
        ConfigError: the module fails on import, or the class has no `Config`.
        UnknownNameError: no such part.
    """
    found = _class_of(kind, name, key)
    settings = getattr(found, "Config", None)
    if not (isinstance(found, type) and isinstance(settings, type) and issubclass(settings, Frozen)):
        raise ConfigError(f"{key}: {name!r} is no class with a `Config`, a model over reflect_rl.Frozen.")
    return settings


def default_part(kind: type[Model]) -> Model:
    """The settings of the part that is chosen where no name is given, as `parse` makes them.

    Args:
        kind: group of the part, a key of `FOLDERS`.
    """
    chosen = config_of(FOLDERS[kind], kind.model_fields["name"].default, "name")
    return cast("Model", chosen())


def _class_of(kind: registry.Kind, name: str, key: str) -> object:
    try:
        found: object = registry.find(kind, name)
    except BrokenPartError as error:
        raise ConfigError(f"{key}: {error}") from error
    return found


def parse(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Validated configuration from raw values.

    Raises:
        ConfigError: names the key, the value and the nearest valid key, for every mistake found.
        UnknownNameError: a named part is not in the catalog.
    """
    narrowed = narrow(model, values)
    try:
        # Narrowed first: `extra="forbid"` then knows which keys the chosen part has.
        return narrowed.model_validate(values)
    except ValidationError as error:
        # pydantic's own message shows all input, keys among them, and links to a web page.
        raise ConfigError(explain(narrowed, error)) from None


def explain(model: type[Frozen], error: ValidationError) -> str:
    """Messages of all mistakes, a line each, that name the key, the value and the remedy."""
    return "\n".join(dict.fromkeys(_line(model, dict(item)) for item in error.errors() if not _echo(dict(item), error)))


SECRET = re.compile(r"(^|(api|auth|access|secret|private)[_-]?)(key|token|secret|password)$", re.IGNORECASE)
"""Names under which users may write a key of theirs."""


def may_hold_secret(name: str) -> bool:
    """Tell whether an unknown setting may hold a secret; messages end up in logs, so they leave its value out.

    >>> may_hold_secret("api_key"), may_hold_secret("key_variable")
    (True, False)
    """
    return SECRET.search(name) is not None


SENTENCES = {
    "greater_than": "{value} is too small. It must be above {gt}.",
    "greater_than_equal": "{value} is too small. The lowest value is {ge}.",
    "less_than": "{value} is too large. It must be below {lt}.",
    "less_than_equal": "{value} is too large. The highest value is {le}.",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float", "int_parsing_size"), "{value!r} is no whole number."),
    **dict.fromkeys(("float_parsing", "float_type"), "{value!r} is no number."),
    "bool_as_number": "{value!r} is a truth value. Write a number.",
    "finite_number": "{value} is not finite. Write a number.",
    **dict.fromkeys(("bool_parsing", "bool_type"), "{value!r} is neither true nor false."),
    **dict.fromkeys(("string_type", "path_type"), "{value!r} is no text. Put it in quotes."),
    "no_home": "there is no home folder for {value!r}. Write the whole path.",
    "empty_path": "the path is empty. Name a file or folder, or leave the setting out.",
    **dict.fromkeys(("tuple_type", "list_type"), "{value!r} is no list. Put it in brackets."),
    "too_short": "the list is empty. Name at least {min_length}.",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "{value!r} is no table."),
    "missing": "it is missing.",
}
"""Kind of a mistake in pydantic's words -> what is wrong with the value, and the remedy."""

QUOTED = r"'([^']+)'"
"""A name in the list of known ones that pydantic gives."""


def _line(model: type[Frozen], item: dict[str, Any]) -> str:
    path = [str(part) for part in item["loc"]]
    key, value = ".".join(path), item["input"]
    if item["type"] == "extra_forbidden":
        return _unknown_key(path, value, _part(model, path[:-1]).model_fields)
    if item["type"] == "value_error":  # a rule about several keys; its message names them
        message = str(item["ctx"]["error"])
        end = "" if message.endswith((".", "?")) else "."
        return f"{key}: {message}{end}" if key else f"{message}{end}"
    if item["type"] == "literal_error" and isinstance(value, str):
        return f"{key}: {value!r} is not known. {suggestion(value, re.findall(QUOTED, item['ctx']['expected']))}"
    sentence = SENTENCES.get(item["type"])
    if sentence is None:
        return f"{key}: {item['msg']}, got {value!r}."
    bounds = {
        name: int(bound) if isinstance(bound, float) and bound.is_integer() else bound
        for name, bound in item.get("ctx", {}).items()
    }
    return f"{key}: {sentence.format(value=value, **bounds)}"


def _unknown_key(path: Sequence[str], value: object, known: Iterable[str]) -> str:
    key = ".".join(path)
    if sentence := registry.companion("settings", key):
        return sentence[0].upper() + sentence[1:]
    if may_hold_secret(path[-1]):
        return f"unknown key {key!r}. A key belongs into an environment variable only, never into a configuration."
    return f"unknown key {key!r} (value {value!r}). {suggestion(path[-1], known)}"


def _echo(item: dict[str, Any], error: ValidationError) -> bool:
    """Tell whether a sequence is too short only because pydantic left out its wrong entries."""
    place = item["loc"]
    return item["type"] == "too_short" and any(
        len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in error.errors()
    )


def _part(model: type[Frozen], path: list[str]) -> type[Frozen]:
    for name in path:
        field = model.model_fields.get(name)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, Frozen)):
            break
        model = field.annotation
    return model


def read_toml(path: Path) -> dict[str, Any]:
    """The raw values of a TOML file.

    Raises:
        ConfigError: the file is missing, unreadable, or no TOML.
    """
    try:
        # Some editors on Windows begin a file with a byte order mark, which TOML does not allow.
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        # A table with a long dotted name is read without any recursion, which whoever walks through it then meets.
        if registry.is_deep(values):
            raise RecursionError
        return values
    except FileNotFoundError:
        # A word without the ending is most often the folder of a run.
        kind = "configuration file" if path.suffix == ".toml" else "configuration file or run folder"
        raise ConfigError(f"there is no {kind} {str(path)!r}. Examples are under configs/.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read configuration file {str(path)!r}: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{path}: its values are nested too deeply for a configuration.") from None
    # Also of a number of thousands of digits.
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}.") from None


EMBEDDED = "embedded"
"""The `path` that stands for the small model which the pipeline builds itself."""

Rule = Literal["choice_token", "line_end", "sum", "token_mean"]
"""Ways to read the probability of an action off the model; `models.score` explains each."""


class EmbeddedConfig(Frozen):
    """The embedded model: its shape. It is trained from scratch, weights and tokenizer."""

    architecture: Literal["llama", "gpt2"] = "gpt2"
    """Layers of the model: `gpt2` (learned positions, ReLU; reads maps sooner) or `llama` (rotary positions)."""
    hidden_size: int = Field(64, ge=8, le=1024)
    """Width of the hidden states; a multiple of 2 x heads."""
    layers: int = Field(3, ge=1, le=24)
    """Number of transformer blocks."""
    heads: int = Field(4, ge=1, le=32)
    """Attention heads per block."""
    vocabulary_size: int = Field(512, ge=320, le=65_536)
    """Largest number of tokens; 256 of them are the bytes, 54 the cells of a map."""
    pieces: Literal["words", "phrases"] = "words"
    """Longest text that a token may stand for: a word, or `phrases` of words that recur, with the number behind them.
    Phrases halve ALFWorld's prompts, and so training time; on maps they gain little (docs/reference/speed.md)."""
    context_tokens: int = Field(512, ge=16, le=8192)
    """Longest sequence, in tokens."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % (2 * self.heads):
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of 2 x heads = {2 * self.heads}")
        return self


class LoRAConfig(Frozen):
    """Low-rank adapters (Hu et al. 2022) instead of training all weights."""

    rank: int = Field(0, ge=0, le=1024)
    """Rank of the update (the paper: 64). 0 trains all weights, or goes on with the adapter that the folder holds."""
    alpha: int = Field(16, ge=1)
    """The update is scaled by alpha / rank. An adapter that the folder holds keeps its own alpha, dropout and target
    modules. A setting that is neither the adapter's nor the default is refused."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout on the input of the adapters, while training."""
    target_modules: str = "all-linear"
    """Layers that get an adapter: `all-linear`, or a regular expression over module names."""

    @field_validator("target_modules")
    @classmethod
    def _is_expression(cls, value: str) -> str:
        # PEFT would compile it when the data are made and the model is loaded.
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is no regular expression ({error})") from None
        return value


class ModelConfig(Frozen):
    """A language model."""

    path: str = EMBEDDED
    """`embedded` = a small model trained from scratch; else any Hugging Face causal LM: a name that `reflect-rl model
    get` takes (`smollm2-135m`), a local folder, a GGUF file, or `hub:owner/name`."""
    chat_template: Literal["auto", "never"] = "auto"
    """`auto` = prompts are put as a user's message where the model comes with a chat template; `never` = plain text."""
    embedded: EmbeddedConfig = EmbeddedConfig()
    """Shape of the embedded model; not used with other models."""
    lora: LoRAConfig = LoRAConfig()
    """Low-rank adapters."""
    quantization: Literal["none", "8bit", "4bit"] = "none"
    """Store the frozen weights in 8 or 4 bits; training then needs an adapter (lora.rank > 0)."""
    train_layers: int = Field(0, ge=0)
    """Number of last transformer blocks that are trained, with adapters or without; 0 = all. On a CPU what the
    frozen blocks gave for a prompt is kept (up to 1 GiB), where actions are scored by labels or lines."""
    precision: Literal["float32", "mixed", "bfloat16", "auto"] = "float32"
    """Number format: of everything, or `mixed` = weights in float32 and matrix products in bfloat16. New adapters are
    in float32 in any case. `auto` measures at the start of a run whether bfloat16 is faster here."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory for a token, half as much time again."""
    device: str = "auto"
    """`auto` = the GPU of this process if there is one; else `cpu`, `cuda`, `cuda:1`, `mps`."""
