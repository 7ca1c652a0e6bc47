"""A player that can be used: the trained policy, its reflection player, and how they play.

A player is a folder: `settings.json`, `policy/` (safetensors and tokenizer), and `reflector/` where the reflections are
written by a language model. It is exported from a run; a run folder can also be played as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from reflect_locate.envs import autoexplore
from reflect_locate.evidence import Weights
from reflect_locate.truncation import TruncatingPolicy
from reflect_rl.config import Frozen, ModelConfig, Rule, parse
from reflect_rl.errors import ConfigError, ModelError, UnknownNameError, suggestion
from reflect_rl.evaluation.methods import METHODS, find_method
from reflect_rl.models.labels import Labels, find_labels
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.paths import expanded
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.players.scripted import LexicalReflector
from reflect_rl.registry import refuse_foreign
from reflect_rl.rollout import NoReflector, Reflector
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.folder import Unit, units
from reflect_rl.store import read_json, whole_folder, write_json
from reflect_rl.types import Decoding

PACKAGED = Path(__file__).with_name("player")
"""The player that comes with this package."""
MADE_BY = "reflect-rl run configs/autoexplore/default.toml"
SETTINGS = "settings.json"
# A player travels without its run, so what tells where it comes from goes along.
NOTED = ("command", "config_hash", "fingerprint", "git_commit", "versions", "created", "finished", "hardware")
"""Entries of a run's card that are noted with a player."""


class PlayerSettings(Frozen):
    """Settings of a player, and its origin."""

    version: Literal[1] = 1
    """Version of this file."""
    environment: autoexplore.Config = Field(default_factory=autoexplore.Config)
    """The game as the player knows it; the task set is not part of it."""
    reflector: Literal["lexical", "model", "none"] = "lexical"
    """Writer of the reflections; `model` = the one in `reflector/`."""
    max_new_tokens: int = Field(96, ge=1)
    """Longest reflection of a model, in tokens."""
    scoring: Rule = "choice_token"
    """Rule by which actions are scored."""
    labels: tuple[str, ...] = ()
    """Names of the numbered actions, in order."""
    weights: Weights = Field(default_factory=Weights)
    """Weight of each kind of evidence for a file (see `evidence`)."""
    threshold: float = Field(0.2, ge=0, le=1)
    """Confidence below which nothing is found (see `locate`)."""
    trained: Mapping[str, Any] = Field(default_factory=dict)
    """Run, unit and method that it comes from."""


@dataclass(frozen=True)
class _Place:
    """Places of the parts of a player."""

    settings: PlayerSettings
    policy: Path
    reflector: Path | None = None


@dataclass(frozen=True)
class Player:
    """A loaded player."""

    settings: PlayerSettings
    model: LanguageModel
    labels: Labels
    reflector: Reflector

    def policy(self, decoding: Decoding) -> TruncatingPolicy:
        """The policy, greedy or sampling; both share the model, not the memory."""
        return self._policies[decoding]

    @cached_property
    def _policies(self) -> dict[Decoding, TruncatingPolicy]:
        decodings: tuple[Decoding, ...] = ("greedy", "sampled")
        return {
            d: TruncatingPolicy(self.model, self.labels, d, self.settings.scoring, cache_size=2000) for d in decodings
        }


def load_player(folder: Path | None = None, unit: str = "", method: str = "", device: str = "auto") -> Player:
    """The player of a folder.

    Args:
        folder: a player or a run (None: the packaged player).
        unit: of a run: for example `starts-100/seed-0` (empty: its first).
        method: of a run (empty: the last trained one that its configuration names).
        device: see `ModelConfig.device`.

    Raises:
        ModelError: no such player, or one that cannot be used.
        UnknownNameError: the run has no such unit, or there is no such method.
    """
    place = _find(folder, unit, method)
    settings = place.settings
    model = load_model(ModelConfig(device=device), place.policy, trainable=False)
    game = autoexplore.AutoExplore(settings.environment)
    count = game.max_actions
    # The largest number of actions, so that labels do not depend on the state.
    labels = find_labels(model, count, settings.scoring)
    # Labels are found in the tokenizer; another one would number the actions otherwise, and play at random.
    if settings.scoring == "choice_token" and settings.labels not in ((), labels.texts):
        raise ModelError(
            f"the tokenizer of {place.policy} does not name the actions as it did in training. Export the player again."
        )
    reflector: Reflector = NoReflector()
    if settings.reflector != "none":
        reflector = LexicalReflector(game)
    if place.reflector is not None:
        writer = load_model(ModelConfig(device=device), place.reflector, trainable=False)
        reflector = FrozenReflector(writer, settings.max_new_tokens, numbers=game.action_numbers)
    return Player(settings, model, labels, reflector)


