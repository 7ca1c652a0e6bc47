"""Trees of files in memory, which AutoExplore explores.

Nothing here loads a language model. Files are read, never run; of programs only git's plumbing commands are called, to
read the files of a commit (`git.py`).
"""
