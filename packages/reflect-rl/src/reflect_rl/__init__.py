"""Reflect-RL: two-player online RL fine-tuning of language models that act over many turns, local first."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("reflect-rl")
except PackageNotFoundError:
    __version__ = "0+unknown"
