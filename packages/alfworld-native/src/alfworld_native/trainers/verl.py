"""Manager of household games with the methods that verl-agent's ALFWorld manager has, without Ray or workers.

verl-agent calls `reset(kwargs)`, `step(text_actions)`, `build_text_obs`, `success_evaluator` and `close`. Its results
have the same form: texts, rewards of 10 for a win, and for each game a dictionary with `won`, `extra.gamefile` and
`is_action_valid`. The prompts are this package's own. Nothing of verl-agent is imported here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from alfworld_native.compat import AlfredTWEnv
from alfworld_native.errors import GameError
from alfworld_native.record import TASK_TYPES
from alfworld_native.trainers.episode import INSTRUCTION, command_of

WIN: Final = 10.0
"""Reward of the command that wins, verl-agent's."""

FORMAT: Final = "Think in <think> and </think>, then give the command in <action> and </action>."

TASK: Final = "Your task is to: "

REPLY: Final = re.compile(r"<think>.*</think>.*<action>.*</action>", re.DOTALL | re.IGNORECASE)

Observations = dict[str, Any]
Infos = list[dict[str, Any]]


class HouseholdManager:
    """Games in groups: the games of a group are the same one, as GRPO and GiGPO need.

    Args:
        config: alfworld's configuration (`alfworld_native.compat`).
        train_eval: alfworld's name of the split.
        env_num: number of groups.
        group_n: games in a group.
        seed: group i draws its games by `seed + i`.
        history_length: earlier turns in the text.

    Raises:
        GameError: see `AlfredTWEnv`; also fewer than one group or game.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        train_eval: str = "train",
        env_num: int = 1,
        group_n: int = 1,
        seed: int = 0,
        history_length: int = 2,
    ) -> None:
        if env_num < 1 or group_n < 1:
            raise GameError(f"env_num and group_n must be 1 or more, not {env_num} and {group_n}.")
        environment = AlfredTWEnv(config, train_eval)
        # One batch for each game, since each group has an order of games of its own.
        self._envs = [environment.init_env(batch_size=1) for _ in range(env_num * group_n)]
        for number, env in enumerate(self._envs):
            env.seed(seed + number // group_n)
        self.history_length = history_length
        self.tasks: list[str] = []
        self.gamefile: list[str] = []
        self._past: list[list[tuple[str, str]]] = []
        self._said: list[str] = []
        self._admissible: list[list[str]] = []

    def reset(self, kwargs: object = None) -> tuple[Observations, Infos]:
        """Begin the next game of each group.

        Args:
            kwargs: ignored; verl-agent gives the rows of its data set.

        Returns:
            observations: `text` for the model, `anchor` as the game said it, `image` None; a dictionary for each game.
        """
        begun = [env.reset() for env in self._envs]
        self._said = [observed[0] for observed, _ in begun]
        infos = [_of_one(info) for _, info in begun]
        self.gamefile = [info["extra.gamefile"] for info in infos]
        self._past = [[] for _ in begun]
        self.extract_task(self._said)
        return self._observations(infos, init=True), infos

    def step(self, text_actions: Sequence[str]) -> tuple[Observations, NDArray[Any], NDArray[Any], Infos]:
        """Give each game the command in a model's reply.

        Returns:
            observations, rewards and whether each game is over, both of shape (games,), and a dictionary for each game.

        Raises:
            GameError: not one reply for each game, or `reset` has not been called.
        """
        if len(text_actions) != len(self._envs):
            raise GameError(f"step() needs {len(self._envs)} replies, one for each game, not {len(text_actions)}.")
        commands, valid = project(text_actions)
        stepped = [env.step([command]) for env, command in zip(self._envs, commands, strict=True)]
        for past, said, command in zip(self._past, self._said, commands, strict=True):
            past.append((said, command))
        self._said = [observed[0] for observed, *_ in stepped]
        infos = [_of_one(info) for *_, info in stepped]
        for info, path, is_valid in zip(infos, self.gamefile, valid, strict=True):
            info.update({"extra.gamefile": path, "is_action_valid": np.array(is_valid)})
        rewards = np.array([WIN * info["won"] for info in infos])
        return self._observations(infos), rewards, np.array([dones[0] for _, _, dones, _ in stepped]), infos

    def extract_task(self, text_obs: Sequence[str]) -> None:
        """Keep the tasks that the first texts name."""
        self.tasks = [text.partition(TASK)[2].strip() for text in text_obs]

    def build_text_obs(
        self, text_obs: Sequence[str], admissible_actions: Sequence[Sequence[str]], init: bool = False
    ) -> list[str]:
        """Texts for the model: task, earlier turns, what the game says now, and the commands."""
        return [
            self._text(at, text, admissible, init=init)
            for at, (text, admissible) in enumerate(zip(text_obs, admissible_actions, strict=True))
        ]

    def success_evaluator(
        self, *, total_infos: Sequence[Infos], total_batch_list: Sequence[Sequence[Mapping[str, Any]]], **_: Any
    ) -> dict[str, NDArray[Any]]:
        """Wins of finished episodes: of all (`success_rate`) and by kind of task.

        Args:
            total_infos: the dictionaries of each episode, turn by turn.
            total_batch_list: verl-agent's batches, turn by turn; a turn counts if its `active_masks` is true.
        """
        success: dict[str, list[float]] = defaultdict(list)
        for turns, infos in zip(total_batch_list, total_infos, strict=True):
            last = max(at for at, turn in enumerate(turns) if turn["active_masks"])
            won, path = float(infos[last]["won"]), infos[last].get("extra.gamefile") or ""
            success["success_rate"].append(won)
            for kind in TASK_TYPES:
                # Folders are named by the kind of task.
                if kind in path:
                    success[f"{kind.removesuffix('_simple')}_success_rate"].append(won)
        return {key: np.array(values) for key, values in success.items()}

    def close(self) -> None:
        """End the games."""
        for env in self._envs:
            env.close()

    def _observations(self, infos: Infos, *, init: bool = False) -> Observations:
        self._admissible = [info["admissible_commands"] for info in infos]
        return {
            "text": self.build_text_obs(self._said, self._admissible, init),
            "image": None,
            "anchor": list(self._said),
        }

    def _text(self, at: int, text: str, admissible: Sequence[str], *, init: bool) -> str:
        parts = [f"{INSTRUCTION} {FORMAT}"]
        # The first text has the task in it.
        if not init:
            parts.append(f"{TASK}{self.tasks[at]}")
            past = self._past[at][-self.history_length :] if self.history_length else []
            parts.extend(f"{said}\n> {command}" for said, command in past)
        # `help` shows the commands that are listed anyway.
        listed = ", ".join(command for command in admissible if command != "help")
        return "\n\n".join([*parts, f"{text}\nCommands: {listed}"])


def project(text_actions: Sequence[str]) -> tuple[list[str], list[int]]:
    """Commands in the replies, and 1 for each reply that thinks in `<think>` and acts in `<action>`, else 0."""
    commands = [command_of(reply.lower()) for reply in text_actions]
    return commands, [int(REPLY.search(reply) is not None) for reply in text_actions]


def _of_one(infos: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {key: values[0] for key, values in infos.items()}
