"""Tests of the benchmark share a call of the command line in this process."""

from calling import call  # noqa: F401 (a fixture)
