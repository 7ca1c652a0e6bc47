"""Online RL fine-tuning (Reflect-RL, stage 2): roll out, estimate advantages, update, and again.

One update: `starts_per_update` training tasks × `episodes_per_start` episodes are played by the current policy
(at `temperature`) with the frozen reflection player; the algorithm turns them into a loss. All randomness of update u
comes from streams named after u, so a run that was interrupted goes on as if it had not been.

Dropout is off, in rollouts and in the update alike, so that the probability ratio of the first update is one.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from reflect_rl import registry
from reflect_rl.algorithms import Batch
from reflect_rl.batch import Replay, with_progress
from reflect_rl.config import Rule
from reflect_rl.envs.base import EnvSpec, require_known
from reflect_rl.errors import ConfigError, FaultyEnvironmentError, ReflectRLWarning, TrainingError, UserError
from reflect_rl.launch import release
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.players.reflectors import Gather
from reflect_rl.rollout import Reflector, Request, failure_row, play, too_many
from reflect_rl.store import append_jsonl
from reflect_rl.training.checkpoint import Checkpoints, Saved, restore_weights, trained_weights
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import Learner, OffendingTurnsError, no_dropout
from reflect_rl.training.loop import linear_factor
from reflect_rl.training.metrics import Meter, MetricsLog
from reflect_rl.types import Episode, Progress, View, episode_from_json, seed_for, stream, to_json
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits

FAILED = "failed_episodes.jsonl"

Rewards = Callable[[Sequence[Episode]], tuple[list[Episode], dict[str, float]]]
"""Episodes with the rewards that are learnt from, and what to log about these; validation keeps the game's verdict."""


@runtime_checkable
class Trained(Protocol):
    """A part that is trained beside the policy: a reflection player, or rewards that are learned."""

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Groups of tensors that a checkpoint keeps."""

    def restore(self, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Go on from the tensors of a checkpoint."""


@runtime_checkable
class LearningReflector(Trained, Protocol):
    """A reflection player that is trained on the same episodes as the policy."""

    model: LanguageModel
    """Model whose weights go with those of the policy where the best are kept."""

    def as_evaluated(self) -> Reflector:
        """The player of the present weights, as it writes in results."""

    def learn(self, views: Sequence[View], batch: Batch, update: int, share: float) -> dict[str, float]:
        """Learn from the turns of an update, before the policy does; `share` of the training is done."""


@runtime_checkable
class Exchanges(Protocol):
    """A reflection player whose texts are of use to the same player in other processes."""

    def exchange(self, gather: Gather) -> None:
        """Give the texts that were written since the last call, and take those of all processes."""


@runtime_checkable
class Forgetful(Protocol):
    """A player that keeps what it has read."""

    def forget(self) -> None:
        """Drop it, at the end of the episodes that it was read for."""


@runtime_checkable
class Remembers(Protocol):
    """A reflection player that counts how often it need not write anew."""

    @property
    def hit_rate(self) -> float:
        """Share of the texts so far that it had written before."""


