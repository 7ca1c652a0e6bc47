"""Two processes, of which the second never comes: the first says how long it waited."""

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
    started = time.monotonic()
    try:
        main()
    except Exception as error:
        if was_lost(error) and time.monotonic() - started < 30:
            print(f"process {os.environ['RANK']} waited 3 seconds at most", flush=True)
        raise
