"""Tests of the command line share a call in this process."""

from calling import call  # noqa: F401 (a fixture)
