"""Where questions come from: a file per source, with `NAME` and `candidates(snapshot)`."""
