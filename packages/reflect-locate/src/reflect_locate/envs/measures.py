"""Costs of an exploration, read from its episode."""

from __future__ import annotations

from collections.abc import Sequence

from reflect_locate.envs.state_text import ExplorationState
from reflect_rl.types import Episode


def exploration_measures(episode: Episode, states: Sequence[ExplorationState], shortest_turns: int) -> dict[str, float]:
    """Costs of one episode.

    - `spl`: success weighted by path length, shortest / played turns where the game was won (Anderson et al. 2018,
      arXiv:1807.06757, section 4);
    - `characters_read`: of all that the commands showed, names in listings left out;
    - `files_read`: files that were opened and whose content was seen;
    - `wrong_answers`, `timeouts`: 1 where the episode ended so, else 0.

    Args:
        episode: of AutoExplore.
        states: what there was to see before each turn, at least one.
        shortest_turns: turns that the solver needs for the task.
    """
    last = episode.turns[-1]
    answered = (last.action or "").startswith("id ")
    return {
        "spl": episode.success * shortest_turns / max(len(states), shortest_turns),
        "characters_read": float(sum(len(state.result) for state in states)),
        "files_read": float(len(states[-1].read)),
        "wrong_answers": float(answered and not episode.success),
        "timeouts": float(not answered),
    }
