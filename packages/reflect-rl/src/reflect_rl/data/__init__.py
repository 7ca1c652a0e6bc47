"""Supervised data: annotated episodes become prompt/completion rows."""
