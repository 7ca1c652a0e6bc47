"""Household games as an environment of verifiers: `verifiers.load_environment("alfworld-native", split="train")`."""

from __future__ import annotations

from typing import Any

from alfworld_native.errors import GameError
from alfworld_native.generate import GameSplit
from alfworld_native.trainers.episode import INSTRUCTION, Episode, command_of, numbered_record

FORMAT = "Think first, then end with the command in <action> and </action>."


def load_environment(
    split: GameSplit = "train", count: int = 1000, eval_count: int = 100, seed: int = 0, max_episode_steps: int = 50
) -> Any:
    """A `verifiers.MultiTurnEnv` of generated games; the reward is 1 for a game that is won, else 0.

    Args:
        split: of the games to train on; those to evaluate on are of `validation`.
        count: number of games to train on.
        eval_count: number of games to evaluate on.
        seed: of the generated games.
        max_episode_steps: commands in a game.

    Raises:
        GameError: verifiers is not installed, or has another interface (0.4).
    """
    try:
        from datasets import Dataset
        from verifiers import MultiTurnEnv, Rubric
    except ImportError:  # verifiers 0.4 has neither name
        raise GameError("this needs verifiers 0.1: pip install 'alfworld-native[verifiers]'.") from None

    class Household(MultiTurnEnv):  # here, because the library is loaded only now
        """One game for each rollout."""

        async def setup_state(self, state: Any) -> None:
            """Begin the game of the row."""
            row = state["info"]
            state["household"] = Episode(numbered_record(row["split"], row["game"], row["seed"]), max_episode_steps)

        async def env_response(self, messages: Any, state: Any, **_: Any) -> list[dict[str, str]]:
            """The game's answer to the command in the model's last message."""
            answer = state["household"].give(command_of(_content(messages[-1])))
            said = [{"role": "user", "content": answer}]
            # This key ends a rollout.
            if state["household"].over:
                state["final_env_response"] = said
            return said

    def won(state: Any, **_: Any) -> float:
        return float(state["household"].won)

    def data(of: GameSplit, number: int) -> Any:
        return Dataset.from_list([_row(of, game, seed) for game in range(number)])

    return Household(
        dataset=lambda: data(split, count),
        eval_dataset=lambda: data("validation", eval_count),
        rubric=Rubric(funcs=[won]),
        max_turns=max_episode_steps,
    )


def _row(split: GameSplit, game: int, seed: int) -> dict[str, Any]:
    opening = Episode(numbered_record(split, game, seed)).text()
    messages = [{"role": "system", "content": f"{INSTRUCTION} {FORMAT}"}, {"role": "user", "content": opening}]
    return {"prompt": messages, "info": {"split": split, "game": game, "seed": seed}, "answer": ""}


def _content(message: Any) -> str:
    content = message["content"] if isinstance(message, dict) else message.content
    return content if isinstance(content, str) else ""
