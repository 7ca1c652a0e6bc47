"""GRPO of TRL on generated household games, eight rollouts of each: python trl_grpo.py MODEL [STEPS]."""

import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from alfworld_native.trainers.trl import HouseholdTools, rows

model, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
games = Dataset.from_list(rows(1000))
settings = GRPOConfig(
    output_dir="household-grpo",
    max_steps=steps,
    max_completion_length=4096,
    max_tool_calling_iterations=50,
)
trainer = GRPOTrainer(model=model, args=settings, train_dataset=games, environment_factory=HouseholdTools)
trainer.train()
print(trainer.state.log_history[-1])
