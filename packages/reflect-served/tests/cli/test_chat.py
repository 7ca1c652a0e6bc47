"""A run whose players are a chat model: measured beside the others, resumed without asking again, shown beforehand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from chat_server import ChatServer, walker
from reflect_rl.envs.corridor import MODES, Corridor
from toy import SMALL

CONFIG = """
methods = [{methods}]
seeds = [0, 1]
workers = 1
output_dir = "{folder}"

[environment]
name = "corridor"
length = 5
lengths = 2
max_episode_steps = 8

[data]
demonstration_starts = [2]

[evaluation]
horizons = [3, 8]
repetitions = 2

[endpoint]
base_url = "{url}"
model = "scripted"
price_input = 10
price_output = 100
"""


def stumbler(body: dict[str, Any]) -> str:
    """Walks to the goal, but at cell 2 it never gives an answer that can be read, unless it is advised."""
    text = body["messages"][-1]["content"]
    if "You are at 2" in text and "# Actions" in text and "# Advice" not in text:
        return "I go to the goal."
    return walker(body)


def written(tmp_path: Path, url: str, *methods: str, extra: str = "") -> tuple[Path, Path]:
    folder, path = tmp_path / "run", tmp_path / "config.toml"
    named = ", ".join(f'"{method}"' for method in methods)
    path.write_text(CONFIG.format(methods=named, folder=folder, url=url) + extra)
    return path, folder


def rows(folder: Path, method: str) -> list[dict[str, Any]]:
    return [row for row in json.loads((folder / "results.json").read_text()) if row["method"] == method]


def episodes(folder: Path, method: str, seed: int = 0) -> list[dict[str, Any]]:
    path = folder / f"starts-2/seed-{seed}/evaluation/{method}/episodes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_chat_players_are_measured_beside_the_others_and_nothing_is_asked_twice(call, tmp_path):
    with ChatServer(stumbler) as server:
        config, folder = written(tmp_path, server.url, "random", "chat", "chat_reflect")
        answer = call("run", config)
        assert answer.code == 0, answer
        bodies = [json.dumps(body, sort_keys=True) for body in server.requests]
        # Two seeds, two modes, shared states: still each request went out once.
        assert len(set(bodies)) == len(bodies) > 10
        shutil.rmtree(folder / "starts-2/seed-1/evaluation/chat")
        (folder / "starts-2/seed-0/evaluation/chat_reflect/done").unlink()
        before = rows(folder, "chat")
        assert call("eval", folder).code == 0
        assert len(server.requests) == len(bodies)
    key = ("mode", "decoding", "horizon", "seed", "successes", "episodes", "costs", "fingerprint")
    assert [{k: row[k] for k in key} for row in rows(folder, "chat")] == [{k: row[k] for k in key} for row in before]

    # Same tasks and seeds as the others; temperature 0 plays each task once.
    assert {row["decoding"] for row in rows(folder, "chat")} == {"greedy"}
    starts = {(e["task"]["key"], e["seed"]) for e in episodes(folder, "random")}
    assert {(e["task"]["key"], e["seed"]) for e in episodes(folder, "chat")} < starts
    assert {row["fingerprint"] for row in rows(folder, "chat")} == {
        row["fingerprint"] for row in rows(folder, "random")
    }

    for method, players in (("chat", 1), ("chat_reflect", 2)):
        played = episodes(folder, method)
        assert len(rows(folder, method)) == 2 * 2 * 2  # seeds, modes, horizons
        for row in rows(folder, method):
            own = [e for e in played if e["mode"] == row["mode"]]
            turns = sum(len(e["turns"]) for e in own) / len(own)
            invalid = [t["decision"]["index"] == -1 for e in own for t in e["turns"][: row["horizon"]]]
            found = row["costs"]
            assert found["invalid_answers"] == sum(invalid) / len(own)
            # The server counts 100 tokens for each prompt, 10 for each answer; 100 x 10 + 10 x 100 = 2000 millionths.
            assert found["answers"] == pytest.approx(players * turns)
            assert found["prompt_tokens"] == pytest.approx(100 * players * turns)
            assert found["completion_tokens"] == pytest.approx(10 * players * turns)
            assert found["cost"] == pytest.approx(0.002 * players * turns)
            assert 0 < found["seconds_per_answer"] <= 10
            assert 0 < found["seconds_per_answer_p95"] <= 10
            assert "turns_per_second" not in row
            assert (row["model"], row["algorithm"]) == ("scripted", "none")
            assert row["remote"]["endpoint"].startswith("127.0.0.1:")
            assert (row["remote"]["answers"], row["remote"]["chat_template"]) == ("text", 2)
    assert all(row["success_rate"] == 1 for row in rows(folder, "chat_reflect") if row["horizon"] == 8)
    assert not any("costs" in row for row in rows(folder, "random"))

    # Those that pass cell 2 stay there, an invalid answer a turn, until the horizon.
    stuck = [e for e in episodes(folder, "chat") if any(t["decision"]["index"] == -1 for t in e["turns"])]
    assert stuck
    assert not any(e["success"] for e in stuck)
    assert {len(e["turns"]) for e in stuck} == {8}
    assert sum(row["costs"]["invalid_answers"] for row in rows(folder, "chat")) > 0
    assert "I go to the goal." in {t["decision"]["answer"] for t in stuck[0]["turns"]}

    page = (folder / "report.html").read_text()
    for words in ("Chat model, reflection", "invalid answers", "price of 1,000", "ms per answer, p95"):
        assert words in page
    assert "Costs, corridor far" in answer.output
    assert (folder / "endpoint/requests.sqlite").exists()
    assert "OPENAI" not in (folder / "config.json").read_text().replace("OPENAI_API_KEY", "")
    assert call("eval", folder, "--endpoint.model", "another").mistake.count("endpoint.model") == 1


def test_another_machine_is_refused_without_leave_and_no_chat_model_is_a_mistake(call, tmp_path):
    config, folder = written(tmp_path, "https://api.example.org/v1", "chat")
    mistake = call("run", config).mistake
    assert "api.example.org" in mistake
    assert "allow_remote = true" in mistake
    assert not folder.exists()
    config, folder = written(tmp_path, "", "random", "chat")
    assert "endpoint.base_url: 'chat' asks a chat model" in call("run", config).mistake
    assert not folder.exists()


@pytest.mark.parametrize("verb", ["run", "eval", "rlft"])
def test_a_dry_run_shows_what_would_be_sent_and_sends_and_writes_nothing(call, tmp_path, verb):
    with ChatServer(walker) as server:
        config, folder = written(tmp_path, server.url, "random", "chat_reflect")
        shown = call(verb, config, "--dry-run")
        assert shown.code == 0
        assert server.requests == []
    assert not folder.exists()
    # Each test task once, at most 8 turns: so many answers of each player.
    count = 8 * sum(len(Corridor(SMALL).tasks(mode, "test")) for mode in MODES)
    for player in ("reflections", "actions"):
        assert f"chat_reflect, {player}: at most {count} requests" in shown.output
    for words in ("127.0.0.1:", "scripted", "You walk in a corridor", "price at most"):
        assert words in shown.output


def test_a_dry_run_is_a_switch_and_not_for_every_verb(call, tmp_path):
    config, _ = written(tmp_path, "http://127.0.0.1:1/v1", "chat")
    assert "--dry-run is a switch" in call("eval", config, "--dry-run=maybe").mistake
    assert "'maybe' is neither true nor false" in call("eval", config, "--dry-run", "maybe").mistake
    assert "unknown flag --dry-run" in call("sft", config, "--dry-run").mistake


def test_one_can_watch_a_chat_model_play(call, tmp_path):
    with ChatServer(stumbler) as server:
        config, _ = written(tmp_path, server.url, "chat")
        shown = call("play", config, "--player", "chat", "--mode", "far")
    assert shown.code == 0
    assert "Answer: The goal is to the" in shown.output
