"""Adapting the ranking: where the history is cut, what is asked, what counts as help, and what is measured."""

import json
from types import SimpleNamespace

import pytest

from git_repository import Repository, told
from reflect_locate.adapt import Adapted, Estimate, Outcome, adapt, compare, eras_of, estimate, figures
from reflect_locate.adapted_ranking import FILE, AdaptedRanking, AdaptedRankingError
from reflect_locate.evidence import Weights
from reflect_locate.questions.commits import HistoryError
from reflect_locate.questions.sources.history import later_commits, past_commits
from reflect_locate.ranking import find
from reflect_locate.repositories.snapshot import Snapshot, SnapshotError
from reflect_locate.repositories.tree import Tree


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return told(Repository(tmp_path_factory.mktemp("told") / "mine"))


def ranking(**said):
    return AdaptedRanking(repository="", commit="", weights=Weights(), said=said)


def test_past_and_later_commits_bear_the_names_of_the_snapshot(tmp_path):
    mine = Repository(tmp_path / "mine")
    text = "".join(f"line {number}\n" for number in range(40))
    mine.commit("Begin", {"old.c": text, "b.c": "1", "gone.c": "1"})
    first = mine.commit("Heat water", {"old.c": text + "1", "gone.c": "2"})
    mine.commit("Move", {"old.c": None, "a.c": text + "1", "gone.c": None})
    base = mine.git("rev-parse", "HEAD")
    mine.commit("Rename again", {"a.c": None, "z.c": text + "1"})
    last = mine.commit("Cool water", {"z.c": text + "2", "b.c": "2", "test_a.c": "t", "new.c": "n"})
    heat = next(entry for entry in past_commits(mine.folder, base, ["a.c", "b.c"], 10) if entry.subject == "Heat water")
    assert (heat.time, heat.paths, heat.main) == (first, ("a.c",), ("a.c",))
    cool = later_commits(mine.folder, base, "HEAD", ["a.c", "b.c"], 10)[-1]
    assert (cool.time, set(cool.paths), set(cool.main)) == (last, {"a.c", "b.c"}, {"a.c", "b.c"})
    # Four files are changed, and a limit of three leaves the commit out.
    assert [entry.subject for entry in later_commits(mine.folder, base, "HEAD", ["a.c", "b.c"], 3)] == ["Rename again"]


def test_the_history_is_cut_into_what_is_known_fitted_and_measured(repository):
    fitted, tested = eras_of(repository.folder)
    # 60 commits; a fifth, twelve, is measured on, and the twelve before are fitted to.
    assert len(fitted.commits) == len(tested.commits) == 12
    assert fitted.commits[0].text == "Soften parking tickets part 7"  # the 37th: 36 are known by then
    assert fitted.commits[0].targets == ("m1.c",)
    assert tested.commits[0].text == "Mend glacier maps part 9"
    assert (fitted.said["m1.c"]["ticket"], tested.said["m1.c"]["ticket"]) == (7, 10)
    assert fitted.tree.text("m1.c") == "x = 32;\n"


