"""AutoExplore in use: find a file, adapt a player to a repository, serve other programs."""
