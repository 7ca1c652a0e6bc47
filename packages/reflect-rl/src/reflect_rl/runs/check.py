"""Checks and decisions before a run begins, for which the environment must be known.

A mistake that shows after hours of training is found here in milliseconds. What is left open is settled here, too: the
number format of the model, and whether its training fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflect_rl import registry
from reflect_rl.config import EMBEDDED, ModelConfig, parse
from reflect_rl.curricula import modes_of
from reflect_rl.data.generate import Source, is_reflector, policy_beside, source_of
from reflect_rl.data.recorded import has_reflections, read_episodes
from reflect_rl.envs.base import HasTeacher, NumbersActions, TellsHindsight
from reflect_rl.errors import ConfigError, UnknownNameError, suggestion
from reflect_rl.evaluation.methods import Method, find_method
from reflect_rl.launch import local_process_count, process_count
from reflect_rl.models.memory import GB
from reflect_rl.runs.config import ChecksRun, RunConfig, annotator_of, used_parts
from reflect_rl.store import read_json
from reflect_rl.training.metrics import missing_trackers

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from reflect_rl.models.precision import Choice

FOLLOWER = "advice"
"""Installed policy that does what the last sentence of a reflection says."""

SOURCES: dict[Source, str] = {
    "recorded": "data: supervised training imitates the recorded episodes of {config.data.episodes}.",
    "successes": "data: supervised training imitates the won episodes of {player}.",
    "none": "data: {config.environment.name} has no solver and nothing was recorded, so nothing is imitated.",
}
"""Sentences that say what takes the place of a solver's demonstrations."""


def feasible(config: RunConfig) -> tuple[RunConfig, list[str]]:
    """The run without the methods that it lacks something for, and the sentences that say so.

    Where there is no solver, a sentence says what takes the place of its demonstrations.

    Args:
        config: of the run. With `start_from`, its models are made elsewhere, so only the environment is looked at.

    Raises:
        ConfigError: no method is left.
    """
    # Left out and not refused: the default methods must run in a game without solver or teacher.
    lacking = {name: reason for name in config.methods if (reason := _lacks(config, name))}
    kept = tuple(name for name in config.methods if name not in lacking)
    reasons = [f"methods: {name!r} is left out: {reason}." for name, reason in lacking.items()]
    if not kept:
        raise ConfigError("\n".join([*reasons, "No method is left. Add one that needs less, such as 'rlft'."]))
    # A run that takes its models from another imitates nothing itself, nor does one whose players learn nothing.
    imitates = config.start_from is None and any(config.method(name).model for name in kept)
    if imitates and (source := source_of(config.data, config.env)) in SOURCES:
        player = "a random player" if config.model.path == EMBEDDED else "the untuned model"
        reasons.insert(0, SOURCES[source].format(config=config, player=player))
    return config.model_copy(update={"methods": kept}) if lacking else config, reasons


def _lacks(config: RunConfig, name: str) -> str:
    """Name what a method needs and the run does not have; empty where nothing is missing."""
    method, game = config.method(name), config.environment.name
    if missing := method.missing(config.env):
        return f"it needs {' and '.join(missing)}, which {game} does not offer{_because(config, missing)}"
    if method.script == FOLLOWER and (reason := _names_no_command(config)):
        return reason
    # The other run has made its data sets; what would be needed to make them does not matter here.
    if config.start_from is not None or not method.datasets:
        return ""
    return _lacks_data(config, method)


def _because(config: RunConfig, missing: Sequence[str]) -> str:
    """Name the settings where they, and not the game, lack the capability."""
    return " under these settings" if any(each.__name__ in missing for each in config.env.prototype.withheld) else ""


def _names_no_command(config: RunConfig) -> str:
    """Reason why reflections cannot be followed word by word; empty where they end in a command."""
    advice = config.env.prototype.advice
    return "" if advice == "command" else f"with environment.advice = {advice!r} reflections name no command"


