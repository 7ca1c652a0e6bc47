"""What every player of the catalog must hold, and who may know what the solver knows."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chat_server import ChatServer, walker
from reflect_algorithms.players import AskedOutcome
from reflect_locate.envs import autoexplore
from reflect_locate.players.name_greedy import NameGreedyPolicy
from reflect_locate.players.reader import ReaderPolicy
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree
from reflect_report.human import HumanPolicy
from reflect_rl import players, registry
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import RULES, Corridor
from reflect_rl.models.generate import generate_greedy
from reflect_rl.players import reflectors as frozen
from reflect_rl.players.language_model import LanguageModelPolicy, score_views
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.players.scripted import AdvicePolicy, Annotator, LexicalReflector, OraclePolicy, OracleReflector
from reflect_rl.prompts import Messages
from reflect_rl.rollout import NoReflector, Policy, RandomPolicy, Reflector, Request, play
from reflect_rl.types import Decision, Observation, View
from reflect_served.llm import Endpoint, EndpointConfig
from reflect_served.players.policy import ChatPolicy
from reflect_served.players.prompted import PromptedPolicy, PromptedReflector
from reflect_served.players.reflector import ChatReflector
from reflect_served.players.served import ServedReflector
from reflection_server import ReflectionServer
from small_task_set import FILES, save_small_task_set
from toy import SMALL, SPEC, rlft, tiny_player, trainer, training_tasks

REQUESTS = [Request(task, k) for k, task in enumerate(training_tasks())]


def lively_player(seed: int = 0) -> Any:
    """A tiny player whose weights are large enough for distributions that are not uniform."""
    model, labels = tiny_player(seed)
    with torch.no_grad():
        for weight in model.model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    return model, labels


def language_model(**options: Any) -> LanguageModelPolicy:
    return LanguageModelPolicy(*lively_player(), **options)


@cache
def reflection_server() -> ReflectionServer:
    """A server that is there until the tests end."""
    return ReflectionServer(lively_player()[0]).__enter__()


@cache
def chat_endpoint() -> Endpoint:
    """A chat model that knows the corridor; its server is there until the tests end."""
    server = ChatServer(walker).__enter__()
    return Endpoint(EndpointConfig(base_url=server.url, model="scripted"), None)


def scripted(player: Any) -> Any:
    """The player with the answers of the scripted chat model; a tiny model names no number."""

    def answers(questions: Sequence[Messages], _: Sequence[View]) -> list[tuple[str, bool]]:
        asked = [{"messages": [{"role": role, "content": text} for role, text in told]} for told in questions]
        return [(walker(question), False) for question in asked]

    player._asked.answers = answers
    return player


POLICIES: dict[str, dict[str, Callable[[], Policy]]] = {
    "advice": {"advice": AdvicePolicy},
    "chat": {
        "chat": lambda: ChatPolicy(chat_endpoint(), RULES),
        "chat, json, sampled": lambda: ChatPolicy(chat_endpoint(), RULES, "json", "sampled"),
    },
    "human": {"human": lambda: HumanPolicy(lambda view: None, lambda question: "0")},
    "language_model": {
        "sampled": language_model,
        "greedy": lambda: language_model(decoding="greedy"),
        "at half the temperature": lambda: language_model(decoding="sampled@0.5"),
        "sum": lambda: language_model(rule="sum"),
        "token_mean": lambda: language_model(rule="token_mean"),
    },
    "name_greedy": {"name_greedy": NameGreedyPolicy},
    "oracle": {
        "oracle": OraclePolicy,
        "clean annotator": lambda: Annotator(0.5, "clean"),
        "paper annotator": lambda: Annotator(0.5, "paper"),
    },
    "prompted": {"prompted": lambda: scripted(PromptedPolicy(lively_player()[0], RULES))},
    "random": {"random": RandomPolicy},
    "reader": {"reader": ReaderPolicy},
}
"""How to make the players of each file, for every way in which they differ."""

REFLECTORS: dict[str, dict[str, Callable[[], Reflector]]] = {
    "asked_outcome": {"asked_outcome": lambda: AskedOutcome("Asked: win.")},
    "chat": {"chat": lambda: ChatReflector(chat_endpoint(), RULES)},
    "frozen": {"frozen": lambda: FrozenReflector(lively_player()[0], 8)},
    "lexical": {"lexical": lambda: LexicalReflector(autoexplore.AutoExplore())},
    "none": {"none": NoReflector},
    "oracle": {"oracle": OracleReflector},
    "prompted": {"prompted": lambda: scripted(PromptedReflector(lively_player()[0], SPEC))},
    "served": {"served": lambda: ServedReflector(reflection_server().config(), 8)},
}

WORDWISE = ("advice", "lexical", "name_greedy", "reader")
"""Players that read nothing but the states of AutoExplore."""

every_policy = pytest.mark.parametrize("make", [pytest.param(m, id=n) for p in POLICIES.values() for n, m in p.items()])
every_reflector = pytest.mark.parametrize(
    "make", [pytest.param(m, id=n) for p in REFLECTORS.values() for n, m in p.items()]
)


def views(player: Policy | Reflector, count: int = 12) -> list[View]:
    """The starts of some tasks as this player may see them; every second one lists its actions backwards."""
    if player.name in WORDWISE:
        return explored_views(count)
    out = []
    for number, task in enumerate(training_tasks()[:count]):
        game = Corridor(SMALL)
        seen = game.reset(task)
        order = tuple(range(len(seen.actions)))
        oracle, lesson = (game.oracle(), game.teach()) if player.sees_oracle else (None, None)
        out.append(View(seen, order[::-1] if number % 2 else order, None, oracle, lesson))
    return out


def explored_views(count: int) -> list[View]:
    """States of random walks through a small tree, each with a reflection on it."""
    game, tree = autoexplore.AutoExplore(), Tree(Snapshot("small", FILES))
    rng, out = np.random.default_rng(0), []
    over = True
    while len(out) < count:
        if over:
            seen = game.explore(tree, "Parsing rate limits of remote callers")
        view = View(seen, ())
        out.append(replace(view, reflection=LexicalReflector(game).reflect([view])[0]))
        answer = game.step(int(rng.integers(len(view.observation.actions))))
        seen, over = answer.observation, answer.terminated
    return out


def game_of(policy: Policy, folder: Path) -> tuple[EnvSpec, list[Request], Reflector]:
    """A game that a policy can play, its tasks, and the reflection player that the policy needs."""
    if policy.name not in WORDWISE:
        return SPEC, REQUESTS, NoReflector()
    spec = EnvSpec.of(autoexplore.AutoExplore, tasks=save_small_task_set(folder), modes=("d1raw",))
    tasks = spec.tasks("d1raw", "test")
    return spec, [Request(task, k) for k, task in enumerate(tasks)], LexicalReflector(autoexplore.AutoExplore())


def rngs(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng((seed, k)) for k in range(count)]


def test_every_file_of_the_catalog_is_tested_here():
    assert set(POLICIES) >= set(registry.names("policies"))
    assert set(REFLECTORS) >= set(registry.names("reflectors"))


@every_policy
def test_a_policy_decides_once_for_each_view_and_picks_an_admissible_action(make):
    policy = make()
    assert isinstance(policy, Policy)
    seen = views(policy)
    decisions = policy.decide(seen, rngs(len(seen)))
    assert len(decisions) == len(seen)
    for view, decision in zip(seen, decisions, strict=True):
        count = len(view.observation.actions)
        assert 0 <= decision.index < count
        assert type(decision.index) is int
        assert decision.target is None or 0 <= decision.target < count
        assert decision.player == policy.name
    assert policy.decide([], []) == []


@every_policy
def test_the_probabilities_of_a_policy_are_a_distribution_over_the_admissible_actions(make):
    policy = make()
    seen = views(policy)
    for view, decision in zip(seen, policy.decide(seen, rngs(len(seen))), strict=True):
        if decision.log_probs is not None:
            assert len(decision.log_probs) == len(view.observation.actions)
            assert math.fsum(map(math.exp, decision.log_probs)) == pytest.approx(1.0, abs=1e-5)


@every_policy
def test_a_policy_is_a_function_of_its_views_and_streams(make):
    first, second = make(), make()
    seen = views(first)
    for seed in range(3):
        assert first.decide(seen, rngs(len(seen), seed)) == second.decide(seen, rngs(len(seen), seed))


@every_policy
def test_a_decision_depends_on_its_own_view_and_stream_only(make):
    policy = make()
    seen = views(policy)
    together = [d.index for d in policy.decide(seen, rngs(len(seen)))]
    alone = [make().decide([view], [rng])[0].index for view, rng in zip(seen, rngs(len(seen)), strict=True)]
    assert together == alone


@every_policy
def test_a_policy_plays_whole_games(make, tmp_path):
    config, requests, reflector = game_of(make(), tmp_path)
    episodes = play(config, requests, reflector, make(), shuffle_labels=True)
    assert len(episodes) == len(requests) > 0
    assert all(1 <= len(e.turns) <= config.max_episode_steps for e in episodes)


@every_reflector
def test_a_reflector_answers_each_view_by_itself(make):
    reflector = make()
    assert isinstance(reflector, Reflector)
    seen = [replace(view, observation=replace(view.observation, actions=()), order=()) for view in views(reflector)]
    answers = reflector.reflect(seen)
    assert len(answers) == len(seen)
    assert all(answer is None or isinstance(answer, str) for answer in answers)
    assert answers == [make().reflect([view])[0] for view in seen]
    assert reflector.reflect(seen[::-1]) == answers[::-1]
    assert reflector.reflect([]) == []


@every_reflector
def test_a_reflector_says_the_same_whatever_actions_there_are(make):
    reflector = make()
    view = views(reflector)[0]
    other = replace(view, observation=replace(view.observation, actions=("jump", "sit")), order=(1, 0))
    assert make().reflect([other]) == make().reflect([view])


class SpyPolicy(RandomPolicy):
    def __init__(self, sees_oracle: bool) -> None:
        self.sees_oracle = sees_oracle  # type: ignore[misc]
        self.seen: list[View] = []

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        self.seen += views
        return super().decide(views, rngs)


class SpyReflector:
    name = "spy"

    def __init__(self, sees_oracle: bool) -> None:
        self.sees_oracle = sees_oracle
        self.seen: list[View] = []

    def reflect(self, views: Sequence[View]) -> list[str | None]:
        self.seen += views
        return [None] * len(views)


@pytest.mark.parametrize("policy_knows", [False, True])
@pytest.mark.parametrize("reflector_knows", [False, True])
def test_only_players_that_declare_it_see_what_the_solver_knows(policy_knows, reflector_knows):
    policy, reflector = SpyPolicy(policy_knows), SpyReflector(reflector_knows)
    play(SPEC, REQUESTS, reflector, policy)
    assert {view.oracle is not None for view in policy.seen} == {policy_knows}
    assert {view.oracle is not None for view in reflector.seen} == {reflector_knows}
    assert {view.observation.actions for view in reflector.seen} == {()}
    assert {view.order for view in reflector.seen} == {()}


def test_who_declares_it():
    classes = {
        value
        for entry in pkgutil.iter_modules(players.__path__)
        for value in vars(importlib.import_module(f"{players.__name__}.{entry.name}")).values()
        if inspect.isclass(value)
        and value.__module__.startswith("reflect_rl.players")
        and hasattr(value, "sees_oracle")
    }
    assert {c.__name__ for c in classes if c.sees_oracle} == {"OraclePolicy", "Annotator", "OracleReflector"}
    assert len(classes) >= 6


def test_an_oracle_reflector_without_a_lesson_says_so():
    view = View(Observation("You are at 1.", ("left", "right")), (0, 1))
    with pytest.raises(ValueError, match="oracle"):
        OracleReflector().reflect([view])


@pytest.mark.parametrize("player", [OraclePolicy(), Annotator(0.1, "clean")])
def test_where_the_expert_is_silent_any_action_is_played_and_none_is_a_label(player):
    view = View(Observation("You are at 1.", ("left", "right")), (0, 1))
    decisions = player.decide([view] * 20, [np.random.default_rng(seed) for seed in range(20)])
    assert {decision.index for decision in decisions} == {0, 1}
    assert {decision.target for decision in decisions} == {None}


def test_the_annotator_perturbs_with_safe_actions_as_often_as_asked():
    policy = Annotator(0.5, "clean")
    (view,) = [v for v in views(policy) if v.oracle is not None and len(v.oracle.safe) == 2][:1]
    chosen = Counter(d.index for d in policy.decide([view] * 2000, rngs(2000)))
    assert view.oracle is not None
    # Half of 2000 follow the solver; the other half are shared by the two detours; s.e. of a count is about 22.
    assert abs(chosen[view.oracle.best] - 1000) < 100
    assert all(abs(chosen[index] - 500) < 100 for index in view.oracle.safe)


def test_the_language_model_samples_its_distribution_and_greedy_takes_its_mode():
    policy = language_model()
    view = views(policy)[0]
    decisions = policy.decide([view] * 3000, rngs(3000))
    assert decisions[0].log_probs is not None
    probabilities = np.exp(decisions[0].log_probs)
    counts = np.bincount([d.index for d in decisions], minlength=len(probabilities)) / 3000
    assert probabilities.std() > 0.01
    assert np.abs(counts - probabilities).max() < 0.04
    greedy = language_model(decoding="greedy").decide([view], rngs(1))[0]
    assert greedy.index == int(np.argmax(probabilities))
    assert greedy.log_probs == pytest.approx(decisions[0].log_probs, abs=1e-5)


def test_an_action_without_probability_is_never_sampled():
    policy = language_model()
    row = (-math.inf, math.log(0.5), -math.inf, math.log(0.5), -math.inf)

    class Edge:
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self) -> float:
            return self.value

    assert [policy._choose(row, Edge(u)) for u in (0.0, 0.49, 0.51, 1 - 2**-53)] == [1, 1, 3, 3]  # type: ignore[arg-type]


def test_the_language_models_memo_is_right_forgotten_on_request_and_bounded():
    policy = language_model(cache_size=10)
    seen = views(policy, 8)
    first = policy.decide(seen, rngs(8))
    with torch.no_grad():
        for weight in policy.model.model.parameters():
            weight.add_(0.1)
    assert policy.decide(seen, rngs(8)) == first
    policy.forget()
    fresh = policy.decide(seen, rngs(8))
    assert [d.log_probs for d in fresh] != [d.log_probs for d in first]
    expected = score_views(policy.model, policy.labels, seen).log_probs
    for row, decision in zip(expected.tolist(), fresh, strict=True):
        assert decision.log_probs == pytest.approx(row[: len(decision.log_probs or ())], abs=1e-5)
    for k in range(5):
        policy.decide([replace(view, reflection=str(k)) for view in seen], rngs(8))
        assert len(policy._cache) <= 10


def test_acting_leaves_the_models_mode_as_it_was():
    policy = language_model()
    for training in (True, False):
        policy.model.model.train(training)
        policy.decide(views(policy), rngs(12))
        assert policy.model.model.training == training


def reflect_counting(monkeypatch) -> list[int]:
    """How many prompts reach the model in each batch."""
    sizes: list[int] = []

    def counting(model, prompts, limit, kept):
        sizes.append(len(prompts))
        return generate_greedy(model, prompts, limit, kept)

    monkeypatch.setattr(frozen, "generate_greedy", counting)
    return sizes


def test_the_frozen_reflectors_memo_answers_what_it_has_seen(monkeypatch):
    sizes = reflect_counting(monkeypatch)
    reflector = FrozenReflector(lively_player()[0], 8)
    seen = views(reflector, 6)
    assert reflector.hit_rate == 0.0
    first = reflector.reflect(seen[:4])
    assert reflector.reflect(seen[2:] + seen[2:3]) == [*first[2:], *reflector.reflect(seen[4:]), first[2]]
    # Four, then two of five requests were new (two in memory, one twice), then none.
    assert sizes == [4, 2]
    assert (reflector.requests, reflector.hits) == (4 + 5 + 2, 0 + 3 + 2)
    assert reflector.hit_rate == pytest.approx(5 / 11)


def test_a_prompt_that_is_asked_twice_at_once_is_written_once(monkeypatch):
    sizes = reflect_counting(monkeypatch)
    reflector = FrozenReflector(lively_player()[0], 8)
    view = views(reflector)[0]
    assert len(set(reflector.reflect([view] * 5))) == 1
    assert (sizes, reflector.hit_rate) == ([1], 0.8)


@pytest.mark.parametrize("cache_size", [0, 1, 3])
def test_the_frozen_reflectors_memo_is_bounded_and_drops_the_least_recently_used(monkeypatch, cache_size):
    reflector = FrozenReflector(lively_player()[0], 8, cache_size)
    unbounded = FrozenReflector(reflector.model, 8)
    seen = views(reflector, 6)
    for batch in (seen[:3], seen[3:], seen[:1], seen[::-1], seen):
        assert reflector.reflect(batch) == unbounded.reflect(batch)
        assert len(reflector._cache) <= cache_size
    sizes = reflect_counting(monkeypatch)
    reflector.reflect(seen[6 - cache_size :] if cache_size else [])
    assert sizes == []
    reflector.reflect(seen[:1])
    assert sizes == [1]


def test_numbers_are_set_right_by_the_state_alone_and_not_in_the_memory(monkeypatch):
    reflector = FrozenReflector(lively_player()[0], 8, numbers=lambda state: {"go left": len(state)})
    monkeypatch.setattr(frozen, "generate_greedy", lambda model, prompts, *_: ["Next: go left =99."] * len(prompts))
    seen = views(reflector, 2)
    right = [f"Next: go left ={len(view.observation.text)}." for view in seen]
    assert reflector.reflect(seen) == right
    assert reflector.reflect(seen) == right
    assert set(reflector._cache.values()) == {"Next: go left =99."}


def test_an_empty_reflection_is_an_answer_and_is_remembered(monkeypatch):
    reflector = FrozenReflector(lively_player()[0], 8)
    calls = []
    monkeypatch.setattr(frozen, "generate_greedy", lambda model, prompts, *_: calls.append(1) or [""] * len(prompts))
    assert reflector.reflect(views(reflector, 2)) == ["", ""]
    assert reflector.reflect(views(reflector, 2)) == ["", ""]
    assert calls == [1]


def test_the_frozen_player_is_the_same_before_and_after_online_training(tmp_path):
    reflector = FrozenReflector(lively_player(seed=7)[0], 8)
    before = reflector.model.hash()
    training = trainer(tmp_path, rlft(learning_rate=1e-2), reflector)
    policy_before = training.model.hash()
    training.train(lambda *_: None)
    assert reflector.model.hash() == before
    assert not any(p.requires_grad for p in reflector.model.model.parameters())
    assert not reflector.model.model.training
    assert training.model.hash() != policy_before
    assert 0.5 < reflector.hit_rate < 1


def answers(*texts: str) -> HumanPolicy:
    given = iter(texts)
    return HumanPolicy(lambda view: None, lambda question: next(given))


def test_a_person_answers_by_number_or_text_until_it_is_one():
    view = View(Observation("You are at 2.", ("left", "right", "wait")), (2, 0, 1))
    assert answers("0").decide([view], rngs(1))[0].index == 2
    assert answers("right").decide([view], rngs(1))[0].index == 1
    assert answers("3", "-1", "", "up", "9" * 5000, "2").decide([view], rngs(1))[0].index == 1
