"""Chat models as players: what they are asked, and what becomes of their answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from alfworld_native.plugin import env as alfworld
from chat_server import ChatServer, listed, walker
from reflect_locate.envs import autoexplore, autoexplore_paper
from reflect_rl.envs import dangerous_taxi
from reflect_rl.envs.base import spec_of
from reflect_rl.envs.corridor import RULES
from reflect_rl.rollout import Request, play
from reflect_rl.types import NO_ACTION, Observation, View
from reflect_served.llm import ChatAnswer, ChatRequest, Endpoint, EndpointConfig, EndpointError, request_body
from reflect_served.players.policy import ChatPolicy
from reflect_served.players.reflector import ChatReflector
from small_task_set import save_small_task_set
from toy import SPEC, training_tasks

REQUESTS = [Request(task, k) for k, task in enumerate(training_tasks())]
CONFIG = EndpointConfig(base_url="http://127.0.0.1:1/v1", model="scripted", price_input=1, price_output=2)
SEEN = View(Observation("You are at 3.", ("left", "right", "wait")), (2, 0, 1))


class Scripted(Endpoint):
    """An endpoint without a server, which answers as it is told and remembers what it was asked."""

    def __init__(self, say: Callable[[ChatRequest], str], top: tuple[tuple[str, float], ...] | None = None) -> None:
        super().__init__(CONFIG, None)
        self.say, self.top = say, top
        self.asked: list[ChatRequest] = []

    def answer(self, requests, progress=None) -> list[ChatAnswer]:
        self.asked += requests
        top = self.top if requests[0].top_logprobs else None
        return [ChatAnswer(self.say(request), "stop", 100, 10, 0.5, False, top) for request in requests]


def rngs(count: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng((seed, k)) for k in range(count)]


def decided(policy: ChatPolicy, view: View = SEEN, seed: int = 0):
    return policy.decide([view], rngs(1, seed))[0]


def test_the_number_is_that_of_the_list_the_model_saw():
    """Listed are 0 wait, 1 left, 2 right; their indices are 2, 0, 1."""
    for number, index in ((0, 2), (1, 0), (2, 1)):
        decision = decided(ChatPolicy(Scripted(lambda request, n=number: f"So.\nAction: {n}"), RULES))
        assert (decision.index, decision.answer, decision.log_probs) == (index, f"So.\nAction: {number}", None)


@pytest.mark.parametrize("answer", ["", "Action: 3", "left", "Action: 1\nAction: 2"])
def test_an_invalid_answer_is_no_action_and_is_not_asked_for_again(answer: str):
    endpoint = Scripted(lambda request: answer)
    decision = decided(ChatPolicy(endpoint, RULES))
    assert (decision.index, decision.answer) == (NO_ACTION, answer)
    assert len(endpoint.asked) == 1


def test_keys_in_what_a_player_reads_are_not_sent():
    """A file of AutoExplore, or any state, may hold one; the same detector reads files before questions about them."""
    token, block = "ghp_" + 36 * "a", f"-----BEGIN PRIVATE KEY-----\n{48 * 'A'}\n-----END PRIVATE KEY-----"
    view = View(Observation(f"config.py says: {token}\n{block}\nThe end.", ("left", "right")), (0, 1))
    for player in (ChatPolicy(Scripted(str), RULES), ChatReflector(Scripted(str), RULES)):
        body, _ = request_body(CONFIG, player.request(view))
        sent = body["messages"][-1]["content"]
        assert token not in sent
        assert "AAAA" not in sent
        assert "config.py says: (a key, left out)\n(a key, left out)\nThe end." in sent


def test_an_answer_that_was_cut_names_no_action_as_its_number_may_go_on():
    class Cut(Scripted):
        def answer(self, requests, progress=None) -> list[ChatAnswer]:
            return [replace(answer, ending="length") for answer in super().answer(requests)]

    said = "So.\nAction: 1"
    assert decided(ChatPolicy(Scripted(lambda request: said), RULES)).index == 0
    decision = decided(ChatPolicy(Cut(lambda request: said), RULES))
    assert (decision.index, decision.answer) == (NO_ACTION, said)


def test_what_is_asked_for_in_each_form():
    forms = {}
    for answers in ("text", "json", "logprobs"):
        endpoint = Scripted(lambda request: "0")
        decided(ChatPolicy(endpoint, RULES, answers, max_new_tokens=99))
        (forms[answers],) = endpoint.asked
    assert [(r.max_new_tokens, r.top_logprobs, r.response is None) for r in forms.values()] == [
        (99, 0, True),
        (99, 0, False),
        (8, 20, True),
    ]
    assert forms["json"].response["properties"]["action"]["enum"] == [0, 1, 2]
    assert "JSON" in forms["json"].messages[0][1]
    assert all(RULES in request.messages[0][1] for request in forms.values())


def test_probabilities_of_the_first_token_are_those_of_the_actions():
    """0 (wait, index 2): 0.7, 1 (left, index 0): 0.2, 2 (right, index 1): 0.1."""
    top = tuple((str(k), math.log(p)) for k, p in enumerate((0.7, 0.2, 0.1)))
    greedy = decided(ChatPolicy(Scripted(lambda request: "0", top), RULES, "logprobs"))
    assert greedy.index == 2
    assert [math.exp(value) for value in greedy.log_probs] == pytest.approx([0.2, 0.1, 0.7])
    sampled = ChatPolicy(Scripted(lambda request: "0", top), RULES, "logprobs", "sampled")
    counts = np.bincount([d.index for d in sampled.decide([SEEN] * 2000, rngs(2000))], minlength=3) / 2000
    assert counts == pytest.approx([0.2, 0.1, 0.7], abs=0.04)
    # One prompt: all draws come from one answer.
    assert len(set(sampled.endpoint.asked)) == 1


def test_probabilities_are_sharpened_by_the_temperature_of_the_decoding():
    top = tuple((str(k), math.log(p)) for k, p in enumerate((0.7, 0.2, 0.1)))
    cold = ChatPolicy(Scripted(lambda request: "0", top), RULES, "logprobs", "sampled@0.5")
    decisions = cold.decide([SEEN] * 2000, rngs(2000))
    squares = np.array([0.2, 0.1, 0.7]) ** 2
    assert np.exp(decisions[0].log_probs) == pytest.approx(squares / squares.sum())
    counts = np.bincount([decision.index for decision in decisions], minlength=3) / 2000
    assert counts == pytest.approx(squares / squares.sum(), abs=0.04)


def test_without_probabilities_the_number_in_the_answer_counts():
    assert decided(ChatPolicy(Scripted(lambda request: "1"), RULES, "logprobs")).index == 0
    assert decided(ChatPolicy(Scripted(lambda request: "left"), RULES, "logprobs")).index == NO_ACTION


def test_sampled_answers_to_one_prompt_are_asked_for_apart_and_by_the_stream_alone():
    endpoint = Scripted(lambda request: "0")
    policy = ChatPolicy(endpoint, RULES, decoding="sampled")
    for seed in (0, 1, 0):
        decided(policy, seed=seed)
    first, second, again = (request.sample for request in endpoint.asked)
    assert first == again != second
    assert min(first, second) >= 0
    greedy = Scripted(lambda request: "0")
    for seed in (0, 1):
        decided(ChatPolicy(greedy, RULES), seed=seed)
    assert {request.sample for request in greedy.asked} == {0}


def test_a_reflection_is_asked_for_without_the_actions_and_kept_in_one_line():
    endpoint = Scripted(lambda request: "I was wrong.\n\nNext: left.")
    player = ChatReflector(endpoint, RULES, 50)
    assert player.reflect([SEEN, replace(SEEN, order=())]) == ["I was wrong. Next: left."] * 2
    assert endpoint.asked[0] == endpoint.asked[1]
    assert endpoint.asked[0].max_new_tokens == 50
    assert not any("wait" in text for role, text in endpoint.asked[0].messages if role == "user")
    assert player.origin == {
        "chat_template": 2,
        "reflection_server": "127.0.0.1:1",
        "reflection_model": "scripted",
    }


def test_the_bill_counts_every_answer_and_can_begin_anew():
    policy = ChatPolicy(Scripted(lambda request: "0"), RULES)
    policy.decide([SEEN] * 3, rngs(3))
    usage = policy.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.seconds) == (300, 30, (0.5,) * 3)
    policy.reset_usage()
    assert policy.usage.seconds == ()


def test_all_games_can_be_played_and_an_invalid_answer_costs_a_turn_in_each(tmp_path):
    tasks = save_small_task_set(tmp_path, "train")
    exploring = {"tasks": tasks, "modes": ("d1raw",), "leaks": ("none", "name")}
    games = (
        (dangerous_taxi.DangerousTaxiConfig(), "full"),
        (alfworld.AlfworldConfig(), "pick"),
        (autoexplore.Config(**exploring), "d1raw"),
        (autoexplore_paper.Config(**exploring), "d1raw"),
    )
    for config, mode in games:
        spec = spec_of(config)
        asked = Request(spec.tasks(mode, "train")[0], 0)
        for said, invalid in (("I wonder.", True), ("So.\nAction: 0", False)):
            endpoint = Scripted(lambda request, said=said: said if "# Actions" in request.messages[1][1] else "Go on.")
            players = ChatReflector(endpoint, spec.env_class.rules), ChatPolicy(endpoint, spec.env_class.rules)
            (episode,) = play(spec, [asked], *players)
            assert len(endpoint.asked) == 2 * len(episode.turns)
            assert all(spec.env_class.rules in request.messages[0][1] for request in endpoint.asked)
            assert {turn.decision.index == NO_ACTION for turn in episode.turns} == {invalid}
            assert {turn.reflection for turn in episode.turns} == {"Go on."}
            if invalid:
                assert (len(episode.turns), episode.success) == (config.max_episode_steps, False)


def test_both_players_win_whole_games_through_a_server_and_the_second_time_nothing_is_sent(tmp_path):
    def played(folder):
        endpoint = Endpoint(EndpointConfig(base_url=server.url, model="scripted"), folder)
        players = ChatReflector(endpoint, RULES), ChatPolicy(endpoint, RULES)
        return play(SPEC, REQUESTS, *players, shuffle_labels=True), players

    with ChatServer(walker) as server:
        episodes, _ = played(tmp_path)
        assert all(episode.success for episode in episodes)
        assert {turn.reflection for episode in episodes for turn in episode.turns} == {
            "The goal is to the left. Next: left.",
            "The goal is to the right. Next: right.",
        }
        sent = len(server.requests)
        assert 20 < sent <= 2 * sum(len(episode.turns) for episode in episodes)
        again, (reflector, _) = played(tmp_path)
        assert again == episodes
        assert len(server.requests) == sent
        assert reflector.hit_rate == 1
    assert {body["model"] for body in server.requests} == {"scripted"}
    assert {body["temperature"] for body in server.requests} == {0}


def test_probabilities_come_from_a_server_that_offers_them():
    def top(body):
        return [(str(listed(body)["right"]), math.log(0.75)), (str(listed(body)["left"]), math.log(0.25))]

    with ChatServer(lambda body: str(listed(body)["right"]), top) as server:
        endpoint = Endpoint(EndpointConfig(base_url=server.url, model="scripted"), None)
        decision = decided(ChatPolicy(endpoint, RULES, "logprobs"))
        assert decision.index == 1
        assert [math.exp(value) for value in decision.log_probs] == pytest.approx([0.25, 0.75, 0], abs=1e-6)


def test_an_endpoint_that_fails_stops_the_play_with_its_own_words():
    class Failing(Scripted):
        def answer(self, requests, progress=None):
            raise EndpointError("the server is gone")

    with pytest.raises(EndpointError, match="is gone"):
        play(SPEC, REQUESTS, ChatReflector(Failing(str), RULES), ChatPolicy(Scripted(str), RULES))
