"""TextWorld in processes of its own: what they do when they fail, hang or are killed, and what they leave behind."""

import gc
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from alfworld_native import game_file as texts
from alfworld_native.errors import GameError, TextWorldError, TextWorldMissingError, TextWorldTimeoutError
from alfworld_native.game_file import game_file, logic
from alfworld_native.sources import load_games
from alfworld_native.textworld import TextWorldGame, Workers, shared_workers
from household_games import WINNING, kitchen_record

needs_textworld = pytest.mark.skipif(
    find_spec("alfworld") is None, reason="the extra `alfworld` is not installed; it compiles: g++, make, cmake"
)

RECORD = kitchen_record("pick_and_place_simple")
PLAN = WINNING["pick_and_place_simple"]


@pytest.fixture
def uncached():
    logic.cache_clear()
    yield
    logic.cache_clear()


@pytest.fixture(scope="module")
def workers():
    with Workers(shortcuts=True) as workers:
        yield workers


def start(workers, record=RECORD):
    return TextWorldGame(record.problem, record.goal, "2.1.1", workers).start()


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_missing_extra_is_named(uncached, monkeypatch):
    monkeypatch.setattr(texts, "find_spec", lambda name: None)
    with pytest.raises(TextWorldMissingError, match=r"'alfworld-native\[textworld\]'.*g\+\+, make and cmake"):
        TextWorldGame(RECORD.problem, RECORD.goal)


@needs_textworld
def test_another_version_of_the_texts_is_refused(uncached, monkeypatch):
    monkeypatch.setattr(texts, "OLDER_GRAMMAR", ())
    logic("2.1.2")
    with pytest.raises(TextWorldMissingError, match=r"other game texts than version 0\.4\.2"):
        logic("2.1.1")


@needs_textworld
def test_game_files_equal_the_original_ones():
    folder = os.environ.get("REFLECT_RL_ALFWORLD")
    if not folder:
        pytest.skip("REFLECT_RL_ALFWORLD does not name a folder with ALFWorld's games")
    for record in load_games(Path(folder), "valid_seen"):
        text = game_file(record.problem, record.goal, "2.1.1")
        assert hashlib.sha256(text.encode()).hexdigest() == record.sha256


@needs_textworld
@pytest.mark.parametrize("goal", ["", 'put "it" there.', "put {it} there."])
def test_a_goal_that_no_grammar_can_say_is_refused(goal):
    with pytest.raises(GameError, match="cannot say the goal"):
        game_file(RECORD.problem, goal, "2.1.1")


@needs_textworld
def test_a_game_is_won(workers):
    state = start(workers)
    assert state.first().feedback.endswith("Your task is to: put a mug in countertop.")
    assert [state.step(command).won for command in PLAN] == [False] * 4 + [True]
    assert state.step("xyzzy").feedback == "Nothing happens."


@needs_textworld
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: text.replace("agent1 - agent", "agent1 - agent agent1 - agent"), "SystemExit"),
        (lambda text: text.replace("(atLocation agent1 loc_bar_a)", "(atLocation agent1"), "Error"),
        (lambda text: "", "StopIteration"),
    ],
    ids=["object declared twice", "bracket missing", "empty"],
)
def test_a_bad_game_is_the_users_error_and_harms_no_other(workers, damage, says):
    other = start(workers)
    process = workers.processes[0].id
    with pytest.raises(GameError, match=rf"cannot play the game 'put a mug in countertop\.': .*{says}"):
        TextWorldGame(damage(RECORD.problem), RECORD.goal, "2.1.1", workers).start()
    assert other.step("go to dresser 1").feedback.startswith("You arrive")
    assert workers.processes[0].id == process


@needs_textworld
def test_a_killed_process_is_replaced_and_its_episodes_go_on(workers):
    first, second = start(workers), start(workers)
    for command in PLAN[:4]:
        first.step(command)
    process = workers.processes[0].id
    os.kill(process, signal.SIGKILL)
    assert first.step(PLAN[4]).won
    assert not second.step("look").won
    assert workers.processes[0].id != process
    assert not is_running(process)  # a zombie would still be


