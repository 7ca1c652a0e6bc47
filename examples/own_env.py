"""A game of your own, without a solver: guess a number, learned from its own successes and online RL.

python examples/own_env.py                   half a minute on one core
python examples/own_env.py --turns 50        a look at the steps, nothing is learned
"""

import argparse

import reflect_rl as rrl

WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()  # noqa: SIM905
ACTIONS = ("guess the lowest", "guess the highest", "ask whether it is above the middle")


class Guess(rrl.TextEnv):
    """A number of up to 16: ask for a half, or guess; six turns."""

    max_episode_steps = 6
    max_actions = 3

    def tasks(self, mode, split):
        """Numbers from 0 to 15 and from 1 to 16; every fifth is held out."""
        parts = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}[split]
        pairs = [(low, secret) for low in (0, 1) for secret in range(low, low + 16) if (low + secret) % 5 in parts]
        return [rrl.Task(f"{low}/{secret}", mode, split, {"low": low, "secret": secret}) for low, secret in pairs]

    def reset(self, task, rng):
        """Nothing is known yet."""
        self.low, self.high, self.secret = task.data["low"], task.data["low"] + 15, task.data["secret"]
        return self.see("nothing yet")

    def step(self, action):
        """A guess wins or costs a turn; a question halves what is left."""
        if action < 2:
            won = (self.low, self.high)[action] == self.secret
            return rrl.Step(self.see("right" if won else "wrong"), 1.0 if won else -0.2, won, won)
        middle = (self.low + self.high) // 2
        higher = self.secret > middle
        self.low, self.high = (middle + 1, self.high) if higher else (self.low, middle)
        return rrl.Step(self.see("higher" if higher else "lower"), -0.05)

    def see(self, answer):
        """The state as text."""
        left = self.high - self.low + 1
        return rrl.Observation(f"Answer: {answer}. {WORDS[self.low]} to {WORDS[self.high]}, {left} left.", ACTIONS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=12_000)
    turns = parser.parse_args().turns
    model = rrl.load_model("embedded", hidden_size=32, layers=2, device="cpu")
    warm = rrl.warm_up(model, Guess, episodes=600, steps=min(turns, 150))
    agent = rrl.train_rl(warm, Guess, turns=turns, learning_rate=3e-3, minibatch_turns=64, validate_every=0)
    print(rrl.evaluate(warm, Guess), rrl.evaluate(agent, Guess), sep="\n")
