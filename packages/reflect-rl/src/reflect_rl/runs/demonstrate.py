"""The demonstrations of a run, and the supervised data sets that are made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from reflect_rl.config import EMBEDDED
from reflect_rl.data.generate import (
    BASE,
    DATASETS,
    LEXICAL_DATASETS,
    Kind,
    Renumbering,
    Row,
    Source,
    demonstration_tasks,
    demonstrations,
    exercises,
    held_out_states,
    plain_text,
    reads_reflections,
    rows,
    short_rows,
    shuffled,
    source_of,
)
from reflect_rl.data.recorded import (
    Notes,
    as_played,
    has_reflections,
    labelled,
    of_environment,
    read_episodes,
    reflected,
    refuse_held_out,
    usable,
)
from reflect_rl.envs.base import HasStateTeacher, TellsHindsight
from reflect_rl.errors import RunFolderError
from reflect_rl.models.embedded import build_for
from reflect_rl.models.labels import UNLABELLED, find_labels
from reflect_rl.models.load import LanguageModel, load_model, load_reader
from reflect_rl.prompts import parts_of, state_in
from reflect_rl.rollout import (
    NoReflector,
    Policy,
    RandomPolicy,
    Reflector,
    Request,
    VariedPolicy,
    failure_row,
    play,
)
from reflect_rl.runs.config import Annotations, RunConfig, annotator_of
from reflect_rl.runs.folder import Unit, read_card
from reflect_rl.runs.models import installed_reflector, lexical_reflector, policy_of, save_whole
from reflect_rl.store import read_jsonl, write_json, write_jsonl
from reflect_rl.types import Episode, Progress, seed_for, stream, to_json


def excluded_states(config: RunConfig) -> frozenset[str]:
    """States that are never learnt from, in supervised training or online: the starts of evaluated held-out tasks."""
    modes = config.evaluated_modes if config.data.exclude_held_out_states else ()
    return held_out_states(config.env, modes, config.limits)


def is_lexical(config: RunConfig) -> bool:
    """Tell whether the states of the game can be compared word by word."""
    return config.env.capability(HasStateTeacher) is not None


def demonstrated(
    config: RunConfig,
    unit: Unit,
    excluded: frozenset[str],
    reflector: Reflector | None = None,
    on_episode: Callable[[Episode], None] | None = None,
    on_failure: Callable[[Request, Exception], None] | None = None,
) -> dict[Kind, list[Episode]]:
    """The demonstrations of a unit; the same whenever they are played.

    Args:
        config: the run.
        unit: whose demonstrations.
        excluded: states in which no episode restarts.
        reflector: who writes the reflections (None: the game's teacher, or who wrote them when they were recorded).
        on_episode: called with each episode as it ends.
        on_failure: called with each episode that failed and is left out.
    """
    # Without a solver nothing can be perturbed on purpose, so there are no negative episodes.
    if source_of(config.data, config.env) != "solver":
        episodes = _imitated(config, unit, on_episode, on_failure)
        writer = reflector or asked_reflector(config)
        if writer is not None and (reflector is not None or not has_reflections(episodes)):
            episodes = reflected(episodes, writer)
        return {"positive": episodes, "negative": []}
    return demonstrations(
        config.data,
        config.env,
        unit.budget,
        unit.seed,
        reflector=reflector,
        shuffle_labels=config.prompt.shuffle_labels,
        excluded=excluded,
        limits=config.limits,
        on_episode=on_episode,
        on_failure=on_failure,
    )


def _imitated(
    config: RunConfig,
    unit: Unit,
    on_episode: Callable[[Episode], None] | None,
    on_failure: Callable[[Request, Exception], None] | None,
) -> list[Episode]:
    """Labelled episodes without a solver: recorded ones, own successes, or none."""
    source, data = source_of(config.data, config.env), config.data
    if source == "none":
        return []
    if source == "successes":
        player, attempts = _untuned_player(config), data.attempts_per_start
        played = _played(config, unit, unit.budget, attempts, player, on_episode=on_episode, on_failure=on_failure)
        return usable(played, remedy="Raise data.demonstration_starts or data.attempts_per_start.")
    assert data.episodes is not None  # noqa: S101 (an invariant of the configuration)
    recorded = of_environment(read_episodes(data.episodes), config.env.identity)
    episodes = usable(recorded, lost=data.lost_episodes)
    refuse_held_out(episodes, config.env, f"data.episodes: {data.episodes}")
    keys = list(dict.fromkeys(episode.task.unique_key for episode in episodes))
    # The same starts whatever the order of the file; a smaller budget is a subset of a larger one.
    order = stream(unit.seed, "demonstration starts").permutation(len(keys))[: unit.budget]
    # By key first: modes only tell apart the starts that share one.
    ordered = sorted(keys, key=lambda pair: pair[::-1])
    chosen = {ordered[index] for index in order}
    return [episode for episode in episodes if episode.task.unique_key in chosen]


def _untuned_player(config: RunConfig) -> Policy:
    """The untuned model as a player; a random one, where the model is built from what is played."""
    # The embedded model cannot play yet: its tokenizer is to be learned from these very episodes.
    if config.model.path == EMBEDDED:
        return RandomPolicy()
    return policy_of(config, load_model(config.model, trainable=False), "sampled")


def _played(
    config: RunConfig,
    unit: Unit,
    starts: int,
    attempts: int,
    policy: Policy,
    *,
    on_episode: Callable[[Episode], None] | None = None,
    on_failure: Callable[[Request, Exception], None] | None = None,
) -> list[Episode]:
    """Episodes of a player on the first training starts of a unit."""
    tasks = demonstration_tasks(config.data, config.env, starts, unit.seed)
    requests = [
        # Attempts at one task differ in their seed alone; equal ones would be the same episode.
        Request(task, seed_for(unit.seed, "attempt", task.key, copy))
        for task in tasks
        for copy in range(attempts)
    ]
    return play(
        config.env,
        requests,
        NoReflector(),
        policy,
        shuffle_labels=config.prompt.shuffle_labels,
        limits=config.limits,
        on_episode=on_episode,
        on_failure=on_failure,
    )


def asked_reflector(config: RunConfig) -> Reflector | None:
    """The reflection player of the run that needs no training; None where the run trains its own."""
    if config.reflector.kind == "own":
        return None
    return installed_reflector(config, config.reflector.kind, "demonstrations")


def demonstrate(unit: Unit, folder: Path, config: RunConfig, progress: Progress) -> None:
    """Demonstrations, the model both players start from, and the supervised data sets in its labels.

    Args:
        unit: whose demonstrations.
        folder: where they go.
        config: the run.
        progress: is told after each game and each data set.
    """
    excluded, failed = excluded_states(config), list[dict[str, Any]]()
    shown = partial(
        demonstrated,
        config,
        unit,
        excluded,
        on_episode=_counted(progress, 0, 1, "demonstrated"),
        on_failure=lambda request, error: failed.append(failure_row(request, error)),
    )
    episodes = shown()
    source = source_of(config.data, config.env)
    everything = [episode for pool in episodes.values() for episode in pool]
    annotator = annotator_of(config)
    annotations = None if annotator is None else annotator.read(config, everything, excluded)
    names: Sequence[str] = DATASETS
    if source != "solver":  # nothing was perturbed, and reflections may be missing
        has_notes = annotations is not None or has_reflections(everything)
        names = ("policy_plain", *(("reflector", "policy_reflect") if has_notes else ()))
    pools = dict.fromkeys(names, episodes)
    if is_lexical(config):
        # The same episodes, played again: only the texts of the reflections differ.
        pools |= dict.fromkeys(LEXICAL_DATASETS, shown(reflector=lexical_reflector(config.env)))
    # The embedded model does not exist yet, and will know these labels; of another its tokenizer is enough.
    reader = None if config.model.path == EMBEDDED else load_reader(config.model)
    labels, prompt_facts = _listing(config, reader)

    def table(name: str, renumbering: Renumbering | None = None) -> list[Row]:
        pool = pools[name]["positive"] + ([] if name.endswith("_positive") else pools[name]["negative"])
        notes = annotations.note if annotations is not None and name in DATASETS else _noted_in(source)
        return rows(name, pool, labels, excluded, config.prompt.scoring, notes, renumbering)

    tables = dict[str, list[Row]]()
    for name in pools:
        # A stream for each data set, so that one more of them moves no row of the others.
        tables[name] = shuffled(table(name), stream(unit.seed, "rows", name))
        progress(len(tables), len(pools) + 1, name)
    if config.model.path == EMBEDDED:
        played = _counted(progress, len(tables), len(pools) + 1, "played to be read")
        reader, tables[BASE] = _embedded(config, unit, everything, tables, labels, excluded, played)
    # Last, so that the embedded model and what it reads are the same with copies and without.
    for name in _copied(config, pools):
        renumbering = Renumbering(config.data.renumbered_copies, stream(unit.seed, "renumbered copies", name))
        tables[name] += table(name, renumbering)
    if reader is not None:
        _check_lengths(reader, tables, config)
    for name, made in tables.items():
        write_jsonl(unit.dataset(name), map(asdict, made))
    write_jsonl(folder / "episodes.jsonl", (to_json(_noted(episode, annotations)) for episode in everything))
    card: dict[str, object] = {
        "label_source": config.data.label_source,
        "starts": unit.budget,
        "episodes": {kind: len(pool) for kind, pool in episodes.items()},
        "failed_episodes": failed,
        **_counts(tables),
        "excluded_states": len(excluded),
        **prompt_facts,
    }
    if annotations is not None:
        card["annotation"] = dict(annotations.card)
    write_json(folder / "card.json", card)


def _counted(progress: Progress, done: int, total: int, what: str) -> Callable[[Episode], None]:
    """Make a callback that shows how many games have been played, which can take minutes."""
    number = count(1)
    return lambda _: progress(done, total, f"{next(number)} games {what}")


def examples_of(unit: Unit, dataset: str) -> list[tuple[str, str]]:
    """Prompts and completions of a supervised data set.

    Raises:
        RunFolderError: the file is missing, damaged or empty; the message says what to do.
    """
    path = unit.dataset(dataset)
    remedy = _remedy(unit)
    try:
        examples = [(str(row["prompt"]), str(row["completion"])) for row in read_jsonl(path, remedy)]
    # A file that was changed by hand can be valid JSON and still hold no examples.
    except (KeyError, TypeError):
        raise RunFolderError(f"{path} holds a row without prompt or completion. {remedy}") from None
    # The file is sound here: leaving out held-out states can empty a small data set, and settings can mend that.
    if not examples:
        raise RunFolderError(
            f"{path} has no rows to train on. Raise data.demonstration_starts, or set "
            "data.exclude_held_out_states = false, in another --output-dir."
        )
    return examples


def _remedy(unit: Unit) -> str:
    """Sentence that tells how the data sets of a unit are made anew."""
    with suppress(RunFolderError):
        taken = read_card(unit.run).start_from
        # Data that are made here may differ from those of the other run, whose models were taken as well.
        if taken is not None and f"{unit.name} data" in taken.jobs:
            return f"Its data come from {taken.folder}. Delete {unit.folder} and give the same command again."
    return f"Delete {unit.folder / 'data' / 'done'} and run `reflect-rl data` again."


def _noted_in(source: Source) -> Notes | None:
    """Choose what is learned from a turn: of recorded ones, some lack a reflection or an action."""
    return None if source == "solver" else as_played


def _copied(config: RunConfig, names: Iterable[str]) -> list[str]:
    """Data sets whose rows are copied with other numbers."""
    return [name for name in names if config.data.renumbered_copies and reads_reflections(name)]


def _counts(tables: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, int]]:
    """Rows of each data set, and how many of them follow a perturbation."""
    negatives = {name: sum(row.kind == "negative" for row in table) for name, table in tables.items()}
    return {"rows": {name: len(table) for name, table in tables.items()}, "rows_after_a_perturbation": negatives}


def _check_lengths(model: LanguageModel, tables: Mapping[str, Sequence[Row]], config: RunConfig) -> None:
    """Refuse, before any training, prompts that the model cannot read or leave no room for a reflection."""
    from reflect_rl.models.score import check_context

    for name in {part for method in config.methods for part in config.method(method).datasets} & tables.keys():
        is_reflector = name.startswith("reflector")
        # To tokenise all of them can take minutes; of the longest in characters alone it is certain.
        prompt = max((row.prompt for row in tables[name]), key=len, default="")
        by_line = prompt and config.prompt.scoring == "line_end" and not is_reflector
        ids = model.encode_lines(*parts_of(prompt))[0] if by_line else model.encode_prompt(prompt)
        actions = None if config.prompt.scoring == "choice_token" and not is_reflector else 0
        actions = len(parts_of(prompt)[1]) if by_line else actions
        new = config.reflector.max_new_tokens if is_reflector else 0
        check_context(model, len(ids), state_in(prompt), new, actions=actions)


def _listing(config: RunConfig, model: LanguageModel | None) -> tuple[list[str], dict[str, str]]:
    """Label texts of the policy's tokenizer, as many as a state can have actions; and what to note about prompts."""
    count, rule = config.env.max_actions, config.prompt.scoring
    if model is None:
        facts = {"labels": UNLABELLED.get(rule, "numbers"), "chat_template": "none"}
        return [str(number) for number in range(count)], facts
    labels, used = find_labels(model, count, rule), "none" if model.chat is None else "the model's own"
    return list(labels.texts), {"labels": labels.sentence, "chat_template": used}


def _embedded(
    config: RunConfig,
    unit: Unit,
    episodes: list[Episode],
    tables: Mapping[str, list[Row]],
    labels: list[str],
    excluded: frozenset[str],
    on_episode: Callable[[Episode], None],
) -> tuple[LanguageModel, list[Row]]:
    """The embedded model, and what it learns to read before anything else.

    Args:
        config: the run.
        unit: whose model.
        episodes: all demonstrations.
        tables: the supervised data sets that are made of them.
        labels: texts of the labels.
        excluded: states of which nothing is learned.
        on_episode: called with each episode that is played to be read, as it ends.
    """
    read, seen, texts = tables["policy_plain"], episodes, dict(tables)
    if source_of(config.data, config.env) in ("successes", "none"):
        # Few episodes or none demonstrate the words of the game, so they are learned from all that was played.
        player, attempts = _untuned_player(config), config.data.attempts_per_start
        seen = labelled(_played(config, unit, unit.budget, attempts, player, on_episode=on_episode))
    if config.data.reading_starts and config.data.reading == "short_rows":
        seen = _in_hindsight(config, unit, on_episode)
    elif config.data.reading_starts:
        starts, player = config.data.reading_starts, _untuned_player(config)
        seen = labelled(_played(config, unit, starts, 1, player, on_episode=on_episode))
    if seen is not episodes:
        read = texts[BASE] = rows("policy_plain", seen, labels, excluded, config.prompt.scoring, as_played)
    model = _build(config, unit, texts, labels)
    if config.data.reading == "text":
        return model, plain_text(read)
    if config.data.reading == "short_rows":
        return model, short_rows(read, config.data.reading_characters)
    rng = stream(unit.seed, "exercises")
    return model, shuffled(exercises(seen, excluded, rng), rng)


PLAYS_IN_HINDSIGHT = 16
"""Random plays of each start that is read: what a thing can be treated with is rare in one."""


def _in_hindsight(config: RunConfig, unit: Unit, on_episode: Callable[[Episode], None]) -> list[Episode]:
    """Random play under tasks that are told afterwards: without them play without an aim would answer nothing."""
    game, rng = config.env.needed(TellsHindsight, "data.reading_starts"), stream(unit.seed, "hindsight")
    # Uniform play hardly ever does anything with a thing, where most commands go somewhere.
    starts = config.data.reading_starts
    played = _played(config, unit, starts, PLAYS_IN_HINDSIGHT, VariedPolicy(), on_episode=on_episode)
    return [game.in_hindsight(episode, rng) for episode in labelled(played)]


def _build(config: RunConfig, unit: Unit, tables: Mapping[str, list[Row]], labels: list[str]) -> LanguageModel:
    """The embedded model, with random weights and a tokenizer that knows the words of the data sets."""
    texts = [row.prompt + row.completion for table in tables.values() for row in table]
    # Two streams: a larger vocabulary draws more, and must not change the weights.
    seed, rng = seed_for(unit.seed, "embedded model"), stream(unit.seed, "vocabulary")
    model = build_for(texts, config.model.embedded, seed, labels, rng)
    save_whole(model, unit.model("untrained"))
    return model


def _noted(episode: Episode, annotations: Annotations | None) -> Episode:
    """The episode with the annotator's reflections; what was played in it stays."""
    if annotations is None:
        return episode
    texts = (annotations.reflection(episode, number) for number in range(len(episode.turns)))
    turns = (replace(turn, reflection=text) for turn, text in zip(episode.turns, texts, strict=True))
    return replace(episode, turns=tuple(turns))
