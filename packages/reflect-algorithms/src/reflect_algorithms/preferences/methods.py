"""Methods that learn from preferences; like all of this package, rows of the results table."""

from __future__ import annotations

from reflect_algorithms.methods import LearnedMethod

POLICY = "policy_plain"
"""Data set of the supervised policy that plays the pairs, is the reference, and is trained further."""

PACKAGE = "reflect_algorithms.preferences"

DPO = LearnedMethod(
    "dpo",
    "DPO",
    policy=POLICY,
    learner=f"{PACKAGE}.dpo:DPO",
    log=False,
    pairs=True,
    settings=("preferences.training", "preferences.dpo"),
    colour="#0072B2",
    place=300,
)
RRHF = LearnedMethod(
    "rrhf",
    "RRHF",
    policy=POLICY,
    learner=f"{PACKAGE}.rrhf:RRHF",
    log=False,
    pairs=True,
    settings=("preferences.training", "preferences.rrhf"),
    colour="#009E73",
    place=310,
)
RLHF = LearnedMethod(
    "rlhf",
    "RLHF (PPO)",
    policy=POLICY,
    learner=f"{PACKAGE}.rlhf:RLHF",
    log=False,
    pairs=True,
    reward=True,
    settings=("preferences.rlhf", "rlft"),
    colour="#D55E00",
    place=320,
)
PPO_MAX = LearnedMethod(
    "ppo_max",
    "RLHF (PPO-max)",
    policy=POLICY,
    learner=f"{PACKAGE}.rlhf:PPOMax",
    log=False,
    pairs=True,
    reward=True,
    settings=("preferences.rlhf", "rlft"),
    algorithm="ppo",
    colour="#CC79A7",
    place=330,
)
