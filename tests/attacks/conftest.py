"""The attacks share the call of the command line with the tests of the core."""

from calling import call  # noqa: F401 (a fixture)
