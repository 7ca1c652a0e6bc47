"""Costs of an exploration, read from its episode."""

from __future__ import annotations

from reflect_rl.types import Episode


def exploration_measures(
    episode: Episode, *, shortest_turns: int, characters_read: int, files_read: int
) -> dict[str, float]:
    """Costs of one episode.

    - `spl`: success weighted by path length, shortest / played turns where the game was won (Anderson et al. 2018,
      arXiv:1807.06757, section 4);
    - `characters_read`: of all that the commands showed, names in listings left out;
    - `files_read`: files that were opened and whose content was seen;
    - `wrong_answers`, `timeouts`: 1 where the episode ended so, else 0.

    Args:
        episode: of a game about questions.
        shortest_turns: turns that the solver needs for the task.
        characters_read: as above.
        files_read: as above.
    """
    answered = (episode.turns[-1].action or "").startswith("id ")
    return {
        "spl": episode.success * shortest_turns / max(len(episode.turns), shortest_turns),
        "characters_read": float(characters_read),
        "files_read": float(files_read),
        "wrong_answers": float(answered and not episode.success),
        "timeouts": float(not answered),
    }
