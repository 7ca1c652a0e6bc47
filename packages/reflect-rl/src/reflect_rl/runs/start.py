"""Beginning of a run: from scratch, where it stands, or with the data and supervised models of another (`start_from`).

A folder is refused that holds a run with other settings. A supervised model that was trained in the other run with
other settings is not taken, nor one that follows from it. An evaluation takes what was trained online, too: it plays
the other run's players on other games (`reflect-rl eval`). Nothing is written into the other run. A job is taken
whole or not at all: its files are copied to a hidden folder of the unit, which is then renamed, the folder with the
mark `done` last.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from reflect_rl.config import EMBEDDED, Section, parse, sections, sections_of
from reflect_rl.data.generate import BASE, is_reflector, policy_beside
from reflect_rl.envs.base import ComparesTraining
from reflect_rl.errors import ConfigError, RunFolderError, UnknownNameError, UserError
from reflect_rl.registry import dotted_names, refuse_foreign
from reflect_rl.runs.check import check, feasible
from reflect_rl.runs.config import NamesServer, RunConfig, fingerprint
from reflect_rl.runs.folder import (
    CARD,
    Job,
    RunCard,
    TakenJobs,
    alone,
    check_job,
    code_sha256,
    provenance,
    read_card,
    write_card,
)
from reflect_rl.runs.stages import missing_needs, plan, stages, taken_stages
from reflect_rl.store import read_json, whole_folder, write_json
from reflect_rl.watchdog import HANGS

SETTINGS = ("environment", "prompt", "model", "data")
"""Parts of the configuration that the data follow from."""

ONLINE = ("methods", "rlft")
"""Parts that neither data nor supervised models follow from."""

TRAINED = ("sft", "reflector", "rlft")
"""Parts that supervised and further training may follow from besides (`Method.follows`).

An evaluation of players needs those equal that they follow from, and the sections of their stages.
"""

UNTRAINED = {"save_steps"}
"""Settings of a supervised training that its model does not follow from."""

LEFT = shutil.ignore_patterns("checkpoint*", "*.new", "error.txt", "tensorboard", "tracking.json")
"""Files that stay in the other run, because only its own training has a use for them."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk."""


def begin(config: RunConfig, command: str, *, evaluates: bool = False) -> list[str]:
    """Open the run folder, and take finished jobs from the run `start_from`.

    Jobs that are not finished there, had other settings, or lack a data set that is learned from here, are left to this
    run, and so are all that need them.

    Args:
        config: of the run.
        command: for the run card.
        evaluates: whether the run only evaluates. Then online training is taken as well, and the environment may
            differ in what its class leaves free (`evaluation_only`).

    Returns:
        titles of the jobs that were taken.

    Raises:
        ConfigError: the configuration asks for something that does not exist.
        RunFolderError: the folder belongs to another configuration, the other run was made with other settings, or one
            of them is not readable; nothing was written then.
    """
    check(config, evaluates=evaluates)
    jobs = [job for job in plan(config) if job.kind in taken_stages(evaluates=evaluates) and not job.done]
    # With all jobs done the other run is not needed, and may be gone.
    if config.start_from is None or not jobs:
        open_run(config, command, evaluates=evaluates)
        return []
    # Before open_run writes anything: a refusal must not leave a folder with settings that cannot start.
    before = _run_there(config, config.start_from, evaluates=evaluates)
    # An evaluation plays what was trained there, and needs no data.
    lacking = [] if evaluates else [job for job in jobs if _lacks_data(job, config, config.start_from)]
    if lacking:
        _refuse_infeasible(config, config.start_from)
    open_run(config, command, evaluates=evaluates)
    same = [job for job in jobs if job not in lacking and (job.kind != "sft" or _trained_alike(job, before, config))]
    # A second process of the same command would copy into the same hidden folder.
    with alone(config.output_dir):
        # In the order of the plan: what needs a job that was not taken is not taken either.
        return [job.title for job in same if not missing_needs(job) and _take(job, config, config.start_from)]


