"""The configuration of a run, and the parts that an installed distribution may add to it besides those chosen by name.

Sections of settings (`reflect_rl.config.Section`, entry point group `reflect_rl.settings`) may name a server, or host
the run's reflection player. Classes of players may be made from the settings of a run. An annotator (group
`reflect_rl.annotators`) writes the reflections of demonstrations. All three may check a run and show what would be
sent. A report (group `reflect_rl.reports`) shows what came out of runs; the command `run` ends with all that are
installed. Each is a protocol that is found by its type.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from pydantic import Field, field_validator, model_validator

from reflect_rl import registry
from reflect_rl.config import EnvironmentConfig, Frozen, ModelConfig, Rule, sections_of
from reflect_rl.data.generate import SOLVER_FREE, DataConfig
from reflect_rl.data.recorded import Note
from reflect_rl.envs.base import SPLITS, EnvSpec, spec_of
from reflect_rl.errors import ConfigError, RunFolderError, UserError
from reflect_rl.evaluation.evaluate import EvaluationConfig
from reflect_rl.evaluation.methods import LEXICAL, Method, find_method
from reflect_rl.prompts import TEMPLATE_VERSION, policy_prompt, reflection_prompt
from reflect_rl.registry import refuse_foreign
from reflect_rl.rollout import Reflector, begun
from reflect_rl.store import read_json
from reflect_rl.training.config import ReflectorSFTConfig, RLFTConfig, SFTConfig, TrackerName
from reflect_rl.types import Decoding, Episode, View, stream
from reflect_rl.watchdog import Limits, guarded

if TYPE_CHECKING:
    from rich.console import RenderableType


class PromptConfig(Frozen):
    """Listing and scoring of actions."""

    shuffle_labels: bool = False
    """Number the actions in a random order in every state, so that the policy must read the list."""
    scoring: Rule = "choice_token"
    """`choice_token`: one label token per action (the paper); `line_end`: each action where its line of the list ends,
    no labels; `sum` (SayCan), `token_mean` (TWOSOME): the action's own text."""


class ReflectorConfig(Frozen):
    """The frozen reflection player."""

    kind: str = "own"
    """Writer: `own` = the model that the run trains for it; else the name of an installed reflection player. Package
    `reflect-served` has two: `prompted`, the model of `[model]` as it comes, and `chat`, a model behind a server."""
    max_new_tokens: int = Field(96, ge=1)
    """Longest reflection in tokens."""
    cache_size: int = Field(50_000, ge=0)
    """Reflections kept in memory; greedy decoding makes them a function of the prompt."""
    set_numbers: bool = True
    """In games that number their actions, set right the number behind the action that a reflection recommends: small
    models copy names well and numbers badly, and the state says the number."""


class SFTStageConfig(Frozen):
    """Supervised training of each model; the positive-only variants use the same settings."""

    base: SFTConfig = Field(default_factory=SFTConfig)
    """The embedded model, reading plain text before anything else (other models come trained)."""
    reflector: ReflectorSFTConfig = Field(default_factory=ReflectorSFTConfig)
    """The reflection player."""
    policy_plain: SFTConfig = Field(default_factory=SFTConfig)
    """The policy without reflection."""
    policy_reflect: SFTConfig = Field(default_factory=SFTConfig)
    """The policy with reflection."""
    policy_lexical: SFTConfig = Field(default_factory=SFTConfig)
    """The policy with lexical reflections (games whose states can be compared word by word)."""

    def of(self, dataset: str) -> SFTConfig:
        """Settings of the training on a data set.

        Args:
            dataset: its name, for example `reflector` or `policy_plain_positive`.
        """
        parts = {
            "base": self.base,
            "reflector": self.reflector,
            "policy_plain": self.policy_plain,
            "policy_reflect": self.policy_reflect,
            "policy_lexical": self.policy_lexical,
        }
        return parts[dataset.removesuffix("_positive")]