def _lacks_data(config: RunConfig, method: Method) -> str:
    """Name what is missing of the supervised data sets of a method."""
    source, game = source_of(config.data, config.env), config.environment.name
    if source == "none":
        return (
            f"{game} has no solver to demonstrate. Set data.episodes to a file of recorded episodes, or "
            "data.label_source = 'successes'"
        )
    # Only the solver's demonstrations are perturbed, so only they have negative examples.
    if source != "solver" and any(part.endswith("_positive") for part in method.datasets):
        return "without a solver there are no negative examples to leave out"
    reads = {"reflector", "policy_reflect"} & {part.removesuffix("_positive") for part in method.datasets}
    if reads and not _has_reflections(config, source):
        if source == "recorded":
            return (
                f"the episodes of {config.data.episodes} hold no reflections. Record some with `reflect-rl play "
                "--record`, or set reflector.kind to 'prompted' or the name of an installed reflection player"
            )
        return (
            f"{game} has no teacher, and there are no recorded reflections. Set reflector.kind to 'prompted' or "
            "the name of an installed reflection player, or data.annotator to that of an annotator"
        )
    return ""


def _has_reflections(config: RunConfig, source: Source) -> bool:
    """Tell whether there are reflections to train a policy on, whoever writes them."""
    # Whoever can be asked writes reflections on any state; only the run's own player must learn from some.
    if config.data.annotator != "oracle" or (source != "solver" and config.reflector.kind != "own"):
        return True
    if source == "recorded" and config.data.episodes is not None:
        return has_reflections(read_episodes(config.data.episodes))
    return source == "solver" and config.env.capability(HasTeacher) is not None


def check(config: RunConfig, *, evaluates: bool = False) -> None:
    """Refuse a configuration that cannot be carried out.

    Args:
        config: of the run.
        evaluates: whether the players of another run (`start_from`) are evaluated, so that nothing is demonstrated.

    Raises:
        ConfigError: one line per mistake, each with the key, the value and the remedy.
    """
    # All mistakes at once, so that a user corrects a file in one go.
    mistakes = [
        *_modes(config),
        *_game(config),
        *_numbers(config),
        *(missing_trackers(config.trackers) if config.trackers else ()),
        *(writers := [*_writers(config)]),
        # A part that does not exist cannot be asked.
        *([] if writers else _parts(config)),
    ]
    # The rest asks the game for tasks of the modes above, which must exist for that.
    if not mistakes:
        starts = [] if evaluates and config.start_from is not None else [*_starts(config)]
        mistakes = [*starts, *_tasks(config), *_curriculum(config)]
    if mistakes:
        raise ConfigError("\n".join(mistakes))


def _modes(config: RunConfig) -> Iterator[str]:
    keys: dict[str, Sequence[str]] = {
        "environment.modes": config.environment.modes,
        "data.modes": config.data.modes,
        "evaluation.modes": config.evaluation.modes,
    }
    # Only online training follows a curriculum.
    if _is_online(config):
        keys["rlft.curriculum.modes"] = config.rlft.curriculum.named_modes
    for key, modes in keys.items():
        yield from _repeated(key, modes)
        # A stage of a curriculum may join modes by a plus sign.
        for mode in (part for stage in modes for part in (modes_of(stage) if "curriculum" in key else [stage])):
            if mode not in config.env.all_modes:
                known = config.env.all_modes
                yield f"{key}: {config.environment.name} has no mode {mode!r}. {suggestion(mode, known)}"


def _is_online(config: RunConfig) -> bool:
    return any(config.method(name).online for name in config.methods)


