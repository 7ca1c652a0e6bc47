"""Adapter that makes the household games an environment of reflect-rl; loaded through its entry point."""
