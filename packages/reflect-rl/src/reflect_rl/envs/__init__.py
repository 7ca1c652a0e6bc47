"""Text environments: the contract, two games, and the bridge to Gymnasium. They know no prompt, model or algorithm."""
