"""A text environment in a loop that is written for Gymnasium.

python examples/gymnasium_loop.py --episodes 3
"""

import argparse

import gymnasium

import reflect_rl  # noqa: F401 (registers the environments)

parser = argparse.ArgumentParser()
parser.add_argument("--episodes", type=int, default=3)

env = gymnasium.make("reflect_rl/DangerousTaxi-v1")
for seed in range(parser.parse_args().episodes):
    observation, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    total, over = 0.0, False
    while not over:
        # An observation is a text with the actions that are admissible now; one acts by their index.
        action = env.action_space.sample()
        observation, reward, terminated, truncated, info = env.step(action)
        total, over = total + float(reward), terminated or truncated
    print(
        f"episode {seed}: return {total:+.2f}, {'won' if info['success'] else 'lost'}, last state\n{observation.text}"
    )
