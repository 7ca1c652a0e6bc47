"""scripts/make_results.py --copy: the files of a run in docs, without the places of the machine it ran on."""

from __future__ import annotations

import json

import pytest

from a_script import load_script


@pytest.fixture(scope="module")
def script():
    return load_script("make_results")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("/home/me/alfworld", "alfworld"),
        ("reflect-rl run /tmp/x.toml --seeds 1/2", "reflect-rl run x.toml --seeds 1/2"),
        (["/a/b", 3, None, True], ["b", 3, None, True]),
        ({"games": {"path": "/a/b.jsonl"}, "share": 0.5}, {"games": {"path": "b.jsonl"}, "share": 0.5}),
        ("and/or", "and/or"),
    ],
)
def test_of_a_place_the_last_part_is_kept(script, value, kept):
    assert script.without_places(value) == kept


def test_a_copy_has_the_files_and_no_place(script, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in script.FILES:
        (run / name).write_text(json.dumps({"name": name, "output_dir": str(run), "rate": 0.25}))
    (run / "report.html").write_text("not copied")
    copy = script.copied(run, tmp_path / "docs" / "run")
    assert sorted(path.name for path in copy.iterdir()) == sorted(script.FILES)
    for name in script.FILES:
        assert json.loads((copy / name).read_text()) == {"name": name, "output_dir": "run", "rate": 0.25}
    assert str(tmp_path) not in "".join(path.read_text() for path in copy.iterdir())


def test_outcomes_of_methods_stand_beside_each_other(script, tmp_path):
    for method, won in (("sft", (True, False)), ("reflect_rl", (True, True))):
        folder = tmp_path / "run" / "starts-5" / "seed-1" / "evaluation" / method
        folder.mkdir(parents=True)
        rows = [
            {
                "task": {"key": key},
                "mode": "full",
                "decoding": "greedy",
                "seed": 7,
                "success": own,
                "turns": [{}, {}, {}],
            }
            for key, own in zip(("a", "b"), won, strict=True)
        ]
        (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    script.write_outcomes(tmp_path / "run", tmp_path / "outcomes.csv")
    assert (tmp_path / "outcomes.csv").read_text().splitlines() == [
        "demonstration_starts,seed,mode,decoding,task,episode_seed,reflect_rl,sft",
        "5,1,full,greedy,a,7,3,3",
        "5,1,full,greedy,b,7,3,0",
    ]