TURNS = "environment.max_episode_steps"
FREE_KEYS = ("output_dir", "workers", "start_from", "trackers", "limits")
"""Settings that change no result, so a run may go on with others (episodes that limits leave out are written down)."""


def _of_sections(sort: Literal["free", "addresses"]) -> frozenset[str]:
    """Dotted names of the settings of this sort, of all sections and of the tables inside them."""
    return frozenset(name for place, kind in sections().items() for name in _of_section(place, kind, sort))


def _of_section(place: str, kind: type[Section], sort: Literal["free", "addresses"]) -> Iterator[str]:
    for key in kind.free if sort == "free" else kind.addresses:
        yield f"{place}.{key}"
    for key, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from _of_section(f"{place}.{key}", inner, sort)


def open_run(config: RunConfig, command: str, *, evaluates: bool = False) -> None:
    """Make the run folder, or check that the one at hand is of the same configuration.

    Args:
        config: of the run.
        command: for the run card.
        evaluates: see `check`.

    Raises:
        ConfigError: the configuration asks for something that does not exist.
        RunFolderError: the folder belongs to another configuration, another process is at work in it, or it cannot be
            written.
    """
    # First, so that a refused configuration leaves no folder behind.
    check(config, evaluates=evaluates)
    folder, resolved = config.output_dir, json.loads(config.model_dump_json())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A refused command must not change the settings of a run that is at work.
        with alone(folder):
            _refuse_other_run(config, resolved)
            resolved = _without_unused(resolved)
            # A file that is there is kept as it was written: it says what the first jobs were made with.
            if not (folder / "config.json").exists():
                write_json(folder / "config.json", resolved)
            # After config.json: a kill between the two leaves a folder that the same command completes.
            if not (folder / CARD).exists():
                write_card(folder, _card(config, command, resolved))
    except OSError as error:
        # For a full disk another folder is no remedy; the command line has a sentence of its own for it.
        if error.errno in FULL:
            raise
        raise RunFolderError(
            f"cannot write the run folder {folder}: {error.strerror or error}. Choose another --output-dir."
        ) from None


def _refuse_other_run(config: RunConfig, resolved: dict[str, Any]) -> None:
    """A folder may be missing, empty, or of a run with these settings, which two files tell.

    A setting with which nothing was made yet may change: a start that failed on a wrong value is corrected and
    repeated.
    """
    folder = config.output_dir
    other = "Choose another --output-dir, or delete the folder."
    has_card = (folder / CARD).exists()
    if has_card:
        card = read_card(folder)
    if (folder / "config.json").exists():
        # Older files lack newer settings. With the defaults filled in, an update of the program is no other run.
        before = read_json(folder / "config.json", "Delete the file; the same command writes it again.")
        # By the same code: another version may hash the same settings otherwise.
        if has_card and card.code_sha256 == code_sha256() and card.config_hash != _config_hash(before):
            raise RunFolderError(
                f"{folder / 'config.json'} was changed since the run began (by the hash in {CARD}). Put it back, or "
                "delete it and give the command that began the run. For other settings choose another --output-dir."
            )
        changed = {*differences(bound(_completed(before, resolved)), bound(resolved))}
        tables = {line.partition(" ")[0].partition(".")[0] for line in changed}
        # Attempts at the reflection player were judged by games that it played with these settings.
        if "reflector" in tables and resolved["sft"]["reflector"]["attempts"] > 1:
            tables.add("sft")
        # Before anything is retracted, which would also forget what the games were.
        if has_card and not tables & _marked(config):
            _refuse_changed_games(config, card, before)
        if changed and not _retract(config, tables):
            raise RunFolderError(
                f"{folder} holds a run with other settings: {'; '.join(sorted(changed)[:5])}. {other}"
                f"{_elsewhere(config, _parsed(before, resolved), tables)}"
            )
    # A broken config.json may be deleted, because the card holds the hash of its settings.
    elif has_card:
        if card.config_hash != _config_hash(resolved):
            raise RunFolderError(f"{folder} holds a run with other settings (by the hash in its {CARD}). {other}")
        _refuse_changed_games(config, card)
    # Results whose settings nobody knows must not be mixed with new ones.
    elif any(folder.glob("starts-*")):
        raise RunFolderError(f"{folder} holds a run of unknown settings: config.json and {CARD} are missing. {other}")


