"""Games of other authors as environments of reflect-rl: BabyAI (MiniGrid), ScienceWorld, TextWorld."""
