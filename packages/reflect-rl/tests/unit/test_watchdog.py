"""What hangs is interrupted and named; what does not hang is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from reflect_rl import watchdog
from reflect_rl.errors import EnvironmentTimeoutError, FaultyEnvironmentError, HangError
from reflect_rl.watchdog import guarded, hang_in, on_duty, report_in, watch


def hangs_in(act, seconds=0.1, **options):
    started = time.monotonic()
    with pytest.raises(options.get("error", HangError)) as caught, watch("the thing", seconds, **options):
        act()
    assert time.monotonic() - started < 50
    return str(caught.value)


def loop():
    while True:
        pass


def test_sleep_waiting_and_a_python_loop_are_interrupted():
    end, _ = os.pipe()
    for act in (lambda: time.sleep(60), loop, lambda: os.read(end, 1), threading.Event().wait):
        assert hangs_in(act) == "the thing did not come back within 0.1 s. Raise the limit."


def test_the_error_and_the_remedy_can_be_chosen():
    message = hangs_in(lambda: time.sleep(60), error=EnvironmentTimeoutError, remedy="Wait longer.")
    assert message == "the thing did not come back within 0.1 s. Wait longer."


def test_code_that_is_in_time_is_left_alone():
    with on_duty(1):
        for _ in range(6):
            with watch("quick", 1):
                time.sleep(0.2)
        # Nothing is watched here.
        time.sleep(1.2)


def test_each_watch_on_duty_has_its_own_time():
    with on_duty(60):
        with watch("the first", 60):
            pass
        with watch("the second", 5):
            time.sleep(0.3)
        with pytest.raises(HangError, match="the third"), watch("the third", 0.1):
            time.sleep(5)
        with watch("after the hang", 60):
            time.sleep(0.2)


def test_no_limit_is_no_watch():
    before = signal.getsignal(signal.SIGURG)
    with on_duty(0, 0), watch("the thing", 0):
        assert signal.getsignal(signal.SIGURG) is before
        assert not watchdog._watcher.active


def test_the_signal_is_given_back(tmp_path):
    heard = []
    before = signal.signal(signal.SIGURG, lambda number, frame: heard.append(number))
    own = signal.getsignal(signal.SIGURG)
    try:
        with on_duty(1, 0):
            assert signal.getsignal(signal.SIGURG) is not own
        assert signal.getsignal(signal.SIGURG) is own
        hangs_in(lambda: time.sleep(60))
        assert signal.getsignal(signal.SIGURG) is own
        assert heard == []
    finally:
        signal.signal(signal.SIGURG, before)


def test_a_signal_that_comes_late_harms_nothing():
    with on_duty(1):
        os.kill(os.getpid(), signal.SIGURG)
        with watch("the thing", 1):
            os.kill(os.getpid(), signal.SIGURG)
            time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGURG)
    time.sleep(0.01)


def test_ctrl_c_works_while_watching():
    started = time.monotonic()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), on_duty(60), watch("the thing", 60):
        time.sleep(100)
    assert time.monotonic() - started < 50
    assert not watchdog._watcher.active
    # And after a hang, too.
    hangs_in(lambda: time.sleep(60))
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_watch_without_a_limit_leaves_the_one_around_it():
    with on_duty(60), watch("the thing", 60):
        with watch("its part", 0):
            pass
        assert [entry.what for entry in watchdog._watcher.active.values()] == ["the thing"]
    assert not watchdog._watcher.active


@pytest.mark.parametrize(("code", "said"), [((), "sys.exit()"), ((3,), "sys.exit(3)"), (("bye",), "sys.exit('bye')")])
def test_guarded_code_does_not_end_the_program(code, said):
    with pytest.raises(FaultyEnvironmentError) as caught:
        guarded("the game, turn 2", 0, lambda: sys.exit(*code))
    assert str(caught.value) == (
        f"the game, turn 2: it called {said}, which would end the whole program. Raise an exception instead."
    )
    assert isinstance(caught.value.__cause__, SystemExit)


def test_ctrl_c_passes_through_guarded_code():
    def press():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded("the game", 0, press)


def test_errors_of_the_watched_code_pass():
    with pytest.raises(ZeroDivisionError), watch("the thing", 1):
        1 / 0  # noqa: B018
    assert not watchdog._watcher.active


def test_no_report_stays_when_nothing_hung(tmp_path):
    with report_in(tmp_path), on_duty(1), watch("the thing", 1):
        (file,) = tmp_path.iterdir()
        assert file.read_text() == "the thing\n"
        assert hang_in(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_an_old_report_is_removed(tmp_path):
    (tmp_path / "hang-0.txt").write_text("an old thing".ljust(2000))
    assert hang_in(tmp_path).startswith("an old thing")
    with report_in(tmp_path):
        assert hang_in(tmp_path) is None


HEAD = """
import ctypes, os, re, signal, sys, threading, time
from pathlib import Path
from reflect_rl import watchdog
from reflect_rl.watchdog import on_duty, report_in, watch
watchdog.GRACE = 0.3
"""


def run(code, seconds=30):
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code], capture_output=True, text=True, timeout=seconds, check=False
    )
    return done, time.monotonic() - started


UNINTERRUPTIBLE = {
    "swallows": """
