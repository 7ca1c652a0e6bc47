"""Text environments, one file each; they know no prompt, no model and no algorithm."""
