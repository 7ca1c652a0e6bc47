"""Household games for verl-agent, without Ray or workers: its games, its manager of them, and its `make_envs`.

verl-agent calls `reset(kwargs)`, `step(text_actions)`, `success_evaluator` and `close` of a manager. Its results
have the same form: texts, rewards of 10 for a win, and for each game a dictionary with `won`, `extra.gamefile` and
`is_action_valid`. The prompts are this package's own; `HouseholdEnvs` under verl-agent's own manager gives its prompts.
Nothing of verl-agent is imported here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from alfworld_native.commands import check_commands
from alfworld_native.compat import AlfredTWEnv
from alfworld_native.errors import GameError
from alfworld_native.record import TASK_TYPES
from alfworld_native.trainers.episode import INSTRUCTION

WIN: Final = 10.0
"""Reward of the command that wins, verl-agent's."""

FORMAT: Final = "Think in <think> and </think>, then give the command in <action> and </action>."

TASK: Final = "Your task is to: "

VALIDATION_SEED: Final = 1000
"""Added to the seed for the games of validation, verl-agent's."""

KEPT: Final = 30
"""Characters at the end of a reply without a command that are given as one, verl-agent's."""

CHINESE: Final = re.compile("[\u4e00-\u9fff]")

Observations = dict[str, Any]
Infos = list[dict[str, Any]]