class OnlineTrainer:
    """Trains one policy in place; metrics, episodes and checkpoints go to `folder`."""

    def __init__(  # noqa: PLR0913 (the parts of the system meet here)
        self,
        model: LanguageModel,
        labels: Labels,
        reflector: Reflector,
        spec: EnvSpec,
        config: RLFTConfig,
        folder: Path,
        seed: int,
        *,
        reference: LanguageModel | None = None,
        rule: Rule = "choice_token",
        shuffle_labels: bool = False,
        excluded: frozenset[str] = frozenset(),
        modes: tuple[str, ...] = (),
        limits: Limits = DEFAULT_LIMITS,
        metrics: MetricsLog | None = None,
        rewards: Rewards | None = None,
    ) -> None:
        self.model, self.reflector, self.spec, self.config = model, reflector, spec, config
        self.folder, self.seed, self.shuffle_labels, self.limits = folder, seed, shuffle_labels, limits
        self.modes, self.rewards = modes or spec.modes, rewards or self._progress_rewards
        self.companion = reflector if isinstance(reflector, LearningReflector) else None
        parts: tuple[object, ...] = (reflector, rewards)
        self.beside = [part for part in parts if isinstance(part, Trained)]
        self.tasks = {mode: spec.tasks(mode, "train") for mode in spec.all_modes}
        # A mode without validation tasks has no rate; 0 would read as if all were lost.
        self.validation = {mode: tasks for mode in self.modes if (tasks := spec.tasks(mode, "validation"))}
        if mistake := config.unmeasured(spec, self.modes):
            raise ConfigError(mistake)
        self.curriculum = registry.find("curricula", config.curriculum.name)(config.curriculum, spec.modes)
        self.policy = LanguageModelPolicy(model, labels, rule=rule, temperature=config.temperature)
        self.eval_policy = LanguageModelPolicy(model, labels, rule=rule)
        self.replay = Replay(config.replay_capacity)
        self.engine = Engine(model.device)
        self.learner = Learner(
            model, labels, config, seed, self.engine, reference=reference, rule=rule, excluded=excluded
        )
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.metrics = metrics or MetricsLog(folder, main=self.engine.main)
        self.update = self.turns = self.episodes = self.failures = 0
        self.told: set[tuple[str, ...]] = set()
        """Stages with fewer tasks than an update asks for, of which the user was told."""
        self.meter = Meter(model, config.total_turns)
        # Below every rate, so that the first validation counts.
        self.best = -1.0
        self.best_weights: dict[str, dict[str, Tensor]] = {}
        """Weights of the players at the best validation, by the name of their group in checkpoints."""

    def train(self, progress: Progress) -> None:
        """Train until the budget of turns is used up, from the last checkpoint where there is one.

        Raises:
            TrainingError: the loss or the gradient is not finite or has exploded; the last checkpoint stays, and the
                turns that did it are saved.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.engine.first():
            saved = self.checkpoints.load()
        self._resume(saved)
        no_dropout(self.model.model)
        self.meter.begin(self.turns)
        if self.config.validate_every and not self.update:
            # The policy before the first update counts too, so that `keep = "best"` never returns a worse one.
            self._log({"update": 0, "turns": 0, "episodes": 0, "time/seconds": 0.0} | self._validate())
        while self.turns < self.config.total_turns:
            row = self._one_update()
            last = self.turns >= self.config.total_turns
            if self.config.validate_every and (last or self.update % self.config.validate_every == 0):
                row |= self._validate()
            self._log(row)
            # The last checkpoint is written below, after the choice of the weights.
            if not last and self.update % self.config.checkpoint_every == 0:
                self._save()
            note = f"success {row['rollout/success_rate']:.2f} ({row['stage']}), {self.meter.note()}"
            progress(min(self.turns, self.config.total_turns), self.config.total_turns, note)
        if self.config.keep == "best":
            for group, weights in self.best_weights.items():
                restore_weights(self._players()[group].model, weights)
        self._save()
        self.metrics.close()

    def _log(self, row: dict[str, Any]) -> None:
        self.metrics.append(row, "update")

    def _one_update(self) -> dict[str, Any]:
        started = time.perf_counter()
        self.meter.start_lap()
        share = self.turns / self.config.total_turns
        stage = self.curriculum.stage(share)
        self.replay.enter(stage)
        self.failures = 0
        episodes = self._roll_out(stage)
        if not episodes:
            raise TrainingError(f"all episodes of update {self.update} failed; see {self.folder / FAILED}.")
        rollout_seconds = time.perf_counter() - started
        # Drawn before the fresh ones are added: an episode is not both in one update.
        replayed = self.replay.draw(self.config.replay_per_update, stream(self.seed, "replay", self.update))
        self.replay.add(episodes)
        rate = self.config.learning_rate * linear_factor(share)
        try:
            told, metrics = self.rewards(episodes)
            views, batch = self.learner.batch_of(told, self.rewards(replayed)[0])
            if self.companion:
                metrics |= self.companion.learn(views, batch, self.update, share)
            if not views:
                raise UserError(
                    f"update {self.update}: all turns are in states in which validation or test tasks begin, so none "
                    "may be learned from. Let Observation.state tell the starts of different tasks apart, or leave it "
                    "empty."
                )
            metrics |= self.learner.learn(views, batch, self.update, rate)
        except OffendingTurnsError as explosion:
            raise explosion.saved(self.folder, self.engine.main) from None
        release()
        self.update += 1
        self.turns += sum(len(episode.turns) for episode in episodes)
        self.episodes += len(episodes)
        elapsed = time.perf_counter() - started
        remembered = self.reflector.hit_rate if isinstance(self.reflector, Remembers) else 0.0
        measured = self.meter.measure(self.turns, self.learner.step.tokens)
        if self.update == 1:  # sizes never change, so the first update says them for all
            measured = measured | self.meter.sizes()
        return {
            "update": self.update,
            "turns": self.turns,
            "episodes": self.episodes,
            "stage": "+".join(stage),
            **_rollout_metrics(episodes),
            "rollout/failed_episodes": self.failures,
            **metrics,
            "replay/episodes": len(replayed),
            "policy/learning_rate": rate,
            # Under `time/`: the cache is empty again after a kill, so this is about speed alone.
            "time/reflections_from_cache": remembered,
            "time/rollout_share": rollout_seconds / elapsed,
            "time/turns_per_second": sum(len(e.turns) for e in episodes) / elapsed,
            **measured,
        }

    def _progress_rewards(self, episodes: Sequence[Episode]) -> tuple[list[Episode], dict[str, float]]:
        return [with_progress(episode, self.config.progress) for episode in episodes], {}

    def _roll_out(self, stage: Sequence[str]) -> list[Episode]:
        rng = stream(self.seed, "tasks", self.update)
        for mode in stage:
            require_known(f"mode of {self.spec.name}", mode, self.tasks)
        pool = [task for mode in stage for task in self.tasks[mode]]
        if not pool:
            raise UserError(f"{self.spec.name} has no training task of the mode {', '.join(stage)}. Name other modes.")
        self._tell_of_few(stage, len(pool))
        chosen = rng.choice(len(pool), min(self.config.starts_per_update, len(pool)), replace=False)
        requests = [
            Request(pool[i], seed_for(self.seed, "episode", self.update, int(i), copy))
            for i in chosen
            for copy in range(self.config.episodes_per_start)
        ]
        # A seed names the episode, so who plays it, and after which others, changes nothing.
        return self._play(
            (self.reflector, self.policy),
            requests,
            self.config.max_episode_steps,
            self.limits,
            note_turns_left=self.config.progress > 0,
        )

    def _tell_of_few(self, stage: Sequence[str], count: int) -> None:
        """Warn, once for each stage, that a user asked for more tasks of an update than there are."""
        wanted, copies = self.config.starts_per_update, self.config.episodes_per_start
        # The default suits larger games, and is nobody's mistake.
        asked = "starts_per_update" in self.config.model_fields_set and self.engine.main
        if not asked or wanted <= count or tuple(stage) in self.told:
            return
        self.told.add(tuple(stage))
        message = (
            f"starts_per_update is {wanted}, and {self.spec.name} has {count} training tasks of the mode "
            f"{', '.join(stage)}: each update plays these, {count * copies} episodes. Lower it to {count}, or raise "
            "episodes_per_start."
        )
        warnings.warn(message, ReflectRLWarning, stacklevel=2)

    def _play(
        self,
        players: tuple[Reflector, LanguageModelPolicy],
        requests: Sequence[Request],
        horizon: int | None,
        limits: Limits,
        *,
        note_turns_left: bool = False,
    ) -> list[Episode]:
        """The episodes of all processes, each of which plays its share, in the order of the requests."""
        failed: list[dict[str, Any]] = []
        episodes: list[Episode] = []
        reflector, policy = players
        try:
            episodes = play(
                self.spec,
                self._share(requests),
                reflector,
                policy,
                num_envs=self.config.num_envs,
                max_episode_steps=horizon,
                shuffle_labels=self.shuffle_labels,
                note_turns_left=note_turns_left,
                limits=limits,
                on_failure=lambda request, error: failed.append(failure_row(request, error)),
            )
        except FaultyEnvironmentError:
            # Where none may fail, none is listed. Else all episodes of this process failed; others may have played.
            if self.engine.count == 1 or not failed or len(failed) > limits.failed_episodes:
                raise
        # Cached scores are those of these weights, and learning needs the memory. What a resumed run does not have
        # would change the batches of the next update, too, and so its rounding.
        for player in players:
            if isinstance(player, Forgetful):
                player.forget()
        release()
        if self.engine.count > 1 and isinstance(reflector, Exchanges):
            reflector.exchange(self.engine.all_gather)
        failed = self.engine.all_gather(failed)
        self.failures += len(failed)
        if failed and self.engine.main:
            append_jsonl(self.folder / FAILED, ({"update": self.update} | row for row in failed))
        # Each process has counted its own alone.
        if len(failed) > limits.failed_episodes:
            raise too_many([row["message"] for row in failed], limits)
        # Processes finish in any order; the batch is in the order of the requests.
        place = {request.seed: k for k, request in enumerate(requests)}
        return sorted(self.engine.all_gather(episodes), key=lambda episode: place[episode.seed])

    def _share(self, requests: Sequence[Request]) -> Sequence[Request]:
        """The episodes that this process plays."""
        tasks = list(dict.fromkeys(request.task.unique_key for request in requests))
        if len(tasks) < self.engine.count:
            return self.engine.share(requests)
        # By task: its episodes begin alike, and what one process has read and written another would do again.
        own = set(self.engine.share(tasks))
        return [request for request in requests if request.task.unique_key in own]

    def _validate(self) -> dict[str, float]:
        rates = {}
        # Texts that are drawn for training would differ each time, and results do not show such.
        reflector = self.companion.as_evaluated() if self.companion else self.reflector
        for mode, tasks in self.validation.items():
            # Not named after the update: every validation plays the same games, so only the policy differs.
            requests = [Request(task, seed_for(self.seed, "validation", task.key)) for task in tasks]
            episodes = self._play((reflector, self.eval_policy), requests, None, self.limits.without_failures())
            rates[mode] = sum(episode.success for episode in episodes) / len(episodes)
        mean = sum(rates.values()) / max(1, len(rates))
        # The later of equal ones, which has learnt from more.
        if mean >= self.best:
            self.best = mean
            self.best_weights = {
                group: {name: weight.clone() for name, weight in trained_weights(player.model).items()}
                for group, player in self._players().items()
            }
        return {f"validation/{mode}/success_rate": rate for mode, rate in rates.items()}

    def _players(self) -> dict[str, LanguageModel]:
        """Models that are trained, by the name under which checkpoints keep the best weights of each."""
        beside = {"best_reflector": self.companion.model} if self.companion else {}
        return {"best": self.model} | beside

    def _save(self) -> None:
        # All processes ask for the state, which may be sharded; the main one writes it.
        optimizer = self.engine.optimizer_state(self.learner.optimizer)
        self.engine.wait()
        if not self.engine.main:
            return
        tensors = {"weights": trained_weights(self.model.model), "optimizer": optimizer}
        if self.learner.value_head is not None:
            tensors["value_head"] = self.learner.value_head.state_dict()
        tensors |= self.best_weights
        for part in self.beside:
            tensors |= part.tensors()
        counts = {"update": self.update, "turns": self.turns, "episodes": self.episodes, "seconds": self.meter.seconds}
        replay = {"stage": self.replay.stage, "episodes": [to_json(episode) for episode in self.replay.episodes]}
        self.checkpoints.save(
            self.update, tensors, counts | {"best": self.best, "replay": replay, "metrics": self.metrics.mark()}
        )

    def _resume(self, saved: Saved | None) -> None:
        if saved is None:
            self.metrics.keep_until(-1)
            return
        tensors, state = saved
        restore_weights(self.model.model, tensors["weights"])
        if self.learner.value_head is not None:
            self.learner.value_head.load_state_dict(tensors["value_head"])
        for part in self.beside:
            part.restore(tensors)
        # The optimiser's state follows the weights: its parts are cut like them.
        self.engine.broadcast(self.learner.own, self.learner.trained)
        self.engine.restore_optimizer(self.learner.optimizer, tensors.get("optimizer", {}))
        self.best = state["best"]
        self.best_weights = {group: tensors[group] for group in self._players() if group in tensors}
        self.update, self.turns, self.episodes = state["update"], state["turns"], state["episodes"]
        self.meter.seconds = state["seconds"]
        self.replay.enter(tuple(state["replay"]["stage"]))
        self.replay.add(episode_from_json(row) for row in state["replay"]["episodes"])
        self.metrics.keep_until(self.update, state["metrics"])


def _rollout_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    count = len(episodes)
    return {
        "rollout/success_rate": sum(episode.success for episode in episodes) / count,
        "rollout/mean_return": sum(episode.total_reward for episode in episodes) / count,
        "rollout/mean_turns": sum(len(episode.turns) for episode in episodes) / count,
        "rollout/truncated_rate": sum(episode.truncated for episode in episodes) / count,
    }
