r"""The native household engine against TextWorld, at length: whether they say the same, letter for letter.

    python scripts/alfworld_lockstep.py --data ~/.cache/alfworld --log runs/lockstep.jsonl \
        valid_seen:2.1.1:140:40 train:2.1.1:300:40 valid_seen:2.1.2:140:40 generated:2.1.1:100:40 \
        valid_seen:2.1.1:10:25:as-it-comes

Each argument is games:wording:number:commands, the number spread evenly over the set. TextWorld is sped up
(`take_shortcuts` in `alfworld_native/_textworld_worker.py`) unless `as-it-comes` follows. A game is one line of the
log; a run that was stopped goes on where it was, and games that were played with another version of the engine are
played again. The table is printed; `--out` writes it as JSON, with the differences. The exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

import alfworld_native
from alfworld_native.errors import HouseholdError
from alfworld_native.generate import generate_games
from alfworld_native.lockstep import compare
from alfworld_native.record import GameRecord, Wording
from alfworld_native.sources import data_folder, load_games
from alfworld_native.textworld import Workers
from reflect_rl.runs.folder import provenance

ENGINE = ("engine.py", "pddl.py", "problem.py", "record.py", "wording.py")
"""Files that decide what the native engine says."""

AS_IT_COMES = "as-it-comes"


@dataclass(frozen=True)
class Part:
    """One row of the table: a set of games, and how to play them."""

    games: str
    wording: Wording
    number: int
    commands: int
    shortcuts: bool

    @classmethod
    def parse(cls, text: str) -> Part:
        """A part from its argument.

        >>> Part.parse("train:2.1.1:10:40")
        Part(games='train', wording='2.1.1', number=10, commands=40, shortcuts=True)
        """
        games, wording, number, commands, *mode = text.split(":")
        if wording not in get_args(Wording) or mode not in ([], [AS_IT_COMES]):
            raise argparse.ArgumentTypeError(f"{text!r} is none of games:wording:number:commands[:{AS_IT_COMES}]")
        return cls(games, cast("Wording", wording), int(number), int(commands), not mode)

    def records(self, data: str) -> list[GameRecord]:
        """The games, evenly spread over the set."""
        if self.games == "generated":
            return list(generate_games("validation", self.number))
        records = load_games(data_folder(data), self.games)
        number = min(self.number, len(records))
        return [records[index * len(records) // number] for index in range(number)]


def main() -> int:
    """Play what is missing in the log, then make the table."""
    options = _options()
    log = _read(options.log)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    rows = [_row(part, _played(part, options, log)) for part in options.parts]
    print(table(rows))
    differences = [dict(game=line["game"], **line["difference"]) for row in rows for line in row.pop("differing")]
    if options.out is not None:
        options.out.write_text(
            json.dumps(_header(options) | {"rows": rows, "differences": differences}, indent=1) + "\n"
        )
    return 1 if differences else 0


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows in markdown."""
    lines = [
        "| games | wording | TextWorld | games | commands | won | differences | commands by verb |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        verbs = ", ".join(f"{verb} {count}" for verb, count in row["verbs"].items())
        cells = (row["set"], row["wording"], row["textworld"], row["games"], row["commands"], row["won"])
        lines.append(f"| {' | '.join(map(str, cells))} | {row['differences']} | {verbs} |")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("parts", nargs="+", type=Part.parse, metavar="games:wording:number:commands[:as-it-comes]")
    parser.add_argument("--data", default="", help="folder with the games; else $ALFWORLD_DATA")
    parser.add_argument("--log", type=Path, required=True, help="one line a game; what it has is not played again")
    parser.add_argument("--out", type=Path, help="the result as JSON")
    parser.add_argument("--processes", type=int, default=1, help="of TextWorld")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """The log by identity of the game; a last line that was cut off is left out."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = {}
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        found[row["identity"]] = row
    return found


def _played(part: Part, options: argparse.Namespace, log: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The log's lines on a part, after playing those games that it lacks."""
    records = part.records(options.data)
    identities = {_identity(part, record, options.seed): record for record in records}
    missing = {identity: record for identity, record in identities.items() if identity not in log}
    with (
        Workers(options.processes, shortcuts=part.shortcuts) as workers,
        ThreadPoolExecutor(options.processes) as threads,
        options.log.open("a") as lines,
    ):
        tasks = [threads.submit(_play, part, record, workers, identity) for identity, record in missing.items()]
        for done, task in enumerate(as_completed(tasks), start=1):
            row = task.result()
            log[row["identity"]] = row
            print(json.dumps(row), file=lines, flush=True)
            found = f", differs: {row['game']}" if row["difference"] else ""
            print(f"{part.games} {part.wording}: {done} of {len(missing)} games{found}", file=sys.stderr)
    return [log[identity] for identity in identities]


def _identity(part: Part, record: GameRecord, seed: int) -> str:
    mode = "shortcuts" if part.shortcuts else AS_IT_COMES
    return f"{_fingerprint()}:{record.key}:{part.wording}:{part.commands}:{mode}:{seed}"


def _play(part: Part, record: GameRecord, workers: Workers, identity: str) -> dict[str, Any]:
    number = zlib.crc32(identity.partition(":")[2].encode())  # the same commands for every version of the engine
    start = time.perf_counter()
    line: dict[str, Any] = {"identity": identity, "game": record.key}
    try:
        outcome = compare(record, part.wording, workers, np.random.default_rng(number), part.commands)
    except HouseholdError as error:
        return line | {"commands": 0, "won": False, "verbs": {}, "difference": {"field": "error", "error": str(error)}}
    difference = None if outcome.difference is None else asdict(outcome.difference)
    seconds = round(time.perf_counter() - start, 3)
    counts = {"commands": outcome.steps, "won": outcome.won, "verbs": dict(outcome.verbs)}
    return line | counts | {"seconds": seconds, "difference": difference}


def _row(part: Part, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    verbs: Counter[str] = Counter()
    for line in lines:
        verbs.update(line["verbs"])
    differing = [line for line in lines if line["difference"]]
    return {
        "set": part.games,
        "wording": part.wording,
        "textworld": "shortcuts" if part.shortcuts else AS_IT_COMES,
        "games": len(lines),
        "commands": sum(line["commands"] for line in lines),
        "won": sum(line["won"] for line in lines),
        "differences": len(differing),
        "verbs": dict(verbs.most_common()),
        "differing": differing,
    }


def _header(options: argparse.Namespace) -> dict[str, Any]:
    parts = [text for text in sys.argv[1:] if text.count(":") > 2]
    return {
        "command": f"python scripts/alfworld_lockstep.py {' '.join(parts)}",
        "seed": options.seed,
        "commit": provenance().git_commit,
        "engine": _fingerprint(),
        "versions": {name: version(name) for name in ("alfworld", "textworld", "fast-downward-textworld")},
    }


@cache
def _fingerprint() -> str:
    """Hash of the native engine's source, as it was when this program started."""
    folder = Path(str(alfworld_native.__file__)).parent
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in ENGINE)).hexdigest()[:12]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HouseholdError as error:
        sys.exit(f"error: {error}")
