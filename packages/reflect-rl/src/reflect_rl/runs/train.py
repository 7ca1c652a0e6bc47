"""The trainings of a run: one job trains one model, supervised or online, and saves it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from reflect_rl.config import Rule
from reflect_rl.data.generate import BASE, is_reflector
from reflect_rl.evaluation.evaluate import origin_of
from reflect_rl.launch import process_rank
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import LISTED
from reflect_rl.rollout import Reflector
from reflect_rl.runs.attempts import attempt_of, clear_checkpoints, seed_of, train_until_good
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import examples_of, excluded_states
from reflect_rl.runs.folder import Job
from reflect_rl.runs.model_card import card_of_rlft, card_of_sft
from reflect_rl.runs.models import (
    as_trained,
    base_folder,
    load_of_run,
    metrics_log,
    reflector_of,
    save_whole,
    start_of_policy,
)
from reflect_rl.store import write_json
from reflect_rl.training.online import OnlineTrainer
from reflect_rl.training.sft import train_sft
from reflect_rl.types import Progress, seed_for


def train_supervised(job: Job, run: RunConfig, progress: Progress) -> None:
    """Train one model on its data set, and save it."""
    if is_reflector(job.name) and run.sft.reflector.attempts > 1:
        model = train_until_good(job, run, partial(_train, job, run), progress)
    else:
        model = _train(job, run, 1, progress)
    model = replace(model, rule=None) if is_reflector(job.name) else as_trained(model, run)
    save_whole(model, job.unit.model(job.name), card_of_sft(run, job.unit, job.name))
    # After the model is whole on the disk: a kill in between must find one of the two.
    if process_rank() == 0:
        clear_checkpoints(job, run)


def _train(job: Job, run: RunConfig, attempt: int, progress: Progress) -> LanguageModel:
    """A model, from its beginning."""
    part, place = job.name.removesuffix("_positive"), attempt_of(job, attempt)
    examples, rule = examples_of(job.unit, job.name), _rule_of(run, part)
    folder, made_by = base_folder(run.model, job.unit), job.unit.sft(BASE)
    # Every other training begins with the base; the base itself with random weights, which `data` has saved.
    if job.name == BASE:
        folder, made_by = job.unit.model("untrained"), job.unit.folder / "data"
    seed = seed_of(job, attempt)
    model = load_of_run(run.model, folder, made_by, trainable=True, seed=seed_for(seed, "adapters"))
    train_sft(
        model,
        examples,
        run.sft.of(job.name),
        place.folder,
        seed,
        # A label or a line is chosen; reflections and texts of actions must learn where to stop.
        ends=part == "reflector" or rule not in LISTED,
        progress=progress,
        metrics=metrics_log(place, run),
        rule=rule,
    )
    return model


def _rule_of(run: RunConfig, part: str) -> Rule:
    """Rule by which the completions of a data set are scored: reflections and plain text are written, not chosen."""
    written = part == "reflector" or (part == BASE and run.data.reading == "text")
    return "choice_token" if written else run.prompt.scoring


def train_online(job: Job, run: RunConfig, progress: Progress) -> None:
    """Train the policy of one method by online RL, and save it."""
    reflector = reflector_of(run, job.unit, job.name)
    # Before training: an interrupted one has already learned from these reflections.
    if process_rank() == 0 and (origin := origin_of(reflector)):
        write_json(job.folder / "reflection_server.json", origin.model_dump(exclude_none=True))
    trainer = online_trainer(job, run, reflector)
    trainer.train(progress)
    save_whole(as_trained(trainer.model, run), job.folder / "model", card_of_rlft(run, job.unit, job.name))


def online_trainer(job: Job, run: RunConfig, reflector: Reflector) -> OnlineTrainer:
    """Make the online training of the policy of the method that a job is named after."""
    folder, made_by = start_of_policy(run.method(job.name), run.model, job.unit)
    seed = seed_for(job.unit.seed, "rlft", job.name)
    model = load_of_run(run.model, folder, made_by, trainable=True, seed=seed_for(seed, "adapters"))
    # The KL term compares with the weights at the start, and training changes `model` in place: a second copy.
    needs_reference = run.rlft.algorithm.needs_reference
    return OnlineTrainer(
        model,
        find_labels(model, run.env.max_actions, run.prompt.scoring),
        reflector,
        run.env,
        run.rlft,
        job.folder,
        seed,
        reference=load_of_run(run.model, folder, made_by, trainable=False) if needs_reference else None,
        rule=run.prompt.scoring,
        shuffle_labels=run.prompt.shuffle_labels,
        excluded=excluded_states(run),
        modes=run.evaluated_modes,
        limits=run.limits,
        metrics=metrics_log(job, run),
    )
