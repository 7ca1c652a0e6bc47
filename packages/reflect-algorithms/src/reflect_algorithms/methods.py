"""Methods of this package: rows of the results table whose policies the stage `learn` trains.

A method names its learner by `module:Class`, so that listing methods loads no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from reflect_algorithms.both.settings import STAGE as BOTH_STAGE
from reflect_rl.envs.base import HasSolver
from reflect_rl.evaluation.methods import Method

STAGE = "learn"
"""Name of the stage that trains them."""


@dataclass(frozen=True, slots=True)
class LearnedMethod(Method):
    """A method whose policy a learner of this package trains."""

    stage: str = STAGE
    learner: str = ""
    """`module:Class` of its learner, see `reflect_algorithms.training.Learner`."""
    start: str = ""
    """Method of the stage `learn` whose model it goes on from; empty = the model of its supervised data (`policy`)."""
    log: bool = True
    """True if it learns from the log of `[offline]`."""
    pairs: bool = False
    """True if it learns from the preferences of `[preferences]`."""
    reward: bool = False
    """True if it learns from the reward model that was trained on them."""
    settings: tuple[str, ...] = ("offline.training",)
    """Tables of a run's settings that its training follows from; its model card shows them."""


BOTH = Method(
    "reflect_rl_both",
    "Reflect-RL, both players",
    "reflector",
    "policy_reflect",
    stage=BOTH_STAGE,
    settings=("reflector", "rlft"),
    colour="#AA3377",
    place=125,
)

LEARNERS = "reflect_algorithms.learners"

BC = LearnedMethod("bc", "Behaviour cloning", learner=f"{LEARNERS}.cloning:Cloning", colour="#56B4E9", place=200)
FILTERED_BC = LearnedMethod(
    "filtered_bc",
    "Filtered behaviour cloning",
    learner=f"{LEARNERS}.cloning:FilteredCloning",
    colour="#009E73",
    place=210,
)
RVS = LearnedMethod(
    "rvs",
    "RvS",
    writer="asked_outcome",
    learner=f"{LEARNERS}.rvs:RvS",
    settings=("offline.training", "offline.rvs"),
    colour="#E69F00",
    place=220,
)
A_LOL = LearnedMethod(
    "a_lol",
    "A-LoL",
    learner=f"{LEARNERS}.a_lol:ALoL",
    start="bc",
    settings=("offline.training", "offline.a_lol"),
    colour="#D55E00",
    place=230,
)
DAGGER = LearnedMethod(
    "dagger",
    "DAgger",
    needs=(HasSolver,),
    learner=f"{LEARNERS}.dagger:DAgger",
    log=False,
    settings=("offline.training", "offline.dagger"),
    colour="#882255",
    place=240,
)
RCRL = LearnedMethod(
    "rcrl",
    "Return-conditioned RL",
    policy="policy_plain",
    writer="asked_outcome",
    learner=f"{LEARNERS}.rcrl:RCRL",
    log=False,
    settings=("offline.training", "offline.rvs", "offline.rcrl"),
    colour="#999999",
    place=245,
)
LINVIT = LearnedMethod(
    "linvit",
    "LINVIT",
    policy="policy_plain",
    learner=f"{LEARNERS}.linvit:LINVIT",
    log=False,
    settings=("offline.training", "offline.linvit"),
    colour="#332288",
    place=250,
)
MOREL = LearnedMethod(
    "morel",
    "MOReL",
    learner=f"{LEARNERS}.morel:MOReL",
    settings=("offline.training", "offline.morel", "rlft"),
    colour="#44AA99",
    place=260,
)
GAIL = LearnedMethod(
    "gail",
    "GAIL",
    learner=f"{LEARNERS}.gail:GAIL",
    start="bc",
    settings=("offline.training", "offline.gail", "rlft"),
    colour="#117733",
    place=270,
)
ARCHER = LearnedMethod(
    "archer",
    "ArCHer",
    policy="policy_plain",
    learner=f"{LEARNERS}.archer:ArCHer",
    log=False,
    settings=("offline.training", "offline.archer"),
    colour="#999933",
    place=280,
)
