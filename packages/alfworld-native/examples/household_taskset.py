"""Taskset of verifiers 0.4, on the Python path: vf-eval household_taskset --env.taskset.count 20."""

import verifiers.v1 as vf

from alfworld_native import GameSplit
from alfworld_native.trainers.episode import INSTRUCTION, Episode, command_of, numbered_record

__all__ = ["HouseholdEnv", "HouseholdTaskset"]


class Games(vf.TasksetConfig):
    split: GameSplit = "train"
    count: int = 100


class HouseholdTaskset(vf.Taskset[vf.Task, Games]):
    def load(self):
        for game in range(self.config.count):
            opening = Episode(numbered_record(self.config.split, game)).text()
            yield vf.Task(vf.TaskData(prompt=opening, system_prompt=INSTRUCTION), self.config.task)


class HouseholdEnv(vf.SingleAgentEnv):
    async def run(self, task, agents):
        # The game plays the user; idx is its number.
        episode = Episode(numbered_record(self.config.taskset.split, task.data.idx))
        async with agents.agent.interaction(task) as talk:
            segment = await talk.turn()
            while not segment.terminated:
                answer = episode.give(command_of(segment.last_reply))
                if episode.over:
                    break
                segment = await talk.turn(answer)
        talk.trace.record_reward("won", float(episode.won), 1.0)
