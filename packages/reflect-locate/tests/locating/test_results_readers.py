"""scripts/results_readers.py: the page shows the kept places, and the figure is theirs."""

from __future__ import annotations

from pathlib import Path

from a_script import load_script

ROOT = Path(__file__).parents[4]
KEPT = ROOT / "docs" / "results" / "find" / "readers.jsonl"


def test_the_page_shows_every_row_of_the_kept_places(capsys, tmp_path):
    drawn = tmp_path / "readers.svg"
    load_script("results_readers").main([str(KEPT), "--figure", str(drawn)])
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + len(KEPT.read_text(encoding="utf-8").splitlines())
    page = (ROOT / "docs" / "results" / "find.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page
    shown = drawn.read_text(encoding="utf-8")
    assert all(word in shown for word in ("SFT + RL", "SFT, two readers", "parameters, millions"))


def test_the_page_shows_the_kept_places_of_commits():
    script = load_script("results_readers")
    page = (ROOT / "docs" / "results" / "find.md").read_text(encoding="utf-8")
    kept = (KEPT.parent / "commit-readers.jsonl").read_text(encoding="utf-8").splitlines()
    index, *readers = map(script.Reader.model_validate_json, kept)
    told = page[page.index("| 956 later commits |") :]
    shown = 0
    for reader in (index, *readers):
        cells = script.row(reader, index).split(" | ")
        first, five, mrr, gain, points = cells[4].removesuffix(" of 956"), *cells[5:9]
        # Of readers whose answers were kept without all right files only the places are known.
        line = f"| {first} | {five} | {mrr} | {gain} | {points}" if reader.gains else f"| {first} | {five} | {mrr} |"
        shown += line.strip() in told
    # The log alone has the reader whose commits were asked about the newest tree.
    assert shown == len(kept) - 1


def test_a_gain_is_counted_against_the_index():
    script = load_script("results_readers")
    common = {"seed": 0, "trained_on": 8, "weight": 2, "seconds": 0.1}
    index = script.Reader(**common, name="index", parameters=0, training="", places=(1, 2, 0, 2))
    reader = script.Reader(**common, name="mine", parameters=2.6, training="sft", places=(1, 1, 0, 1))
    line = script.row(reader, index)
    assert line.startswith("| mine | SFT, 8 | 0 | 2 | 3 of 4 | 3 | 0.750 | 0.750 | +50.0 [")
