"""The models of a run, and the reflection players that are made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reflect_rl import registry
from reflect_rl.config import EMBEDDED, ModelConfig, sections_of
from reflect_rl.data.generate import BASE
from reflect_rl.envs.base import EnvSpec, HasStateTeacher, NumbersActions
from reflect_rl.errors import ModelError, RunFolderError
from reflect_rl.evaluation.methods import Method
from reflect_rl.launch import process_rank
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.players.scripted import LexicalReflector
from reflect_rl.rollout import NoReflector, Policy, Reflector
from reflect_rl.runs.config import BuiltForRun, HostsReflector, ReflectorConfig, RunConfig
from reflect_rl.runs.folder import Job, Unit, check_job
from reflect_rl.store import whole_folder
from reflect_rl.training.metrics import MetricsLog
from reflect_rl.types import Decoding

if TYPE_CHECKING:
    from reflect_rl.players.reflectors import FrozenReflector, Numbers

REFLECTOR = "reflector"
"""Folder of a trained reflection player beside the policy's `model`, in the folder of a stage's job."""


def base_folder(settings: ModelConfig, unit: Unit) -> Path | None:
    """Folder of the model that both players start from; None = the configured model itself."""
    return unit.model(BASE) if settings.path == EMBEDDED else None


def load_of_run(
    settings: ModelConfig, folder: Path | None, made_by: Path, *, trainable: bool, seed: int = 0
) -> LanguageModel:
    """A model of the run.

    Args:
        settings: of the run's model.
        folder: the model (None: the configured one).
        made_by: folder of the job that made it.
        trainable: whether its weights get gradients.
        seed: for the random start of new adapters, which a model of the run has already.

    Raises:
        ModelError: the configured model cannot be used.
        RunFolderError: a model that the run made is missing or corrupt; the message says how to make it again.
    """
    # Imported late: whoever plans a run asks for folders only, and needs no torch.
    from reflect_rl.models.score import check_scoring

    if folder is not None:
        check_job(made_by, maker_of(made_by))
    try:
        model = load_model(settings, folder, trainable=trainable, seed=seed)
    except ModelError as error:
        # Only a model that the run made can be made again. Libraries name a file as given, or by its resolved path.
        if folder is None or not any(str(name) in str(error) for name in (folder, folder.resolve())):
            raise
        raise RunFolderError(
            f"{error} This run made it: delete {made_by / 'done'} and run `reflect-rl {maker_of(made_by)}` again."
        ) from None
    # Here, because an architecture that changes its logits would train without any error, on wrong probabilities.
    check_scoring(model)
    return model


def maker_of(folder: Path) -> str:
    """The command that does the job of this folder (no model is made by any other)."""
    return "data" if folder.name == "data" else folder.parent.name


def numbers_of(spec: EnvSpec, settings: ReflectorConfig) -> Numbers | None:
    """Find the numbers of a state's actions, which correct reflections; None = these stay as written."""
    game = spec.capability(NumbersActions)
    return None if game is None or not settings.set_numbers else game.action_numbers


def reflector_of(config: RunConfig, unit: Unit, name: str) -> Reflector:
    """The reflection player of a method."""
    method = config.method(name)
    if method.writer:
        return installed_reflector(config, method.writer, name)
    if method.reflector is None:
        return NoReflector()
    if method.is_lexical:
        return lexical_reflector(config.env)
    trained = unit.folder / method.trainer / name / REFLECTOR
    # A stage that trains the reflection player, too, leaves it beside its policy.
    if method.trainer and trained.is_dir():
        return frozen_reflector(config, trained, trained.parent)
    return own_reflector(config, unit, method.reflector)


def own_reflector(config: RunConfig, unit: Unit, dataset: str) -> Reflector:
    """The frozen reflection player that the run trained on this data set."""
    # A section of an installed distribution may let it write elsewhere, for example on a server.
    for section in sections_of(config).values():
        if isinstance(section, HostsReflector):
            hosted = section.reflector(config, unit.model(dataset))
            if hosted is not None:
                return hosted
    return frozen_reflector(config, unit.model(dataset), unit.sft(dataset))


