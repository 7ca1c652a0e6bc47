"""`scripts/attack`: what it has done stands in a file, and it goes on behind that."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from table import Outcome

PLACE = Path(__file__).parents[2] / "scripts" / "attack"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, with one generator whose cases are numbers; `began` lists what was tried."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    loader = importlib.machinery.SourceFileLoader("attack_script", str(PLACE))
    spec = importlib.util.spec_from_loader("attack_script", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.began = []

    def attempts(place: Path, seed: int, numbers: Iterable[int]) -> Iterator[Outcome]:
        for number in numbers:
            module.began.append((seed, number))
            if (seed, number) == module.stop:
                raise KeyboardInterrupt
            yield Outcome("number", number, f"{seed} {number}", "silent" if number == module.fault else "held")

    module.stop = module.fault = None
    numbers: Any = ModuleType("numbers")
    numbers.attempts = attempts
    monkeypatch.setattr(module, "ROUND", {numbers: 3})
    monkeypatch.setattr(module, "silence", lambda: None)
    return module


def test_cases_go_on_where_they_were_stopped(script, tmp_path, monkeypatch, capsys):
    results = tmp_path / "a.jsonl"
    monkeypatch.setattr(sys, "argv", ["attack", "--cases", "5", "--seed", "7", "--results", str(results)])
    script.stop = (8, 0)
    assert script.main() == 0
    assert "all                            3           3 " in capsys.readouterr().out
    with results.open("a") as file:
        file.write('{"generator": "numb')  # what a kill leaves
    script.stop, script.began[:] = None, []
    assert script.main() == 0
    assert script.began == [(8, 0), (8, 1)]
    assert len(results.read_text().splitlines()) == 5
    assert "all                            5           5 " in capsys.readouterr().out


def test_a_fault_is_named_and_is_the_exit_code(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attack", "--cases", "3", "--results", str(tmp_path / "a.jsonl")])
    script.fault = 1
    assert script.main() == 1
    assert "number: 0 1: silent" in capsys.readouterr().out


def test_the_time_ends_the_cases(script, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["attack", "--hours", "1", "--results", str(tmp_path / "a.jsonl")])
    clock = iter(range(0, 10_000, 1000))
    monkeypatch.setattr(script, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert script.main() == 0
    assert script.began == [(0, 0), (0, 1), (0, 2)]  # 1000, 2000 and 3000 s after the beginning