def _marked(config: RunConfig) -> set[str]:
    """Tables of the settings that the fingerprint follows from: with others, another one is no wonder."""
    return {"environment", "prompt", "data"} | {
        table for table, places in _followed_by(config).items() if table in sections() and "data" in places
    }


def _refuse_changed_games(config: RunConfig, card: RunCard, written: dict[str, Any] | None = None) -> None:
    """Equal settings may name other games than they did: files and variables stand behind them.

    Args:
        config: of the run.
        card: of its folder; without a fingerprint it is older than these notes.
        written: the settings in its folder.
    """
    # A run that only shows what it has needs no games.
    if card.fingerprint is None or all(job.done for job in plan(config)):
        return
    now = fingerprint(config, written)
    if now != card.fingerprint and not _retract(config, {"environment"}):
        raise RunFolderError(
            f"the games of {config.output_dir} have changed since it began, under the same settings: the fingerprint "
            f"of rules, texts, tasks and prompts was {card.fingerprint} then and is {now} now. Set back what the "
            "settings name, such as the folder in environment.games; or, if the program was updated since, go on with "
            "the version that began the run; or choose another --output-dir."
        )


FOLLOWS: dict[str, tuple[str, ...]] = {
    # Data sets are made before any training, so a change of training leaves them valid.
    "sft": ("sft", "rlft", "evaluation"),
    "reflector": ("rlft", "evaluation"),
    "rlft": ("rlft", "evaluation"),
}
"""Table of the settings -> folders of a unit that hold what follows from it.

A section says its own, and a method which tables its training follows from. From other tables everything follows.
"""

NOTES = {"error.txt", "progress.json", "metrics.jsonl", "tracking.json", "reflection_server.json"}
"""Files of a job that has left nothing to go on from."""


def _followed_by(config: RunConfig) -> dict[str, set[str]]:
    """Table of the settings -> folders of a unit that hold what follows from it, in this run."""
    found = {place: {*kind.followed_by} for place, kind in sections().items()}
    found |= {table: {*places} for table, places in FOLLOWS.items()}
    for method in map(config.method, config.methods):
        for table in found.keys() & {*method.follows}:
            found[table].add(f"{method.trainer}/{method.name}")
    return found


def _retract(config: RunConfig, tables: set[str]) -> bool:
    """Delete the notes of failed starts, if nothing was made yet with these tables of the settings; tell whether so."""
    folder, follows = config.output_dir, _followed_by(config)
    # Each stage has a folder of its own name in a unit, but for the evaluation.
    every = {*stages(), "evaluation"}
    places = {place for table in tables for place in follows.get(table, every)}
    units_there = [unit for unit in folder.glob("starts-*/seed-*") if unit.is_dir()]
    # The mark decides for data: files of a start that failed half way are written anew.
    begun = "data" in places and (any(folder.glob("starts-*/seed-*/data/done")) or any(folder.glob("*/done")))
    for unit in units_there:
        trained = (path for place in places - {"data"} for path in (unit / place).rglob("*") if path.is_file())
        # For trainings any file decides but notes: a checkpoint without the mark was made with these settings, too.
        begun = begun or not all(
            path.name in NOTES or path.match(HANGS) or "tensorboard" in path.parts for path in trained
        )
    if begun:
        return False
    # Only after all units were looked at, so that a refusal has deleted nothing.
    for place in (unit / place for unit in units_there for place in places):
        shutil.rmtree(place, ignore_errors=True)
    # They describe the old settings; `open_run` writes both again.
    for name in ("config.json", CARD):
        (folder / name).unlink(missing_ok=True)
    return True


