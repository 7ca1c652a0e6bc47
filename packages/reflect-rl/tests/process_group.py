"""The end of a script that several processes run together."""

from __future__ import annotations

import torch.distributed


def leave() -> None:
    """End the group; a thread of it that outlives the interpreter aborts a process that has done its work."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