def export_player(
    run: Path,
    target: Path,
    unit: str = "",
    method: str = "",
    answers: Mapping[str, Any] = MappingProxyType({}),
    notes: Mapping[str, Any] = MappingProxyType({}),
    *,
    half: bool = False,
) -> Path:
    """Copy a trained player out of a run.

    Args:
        run: a run folder, or a player.
        target: folder for the player, which must not be there yet.
        unit: for example `starts-100/seed-0` (empty: the run's first).
        method: whose players (empty: the last trained one that the run's configuration names).
        answers: settings of the player's answers, `weights` and `threshold` (unset: as they were).
        notes: what is kept under `trained` besides the run's card, such as how these were measured.
        half: store weights in 16 bits, half the size, rounded to 11 bits of precision. Players compute in 32.

    Returns:
        the folder.

    Raises:
        ModelError: the method is not trained, or the target exists.
        UnknownNameError: the run has no such unit, or there is no such method.
    """
    # Never overwritten: a player may be the only copy of hours of training.
    if target.exists():
        raise ModelError(f"{target} exists. Choose another folder for the player, or delete it.")
    place = _find(run, unit, method)
    values = place.settings.model_dump(mode="json")
    values |= answers
    values["environment"].pop("tasks")  # a place on this machine
    # On the CPU, since nothing is computed and a busy GPU must not stop an export.
    model = load_model(ModelConfig(device="cpu"), place.policy, trainable=False)
    count = autoexplore.AutoExplore(place.settings.environment).max_actions
    values["labels"] = list(find_labels(model, count, place.settings.scoring).texts)
    with whole_folder(target, replaces=False) as fresh:
        _store(model, fresh / "policy", half=half)
        values["trained"] |= {"weights": model.hash(), **notes}
        if place.reflector is not None:
            writer = load_model(ModelConfig(device="cpu"), place.reflector, trainable=False)
            _store(writer, fresh / "reflector", half=half)
        write_json(fresh / SETTINGS, values)
    return target


def _store(model: LanguageModel, folder: Path, *, half: bool) -> None:
    """Write a model; afterwards it is the one that will be read."""
    # Rounded before the hash is taken, so that it is the hash of the weights in the file.
    if half:
        model.model.half()
    model.save(folder)
    model.model.float()


def _find(folder: Path | None, unit: str, method: str) -> _Place:
    if folder is None:
        if not (PACKAGED / SETTINGS).is_file():
            raise ModelError(
                f"no player comes with this installation. Make one with `{MADE_BY}`, and name its run folder: "
                "--model runs/autoexplore-default."
            )
        return _of_player(PACKAGED)
    folder = expanded(folder)
    if (folder / SETTINGS).is_file():
        return _of_player(folder)
    if (folder / "config.json").is_file() and (folder / "run.json").is_file():
        return _of_run(folder, unit, method)
    raise ModelError(
        f"{str(folder)!r} is neither a player (a folder with {SETTINGS}) nor a run folder. Make a run with `{MADE_BY}`."
    )


def _of_player(folder: Path) -> _Place:
    values = read_json(folder / SETTINGS, "Export the player again.")
    if not isinstance(values, dict):
        raise ModelError(f"{folder / SETTINGS} holds no settings. Export the player again.")
    try:
        settings = parse(PlayerSettings, values)
    except (ConfigError, UnknownNameError) as error:
        raise ModelError(f"{folder / SETTINGS}: {error} Export the player again.") from None
    return _Place(settings, folder / "policy", folder / "reflector" if settings.reflector == "model" else None)


def _of_run(run: Path, unit_name: str, method: str) -> _Place:
    trained = [entry.name for entry in METHODS if entry.model]
    if method and method not in trained:
        raise UnknownNameError(f"no trained method {method!r}. {suggestion(method, trained)}")
    values = read_json(run / "config.json", f"Is {run} a run folder? Make one with `{MADE_BY}`.")
    card = read_json(run / "run.json", f"Is {run} a run folder? Make one with `{MADE_BY}`.")
    refuse_foreign(values, run / "config.json")
    config = parse(RunConfig, {**values, "output_dir": str(run)})
    if not isinstance(config.environment, autoexplore.Config):
        raise ModelError(f"{run} is a run of {config.environment.name!r}, whose players cannot find files.")
    # Labels that are drawn anew in each prompt have no fixed order to store.
    if config.prompt.shuffle_labels:
        raise ModelError(f"{run} was trained with prompt.shuffle_labels, and players are used with ordered labels.")
    named = [name for name in config.methods if name in trained]
    if not (method or named):
        raise ModelError(f"{run} is a run of {list(config.methods)}, none of which is trained.")
    method = method or named[-1]
    known = {entry.name: entry for entry in units(config)}
    if unit_name and unit_name not in known:
        raise UnknownNameError(f"the run {run} has no unit {unit_name!r}. {suggestion(unit_name, known)}")
    unit = known[unit_name] if unit_name else next(iter(known.values()))
    policy, reflector = _models(unit, method)
    for folder in (policy, reflector):
        if folder is not None and not folder.is_dir():
            raise ModelError(f"{run} has no model of {method!r} in {folder}. Train it with `reflect-rl run {run}`.")
    kind = find_method(method).reflector
    settings = PlayerSettings(
        environment=config.environment,
        reflector="none" if kind is None else "lexical" if reflector is None else "model",
        max_new_tokens=config.reflector.max_new_tokens,
        scoring=config.prompt.scoring,
        trained={"unit": unit.name, "method": method, **{key: card.get(key) for key in NOTED}},
    )
    return _Place(settings, policy, reflector)


def _models(unit: Unit, method: str) -> tuple[Path, Path | None]:
    """Folders of the policy and of the model that writes reflections."""
    entry = find_method(method)
    policy = unit.folder / entry.trainer / method / "model" if entry.trainer else unit.model(entry.policy or "base")
    is_written = entry.reflector is not None and not entry.is_lexical
    return policy, unit.model(str(entry.reflector)) if is_written else None
