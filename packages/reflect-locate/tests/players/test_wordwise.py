"""Policies that compare words: greedy by name, best-first reader, followed advice."""

from dataclasses import replace

import numpy as np
import pytest

from reflect_locate.envs.autoexplore import AutoExplore
from reflect_locate.envs.state_text import ExplorationState, write_state
from reflect_locate.players.name_greedy import NameGreedyPolicy
from reflect_locate.players.reader import ReaderPolicy
from reflect_rl.envs.base import EnvSpec
from reflect_rl.players.scripted import AdvicePolicy, LexicalReflector
from reflect_rl.rollout import NoReflector, Policy, Request, play
from reflect_rl.types import Observation, View
from small_task_set import save_small_task_set

QUESTION = "Parsing rate limits of remote callers"
"""Five content words."""


def scene(**changes):
    start = ExplorationState(
        QUESTION, 1, 15, "", folders=(("core", 2), ("net", 3), ("rates", 0)), files=("setup.py", "limits_of_rates.py")
    )
    return replace(start, **changes)


def choice(policy, state, *more, reflection=None):
    """The action that a policy takes in a scene where everything is admissible, `more` included."""
    actions = [f"cd {name}" for name, _ in state.folders] + [f"cat {name}" for name in state.files]
    actions += ["cd .."] * bool(state.folder) + ["more"] * (state.pages > 1) + list(more)
    actions += [f"id {path}" for path, _ in state.read]
    observation = Observation(write_state(state), tuple(actions))
    (decision,) = policy.decide([View(observation, (), reflection)], [np.random.default_rng(0)])
    return actions[decision.index]


@pytest.mark.parametrize("policy", [NameGreedyPolicy(), ReaderPolicy()])
def test_the_best_name_comes_first(policy):
    assert isinstance(policy, Policy)
    assert not policy.sees_oracle
    assert choice(policy, scene()) == "cat limits_of_rates.py"
    assert choice(policy, scene(folders=(("remote_rate_limits", 2),))) == "cd remote_rate_limits"
    # A folder without unread files is not entered, whatever its name.
    assert choice(policy, scene(files=())) == "cd net"


@pytest.mark.parametrize("policy", [NameGreedyPolicy(), ReaderPolicy()])
def test_without_a_matching_name_the_fullest_folder_of_the_root_or_the_first_file(policy):
    assert choice(policy, scene(files=("setup.py",))) == "cd net"
    inside = scene(folder="net", files=("a.py", "b.py"))
    assert choice(policy, inside) == "cat a.py"
    assert choice(policy, replace(inside, files=(), folders=())) == "cd .."


def test_greedy_by_name_answers_with_the_first_file_it_opened():
    opened = scene(read=(("net/sockets.py", ()),))
    assert choice(NameGreedyPolicy(), opened) == "id net/sockets.py"
    assert choice(NameGreedyPolicy(), scene(read=(("a.py", ("parsing",)), ("limits.py", ())))) == "id limits.py"


def test_greedy_by_name_turns_the_page_where_no_name_fits():
    blank = scene(files=("setup.py",), folders=(), pages=2)
    assert choice(NameGreedyPolicy(), blank) == "more"
    assert choice(NameGreedyPolicy(), replace(blank, page=2)) == "cat setup.py"
    assert choice(NameGreedyPolicy(), scene(pages=2)) == "cat limits_of_rates.py"


def test_the_reader_reads_on_until_a_file_holds_all_words_or_the_turns_are_over():
    some = (("a.py", ("parsing", "rate")), ("b.py", ("parsing", "rate", "limits")), ("c.py", ()))
    assert choice(ReaderPolicy(), scene(read=some)) == "cat limits_of_rates.py"
    assert choice(ReaderPolicy(), scene(read=some, turn=15)) == "id b.py"
    whole = (*some, ("d.py", ("parsing", "rate", "limits", "remote", "callers")))
    assert choice(ReaderPolicy(), scene(read=whole)) == "id d.py"


def test_of_equal_passages_the_reader_takes_the_better_name():
    same = (("a.py", ("parsing", "rate")), ("x/rate.py", ("parsing", "rate")), ("rate.py", ("parsing", "rate")))
    assert choice(ReaderPolicy(), scene(read=same, turn=15)) == "id x/rate.py"


def test_the_reader_sees_every_page_of_a_root_that_is_read_to_the_end():
    """At the root there is no way out, so `more` leads back to the pages before."""
    assert choice(ReaderPolicy(), scene(files=(), folders=(), pages=2, page=2)) == "more"


def test_the_reader_searches_where_it_can():
    assert choice(ReaderPolicy(), scene(), "search rate", "search remote") == "search rate"
    assert choice(ReaderPolicy(), scene(), "cat /net/b.py", "cat /a.py", "search remote") == "cat /net/b.py"


def test_advice_does_what_the_last_sentence_says():
    lines = "Best file: a.py (rate). Next: cd core. Next: cat setup.py."
    assert choice(AdvicePolicy(), scene(), reflection=lines) == "cat setup.py"
    # What is not listed cannot be done; the last action listed is taken.
    assert choice(AdvicePolicy(), scene(), reflection="Next: cat other.py.") == "cat limits_of_rates.py"
    assert choice(AdvicePolicy(), scene(), reflection="no advice") == "cat limits_of_rates.py"
    with pytest.raises(ValueError, match="follows a reflection"):
        choice(AdvicePolicy(), scene())


def test_whole_games(tmp_path):
    """By hand. No name at the root shares a word with a question, so the fullest folder, `net`, is entered first.

    Greedy by name: `limits.py`, which shares a word with the first question and is the first file for the others, is
    read and named; it is wrong three times. The reader reads `limits.py`, then `sockets.py`, which holds all five
    words: cd, cat, cat, id.
    """
    folder = save_small_task_set(tmp_path)
    spec = EnvSpec.of(AutoExplore, tasks=folder, modes=("d1raw",), leaks=("none", "name"), unsupported=True)
    requests = [Request(task, 0) for task in spec.tasks("d1raw", "test")]
    greedy = play(spec, requests, NoReflector(), NameGreedyPolicy())
    assert [(len(episode.turns), episode.success) for episode in greedy] == [(3, False)] * 3
    reader = play(spec, requests, NoReflector(), ReaderPolicy())
    assert (len(reader[0].turns), reader[0].success) == (4, True)
    advised = play(spec, requests, LexicalReflector(AutoExplore()), AdvicePolicy())
    chosen = [turn.observation.actions[turn.decision.index] for turn in advised[0].turns]
    assert chosen == ["cd net", "cat limits.py", "cat sockets.py", "id net/sockets.py"]
