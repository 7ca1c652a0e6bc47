"""Algorithms of a user's own: one that trains, and others that each make a mistake."""

from __future__ import annotations

from reflect_rl.algorithms import Advantages, Loss, PolicyGradientConfig


class OwnConfig(PolicyGradientConfig):
    name: str = "own"


class Own:
    Config = OwnConfig
    epochs, critic = 1, "none"

    def __init__(self, config):
        self.config = config

    def advantages(self, trajectories, values):
        rows = [[1.0] * len(one.rewards) for one in trajectories]
        return Advantages(rows, rows, lambda one: [0.0] * len(one.rewards))

    def loss(self, batch, outputs):
        return Loss(-outputs.chosen(batch).mean())


class OddCritic(Own):
    critic = "yes"


class NoEpochs(Own):
    epochs = 0


class HalfAnEpoch(Own):
    epochs = 0.5


class PlainRows(Own):
    def advantages(self, trajectories, values):
        return [[1.0] * len(one.rewards) for one in trajectories]


class LongRows(Own):
    def advantages(self, trajectories, values):
        rows = [[1.0] * (len(one.rewards) + 1) for one in trajectories]
        return Advantages(rows, rows, lambda one: [0.0] * len(one.rewards))


class PlainLoss(Own):
    def loss(self, batch, outputs):
        return -outputs.chosen(batch).mean()


class NoNumber(Own):
    def loss(self, batch, outputs):
        return Loss(outputs.chosen(batch).mean() * float("nan"))


class VectorLoss(Own):
    def loss(self, batch, outputs):
        return Loss(-outputs.chosen(batch))


class DetachedLoss(Own):
    def loss(self, batch, outputs):
        return Loss(-outputs.chosen(batch).mean().detach())


class TensorMetric(Own):
    def loss(self, batch, outputs):
        loss = -outputs.chosen(batch).mean()
        return Loss(loss, {"my/metric": loss.detach()})


class ByReturns(Own):
    """Advantages of zero; what moves the policy stands in the returns."""

    def advantages(self, trajectories, values):
        weights = [one.rewards for one in trajectories]
        return Advantages([[0.0] * len(row) for row in weights], weights, lambda one: one.rewards)

    def loss(self, batch, outputs):
        return Loss(-(batch.returns * outputs.chosen(batch)).mean())
