"""A language model in the oracle's place: what it is told, what is made of its answers, what no player ever sees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from alfworld_native.plugin import env as alfworld
from fault_server import FaultServer, refuse
from reflect_locate.envs import autoexplore, autoexplore_paper
from reflect_rl.data.generate import DataConfig, demonstrations, rows
from reflect_rl.data.recorded import Note, as_played
from reflect_rl.envs import corridor, dangerous_taxi
from reflect_rl.envs.base import EnvSpec
from reflect_rl.types import Episode
from reflect_served.annotation.questions import (
    Annotations,
    Annotator,
    Question,
    annotate,
    digest,
    nothing_kept,
    verdict_from_json,
)
from reflect_served.llm import ChatAnswer, ChatRequest, Endpoint, EndpointConfig, EndpointError, RefusedError
from reflect_served.settings import AnnotationConfig
from small_task_set import save_small_task_set
from toy import Numbered

CORRIDOR = EnvSpec.of(corridor.Corridor)
LABELS = tuple("ABCDEF")
EXCLUDED: frozenset[str] = frozenset()
TOLD = re.compile(r"The best next action is: (.*)")


class Scripted:
    """An endpoint in this process."""

    def __init__(self, write: Callable[[str], str | EndpointError]) -> None:
        self.write, self.asked = write, list[str]()

    def ask(
        self, requests: Sequence[ChatRequest], progress: Any = None
    ) -> Iterator[tuple[int, ChatAnswer | EndpointError]]:
        for number, request in reversed(list(enumerate(requests))):
            text = request.messages[-1][1]
            self.asked.append(text)
            said = self.write(text)
            yield number, said if isinstance(said, EndpointError) else ChatAnswer(said, "stop", 1, 1, 0.0, False)


def obedient(text: str) -> str:
    """Says what it was told, as its own thought."""
    found = TOLD.search(text)
    assert found
    return f"I look where the goal is. Next: {found[1]}."


def written(
    write: Callable[[str], str | EndpointError],
    config: AnnotationConfig | None = None,
    episodes: Sequence[Episode] = (),
    environment: Any = CORRIDOR,
) -> tuple[Annotations, Scripted]:
    annotator, endpoint = Annotator(config or AnnotationConfig(), environment), Scripted(write)
    questions = annotator.questions(episodes, EXCLUDED)
    verdicts = annotate(questions, cast(Endpoint, endpoint), annotator.config.max_words)
    return Annotations(annotator, verdicts, episodes, EXCLUDED, EndpointConfig()), endpoint


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    pools = demonstrations(DataConfig(perturbation=0.4), CORRIDOR, 12, seed=0, excluded=EXCLUDED)
    return pools["positive"] + pools["negative"]


def test_the_text_takes_the_place_of_the_oracles(episodes):
    annotations, _ = written(obedient, episodes=episodes)
    for name in ("reflector", "policy_reflect"):
        before = rows(name, episodes, LABELS, EXCLUDED)
        after = rows(name, episodes, LABELS, EXCLUDED, notes=annotations.note)
        assert len(after) == len(before)
        assert [(r.task, r.turn, r.state, r.kind) for r in after] == [(r.task, r.turn, r.state, r.kind) for r in before]
        assert all("I look where the goal is. Next: " in row.prompt + row.completion for row in after)
        assert not any("I begin" in row.prompt + row.completion for row in after)
    plain = rows("policy_plain", episodes, LABELS, EXCLUDED)
    assert rows("policy_plain", episodes, LABELS, EXCLUDED, notes=annotations.note) == plain


def test_what_it_is_told_is_what_the_solver_knows(episodes):
    annotator = Annotator(AnnotationConfig(), CORRIDOR)
    kinds: Counter[str] = Counter()
    for episode in episodes:
        for number, turn in enumerate(episode.turns):
            question = annotator.question(episode, number)
            kinds[question.kind] += 1
            told = question.request.messages[-1][1].partition("PRIVATE NOTE\n")[2]
            assert turn.decision.target is not None
            assert f"The best next action is: {turn.observation.actions[turn.decision.target]}" in told
            if number == 0:
                assert "there is no last action" in told
                continue
            before = episode.turns[number - 1]
            played = before.observation.actions[before.decision.index]
            assert before.decision.target is not None
            wanted = before.observation.actions[before.decision.target]
            wrong = f"The last action ({played}) was suboptimal; better would have been: {wanted}."
            assert (wrong if played != wanted else f"The last action ({played}) was a good one.") in told
    assert min(kinds[kind] for kind in ("first", "positive", "negative")) > 20


def test_a_state_that_recurs_with_the_same_knowledge_is_asked_about_once(episodes):
    annotations, endpoint = written(obedient, episodes=episodes)
    assert len(endpoint.asked) == len(set(endpoint.asked)) < sum(len(e.turns) for e in episodes) / 2
    assert annotations.counts["turns"] == sum(len(e.turns) for e in episodes)
    assert sum(annotations.counts["questions"].values()) == len(endpoint.asked)


def test_what_is_dropped_is_in_no_row_and_nothing_takes_its_place(episodes):
    def slips(text: str) -> str:
        return "As you told me. Next: left." if "action is: left" in text else obedient(text)

    annotations, _ = written(slips, episodes=episodes)
    kept = rows("reflector", episodes, LABELS, EXCLUDED, notes=annotations.note)
    every = rows("reflector", episodes, LABELS, EXCLUDED)
    rights = [row for row in every if "Next: right" in row.completion]
    assert [(r.task, r.turn) for r in kept] == [(r.task, r.turn) for r in rights]
    assert 0 < len(kept) < len(every)
    assert len(rows("policy_reflect", episodes, LABELS, EXCLUDED, notes=annotations.note)) == len(kept)
    assert len(rows("policy_plain", episodes, LABELS, EXCLUDED, notes=annotations.note)) == len(every)
    counts = annotations.counts
    assert counts["turns_left_out"] == len(every) - len(kept)
    assert list(counts["dropped"]) == ["spoiler"]
    assert counts["dropped"]["spoiler"] + counts["kept_untouched"] == sum(counts["questions"].values())


def test_repairs_are_counted(episodes):
    annotations, _ = written(lambda text: f'"{obedient(text)}"', episodes=episodes)
    counts = annotations.counts
    assert (counts["kept_untouched"], counts["dropped"]) == (0, {})
    assert counts["repairs"] == {"quotes": counts["kept_repaired"]}
    assert counts["kept_repaired"] == sum(counts["questions"].values())


def test_an_annotator_that_chooses_gives_the_labels_and_is_told_none(episodes):
    def chooses(text: str) -> str:
        assert "best next action is:" not in text
        return "" if "last action (wait)" in text else "I go on. Next: left."

    annotations, endpoint = written(chooses, AnnotationConfig(actions=True), episodes)
    assert any("was suboptimal; better would have been" in text for text in endpoint.asked)
    rights = [
        (episode, number)
        for episode in episodes
        for number, turn in enumerate(episode.turns)
        if turn.observation.actions[turn.decision.target or 0] == "right" and annotations.reflection(episode, number)
    ]
    different = {annotations.annotator.question(*place).key for place in rights}
    assert annotations.counts["actions_other_than_the_solvers"] == len(different) > 0
    for name in ("policy_plain", "policy_reflect"):
        table = rows(name, episodes, LABELS, EXCLUDED, notes=annotations.note)
        flat = [(episode, number) for episode in episodes for number in range(len(episode.turns))]
        every = zip(rows(name, episodes, LABELS, EXCLUDED), flat, strict=True)
        expected = [row for row, place in every if annotations.reflection(*place) is not None]
        # Always `left`, the first action; rows without a choice are left out; what came before is as it was played.
        assert {row.completion for row in table} == {LABELS[0]}
        assert [(row.state, row.kind) for row in table] == [(row.state, row.kind) for row in expected]
        assert 0 < len(table) < len(flat)


def test_excluded_states_are_not_asked_about(episodes):
    excluded = frozenset({episodes[0].turns[0].observation.state})
    asked = list(Annotator(AnnotationConfig(), CORRIDOR).questions(episodes, excluded))
    count = sum(turn.observation.state not in excluded for e in episodes for turn in e.turns)
    assert len(asked) == count < sum(len(e.turns) for e in episodes)


def test_the_private_note_reaches_no_player(episodes):
    """Of all data sets the prompts are those of the oracle's run, but for the reflection; the note stands nowhere."""
    annotations, endpoint = written(obedient, episodes=episodes)
    notes = ("PRIVATE", "best next action", "suboptimal", "was a good one", "better would have been")
    assert all(note in " ".join(endpoint.asked) for note in notes)
    for name in ("reflector", "policy_plain", "policy_reflect"):
        table = rows(name, episodes, LABELS, EXCLUDED, notes=annotations.note)
        assert not any(note in row.prompt + row.completion for row in table for note in notes)
    reflector = rows("reflector", episodes, LABELS, EXCLUDED, notes=annotations.note)
    assert [row.prompt for row in reflector] == [row.prompt for row in rows("reflector", episodes, LABELS, EXCLUDED)]


