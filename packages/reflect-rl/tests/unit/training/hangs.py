"""Two processes, of which the second comes two minutes late: the first says that it waited no longer than its time."""

from __future__ import annotations

import os
import time
from datetime import timedelta

from reflect_rl.training.distributed import join, was_lost


def main() -> None:
    state = join(on_cpu=True, timeout=timedelta(seconds=3))
    if not state.is_main_process:
        time.sleep(120)
    state.wait_for_everyone()


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        # Without the limit of 3 seconds both would meet after two minutes and neither would fail.
        if was_lost(error):
            print(f"process {os.environ['RANK']} gave up", flush=True)
        raise
