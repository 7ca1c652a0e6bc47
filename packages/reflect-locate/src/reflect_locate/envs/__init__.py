"""AutoExplore and its relatives as environments of reflect-rl, found by entry points."""