def test_a_state_that_the_server_refuses_is_dropped(episodes):
    refused = RefusedError("too long")
    annotations, _ = written(lambda text: refused if "You are at 3." in text else obedient(text), episodes=episodes)
    assert list(annotations.counts["dropped"]) == ["refused"]


def test_when_all_are_refused_at_first_the_fault_is_not_in_the_states(episodes, tmp_path):
    asked = list(Annotator(AnnotationConfig(), CORRIDOR).questions(episodes, EXCLUDED))
    with (
        FaultServer(fault=refuse(400, "bad settings")) as server,
        pytest.raises(EndpointError, match=r"bad settings.*So were all requests so far"),
    ):
        annotate(asked, Endpoint(server.config(), tmp_path), 60)
    assert sum(server.counts.values()) < len({question.key for question in asked})


def test_a_failure_of_the_server_is_told(episodes):
    with pytest.raises(EndpointError, match="gone"):
        written(lambda text: EndpointError("gone") if "You are at 2." in text else obedient(text), episodes=episodes)


def test_none_of_use_is_an_error_that_says_why(episodes):
    annotator = Annotator(AnnotationConfig(), CORRIDOR)
    asked = list(annotator.questions(episodes, EXCLUDED))
    verdicts = annotate(asked, cast(Endpoint, Scripted(lambda text: "")), 60)
    failure = nothing_kept(verdicts)
    assert failure is not None
    assert f"none of the {len(verdicts)} annotations can be used (empty {len(verdicts)})" in str(failure)
    assert nothing_kept(annotate(asked, cast(Endpoint, Scripted(obedient)), 60)) is None


