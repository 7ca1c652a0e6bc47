"""Machine and software that the figures were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reflect_rl.errors import UserError


def machine(device: str) -> dict[str, Any]:
    """Processor, its cores, the GPU if one is measured, and how busy the processor was."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "gpu": None if device == "cpu" else _gpu(device),
    }


def versions() -> dict[str, str]:
    """Versions of Python, of this package and of the libraries that compute."""
    return {"python": platform.python_version()} | {n: version(n) for n in ("reflect-rl", "torch", "transformers")}


def check_device(device: str) -> None:
    """Fail before anything is measured.

    Raises:
        UserError: the device is absent.
    """
    import torch

    kind, _, number = device.partition(":")
    count = {"cpu": 1, "cuda": torch.cuda.device_count()}.get(kind, 0)
    if (number and not number.isdigit()) or int(number or 0) >= count:
        raise UserError(f"no device {device!r} on this machine. Use --device cpu, or cuda where torch sees a GPU.")


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _gpu(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device)
