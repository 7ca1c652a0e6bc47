"""RL algorithms, one file each: pure tensors in, loss out. They know no model."""
