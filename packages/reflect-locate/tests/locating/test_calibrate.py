"""Weights of the evidence, and from which confidence on an answer is worth showing."""

import pytest

from reflect_locate.calibrate import Candidates, best_threshold, calibrate, collect
from reflect_locate.evidence import Evidence, Weights
from reflect_locate.finder import SearchOptions
from three_projects import save_task_set
from tiny_player import FILES, ScriptedPlayer


def test_nine_of_ten_right_answers_are_shown():
    right = [(0.1 * number, True) for number in range(1, 11)]
    wrong = [(0.05, False), (0.15, False), (0.25, False), (0.95, False)]
    found = best_threshold([*wrong, *right], Weights())
    assert (found.threshold, found.right_shown, found.wrong_withheld) == (0.2, 0.9, 0.5)
    assert (found.right, found.wrong) == (10, 4)


def test_of_few_right_answers_all_are_shown():
    judged = [(0.9, True), (0.8, True), (0.3, True), (0.5, False), (0.2, False), (0.1, False), (0.0, False)]
    found = best_threshold(judged, Weights())
    assert (found.threshold, found.right_shown, found.wrong_withheld) == (0.3, 1.0, 0.75)


@pytest.mark.parametrize("judged", [[], [(0.5, True)], [(0.5, False)]])
def test_both_kinds_are_needed(judged):
    with pytest.raises(ValueError, match="both are needed"):
        best_threshold(judged, Weights())


def test_each_question_is_asked_with_the_file_and_without(tmp_path):
    tasks = save_task_set(tmp_path, FILES, ("Where are rate limits parsed?", "src/limits.py"))

    def straight(actions):
        wanted = ("id src/limits.py", "id src/clock.py", "cat limits.py", "cat clock.py", "cd src")
        return {next(action for action in wanted if action in actions): 0.9}

    candidates = collect(ScriptedPlayer(straight, straight), tasks, tasks.questions, SearchOptions(1))
    assert [(entry.has_file, len(entry.files)) for entry in candidates] == [(True, 1), (False, 1)]
    assert [is_right for entry in candidates for _, is_right in entry.files] == [True, False]
    found = calibrate(candidates)
    # With the file it is named, and has all words; without it the clock is named, which has none.
    assert (found.right, found.wrong) == (1, 1)
    assert found.threshold == pytest.approx(1.0)
    assert (found.right_shown, found.wrong_withheld) == (1.0, 1.0)


def test_answers_are_ranked_with_the_fitted_weights():
    """The policy is always right here, the index always wrong; half of the trees lack the file."""
    right, wrong = Evidence(0.2, 0.2, 0.2, 1.0), Evidence(0.2, 1.0, 0.2, 0.0)
    asked = [Candidates(True, ((wrong, False), (right, True))) for _ in range(20)]
    others = [Candidates(False, ((wrong, False),)) for _ in range(20)]
    found = calibrate([*asked, *others])
    assert found.weights.named > found.weights.match
    assert (found.right, found.wrong) == (20, 20)
    assert found.right_shown == 1.0


def test_what_the_index_finds_without_the_file_does_not_move_the_weights():
    right, wrong = Evidence(0.9, 0.2, 0.2, 1.0), Evidence(0.2, 1.0, 0.2, 0.0)
    asked = [Candidates(True, ((wrong, False), (right, True)))]
    others = [Candidates(False, ((right, False), (wrong, False))) for _ in range(20)]
    assert calibrate([*asked, *others]).weights == calibrate([*asked, *others[:1]]).weights
