"""Meters of time and memory."""

import time

import pytest
import torch
from torch import nn

from reflect_bench.clock import ArithmeticMeter, matmul_peak, peak_memory_mb

CPU = torch.device("cpu")


class Slow(nn.Module):
    """Takes a known time."""

    def __init__(self, seconds, inner=None):
        super().__init__()
        self.seconds, self.inner = seconds, inner
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, value):
        time.sleep(self.seconds)
        return (self.inner(value) if self.inner is not None else value) * self.weight


def test_a_module_inside_a_metered_one_counts_once():
    inner = Slow(0.05)
    outer = Slow(0.05, inner)
    with ArithmeticMeter([outer, inner], CPU) as meter:
        outer(torch.ones(()))
        time.sleep(0.1)
    assert 0.1 <= meter.seconds < 0.19


def test_backward_passes_count():
    class Sleep(torch.autograd.Function):
        @staticmethod
        def forward(_, value):
            return value

        @staticmethod
        def backward(_, gradient):
            time.sleep(0.05)
            return gradient

    value = torch.ones((), requires_grad=True)
    with ArithmeticMeter([], CPU) as meter:
        Sleep.apply(value).backward()
    assert 0.05 <= meter.seconds < 0.1
    assert value.grad == 1


def test_nothing_of_the_meter_stays_behind():
    backward, module = torch.autograd.backward, Slow(0.0)
    meter = ArithmeticMeter([module], CPU)
    with pytest.raises(ZeroDivisionError), meter:
        1 / 0  # noqa: B018
    assert torch.autograd.backward is backward
    module(torch.ones(()))
    assert meter.seconds == 0


def test_a_forward_pass_that_fails_ends_its_time():
    class Broken(nn.Module):
        def forward(self):
            raise ValueError("broken")

    broken, slow = Broken(), Slow(0.05)
    with ArithmeticMeter([broken, slow], CPU) as meter:
        with pytest.raises(ValueError, match="broken"):
            broken()
        time.sleep(0.1)
        slow(torch.ones(()))
    assert 0.05 <= meter.seconds < 0.1


def test_the_peak_of_memory_grows_with_what_is_held():
    before = peak_memory_mb(CPU)
    held = torch.ones(int(before * 1e6 / 4) + 50_000_000)
    assert peak_memory_mb(CPU) > before
    assert len(held)


def test_the_peak_is_a_rate():
    assert 0.01 < matmul_peak(CPU, torch.float32, 256) < 1e5
