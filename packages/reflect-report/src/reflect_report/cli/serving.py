"""Libraries without which a command serves no page."""

from __future__ import annotations

from importlib.util import find_spec

from reflect_rl.errors import UserError


def require_server(flag: str) -> None:
    """Refuse a flag whose libraries are not installed.

    Args:
        flag: that needs them, for example `--live`.

    Raises:
        UserError: one is missing.
    """
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"{flag} needs {' and '.join(missing)}, not installed here. Install: pip install 'reflect-report[live]'."
        )
