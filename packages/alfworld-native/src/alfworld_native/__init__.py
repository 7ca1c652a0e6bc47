"""Household games: the text side of ALFWorld, as a native engine, its games, a generator and experts.

Nothing here loads a language model; of TextWorld only `textworld.py` knows, which an extra installs.
"""
