"""The model of a run as it comes, asked in words: prompts, examples, answers, and a whole run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reflect_rl.config import ModelConfig, parse
from reflect_rl.errors import ConfigError, ModelError
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.runs.check import check
from reflect_rl.runs.config import RunConfig
from reflect_rl.runs.demonstrate import excluded_states
from reflect_rl.runs.stages import execute, plan
from reflect_rl.runs.start import open_run
from reflect_rl.types import NO_ACTION, Observation, View
from reflect_served.players import prompted
from reflect_served.players.prompted import PromptedPolicy, PromptedReflector, examples_of
from tiny_models import save_tiny

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SEEN = View(Observation("You are at 3.", ("left", "right"), "3"), (0, 1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A tiny model whose tokenizer has a chat template."""
    place = save_tiny("qwen", tmp_path_factory.mktemp("prompted") / "tiny")
    for name, change in (
        ("tokenizer_config.json", {"chat_template": TEMPLATE}),
        ("config.json", {"max_position_embeddings": 2048}),
    ):
        path = place / name
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    return place


@pytest.fixture(scope="module")
def model(folder) -> LanguageModel:
    return load_model(ModelConfig(path=str(folder)), trainable=False)


@pytest.fixture
def asked(monkeypatch) -> dict[str, Any]:
    """Texts that the model was asked for, and what it answers."""
    said: dict[str, Any] = {"texts": [], "answer": "I go on.\nAction: 1", "cut": False}

    def generate(model: LanguageModel, prompts: list[list[int]], max_new_tokens: int) -> list[list[int]]:
        said["texts"] += [model.tokenizer.decode(ids) for ids in prompts]
        return [[*model.encode(said["answer"]), *([] if said["cut"] else [model.end_id])]] * len(prompts)

    monkeypatch.setattr(prompted, "generate", generate)
    return said


def config(folder: Path, output: Path, *methods: str, **changes: Any) -> RunConfig:
    values: dict[str, Any] = {
        "output_dir": str(output),
        "methods": list(methods),
        "environment": {"name": "corridor", "length": 5, "lengths": 4, "max_episode_steps": 4},
        "model": {"path": str(folder)},
        "data": {"demonstration_starts": [2]},
        "evaluation": {"horizons": [4], "repetitions": 1, "decodings": ["sampled", "greedy"]},
        "prompted": {"max_new_tokens": 4},
        "reflector": {"max_new_tokens": 4},
    }
    return parse(RunConfig, values | changes)


def decide(policy: PromptedPolicy, *views: View) -> list[int]:
    return [decision.index for decision in policy.decide(views, [np.random.default_rng(0)] * len(views))]


def test_the_question_is_one_message_of_the_chat_template(model, asked):
    assert decide(PromptedPolicy(model, "Walk."), SEEN) == [1]
    (text,) = asked["texts"]
    assert text.startswith("<|im_start|>user\nYou play a game")
    assert "# The game\nWalk." in text
    assert text.endswith("# State\nYou are at 3.\n\n# Actions\n0: left\n1: right<|im_end|>\n<|im_start|>assistant\n")


def test_without_a_template_the_text_ends_where_the_answer_begins(tmp_path, asked):
    bare = load_model(ModelConfig(path=str(save_tiny("gpt2", tmp_path / "bare"))), trainable=False)
    decide(PromptedPolicy(bare, "Walk.", max_new_tokens=20), SEEN)
    assert asked["texts"][0].endswith("1: right\n\n# Answer\n")


def test_an_answer_that_names_no_number_is_no_action(model, asked):
    policy = PromptedPolicy(model, "Walk.")
    asked["answer"] = "I would rather walk to the left."
    (decision,) = policy.decide([SEEN], [np.random.default_rng(0)])
    assert (decision.index, decision.answer) == (NO_ACTION, asked["answer"])
    # The same state is asked about once.
    assert decide(policy, SEEN, SEEN) == [NO_ACTION, NO_ACTION]
    assert len(asked["texts"]) == 1


def test_an_answer_ends_where_the_model_makes_up_the_next_state(model, asked):
    asked["answer"] = "I go on.\nAction: 1\n\n# State\nYou are at 4.\n\n# Actions\n0: left"
    assert decide(PromptedPolicy(model, "Walk."), SEEN) == [1]


@pytest.mark.parametrize(("count", "expected"), [(10, 1), (13, NO_ACTION)])
def test_a_number_that_is_cut_off_is_no_other_number(model, asked, count, expected):
    """`Action: 12` ends as `Action: 1` where the answer is too long; of ten actions none has two digits."""
    asked["cut"] = True
    many = View(Observation("You are at 3.", tuple(map(str, range(count))), "3"), tuple(range(count)))
    assert decide(PromptedPolicy(model, "Walk."), many) == [expected]
    asked["answer"] = "Action: 1\n12"
    assert decide(PromptedPolicy(model, "Walk."), many) == [NO_ACTION]
    asked["answer"] = "I go on.\nAction: 1"
    asked["answer"] += "\n\n# State\nYou are at 4."
    assert decide(PromptedPolicy(model, "Walk."), many) == [1]


