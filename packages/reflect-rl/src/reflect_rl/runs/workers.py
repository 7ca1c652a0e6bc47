"""Processes of workers: how they start, how quiet they are, and how they end.

On Linux without a GPU they are forked from a process that has loaded the libraries once and computed nothing, the fork
server. Loading takes seconds, which every worker of every run would spend anew, and the memory of the libraries is
shared. Elsewhere each worker loads them for itself.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.context import BaseContext
from pathlib import Path

from reflect_rl.errors import ReflectRLWarning
from reflect_rl.launch import QUIET

PRELOADED = "reflect_rl.runs.preloaded"
"""Module that the fork server imports."""
LOADED = "REFLECT_RL_LOADED"
"""Environment variable of the fork server: file that it makes when the libraries are loaded."""
LONGEST_LOAD = 120.0
"""Seconds to wait for that file; a fork server that was killed never makes it, and is started again."""
READ_AT_IMPORT = ("HF_", "HOME", "HUGGINGFACE_", "MKL_", "OMP_", "PYTHON", "PYTORCH", "TORCH", "TRANSFORMERS_", "XDG_")
"""Beginnings of environment variables that Python or a library reads once."""
DRIVERS = ("nvidia*", "nvhost*", "nvmap", "dxg", "kfd")
"""Devices of GPUs: of NVIDIA, of its Jetsons, of Windows' Linux, and of AMD."""


class _Server:
    inherited: Hashable = None
    """Files and variables that the fork server took over when it was started; None = there is none."""
    failed = False
    mark: Path | None = None
    """File that is there when the fork server has loaded the libraries."""


def worker_context() -> BaseContext:
    """Start method of worker processes; where that is the fork server, it has loaded the libraries on return."""
    load_ahead()
    _wait_until_loaded()
    # Not fork: a child that inherits the threads and locks of torch can hang.
    return multiprocessing.get_context("forkserver" if _is_ours() else "spawn")


def load_ahead() -> None:
    """Begin to load the libraries for workers, beside what this process does meanwhile."""
    if not can_fork() or _Server.failed or _Server.inherited is not None:
        return
    from multiprocessing import forkserver, resource_tracker, util

    forkserver.set_forkserver_preload([PRELOADED])
    # Before the block: it is started first in any case, and its start lets the signals through again.
    resource_tracker.ensure_running()
    # Its own module path would be the working directory, whose files could stand in the place of libraries.
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    variables = {"PYTHONSAFEPATH": "1", "PYTHONPATH": path, LOADED: ""}
    inherited, before = _inherited(), {name: os.environ.get(name) for name in variables}
    try:
        # In the folder of its socket, which is deleted at the end.
        mark = Path(util.get_temp_dir(), "loaded")
        os.environ.update(variables | {LOADED: str(mark)})
        # The mask is inherited: the fork server and its children never get a Ctrl-C.
        with hold_interrupts():
            forkserver.ensure_running()
        atexit.register(_end_server)
        _Server.inherited, _Server.mark = inherited, mark
    except OSError:
        # No socket can be made in a folder for temporary files that has a long name, or on some file systems.
        _Server.failed = True
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end_server() -> None:
    """End the fork server with this process: one that still loads would keep a pipe of its output open for that long.

    Its workers are gone by then, and it holds no files.
    """
    from multiprocessing import forkserver

    # By its number, as the module has no call for this; None: it was never started, or was ended.
    number = getattr(getattr(forkserver, "_forkserver", None), "_forkserver_pid", None)
    if number is not None:
        with suppress(OSError):
            os.kill(number, signal.SIGKILL)


def _wait_until_loaded() -> None:
    """Wait for the fork server here, where Ctrl-C is heard; a worker is started while it is held back."""
    ends = time.monotonic() + LONGEST_LOAD
    while _is_ours() and _Server.mark and not _Server.mark.exists() and time.monotonic() < ends:
        time.sleep(0.02)
    # Not again: a fork server that was killed would be waited for at every call.
    _Server.mark = None


def can_fork() -> bool:
    """Tell whether workers of this machine may be forked."""
    # A driver that was only asked for its devices, which libraries do when they are loaded, cannot be used after a
    # fork; and the frameworks of macOS do not survive one.
    return sys.platform == "linux" and not any(path for name in DRIVERS for path in Path("/dev").glob(name))


def _is_ours() -> bool:
    """Tell whether the fork server has what a worker of now would have: it keeps output and variables of its start."""
    return _Server.inherited is not None and _Server.inherited == _inherited()


def _inherited() -> Hashable:
    """Files of standard output and errors, and the variables that count when libraries are loaded."""
    files = []
    for number in (1, 2):
        # A daemon may have closed them.
        with suppress(OSError):
            state = os.fstat(number)
            files.append((number, state.st_dev, state.st_ino))
    # The fork server sets those that keep libraries quiet by itself.
    names = sorted(name for name in os.environ if name.startswith(READ_AT_IMPORT) and name not in QUIET)
    return tuple(files), tuple((name, os.environ[name]) for name in names)


def prepare(threads: int, variables: Mapping[str, str] | None = None) -> None:
    """Make this process a worker: once in each, before its first job.

    Args:
        threads: of torch.
        variables: the environment of the parent, where it may be another than this process's.
    """
    # Before torch is imported, which takes seconds in which the parent may be killed.
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    if variables is not None:
        # A fork server has the environment of the moment when it was started, and two variables for its own start.
        os.environ.clear()
        os.environ.update(variables)
    # setdefault: what a user has set on purpose stays.
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)

    # Here and not at the top: libraries read the variables above when they are first imported.
    import torch

    # Torch would take all cores in every worker. The number also decides how sums are split: it is a setting.
    torch.set_num_threads(threads)
    silence()


def silence() -> None:
    """No warnings and no progress bars of libraries, which would tear the ones of this program; its own stay."""
    import warnings

    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.filterwarnings("ignore")
    warnings.filterwarnings("default", category=ReflectRLWarning)
    warnings.formatwarning = lambda message, *_: f"warning: {message}\n"


def _leave_with_parent() -> None:
    """A parent that was killed cannot say so; a worker that outlived it would train on, seen by nobody."""
    # join() waits for a pipe that the system closes with the parent, so even kill -9 is noticed.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        # Not sys.exit(): in a thread it ends that thread alone.
        os._exit(1)


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the end of the block; processes that are started inside never get a Ctrl-C.

    The mask is what children inherit, so SIGTERM, which ends them, is not in it. It covers this thread only, and
    another thread may take the signal, so the handlers wait as well.
    """
    # Python handles signals in the main thread alone, and Windows has no signal mask.
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    held: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, frame: held.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        # The mask first: a signal that it held back goes to the list and is raised below, once.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def stop(pool: ProcessPoolExecutor) -> None:
    """End all workers of a pool now, and wait until they are gone."""
    with hold_interrupts():
        end_processes(pool)
        pool.shutdown(wait=True, cancel_futures=True)


def end_processes(pool: ProcessPoolExecutor) -> None:
    """Tell the processes of a pool to end; what they were doing fails with a `BrokenProcessPool`."""
    # The pool can end its processes by a method of its own from Python 3.14 on only.
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.terminate()