def _elsewhere(config: RunConfig, before: RunConfig | None, tables: Collection[str]) -> str:
    """Name the command that uses what the folder holds with other settings; empty where none can.

    Args:
        config: with these settings.
        before: the settings in the folder (None: not readable).
        tables: of the settings that differ.
    """
    folder = config.output_dir
    if before is None or not any(folder.glob("starts-*/seed-*/data/done")):
        return ""
    with suppress(UserError):
        if {*tables} == {"evaluation"} and not any(_changes(before, config, evaluates=True)):
            return f" `reflect-rl eval {folder} --output-dir NEW`, with these settings as flags, plays its players."
        if not any(_changes(before, config, evaluates=False)):
            return (
                f" With `--start-from {folder}` another run uses its data, and the supervised models that are made "
                "with the same settings."
            )
    return ""


def _completed(values: Any, resolved: dict[str, Any]) -> Any:
    """A configuration with the defaults of the settings that are newer than its file."""
    found = _parsed(values, resolved)
    return values if found is None else json.loads(found.model_dump_json())


def _parsed(values: Any, resolved: dict[str, Any]) -> RunConfig | None:
    """A configuration as it was written; None: it is of another version, or was changed by hand."""
    try:
        refuse_foreign(values, Path("config.json"), dotted_names(resolved))
        return parse(RunConfig, values)
    except (AttributeError, ConfigError, UnknownNameError):
        return None


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Name each difference, for example `rlft.num_envs is 64 there and 32 here`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            yield from differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif before != after:
        yield f"{path or 'the configuration'} is {before!r} there and {after!r} here"


def bound(value: Any, path: str = "") -> Any:
    """The settings that a run cannot change on its way, of a whole configuration or of a part of it."""
    # A model that moves to another port is the same model, but with and without a server are different runs.
    if path in _of_sections("addresses"):
        return "a server" if value else ""
    if not isinstance(value, dict):
        return value
    names = {key: f"{path}.{key}" if path else key for key in value}
    # Free settings are listed and all others are bound: a new setting is safe without anybody's thought.
    free = {*FREE_KEYS, *_of_sections("free")}
    return {key: bound(value[key], name) for key, name in names.items() if name not in free}


def _without_unused(values: Any, path: str = "") -> Any:
    """The settings without sections that say nothing: a distribution that is installed later makes no other run."""
    if not isinstance(values, dict):
        return values
    known = sections()
    kept: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{path}.{key}" if path else key
        default = json.loads(known[name].unset().model_dump_json()) if name in known else None
        if name not in known or bound(value, name) != bound(default, name):
            kept[key] = _without_unused(value, name)
    return kept


def _config_hash(resolved: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(bound(_without_unused(resolved)), sort_keys=True).encode()).hexdigest()[:16]


def _card(config: RunConfig, command: str, resolved: dict[str, Any]) -> RunCard:
    return RunCard(
        **dict(provenance()),
        benchmark=config.env.name,
        command=command,
        config_hash=_config_hash(resolved),
        fingerprint=fingerprint(config),
        seeds=config.seeds,
        servers={
            place: section.host
            for place, section in sections_of(config).items()
            if isinstance(section, NamesServer) and section.host
        },
    )


