"""Preferences from the command line: people who answer, leave and come back, and the reward with noise."""

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from reflect_report.cli.prefer import run as prefer
from reflect_report.preferences.pairs import Pair, Played, played_episodes
from reflect_report.preferences.records import EpisodeSide, hash_of_episode, read_preferences
from reflect_report.preferences.shown import show_pair
from reflect_rl.config import parse
from reflect_rl.envs.base import EnvSpec
from reflect_rl.envs.corridor import Corridor
from reflect_rl.errors import UnknownNameError, UserError
from reflect_rl.runs.config import RunConfig, values_of_run
from reflect_rl.types import Decision, Episode, Observation, Task, Turn


class Person:
    """Answers in turn, then leaves; keeps what was asked."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, question: str) -> str:
        self.asked += 1
        if not self.answers:
            raise EOFError
        return self.answers.pop(0)


def ask(run: Path, person: Person, *words: object, width: int = 80) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)
    prefer([str(run), *map(str, words)], console, person)
    return screen.getvalue()


def lines(run: Path, kind: str = "episodes") -> list[dict]:
    return [json.loads(line) for line in (run / "preferences" / f"{kind}.jsonl").read_text().splitlines()]


def test_a_person_answers_leaves_and_goes_on_with_the_next_pair(run):
    first = ask(run, Person("l", "what", "r", "q"), "--by", "anna", "--pairs", 4)
    assert "2 of 4 pairs are answered; the same command goes on." in first
    rows = lines(run)
    assert [row["choice"] for row in rows] == ["left", "right"]
    assert {(row["by"], row["source"], row["environment"]) for row in rows} == {("anna", "person", "corridor-v1")}
    assert {row["fingerprint"] for row in rows} == {json.loads((run / "run.json").read_text())["fingerprint"]}
    assert {row["task"]["split"] for row in rows} == {"train"}
    # Nothing on the screen tells who played, what was won, or a reward.
    assert not {"oracle", "random", "reward +", "success"} & set(first.split())
    again = Person("equal", "skip", "never asked")
    second = ask(run, again, "--by", "anna", "--pairs", 4)
    assert "pair 3 of 4" in second
    assert [row["choice"] for row in lines(run)] == ["left", "right", "equal", "skip"]
    assert len({row["pair"] for row in lines(run)}) == 4
    assert "2 answers chose a side (1 the left one), 1 said equal, 1 were skipped." in second
    # Another person is asked the same pairs.
    ask(run, Person("l", "l", "l", "l"), "--by", "ben", "--pairs", 4)
    assert [row["pair"] for row in lines(run)[4:]] == [row["pair"] for row in lines(run)[:4]]
    # All answered: nobody is asked.
    silent = Person()
    ask(run, silent, "--by", "anna", "--pairs", 4)
    assert silent.asked == 0


def test_half_a_line_that_a_kill_left_is_replaced(run):
    ask(run, Person("l"), "--by", "anna", "--pairs", 3)
    path = run / "preferences" / "episodes.jsonl"
    path.write_text(path.read_text() + '{"pair": "ab')
    ask(run, Person("r"), "--by", "anna", "--pairs", 3)
    assert [row["choice"] for row in lines(run)] == ["left", "right"]


def test_a_last_line_that_lacks_its_end_alone_is_kept(run):
    ask(run, Person("l", "r"), "--by", "anna", "--pairs", 3)
    path = run / "preferences" / "episodes.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    ask(run, Person("equal"), "--by", "anna", "--pairs", 3)
    assert [row["choice"] for row in lines(run)] == ["left", "right", "equal"]


@pytest.mark.parametrize("cut", [5, 200, -1])
def test_a_first_line_that_a_kill_has_cut_is_replaced(run, cut):
    ask(run, Person("l"), "--by", "änna", "--pairs", 3)
    path = run / "preferences" / "episodes.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n")[:cut])
    ask(run, Person("r"), "--by", "änna", "--pairs", 3)
    assert [row["choice"] for row in lines(run)] == ["right"]


def test_a_character_that_a_kill_has_cut_in_two_goes_with_its_line(run):
    ask(run, Person("l"), "--by", "anna", "--pairs", 3)
    path = run / "preferences" / "episodes.jsonl"
    path.write_bytes(path.read_bytes() + '{"by": "ä'.encode()[:-1])
    ask(run, Person("r"), "--by", "anna", "--pairs", 3)
    assert [row["choice"] for row in lines(run)] == ["left", "right"]


@pytest.mark.parametrize("content", ["a note", '{"a": 1}\n{"important": "row"}', '{"a": 1}', '{"important": "ro'])
def test_a_file_of_something_else_is_refused_as_it_is(call, run, tmp_path, content):
    out = tmp_path / "note.txt"
    out.write_text(content)
    assert f"{out}" in call("prefer", run, "--by-reward", "--pairs", 3, "--out", out).mistake
    assert out.read_text() == content


def test_actions_in_one_state_are_compared(run):
    shown = ask(run, Person("r"), "--by", "anna", "--actions", "--pairs", 2)
    (row,) = lines(run, "actions")
    actions = row["situation"]["observation"]["actions"]
    assert f"> {actions[row['left']['index']]}\n" in shown
    assert row["situation"]["observation"]["text"] in shown
    assert row["left"]["value"] is not None


def test_the_reward_chooses_and_noise_turns_its_choices_round(run, tmp_path):
    for name, noise in (("clean", 0), ("noisy", 0.3)):
        out = tmp_path / f"{name}.jsonl"
        ask(run, Person(), "--by-reward", "--noise", noise, "--pairs", 40, "--out", out)
    clean, noisy = (read_preferences(tmp_path / f"{name}.jsonl", pairs=40) for name in ("clean", "noisy"))
    assert [one.pair for one in clean] == [one.pair for one in noisy]
    assert all(one.choice == one.true_choice for one in clean)
    turned = sum(one.choice != one.true_choice for one in noisy)
    # Forty draws of 0.3: between 3 and 24 with a probability above 99.9%.
    assert 3 <= turned <= 24
    assert {(one.by, one.source, one.noise) for one in noisy} == {("reward", "reward", 0.3)}
    # The same seed gives the same answers, and more of them keeps those.
    more = tmp_path / "more.jsonl"
    ask(run, Person(), "--by-reward", "--noise", 0.3, "--pairs", 43, "--out", more)
    assert [(one.pair, one.choice) for one in read_preferences(more)][:40] == [(o.pair, o.choice) for o in noisy]


def test_noise_does_not_follow_from_the_last_digit_of_a_probability(run, tmp_path):
    other = Path(shutil.copytree(run, tmp_path / "other"))
    changed = 0
    for path in other.glob("starts-*/seed-*/evaluation/*/episodes.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for decision in (turn["decision"] for row in rows for turn in row["turns"]):
            if decision["log_probs"] is not None:
                changed += 1
                decision["log_probs"][0] += 1e-9
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert changed
    for folder in (run, other):
        ask(folder, Person(), "--by-reward", "--noise", 0.5, "--split", "test", "--pairs", 20)
    told = [[(row["task"], row["choice"]) for row in lines(folder)] for folder in (run, other)]
    assert told[0] == told[1]
    assert [row["pair"] for row in lines(run)] != [row["pair"] for row in lines(other)]


def test_episodes_of_other_players_are_played_anew(run, tmp_path):
    path = tmp_path / "played-train.jsonl"
    config = parse(RunConfig, values_of_run(run))

    def played(config: RunConfig, *methods: str, seed: int = 0) -> list[Played]:
        return played_episodes(config, path, "train", methods, 3, seed)

    first = played(config, "random")
    assert {one.method for one in first} == {"random"}
    size = path.stat().st_size
    assert played(config, "random") == first
    assert path.stat().st_size == size
    # Other methods, seeds and settings: none of what stands in the file.
    assert {one.method for one in played(config, "oracle")} == {"oracle"}
    assert not {one.episode.seed for one in first} & {one.episode.seed for one in played(config, "random", seed=1)}
    longer = parse(RunConfig, values_of_run(run) | {"environment": {"name": "corridor", "max_episode_steps": 2}})
    assert {len(one.episode.turns) <= 2 for one in played(longer, "random")} == {True}
    assert played(config, "random") == first


def test_the_reward_chooses_actions_by_the_solver(run, tmp_path):
    ask(run, Person(), "--by-reward", "--actions", "--pairs", 10)
    found = read_preferences(run / "preferences" / "actions.jsonl", kind="actions", pairs=10)
    assert all(one.choice == one.true_choice for one in found)


def test_evaluated_episodes_are_shown_without_playing_again(run):
    ask(run, Person("l"), "--by", "anna", "--split", "test", "--pairs", 2)
    (row,) = lines(run)
    assert row["task"]["split"] == "test"
    assert not list((run / "preferences").glob("played-*"))
    evaluated = (run / "starts-4" / "seed-0" / "evaluation" / row["left"]["method"] / "episodes.jsonl").read_text()
    assert any(
        json.loads(line)["seed"] == row["left"]["episode"]["seed"]
        and json.loads(line)["turns"] == row["left"]["episode"]["turns"]
        for line in evaluated.splitlines()
    )


def test_fewer_pairs_than_asked_are_told(call, run):
    message = call("prefer", run, "--by-reward", "--split", "test", "--pairs", 5000).mistake
    assert "pairs differ in their reward, and 5000 were asked for" in message


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name one run folder, for example: reflect-rl prefer runs/taxi-smoke"),
        (("{run}", "{run}"), "name one run folder"),
        (("{run}/nothing",), "Is {run}/nothing a run folder?"),
        (("{run}", "--noise", "0.1"), "--noise turns choices by the reward round. Add --by-reward"),
        (("{run}", "--by-reward", "--noise", "0.9"), "noise: 0.9 is too large. The highest value is 0.5."),
        (("{run}", "--by-reward", "--by", "anna"), "--by 'anna': with --by-reward nobody chooses."),
        (("{run}", "--by-reward", "--browser"), "--browser: with --by-reward nobody is asked."),
        (("{run}", "--port", "5"), "--port 5 does nothing without --browser."),
        (("{run}", "--by", "anna", "--out", "{run}"), "{run} is a folder. Name a file for the preferences"),
        (("{run}/results.json",), "{run}/results.json is a file, and `reflect-rl prefer` takes a run folder"),
        (("{run}", "--browser", "--port", "70000"), "port: 70000 is too large. The highest value is 65535."),
        (("{run}", "--by", "reward"), "'reward' is the name under which --by-reward chooses."),
        (("{run}", "--pairs", "0"), "pairs: 0 is too small. The lowest value is 1."),
        (("{run}", "--by-reward", "--methods", "sftt"), "the run has no method 'sftt'. Known: oracle, random."),
    ],
)
def test_mistakes_are_one_sentence(call, run, words, sentence):
    message = call("prefer", *(word.format(run=run) for word in words)).mistake
    assert sentence.format(run=run) in message
    assert message.count("\n") == 1


def test_answers_about_another_game_are_refused(call, run, tmp_path):
    out = tmp_path / "p.jsonl"
    ask(run, Person("l"), "--by", "anna", "--pairs", 2, "--out", out)
    row = json.loads(out.read_text())
    out.write_text(json.dumps(row | {"fingerprint": "0" * 16}) + "\n")
    message = call("prefer", run, "--by", "anna", "--pairs", 2, "--out", out).mistake
    assert "line 1: its fingerprint '0000000000000000' is that of other rules, texts or tasks" in message
    card = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(card | {"fingerprint": "1" * 16}))
    assert "rules, texts or tasks have changed" in call("prefer", run, "--by", "anna").mistake


def test_two_at_once_do_not_write_one_file(call, run):
    out = run / "preferences" / "episodes.jsonl"

    class Intruder(Person):
        def __call__(self, question: str) -> str:
            self.message = call("prefer", run, "--by", "ben").mistake
            raise EOFError

    intruder = Intruder()
    ask(run, intruder, "--by", "anna", "--pairs", 2)
    assert f"another `reflect-rl prefer` writes {out}" in intruder.message


HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e[bold red]x[/]\rgone"


@pytest.mark.parametrize("width", [60, 140])
def test_hostile_text_does_not_steer_the_terminal(width):
    task = Task(HOSTILE, "far", "train", {})
    observation = Observation(HOSTILE, (HOSTILE, "left"), "0")
    sides = []
    for index in (0, 1):
        turn = Turn(observation, (0, 1), HOSTILE, Decision(index, HOSTILE), 0.0)
        episode = Episode(task, (turn, turn), True, False, False, 0, "corridor-v1")
        sides.append(EpisodeSide(sha256=hash_of_episode(episode), method="m", unit="u", decoding="d", episode=episode))
    screen = io.StringIO()
    console = Console(file=screen, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)
    person = Person("\x1b[2J", "f", "l")
    assert show_pair(console, EnvSpec.of(Corridor), Pair(task, *sides), "pair 1 of 1", person) == "left"
    text = screen.getvalue()
    assert "owned" in text
    assert not {letter for letter in text if not letter.isprintable() and letter != "\n"}
    # Brackets of a game are no styles.
    assert "[bold red]" in "".join(text.split("\n"))
    if width > 100:
        assert any(line.count("·[2J") == 2 for line in text.splitlines())


def test_a_run_that_was_moved_keeps_its_answers(run, tmp_path):
    ask(run, Person("l"), "--by", "anna", "--pairs", 2)
    moved = Path(shutil.copytree(run, tmp_path / "moved"))
    again = Person("r")
    assert "pair 2 of 2" in ask(moved, again, "--by", "anna", "--pairs", 2)
    assert [row["choice"] for row in lines(moved)] == ["left", "right"]


def test_ctrl_c_ends_the_page_with_the_summary_and_sigterm_does_not(run, monkeypatch):
    ask(run, Person("l"), "--by", "anna")

    class Terminated(KeyboardInterrupt):
        """The stand-in for SIGTERM, as the command line raises it."""

    def served(stop):
        def serve_application(*_):
            raise stop

        monkeypatch.setattr("reflect_report.server.serve_application", serve_application)
        return ask(run, Person(), "--by", "anna", "--browser")

    assert "1 answers chose a side" in served(KeyboardInterrupt())
    with pytest.raises(Terminated, match="all answers are kept"):
        served(Terminated())


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 4242"), OSError("No username set")])
def test_a_user_without_a_name_is_asked_for_one(run, monkeypatch, error):
    def getuser():
        raise error

    monkeypatch.setattr("getpass.getuser", getuser)
    with pytest.raises(UserError, match="Name yourself: --by NAME"):
        ask(run, Person("l"))
    assert "1 answers chose a side" in ask(run, Person("l"), "--by", "anna")
    assert "chose a side" in ask(run, Person(), "--by-reward", "--pairs", 4)


def test_a_game_that_no_package_provides_is_named_by_the_user(run, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    written = json.loads((folder / "config.json").read_text())
    written["environment"]["name"] = "toy:Numbered"
    (folder / "config.json").write_text(json.dumps(written))
    card = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**card, "fingerprint": None}))
    with pytest.raises(UnknownNameError, match=r"--environment\.name toy:Numbered"):
        ask(folder, Person(), "--by", "anna")
    assert "pairs" in ask(folder, Person(), "--by", "anna", "--environment.name", "toy:Numbered")
