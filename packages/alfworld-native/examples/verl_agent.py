"""A rollout by the methods of verl-agent's ALFWorld manager, with random commands in the place of a model."""

import random

from alfworld_native.compat import make_config
from alfworld_native.trainers.verl import HouseholdManager

manager = HouseholdManager(make_config("generated:train:1000", max_steps=50), "train", env_num=4, group_n=2)
rng = random.Random(0)
observations, infos = manager.reset({})
total_infos, batches = [[] for _ in infos], [[] for _ in infos]
over = [False] * len(infos)
while not all(over):
    replies = [f"<think>…</think><action>{rng.choice(info['admissible_commands'])}</action>" for info in infos]
    observations, rewards, dones, infos = manager.step(replies)
    for at, info in enumerate(infos):
        total_infos[at].append(info)
        batches[at].append({"active_masks": not over[at]})
    over = [was or bool(done) for was, done in zip(over, dones, strict=True)]
print(manager.success_evaluator(total_infos=total_infos, total_batch_list=batches))