def _run_there(config: RunConfig, source: Path, *, evaluates: bool) -> RunConfig:
    """The other run, whose settings must be equal where all that is taken follows from them."""
    remedy = "Name the folder of another run that `reflect-rl sft` or `reflect-rl run` has finished."
    # By the resolved path, since two spellings of one folder would make the run copy onto itself.
    if source.resolve() == config.output_dir.resolve():
        raise RunFolderError(f"start_from: {source} is the folder of this run itself. {remedy}")
    values = read_json(source / "config.json", f"It is needed for start_from. {remedy}")
    card = read_card(source)
    own = dotted_names(config.model_dump(mode="json"))
    if not evaluates and not dotted_names({key: values.get(key) for key in ONLINE}) <= own:
        # Parts that nobody has named here are not imported. They trained what is not taken.
        values = {key: value for key, value in values.items() if key not in ONLINE} | {"methods": list(config.methods)}
    try:
        refuse_foreign(values, source / "config.json", own)
        before = parse(RunConfig, values)
    # A run of another version may name settings, or parts, that do not exist any more.
    except (AttributeError, ConfigError, UnknownNameError) as error:
        raise RunFolderError(f"start_from: {source / 'config.json'} is of no use here ({error}). {remedy}") from None
    changed = [*_changes(before, config, evaluates=evaluates)]
    # The settings first: they name what differs, and the fingerprint only says that something does.
    if not changed:
        changed = [*_other_game(before, config, card.fingerprint)]
    if changed:
        made = "models" if evaluates else "data and supervised models"
        turns = ""
        if evaluates and not config.env.env_class.fixed_horizon and any(TURNS in line for line in changed):
            turns = " (evaluation.horizons says how many turns are played)"
        raise RunFolderError(
            f"start_from: the {made} of {source} were made with other settings: "
            f"{'; '.join(changed[:5])}. Set them equal{turns}, or leave start_from unset."
        )
    # Other games can overlap with those of training, and results on seen tasks would look like generalisation.
    if shared := _trained_on(before, config):
        raise RunFolderError(
            f"start_from: the players of {source} were trained on {len(shared)} of what they would be tested on, such "
            f"as {shared[0]!r}. Test them on what they have not seen."
        )
    if shared := _selected_on(before, config):
        raise RunFolderError(
            f"start_from: the players of {source} were selected on {len(shared)} of what they would be tested on, such "
            f"as {shared[0]!r}: validation games chose the best. Test them on other games, or leave such methods out."
        )
    return before


def _trained_alike(job: Job, before: RunConfig, after: RunConfig) -> bool:
    """Tell whether supervised training of this model follows from the same settings in both runs."""
    part = job.name.removesuffix("_positive")
    # Every supervised training goes on from the base, so its settings count for each.
    names = {BASE, part}
    judged = is_reflector(part) and max(config.sft.reflector.attempts for config in (before, after)) > 1
    if judged:
        names.add(policy_beside(part))

    def settings(config: RunConfig) -> list[object]:
        trained: list[object] = [config.sft.of(name).model_dump(exclude=UNTRAINED) for name in sorted(names)]
        # Games tell which attempt is kept.
        return [*trained, config.reflector.model_dump(), config.evaluated_modes] if judged else trained

    return settings(before) == settings(after)


def _other_game(before: RunConfig, after: RunConfig, known: str | None) -> Iterator[str]:
    """Name changes of the game since the other run, whose fingerprint was noted.

    Where an evaluation plays other games, those of the other run decide; they may be missing here.
    """
    if before.environment.model_dump() == after.environment.model_dump():
        marks = [fingerprint(after)]
    else:
        marks = []
        with suppress(UserError):
            marks = [fingerprint(before)]
    for mark in marks:
        if mark != known:
            yield f"the fingerprint of rules, texts, tasks and prompts is {known} there and {mark} here"


def _trained_on(before: RunConfig, after: RunConfig) -> Sequence[str]:
    """Tasks to be played that were trained on; none where the other run's games are not here."""
    modes, split = after.evaluated_modes, after.evaluation.split
    # The environment keeps its own splits apart; only other settings can mix them.
    if split == "train" or before.environment == after.environment:
        return ()

    def keys(config: RunConfig, names: Sequence[str], part: str) -> set[str]:
        return {task.key for mode in names for task in config.env.tasks(mode, part)}

    with suppress(UserError):
        game = after.env.capability(ComparesTraining)
        if game is not None:
            return game.trained_on(before.environment, modes, split)
        return sorted(keys(before, before.env.all_modes, "train") & keys(after, modes, split))
    return ()


