"""An algorithm of your own: what turns are worth, and a loss of tensors. Here: returns minus their mean, signs only.

python examples/own_algorithm.py --turns 2000
"""

import argparse

import reflect_rl as rrl
from reflect_rl.algorithms import Advantages, Loss, PolicyGradientConfig, regularisers, rewards_to_go


class SignConfig(PolicyGradientConfig):
    """Discount, entropy bonus and KL penalty come with the base class."""

    name: str = "sign_gradient"


class SignGradient:
    """Reinforces what was better than average, by equal steps."""

    Config = SignConfig
    epochs = 1
    critic = "none"

    def __init__(self, config):
        self.config = config

    def returns(self, trajectory):
        """Rewards still to come at each turn."""
        return rewards_to_go(trajectory.rewards, self.config.gamma)

    def advantages(self, trajectories, values):
        """+1 above the mean return of the update, -1 below it."""
        returns = [self.returns(trajectory) for trajectory in trajectories]
        mean = sum(map(sum, returns)) / sum(map(len, returns))
        signs = [[1.0 if value > mean else -1.0 for value in row] for row in returns]
        return Advantages(signs, returns, self.returns)

    def loss(self, batch, outputs):
        """-mean A log pi(a|s), plus the entropy bonus."""
        policy = -(batch.advantages * outputs.chosen(batch)).mean()
        penalty, metrics = regularisers(self.config, batch, outputs)
        return Loss(policy + penalty, metrics)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=2000)
    turns = parser.parse_args().turns
    model = rrl.load_model("embedded", hidden_size=32, layers=1, device="cpu")
    warm = rrl.train_sft(model, rrl.collect("corridor", "oracle", episodes=40), env="corridor", steps=min(turns, 50))
    agent = rrl.train_rl(warm, "corridor", algorithm=SignGradient, turns=turns, validate_every=0)
    print(rrl.evaluate(warm, "corridor"), rrl.evaluate(agent, "corridor"), sep="\n")
