"""Freed memory goes back to the system."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from reflect_rl import launch as memory
from reflect_rl.launch import KERNELS, keep_few_kernels, release

PIECES = """
from pathlib import Path
from reflect_rl.launch import release

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

before = resident()
pieces = [bytearray(b"x" * 60_000) for _ in range(4000)]
last = pieces[-1]  # above all that is freed, so that the heap cannot shrink by itself
held = resident()
del pieces
freed = resident()
release()
print(held - before, freed - before, resident() - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or getattr(ctypes.CDLL(None), "malloc_trim", None) is None, reason="glibc only"
)
def test_what_was_freed_is_given_back():
    """In a process of its own, with nothing else in the heap; megabytes above the beginning."""
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, check=True)
    held, freed, after = map(float, done.stdout.split())
    assert held > 200
    assert freed > 200, "glibc gave it back by itself: nothing is tested"
    assert after < 40


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("no library is opened"))
    release()


def test_a_c_library_without_the_function_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    release()


@pytest.mark.parametrize(("before", "after"), [(None, "64"), ("1024", "1024")])
def test_few_kernels_are_kept_unless_the_user_says_otherwise(monkeypatch, before, after):
    monkeypatch.delenv(KERNELS, raising=False)
    if before is not None:
        monkeypatch.setenv(KERNELS, before)
    keep_few_kernels()
    assert os.environ[KERNELS] == after
