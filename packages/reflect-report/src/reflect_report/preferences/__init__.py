"""Preferences: which of two episodes, or of two actions in one state, is better; the file that reward models read."""
