"""Language models: loading, the embedded default, labels, action scoring, generation, values. They know no game."""
