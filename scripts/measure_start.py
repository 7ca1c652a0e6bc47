r"""CPU seconds of `reflect-rl locate` with start-up, and of a warm answer of `serve`, on generated files.

    python scripts/measure_start.py --files 2000 --repeat 15
    python scripts/measure_start.py --repeat 20 --beside ../another-checkout
    python scripts/measure_start.py --folder ~/src/ripgrep
    python scripts/measure_start.py --files 100000 --characters 1500 --repeat 3

Files are Python functions of made-up words, 8 KB each, in a temporary folder; the cache is there, too. CPU seconds
(user and system) are those of the whole process, so they hold on a busy machine, too. The median is printed, and the
most memory that a call took. With
`--beside`, later calls of this checkout and of another one are measured by turns, each with a cache of its own.
With `--folder`, `serve` is asked about a tree that is there: questions are the words in names of functions and classes
of files that are drawn, each asked twice, as an index keeps the words that it has looked up. The files were read
ahead, as they are in the first seconds of a server.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from reflect_locate.repositories.ingest import open_repository
from reflect_locate.repositories.roles import is_test
from reflect_locate.repositories.symbols import KEPT, symbols
from reflect_locate.repositories.words import pieces, words
from reflect_locate.served_answers import SearchService
from reflect_locate.served_folders import ServedFolders

CHARACTERS = 8_000
"""Length of a file, unless it is given."""
FOLDERS = 40


LAUNCH = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""Program that runs a command and tells its exit code, its CPU seconds and the most memory that it has held."""


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--characters", type=int, default=CHARACTERS)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    if options.folder:
        of_folder(options.folder, options.repeat)
        return 0
    with TemporaryDirectory() as scratch:
        top, one, cache = (Path(scratch, name) for name in ("many", "one", "cache"))
        question = made(top, options.files, options.characters)
        made(one, 1, options.characters)
        asked = [sys.executable, "-m", "reflect_rl.cli.main", "locate", str(top), question]
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
        if options.beside:
            here = Path(__file__).parents[1]
            by_turns(
                [here, options.beside],
                [asked, [*asked, "--json"], [*asked[:4], str(one), question]],
                options.repeat,
                environment,
            )
            return 0
        # A fifth of the repetitions is enough for what takes five times as long.
        first = [of_process(asked, environment, cache) for _ in range(max(options.repeat // 5, 1))]
        later = [of_process(asked, environment) for _ in range(options.repeat)]
        show("first call", [call.seconds for call in first])
        show("later calls", [call.seconds for call in later])
        print(f"{'most memory of a call':24} {max(call.memory for call in (*first, *later)) / 1e6:.0f} MB")
        asked[4] = str(one)
        show("one file", [of_process(asked, environment).seconds for _ in range(options.repeat)])
        service = SearchService(ServedFolders([str(top)], cache=cache / "reflect-rl/locate"))
        calls: dict[str, Callable[[], object]] = {
            "find_file": lambda: service.find_file(question, "", 5, lambda: False),
            "find_passage": lambda: service.find_passage(question, "", 5, lambda: False),
            "what_is_in": lambda: service.what_is_in("", lambda: False),
        }
        for name, call in calls.items():
            call()  # reads the folder and opens the index
            show(f"serve: {name}", [of_call(call) for _ in range(options.repeat)])
    return 0


def of_folder(folder: Path, questions: int) -> None:
    """Measure answers about a folder: the first question, then others, each asked once and once more."""
    asked = names_in(folder, questions + 1)
    for name in ("find_file", "find_passage"):
        # A new one for each: what the other has looked up would be kept.
        service = SearchService(ServedFolders([str(folder)]))
        KEPT.forget()
        service.read_ahead().join()
        calls = [partial(getattr(service, name), text, "", 5, lambda: False) for text in asked]
        rows = [list(map(of_call, calls)) for _ in range(2)]
        show(f"{name}, first", rows[0][:1])
        show(f"{name}, asked once", rows[0][1:])
        show(f"{name}, once more", rows[1][1:])


def names_in(folder: Path, most: int) -> list[str]:
    """Words in names of functions and classes, at least two each, of files that are no tests."""
    tree, draw = open_repository(folder), random.Random(0)
    found: dict[str, None] = {}
    for path in draw.sample(tree.paths, len(tree.paths)):
        entries = (
            [] if is_test(path) else [entry for entry in symbols(path, tree.text(path)) if entry.kind != "heading"]
        )
        name = draw.choice(entries).name.rpartition(".")[2] if entries else ""
        if len(words(name)) > 1:
            found[" ".join(pieces(name)).lower()] = None
        if len(found) == most:
            break
    return list(found)


def by_turns(
    checkouts: Sequence[Path], calls: Sequence[Sequence[str]], repeat: int, environment: dict[str, str]
) -> None:
    """Measure later calls of several checkouts, one after the other."""
    seconds: dict[tuple[str, Path], list[float]] = {}
    # The first round writes the caches.
    for number in range(repeat + 1):
        for name, call in zip(("later calls", "later, --json", "one file"), calls, strict=True):
            for checkout in checkouts:
                sources = os.pathsep.join(map(str, checkout.resolve().glob("packages/*/src")))
                own = {"PYTHONPATH": sources, "XDG_CACHE_HOME": f"{environment['XDG_CACHE_HOME']}/{checkout.name}"}
                one = of_process(call, environment | own).seconds
                if number:
                    seconds.setdefault((name, checkout), []).append(one)
    for (name, checkout), taken in seconds.items():
        show(f"{name}, {checkout.name}", taken)


def made(top: Path, files: int, characters: int = CHARACTERS) -> str:
    """Write the files, each a little longer than `characters`; returns a question, five words of one of them."""
    draw = random.Random(0)
    syllables = [first + second for first in "bcdfghklmnprstvwz" for second in "aeiou"]
    words = sorted({"".join(draw.choices(syllables, k=draw.randint(2, 4))) for _ in range(6_000)})
    # A few words are common and most are rare, as in texts of people.
    upto = list(accumulate(1 / (place + 10) for place in range(len(words))))

    def some(count: int) -> list[str]:
        return draw.choices(words, cum_weights=upto, k=count)

    def function() -> str:
        body = [f'    """{" ".join(some(10)).capitalize()}."""']
        for _ in range(draw.randint(5, 12)):
            target, source, argument = some(3)
            called = "_".join(some(2))
            body.append(f"    {target} = {source}.{called}({argument}, {draw.randint(0, 99)})  # {' '.join(some(4))}")
        return "\n".join([f"def {'_'.join(some(2))}({', '.join(some(2))}):", *body, f"    return {some(1)[0]}\n\n\n"])

    for number in range(files):
        place = top / f"part{number % FOLDERS:02}" / f"{'_'.join(some(2))}_{number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        text = ""
        while len(text) < characters:
            text += function()
        place.write_text(text)
    return " ".join(text.split('"""', 2)[1].split()[:5]).lower()


class Spent(NamedTuple):
    """CPU seconds of a process, and the most bytes that it has held."""

    seconds: float
    memory: int


def of_process(command: Sequence[str], environment: dict[str, str], cache: Path | None = None) -> Spent:
    """Seconds and memory of a command; the cache folder is deleted before, if it is named."""
    if cache is not None:
        rmtree(cache, ignore_errors=True)
    # A process counts the memory of the one that began it, so a small one begins it.
    said = subprocess.run([sys.executable, "-c", LAUNCH, *command], env=environment, capture_output=True, check=True)
    code, seconds, peak = json.loads(said.stdout)
    # 1 = only a guess; anything else would be the time of a failure.
    if code not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {code}.")
    return Spent(seconds, peak if sys.platform == "darwin" else peak * 1024)


def of_call(call: Callable[[], object]) -> float:
    """CPU seconds of a call in this process."""
    before = time.process_time()
    call()
    return time.process_time() - before


def show(name: str, seconds: Sequence[float]) -> None:
    """Print a row."""
    print(f"{name:24} {median(seconds):.3f} CPU s, {min(seconds):.3f} to {max(seconds):.3f} in {len(seconds)} calls")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
