"""Online training that kept its policy as it was: its evaluation is that of the supervised method, and is not repeated.

With `keep = "best"` this is common. All methods play the same tasks with the same seeds, so equal players win the same
games.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import file_digest
from pathlib import Path

from reflect_rl.store import read_json
from reflect_rl.runs.config import METHODS, MethodName, RunConfig
from reflect_rl.runs.folder import Unit

__all__ = ["evaluated_before"]


def evaluated_before(config: RunConfig, unit: Unit, method: MethodName, mark: str) -> MethodName | None:
    """The supervised method with the very same players, whose evaluation under these settings is finished.

    Args:
        config: of the run.
        unit: whose method.
        method: an online one, or any other: those have no such twin.
        mark: the fingerprint that its rows must have.

    Returns:
        None where there is none, or where a server writes the reflections and may answer otherwise today.
    """
    row = METHODS[method]
    if not row.online or row.policy is None or config.reflector.kind == "chat" or config.reflector.server.base_url:
        return None
    twins = [name for name, other in METHODS.items() if other == replace(row, online=False)]
    for twin in twins:
        if not (unit.evaluation(twin) / "done").exists():
            continue
        rows = read_json(unit.evaluation(twin) / "rows.json", f"Delete {unit.evaluation(twin)} and evaluate again.")
        same_settings = (
            isinstance(rows, list) and bool(rows) and all(found.get("fingerprint") == mark for found in rows)
        )
        if same_settings and _weights(unit.model(row.policy)) == _weights(unit.rlft(method) / "model") != {}:
            return twin
    return None


def _weights(folder: Path) -> dict[str, str]:
    digests = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digests[path.name] = file_digest(file, "sha256").hexdigest()
    return digests