class RunConfig(Frozen):
    """A run: data -> SFT -> RLFT -> evaluation -> report, for several methods and seeds."""

    takes_sections: ClassVar[bool] = True

    output_dir: Path = Path("runs/default")
    """The run folder. An interrupted or finished run in it goes on where it was."""
    seeds: tuple[int, ...] = Field((0,), min_length=1)
    """Root seeds; everything random in a seed's run follows from it."""
    methods: tuple[str, ...] = Field(("random", "sft", "sft_reflect", "reflect_rl"), min_length=1)
    """Methods to compare: installed ones (`reflect_rl.evaluation.methods`), or `package.module:Name`."""
    workers: int = Field(2, ge=1, le=256)
    """Jobs run at the same time, each in a process of its own."""
    threads: int = Field(1, ge=1, le=256)
    """Threads of each job."""
    start_from: Path | None = None
    """A run folder whose data and supervised models are used instead of making them again (unset: make them); `eval`
    uses what was trained online there, too."""
    trackers: tuple[TrackerName, ...] = ()
    """Trackers that show curves besides `metrics.jsonl`: `tensorboard`, `wandb` (sends them away), `trackio`."""
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    """The benchmark."""
    prompt: PromptConfig = Field(default_factory=PromptConfig)
    """Listing and scoring of actions."""
    model: ModelConfig = Field(default_factory=ModelConfig)
    """The language model that both players start from."""
    data: DataConfig = Field(default_factory=DataConfig)
    """Demonstrations."""
    reflector: ReflectorConfig = Field(default_factory=ReflectorConfig)
    """The frozen reflection player."""
    sft: SFTStageConfig = Field(default_factory=SFTStageConfig)
    """Supervised training."""
    rlft: RLFTConfig = Field(default_factory=RLFTConfig)
    """Online RL fine-tuning."""
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    """Evaluation."""
    limits: Limits = Field(default_factory=Limits)
    """The watchdog."""

    @cached_property
    def env(self) -> EnvSpec:
        """The environment with its settings, resolved once and handed down.

        Raises:
            UnknownNameError: no environment has the configured name.
        """
        # Kept, because finding and loading a game's class and tasks takes time and every job asks for it often.
        return spec_of(self.environment)

    @cached_property
    def horizons(self) -> tuple[int, ...]:
        """Horizons of the evaluation."""
        return self.evaluation.horizons or self.env.horizons

    @property
    def evaluated_modes(self) -> tuple[str, ...]:
        """The modes that methods are evaluated in."""
        return self.evaluation.modes or self.env.modes

    def method(self, name: str) -> Method:
        """A method as it is in this run."""
        # Methods are the same for all runs; who writes reflections is a setting of this one.
        return find_method(name).with_reflector(self.reflector.kind)

    @field_validator("data", mode="before")
    @classmethod
    def _recorded(cls, values: Any) -> Any:
        """A file of episodes is where the labels come from."""
        if not isinstance(values, Mapping) or values.get("label_source") not in (None, "recorded"):
            return values
        return {**values, "label_source": "recorded"} if values.get("episodes") else values

    @model_validator(mode="after")
    def _one_source(self) -> RunConfig:
        data = self.data
        if (data.episodes is not None) != (data.label_source == "recorded"):
            raise ValueError(
                f"data.label_source is {data.label_source!r} and data.episodes is {str(data.episodes)!r}: recorded "
                "episodes are label_source = 'recorded', and no other source has a file"
            )
        return self

    @field_validator("methods")
    @classmethod
    def _known_methods(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            try:
                find_method(name)
            except UserError as error:
                # pydantic collects ValueErrors alone and adds the key, so that all mistakes are told together.
                raise ValueError(str(error).removesuffix(".")) from error
        return names

    @model_validator(mode="after")
    def _no_repetition(self) -> RunConfig:
        # A repeated seed or method would be two jobs in one folder.
        for key in ("seeds", "methods", "trackers"):
            values = getattr(self, key)
            if len(set(values)) != len(values):
                raise ValueError(f"{key}: an entry is repeated in {list(values)}")
        return self


Player_co = TypeVar("Player_co", covariant=True)


@runtime_checkable
class ChecksRun(Protocol):
    """A section, an annotator or a class of players that finds mistakes in a run which uses it, before it begins."""

    def mistakes(self, run: RunConfig) -> Iterator[str]:
        """Sentences with the key, the value and the remedy."""


@runtime_checkable
class PreviewsRequests(Protocol):
    """A section, an annotator or a class of players that can say what a run would send to a server."""

    def preview(self, run: RunConfig, stages: Collection[str]) -> Iterator[str]:
        """Texts about the requests of these stages; nothing is sent and nothing is written."""


@runtime_checkable
class NamesServer(Protocol):
    """A section that names a server, for the run card."""

    @property
    def host(self) -> str:
        """Machine and port; empty where there is none."""


@runtime_checkable
class HostsReflector(Protocol):
    """A section that may let the run's own reflection player write elsewhere than in the job's process."""

    def reflector(self, run: RunConfig, folder: Path) -> Reflector | None:
        """The player that the model of this folder is; None where it runs in the job's process."""


@runtime_checkable
class BuiltForRun(Protocol[Player_co]):
    """A class of players that are made from the settings of a run; other classes are called without arguments."""

    def for_run(self, run: RunConfig, method: str, decoding: Decoding) -> Player_co:
        """The player of a method, under the name of the method."""


@runtime_checkable
class ChoosesDecodings(Protocol):
    """A class of policies whose decodings follow from the run's settings."""

    def decodings(self, run: RunConfig) -> Sequence[Decoding]:
        """The decodings that are evaluated."""


@runtime_checkable
class TakesTurns(Protocol):
    """A class of players whose evaluations wait for each other, for example because they share paid answers."""

    def lock_file(self, run: RunConfig) -> Path:
        """The file that an evaluation locks; those that name the same one wait for each other."""


class Annotations(Protocol):
    """Notes on the turns of some demonstrations."""

    def note(self, episode: Episode, number: int) -> Note:
        """The reflection and the label of a turn."""

    def reflection(self, episode: Episode, number: int) -> str | None:
        """The reflection of a turn; None where there is none, or nobody was asked."""

    @property
    def card(self) -> Mapping[str, object]:
        """Facts for the card of the data: who wrote, and what became of it."""


@runtime_checkable
class Annotator(Protocol):
    """Writes the reflections of demonstrations, in a stage of its own (`reflect_rl.stages`) before the data."""

    def facts(self, run: RunConfig) -> Mapping[str, object]:
        """Facts that the reflections follow from besides the states; a part of the fingerprint."""

    def read(self, run: RunConfig, episodes: Iterable[Episode], excluded: frozenset[str]) -> Annotations:
        """The notes on these episodes.

        Args:
            run: the run.
            episodes: the demonstrations of a unit.
            excluded: states without a note.

        Raises:
            RunFolderError: they are missing, corrupt, or of other demonstrations.
        """

    def digest(self, run: RunConfig) -> str:
        """A hash of all that was written; a part of the fingerprint of results that were learned from it."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was written."""

    page: Path
    tables: RenderableType
    """Its tables, for a terminal."""


def write_report(name: str, run_folders: Sequence[Path], folder: Path) -> Report:
    """Write a report by its name.

    Raises:
        UnknownNameError: nothing has the name; the message says what to install.
        RunFolderError: a run folder holds no results, or two contradict each other.
        UserError: the page cannot be written there.
    """
    write: Callable[[Sequence[Path], Path], Report] = registry.find("reports", name)
    return write(run_folders, folder)


def annotator_of(run: RunConfig) -> Annotator | None:
    """The annotator of a run; None where the oracle's reflections stay.

    Raises:
        ConfigError: what has this name is no annotator.
        UnknownNameError: nothing has it; the message says what to install.
    """
    name = run.data.annotator
    if name == "oracle":
        return None
    found: object = registry.find("annotators", name)()
    if not isinstance(found, Annotator):
        raise ConfigError(f"data.annotator: {name!r} is no annotator: it lacks facts, read or digest.")
    return found


def used_parts(run: RunConfig) -> Iterator[object]:
    """Parts of other distributions that the run uses: sections that say something, the annotator, classes of players.

    Raises:
        ConfigError: what has the annotator's name is no annotator.
        UnknownNameError: a name is not installed; the message says what to install.
    """
    yield from sections_of(run).values()
    yield annotator_of(run)
    chosen: list[tuple[registry.Kind, str]] = [("policies", run.method(name).script) for name in run.methods]
    chosen += [("reflectors", run.method(name).writer) for name in run.methods]
    # It also writes on episodes that come without reflections, for methods that do not name it.
    if run.data.label_source in ("recorded", "successes") and run.reflector.kind not in ("own", LEXICAL):
        chosen += [("reflectors", run.reflector.kind)]
    # A player is a part once, however many methods it plays in.
    yield from (registry.find(kind, name) for kind, name in dict.fromkeys(chosen) if name)


def fingerprint(config: RunConfig, written: Mapping[str, Any] | None = None) -> str:
    """A short hash of all that a result depends on besides training: rules, texts, prompts, splits and demonstrations.

    It covers the environment's name, version and settings, every task of every split, the rendered prompts of the first
    task of each mode, the template version and the label source. Two results can be compared when their fingerprints
    agree.

    Args:
        config: the run.
        written: settings as an earlier version wrote them, which knew fewer: those that are newer are left out, as they
            were then (unset: none).
    """
    spec = config.env
    game = spec.make()
    apart = {"demonstration_starts", "annotator", "annotation", *SOLVER_FREE}
    if not config.data.renumbered_copies:
        # Results of before this setting were made without copies, too, and must compare.
        apart.add("renumbered_copies")
    if config.data.reading != "short_rows":
        apart.add("reading_characters")
    # Without budget and seed, which are columns of the results: rows that differ in them alone must compare.
    settings = {
        "environment": config.environment.model_dump(mode="json"),
        "prompt": config.prompt.model_dump(mode="json"),
        "data": config.data.model_dump(mode="json", exclude=apart),
    }
    if written is not None:
        settings = {
            table: {key: value for key, value in values.items() if key in written.get(table, values)}
            for table, values in settings.items()
        }
    facts: dict[str, Any] = {
        "environment": [spec.name, spec.version, settings["environment"]],
        "template": TEMPLATE_VERSION,
        "prompt": settings["prompt"],
        "data": settings["data"],
    }
    # By content: the file of a path can be replaced, and a file can be moved.
    if config.data.episodes is not None:
        facts["episodes"] = hashlib.sha256(config.data.episodes.read_bytes()).hexdigest()
    # Only where somebody is asked: unused settings of the annotator change no result.
    if (annotator := annotator_of(config)) is not None:
        facts["annotator"] = dict(annotator.facts(config))
    for mode in spec.all_modes:
        for split in SPLITS:
            tasks = spec.tasks(mode, split)
            # All tasks and not their number: a changed generator can give as many others.
            facts[f"{mode}/{split}"] = [[task.key, dict(task.data)] for task in tasks]
        first = next(iter(spec.tasks(mode, "train")), None)
        if first is None:
            continue
        what = f"{spec.identity}, task {first.key}, start"
        # Rendered by the game itself, so a changed text or rule shows even where the version was forgotten.
        # Guarded, because a reset is the game's own code and may hang.
        observation = guarded(
            what, config.limits.environment_seconds, partial(begun, game, first, stream(0, "environment"))
        )
        view = View(observation, tuple(range(len(observation.actions))), "reflection")
        facts[f"{mode}/prompts"] = [reflection_prompt(view), policy_prompt(view, [str(i) for i in view.order])]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def result_mark(config: RunConfig, *, learned: bool) -> str:
    """The fingerprint of a result: with what an annotator wrote, where it was learned from.

    Args:
        config: the run.
        learned: whether the method learned from demonstrations.
    """
    mark, annotator = fingerprint(config), annotator_of(config)
    # A player that learned from no text can be compared whoever wrote the others' texts.
    if not learned or annotator is None:
        return mark
    # A model may answer otherwise another day, so the texts themselves are a part of the fingerprint.
    return hashlib.sha256(f"{mark} {annotator.digest(config)}".encode()).hexdigest()[:16]


def values_of_run(folder: Path, own: Collection[str] = ()) -> dict[str, Any]:
    """The raw values of a run folder's configuration.

    Args:
        folder: the run folder, maybe somebody else's.
        own: names of parts that the user gave.

    Raises:
        RunFolderError: there is no configuration, or it is not readable.
        UnknownNameError: it names a module that no installed distribution provides.
    """
    path, remedy = folder / "config.json", f"Is {folder} a run folder? Name one, or a configuration file."
    values = read_json(path, remedy)
    if "model_type" in values:
        raise RunFolderError(
            f"{folder} is the folder of a model, not of a run. It plays by `reflect-rl play --player {folder} "
            "--environment.name GAME`."
        )
    refuse_foreign(values, path, own)
    # The folder's own path wins over the noted one: folders are moved and copied.
    return {**values, "output_dir": str(folder)}
