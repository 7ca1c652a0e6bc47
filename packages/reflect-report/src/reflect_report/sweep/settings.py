"""Settings of a sweep itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reflect_rl.config import Frozen


class SweepOptions(Frozen):
    """Run a configuration with several values of some fields; select by validation, and test what is selected."""

    over: tuple[str, ...] = ()
    """Settings that vary: FIELD=VALUE,VALUE,... or FIELD=LOW..HIGH, both ends included; several may be named. `A+B` is
    a list of two, and `seed=0..2` repeats each setting with these seeds. With --search also LOW..HIGH of any numbers,
    and LOW..HIGH:log."""
    jobs: int = Field(2, ge=1, le=256)
    """Runs of the sweep, one for each combination, that are under way at the same time; each has one process."""
    search: int = Field(0, ge=0, le=1000)
    """Number of settings that Optuna draws (0: all combinations are run)."""
    # `method` is also a function of a run's settings, so the field has another name than its flag.
    selecting: str = Field("", alias="method")
    """Method whose validation success selects (empty: `reflect_rl`, else the last one with a model)."""
    mode: str = ""
    """Mode that counts (empty: the hardest)."""
    test: Literal["selected", "all", "none"] = "selected"
    """Runs that are evaluated on the configuration's own split as well; nothing is selected by it."""
