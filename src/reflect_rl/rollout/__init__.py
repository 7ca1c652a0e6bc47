"""The one loop that steps games, and what turns its episodes into training batches."""
