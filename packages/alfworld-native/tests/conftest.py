"""The same examples in every run, and no time limit for each, so that a busy machine fails no test."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