def _game(config: RunConfig) -> Iterator[str]:
    """Mistakes about what only some games can do."""
    spec = config.env
    for name in config.methods:
        if missing := find_method(name).missing(spec):
            needed = " and ".join(missing)
            game = f"{config.environment.name} does not offer{_because(config, missing)}"
            yield f"methods: {name!r} needs {needed}, which {game}. Leave it out."
        elif find_method(name).script == FOLLOWER and (reason := _names_no_command(config)):
            yield f"methods: {name!r} follows commands, and {reason}. Leave it out."
    numbering = spec.capability(NumbersActions)
    if config.prompt.shuffle_labels and numbering is not None and numbering.numbered:
        yield (
            f"prompt.shuffle_labels: the states of {config.environment.name} give the number of each action, which a "
            "random order would make wrong. Set it to false."
        )
    if config.data.renumbered_copies and config.prompt.scoring != "choice_token":
        yield (
            f"data.renumbered_copies: copies have other labels, and there are none with prompt.scoring = "
            f"{config.prompt.scoring!r}. Set prompt.scoring = 'choice_token', or data.renumbered_copies = 0."
        )
    if config.data.reading == "exercises" and config.prompt.scoring != "line_end":
        yield (
            f"data.reading: the exercises ask for a line of a list, and prompt.scoring is {config.prompt.scoring!r}. "
            "Set prompt.scoring = 'line_end', or data.reading = 'text'."
        )
    untold = config.data.reading == "short_rows" and spec.capability(TellsHindsight) is None
    if config.data.reading_starts and untold:
        yield (
            f"data.reading_starts: a random player plays these {config.data.reading_starts} tasks, and short rows need "
            f"answers: {config.environment.name} cannot tell in hindsight for which tasks a move was right"
            f"{_because(config, [TellsHindsight.__name__])}. Set data.reading_starts = 0, or data.reading = 'text'."
        )
    # Cutting such an episode short would contradict the number of turns that its states show.
    if spec.env_class.fixed_horizon:
        horizon = config.environment.max_episode_steps
        if set(config.horizons) != {horizon}:
            yield (
                f"evaluation.horizons: {config.environment.name} shows how many turns are left, so no other "
                f"horizon can be evaluated. Set evaluation.horizons = [{horizon}], or environment.max_episode_steps."
            )
        if config.rlft.max_episode_steps not in (None, horizon):
            yield (
                "rlft.max_episode_steps: this game shows how many turns are left. Set environment.max_episode_steps "
                "instead."
            )


def _numbers(config: RunConfig) -> Iterator[str]:
    keys: dict[str, tuple[Sequence[Any], int]] = {
        "seeds": (config.seeds, 0),
        "data.demonstration_starts": (config.data.demonstration_starts, 1),
        "evaluation.horizons": (config.evaluation.horizons, 1),
    }
    for key, (values, lowest) in keys.items():
        yield from _repeated(key, values)
        for value in values:
            if value < lowest:
                yield f"{key}: {value} is too small. The lowest value is {lowest}."
    yield from _repeated("evaluation.decodings", config.evaluation.decodings)
    yield from _attempts(config)


def _attempts(config: RunConfig) -> Iterator[str]:
    """Attempts at a reflection player without the policy that would judge them."""
    trained = {dataset for name in config.methods for dataset in config.method(name).datasets}
    alone = sorted(d for d in trained if is_reflector(d) and policy_beside(d) not in trained)
    if config.sft.reflector.attempts > 1 and alone:
        yield (
            "sft.reflector.attempts: attempts are judged by games that a policy plays, and no method trains one that "
            "reads these reflections. Add 'sft_reflect' to methods, or set attempts = 1."
        )


def _parts(config: RunConfig) -> Iterator[str]:
    """Mistakes that parts of installed distributions find, each once: a policy and a reflector may share a server."""
    asked = [part for part in used_parts(config) if isinstance(part, ChecksRun)]
    yield from dict.fromkeys(mistake for part in asked for mistake in part.mistakes(config))


def _writers(config: RunConfig) -> Iterator[str]:
    """Mistakes in the names of those who write reflections."""
    try:
        if config.reflector.kind != "own":
            registry.find("reflectors", config.reflector.kind)
    except UnknownNameError as error:
        yield f"reflector.kind: {error}"
    try:
        annotator = annotator_of(config)
    except (ConfigError, UnknownNameError) as error:
        yield f"data.annotator: {error}"
        return
    if annotator is None:
        return
    if reason := _names_no_command(config):
        yield (
            f"data.annotator: an annotator's reflections end in a command, and {reason}. Set environment.advice = "
            "'command', or data.annotator = 'oracle'."
        )
    if (source := config.data.label_source) in ("paper", "noisy"):
        yield (
            f"data.label_source: under {source!r} the label is whatever was played, so there is no best action to tell "
            "an annotator. Set data.label_source = 'clean', or data.annotator = 'oracle'."
        )


def _repeated(key: str, values: Sequence[Any]) -> Iterator[str]:
    if len(set(values)) != len(values):
        yield f"{key}: an entry is repeated in {', '.join(map(str, values))}. Name each once."


