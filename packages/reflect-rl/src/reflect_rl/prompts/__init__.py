"""Views become text here and nowhere else, for supervised training, rollouts, RL updates and evaluation alike."""