def frozen_reflector(config: RunConfig, folder: Path, made_by: Path) -> FrozenReflector:
    """The reflection player that the model of this folder is; `made_by` is the folder of its job."""
    # Without gradients: the reflection player is part of the environment that online RL sees (Reflect-RL, stage 2).
    return as_reflector(config, load_of_run(config.model, folder, made_by, trainable=False))


def as_trained(model: LanguageModel, config: RunConfig) -> LanguageModel:
    """A policy that a run has trained, with the rule and the labels that another program needs to ask it."""
    from reflect_rl.models.labels import find_labels

    rule = config.prompt.scoring
    labels = find_labels(model, config.env.max_actions, rule).texts if rule == "choice_token" else ()
    return replace(model, rule=rule, labels=labels)


def policy_of(config: RunConfig, model: LanguageModel, decoding: Decoding, name: str = "language_model") -> Policy:
    """The policy that a model is under the settings of a run.

    Args:
        config: of the run.
        model: trained, or as it comes.
        decoding: how its actions are chosen.
        name: of the player.

    Raises:
        ModelError: its tokenizer has not enough labels for the game's actions.
    """
    from reflect_rl.models.labels import find_labels
    from reflect_rl.players.language_model import LanguageModelPolicy

    rule = config.prompt.scoring
    return LanguageModelPolicy(model, find_labels(model, config.env.max_actions, rule), decoding, rule, name)


def as_reflector(config: RunConfig, model: LanguageModel) -> FrozenReflector:
    """The reflection player that a model is under the settings of a run; the model is frozen by it."""
    from reflect_rl.players.reflectors import FrozenReflector

    settings = config.reflector
    return FrozenReflector(model, settings.max_new_tokens, settings.cache_size, numbers_of(config.env, settings))


def start_of_policy(method: Method, settings: ModelConfig, unit: Unit) -> tuple[Path | None, Path]:
    """Folder of a method's policy before online training (None: the configured model), and of the job that makes it."""
    folder = base_folder(settings, unit) if method.policy is None else unit.model(method.policy)
    return folder, unit.sft(method.policy or BASE)


def installed_reflector(config: RunConfig, name: str, method: str) -> Reflector:
    """An installed reflection player, made from the settings of the run where it needs them.

    Args:
        config: the run.
        name: of the player.
        method: that it writes for.
    """
    found = registry.find("reflectors", name)
    writer: Reflector = found.for_run(config, method, "greedy") if isinstance(found, BuiltForRun) else found()
    return writer


def lexical_reflector(spec: EnvSpec) -> LexicalReflector:
    """The reflection player that reads states by the game's own rules.

    Raises:
        UserError: the game has no such rules.
    """
    return LexicalReflector(spec.needed(HasStateTeacher, "the reflection player 'lexical'"))


def save_whole(model: LanguageModel, folder: Path, card: str | None = None) -> None:
    """Save a model whole or not at all; of several processes that trained it, the main one does.

    Args:
        model: to be saved.
        folder: that it replaces.
        card: text of its `README.md`; None = none.
    """
    if process_rank() != 0:
        return
    # On the disk in the end, since the checkpoints are removed then. A kill before leaves the job without its mark,
    # so that the model is made again.
    with whole_folder(folder) as fresh:
        model.save(fresh)
        if card is not None:
            (fresh / "README.md").write_text(card, encoding="utf-8")


def metrics_log(job: Job, config: RunConfig) -> MetricsLog:
    """Make the log of a training's metrics."""
    return MetricsLog(
        job.folder,
        config.trackers,
        name=f"{config.output_dir.name}/{job.unit.name}/{job.kind}/{job.name}",
        config=config.model_dump(mode="json"),
        # All processes of a launch compute the same metrics, and one file holds them once.
        main=process_rank() == 0,
        home=config.output_dir,
    )