def _selected_on(before: RunConfig, after: RunConfig) -> Sequence[str]:
    """Tasks of the test by which players were chosen; none where the other run's games are not here."""
    # Whoever plays validation games does not call them the test.
    if after.evaluation.split != "test" or before.environment == after.environment or not _selects(before, after):
        return ()

    def games(config: RunConfig, split: str) -> dict[str, str]:
        tasks = (task for mode in config.evaluated_modes for task in config.env.tasks(mode, split))
        # Without the mode: a game that chose in one mode is no test in another.
        return {task.key.removeprefix(f"{task.mode}/"): task.key for task in tasks}

    with suppress(UserError):
        chose, tested = games(before, "validation"), games(after, "test")
        return [key for game, key in tested.items() if game in chose]
    return ()


def _selects(before: RunConfig, after: RunConfig) -> bool:
    """Tell whether validation games of the other run chose a model that is evaluated here."""
    methods = [after.method(name) for name in after.methods]
    best = before.rlft.keep == "best" and any(method.online for method in methods)
    repeats = before.sft.reflector.attempts > 1
    return best or (repeats and any(is_reflector(dataset) for method in methods for dataset in method.datasets))


def _changes(before: RunConfig, after: RunConfig, *, evaluates: bool) -> Iterator[str]:
    keys = (*SETTINGS, *(_trained_by(after) if evaluates else ()))
    free = after.env.env_class.evaluation_only if evaluates else ()
    there, here = (_settings(config, keys, free) for config in (before, after))
    yield from sorted(line for key in keys for line in differences(there[key], here[key], key))
    units: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "seeds": (before.seeds, after.seeds),
        "data.demonstration_starts": (before.data.demonstration_starts, after.data.demonstration_starts),
    }
    for key, (known, wanted) in units.items():
        # A subset is enough: units do not depend on one another.
        if not set(wanted) <= set(known):
            yield f"{key} is {list(known)} there and {list(wanted)} here"
    modes = [sorted(config.evaluated_modes) for config in (before, after)]
    # The modes of the evaluation decide which states the data sets lack. A trained model may be asked for fewer.
    fits = set(modes[1]) <= set(modes[0]) if evaluates else modes[0] == modes[1]
    if after.data.exclude_held_out_states and not fits:
        yield f"evaluation.modes is {modes[0]} there and {modes[1]} here; data.exclude_held_out_states leaves them out"


def _trained_by(config: RunConfig) -> Iterator[str]:
    """Parts of the configuration that the models of a run follow from, besides those that the data follow from."""
    follows = {"sft", *(table for name in config.methods for table in config.method(name).follows)}
    yield from (table for table in TRAINED if table in follows)
    # Products of the core's stages follow from its own parts, and the fingerprint tells what they asked of others.
    kinds = {job.kind for job in plan(config)} - {"data", "sft", "rlft", "eval"}
    yield from (place for place, kind in sections().items() if "." not in place and kinds & {*kind.followed_by})


def _settings(config: RunConfig, keys: Collection[str], free: Collection[str]) -> dict[str, Any]:
    """Settings as JSON, without the `free` ones of the environment.

    A unit depends on its own number of starts only, so a run may take some of them.
    """
    # Plain JSON, which `bound` and `differences` walk key by key.
    resolved = json.loads(config.model_dump_json(include={*keys}))
    settings: dict[str, Any] = {key: bound(resolved[key], key) for key in keys}
    # `_changes` compares it as a set of units.
    del settings["data"]["demonstration_starts"]
    for part in settings.get("sft", {}).values():
        if isinstance(part, dict):
            for key in UNTRAINED:
                part.pop(key, None)
    settings["environment"] = {key: value for key, value in settings["environment"].items() if key not in free}
    return settings


def _there(job: Job, config: RunConfig, source: Path) -> Job:
    """The same job of the other run."""
    return replace(job, unit=replace(job.unit, run=source), folder=source / job.folder.relative_to(config.output_dir))


def _lacks_data(job: Job, config: RunConfig, source: Path) -> bool:
    """Tell whether the other run made its data without a data set that is learned from here.

    A game without a teacher has reflections only where a player was asked for some, and there another one, or none, may
    have been.
    """
    there = _there(job, config, source)
    wanted = {dataset for name in config.methods for dataset in config.method(name).datasets}
    return job.kind == "data" and there.done and not all(there.unit.dataset(name).is_file() for name in wanted)


