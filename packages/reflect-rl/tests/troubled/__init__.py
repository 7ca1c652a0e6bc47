"""A package outside of reflect_rl, as a user's own game would be."""
