"""Scripted players of AutoExplore: the floors that a trained policy must beat."""
