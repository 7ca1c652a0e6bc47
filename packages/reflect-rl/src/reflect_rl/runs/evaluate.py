"""The evaluations of a run: one job plays all modes and decodings of one method, or measures it without playing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from filelock import FileLock

from reflect_rl import registry
from reflect_rl.errors import RunFolderError
from reflect_rl.evaluation.evaluate import (
    Condition,
    EvaluatedEpisode,
    ResultRow,
    TestedGames,
    algorithm_of,
    costs_of,
    evaluate,
    is_metered,
    measured,
    origin_of,
    progress_of,
    reset_usage,
    write_rows,
)
from reflect_rl.evaluation.methods import Measure, Method
from reflect_rl.rollout import Policy, Reflector, RunsElsewhere
from reflect_rl.runs.config import BuiltForRun, ChoosesDecodings, RunConfig, TakesTurns, result_mark
from reflect_rl.runs.folder import PLAYED, Job, Unit
from reflect_rl.runs.model_card import add_results
from reflect_rl.runs.models import load_of_run, maker_of, policy_of, reflector_of, start_of_policy
from reflect_rl.runs.played import PlayedEpisodes
from reflect_rl.store import write_jsonl
from reflect_rl.types import Decoding, Progress


def evaluate_method(job: Job, run: RunConfig, progress: Progress) -> None:
    """Evaluate one method, and write its rows and episodes."""
    method = run.method(job.name)
    with _in_turn(run, job.name):
        if method.measure is not None:
            rows, episodes = _eval_measured(job, run, method.measure), list[EvaluatedEpisode]()
        else:
            rows, episodes = _eval_players(job, run, progress)
    # The mark comes after both files, each written whole, so a kill never leaves rows without episodes.
    write_jsonl(job.folder / "episodes.jsonl", [played.to_json() for played in episodes])
    write_rows(job.folder / "rows.json", rows)
    (job.folder / PLAYED).unlink(missing_ok=True)
    policy = _trained_policy(run.method(job.name), job.unit)
    if policy is not None:
        add_results(policy, rows)


def load_players(config: RunConfig, unit: Unit, name: str, decoding: Decoding) -> tuple[Reflector, Policy]:
    """The two players of a method, as they are after its training.

    Raises:
        RunFolderError: the method is not trained yet.
    """
    method = config.method(name)
    if not method.model:
        found = registry.find("policies", method.script)
        scripted: Policy = found.for_run(config, name, decoding) if isinstance(found, BuiltForRun) else found()
        return reflector_of(config, unit, name), scripted
    folder, made_by = start_of_policy(method, config.model, unit)
    if method.trainer:
        made_by = unit.folder / method.trainer / name
        folder = made_by / "model"
    # With the mark but without the model the folder is damaged, and `load_of_run` says how to make it good.
    if folder is not None and not (folder.exists() or (made_by / "done").exists()):
        raise RunFolderError(
            f"no model of the method {name!r} in {folder}. Run `reflect-rl {maker_of(made_by)}` first."
        )
    model = load_of_run(config.model, folder, made_by, trainable=False)
    return reflector_of(config, unit, name), policy_of(config, model, decoding, name)


def _decodings_of(config: RunConfig, name: str) -> Sequence[Decoding]:
    """The decodings in which a method is evaluated."""
    method = config.method(name)
    if method.model:
        return config.evaluation.decodings
    found: object = registry.find("policies", method.script) if method.script else None
    return found.decodings(config) if isinstance(found, ChoosesDecodings) else (method.decoding,)


def _trained_policy(method: Method, unit: Unit) -> Path | None:
    """Folder of the policy that a method trained for itself; None where it plays another's."""
    if method.trainer:
        return unit.folder / method.trainer / method.name / "model"
    # A card holds results of the method that trained the model, not of others that play it.
    return unit.model(method.policy) if method.model and method.policy in method.datasets else None