@needs_textworld
def test_a_process_that_ends_at_once_is_tried_twice(monkeypatch):
    monkeypatch.setattr("alfworld_native._textworld_process.MODULE", "this_module_is_not_there")
    with Workers() as workers, pytest.raises(TextWorldError, match=r"ended twice.*No module named this_module"):
        start(workers)


@needs_textworld
def test_a_process_that_hangs_is_ended_in_time():
    with Workers(seconds=600, shortcuts=True) as workers:
        state = start(workers)
        state.step(PLAN[0])
        workers.processes[0]._seconds = 0.3
        os.kill(workers.processes[0].id, signal.SIGSTOP)
        begin = time.monotonic()
        with pytest.raises(TextWorldTimeoutError, match=r"step 'open cabinet 2': no answer within 0\.3 seconds"):
            state.step(PLAN[1])
        assert time.monotonic() - begin < 300
        workers.processes[0]._seconds = 600
        assert [state.step(command).won for command in PLAN[1:]] == [False] * 3 + [True]


@needs_textworld
def test_ctrl_c_amid_an_answer_spoils_no_later_one(workers):
    state = start(workers)
    os.kill(workers.processes[0].id, signal.SIGSTOP)
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        state.step(PLAN[0])
    timer.join()
    assert [state.step(command).won for command in PLAN] == [False] * 4 + [True]


@needs_textworld
def test_a_copy_goes_its_own_way(workers):
    state = start(workers)
    state.step(PLAN[0])
    twin = state.copy()
    twin.step(PLAN[1])
    assert "open cabinet 2" in state.step("look").admissible
    assert "close cabinet 2" in twin.step("look").admissible


@needs_textworld
def test_threads_get_their_own_answers(workers):
    def play(number):
        state = start(workers)
        return [state.step(command).feedback for command in PLAN[number % 2 :]]

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(play, range(8)))
    assert answers == [play(0), play(1)] * 4


@needs_textworld
def test_nothing_is_left_behind():
    with Workers() as workers:
        state = start(workers)
        process = workers.processes[0]
        folder, number = process._folder, process.id
        assert [path.suffix for path in folder.iterdir()] == [".txt"]
    assert not folder.exists()
    assert not is_running(number)
    with pytest.raises(RuntimeError, match="these workers are closed"):
        state.step("look")


@needs_textworld
def test_closed_episodes_free_their_place(workers):
    """The planner's library, 34 MB for each episode that is open at once, is used again."""
    first = start(workers)
    process = workers.processes[0].id
    before = len(Path(f"/proc/{process}/maps").read_text().splitlines()) if Path("/proc").is_dir() else 0
    for _ in range(3):
        first.close()
        first = start(workers)
    after = len(Path(f"/proc/{process}/maps").read_text().splitlines()) if Path("/proc").is_dir() else 0
    assert after - before < 5


@needs_textworld
@pytest.mark.parametrize("ending", ["kill", "end"])
def test_processes_and_files_go_with_their_parent(ending):
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from household_games import kitchen_record
from alfworld_native.textworld import TextWorldGame, shared_workers
record = kitchen_record()
state = TextWorldGame(record.problem, record.goal).start()
print(shared_workers().processes[0].id, shared_workers().processes[0]._folder, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    number, folder = parent.stdout.readline().split()
    if ending == "kill":
        parent.kill()
    parent.communicate()
    wait_until(lambda: not is_running(int(number)))
    assert not Path(folder).exists()


@needs_textworld
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_each_side_has_its_own_worker():
    state = TextWorldGame(RECORD.problem, RECORD.goal).start()
    child = os.fork()
    if not child:  # whatever happens here must not come back into the tests
        try:
            with shared_workers() as own:
                right = TextWorldGame(RECORD.problem, RECORD.goal).start().first() == state.first()
                gc.collect()
            os._exit(0 if own.processes[0].id is None and right else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert state.step(PLAN[0]).feedback.startswith("You arrive")
