"""Online RL fine-tuning (Reflect-RL, stage 2): roll out, estimate advantages, update, and again.

One update: `starts_per_update` training tasks × `episodes_per_start` episodes are played by the current policy
(temperature 1) with the frozen reflection player; the algorithm turns them into a loss. All randomness of update u
comes from streams named after u, so a run that was interrupted goes on as if it had not been.

Dropout is off, in rollouts and in the update alike, so that the probability ratio of the first update is one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from reflect_rl.algorithms._batch import Batch, Outputs, mean_metrics
from reflect_rl.core import catalog
from reflect_rl.core.config import AlgorithmConfig, CurriculumConfig, EnvironmentConfig, Frozen
from reflect_rl.core.errors import TrainingError
from reflect_rl.core.protocols import Reflector
from reflect_rl.core.seeding import seed_for, stream
from reflect_rl.core.store import read_jsonl, write_jsonl
from reflect_rl.core.types import Episode, View, episode_from_json, to_json
from reflect_rl.models.labels import Labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.models.score import Rule, Scores
from reflect_rl.models.value import ValueHead
from reflect_rl.players.policies.language_model import LanguageModelPolicy, score_views
from reflect_rl.rollout.collate import collate
from reflect_rl.rollout.play import Request, play
from reflect_rl.rollout.replay import Replay
from reflect_rl.training.checkpoint import load_checkpoint, optimizer_state, restore_optimizer, save_checkpoint

__all__ = ["OnlineTrainer", "RLFTConfig"]


class RLFTConfig(Frozen):
    """Online RL fine-tuning."""

    total_turns: int = Field(15_000, ge=1)
    """Training budget in environment turns."""
    starts_per_update: int = Field(16, ge=1)
    """Different training tasks per update."""
    episodes_per_start: int = Field(4, ge=1)
    """Episodes of each of them (at least 2 for the leave-one-out baseline to compare equal starts)."""
    learning_rate: float = Field(3e-4, gt=0)
    """Learning rate of the policy (for a pretrained model with LoRA: 2e-4, as in the paper)."""
    final_learning_rate_share: float = Field(0.1, ge=0, le=1)
    """The learning rate falls linearly to this share over the budget."""
    minibatch_turns: int = Field(128, ge=1)
    """Turns per optimiser step."""
    micro_batch_tokens: int = Field(16_384, ge=1)
    """Upper bound on the padded tokens of one forward and backward pass."""
    max_grad_norm: float = Field(0.5, gt=0)
    """Gradient norm above which gradients are scaled down (Reflect-RL: 0.3)."""
    value_head: Literal["linear", "mlp"] = "linear"
    """The critic's head, with the `value` baseline."""
    value_detached: bool = True
    """The critic's gradient stops at the hidden states."""
    value_learning_rate: float = Field(1e-2, gt=0)
    """Learning rate of the critic's head."""
    critic_every: int = Field(1, ge=1)
    """The critic is updated at every k-th update only."""
    replay_capacity: int = Field(0, ge=0)
    """Successful episodes kept for replay, 0 = off (Reflect-RL: 50)."""
    replay_per_update: int = Field(8, ge=0)
    """Replayed episodes per update."""
    slots: int = Field(64, ge=1)
    """Games played at once."""
    horizon_turns: int | None = Field(None, ge=1)
    """Turns until truncation while training (unset: the environment's)."""
    validate_every: int = Field(5, ge=0)
    """Updates between two measurements on the validation tasks, 0 = never."""
    keep: Literal["last", "best"] = "last"
    """Which policy is the result: the last one, or the best on the validation tasks (hardest mode)."""
    checkpoint_every: int = Field(5, ge=1)
    """Updates between two checkpoints; an interrupted training goes on from the last one."""
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    """The RL algorithm."""
    curriculum: CurriculumConfig = Field(default_factory=CurriculumConfig)
    """The order in which tasks are trained."""


