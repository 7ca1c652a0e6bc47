"""Questions about files, made from the files themselves: sources, filters, splits, task sets."""
