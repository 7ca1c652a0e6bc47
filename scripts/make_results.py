"""Write docs/results from run folders: tables, figures, and the files they were made from.

    python scripts/make_results.py runs/taxi-clean runs/taxi-paper runs/taxi-sweep

Each run's `results.json`, `run.json` and `config.json` are copied to docs/results/<run>/; `tables.md` and the figures
beside it are made from those copies (the learning curves from the run folders themselves). `outcomes.csv` is written
beside them: a line for each evaluated episode, with the turns that each method took to win it (0: lost). Differences
between methods on the same episodes follow from it.

    python scripts/make_results.py --algorithms runs/alg/base runs/alg/ppo runs/alg/grpo

copies the files of these runs and their learning curves to one folder, and prints a table of their RL algorithms; a run
that evaluated the supervised start (`sft_reflect`) must be among them for the differences to it.

    python scripts/make_results.py --copy alfworld runs/seed-0 runs/seed-1

copies the files to docs/results/alfworld/, and prints the tables of these runs, their seeds pooled.

    python scripts/make_results.py --pays

draws what online RL adds on three games, by what the players learn from. `PAYS` names the folders of the copies.

Of absolute paths in the files the last part is kept: where things lie on the machine of a run is nobody's business.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from results_algorithms import algorithm_table
from results_figures import (
    Pair,
    figure_algorithm_curves,
    figure_before_after,
    figure_demonstration_budget,
    figure_learning_curves,
    figure_results,
    save,
)

from reflect_report.runs import Run, all_horizons, read_curves, read_runs, summarise, summarise_runs
from reflect_report.tables import grids, markdown_table

RESULTS = Path(__file__).parent.parent / "docs" / "results"
FILES = ("results.json", "run.json", "config.json")
HORIZONS = (15, 30)
REGIMES = ("noisy labels", "few demonstrations", "no command in\nreflections", "no reflections", "mediocre expert")
"""Columns of the figure that says where online RL pays."""


class Trained(NamedTuple):
    """The same players before and after online RL: the two methods, copied folders, and what is shown of them."""

    title: str
    methods: tuple[str, str]
    folders: str
    mode: str
    horizon: int
    starts: int


REFLECT, PLAIN = ("sft_reflect", "reflect_rl"), ("sft", "sft_rlft")
PAYS: dict[str, tuple[Trained | str, ...]] = {
    "DangerousTaxi": (
        Trained("100 starts", REFLECT, "taxi-demo/*", "full", 30, 100),
        Trained("20 noisy starts", REFLECT, "taxi-noisy-starts/*", "full", 30, 20),
        Trained("100 noisy starts", REFLECT, "taxi-advice/goal", "full", 30, 100),
        Trained("100 noisy starts", PLAIN, "taxi-equal-turns/seed-*", "full", 30, 100),
        "none found",
    ),
    "AutoExplore": (
        Trained("800 starts", REFLECT, "autoexplore-noisy/*", "d1k32", 15, 800),
        Trained("100 noisy starts", REFLECT, "autoexplore-few/seed-0", "d1k32", 15, 100),
        Trained("800 noisy starts", REFLECT, "autoexplore-goal/seed-*", "d1k32", 15, 800),
        Trained("800 noisy starts", PLAIN, "autoexplore-noisy-plain/plain", "d1k32", 15, 800),
        "stopped early",
    ),
    "ALFWorld": (
        Trained("400 games", REFLECT, "alfworld-noisy/*", "all", 50, 400),
        Trained("30 games, raw text", PLAIN, "alfworld-thirty/longer-test*", "all", 15, 30),
        "stopped early",
        Trained("all games, raw text", PLAIN, "alfworld-raw/test*", "all", 15, 3553),
        Trained("30 games, raw text", PLAIN, "alfworld-thirty/mediocre-test*", "all", 15, 30),
    ),
}
"""The panels of that figure; a text says why there is none."""


def main(folders: list[Path]) -> None:
    """Copy the files, then write tables and figures."""
    copies = []
    for folder in folders:
        copy = copied(folder, RESULTS / folder.name)
        copies.append(copy)
        for part in grids(summarise_runs(read_runs([copy])), [max(HORIZONS)]):
            save(figure_results(part), copy / f"results-{part.demonstration_starts}.svg")
        curves = read_curves(read_runs([folder])[0], "rlft")
        for starts in sorted({curve.demonstration_starts for curve in curves}):
            svg = figure_learning_curves([curve for curve in curves if curve.demonstration_starts == starts])
            if svg is not None:
                save(svg, copy / f"learning-{starts}.svg")
    text = "# Tables\n\nMade by `scripts/make_results.py` from the files beside this page.\n"
    for copy in copies:
        text += f"\n## {copy.name}\n\n{markdown_table([copy], HORIZONS)}"
    (RESULTS / "tables.md").write_text(text, encoding="utf-8")
    _budget_figure(copies)


def algorithms(folders: list[Path]) -> None:
    """Copy the files and the learning curves to one folder, and print the table."""
    group = RESULTS / folders[0].resolve().parent.name
    for folder in folders:
        copied(folder, group / folder.name)
    svg = figure_algorithm_curves([curve for run in read_runs(folders) for curve in read_curves(run, "rlft")])
    if svg is not None:
        save(svg, group / "learning.svg")
    print(algorithm_table(folders), end="")


def pooled(group: str, folders: list[Path]) -> str:
    """Copy the files to one folder; the tables at all horizons."""
    copies = [copied(folder, RESULTS / group / folder.name) for folder in folders]
    return markdown_table(copies, all_horizons(summarise_runs(read_runs(copies))))


def pays() -> None:
    """Draw success before and after online RL on every benchmark, by regime."""
    lines = {game: [_pair(cell) for cell in cells] for game, cells in PAYS.items()}
    save(figure_before_after(REGIMES, lines), RESULTS / "online-rl.svg")


def _pair(cell: Trained | str) -> Pair:
    if isinstance(cell, str):
        return Pair(cell)
    folders = [path.parent for path in sorted(RESULTS.glob(f"{cell.folders}/**/results.json"))]
    # Not by `summarise_runs`: it refuses the seeds of ALFWorld from all games, which differ in how often they were
    # validated. There the last policy was kept, so validation had no effect on it.
    rows = [row for run in read_runs(folders) for row in run.results if row.method in cell.methods]
    wanted = (cell.mode, cell.horizon, "sampled", cell.starts)
    shown = summarise(row for row in rows if (row.mode, row.horizon, row.decoding, row.demonstration_starts) == wanted)
    before, after = sorted(shown, key=lambda row: cell.methods.index(row.method))
    title = f"{cell.title},\n{cell.horizon} turns"
    return Pair(title if before.seeds > 1 else f"{title}, one seed", before, after)


def copied(folder: Path, copy: Path) -> Path:
    """The files of a run in the folder `copy`, without the places of the machine that it ran on."""
    copy.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        content = without_places(json.loads((folder / name).read_text(encoding="utf-8")))
        (copy / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    write_outcomes(folder, copy / "outcomes.csv")
    return copy


def write_outcomes(folder: Path, sheet: Path) -> None:
    """A line for each evaluated episode of a run: where it began, and the turns to success of each method, 0 = none.

    Nothing is written of a run whose episodes are not there.
    """
    methods: dict[str, None] = {}
    won: dict[tuple[str, ...], dict[str, int]] = {}
    for path in sorted(folder.glob("starts-*/seed-*/evaluation/*/episodes.jsonl")):
        starts, seed, _, method, _ = path.relative_to(folder).parts
        methods[method] = None
        for episode in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            begun = (episode["mode"], episode["decoding"], episode["task"]["key"], str(episode["seed"]))
            turns = len(episode["turns"]) if episode["success"] else 0
            won.setdefault((starts.removeprefix("starts-"), seed.removeprefix("seed-"), *begun), {})[method] = turns
    if not won:
        return
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["demonstration_starts", "seed", "mode", "decoding", "task", "episode_seed", *methods])
        writer.writerows(
            [*begun, *(turns.get(method, "") for method in methods)] for begun, turns in sorted(won.items())
        )


def without_places(value: Any) -> Any:
    """JSON with the last part only of each absolute path, also where it is a word of a longer text.

    >>> without_places({"games": "/home/me/alfworld", "command": "reflect-rl run /tmp/x.toml --seeds 1/2"})
    {'games': 'alfworld', 'command': 'reflect-rl run x.toml --seeds 1/2'}
    """
    if isinstance(value, dict):
        return {key: without_places(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_places(part) for part in value]
    if isinstance(value, str):
        return " ".join(word.rpartition("/")[2] if word.startswith("/") else word for word in value.split(" "))
    return value


def _budget_figure(copies: list[Path]) -> None:
    """Success against the number of demonstrations, of the runs that share the sweep's label source and split."""
    runs = read_runs(copies)
    for sweep in runs:
        if len(sweep.config["data"]["demonstration_starts"]) > 1:
            same = [run for run in runs if _conditions(run) == _conditions(sweep)]
            svg = figure_demonstration_budget(summarise_runs(same), "full")
            if svg is not None:
                save(svg, RESULTS / "demonstrations.svg")


def _conditions(run: Run) -> tuple[str, int]:
    return run.label_source, run.config["environment"]["split_seed"]


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["--algorithms"]:
        algorithms([Path(word) for word in words[1:]])
    elif words[:1] == ["--pays"]:
        pays()
    elif words[:1] == ["--copy"]:
        print(pooled(words[1], [Path(word) for word in words[2:]]), end="")
    else:
        main([Path(word) for word in words])