def _starts(config: RunConfig) -> Iterator[str]:
    """Enough tasks to demonstrate."""
    if config.data.episodes is not None:
        if not config.data.episodes.is_file():
            yield f"data.episodes: no file {str(config.data.episodes)!r}. Name one of `reflect-rl play --record`."
        return
    # Players that learn nothing need no demonstrations; the job that makes some all the same counts again.
    if not any(config.method(name).model for name in config.methods):
        return
    modes = config.data.modes or config.env.modes[-1:]
    # Every mode is demonstrated from the same number of starts, so the smallest one decides.
    count = min(len(config.env.tasks(mode, "train")) for mode in modes)
    wanted = {
        "demonstration_starts": max(config.data.demonstration_starts),
        "reading_starts": config.data.reading_starts,
    }
    for name, most in wanted.items():
        if most > count:
            yield (
                f"data.{name}: {most} starts are asked for, the training split of {config.environment.name} "
                f"has {count}. Lower it to {count} or less."
            )


def _tasks(config: RunConfig) -> Iterator[str]:
    """Tasks of every mode to evaluate."""
    for mode in config.evaluated_modes:
        if not config.env.tasks(mode, config.evaluation.split):
            yield (
                f"evaluation.split: there is no {config.evaluation.split!r} task of mode {mode!r}. Name another split, "
                "or other modes."
            )
        if config.sft.reflector.attempts > 1 and not config.env.tasks(mode, "validation"):
            yield (
                f"sft.reflector.attempts: attempts are judged by validation games, and mode {mode!r} of "
                f"{config.environment.name} has none. Set attempts = 1."
            )
    if _is_online(config) and (mistake := config.rlft.unmeasured(config.env, config.evaluated_modes)):
        yield f"rlft.{mistake}"


def _curriculum(config: RunConfig) -> Iterator[str]:
    if not _is_online(config):
        return
    settings = config.rlft.curriculum
    try:
        # Only its constructor knows which settings go together; it is cheap and is thrown away.
        registry.find("curricula", settings.name)(settings, config.env.modes)
    except ValueError as error:
        yield f"rlft.{error}."


PROCESS_BYTES = 700_000_000
"""Bytes that Python, torch and transformers take in a process before any model is loaded."""


def settle(config: RunConfig, *, trains: bool) -> tuple[RunConfig, list[str]]:
    """The configuration with nothing left open, and what to tell the user about it.

    Args:
        config: of the run.
        trains: whether a model is trained, so that its memory is looked at.

    Raises:
        ModelError: the model cannot be found or name the actions, or the training would not fit into memory.
    """
    from reflect_rl.models.labels import find_labels
    from reflect_rl.models.load import check_trainable, device_of, load_reader
    from reflect_rl.models.source import has_adapter, resolve

    has_model = any(config.method(name).model for name in config.methods)
    config, notes = settle_precision(config, [config.output_dir, config.start_from])
    if not has_model:
        notes.clear()  # of no concern to scripts
    # Torch takes seconds to load, so it is asked only about a device that may be absent, or a format that may be slow.
    elif trains and config.model.device not in ("auto", "cpu"):
        device_of(config.model.device)
    if has_model and trains and config.model.precision != "float32" and device_of(config.model.device).type == "cpu":
        found = _measured_format(config.model)
        if found.is_slower:
            slow = f"model.precision = {config.model.precision!r} is slow here: {found.measured}"
            notes.append(f"{slow}. A new run with --model.precision auto takes float32.")
    if has_model and config.model.path != EMBEDDED:
        # Without its weights: loading them to learn that they do not fit would fail itself.
        model = load_reader(config.model)
        find_labels(model, config.env.max_actions, config.prompt.scoring)
        source = resolve(config.model.path)
        trains = trains and any(config.method(name).datasets or config.method(name).online for name in config.methods)
        check_trainable(config.model, source if has_adapter(source) else None, trains)
        if trains:
            notes.append(_check_memory(config, model.model.config))
            if "precision" not in config.model.model_fields_set:
                faster = _measured_format(config.model)
                # Not taken unasked: another machine would measure otherwise, and compute otherwise.
                if faster.precision != "float32":
                    notes.append(f"{faster.sentence}. Now it is float32, the default; --model.precision auto takes it.")
            parts = {name for method in config.methods for name in config.method(method).datasets}
            if unset := sorted(name for name in parts if "learning_rate" not in config.sft.of(name).model_fields_set):
                rate = f"learning_rate is {config.sft.of(unset[0]).learning_rate} by default, for small models"
                notes.append(f"sft.{', sft.'.join(unset)}: {rate}. Adapters of a pretrained model often take 2e-4.")
    return config, notes