@pytest.mark.parametrize(
    ("sampled", "seconds"), [(1000, 4 * 10 + 3 * 30 + 36 * 1), (20, 4 * 3.05 * 10 + 3 * 30 + 36 * 1)]
)
def test_the_time_is_estimated_from_the_newest_commits_and_files(repository, monkeypatch, sampled, seconds):
    """61 commits, of which a fifth of the usable 60 is fitted to and another fifth, asked twice, is measured on."""
    # Ten seconds to read the newest commits, thirty for the tree, six for three questions that are asked twice.
    clock = iter([0.0, 10.0, 40.0, 46.0])
    monkeypatch.setattr("reflect_locate.adapt.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr("reflect_locate.adapt.SAMPLED", sampled)
    assert estimate(repository.folder) == Estimate(61, pytest.approx(seconds / 60), 1.0)


def test_a_commit_that_was_made_twice_is_not_asked(tmp_path):
    mine = told(Repository(tmp_path / "mine"))
    before = len(eras_of(mine.folder)[1].commits)
    for _ in range(2):
        mine.commit("Repair kettle whistles part 0", {"m0.c": f"again {mine.hours}"})
    asked = [question.text for question in eras_of(mine.folder)[1].commits]
    assert "Repair kettle whistles part 0" not in asked
    assert len(asked) == before - 2


def test_a_history_that_tells_the_files_apart_helps(repository):
    adapted = adapt(repository.folder, *eras_of(repository.folder))
    assert adapted.helps
    assert [entry.after for entry in adapted.outcomes] == [1] * 12
    # Contents and paths share no word with any question: the ranking as it comes is in the order of the paths.
    assert [entry.before for entry in adapted.outcomes] == [int(entry.targets[0][1]) + 1 for entry in adapted.outcomes]
    assert adapted.ranking.commit == repository.git("rev-parse", "HEAD")
    assert adapted.ranking.said["m1.c"]["ticket"] == 12
    assert figures(adapted)["comparisons"][0]["name"] == "later commits, first"


def test_a_history_that_tells_nothing_does_not_help(tmp_path):
    mine = told(Repository(tmp_path / "mine"), is_telling=False)
    assert not adapt(mine.folder, *eras_of(mine.folder)).helps


def outcomes(pairs):
    return [Outcome(str(key), "", (), *pair, "a guess", "likely") for key, pair in enumerate(pairs)]


def test_a_comparison_counts_pairs():
    rows = compare(outcomes([(0, 1)] * 6 + [(0, 3)] * 4 + [(1, 2)]), commits=10)
    first, near, documents, _ = rows
    assert (first.name, first.questions, first.before[0], first.after[0]) == ("later commits, first", 10, 0, 6)
    # Six questions changed, all for the better: p = 2 / 2^6.
    assert first.difference.p_value == pytest.approx(2 / 64)
    assert near.after[0] == 10
    assert (documents.name, documents.before[0], documents.after[0]) == ("documents, first", 1, 0)


@pytest.mark.parametrize(
    ("commits", "documents", "helps"),
    [
        ([(0, 1)] * 20, [(1, 1)] * 20, True),
        ([(0, 1)] * 20, [], True),
        ([(0, 1)] * 2 + [(0, 0)] * 20, [], False),
        ([(0, 1)] * 20, [(1, 0)] * 20, False),
    ],
)
def test_help_is_beyond_chance_and_costs_the_documents_nothing(commits, documents, helps):
    rows = compare(outcomes(commits + documents), len(commits))
    assert Adapted(ranking(), (), tuple(rows)).helps is helps


def test_a_short_history_and_a_folder_without_any_are_refused(tmp_path):
    mine = Repository(tmp_path / "mine")
    mine.commit("Begin the whole thing", {"a.c": "1"})
    with pytest.raises(HistoryError, match="Adapting needs 50; `locate` works without"):
        eras_of(mine.folder)
    mine.commit("Go on with it", {"a.c": "2"})
    mine.git("clone", "-q", "--depth", "1", f"file://{mine.folder}", str(tmp_path / "part"))
    with pytest.raises(HistoryError, match="It is a shallow clone: `git fetch --unshallow` fetches the rest"):
        eras_of(tmp_path / "part")
    (tmp_path / "plain").mkdir()
    with pytest.raises(SnapshotError):
        eras_of(tmp_path / "plain")


def test_nothing_of_the_repository_runs(tmp_path):
    mine = told(Repository(tmp_path / "mine"))
    proof = tmp_path / "proof"
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc"):
        hook = mine.folder / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
        hook.chmod(0o755)
    run = f"touch {proof}; cat"
    for key in (
        "core.pager",
        "core.fsmonitor",
        "diff.external",
        "filter.x.smudge",
        "filter.x.clean",
        "diff.x.textconv",
    ):
        mine.git("config", key, run)
    (mine.folder / ".git/info").mkdir(exist_ok=True)
    (mine.folder / ".git/info/attributes").write_text("* filter=x diff=x\n")
    adapt(mine.folder, *eras_of(mine.folder))
    assert not proof.exists()


def test_what_commits_said_is_matched_in_a_tree_and_in_a_part_of_it():
    snapshot = Snapshot("mine", {"a/x.c": "1", "a/y.c": "2", "b/z.c": "3"})
    said = ranking(**{"a/x.c": {"kettl": 3}, "a/y.c": {"kettl": 1, "violin": 4}, "gone.c": {"kettl": 9}})
    matches = said.matches(Tree(snapshot), "Where is the kettle?")
    assert (list(matches), matches["a/x.c"]) == (["a/x.c", "a/y.c"], 1.0)
    assert list(said.matches(Tree(snapshot, "a"), "violins")) == ["y.c"]
    assert said.matches(Tree(snapshot, "b"), "kettle") is None


def test_a_file_that_only_the_history_knows_is_found():
    files = {f"m{number:02}.c": f"kettle {number}" for number in range(20)} | {"z.c": "1"}
    tree = Tree(Snapshot("mine", files))
    assert "z.c" not in [entry.path for entry in find(tree, "kettle whistle tone").files]
    said = {"z.c": {"kettl": 2, "whistl": 2, "ton": 2}, "m01.c": {"violin": 9}}
    heavy = AdaptedRanking(repository="", commit="", weights=Weights(history=4.0), said=said)
    best = find(tree, "kettle whistle tone", adapted=heavy).files[0]
    assert (best.path, best.evidence.history, best.to_json()["history"]) == ("z.c", 1.0, 1.0)


def test_a_ranking_is_kept_and_read(tmp_path):
    mine = ranking(**{"a.c": {"kettl": 2}})
    mine.save(tmp_path)
    assert AdaptedRanking.load(tmp_path) == AdaptedRanking.load(tmp_path / FILE) == mine
    with pytest.raises(AdaptedRankingError, match="no adapted ranking"):
        AdaptedRanking.load(tmp_path / "other")


@pytest.mark.parametrize("damage", [{"weights": {"history": -1}}, {"said": {"a.c": {"kettl": "many"}}}, {"version": 1}])
def test_a_damaged_ranking_is_refused(tmp_path, damage):
    file = ranking().save(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    with pytest.raises(AdaptedRankingError, match="holds no adapted ranking"):
        AdaptedRanking.load(tmp_path)


@pytest.mark.parametrize("text", ["[]", "null", '{"a'])
def test_a_file_that_is_something_else_is_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(Exception, match=FILE):
        AdaptedRanking.load(tmp_path)
