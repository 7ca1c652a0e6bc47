r"""Table and figure of the readers of `locate --deep`: right files first against the size of the model.

    python scripts/results_readers.py docs/results/find/readers.jsonl --figure docs/results/find/readers.svg

A line of the file is a reader with the places of the right files, as `measure_deep.py` finds them. The first line is
the index alone. All were asked the same questions in the same order.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.figure import Figure
from pydantic import BaseModel
from results_figures import INK, STYLE, save, svg_of

from reflect_locate.places import mean_reciprocal_rank, ndcg
from reflect_rl.evaluation.compare import PairedDifference, paired_difference

TOP, MOST = 5, 10
COLOURS = {"": "#777777", "sft": "#0072B2", "rl": "#D55E00", "two": "#009E73"}
"""Colour by the last training."""
WORDS = {"": "as it comes", "sft": "SFT", "rl": "SFT + RL", "two": "SFT, two readers"}


class Reader(BaseModel, frozen=True):
    """A reader and its answers."""

    name: str
    parameters: float
    """Millions; 0 = the index alone."""
    training: str
    """Empty, `sft`, `rl`, or `two` for the mean of two trained readers."""
    seed: int
    trained_on: int
    """Questions that it learned from."""
    weight: float
    """Weight beside the index, chosen on validation."""
    seconds: float
    """CPU time of the reading of a question."""
    places: tuple[int, ...]
    """Place of the first right file of each question; 0 = not among the candidates."""
    gains: tuple[float, ...] = ()
    """NDCG at ten of each question; empty where each has one right file, whose place tells it."""

    @property
    def first(self) -> list[bool]:
        """True for each question whose right file comes first."""
        return [place == 1 for place in self.places]

    def against(self, index: Reader) -> PairedDifference:
        """Gain over the index."""
        return paired_difference(self.first, index.first)


def main(arguments: Sequence[str]) -> int:
    """Print the table, and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="JSONL file of readers, the index first")
    parser.add_argument("--figure", type=Path, help="SVG file to write")
    options = parser.parse_args(arguments)
    index, *readers = map(Reader.model_validate_json, options.results.read_text(encoding="utf-8").splitlines())
    print("| reader | training | seed | weight | right first | among five | MRR | NDCG@10 | gain, points | CPU s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for reader in (index, *readers):
        print(row(reader, index))
    if options.figure:
        save(figure(index, readers), options.figure)
    return 0


def row(reader: Reader, index: Reader) -> str:
    """Line of the table."""
    count, places = len(reader.places), reader.places
    top = sum(1 <= place <= TOP for place in places)
    gains = reader.gains or [ndcg([at == place for at in range(1, MOST + 1)], MOST, 1) for place in places]
    gain = fmean(gains)
    found = reader.against(index)
    over = f"{100 * found.difference:+.1f} [{100 * found.lo:.1f}, {100 * found.hi:.1f}]" if reader.parameters else ""
    training = f"{WORDS[reader.training]}, {reader.trained_on:,}" if reader.trained_on else WORDS[reader.training]
    return (
        f"| {reader.name} | {training if reader.parameters else ''} | {reader.seed if reader.trained_on else ''} | "
        f"{f'{reader.weight:g}' if reader.parameters else ''} | {sum(reader.first)} of {count} | {top} | "
        f"{mean_reciprocal_rank(places):.3f} | {gain:.3f} | {over} | "
        f"{f'{reader.seconds:.1f}' if reader.parameters else ''} |"
    )


def figure(index: Reader, readers: Sequence[Reader]) -> str:
    """Gain over the index in points with its 95% interval, against the parameters of the reader."""
    with mpl.rc_context(STYLE):
        canvas = Figure(figsize=(7.6, 3.2), layout="constrained")
        axes = canvas.subplots()
        axes.axhline(0, color=INK, linewidth=0.8, alpha=0.5)
        seen: dict[float, int] = {}
        for reader in readers:
            found, rank = reader.against(index), seen.get(reader.parameters, 0)
            seen[reader.parameters] = rank + 1
            gain = 100 * found.difference
            axes.errorbar(
                # Beside one another, so that equal sizes do not hide one another.
                reader.parameters * 1.07**rank,
                gain,
                yerr=[[gain - 100 * found.lo], [100 * found.hi - gain]],
                color=COLOURS[reader.training],
                marker="o",
                markersize=4,
                capsize=2,
                label=WORDS[reader.training],
            )
        axes.set(xscale="log", xlabel="parameters, millions", ylabel="right file first, points over the index")
        # Names of sizes that are nearly equal would lie on one another.
        sizes = [size for size in sorted(seen) if not any(size / 1.2 < other < size for other in seen)]
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.minorticks_off()
        axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="y")
        handles, names = axes.get_legend_handles_labels()
        # One entry for each kind of training.
        kinds = dict(zip(names, handles, strict=True))
        canvas.legend(kinds.values(), kinds.keys(), fontsize=7.5, loc="outside right upper")
        return svg_of(canvas)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