def settle_precision(config: RunConfig, begun: Iterable[Path | None]) -> tuple[RunConfig, list[str]]:
    """Replace `precision = "auto"` by the number format of a run that was begun, or by the one that is fast here.

    Args:
        config: of the run.
        begun: folders of runs whose data or models this one goes on with, if they are there; the first one decides.

    Returns:
        The configuration, and what to say about the format.
    """
    from reflect_rl.models.load import device_of

    if config.model.precision != "auto":
        return config, []
    notes: list[str] = []
    written = [folder / "config.json" for folder in begun if folder and (folder / "config.json").exists()]
    # Measured again, another format could be the faster one today, and the run would not go on as it began.
    if written:
        precision = read_json(written[0], "Choose another --output-dir.").get("model", {}).get("precision", "float32")
    elif process_count() > 1 and device_of(config.model.device).type == "cpu":
        # Processes could measure differently, and must compute alike.
        precision, notes = (
            "float32",
            ["precision: float32 (auto: several processes measure nothing; `reflect-rl data` first does)"],
        )
    else:
        choice = _measured_format(config.model)
        precision, notes = choice.precision, [choice.sentence]
    # Parsed again and not copied: the rules between settings must hold for the chosen format, too.
    values = config.model_dump(mode="json", exclude_unset=True)
    return parse(RunConfig, values | {"model": values.get("model", {}) | {"precision": precision}}), notes


def _measured_format(model: ModelConfig) -> Choice:
    """The number format that is fastest on the device of a model; measured once in a process."""
    from reflect_rl.models.load import device_of
    from reflect_rl.models.precision import choose

    return choose(device_of(model.device), adapters=model.lora.rank > 0)


def _check_memory(config: RunConfig, causal: PretrainedConfig) -> str:
    """Estimate the memory of the run's trainings, and refuse what does not fit."""
    from reflect_rl.models.fits import PROCESSES, Demand, check_room, training_bytes
    from reflect_rl.models.load import device_of
    from reflect_rl.models.memory import Estimate, play_bytes

    device = device_of(config.model.device)
    on_cpu = device.type == "cpu"
    chosen = [config.method(name) for name in config.methods]
    is_online = any(method.online for method in chosen)
    # Online training holds the reflection player beside the policy, and the reference of the KL term.
    beside = config.reflector.kind == "prompted" or any(m.online and m.reflector in m.datasets for m in chosen)
    held = 1 + beside + config.rlft.algorithm.needs_reference

    def need(setting: ModelConfig) -> Estimate:
        """The larger estimate, of supervised or online training; rlft.micro_batch_tokens is of the second alone."""
        found = [training_bytes(causal, setting, device)]
        if is_online:
            tokens = config.rlft.micro_batch_tokens
            found.append(training_bytes(causal, setting, device, models=held, micro_batch_tokens=tokens))
        return max(found, key=lambda one: one.total)

    flag = "--workers"
    if process_count() > 1:
        # Every process of a launch holds the models of one job; those on GPUs have one each.
        flag, jobs = PROCESSES, local_process_count() if on_cpu else 1
    else:
        # Workers beyond the number of jobs stay idle and take no memory.
        jobs = min(config.workers, len(config.seeds) * len(config.data.demonstration_starts) * len(config.methods))
    process = PROCESS_BYTES if on_cpu else 0
    room = check_room(Demand(config.model.path, config.model, need, jobs, flag, process), device)
    played = play_bytes(causal, config.model, readers=1 + beside, writes=beside, on_gpu=device.type == "cuda")
    played *= jobs
    if played < GB / 10 or not is_online:
        return room.sentence
    # Short games take hardly any of it, so it is a warning and no reason to refuse.
    tight = " and may not fit" if room.needed + played > room.free else ""
    fewer = f" ({flag} 1 takes less)" if tight and jobs > 1 else ""
    return f"{room.sentence}; play with long states adds up to {played / GB:.1f} GB{tight}{fewer}"
