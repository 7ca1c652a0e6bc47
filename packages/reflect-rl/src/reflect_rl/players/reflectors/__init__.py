"""Reflection players, one file each."""