def test_the_digest_tells_texts_apart(episodes):
    annotator = Annotator(AnnotationConfig(), CORRIDOR)
    asked = list(annotator.questions(episodes, EXCLUDED))

    def of(write: Callable[[str], str]) -> str:
        return digest(annotate(asked, cast(Endpoint, Scripted(write)), 60))

    assert of(obedient) == of(obedient) != of(lambda text: obedient(text).replace("look", "see"))


def test_a_verdict_survives_the_disk(episodes):
    from dataclasses import asdict

    annotator = Annotator(AnnotationConfig(), CORRIDOR)
    asked = list(annotator.questions(episodes, EXCLUDED))
    for verdict in annotate(asked, cast(Endpoint, Scripted(lambda text: f'"{obedient(text)}"')), 60).values():
        row = asdict(verdict)
        assert verdict_from_json(row | {"repairs": list(row["repairs"]), "state": "more"}) == verdict


def test_a_turn_has_the_text_of_its_own_mode():
    spec = EnvSpec.of(Numbered)
    played = demonstrations(DataConfig(modes=("near", "far"), restarts_per_start=0), spec, 4, seed=0)["positive"]
    notes, _ = written(obedient, None, played, spec)
    for episode in played:
        turn = episode.turns[0]
        assert f"Next: {turn.observation.actions[turn.decision.target]}." in notes.reflection(episode, 0)


def test_without_an_annotator_the_notes_are_those_of_play(episodes):
    turn = episodes[0].turns[0]
    assert as_played(episodes[0], 0) == Note(turn.reflection, turn.decision.target)


def test_all_games_can_be_annotated(tmp_path):
    tasks = save_small_task_set(tmp_path, "train")
    settings = {"tasks": tasks, "modes": ("d1raw",), "leaks": ("none", "name")}
    exploring = EnvSpec.of(autoexplore.AutoExplore, **settings)
    paper = EnvSpec.of(autoexplore_paper.AutoExplorePaper, **settings)
    household, raw = EnvSpec.of(alfworld.Alfworld), ("d1raw",)
    taxi = EnvSpec.of(dangerous_taxi.DangerousTaxi)
    games = (
        (taxi, ()),
        (CORRIDOR, ()),
        (household, ("pick",)),
        (exploring, raw),
        (paper, raw),
    )
    for environment, modes in games:
        data = DataConfig(label_source="exploring", modes=modes, perturbation=0.5)
        pools = demonstrations(data, environment, 2, 0, excluded=EXCLUDED)
        every = pools["positive"] + pools["negative"]
        annotations, _ = written(obedient, episodes=every, environment=environment)
        assert annotations.counts["dropped"] == {}
        table = rows("policy_reflect", every, [str(k) for k in range(100)], EXCLUDED, notes=annotations.note)
        assert len(table) == sum(len(e.turns) for e in every)
        if environment in (exploring, household):
            # The state shows the numbers of actions, so the reflection ends with that of the label.
            assert all(f"={row.completion}.\nActions:" in row.prompt for row in table)


