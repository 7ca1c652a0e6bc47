"""The next place to look at by what names mean: nearness of a name to the question, and what was read and walked.

Weights are rounded ones of a search over games of training questions, trees of 32 files at depth 1 and 2, in which
finding the file is all that counts (docs/results/log.md). Validation results were seen between searches; no test
question was asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from pathlib import PurePosixPath

from reflect_locate.envs.state_text import ExplorationState, name_overlap
from reflect_locate.repositories.embedding import Embedding, installed, spelled
from reflect_locate.repositories.roles import TEST_FOLDERS, is_data, is_document, is_test
from reflect_locate.repositories.words import question_words

FILE_NEAR = 5.5
FILE_WORD = 1.5
FILE_INIT = -2.0
FILE_NO_CODE = -4.0
FILE_TEST = -4.5
FILE_AT_ROOT = -2.0
"""Files of the root: they are never the answer in the games of these depths."""
FOLDER = -1.25
"""To enter a folder costs a turn, and what lies in it is not known."""
FOLDER_NEAR = 2.0
FOLDER_WORD = 1.5
FOLDER_LEFT = 0.25
"""For each e-fold of its unread files."""
FOLDER_READ = -2.2
"""For each file that was read in it: the likeliest ones come first, so what is left is less likely."""
FOLDER_TEST = -1.5
LEAVE = -2.25
LEAVE_AGAIN = -2.0
"""For each turn beyond those that lead into the folders that were read in, and out again: who walked more than that has
come back to the same folder, so there is hardly another."""
MOST_WORDS = 3


def place_by_meaning(state: ExplorationState) -> str:
    """The command that leads to the likeliest unread file: read it, enter its folder, or leave this one.

    Raises:
        UserError: the embedding is not installed.
    """
    return max(_places(state, installed()), key=lambda place: place[0])[1]


def _places(state: ExplorationState, embedding: Embedding) -> Iterator[tuple[float, str]]:
    """Worth and command of each place, in the order of the listing."""
    asked = question_words(state.question)

    def near(name: str) -> float:
        return embedding.nearness(state.question, spelled(name))

    def shared(name: str) -> int:
        return min(len(name_overlap(name, asked)), MOST_WORDS)

    for name in state.files:
        worth = FILE_NEAR * near(name) + FILE_WORD * shared(name)
        worth += FILE_INIT * (name == "__init__.py") + FILE_TEST * is_test(name)
        worth += FILE_NO_CODE * (is_document(name) or is_data(name)) + FILE_AT_ROOT * (not state.folder)
        yield worth, f"cat {name}"
    for name, left in state.folders:
        if left:
            worth = FOLDER + FOLDER_NEAR * near(name) + FOLDER_WORD * shared(name) + FOLDER_LEFT * log(left)
            worth += FOLDER_READ * _read_in(state, f"{state.folder}/{name}".lstrip("/"))
            worth += FOLDER_TEST * (name.lower() in TEST_FOLDERS)
            yield worth, f"cd {name}"
    # The next page may hold better ones; only the last page is left for another folder.
    away = "more" if state.page < state.pages else "cd .."
    if state.folder or state.page < state.pages:
        yield LEAVE + LEAVE_AGAIN * _walked_again(state), away
    yield float("-inf"), away


def _walked_again(state: ExplorationState) -> int:
    """Turns that led nowhere new, as far as the state tells: it remembers what was read, and not where one was.

    Pages that were turned and searches count as well: the weights were searched in games without either.
    """
    folders = {parent for path, _ in state.read for parent in PurePosixPath(path).parents if parent.name}
    return max(0, state.turn - 1 - len(state.read) - 2 * len(folders))


def _read_in(state: ExplorationState, folder: str) -> int:
    """Number of files that were read below a folder."""
    return sum(path.startswith(f"{folder}/") for path, _ in state.read)
