"""The smallest run there is: every stage, nothing learned."""

from pathlib import Path

ROOT = Path(__file__).parents[4]
SMOKE = ROOT / "configs" / "taxi" / "smoke.toml"
METHODS = ("--methods", "random", "sft", "reflect_rl")
TINY = (
    *("--model.embedded.hidden-size", "16", "--model.embedded.layers", "1"),
    *("--data.demonstration-starts", "4"),
    *("--sft.base.steps", "2", "--sft.policy-plain.steps", "2", "--sft.policy-reflect.steps", "2"),
    *("--sft.reflector.steps", "4", "--reflector.max-new-tokens", "8"),
    *("--rlft.total-turns", "40"),
    *("--environment.test-starts", "6", "--environment.validation-starts", "6"),
    *("--evaluation.horizons", "5", "10"),
)
"""Flags that make the smoke run smaller."""

TINY_MODEL = (
    *("--model.embedded.hidden-size", "16", "--model.embedded.layers", "1"),
    *("--data.demonstration-starts", "4", "--data.perturbed-episodes-per-start", "1"),
    *("--sft.base.steps", "2", "--sft.policy-reflect.steps", "2", "--sft.reflector.steps", "2"),
    *("--reflector.max-new-tokens", "4", "--rlft.total-turns", "8", "--rlft.starts-per-update", "2"),
    *("--rlft.validate-every", "0", "--rlft.max-episode-steps", "2"),
)
"""Flags that make a run of any game as small, but for its games."""
