"""MOReL (Kidambi et al. 2020, "MOReL: Model-based offline reinforcement learning"): RL inside a pessimistic model.

An ensemble of world models learns from the log what follows an action. Where its members disagree too much, the pair
of state and action is unknown, and an unknown action leads to a state HALT with a penalty:

    disc(s, a) = max_ij ‖f_i(s, a) - f_j(s, a)‖,   unknown(s, a) = disc(s, a) > threshold
    P_p(·|s, a) = HALT if unknown(s, a), else P̂(·|s, a),   r_p = -κ in HALT, else r

Online RL then plays the learned game only. A policy earns no more there than in the true game, up to the errors of the
model. The definitions were checked against the abstract, a published summary and code that runs the method
(polixir/NeoRL); the paper's own text could not be read here, so no equation is numbered.

Differs from the paper: (1) the members are language models that read state and action and write the next state, the
reward and the end; f_i is a text, so disc is the share of pairs of members whose texts differ; (2) the most frequent
text is what follows, so chance in the game is lost; (3) a next state must be one that the log shows, because only those
have a list of actions, and anything else is unknown; (4) the rewards are learned, too; (5) HALT ends the game and costs
κ once; (6) members learn from bootstrap samples of the log and begin with the same weights; (7) RL is that of `[rlft]`
in place of a natural policy gradient. The policy has cloned the log before, the members have not: as clones they
learned far less in equal steps (docs/results/log.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from reflect_algorithms.learners.cloning import Cloning
from reflect_algorithms.online import train_online
from reflect_algorithms.settings import MOReLConfig, offline_config
from reflect_algorithms.training import Training
from reflect_algorithms.world import (
    Outcome,
    Pair,
    World,
    WorldSpec,
    outcome_of,
    pairs_of,
    transitions,
)
from reflect_rl.agent import trainable_copy
from reflect_rl.algorithms.ppo import PPOConfig
from reflect_rl.config import AlgorithmConfig
from reflect_rl.curricula import modes_of
from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.launch import process_rank
from reflect_rl.models.generate import generate_greedy
from reflect_rl.players.language_model import LanguageModelPolicy
from reflect_rl.rollout import NoReflector, Request, play
from reflect_rl.store import read_jsonl, write_json, write_jsonl
from reflect_rl.training.config import RLFTConfig, SFTConfig
from reflect_rl.training.sft import train_sft
from reflect_rl.training.trainer import checkpoints_in
from reflect_rl.types import Episode, seed_for, stream

if TYPE_CHECKING:
    from reflect_rl.runs.config import RunConfig

EPISODES_PER_START = 4
"""Episodes of each logged start that the values on the card are means of."""

Rows = Sequence[tuple[Pair, Outcome]]


@dataclass(frozen=True)
class Member:
    """One world model of the ensemble, as far as it is needed: what it has seen, and what it says."""

    seen: frozenset[Pair]
    answers: Mapping[Pair, str]


def member_of(training: Training, number: int, rows: Rows, pairs: Sequence[Pair]) -> Member:
    """Train a world model on a bootstrap sample and ask it about all pairs; one that was asked before is read again.

    Args:
        training: whose model is copied, and whose folder keeps the answers.
        number: of the member, from 0.
        rows: what the log shows.
        pairs: the questions.

    Raises:
        TrainingError: the loss or the gradient is not finite or too large.
    """
    drawn = stream(training.seed, "bootstrap", number).integers(len(rows), size=len(rows)).tolist()
    seen = frozenset(rows[row][0] for row in drawn)
    folder = training.folder / "world" / f"member-{number}"
    path = folder / "answers.jsonl"
    if path.exists():
        kept = read_jsonl(path, "Delete it to train the member again.")
        return Member(seen, {Pair(row["state"], row["action"]): row["answer"] for row in kept})
    # The policy is not trained before all members are, also in a training that goes on.
    model = trainable_copy(training.model)
    train_sft(
        model,
        [(pair.question, outcome.answer) for pair, outcome in (rows[row] for row in drawn)],
        SFTConfig(**training.config.model_dump()),
        folder,
        seed_for(training.seed, "member", number),
        ends=True,
        progress=lambda done, total, note: training.progress(done, total, f"world model {number + 1}: {note}"),
    )
    longest = max(len(model.encode_after(pair.question, outcome.answer)) for pair, outcome in set(rows))
    # One more than the longest text: the end of it is a token, too.
    said = generate_greedy(model, [model.encode_prompt(pair.question) for pair in pairs], longest + 1)
    # All processes of a launch have the same answers; one writes.
    if process_rank() == 0:
        write_jsonl(path, ({**pair._asdict(), "answer": text} for pair, text in zip(pairs, said, strict=True)))
        checkpoints_in(folder).clear()
    return Member(seen, dict(zip(pairs, said, strict=True)))


def quality_of(rows: Rows, world: World, members: Sequence[Member]) -> dict[str, float | None]:
    """Measures of a world, for its card; None where nothing could be measured.

    Args:
        rows: what the log shows.
        world: that the members voted for.
        members: the ensemble.
    """
    # As texts, which round the rewards: a reward that was read from one is none of the log's.
    shown = defaultdict[Pair, set[str]](set)
    for pair, outcome in rows:
        shown[pair].add(outcome.answer)
    # A member is asked about pairs that its own sample left out, so that no part of the log is lost to a test.
    said = [(outcome_of(m.answers[p]), answers) for m in members for p, answers in shown.items() if p not in m.seen]
    tests = [outcome is not None and outcome.answer in answers for outcome, answers in said]
    pairs = list(members[0].answers)
    never = [pair for pair in pairs if pair not in shown]

    def share(part: Sequence[bool]) -> float | None:
        return sum(part) / len(part) if part else None

    return {
        "states": len(world.observations),
        "pairs": len(pairs),
        "logged_pairs": len(shown),
        "unknown_share": share([not world.knows(pair) for pair in pairs]),
        "unknown_share_of_logged": share([not world.knows(pair) for pair in shown]),
        "unknown_share_of_never_played": share([not world.knows(pair) for pair in never]),
        "accuracy": share([world.outcomes[p].answer in answers for p, answers in shown.items() if world.knows(p)]),
        "out_of_sample_answers": len(tests),
        "out_of_sample_accuracy": share(tests),
    }


class MOReL:
    """RL inside a pessimistic world model.

    Args:
        config: the ensemble and its threshold.
        rlft: settings of online RL (None: the defaults, with PPO).
    """

    def __init__(self, config: MOReLConfig | None = None, rlft: RLFTConfig | None = None) -> None:
        self.config = config or MOReLConfig()
        self.rlft = rlft or RLFTConfig(algorithm=PPOConfig())

    @classmethod
    def for_run(cls, run: RunConfig) -> Self:
        """The learner with the settings `[offline.morel]` and `[rlft]`."""
        return cls(offline_config(run).morel, run.rlft)

    def algorithm(self) -> AlgorithmConfig:
        """The algorithm of online RL."""
        return self.rlft.algorithm

    def train(self, training: Training) -> None:
        """Learn the world from the log, then a policy inside it; `card.json` tells how good both are.

        Raises:
            TrainingError: a loss or gradient is not finite or too large.
            UserError: the log shows no outcome, or no episode of a mode that RL is to train.
        """
        rows = transitions(training.episodes)
        if not rows:
            raise UserError("morel: no turn of the log shows what follows it. Log more episodes.")
        self._check_modes(training.episodes)
        pairs = pairs_of(training.episodes)
        members = [member_of(training, number, rows, pairs) for number in range(self.config.members)]
        answers = {pair: [member.answers[pair] for member in members] for pair in pairs}
        world = World.voted(training.episodes, answers, self.config.threshold, self.config.penalty)
        spec = WorldSpec.beside(training.spec, world)
        # RL from a policy that knows nothing learns to end the game at once, where that costs less than to walk about.
        cloned = replace(training, folder=training.folder / "clone", metrics=None)
        Cloning().train(cloned)
        # There are no validation tasks in a log.
        config = self.rlft.model_copy(update={"validate_every": 0})
        reference = trainable_copy(training.model) if config.algorithm.needs_reference else None
        train_online(replace(training, spec=spec), config, reference=reference)
        inside, outside = (_played(training, world, game) for game in (spec, training.spec))
        card = quality_of(rows, world, members) | {
            "value_in_model": _mean_return(inside),
            "value_in_game": _mean_return(outside),
            "halted_share": sum(_halts(episode, world) for episode in inside) / len(inside),
        }
        if process_rank() == 0:
            write_json(training.folder / "card.json", card)
            checkpoints_in(cloned.folder).clear()

    def _check_modes(self, episodes: Sequence[Episode]) -> None:
        """Refuse modes that RL would find no start of, before the ensemble is trained."""
        shown = dict.fromkeys(episode.task.mode for episode in episodes)
        for mode in (mode for named in self.rlft.curriculum.named_modes for mode in modes_of(named)):
            if mode not in shown:
                raise UserError(
                    f"morel: rlft.curriculum.modes names {mode!r}, of which the log shows no episode, only of "
                    f"{', '.join(shown)}. Log it, or leave it out."
                )


def _played(training: Training, world: World, spec: EnvSpec) -> list[Episode]:
    """Episodes of the trained policy from all logged starts; nothing is learned from them."""
    policy = LanguageModelPolicy(training.model, training.labels, rule=training.rule)
    requests = [
        Request(task, seed_for(training.seed, "value", task.key, copy))
        for task in world.tasks
        for copy in range(EPISODES_PER_START)
    ]
    shuffle, limits = training.shuffle_labels, training.limits
    return play(spec, requests, NoReflector(), policy, shuffle_labels=shuffle, limits=limits)


def _mean_return(episodes: Sequence[Episode]) -> float:
    return sum(episode.total_reward for episode in episodes) / len(episodes)


def _halts(episode: Episode, world: World) -> bool:
    last = episode.turns[-1]
    return last.action is not None and not world.knows(Pair(last.observation.text, last.action))
