"""Guess the number: a game without solver, teacher or restart, in about twenty lines; its state is unknown ("")."""

from __future__ import annotations

from reflect_rl import Observation, Step, Task, TextEnv

WORDS = (  # noqa: SIM905 (one word after the other reads better)
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty twenty-one twenty-two twenty-three"
).split()


class Guess(TextEnv):
    """A number among 16: ask for a half, or guess; six turns."""

    max_episode_steps = 6
    max_actions = 3

    def tasks(self, mode, split):
        starts = {"train": (0, 1, 3, 4, 6, 8), "validation": (5,), "test": (2, 7)}[split]
        return [Task(f"{low}/{secret}", mode, split, {"low": low, "secret": secret}) for low in starts
                for secret in range(low, low + 16)]  # fmt: skip

    def reset(self, task, rng):
        self.low, self.high, self.secret = task.data["low"], task.data["low"] + 15, task.data["secret"]
        return self._see("nothing yet")

    def step(self, action):
        if action < 2:
            won = (self.low, self.high)[action] == self.secret
            return Step(self._see("right" if won else "wrong"), 1.0 if won else -0.2, won, won)
        middle = (self.low + self.high) // 2
        higher = self.secret > middle
        self.low, self.high = (middle + 1, self.high) if higher else (self.low, middle)
        return Step(self._see("higher" if higher else "lower"), -0.05)

    def _see(self, answer):
        left = self.high - self.low + 1
        text = f"Answer: {answer}. From {WORDS[self.low]} to {WORDS[self.high]}, {left} left."
        return Observation(text, ("guess the lowest", "guess the highest", "ask whether it is above the middle"))
