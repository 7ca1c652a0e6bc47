"""Curricula, one file each: which tasks the next update trains on."""