class OnlineTrainer:
    """Trains one policy in place; metrics, episodes and checkpoints go to `folder`."""

    def __init__(  # noqa: PLR0913 (the parts of the system meet here)
        self,
        model: LanguageModel,
        labels: Labels,
        reflector: Reflector,
        environment: EnvironmentConfig,
        config: RLFTConfig,
        folder: Path,
        seed: int,
        *,
        reference: LanguageModel | None = None,
        rule: Rule = "choice_token",
        shuffle_labels: bool = False,
        excluded: frozenset[str] = frozenset(),
        modes: tuple[str, ...] = (),
    ) -> None:
        self.model, self.labels, self.reflector, self.reference = model, labels, reflector, reference
        self.environment, self.config, self.folder, self.seed = environment, config, folder, seed
        self.rule, self.shuffle_labels, self.excluded = rule, shuffle_labels, excluded
        module = catalog.find("environments", environment.name)
        self.modes = modes or module.MODES
        self.tasks = {mode: module.tasks(environment, mode, "train") for mode in module.MODES}
        self.validation = {mode: module.tasks(environment, mode, "validation") for mode in self.modes}
        self.algorithm = catalog.find("algorithms", config.algorithm.name).Algorithm(config.algorithm)
        self.curriculum = catalog.find("curricula", config.curriculum.name).Curriculum(config.curriculum, module.MODES)
        self.policy = LanguageModelPolicy(model, labels, rule=rule)
        self.replay = Replay(config.replay_capacity)
        uses_critic = getattr(config.algorithm, "baseline", "") == "value"
        self.value_head = self._value_head() if uses_critic else None
        self.parameters = [p for p in model.model.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [{"params": self.parameters, "lr": config.learning_rate}]
        if self.value_head is not None:
            groups.append({"params": list(self.value_head.parameters()), "lr": config.value_learning_rate})
        self.optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
        self.update = self.turns = self.episodes = 0
        self.seconds = 0.0
        self.best = -1.0
        self.best_weights: dict[str, Tensor] = {}

    def _value_head(self) -> ValueHead:
        size = self.model.model.get_output_embeddings().weight.shape[1]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(self.seed, "value head"))
            return ValueHead(size, self.config.value_head, self.config.value_detached).to(self.model.device)

    def train(self, progress: Callable[[int, int, str], None]) -> None:
        """Train until the budget of turns is used up, from the last checkpoint where there is one.

        Raises:
            TrainingError: the loss or the gradient is not finite; the last checkpoint stays.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._resume()
        _no_dropout(self.model.model)
        if self.config.validate_every and not self.update:
            # The policy before the first update counts too, so that `keep = "best"` never returns a worse one.
            self._append("metrics.jsonl", [{"update": 0, "turns": 0, "episodes": 0, "seconds": 0.0} | self._validate()])
        while self.turns < self.config.total_turns:
            row = self._one_update()
            last = self.turns >= self.config.total_turns
            if self.config.validate_every and (last or self.update % self.config.validate_every == 0):
                row |= self._validate()
            self._append("metrics.jsonl", [row])
            if not last and self.update % self.config.checkpoint_every == 0:
                self._save()
            note = f"success {row['rollout/success_rate']:.2f} ({row['stage']})"
            progress(min(self.turns, self.config.total_turns), self.config.total_turns, note)
        if self.config.keep == "best" and self.best_weights:
            self._load_weights(self.best_weights)
        self._save()

    def _one_update(self) -> dict[str, Any]:
        started = time.perf_counter()
        share = self.turns / self.config.total_turns
        stage = self.curriculum.stage(share)
        self.replay.enter(stage)
        episodes = self._roll_out(stage)
        rollout_seconds = time.perf_counter() - started
        rng = stream(self.seed, "replay", self.update)
        replayed = self.replay.draw(self.config.replay_per_update, rng)
        self.replay.add(episodes)
        decay = 1 - share * (1 - self.config.final_learning_rate_share)
        self.optimizer.param_groups[0]["lr"] = self.config.learning_rate * decay
        metrics = self._learn(episodes, replayed)
        self.policy.forget()
        self.update += 1
        self.turns += sum(len(episode.turns) for episode in episodes)
        self.episodes += len(episodes)
        elapsed = time.perf_counter() - started
        self.seconds += elapsed
        return {
            "update": self.update,
            "turns": self.turns,
            "episodes": self.episodes,
            "seconds": round(self.seconds, 3),
            "stage": "+".join(stage),
            **_rollout_metrics(episodes),
            **metrics,
            "replay/episodes": len(replayed),
            "policy/learning_rate": self.optimizer.param_groups[0]["lr"],
            "reflector/cache_hit_rate": getattr(self.reflector, "hit_rate", 0.0),
            "time/rollout_share": rollout_seconds / elapsed,
            "time/turns_per_second": sum(len(e.turns) for e in episodes) / elapsed,
        }

    def _roll_out(self, stage: Sequence[str]) -> list[Episode]:
        rng = stream(self.seed, "tasks", self.update)
        pool = [task for mode in stage for task in self.tasks[mode]]
        chosen = rng.choice(len(pool), min(self.config.starts_per_update, len(pool)), replace=False)
        requests = [
            Request(pool[i], seed_for(self.seed, "episode", self.update, int(i), copy))
            for i in chosen
            for copy in range(self.config.episodes_per_start)
        ]
        return self._play(requests, self.policy, self.config.horizon_turns)

    def _play(self, requests: Iterable[Request], policy: LanguageModelPolicy, horizon: int | None) -> list[Episode]:
        return play(
            self.environment,
            requests,
            self.reflector,
            policy,
            slots=self.config.slots,
            horizon_turns=horizon,
            shuffle_labels=self.shuffle_labels,
        )

    def _learn(self, episodes: Sequence[Episode], replayed: Sequence[Episode]) -> dict[str, float]:
        settings: Any = self.config.algorithm
        _no_dropout(self.model.model)
        views, batch = collate(
            settings,
            episodes,
            replayed,
            self.excluded,
            self._values if self.value_head is not None else None,
            self._reference if self.reference is not None else None,
        )
        if not views:
            return {}
        batch = batch.map(lambda part: part.to(self.model.device))
        rows = []
        for epoch in range(self.algorithm.epochs):
            order = stream(self.seed, "minibatches", self.update, epoch).permutation(len(views))
            pieces = math.ceil(len(views) / self.config.minibatch_turns)
            for piece in range(pieces):
                rows.append(self._step([views[i] for i in order[piece::pieces]], batch, order[piece::pieces].tolist()))
        return mean_metrics(rows)

    def _step(self, views: Sequence[View], batch: Batch, indices: Sequence[int]) -> dict[str, float]:
        """One optimiser step, in micro-batches that fit the memory; the loss is the mean over all turns."""
        self.optimizer.zero_grad(set_to_none=True)
        size = max(1, self.config.micro_batch_tokens // max(1, self._longest(views)))
        rows = []
        for start in range(0, len(views), size):
            piece = torch.tensor(indices[start : start + size], device=self.model.device)
            loss = self.algorithm.loss(batch.select(piece), self._outputs(views[start : start + size]))
            (loss.value * (len(piece) / len(views))).backward()
            rows.append(loss.metrics | {"policy/total_loss": float(loss.value.detach())})
        if self.update % self.config.critic_every and self.value_head is not None:
            for parameter in self.value_head.parameters():
                parameter.grad = None
        norm = float(nn.utils.clip_grad_norm_(self.parameters, self.config.max_grad_norm))
        if not math.isfinite(norm) or not all(math.isfinite(row["policy/total_loss"]) for row in rows):
            raise TrainingError(
                f"update {self.update}: the gradient norm is {norm}; the last checkpoint in {self.folder} is kept. "
                "Lower rlft.learning_rate or raise rlft.algorithm.kl_coef."
            )
        self.optimizer.step()
        return mean_metrics(rows) | {"policy/gradient_norm": norm}

    def _longest(self, views: Sequence[View]) -> int:
        return max(len(view.observation.text) + len(view.reflection or "") for view in views)

    def _scores(self, model: LanguageModel, views: Sequence[View]) -> Scores:
        return score_views(model, self.labels, views, self.rule, self.config.micro_batch_tokens)

    def _outputs(self, views: Sequence[View]) -> Outputs:
        scores = self._scores(self.model, views)
        return Outputs(scores.log_probs, None if self.value_head is None else self.value_head(scores.hidden))

    @torch.no_grad()
    def _values(self, views: Sequence[View]) -> Tensor:
        return self._critic(self._scores(self.model, views).hidden)

    def _critic(self, hidden: Tensor) -> Tensor:
        if self.value_head is None:
            raise ValueError("this algorithm has no critic")
        values: Tensor = self.value_head(hidden)
        return values

    @torch.no_grad()
    def _reference(self, views: Sequence[View]) -> Tensor:
        if self.reference is None:
            raise ValueError("no reference policy was given")
        return self._scores(self.reference, views).log_probs

    def _validate(self) -> dict[str, float]:
        rates = {}
        for mode, tasks in self.validation.items():
            requests = [Request(task, seed_for(self.seed, "validation", task.key)) for task in tasks]
            episodes = self._play(requests, self.policy, None)
            rates[mode] = sum(episode.success for episode in episodes) / max(1, len(episodes))
        # What was memoised here would change the batches, and so the rounding, of the next update, which a resumed
        # run, having no memo, would do without.
        self.policy.forget()
        hardest = rates[self.modes[-1]]
        if hardest >= self.best and self.config.keep == "best":
            self.best, self.best_weights = hardest, {n: t.clone() for n, t in self._weights().items()}
        return {f"validation/{mode}/success_rate": rate for mode, rate in rates.items()}

    def _weights(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.model.model.named_parameters() if p.requires_grad}

    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        own = dict(self.model.model.named_parameters())
        with torch.no_grad():
            for name, tensor in weights.items():
                own[name].copy_(tensor)

    def _save(self) -> None:
        tensors = {"weights": self._weights(), "optimizer": optimizer_state(self.optimizer)}
        if self.value_head is not None:
            tensors["value_head"] = self.value_head.state_dict()
        if self.best_weights:
            tensors["best"] = self.best_weights
        counts = {"update": self.update, "turns": self.turns, "episodes": self.episodes, "seconds": self.seconds}
        replay = {"stage": self.replay.stage, "episodes": [to_json(episode) for episode in self.replay.episodes]}
        save_checkpoint(self.folder / "checkpoint", tensors, counts | {"best": self.best, "replay": replay})

    def _resume(self) -> None:
        saved = load_checkpoint(self.folder / "checkpoint")
        if saved is None:
            (self.folder / "metrics.jsonl").unlink(missing_ok=True)
            return
        tensors, state = saved
        self._load_weights(tensors["weights"])
        restore_optimizer(self.optimizer, tensors.get("optimizer", {}))
        if self.value_head is not None:
            self.value_head.load_state_dict(tensors["value_head"])
        self.best, self.best_weights = state["best"], tensors.get("best", {})
        self.update, self.turns, self.episodes = state["update"], state["turns"], state["episodes"]
        self.seconds = state["seconds"]
        self.replay.enter(tuple(state["replay"]["stage"]))
        self.replay.add(episode_from_json(row) for row in state["replay"]["episodes"])
        self._drop_metrics_after(self.update)

    def _drop_metrics_after(self, update: int) -> None:
        """Rows of updates that were done after the checkpoint will be written again."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return
        rows = [row for row in read_jsonl(path, "Delete the folder.") if row["update"] <= update]
        write_jsonl(path, rows)

    def _append(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def _rollout_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    count = len(episodes)
    return {
        "rollout/success_rate": sum(episode.success for episode in episodes) / count,
        "rollout/mean_return": sum(episode.total_reward for episode in episodes) / count,
        "rollout/mean_turns": sum(len(episode.turns) for episode in episodes) / count,
        "rollout/truncated_rate": sum(episode.truncated for episode in episodes) / count,
    }


def _no_dropout(model: nn.Module) -> None:
    """Eval mode, in which nothing is dropped.

    Gradient checkpointing works in training mode only, so the layers that recompute are put into it, and they alone:
    what drops inside them (dropout layers, attention) stays in eval mode.
    """
    model.eval()
    for module in model.modules():
        if getattr(module, "gradient_checkpointing", False):
            module.training = True
