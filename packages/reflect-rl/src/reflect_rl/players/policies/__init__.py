"""Policy players, one file each."""
