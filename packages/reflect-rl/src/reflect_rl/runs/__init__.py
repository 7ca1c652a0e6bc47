"""A run: the jobs of all methods, budgets and seeds, and the order in which they are done."""
