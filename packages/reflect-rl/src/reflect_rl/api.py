"""The public functions of the Python API; `import reflect_rl` offers them without loading torch.

An environment is an `EnvSpec`, the name of an installed one, or a class over `TextEnv`. A policy is an `Agent`, any
`Policy`, or the name of an installed one. docs/start/api.md shows all of it at work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from reflect_rl import checks, registry
from reflect_rl.agent import (
    AGENT,
    Agent,
    Blueprint,
    Origin,
    Player,
    Writer,
    algorithm_settings,
    chosen_tasks,
    players_of,
    trainable_copy,
)
from reflect_rl.agent_files import agent_of_run, saved_agent
from reflect_rl.config import (
    EMBEDDED,
    AlgorithmConfig,
    EmbeddedConfig,
    EnvironmentConfig,
    Frozen,
    ModelConfig,
    config_of,
    default_part,
    parse,
)
from reflect_rl.data.generate import Renumbering, held_out_states, reads_reflections, rows, shuffled
from reflect_rl.data.recorded import (
    has_reflections,
    imitated,
    labelled,
    of_environment,
    read_episodes,
    reflected,
    refuse_held_out,
    usable,
)
from reflect_rl.envs.base import EnvSpec, TextEnv, require_known, spec_of
from reflect_rl.errors import ConfigError, UserError
from reflect_rl.evaluation.check_env import broken_promises
from reflect_rl.evaluation.compare import Evaluation, rules_of
from reflect_rl.evaluation.evaluate import EvaluationConfig, evaluate as play_split
from reflect_rl.launch import process_rank
from reflect_rl.models.fits import check_loaded
from reflect_rl.models.load import LanguageModel, load_model as load_language_model
from reflect_rl.models.score import LISTED
from reflect_rl.players.reflectors import REFLECTION_TOKENS, FrozenReflector
from reflect_rl.rollout import NoReflector, Reflector, Request, play
from reflect_rl.runs.config import ReflectorConfig, write_report
from reflect_rl.runs.folder import Unit
from reflect_rl.runs.models import numbers_of, save_whole
from reflect_rl.runs.record import begin_training, digest, note_evaluation, training_folder, written_by
from reflect_rl.store import read_json, write_jsonl
from reflect_rl.training.config import RLFTConfig, SFTConfig
from reflect_rl.training.metrics import MetricsLog, TrackerName, missing_trackers
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.training.sft import train_sft as train_on_pairs
from reflect_rl.training.trainer import checkpoints_in
from reflect_rl.types import Decoding, Episode, Progress, Task, seed_for, silent, stream, to_json

__all__ = [
    "add_reflections", "check_env", "collect", "evaluate", "load_agent", "load_model", "make_env", "read_episodes",
    "report", "train_rl", "train_sft", "warm_up", "write_episodes",
]  # fmt: skip

Environment = EnvSpec | str | type[TextEnv]
Model = LanguageModel | Blueprint | Agent
Split = Literal["train", "validation", "test"]
PRETRAINED_RATE = 2e-4
"""Learning rate of supervised training where the weights were trained before (Reflect-RL, appendix)."""
ADAPTER_SETTINGS: Mapping[str, float] = {"learning_rate": 1.5e-4, "target_kl": 0.02}
"""Settings of online RL where adapters are trained: those of `configs/pretrained/taxi.toml`."""


def load_model(
    path_or_name: str | Path = EMBEDDED,
    *,
    lora_rank: int = 0,
    texts: Sequence[str] | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: Literal["float32", "mixed", "bfloat16", "auto"] = "float32",
    progress: Progress | None = None,
    **settings: Any,
) -> LanguageModel | Blueprint:
    """A language model to train.

    Args:
        path_or_name: what `model.path` may be: a folder of a causal language model, a known name, `hub:owner/name`,
            or `embedded`, a small one from scratch.
        lora_rank: rank of low-rank adapters (Hu et al. 2022); 0 trains all weights.
        texts: what the tokenizer of the embedded model is learned from. Without them the model is a `Blueprint`, which
            is built at its first training from the texts of the episodes, as runs do it.
        seed: of new weights.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        precision: number format; `auto` measures whether bfloat16 is faster here. Machines may then differ in results.
        progress: told what `auto` has chosen, with the measurement, such as `progress=lambda *said: print(said[-1])`.
        **settings: further fields of `ModelConfig`; for `embedded` those of `EmbeddedConfig` (`hidden_size`, ...).

    Returns:
        the model with its tokenizer, all or the adapter's weights trainable.

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        ModelError: the model cannot be used; the message says why and what to do.
        UserError: the embedded model was to get adapters, or another number format, or a value is of the wrong kind.

    >>> load_model("embedded", hidden_size=32, layers=1).shape.hidden_size
    32
    """
    checks.whole(seed=seed)
    checks.callback("progress", progress)
    if isinstance(texts, str):
        raise UserError("texts is a single text, whose letters would be taken for texts. Give a list: [text].")
    if str(path_or_name) == EMBEDDED:
        if lora_rank or precision != "float32":
            raise UserError("the embedded model trains all its weights, in float32: leave lora_rank and precision out.")
        # The tokenizer is learned from texts, so without them there is nothing to build yet.
        blueprint = Blueprint(parse(EmbeddedConfig, settings), device, seed)
        return blueprint if texts is None else blueprint.build(texts, TextEnv.max_actions)
    # `lora` carries all fields of an adapter; `lora_rank` is the one that most calls set.
    adapter = settings.pop("lora", None)
    if adapter is not None and lora_rank:
        raise UserError("lora and lora_rank were both given. Put the rank into lora, and leave lora_rank out.")
    values = {"path": str(path_or_name), "device": device, "precision": precision, **settings}
    values["lora"] = {"rank": lora_rank} if adapter is None else dict(adapter)
    return load_language_model(parse(ModelConfig, values), trainable=True, seed=seed, progress=progress or silent)


def load_agent(
    folder: str | Path,
    method: str | None = None,
    *,
    unit: str = "",
    env: Environment | None = None,
    device: str = "auto",
    precision: Literal["float32", "mixed", "bfloat16"] | None = None,
) -> Agent:
    """An agent with its reflection player: one that `Agent.save` wrote, or a method of a run.

    Args:
        folder: of the agent, or of a run of the command line.
        method: of a run, such as `reflect_rl` (None: its only one with a model).
        unit: of a run, such as `starts-100/seed-0`; empty = the first.
        env: its environment; needed if this numbers its actions, and for a run on `package.module:Class`, whose name or
            class is given again. The settings of a run stay those that it has.
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `mps`.
        precision: number format of both players (None: the run's; float32 for a saved agent).

    Raises:
        ConfigError: its record is of another version, or damaged.
        ModelError: a model cannot be loaded.
        RunFolderError: the folder holds neither, or the method is not trained yet.
        UnknownNameError: the run has no such method or unit.
        UserError: `method` or `unit` of a saved agent, several methods could be meant, `env` is a class that is not the
            run's, or something is missing.
    """
    if not isinstance(folder, (str, Path)):
        raise UserError(f"the folder {folder!r:.200} is no path. Give a text or a Path.")
    place = Path(folder)
    if not (place / AGENT).is_file():
        agent = agent_of_run(place, method, unit, _name_for_run(place, env), device, precision)
        return replace(agent, origin=replace(agent.origin, environment=_game_of_run(place)))
    if method is not None or unit:
        raise UserError(f"{place} holds one saved agent. Leave method and unit out, or name the folder of a run.")
    return saved_agent(place, None if env is None else make_env(env), device, precision or "float32")


def _game_of_run(run: Path) -> str:
    """The name of a run's environment; empty where the folder has no settings that say it."""
    # Mistakes in the file are told by the readers of the whole run.
    if not (run / "config.json").is_file():
        return ""
    table = read_json(run / "config.json", f"Is {run} a run folder?").get("environment", {})
    name = table.get("name", "") if isinstance(table, Mapping) else ""
    return name if isinstance(name, str) else ""


def _name_for_run(run: Path, env: Environment | None) -> str | None:
    """The name of the environment that a caller gives for a run, also by a class or a spec.

    Raises:
        UserError: the class is not the run's.
    """
    name = _game_of_run(run)
    if env is None or isinstance(env, str) or not name:
        return env if isinstance(env, str) else None
    kind = make_env(env).env_class
    given = f"{kind.__module__}:{kind.__qualname__}"
    # A run folder may be somebody else's: of what it names only what is installed is imported.
    same = given == name if registry.DOTTED.fullmatch(name) else registry.find("environments", name) is kind
    if not same:
        raise UserError(f"{run} is a run on {name!r}, and env is the class {given!r}. Give env={name!r}, or its class.")
    return name


def make_env(env: Environment, **settings: Any) -> EnvSpec:
    """An environment with its settings.

    Args:
        env: the name of an installed environment, `package.module:Class`, a class over `TextEnv`, or a spec.
        **settings: fields of its `Config`.

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        UnknownNameError: no environment has this name, or the game has no such mode.
        UserError: settings were given for a spec, which has its own.

    >>> make_env("corridor", max_episode_steps=12).max_episode_steps
    12
    """
    if isinstance(env, EnvSpec):
        if settings:
            raise UserError(f"the spec of {env.name!r} has its settings already: make it with {sorted(settings)} set.")
        return env
    if isinstance(env, str):
        found = spec_of(EnvironmentConfig(name=env)).env_class
        named = {"name": env} if ":" in env else {}
        return checks.known_modes(EnvSpec(found, parse(found.Config, named | settings)))
    if not (isinstance(env, type) and issubclass(env, TextEnv)):
        raise UserError(f"{env!r} is no environment. Give a name, a class over reflect_rl.TextEnv, or make_env(...).")
    return checks.known_modes(EnvSpec(env, parse(env.Config, settings)))


def check_env(env: Environment, *, episodes: int = 20) -> list[str]:
    """Check a game of your own: what it breaks of the contract that training and results rely on.

    It is played at random, twice with equal seeds, and by its solver and its teacher, where it has them.

    Args:
        env: the environment.
        episodes: most training tasks that are played in each mode.

    Returns:
        A sentence for each promise that is broken; an empty list where nothing was found.

    Raises:
        FaultyEnvironmentError: the game failed, or gave what cannot be played.
        UserError: `episodes` is below one; its tasks are no tasks, or one is in two splits.

    >>> check_env("corridor", episodes=4)
    []
    """
    checks.at_least(1, episodes=episodes)
    return broken_promises(make_env(env), episodes)


def collect(
    env: Environment,
    policy: Player,
    reflector: Writer | None = None,
    *,
    episodes: int = 100,
    split: Split = "train",
    decoding: Decoding = "sampled",
    num_envs: int = 64,
    seed: int = 0,
) -> list[Episode]:
    """Episodes of a player, on the tasks of all modes in a random order; when all were played, again.

    Args:
        env: the environment.
        policy: the player; an agent brings its reflection player.
        reflector: who writes reflections: a player, or a name such as `oracle`, the game's own teacher (None: the
            agent's own, or nobody).
        episodes: how many to play.
        split: whose tasks.
        decoding: how an agent chooses: as in `evaluate`.
        num_envs: games played at once.
        seed: of the order of tasks and of all randomness in play.

    Raises:
        FaultyEnvironmentError: the environment failed, or took too long.
        UnknownNameError: there is no such split, decoding or player.
        UserError: the split has no task, or a number is not whole or below 1.

    >>> len(collect("corridor", "random", episodes=3))
    3
    """
    spec = make_env(env)
    player, writer = players_of(policy, reflector, spec, decoding)
    tasks = _tasks(spec, split)
    checks.at_least(1, episodes=episodes, num_envs=num_envs)
    checks.whole(seed=seed)
    order = chosen_tasks(len(tasks), episodes, stream(seed, "collect"))
    # Seeds by task and copy: a longer collection begins with the episodes of a shorter one.
    requests = [Request(tasks[place], seed_for(seed, "collect", tasks[place].key, copy)) for place, copy in order]
    return play(spec, requests, writer, player, num_envs=num_envs)


def write_episodes(path: str | Path, episodes: Sequence[Episode] | Iterator[Episode]) -> None:
    """Write episodes as JSONL, whole or not at all; `read_episodes` gives them back.

    Args:
        path: the file; one that is there is replaced.
        episodes: any.

    Raises:
        UserError: `path` is a folder, or `episodes` no list of episodes.
    """
    # An iterator gives its episodes once, to the check or to the file.
    kept = list(episodes) if isinstance(episodes, Iterator) else episodes
    checks.recorded(kept)
    if Path(path).is_dir():
        raise UserError(f"{path} is a folder. Name a file in it, such as {Path(path) / 'episodes.jsonl'}.")
    write_jsonl(Path(path), map(to_json, kept))


def add_reflections(episodes: Sequence[Episode], reflector: Reflector) -> list[Episode]:
    """The episodes with a reflection on every state, by this player; what was played stays.

    Args:
        episodes: recorded ones, for example of a person, who writes none.
        reflector: one that needs no solver.

    Raises:
        UserError: `episodes` is no list of episodes, or `reflector` no reflection player.
    """
    checks.recorded(episodes)
    checks.writes(reflector)
    return reflected(episodes, reflector)


def train_sft(  # noqa: PLR0913 (a public function names what most calls set)
    model: Model,
    episodes: Sequence[Episode],
    *,
    env: Environment | None = None,
    steps: int = 300,
    reflections: bool = False,
    lost: bool = False,
    renumbered_copies: int = 0,
    out: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    trackers: Sequence[TrackerName] = (),
    **settings: Any,
) -> Agent:
    """Supervised training on recorded episodes; the model that went in stays as it is.

    An agent with a reflection player keeps it: the policy learns to read what that player writes about these states.
    With `reflections` both players are trained, and the new reflection player takes its place. A turn's label is the
    action that an annotator recommended, else the one that was played. Episodes of validation and test tasks are left
    out.

    Args:
        model: what to start from.
        episodes: recorded ones, such as `read_episodes` or `collect` give.
        env: their environment: states in which held-out tasks begin are then left out, and the number of labels fits.
        steps: optimiser steps of each model.
        reflections: train a reflection player on the reflections of the episodes, too, and the policy to read them.
        lost: learn from episodes that were lost, too.
        renumbered_copies: further copies of each row with a reflection, in which the label's action has another number
            (`DataConfig.renumbered_copies`); where demonstrations are few, the policy then learns to follow numbers.
        out: run folder for metrics and models; a training that was interrupted there goes on (None: nothing is kept).
        seed: of the order of rows and of dropout.
        progress: told about each logged step.
        trackers: programs that get the metrics, too: `tensorboard`, `wandb`, `trackio`; they need `out`.
        **settings: further fields of `SFTConfig`: `batch_size`, `learning_rate`, ...

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        ModelError: an episode's prompt is longer than the model's context, or the training does not fit into memory.
        RunFolderError: `out` holds an interrupted training with other settings.
        TrainingError: the loss or the gradient is not finite.
        UserError: there is nothing to learn from, `episodes` is no list of episodes, an episode recorded as training is
            of a validation or test task of `env`, `out` is a file, or a value is of the wrong kind.
    """
    checks.recorded(episodes)
    checks.truth(reflections=reflections, lost=lost)
    checks.at_least(0, renumbered_copies=renumbered_copies)
    checks.training(seed=seed, out=out, progress=progress)
    _check_trackers(trackers, out)
    spec = None if env is None else make_env(env)
    kept, reads = _demonstrations(model, episodes, spec, reflections=reflections, lost=lost)
    # Without an environment nobody knows where held-out tasks begin; that validation and test are left out stays.
    excluded = frozenset[str]() if spec is None else held_out_states(spec, spec.modes)
    agent = _agent(model, kept, spec, seed)
    if renumbered_copies and agent.scoring != "choice_token":
        raise ConfigError(
            f"renumbered_copies = {renumbered_copies}: the agent scores {agent.scoring!r}, without labels. Set it to 0."
        )
    method = "sft_reflect" if reads else "sft"

    def pairs(part: str) -> list[tuple[str, str]]:
        table = rows(part, kept, agent.labels.texts, excluded, agent.scoring, imitated)
        if not table:
            raise UserError("all states of the episodes are starts of held-out tasks: record training tasks instead.")
        table = shuffled(table, stream(seed, "rows", part))
        if renumbered_copies and reads_reflections(part):
            renumbering = Renumbering(renumbered_copies, stream(seed, "renumbered copies", part))
            table += rows(part, kept, agent.labels.texts, excluded, agent.scoring, imitated, renumbering)
        return [(row.prompt, row.completion) for row in table]

    rate = {} if _is_random(model) else {"learning_rate": PRETRAINED_RATE}
    config = parse(SFTConfig, rate | {"steps": steps} | settings)
    starts = len({episode.task.unique_key for episode in kept})
    with training_folder(out) as folder:
        unit = Unit(folder, starts, seed)

        def trained(part: str, table: list[tuple[str, str]]) -> LanguageModel:
            # A copy: the same model is the start of the policy and of the reflection player, and stays the caller's.
            twin, place = replace(trainable_copy(agent.model), rule=None), unit.sft(part)
            if part != "reflector":
                twin = agent.as_trained(twin)
            rule = "choice_token" if part == "reflector" else agent.scoring
            # Checkpoints in the folder are gone on from silently, so they must be of this very training.
            begun = begin_training(place, training=config, start=replace(agent, scoring=rule), rows=digest(table))
            train_on_pairs(
                twin,
                table,
                config,
                place,
                seed_for(seed, "sft", part),
                ends=part == "reflector" or rule not in LISTED,
                progress=progress or silent,
                metrics=_metrics(place, folder, trackers, config),
                rule=rule,
            )
            if out is not None:
                save_whole(twin, unit.model(part))
            # After the model is whole on the disk: a kill in between must find one of the two.
            if process_rank() == 0:
                checkpoints_in(place).clear()
                begun.unlink()
            return twin

        policy_rows = "policy_reflect" if reads else "policy_plain"
        policy = trained(policy_rows, pairs(policy_rows))
        numbers = None if spec is None else numbers_of(spec, ReflectorConfig())
        writer = agent.reflector
        if reflections:
            texts = pairs("reflector")
            writing = trained("reflector", texts)
            # As long as the longest text that it learned, and its end: a shorter limit would cut sentences.
            longest = max(len(writing.encode(text)) for _, text in texts) + 1
            writer = FrozenReflector(writing, max(REFLECTION_TOKENS, longest), numbers=numbers)
    game = agent.origin.environment if spec is None else spec.found_by
    origin = Origin(method, "none", "recorded", starts, seed, None if out is None else Path(out), game)
    return replace(agent, model=policy, reflector=writer, origin=origin)


def _check_trackers(trackers: Sequence[TrackerName], out: str | Path | None) -> None:
    if isinstance(trackers, str) or not isinstance(trackers, Sequence):
        raise UserError(f"trackers={trackers!r} is no list of names. Give one, such as ['tensorboard'].")
    for name in trackers:
        require_known("tracker", name, get_args(TrackerName))
    for sentence in missing_trackers(trackers):
        raise UserError(sentence)
    if trackers and out is None:
        raise UserError("trackers keep their files in the run folder. Name one with out=, or leave them out.")


def _check_room(model: Model, trainings: int) -> None:
    """Refuse trainings that do not fit into memory; a model that is not built yet is too small to be asked about."""
    loaded = model.model if isinstance(model, Agent) else model
    if isinstance(loaded, LanguageModel):
        check_loaded(loaded, trainings=trainings)


def _metrics(folder: Path, run: Path, trackers: Sequence[TrackerName], config: Frozen) -> MetricsLog:
    """The log of a training in the folder of a run."""
    name, settings = f"{run.name}/{folder.relative_to(run)}", config.model_dump(mode="json")
    return MetricsLog(folder, trackers, name=name, config=settings, main=process_rank() == 0, home=run)


def _is_random(model: Model) -> bool:
    """Tell whether a model has random weights: a blueprint, or one that was built from texts and not trained since."""
    is_built = isinstance(model, LanguageModel) and not model.name and model.rule is None
    return isinstance(model, Blueprint) or is_built


def warm_up(
    model: Model,
    env: Environment,
    *,
    episodes: int = 500,
    policy: Player | None = None,
    seed: int = 0,
    **settings: Any,
) -> Agent:
    """Supervised training on a player's own successes, for games without a solver (RAFT, Dong et al. 2023, one round).

    Args:
        model: what to start from.
        env: the environment.
        episodes: how many to play; those that are won are learned from.
        policy: who plays (None: the model itself, or a random player where the model is not built yet).
        seed: of play and training.
        **settings: as for `train_sft`.

    Raises:
        ModelError: the training does not fit into memory.
        UserError: no episode was won.
    """
    spec = make_env(env)
    _check_room(model, trainings=1)
    # A model without a tokenizer cannot play; a random player can show it the words of the game.
    if policy is None:
        policy = "random" if isinstance(model, Blueprint) else _agent(model, (), spec, seed)
    return train_sft(model, collect(spec, policy, episodes=episodes, seed=seed), env=spec, seed=seed, **settings)


def train_rl(  # noqa: PLR0913 (a public function names what most calls set)
    model: Model,
    env: Environment,
    *,
    algorithm: str | type | Mapping[str, Any] = "ppo",
    turns: int = 15_000,
    reflector: Writer | None = None,
    progress_reward: float = 0.0,
    out: str | Path | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    trackers: Sequence[TrackerName] = (),
    **settings: Any,
) -> Agent:
    """Online reinforcement learning (Reflect-RL, stage 2); the model that went in stays as it is.

    Of a game with several modes only the last one is trained, the hardest; `curriculum={"modes": [...]}` names others.

    Args:
        model: an agent, or a model to start from untrained.
        env: the environment to play.
        algorithm: name of an installed one, a class, or a table of its settings with its `name`.
        turns: training budget in turns of the environment.
        reflector: who writes reflections: a player, or a name such as `oracle`, the game's own teacher (None: the
            agent's own, or nobody).
        progress_reward: reward for each turn by which the solver's way to the goal grows shorter
            (`RLFTConfig.progress`); for games with a solver.
        out: run folder for metrics, checkpoints and the model; a training that was interrupted there goes on
            (None: nothing is kept).
        seed: of everything random.
        progress: told after each update.
        trackers: as in `train_sft`.
        **settings: further fields of `RLFTConfig`: `starts_per_update`, `learning_rate`, ... Those of the algorithm
            stand in its table. Adapters are trained with a lower rate and a bound on the step by default
            (`ADAPTER_SETTINGS`); other settings stay as they are.

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        FaultyEnvironmentError: the environment failed, or took too long.
        ModelError: a prompt is longer than the model's context, or the training does not fit into memory.
        RunFolderError: `out` holds a training with other settings.
        TrainingError: the loss or the gradient is not finite.
        UserError: there is no training task, no turn may be learned from since all start a held-out task, `out` is a
            file, or a value is of the wrong kind.
    """
    instead = " For a reward of progress give progress_reward=0.5, or another number."
    checks.training(seed=seed, out=out, progress=progress, instead=instead)
    _check_trackers(trackers, out)
    begun = online_start(
        model, env, settings, algorithm=algorithm, turns=turns, progress_reward=progress_reward, seed=seed
    )
    spec, start, config = begun.spec, begun.agent, begun.config
    _, writer = players_of(start, reflector, spec, "sampled")
    twin = start.as_trained(trainable_copy(start.model))
    before = start.origin
    method = {"base": "rlft", "sft": "sft_rlft", "sft_reflect": "reflect_rl"}.get(before.method, before.method)
    origin = replace(before, method=method, algorithm=config.algorithm.name, seed=seed, environment=spec.found_by)
    with training_folder(out) as run:
        folder = Unit(run, before.starts, seed).rlft(method)
        # Checkpoints in the folder go on silently, so their settings and first weights must be the ones asked for.
        begin_training(
            folder,
            training=config,
            start=start,
            environment=spec,
            stages=config.curriculum.named_modes,
            reflector=written_by(writer),
        )
        OnlineTrainer(
            twin,
            start.labels,
            writer,
            spec,
            config,
            folder,
            seed_for(seed, "rlft", method),
            reference=start.model if config.algorithm.needs_reference else None,
            rule=start.scoring,
            excluded=held_out_states(spec, spec.modes),
            metrics=_metrics(folder, run, trackers, config),
        ).train(progress or silent)
        if out is not None:
            save_whole(twin, folder / "model")
    return replace(
        start, model=twin, reflector=writer, origin=replace(origin, folder=None if out is None else Path(out))
    )


@dataclass(frozen=True)
class OnlineStart:
    """Checked beginning of an online training."""

    spec: EnvSpec
    agent: Agent
    """Agent that is copied and trained, with a label for every action of the environment."""
    config: RLFTConfig


def online_start(
    model: Model,
    env: Environment,
    settings: Mapping[str, Any],
    *,
    algorithm: str | type | Mapping[str, Any],
    turns: int,
    progress_reward: float = 0.0,
    seed: int,
    beside: LanguageModel | None = None,
) -> OnlineStart:
    """Check the beginning that all online trainings from Python share; nothing is copied, trained or written.

    Args:
        model: an agent, or a model to start from untrained.
        env: the environment to play.
        settings: fields of `RLFTConfig` that the caller has named.
        algorithm: name of an installed one, a class, or a table of its settings with its `name`.
        turns: training budget in turns of the environment.
        progress_reward: see `train_rl`.
        seed: of the words of a model that is not built yet.
        beside: a reflection player's model, of which a copy is trained, too.

    Raises:
        ConfigError: a setting does not exist or has a wrong value.
        ModelError: the training does not fit into memory.
        UserError: there is no training task, `model` is no model, or the states show how many turns are left and
            `max_episode_steps` is another number of them.
    """
    spec = make_env(env)
    _tasks(spec, "train")
    # Before the copy: labels belong to the tokenizer, which copy and reference share.
    agent = _agent(model, (), spec, seed)
    own = ADAPTER_SETTINGS if agent.model.has_adapter else {}
    if "total_turns" in settings:
        raise ConfigError("total_turns is set by turns= here. Leave it out.")
    chosen = algorithm_settings(algorithm)
    _refuse_settings_of(chosen, settings)
    named = {"algorithm": chosen, "total_turns": turns, "progress": progress_reward}
    try:
        config = parse(RLFTConfig, {**own, **named, **settings})
    except ConfigError as error:
        # Two settings have names of their own here. Each line of the message begins with one.
        called = {"total_turns": "turns", "progress": "progress_reward"}
        parts = [line.partition(":") for line in str(error).split("\n")]
        raise ConfigError("\n".join(called.get(name, name) + colon + rest for name, colon, rest in parts)) from None
    checks.shown_horizon(spec, max_episode_steps=config.max_episode_steps)
    check_loaded(agent.model, micro_batch_tokens=config.micro_batch_tokens, beside=beside)
    return OnlineStart(spec, agent, config)


def _refuse_settings_of(algorithm: AlgorithmConfig | Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse settings of an algorithm that were given beside it.

    Raises:
        ConfigError: there is one; the message says where it stands.
        UnknownNameError: there is no such algorithm.
    """
    unknown = {key: value for key, value in settings.items() if key not in RLFTConfig.model_fields}
    table = algorithm.model_dump() if isinstance(algorithm, AlgorithmConfig) else dict(algorithm)
    name = table.get("name", default_part(AlgorithmConfig).name)
    if not unknown or not isinstance(name, str):
        return
    known = config_of("algorithms", name, "algorithm").model_fields
    if own := {key: value for key, value in unknown.items() if key in known}:
        what, whole = "is a setting" if len(own) == 1 else "are settings", {"name": name, **table, **own}
        raise ConfigError(f"{', '.join(own)} {what} of the algorithm: algorithm={whole!r}.")


def evaluate(  # noqa: PLR0913 (a public function names what most calls set)
    policy: Player,
    env: Environment,
    *,
    split: Split = "test",
    horizon: int | None = None,
    decoding: Decoding = "greedy",
    repetitions: int = 3,
    modes: Sequence[str] = (),
    reflector: Writer | None = None,
    num_envs: int = 64,
) -> Evaluation:
    """Play all tasks of a split, with the same seeds whoever plays, so that players can be compared in pairs.

    An agent that was trained into a folder has its result noted there, for `report`; not where `reflector` is given. A
    later evaluation on the same game, split and horizon takes its place, also with other settings of the game.

    Args:
        policy: the player; an agent brings its reflection player.
        env: the environment.
        split: whose tasks.
        horizon: turns after which an episode is lost (None: the environment's longest episode).
        decoding: `greedy`, one episode per task, `sampled`, or `sampled@T` at the temperature T, such as `sampled@0.4`.
        repetitions: sampled episodes per task.
        modes: variants of the game (empty: all of its settings).
        reflector: who writes reflections: a player, or a name such as `oracle`, the game's own teacher (None: the
            agent's own, or nobody).
        num_envs: games played at once.

    Raises:
        FaultyEnvironmentError: an episode failed; none may be left out.
        UnknownNameError: there is no such mode, split, decoding or player.
        UserError: the split has no task in these modes, `modes` is a text, a number is not whole or below 1, or the
            states show how many turns are left and `horizon` is another number of them.

    >>> print(evaluate("oracle", "corridor"))
    oracle on corridor-v1 (test, greedy, horizon 20): 100.0% won [95% interval 78.5% to 100.0%], 14 of 14 ...
    """
    spec = make_env(env)
    player, writer = players_of(policy, reflector, spec, decoding)
    _tasks(spec, split)
    longest = spec.max_episode_steps if horizon is None else horizon
    checks.at_least(1, horizon=longest, repetitions=repetitions, num_envs=num_envs)
    checks.shown_horizon(spec, horizon=longest)
    config = EvaluationConfig(split=split, horizons=(longest,), repetitions=repetitions, num_envs=num_envs)
    played: dict[str, tuple[list[Episode], float | None]] = {}
    for mode in checks.chosen_modes(spec, modes):
        # Not every mode has tasks in every split; that the split has any was checked above.
        if spec.tasks(mode, split):
            played[mode] = play_split(spec, config, mode, decoding, writer, player)
    if not played:
        raise UserError(f"{spec.name} has no {split!r} task of the mode {', '.join(modes)}. Choose other modes.")
    episodes = tuple(episode for part, _ in played.values() for episode in part)
    seconds = sum(sum(len(e.turns) for e in part) / speed for part, speed in played.values() if speed)
    # Turns over seconds of all modes: a mean of speeds would count short modes too much.
    speed = sum(len(episode.turns) for episode in episodes) / seconds
    # Other players have no training whose folder could keep the result.
    if isinstance(policy, Agent) and policy.origin.folder is not None and writer is policy.reflector:
        note_evaluation(policy.origin.folder, policy, spec, config, decoding, played)
    return Evaluation(player.name, spec.identity, split, decoding, longest, episodes, speed, rules_of(spec))


def report(folder: str | Path, *others: str | Path) -> Path:
    """Write `report.html` into a run folder: tables, curves, episodes; its path.

    Args:
        folder: a run folder with results: of `evaluate`, or of the command line.
        *others: further ones, whose results go into the same page.

    Raises:
        RunFolderError: a folder holds no results.
        UnknownNameError: the package that writes it is not installed; the message says how to install it.
    """
    return write_report("page", [Path(folder), *map(Path, others)], Path(folder)).page


def _tasks(spec: EnvSpec, split: Split) -> list[Task]:
    tasks = [task for mode in spec.modes for task in spec.tasks(mode, split)]
    if not tasks:
        raise UserError(f"{spec.name} has no {split!r} task. Its tasks(mode, split) must return some.")
    return tasks


def _demonstrations(
    model: Model, episodes: Sequence[Episode], spec: EnvSpec | None, *, reflections: bool, lost: bool
) -> tuple[list[Episode], bool]:
    """The episodes that `train_sft` learns from, and whether the policy learns to read reflections.

    Raises:
        ModelError: the training does not fit into memory.
        UserError: there is nothing to learn from, or an episode is of a validation or test task of the environment.
    """
    kept = usable(episodes if spec is None else of_environment(episodes, spec.identity), lost=lost)
    if spec is not None:
        refuse_held_out(kept, spec, "train_sft")
    # Before reflections are written, which can take long.
    _check_room(model, trainings=1 + reflections)
    reader = model.reflector if isinstance(model, Agent) and not reflections else NoReflector()
    reads = not isinstance(reader, NoReflector)
    # A player that sees the solver cannot write on recorded states, so what it wrote then stays.
    if reads and not reader.sees_oracle:
        kept = reflected(kept, reader)
    if reads and not has_reflections(kept):
        raise UserError(
            "the agent's reflection player sees the solver and cannot write on recorded states. Collect the episodes "
            "with it: collect(env, policy, agent.reflector); or train agent.model alone."
        )
    if reflections and not has_reflections(kept):
        raise UserError(
            "the episodes hold no reflection to learn from. Let a reflection player write them: "
            "add_reflections(episodes, reflector); or leave reflections=False."
        )
    return kept, reflections or reads


def require_model(model: object) -> None:
    """Refuse what is no model, such as the name of one.

    Raises:
        UserError: it is none.
    """
    if not isinstance(model, (Agent, LanguageModel, Blueprint)):
        given = f"{str(model)!r}" if isinstance(model, (str, Path)) else "'embedded'"
        raise UserError(f"{model!r:.200} is no model. Load one first: reflect_rl.load_model({given}).")


def _agent(model: Model, episodes: Sequence[Episode], spec: EnvSpec | None, seed: int) -> Agent:
    """The model as an agent; one that is not built yet learns its words from the episodes, or from random play."""
    require_model(model)
    # Recorded states may list more actions than the environment's class says, and each needs a label.
    longest = max((len(turn.order) for episode in episodes for turn in episode.turns), default=0)
    if isinstance(model, Agent):
        return model.for_actions(longest if spec is None else max(longest, spec.max_actions))
    actions = max(longest, TextEnv.max_actions if spec is None else spec.max_actions)
    if isinstance(model, LanguageModel):
        return Agent.of(model, actions)
    if spec is not None and not episodes:
        # An untrained agent for online RL has no demonstrations, so random play must show the words of the game.
        episodes = labelled(collect(spec, "random", episodes=WORD_EPISODES, seed=seed))
    parts = ("policy_plain", "policy_reflect", "reflector") if has_reflections(episodes) else ("policy_plain",)
    names = [str(number) for number in range(actions)]
    tables = [rows(part, episodes, names, frozenset(), notes=imitated) for part in parts]
    return Agent.of(model.build([row.prompt + row.completion for table in tables for row in table], actions), actions)


WORD_EPISODES = 200
"""Random episodes from which a model without demonstrations learns the words of a game."""
