"""Speed, opening time and memory of this package and of TextWorld, by one program that plays the same games on both.

Each measurement is a process of its own, so that none inherits the memory of another:

    python -m alfworld_native.bench ENGINE COUNT SECONDS FOLDER

The engines: `native` (`alfworld_native.compat`), `sync` and `async` (TextWorld's batch environments, the second with
a process for each game, which is what alfworld uses for more than one).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from alfworld_native.compat import AlfredTWEnv, make_config
from alfworld_native.errors import GameError, TextWorldMissingError
from alfworld_native.generate import generate_games
from alfworld_native.official import write_games

Engine = Literal["native", "sync", "async"]

MEGABYTE: Final = 2**20

NO_LIMIT: Final = 1_000_000
"""Commands in an episode: more than any measurement gives."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One engine with one number of games."""

    engine: Engine
    games: int
    open_seconds: float
    """Time until all games have said their first words."""
    steps_per_second: float
    """Commands of all games together."""
    megabytes: float | None
    """Memory of the process and its children less that before the games, shared pages counted once; None = unknown."""


def measure(sizes: Sequence[int], seconds: float, largest: int) -> list[Measurement]:
    """Measurements of all engines in one run, smallest number of games first.

    Args:
        sizes: numbers of games at a time.
        seconds: playing time of each measurement.
        largest: the largest number of games for TextWorld; 0 = do not measure it.

    Raises:
        GameError: a measurement failed; the message has its last words.
    """
    with tempfile.TemporaryDirectory(prefix="alfworld-native-bench-") as folder:
        try:
            write_games(generate_games("test", max(sizes)), Path(folder))
            source, has_textworld = folder, True
        except TextWorldMissingError:
            # Nothing to compare with; the engine alone plays the same games without files.
            source, has_textworld = f"generated:test:{max(sizes)}", False
        found = []
        for count in sorted(sizes):
            found.append(_measured("native", count, seconds, source))
            if has_textworld and count <= largest:
                found.append(_measured("sync", count, seconds, source))
                # TextWorld itself makes no process for a single game.
                if count > 1:
                    found.append(_measured("async", count, seconds, source))
        return found


def table(measurements: Sequence[Measurement]) -> str:
    """Measurements as a Markdown table; the last column is this package's speed over the engine's."""
    native = {found.games: found.steps_per_second for found in measurements if found.engine == "native"}
    names = {"native": "alfworld-native", "sync": "TextWorld, sync", "async": "TextWorld, async"}
    lines = [
        "| engine | games | opening, s | steps/s | memory a game, MB | native is faster by |",
        "|---|---|---|---|---|---|",
    ]
    for found in measurements:
        memory = "?" if found.megabytes is None else f"{found.megabytes / found.games:.2f}"
        ratio = "" if found.engine == "native" else f"{native[found.games] / found.steps_per_second:,.0f} x"
        lines.append(
            f"| {names[found.engine]} | {found.games} | {found.open_seconds:.2f} | {found.steps_per_second:,.0f} "
            f"| {memory} | {ratio} |"
        )
    return "\n".join(lines)


def _measured(engine: Engine, count: int, seconds: float, source: str) -> Measurement:
    command = [sys.executable, "-m", "alfworld_native.bench", engine, str(count), str(seconds), source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise GameError(f"the measurement of {engine} with {count} games failed: {last}")
    # TextWorld and its planner print what they like before it.
    return Measurement(**json.loads(done.stdout.strip().rpartition("\n")[2]))


def _play(engine: Engine, count: int, seconds: float, source: str) -> Measurement:
    before = _memory()
    began = time.perf_counter()
    env: Any = _environment(engine, count, source)
    _, infos = env.reset()
    opened = time.perf_counter() - began
    rng = random.Random(0)
    steps, began = 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < seconds:
        _, _, dones, infos = env.step([rng.choice(listed) for listed in infos["admissible_commands"]])
        steps += count
        if all(dones):
            _, infos = env.reset()
    after = _memory()
    memory = None if before is None or after is None else (after - before) / MEGABYTE
    return Measurement(engine, count, opened, steps / taken, memory)


def _environment(engine: Engine, count: int, source: str) -> Any:
    config = make_config(eval_in_distribution=source, max_steps=NO_LIMIT)
    if engine == "native":
        return AlfredTWEnv(config, "eval_in_distribution").init_env(count)
    import textworld.gym
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

    # alfworld's own environment, but for the choice of processes, which it does not leave open.
    name = textworld.gym.register_games(
        [str(path) for path in sorted(Path(source).rglob("game.tw-pddl"))],
        textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"]),
        batch_size=count,
        asynchronous=engine == "async",
        max_episode_steps=NO_LIMIT,
        wrappers=[AlfredDemangler(shuffle=False), AlfredInfos],
    )
    return textworld.gym.make(name)


def _memory() -> int | None:
    """Bytes of this process and its children, pages that they share counted once; None where Linux does not tell."""
    total = 0
    try:
        for process in (os.getpid(), *_children(os.getpid())):
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
    except (OSError, StopIteration):
        return None
    return total


def _children(process: int) -> list[int]:
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children]


if __name__ == "__main__":
    _, _engine, _count, _seconds, _source = sys.argv
    _result = _play(_engine, int(_count), float(_seconds), _source)  # type: ignore[arg-type]
    print(json.dumps(asdict(_result)), flush=True)
    # TextWorld's children are told to end one by one at exit, which can take minutes or hang.
    os._exit(0)
