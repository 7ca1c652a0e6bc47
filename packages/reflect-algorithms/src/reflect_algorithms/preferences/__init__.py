"""Learning from preferences: pairs, a reward model, and the methods that use either (docs/guides/rlhf.md)."""
