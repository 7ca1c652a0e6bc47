"""Evaluation: the same loop as training, success rates with intervals, paired comparisons."""
