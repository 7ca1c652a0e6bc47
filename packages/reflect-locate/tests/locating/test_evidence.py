"""How much each kind of evidence counts."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch

from reflect_locate.evidence import ASIDE_SHARE, DATA_SHARE, DOCUMENT_SHARE, Evidence, Weights, score
from reflect_locate.fitting import FITTED, PRIOR_STD, fit
from reflect_locate.ranking import find
from reflect_locate.repositories.roles import TEST_SHARE
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.tree import Tree


def drawn(truth: Weights, questions: int, seed: int = 0):
    """Lists of eight candidates, of which one is right: drawn by the softmax of ten times its weighted sum."""
    rng = torch.Generator().manual_seed(seed)
    lists = []
    for _ in range(questions):
        rows = torch.rand(8, 4, generator=rng)
        sums = rows @ torch.tensor([truth.coverage, truth.match, truth.path, truth.named])
        right = int(torch.multinomial((10 * sums).softmax(0), 1, generator=rng))
        lists.append([(Evidence(*row), k == right) for k, row in enumerate(rows.tolist())])
    return lists


def test_the_score_is_the_weighted_mean_of_what_is_known():
    weights = Weights(coverage=1, match=2, path=0.5, named=0.5)
    assert score(Evidence(1.0, 0.5, 0.0, 0.0), weights) == pytest.approx(0.5)
    assert score(Evidence(1.0, None, None, 0.5), weights) == pytest.approx(1.25 / 1.5)
    assert score(Evidence(1, 1, 1, 1), weights) == pytest.approx(1)
    assert score(Evidence(1, 1, 1, 1, is_test=True), weights) == TEST_SHARE
    assert score(Evidence(1, 1, 1, 1, is_data=True), weights) == DATA_SHARE
    assert score(Evidence(1, 1, 1, 1, is_data=True, is_test=True), weights) == TEST_SHARE


def test_tests_do_not_move_the_weights():
    lists = drawn(Weights(named=0.6), 40)
    noise = (Evidence(1.0, 1.0, 1.0, 1.0, is_test=True), False)
    right = [(Evidence(0.0, 0.0, 0.0, 1.0, is_test=True), True), *lists[0][:3]]
    assert fit([[noise, *pairs] for pairs in lists] + [right]) == fit(lists) != fit([])


# Weights that are far from those to begin with.
@pytest.mark.parametrize("truth", [Weights(match=0.3, path=1.5, named=0.8), Weights(match=3.0, path=0.1, named=2.0)])
def test_the_weights_that_made_the_answers_are_found(truth):
    found = fit(drawn(truth, 3000))
    weights = {kind: value for kind, value in asdict(truth).items() if kind in FITTED}
    largest = max(weights.values())
    assert max(asdict(found)[kind] for kind in FITTED) == 1.0
    for kind, weight in weights.items():
        assert getattr(found, kind) == pytest.approx(weight / largest, abs=0.06), kind


def test_the_weights_are_the_most_likely_ones():
    """The posterior written out, at the common factor that is best for it: no other ratios have a higher one."""
    lists = drawn(Weights(named=0.6), 40)
    start = np.array([getattr(Weights(), kind) for kind in FITTED])

    def log_posterior(weights: np.ndarray) -> float:
        away = weights - start * (weights @ start) / (start @ start)
        total = -(away @ away) / 2 / PRIOR_STD**2
        for pairs in lists:
            sums = [float(weights @ np.array([getattr(evidence, kind) for kind in FITTED])) for evidence, _ in pairs]
            total += next(s for s, (_, right) in zip(sums, pairs, strict=True) if right)
            total -= max(sums) + math.log(sum(math.exp(s - max(sums)) for s in sums))
        return total

    def best(ratios: np.ndarray) -> float:
        return max(log_posterior(ratios * k) for k in np.linspace(1, 20, 96))

    fitted = fit(lists)
    found = np.array([getattr(fitted, kind) for kind in FITTED])
    for kind in range(4):
        for factor in (0.8, 1.25):
            other = found.copy()
            other[kind] *= factor
            assert best(other) < best(found)


def test_lists_that_tell_nothing_change_nothing():
    start = Weights(match=0.7, named=0.3)  # the largest weight is 1 already
    alike = [(Evidence(0.5, 0.5, 0.5, 0.5), True), (Evidence(0.5, 0.5, 0.5, 0.5), False)]
    for lists in ([], [[]], [[(Evidence(1, 1, 1, 1), False)]], [[(Evidence(1, 1, 1, 1), True)]], [alike]):
        assert fit(lists, start) == start


def test_without_an_index_its_weights_are_those_of_the_start():
    """The policy knows; how much the words count is what is learnt."""
    better, worse = Evidence(0.2, None, None, 0.9), Evidence(0.6, None, None, 0.1)
    found = fit([[(better, True), (worse, False)]] * 30)
    assert found.named > found.coverage
    assert found.match / found.path == pytest.approx(1 / 0.4, rel=0.01)


def test_the_order_of_questions_and_candidates_does_not_matter():
    lists = drawn(Weights(path=1.0), 50)
    turned = [list(reversed(pairs)) for pairs in reversed(lists)]
    assert fit(lists) == fit(turned)


def test_documents_come_behind_code_unless_the_question_asks_for_them():
    # Both files hold all words of each question close together; the prose is shorter, and so the better match.
    code = "# how scale is computed, as the docs tell\n" + "x = 1\n" * 3
    tree = Tree(Snapshot("mine", {"a.md": "how scale is computed: docs", "b.py": code}))
    assert [entry.path for entry in find(tree, "Where is the scale computed?").files] == ["b.py", "a.md"]
    answer = find(tree, "Which docs tell how scale is computed?")
    assert answer.files[0].evidence.is_document is False
    assert score(Evidence(1, 1, 1, 1, is_document=True), Weights()) == DOCUMENT_SHARE
    assert score(Evidence(1, 1, 1, 1, is_test=True, is_document=True), Weights()) == TEST_SHARE


def test_instructions_are_sought_in_documents_whose_headings_count():
    # The code holds the word oftener, and defines a name of it; the second document only mentions it.
    code = "def install(path):\n    return path\n\n\n# install the parts that install needs\n" * 3
    files = {
        "src/install.py": code,
        "docs/cups.md": "# Cups\n\nPour before you install lids.\n",
        "README.rst": "Pots\n====\n\nInstallation\n------------\n\nUse a package manager.\n",
        "tests/test_install.py": "def test_install():\n    assert install('a') == 'a'\n" * 5,
    }
    tree = Tree(Snapshot("mine", files))
    asked = [[entry.path for entry in find(tree, text).files] for text in ("how to install", "Where is install done?")]
    assert [paths[0] for paths in asked] == ["README.rst", "src/install.py"]
    # Whoever says `we` asks about the code.
    assert find(tree, "How do we install?").files[0].path == "src/install.py"
    assert score(Evidence(1, 1, 1, 1, is_aside=True), Weights()) == ASIDE_SHARE


@pytest.mark.parametrize("question", ["how do I run the tests", "How to run unit tests?", "how can I run tests"])
def test_how_to_run_the_tests_asks_for_no_test(question):
    test = "def test_run():\n    run()\n" * 5
    files = {"tests/test_run.py": test, "CONTRIBUTING.md": "## Tests\n\nRun them by make.\n"}
    answer = find(Tree(Snapshot("mine", files)), question)
    assert [entry.path for entry in answer.files] == ["CONTRIBUTING.md", "tests/test_run.py"]
    assert answer.files[1].evidence.is_test


def test_release_notes_hold_no_instructions():
    notes = "# Upload\n\nupload of files, upload in parts, upload fails no more\n"
    guide = "# Parts\n\n" + "Cups and lids.\n" * 30 + "Call upload.\n"
    tree = Tree(Snapshot("mine", {"CHANGELOG.md": notes, "docs/upload.md": guide}))
    assert find(tree, "How do I upload files?").files[0].path == "docs/upload.md"


def test_a_ruler_behind_a_blank_line_makes_no_heading():
    texts = {"ruled.md": "upload files\n\n-----\nCups.\n", "titled.md": "upload files\n-----\n\nCups.\n"}
    files = find(Tree(Snapshot("mine", texts)), "How do I upload files?").files
    assert {entry.path: bool(entry.evidence.defined) for entry in files} == {"ruled.md": False, "titled.md": True}