while True:
    try:
        time.sleep(60)
    except Exception:
        pass
""",
    "reads": """
signal.siginterrupt(signal.SIGURG, False)
ctypes.CDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)
""",
    "holds the lock in a pattern": "re.match(r'(a+)+$', 'a' * 60 + 'b')",
    "holds the lock asleep": "ctypes.PyDLL(None).sleep(60)",
}


@pytest.mark.parametrize("code", UNINTERRUPTIBLE.values(), ids=UNINTERRUPTIBLE)
def test_what_cannot_be_interrupted_ends_the_process_and_leaves_its_name_and_stacks(tmp_path, code):
    inside = "\n    ".join(code.strip().splitlines())
    done, _ = run(
        f"with report_in(Path({str(tmp_path)!r})), on_duty(0.3):\n"
        f"  with watch('something else that was watched before', 0.3): pass\n"
        f"  with watch('the thing', 0.3):\n    {inside}"
    )
    assert done.returncode == 1
    file = tmp_path / "hang-0.txt"
    assert hang_in(tmp_path) == (
        "the thing did not come back in time and could not be interrupted, so its process was ended. The stacks of all "
        f"its threads are in {file}. If it needs longer, raise its limit under [limits]."
    )
    stacks = file.read_bytes()[watchdog.NAME_BYTES :].decode()
    assert 'File "<string>", line' in stacks
    if "PyDLL" not in code and "match" not in code:  # there nobody is left to say it
        assert done.stderr.startswith("error: the thing did not come back within 0.3 s. Raise the limit.")
        assert str(file) in done.stderr
        assert 'File "<string>", line' in done.stderr


def test_a_thread_that_hangs_ends_the_process(tmp_path):
    done, _ = run("""
def work():
    with watch("the thread's thing", 0.2):
        time.sleep(60)
thread = threading.Thread(target=work)
thread.start()
thread.join()
""")
    assert done.returncode == 1
    assert done.stderr.startswith("error: the thread's thing did not come back within 0.2 s.")
    place = Path(done.stderr.partition("threads are in ")[2].partition(".txt")[0] + ".txt")
    assert "in work" in place.read_bytes().decode()
    place.unlink()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no such signal")
def test_time_in_which_the_process_was_stopped_does_not_count():
    code = (
        HEAD.replace("GRACE = 0.3", "GRACE = 30")
        + """
with on_duty(1):
    print("ready", flush=True)
    with watch("the thing", 1):
        time.sleep(0.5)
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            time.sleep(0.01)
print("in time")
"""
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=30)[0] == "in time\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore")
def test_a_fork_watches_for_itself():
    done, _ = run("""
with on_duty(5), watch("of the parent", 5):
    child = os.fork()
    if not child:
        try:
            with on_duty(0.2), watch("of the child", 0.2):
                time.sleep(60)
        except watchdog.HangError:
            os._exit(7)
        os._exit(8)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
    assert (done.returncode, done.stdout) == (0, "7\n")