def test_names_that_only_the_solver_knows_are_noticed(tmp_path):
    tasks = save_small_task_set(tmp_path, "train")
    config = EnvSpec.of(autoexplore.AutoExplore, tasks=tasks, modes=("d1raw",))
    episode = demonstrations(DataConfig(modes=("d1raw",)), config, 1, 0, excluded=EXCLUDED)["positive"][0]
    target = {"small/0": "sockets.py", "small/1": "gears.py"}[episode.task.data["question"]]

    def names_it(text: str) -> str:
        return obedient(text).replace("where the goal is", f"for {target}")

    annotations, _ = written(names_it, episodes=[episode], environment=config)
    for number, turn in enumerate(episode.turns):
        assert (annotations.reflection(episode, number) is not None) == (target in turn.observation.text)
    assert annotations.counts["dropped"]["unseen"] >= 1


def test_what_would_have_been_better_is_not_told_once_its_name_is_out_of_sight(tmp_path):
    tasks = save_small_task_set(tmp_path, "train")
    config = EnvSpec.of(autoexplore.AutoExplore, tasks=tasks, modes=("d1raw",))
    data = DataConfig(modes=("d1raw",), perturbation=0.6, perturbed_episodes_per_start=12)
    pool = demonstrations(data, config, 2, 0, excluded=EXCLUDED)["negative"]
    annotator = Annotator(AnnotationConfig(), config)
    kept_back = 0
    for episode in pool:
        for number in range(len(episode.turns)):
            question: Question = annotator.question(episode, number)
            told = question.request.messages[-1][1].partition("PRIVATE NOTE\n")[2]
            for name in question.unseen_names:
                assert name not in told or name in question.told.state
            kept_back += question.kind == "negative" and "better would have been" not in told
    assert kept_back > 0


def test_a_server_on_this_machine_is_asked_each_thing_once(episodes, tmp_path):
    annotator = Annotator(AnnotationConfig(), CORRIDOR)
    asked = list(annotator.questions(episodes[:6], EXCLUDED))
    with FaultServer([None] * 5, refuse(400), obedient) as server:
        settings = server.config(retries=0)
        first = annotate(asked[:2], Endpoint(settings, tmp_path), 60)
        server.fault, server.faults = None, []
        second = annotate(asked, Endpoint(settings, tmp_path), 60)
        third = annotate(asked, Endpoint(settings, tmp_path), 60)
        assert second == third
        assert first.items() <= second.items()
        assert set(server.counts.values()) == {1}
        assert sum(server.counts.values()) == len(second)


def test_the_budget_stops_before_it_is_exceeded_and_the_rest_follows(episodes, tmp_path):
    annotator = Annotator(AnnotationConfig(max_new_tokens=16), CORRIDOR)
    asked = list(annotator.questions(episodes[:6], EXCLUDED))
    with FaultServer(write=obedient) as server:
        # Room for the first few: of each about 3000 tokens are set aside, and fewer than 100 are used.
        with pytest.raises(EndpointError, match=r"is used up.*max_total_tokens = 3500"):
            annotate(asked, Endpoint(server.config(max_total_tokens=3500), tmp_path), 60)
        sent = sum(server.counts.values())
        assert 0 < sent < len({question.key for question in asked})
        verdicts = annotate(asked, Endpoint(server.config(), tmp_path), 60)
        assert sum(server.counts.values()) == len(verdicts)
        assert set(server.counts.values()) == {1}


def test_who_writes_and_how_is_noted():
    endpoint = EndpointConfig(base_url="http://127.0.0.1:1/v1", model="tiny", price_input=1, max_cost=2)
    facts = Annotator(AnnotationConfig(max_words=45), CORRIDOR).facts(endpoint)
    assert facts["model"] == "tiny"
    assert (facts["max_words"], facts["prompts"], facts["temperature"]) == (45, 1, 0)
    # Neither address nor price changes a text.
    assert not {"base_url", "price_input", "max_cost", "endpoint", "key_variable"} & facts.keys()
