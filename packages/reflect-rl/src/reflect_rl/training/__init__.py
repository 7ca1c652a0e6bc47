"""Supervised and online training."""
