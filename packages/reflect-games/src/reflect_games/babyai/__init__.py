"""BabyAI in text: levels, missions and the bot of `minigrid`."""