def _refuse_infeasible(config: RunConfig, source: Path) -> None:
    """Refuse methods for which neither the other run has the data sets nor this one can make them."""
    for name in (name for name in config.methods if config.method(name).datasets):
        try:
            # With `start_from` it would take for granted that the data sets are there.
            feasible(config.model_copy(update={"start_from": None, "methods": (name,)}))
        except ConfigError as error:
            reason = str(error).partition(" is left out: ")[2].partition("\n")[0]
            raise RunFolderError(
                f"start_from: {source} lacks data sets of these methods, and those of {name!r} cannot be made here: "
                f"{reason} Or leave this method out."
            ) from None


def _take(job: Job, config: RunConfig, source: Path) -> bool:
    """Take a job that was finished in the other run; tell whether it is now here."""
    there = _there(job, config, source)
    # The job `data` makes a model, too: the embedded one, whose tokenizer follows from the data sets.
    name = "untrained" if job.kind == "data" else job.name
    model = there.unit.model(name)
    has_model = job.kind == "sft" or (job.kind == "data" and config.model.path == EMBEDDED)
    online = there.folder / "model"
    # The mark is not enough: models are deleted by hand to save space.
    if not there.done or (has_model and not model.is_dir()) or (job.kind == "rlft" and not online.is_dir()):
        return False
    check_job(there.folder, job.kind)
    scratch = job.unit.folder / ".copy"
    # The model first and the folder with the mark last: a kill in between leaves a job that is not done.
    if has_model:
        _copy(model, job.unit.model(name), scratch, _link)
    _copy(there.folder, job.folder, scratch, _link_models)
    _note(config.output_dir, source, job.title)
    return True


def _copy(source: Path, target: Path, scratch: Path, copy: Callable[[str, str], None]) -> None:
    """A folder, whole or not at all."""
    try:
        with whole_folder(target, scratch) as fresh:
            _copy_files(source, fresh, copy)
    except OSError as error:
        if error.errno not in FULL:
            raise
        # It names the file that was read, which may lie on another disk.
        raise OSError(error.errno, error.strerror, str(target)) from None


def _copy_files(source: Path, target: Path, copy: Callable[[str, str], None]) -> None:
    """The files of a folder and of those below it, without those of `LEFT`."""
    # Not shutil.copytree: its error holds no number, so a full disk could not be told from a fault of this program.
    names = sorted(path.name for path in source.iterdir())
    left = LEFT(str(source), names)
    for name in (name for name in names if name not in left):
        if (source / name).is_dir():
            (target / name).mkdir()
            _copy_files(source / name, target / name, copy)
        else:
            copy(str(source / name), str(target / name))


def _link(source: str, target: str) -> None:
    """A model's files are never changed in place, so where the file system can, both runs share them."""
    try:
        os.link(source, target)
    # Other file systems, and some without links at all, need a copy.
    except OSError:
        shutil.copyfile(source, target)


def _link_models(source: str, target: str) -> None:
    """Files of a job's folder: metrics grow, the model that online training leaves there does not."""
    # A linked metrics.jsonl would grow in the other run, too.
    (_link if Path(source).parent.name == "model" else shutil.copyfile)(source, target)


def _note(folder: Path, source: Path, title: str) -> None:
    """Note in the run card where a job comes from, and what it was made with."""
    # After each job and not once at the end: an interrupted start has noted all that it took.
    card, origin = read_card(folder), read_card(source)
    before = card.start_from.jobs if card.start_from is not None else ()
    taken = TakenJobs(
        folder=str(source),
        config_hash=origin.config_hash,
        fingerprint=origin.fingerprint,
        git_commit=origin.git_commit,
        versions=origin.versions,
        hardware=origin.hardware,
        jobs=tuple(dict.fromkeys([*before, title])),
    )
    write_card(folder, card.model_copy(update={"start_from": taken}))