class HouseholdEnvs:
    """Games in groups, with the methods of verl-agent's `AlfworldEnvs`: for its own manager, which has its own prompts.

    Args:
        config: alfworld's configuration (`alfworld_native.compat`). Plans of experts are never made, as there.
        train_eval: alfworld's name of the split.
        env_num: number of groups.
        group_n: games in a group, which are the same one, as GRPO and GiGPO need.
        seed: group i draws its games by `seed + i`.

    Raises:
        GameError: see `AlfredTWEnv`; also fewer than one group or game.
    """

    def __init__(
        self, config: Mapping[str, Any], train_eval: str = "train", env_num: int = 1, group_n: int = 1, seed: int = 0
    ) -> None:
        if env_num < 1 or group_n < 1:
            raise GameError(f"env_num and group_n must be 1 or more, not {env_num} and {group_n}.")
        environment = AlfredTWEnv(config, train_eval, expert=False)
        # One batch for each game, since each group has an order of games of its own.
        self._envs = [environment.init_env(batch_size=1) for _ in range(env_num * group_n)]
        for number, env in enumerate(self._envs):
            env.seed(seed + number // group_n)
        self._admissible: list[list[str]] = []

    @property
    def get_admissible_commands(self) -> list[list[str]]:
        """Commands that each game understands now; a property with a method's name, as in verl-agent."""
        return self._admissible

    def reset(self) -> tuple[list[str], None, Infos]:
        """Begin the next game of each group: texts, no images, and a dictionary for each game."""
        begun = [env.reset() for env in self._envs]
        texts = [observed[0] for observed, _ in begun]
        return texts, None, self._infos(texts, [info for _, info in begun])

    def step(self, commands: Sequence[str]) -> tuple[list[str], None, list[float], list[bool], Infos]:
        """Give each game its command: texts, no images, rewards, whether each is over, and a dictionary for each.

        Raises:
            GameError: not one text for each game, or `reset` has not been called.
        """
        given = check_commands(commands, len(self._envs))
        stepped = [env.step([command]) for env, command in zip(self._envs, given, strict=True)]
        texts = [observed[0] for observed, *_ in stepped]
        infos = self._infos(texts, [info for *_, info in stepped])
        rewards = [WIN * float(info["won"]) for info in infos]
        return texts, None, rewards, [dones[0] for _, _, dones, _ in stepped], infos

    def close(self) -> None:
        """End the games."""
        for env in self._envs:
            env.close()

    def _infos(self, texts: Sequence[str], batches: Sequence[Mapping[str, Sequence[Any]]]) -> Infos:
        infos = [
            {key: values[0] for key, values in batch.items()} | {"observation_text": text}
            for text, batch in zip(texts, batches, strict=True)
        ]
        self._admissible = [info["admissible_commands"] for info in infos]
        return infos


class HouseholdManager:
    """Games in groups, and the texts that a model sees.

    Args:
        config: alfworld's configuration (`alfworld_native.compat`).
        train_eval: alfworld's name of the split.
        env_num: number of groups.
        group_n: games in a group.
        seed: group i draws its games by `seed + i`.
        history_length: earlier turns in the text; 0 or less = none.

    Raises:
        GameError: see `HouseholdEnvs`.
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
        self.envs = HouseholdEnvs(config, train_eval, env_num, group_n, seed)
        self.history_length = history_length
        self.tasks: list[str] = []
        self.gamefile: list[str] = []
        self._past: list[list[tuple[str, str]]] = []
        self._said: list[str] = []

    def reset(self, kwargs: object = None) -> tuple[Observations, Infos]:
        """Begin the next game of each group.

        Args:
            kwargs: ignored; verl-agent gives the rows of its data set.

        Returns:
            observations: `text` for the model, `anchor` as the game said it, `image` None; a dictionary for each game.
        """
        self._said, _, infos = self.envs.reset()
        self.gamefile = [info["extra.gamefile"] for info in infos]
        self._past = [[] for _ in infos]
        self.extract_task(self._said)
        return self._observations(init=True), infos

    def step(self, text_actions: Sequence[str]) -> tuple[Observations, NDArray[Any], NDArray[Any], Infos]:
        """Give each game the command in a model's reply.

        Returns:
            observations, rewards and whether each game is over, both of shape (games,), and a dictionary for each game.

        Raises:
            GameError: not one text for each game, or `reset` has not been called.
        """
        if not self.gamefile:
            raise GameError("no game has begun; call reset() first.")
        commands, valid = project(check_commands(text_actions, len(self.gamefile), "replies"))
        said, _, rewards, dones, infos = self.envs.step(commands)
        for past, before, command in zip(self._past, self._said, commands, strict=True):
            past.append((before, command))
        self._said = said
        for info, path, is_valid in zip(infos, self.gamefile, valid, strict=True):
            info.update({"extra.gamefile": path, "is_action_valid": np.array(is_valid)})
        return self._observations(), np.array(rewards), np.array(dones), infos

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
            # Folders are named by the kind of task.
            if kind := next((kind for kind in TASK_TYPES if kind in path), None):
                success[f"{kind.removesuffix('_simple')}_success_rate"].append(won)
        return {key: np.array(values) for key, values in success.items()}

    def close(self) -> None:
        """End the games."""
        self.envs.close()

    def _observations(self, *, init: bool = False) -> Observations:
        text = self.build_text_obs(self._said, self.envs.get_admissible_commands, init)
        return {"text": text, "image": None, "anchor": list(self._said)}

    def _text(self, at: int, text: str, admissible: Sequence[str], *, init: bool) -> str:
        parts = [f"{INSTRUCTION} {FORMAT}"]
        # The first text has the task in it.
        if not init:
            parts.append(f"{TASK}{self.tasks[at]}")
            past = self._past[at][-self.history_length :] if self.history_length > 0 else []
            parts.extend(f"{said}\n> {command}" for said, command in past)
        # `help` shows the commands that are listed anyway.
        listed = ", ".join(command for command in admissible if command != "help")
        return "\n\n".join([*parts, f"{text}\nCommands: {listed}"])


def make_envs(config: Any, household: Mapping[str, Any]) -> tuple[HouseholdManager, HouseholdManager]:
    """Managers of training and of validation, in the place of verl-agent's `make_envs(config)`.

    Args:
        config: verl-agent's. Read are `env.seed`, `env.history_length`, `env.rollout.n`, `env.alfworld.eval_dataset`,
            `data.train_batch_size` and `data.val_batch_size`.
        household: alfworld's configuration: where the games are, and how many commands an episode has.

    Raises:
        GameError: see `HouseholdEnvs`.
    """
    env, data = config.env, config.data
    train = HouseholdManager(
        household, "train", data.train_batch_size, max(env.rollout.n, 1), env.seed, env.history_length
    )
    split, seed = env.alfworld.eval_dataset, env.seed + VALIDATION_SEED
    return train, HouseholdManager(household, split, data.val_batch_size, 1, seed, env.history_length)


def project(text_actions: Sequence[str]) -> tuple[list[str], list[int]]:
    """Commands in the replies, and 1 for each reply of the right form, else 0; by verl-agent's rules.

    The command, in small letters, is what stands before the first `</action>` after the first `<action>`, nothing if
    they come the other way round, and the end of the reply if one is missing. The form is right if both are there,
    `<think>` and `</think>` too, in any order, and no Chinese character.

    >>> project(["<think>hot</think><action>Go to fridge 1</action>", "look"])
    (['go to fridge 1', 'look'], [1, 0])
    """
    judged = [_command(reply) for reply in text_actions]
    return [command for command, _ in judged], [int(valid) for _, valid in judged]


def _command(reply: str) -> tuple[str, bool]:
    before, opened, after = reply.lower().partition("<action>")
    if not opened or "</action>" not in before + after:
        return reply.lower()[-KEPT:], False
    command = "" if "</action>" in before else after.partition("</action>")[0].strip()
    return command, "<think>" in reply and "</think>" in reply and not CHINESE.search(reply)
