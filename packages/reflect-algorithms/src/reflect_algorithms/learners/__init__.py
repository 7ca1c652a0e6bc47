"""The learners, one file each: an objective of tensors, and a class that makes it from a log."""
