"""A game without solver, teacher or restart is learned from its own successes and online RL, on held-out tasks."""

from __future__ import annotations

import torch

import reflect_rl as rrl
from guess import Guess


def test_guess_the_number_is_learned_without_a_solver():
    assert rrl.make_env(Guess).capabilities == ()
    torch.set_num_threads(1)
    model = rrl.load_model("embedded", hidden_size=32, layers=2, device="cpu")
    warm = rrl.warm_up(model, Guess, episodes=600, steps=150)
    settings = {"learning_rate": 3e-3, "minibatch_turns": 64, "validate_every": 0}
    agent = rrl.train_rl(warm, Guess, algorithm="ppo", turns=11_000, **settings)
    before, after = rrl.evaluate(warm, Guess), rrl.evaluate(agent, Guess)
    assert after.rate > 0.9
    assert after.compare(before).lo > 0.2