@contextmanager
def _in_turn(config: RunConfig, name: str) -> Iterator[None]:
    """Evaluations whose players share something wait for each other.

    The operating system releases the lock when a process ends, however it ends.
    """
    method = config.method(name)
    chosen: list[tuple[registry.Kind, str]] = [("policies", method.script)] if method.script else []
    chosen += [("reflectors", method.writer)] if method.writer else []
    found = [registry.find(kind, part) for kind, part in chosen]
    files = {player.lock_file(config) for player in found if isinstance(player, TakesTurns)}
    with ExitStack() as stack:
        # Sorted: two evaluations that lock the same files in another order would wait for each other for ever.
        for file in sorted(files):
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(file))
        yield


def _eval_players(job: Job, config: RunConfig, progress: Progress) -> tuple[list[ResultRow], list[EvaluatedEpisode]]:
    """Every mode and decoding, played once to the largest horizon."""
    method = config.method(job.name)
    results, records = list[ResultRow](), list[EvaluatedEpisode]()
    modes, decodings = config.evaluated_modes, _decodings_of(config, job.name)
    mark = result_mark(config, learned=method.model)
    total = len(modes) * len(decodings)
    # The decoding is a part of the player, so one model is loaded for each and then plays all modes.
    before = PlayedEpisodes(job, config)
    for decoding in decodings:
        reflector, policy = load_players(config, job.unit, job.name, decoding)
        own = config.model.path if method.model else "none"
        model = policy.model_name if isinstance(policy, RunsElsewhere) else own
        for mode in modes:
            # Players live through all modes, and costs are those of one row.
            reset_usage(reflector, policy)
            done = len(results) // len(config.horizons)
            # Players elsewhere keep a bill of whole evaluations, and may have changed since.
            here = not is_metered(reflector, policy) and origin_of(reflector, policy) is None
            known = before.known(mode, decoding) if here else {}
            show = progress_of(partial(progress, done, total), mode, reflector, policy, known=known.values())
            episodes, speed = evaluate(
                config.env,
                config.evaluation,
                mode,
                decoding,
                reflector,
                policy,
                shuffle_labels=config.prompt.shuffle_labels,
                limits=config.limits,
                known=known,
                on_episode=before.noting(mode, decoding, show) if here else show,
            )
            for horizon in config.horizons:
                condition = _condition(job, config, mode, decoding, horizon, mark, model)
                condition = condition.model_copy(update={"remote": origin_of(reflector, policy)})
                costs = costs_of(episodes, horizon, reflector, policy)
                results.append(ResultRow.of(condition, measured(episodes, horizon, speed, config.env, costs)))
            records += [EvaluatedEpisode(episode, mode, decoding) for episode in episodes]
            rate = sum(episode.success for episode in episodes) / len(episodes)
            progress(done + 1, total, f"{mode} {decoding} {rate:.2f}")
    return results, records


def _eval_measured(job: Job, config: RunConfig, measure: Measure) -> list[ResultRow]:
    """The rows of a method that measures tasks without playing them; they are the same at every horizon."""
    mark = result_mark(config, learned=False)
    found = {mode: measure(config.env, mode, config.evaluation.split) for mode in config.evaluated_modes}
    return [
        ResultRow.of(_condition(job, config, mode, "greedy", horizon, mark), measurement)
        for mode, measurement in found.items()
        for horizon in config.horizons
    ]


def _condition(
    job: Job, config: RunConfig, mode: str, decoding: Decoding, horizon: int, mark: str, model: str = "none"
) -> Condition:
    """The condition of a row of results.

    Args:
        job: the evaluation.
        config: of the run.
        mode: that was evaluated.
        decoding: how actions were chosen.
        horizon: in turns.
        mark: fingerprint of the result.
        model: language model of the policy, or `none`.
    """
    method = config.method(job.name)
    return Condition(
        benchmark=config.env.name,
        tested=TestedGames.of(config.env, mode, config.evaluation.split),
        label_source=config.data.label_source,
        demonstration_starts=job.unit.budget,
        seed=job.unit.seed,
        method=job.name,
        algorithm=algorithm_of(method, config.rlft.algorithm.name),
        model=model,
        mode=mode,
        split=config.evaluation.split,
        decoding=decoding,
        horizon=horizon,
        fingerprint=mark,
    )
