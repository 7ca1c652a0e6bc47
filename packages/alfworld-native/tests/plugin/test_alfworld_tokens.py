"""The embedded tokenizer loses no text of a held-out game: words it never saw become bytes, numbers stay labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from alfworld_native.plugin import env as alfworld
from alfworld_native.plugin.env import MOST_ACTIONS, Alfworld, AlfworldConfig
from alfworld_native.record import GameRecord
from household_games import WINNING, kitchen_record
from reflect_bench.shapes import texts_of
from reflect_rl.envs.base import EnvSpec
from reflect_rl.models.embedded import EmbeddedConfig, build_embedded
from reflect_rl.models.labels import find_labels
from reflect_rl.models.load import LanguageModel
from reflect_rl.players.scripted import AdvicePolicy, LexicalReflector
from reflect_rl.prompts import policy_prompt
from reflect_rl.rollout import Request, play
from reflect_rl.types import Episode, Task, View

FOLDER = os.environ.get("REFLECT_RL_ALFWORLD", "")
LABELS = [str(number) for number in range(MOST_ACTIONS)]
GENERATED = AlfworldConfig(generated_games=24, most_validation_games=4)


def tokenizer_of(config: AlfworldConfig, starts: int) -> tuple[LanguageModel, set[str]]:
    """The model that a run builds, before it learns, and the words that its tokenizer was learned from."""
    texts = texts_of(EnvSpec(Alfworld, config), 0, starts)
    return build_embedded(texts, EmbeddedConfig(), 0, LABELS), {word for text in texts for word in text.split()}


@pytest.fixture(scope="module")
def learned() -> tuple[LanguageModel, set[str]]:
    return tokenizer_of(GENERATED, 4)


def prompts(episodes: Iterable[Episode]) -> list[str]:
    """Everything that the two players read and write: state, reflection, numbered actions."""
    return list(
        dict.fromkeys(
            policy_prompt(View(turn.observation, turn.order, turn.reflection), LABELS)
            for episode in episodes
            for turn in episode.turns
        )
    )


def explored(config: AlfworldConfig, chosen: Sequence[Task]) -> list[str]:
    requests = [Request(task, number) for number, task in enumerate(chosen)]
    spec = EnvSpec(Alfworld, config)
    return prompts(play(spec, requests, LexicalReflector(spec.prototype), AdvicePolicy(), max_episode_steps=15))


def check(model: LanguageModel, texts: Sequence[str]) -> None:
    """Every prompt, and every word by itself, comes back as it was; every label is one token after every prompt."""
    labels = find_labels(model, MOST_ACTIONS)
    assert list(labels.texts) == LABELS
    assert model.tokenizer.unk_token is None
    for text in texts:
        assert model.decode(model.encode(text)) == text
    for word in {word for text in texts for word in text.split()}:
        for written in (word, f" {word}", f"{word}\n"):
            assert model.decode(model.encode(written)) == written
    for text in texts[:: max(1, len(texts) // 20)]:
        assert model.encode_answers(text, LABELS)[1] == [(token,) for token in labels.ids]


def test_held_out_generated_games(learned):
    model, _ = learned
    texts = explored(GENERATED, Alfworld(GENERATED).tasks("all", "test"))
    assert len(texts) > 50
    assert any("Next: " in text for text in texts)
    check(model, texts)


def test_the_other_wording(learned):
    model, known = learned
    config = GENERATED.model_copy(update={"wording": "2.1.2"})
    texts = explored(config, Alfworld(config).tasks("all", "test"))
    words = {word for text in texts for word in text.split()}
    assert {"move", "help"} <= words - known
    check(model, texts)


def test_a_room_full_of_words_that_nobody_wrote_before(learned, monkeypatch):
    """A kitchen whose receptacles and things have invented names."""
    model, known = learned
    invented = {"Mug": "Zyzzyva", "CounterTop": "Quincunx", "Fridge": "Śnieżnik", "Cabinet": "Kłódka"}
    monkeypatch.setattr(alfworld, "record_of", lambda config, data: renamed(kitchen_record(data["game"]), invented))
    texts = explored(
        GENERATED, [Task(f"all/{kind}", "all", "test", {"game": kind, "from": "kitchen"}) for kind in WINNING]
    )
    words = {word for text in texts for word in text.split()}
    assert {name.lower() for name in invented.values()} <= words - known
    check(model, texts)


def renamed(record: GameRecord, names: dict[str, str]) -> GameRecord:
    problem, goal = record.problem, record.goal
    for old, new in names.items():
        problem, goal = problem.replace(old, new), goal.replace(old.lower(), new.lower())
    return replace(record, problem=problem, goal=goal)


@pytest.mark.skipif(not FOLDER, reason="REFLECT_RL_ALFWORLD names no folder with ALFWorld's games")
def test_held_out_real_games():
    config = AlfworldConfig(games=FOLDER)
    model, _ = tokenizer_of(config, 40)
    texts = explored(config, Alfworld(config).tasks("all", "test"))
    assert len(texts) > 700
    check(model, texts)
