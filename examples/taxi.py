"""DangerousTaxi, cell by cell: demonstrations, supervised warm-up with reflections, online RL, a paired comparison.

python examples/taxi.py                      about ten minutes on one core
python examples/taxi.py --scale 0.01         a look at the steps, nothing is learned
"""

import argparse

import reflect_rl as rrl

parser = argparse.ArgumentParser()
parser.add_argument("--scale", type=float, default=1.0, help="share of the full budget")
parser.add_argument("--out", default="runs/example-taxi")
arguments = parser.parse_args()


def budget(full: int) -> int:
    """The share of a budget that was asked for."""
    return max(2, round(full * arguments.scale))


# %% The game: a taxi whose every mistake ends the episode. It can solve itself and write reflections.
taxi = rrl.make_env("dangerous_taxi", modes=["full"])
print(taxi.capabilities)

# %% Demonstrations of the solver, without reflections; `reflector="oracle"` lets the game's teacher write some.
demonstrations = rrl.collect(taxi, "oracle", episodes=budget(200))
print(demonstrations[0].turns[0].observation.text, demonstrations[0].turns[0].action)

# %% A small model from scratch learns to imitate them.
model = rrl.load_model("embedded", hidden_size=64, layers=3, device="cpu")
warm = rrl.train_sft(model, demonstrations, env=taxi, steps=budget(1000))
before = rrl.evaluate(warm, taxi)
print(before)

# %% Online RL goes on from there.
agent = rrl.train_rl(warm, taxi, algorithm="ppo", turns=budget(15_000), out=arguments.out)
after = rrl.evaluate(agent, taxi)
print(after)

# %% The same tasks with the same seeds, so the difference is tested in pairs.
difference = after.compare(before)
print(f"{difference.difference:+.1%} [{difference.lo:+.1%} to {difference.hi:+.1%}], p = {difference.p_value:.3g}")
print(rrl.report(arguments.out))