def test_numbers_are_those_of_the_list_that_is_shown(model, asked):
    turned = View(SEEN.observation, (1, 0))
    assert decide(PromptedPolicy(model, "Walk."), turned) == [0]
    assert "0: right\n1: left" in asked["texts"][0]


def test_examples_are_turns_of_the_solver_on_training_tasks(folder, tmp_path):
    run = config(folder, tmp_path, "prompted", prompted={"examples": 3})
    turns = examples_of(run)
    assert len(turns) == 3
    assert turns == examples_of(run)
    assert all(turn.reflection for turn in turns)
    assert not excluded_states(run).intersection(turn.observation.state for turn in turns)
    assert examples_of(config(folder, tmp_path, "prompted")) == []


def test_a_question_that_is_too_long_names_its_state_and_what_to_set(folder, tmp_path, model):
    run = config(folder, tmp_path, "prompted", prompted={"examples": 1})
    (turn,) = examples_of(run)
    long = View(Observation("You are at 3. " + "It is dark. " * 400, ("left", "right"), "3"), (0, 1))
    begins = r"whose state begins 'You are at 3\. It is dark.*' has \d+ tokens and "
    for examples, named in (([turn], r" holds 2048\. Lower prompted\.examples\. Set "), ([], r" holds 2048\. Set ")):
        with pytest.raises(ModelError, match=begins + "160 are to follow.*" + named):
            decide(PromptedPolicy(model, "Walk.", examples), SEEN, long)
        with pytest.raises(ModelError, match=begins + "96 are to follow.*" + named):
            PromptedReflector(model, run.env, examples=examples).reflect([SEEN, long])
    # The questions alone would fit.
    with pytest.raises(ModelError, match=r"You are at 3\.' has .*Lower prompted\.max_new_tokens\. Set "):
        decide(PromptedPolicy(model, "Walk.", max_new_tokens=2040), SEEN)
    with pytest.raises(ModelError, match=r"Lower reflector\.max_new_tokens or prompted\.examples\. Set "):
        PromptedReflector(model, run.env, 2040, examples=[turn]).reflect([SEEN])


def test_examples_stand_between_the_rules_and_the_state(folder, tmp_path, model, asked):
    run = config(folder, tmp_path, "prompted", prompted={"examples": 2})
    turns = examples_of(run)
    policy = PromptedPolicy(model, "Walk.", turns)
    decide(policy, SEEN)
    writer = PromptedReflector(model, run.env, examples=turns)
    assert writer.reflect([View(SEEN.observation, ())]) == ["I go on. Action: 1"]
    acted, wrote = asked["texts"]
    for turn in turns:
        thought = f"# Answer\n{turn.reflection}\nAction: {turn.decision.index}\n"
        assert acted.index("# How to answer") < acted.index(thought) < acted.rindex("You are at 3.")
        assert f"# Advice\n{turn.reflection}\n" in wrote
        # A reflection is the answer, and no part of the question.
        assert f"# Advice\n{turn.reflection}" not in acted
    assert policy.origin["answers"] == "text, 2 examples"


def test_the_model_goes_on_in_its_mode(model):
    model.model.train()
    writer = PromptedReflector(model, parse(RunConfig, {"environment": {"name": "corridor"}}).env, max_new_tokens=3)
    (text,) = writer.reflect([View(SEEN.observation, ())])
    assert text is not None
    assert "\n" not in text
    assert model.model.training
    model.model.eval()


def test_a_question_that_does_not_fit_is_refused(model):
    with pytest.raises(ModelError, match="the model's context holds 2048"):
        PromptedPolicy(model, "Walk. " * 2000).decide([SEEN], [np.random.default_rng(0)])


def test_mistakes(folder, tmp_path):
    run = config(folder, tmp_path, "prompted", model={"path": "embedded"})
    with pytest.raises(ConfigError, match="the embedded one has learned nothing"):
        check(run)
    with pytest.raises(ConfigError, match="the embedded one has learned nothing"):
        check(config(folder, tmp_path, "reflect_rl", model={"path": "embedded"}, reflector={"kind": "prompted"}))
    run = config(folder, tmp_path, "prompted", environment={"name": "guess:Guess"}, prompted={"examples": 2})
    with pytest.raises(ConfigError, match=r"prompted.examples: guess has no solver whose 2 turns"):
        check(run)
    # Who asks nobody may leave the section as it is.
    check(config(folder, tmp_path, "random", prompted={"examples": 2}))


def test_a_prompted_model_is_evaluated_without_training(folder, tmp_path):
    run = config(folder, tmp_path / "run", "prompted", "prompted_reflect")
    check(run)
    open_run(run, "test")
    jobs = [job for job in plan(run) if not job.done]
    assert [f"{job.kind} {job.name}".strip() for job in jobs] == ["data", "eval prompted", "eval prompted_reflect"]
    for job in jobs:
        execute(job, run, lambda done, total, note: None)
    for job in jobs[1:]:
        rows = json.loads((job.folder / "rows.json").read_text())
        assert {(row["method"], row["decoding"], row["model"]) for row in rows} == {(job.name, "greedy", str(folder))}
        assert {row["remote"]["answers"] for row in rows} == {"text, 0 examples"}
        assert all(row["episodes"] > 0 for row in rows)
