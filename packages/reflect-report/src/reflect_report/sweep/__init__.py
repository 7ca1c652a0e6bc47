"""Sweeps: one configuration with several values of some of its fields, as a run for each combination."""
