"""The package's own rollout and update, as online training calls them."""

from __future__ import annotations

from collections.abc import Sequence

from reflect_bench.options import Effort
from reflect_bench.players import Cast, GuidedPolicy
from reflect_rl.algorithms import Batch
from reflect_rl.batch import collate
from reflect_rl.config import narrow, parse
from reflect_rl.players.language_model import LanguageModelPolicy, score_views
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.rollout import Policy, Request, play
from reflect_rl.training.config import RLFTConfig
from reflect_rl.training.distributed import Engine
from reflect_rl.training.learner import Learner
from reflect_rl.types import Episode, View, seed_for, stream


class Ours:
    """Two players, a learner with the default settings (PPO, leave-one-out baseline), and an empty memory.

    Args:
        cast: the players and the game.
        effort: how much is played.
        seed: root of the random streams.
    """

    def __init__(self, cast: Cast, effort: Effort, seed: int = 0) -> None:
        self.cast, self.effort, self.seed = cast, effort, seed
        values = {"starts_per_update": effort.starts, "episodes_per_start": effort.episodes_per_start}
        self.config = parse(narrow(RLFTConfig, values), values)
        self.device = cast.policy.device
        self.reflector = FrozenReflector(cast.reflector, cast.max_new_tokens)
        self.policy = LanguageModelPolicy(cast.policy, cast.labels)
        self.learner = Learner(cast.policy, cast.labels, self.config, seed, Engine(self.device))
        self.tasks = cast.spec.tasks(cast.mode, "train")

    def roll_out(self, update: int) -> list[Episode]:
        """The episodes of an update."""
        acting: Policy = GuidedPolicy(self.policy) if self.cast.actions == "solver" else self.policy
        return play(
            self.cast.spec,
            self._requests(update),
            self.reflector,
            acting,
            num_envs=self.config.num_envs,
            max_episode_steps=self.effort.max_episode_steps,
            shuffle_labels=self.cast.shuffle_labels,
        )

    def learn(self, episodes: Sequence[Episode], update: int) -> None:
        """Learn from them."""
        self.learner.learn(*self.learner.batch_of(episodes), update, self.config.learning_rate)
        self.policy.forget()

    def plan(self, episodes: Sequence[Episode], update: int) -> tuple[list[View], Batch, list[list[int]]]:
        """The turns, what they are worth, and the turns of each optimiser step."""
        algorithm = self.learner.algorithm
        views, batch = collate(algorithm, episodes, [], frozenset(), None, None)
        steps = list(self.learner.minibatches(views, list(dict.fromkeys(views)), update))
        return views, batch.map(lambda part: part.to(self.device)), steps

    def warm_up(self) -> None:
        """Let the libraries do what they do once. Changes no weight and leaves the memory of reflections empty."""
        brief = FrozenReflector(self.cast.reflector, 2)
        episodes = play(self.cast.spec, self._requests(-1)[:2], brief, self.policy, max_episode_steps=1)
        view = episodes[0].turns[0].view
        loss = -score_views(self.cast.policy, self.cast.labels, [view]).log_probs[0, 0]
        loss.backward()
        self.cast.policy.model.zero_grad(set_to_none=True)
        self.policy.forget()

    def _requests(self, update: int) -> list[Request]:
        count = min(self.effort.starts, len(self.tasks))
        chosen = stream(self.seed, "tasks", update).choice(len(self.tasks), count, replace=False)
        return [
            Request(self.tasks[i], seed_for(self.seed, "episode", update, int(i), copy))
            for i in chosen
            for copy in range(self.effort.episodes_per_start)
        ]
