"""Sources of questions: a file each, with `NAME` and `candidates(snapshot)`."""
