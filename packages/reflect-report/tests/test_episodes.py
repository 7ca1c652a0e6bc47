"""Pairing of methods on the same starts, and the sample of episodes for the page."""

import json
from pathlib import Path
from typing import Any

import pytest

from reflect_report.episodes import Verdict, compare, read_verdicts, sample
from reflect_report.runs import read_run

from .conftest import episode_row, result_row, write_json, write_lines


def verdict(method: str, task: str, success: bool, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "benchmark": "dangerous_taxi",
        "environment": "dangerous_taxi-v1",
        "label_source": "clean",
        "demonstration_starts": 100,
        "split": "test",
        "run_seed": 0,
        "algorithm": "none",
        "model": "tiny",
        "mode": "full",
        "decoding": "sampled",
        "horizon": 30,
        "episode_seed": 0,
        "turns": 10,
        "path": Path("unused"),
        "offset": 0,
    }
    return Verdict(**(fields | changes), method=method, task=task, success=success)


def test_only_shared_starts_are_compared() -> None:
    verdicts = [verdict("reflect_rl", task, True) for task in "abcd"]
    verdicts += [verdict("sft", task, task == "b") for task in "bcdx"]
    (comparison,) = compare(verdicts, "full", horizon=30)
    # b, c, d are shared: 3/3 against 1/3; two discordant pairs, p = 2 * 1/4.
    assert comparison.result.pairs == 3
    assert (comparison.reference_rate, comparison.method_rate) == (1.0, pytest.approx(1 / 3))
    assert comparison.result.p_value == 0.5


def test_a_win_after_the_horizon_is_a_loss() -> None:
    verdicts = [verdict("reflect_rl", "a", True, turns=16), verdict("sft", "a", True, turns=15)]
    (comparison,) = compare(verdicts, "full", horizon=15)
    assert (comparison.reference_rate, comparison.method_rate) == (0.0, 1.0)


def test_seeds_and_decodings_are_not_mixed_up() -> None:
    verdicts = [
        verdict("reflect_rl", "a", True, run_seed=0),
        verdict("reflect_rl", "a", False, run_seed=1),
        verdict("sft", "a", False, run_seed=0),
        verdict("sft", "a", False, run_seed=1),
        verdict("reflect_rl", "a", True, decoding="greedy"),
        verdict("sft", "a", True, decoding="greedy"),
    ]
    sampled, greedy = compare(verdicts, "full", horizon=30)
    assert (sampled.decoding, sampled.result.pairs, sampled.reference_rate) == ("sampled", 2, 0.5)
    assert (greedy.decoding, greedy.result.pairs, greedy.result.difference) == ("greedy", 1, 0.0)


def test_an_episode_is_never_judged_beyond_the_horizon_it_was_played_to() -> None:
    short = [verdict(method, "a", False, turns=3, horizon=3) for method in ("reflect_rl", "sft")]
    whole = [verdict(method, "a", True, horizon=20) for method in ("reflect_rl", "sft")]
    assert compare(short, "full", horizon=20) == []
    for verdicts in (short + whole, whole + short):
        (comparison,) = compare(verdicts, "full", horizon=20)
        assert (comparison.reference_rate, comparison.method_rate, comparison.result.pairs) == (1.0, 1.0, 1)
    # At the shorter one, longer episodes have a beginning that counts; without a known horizon, all of them do.
    (comparison,) = compare([*short[:1], whole[1]], "full", horizon=3)
    assert (comparison.reference_rate, comparison.method_rate) == (0.0, 0.0)
    unknown = [verdict(method, "a", True, horizon=None) for method in ("reflect_rl", "sft")]
    assert len(compare(unknown, "full", horizon=99)) == 1


def test_games_and_splits_are_compared_one_by_one() -> None:
    conditions = [{"benchmark": "corridor"}, {}, {"split": "validation"}]
    verdicts = [
        verdict(method, "a", True, **changes) for changes in conditions for method in ("reflect_rl", "sft", "oracle")
    ]
    found = [(c.benchmark, c.split, c.method, c.result.pairs) for c in compare(verdicts, "full", horizon=30)]
    assert found == [
        (benchmark, split, method, 1)
        for benchmark, split in (
            ("corridor", "test"),
            ("dangerous_taxi", "test"),
            ("dangerous_taxi", "validation"),
        )
        for method in ("oracle", "sft")
    ]


def test_each_model_is_compared_with_itself_and_with_players_that_have_none() -> None:
    verdicts = [verdict(method, "a", model == "b", model=model) for method in ("reflect_rl", "sft") for model in "ab"]
    verdicts += [verdict("oracle", "a", True, model="none"), verdict("sft_rlft", "a", True, model="a")]
    found = [(c.model, c.label, c.reference_rate, c.method_rate) for c in compare(verdicts, "full", horizon=30)]
    assert found == [
        ("a", "Oracle", 0.0, 1.0),
        ("a", "SFT (a)", 0.0, 0.0),
        ("a", "SFT + RLFT", 0.0, 1.0),
        ("b", "Oracle", 1.0, 1.0),
        ("b", "SFT (b)", 1.0, 1.0),
    ]


def test_each_algorithm_is_compared_with_the_start_and_once_with_each_other() -> None:
    verdicts = [verdict("sft_reflect", task, False) for task in "ab"]
    for name, wins in (("ppo", "ab"), ("grpo", "a"), ("rloo", "")):
        verdicts += [verdict("reflect_rl", task, task in wins, algorithm=name) for task in "ab"]
    found = [(c.algorithm_label, c.label, c.result.difference) for c in compare(verdicts, "full", horizon=30)]
    assert found == [
        ("RLOO", "SFT, reflection", 0.0),
        ("GRPO", "SFT, reflection", 0.5),
        ("PPO", "SFT, reflection", 1.0),
        ("GRPO", "RLOO", 0.5),
        ("PPO", "RLOO", 1.0),
        ("PPO", "GRPO", 0.5),
    ]


def test_another_method_is_compared_where_the_same_algorithm_trained_it() -> None:
    verdicts = [
        verdict(method, "a", True, algorithm=name) for method in ("reflect_rl", "rlft") for name in ("ppo", "grpo")
    ]
    found = [(c.algorithm_label, c.label) for c in compare(verdicts, "full", horizon=30) if c.method == "rlft"]
    assert found == [("GRPO", "RLFT (GRPO)"), ("PPO", "RLFT (PPO)")]


def test_another_reference_is_compared_with_all_methods() -> None:
    verdicts = [verdict("reflect_rl_lexical", task, True) for task in "ab"]
    verdicts += [verdict("reflect_rl", task, task == "a") for task in "ab"]
    (comparison,) = compare(verdicts, "full", 30, "reflect_rl_lexical")
    assert (comparison.label, comparison.result.difference) == ("Reflect-RL", 0.5)
    (opposite,) = compare(verdicts, "full", 30)
    assert (opposite.label, opposite.result.difference) == ("Reflect-RL, lexical", -0.5)


def test_without_the_reference_there_is_nothing_to_compare() -> None:
    assert compare([verdict("sft", "a", True), verdict("rlft", "a", True)], "full", horizon=30) == []


def write_episodes(run_folder: Path, rows: list[dict[str, Any]], method: str = "reflect_rl") -> Path:
    path = run_folder / "starts-100" / "seed-0" / "evaluation" / method / "episodes.jsonl"
    write_lines(path, rows)
    return path


def test_unreadable_and_repeated_lines_are_left_out(bare_run: Path) -> None:
    path = write_episodes(bare_run, [episode_row(), episode_row(success=False), {"mode": "full"}])
    with path.open("a") as lines:
        lines.write('{"task": {"key"')
    verdicts, skipped = read_verdicts(read_run(bare_run))
    assert [v.success for v in verdicts] == [True]
    assert list(skipped.values()) == [2]


def test_the_results_of_an_episode_tell_its_game_model_and_horizon(bare_run: Path) -> None:
    games = [{"benchmark": name, "fingerprint": f"{name}-v1", "model": name[0]} for name in ("corridor", "guess")]
    rows = [result_row(horizon=horizon, **games[0]) for horizon in (30, 15)]
    rows += [result_row(horizon=20, **games[1]), result_row(horizon=9, split="validation", **games[1])]
    write_json(bare_run / "results.json", rows)
    tasks = [{"key": "full/137", "split": split} for split in ("test", "validation")]
    lines = [
        episode_row(environment="corridor-v1"),
        episode_row(environment="corridor-v1", horizon=3),
        episode_row(environment="guess-v1"),
        episode_row(environment="guess-v1", task=tasks[1]),
        episode_row(environment="guess-v1", task=tasks[1], mode="pickup"),
    ]
    path = write_episodes(bare_run, lines)
    found = [(v.benchmark, v.model, v.split, v.horizon) for v in read_verdicts(read_run(bare_run))[0]]
    assert found == [
        ("corridor", "c", "test", 30),
        ("corridor", "c", "test", 3),
        ("guess", "g", "test", 20),
        ("guess", "g", "validation", 9),
        ("guess", "none", "validation", None),
    ]
    # The results beside the episodes know better than those of the run, which may be of an earlier time.
    write_json(path.with_name("rows.json"), [result_row(horizon=50)])
    assert read_verdicts(read_run(bare_run))[0][0].horizon == 50


def test_the_results_of_an_episode_tell_its_label_source(bare_run: Path) -> None:
    rows = {"rlft": "none", "reflect_rl": "recorded"}
    for method, source in rows.items():
        folder = bare_run / "starts-100/seed-0/evaluation" / method
        write_lines(folder / "episodes.jsonl", [episode_row()])
        write_json(folder / "rows.json", [result_row(method=method, label_source=source)])
    # The folder of a training from Python has no configuration that names one for all.
    verdicts, _ = read_verdicts(read_run(bare_run))
    assert {verdict.method: verdict.label_source for verdict in verdicts} == rows


def test_episodes_of_several_conditions_can_be_told_apart(bare_run: Path) -> None:
    write_episodes(bare_run, [episode_row(), episode_row(horizon=3)])
    episodes = json.loads(sample(read_verdicts(read_run(bare_run))[0], 10**6)[0])["episodes"]
    group = "label source clean, 100 starts, seed 0, horizon"
    assert [episode["group"] for episode in episodes] == [f"{group} 30", f"{group} 3"]


def test_a_line_with_too_few_probabilities_is_left_out(bare_run: Path) -> None:
    row = episode_row()
    row["turns"][1]["decision"] |= {"log_probs": [-0.1], "index": 3}
    write_episodes(bare_run, [row, episode_row(seed=8)])
    text, count = sample(read_verdicts(read_run(bare_run))[0], 10**6)
    assert (count, json.loads(text)["episodes"][0]["start"]) == (1, "full/137, seed 8")


def test_the_embedded_episode_holds_what_the_browser_shows(bare_run: Path) -> None:
    write_episodes(bare_run, [episode_row(success=False, truncated=True)])
    text, limit = sample(read_verdicts(read_run(bare_run))[0], 10**6)
    embedded = json.loads(text)
    (episode,) = embedded["episodes"]
    state, reflection, actions, order, probabilities, choice, reward = episode["turns"][1]
    assert limit == 1
    # The second turn chose the second action (0.2); the first one chose the first (0.5).
    assert episode["surprise"] == [1, 0.2]
    assert embedded["methods"] == [["reflect_rl", "Reflect-RL"]]
    assert embedded["texts"][state].endswith("Past actions: south")
    assert embedded["texts"][reflection] == "Taxi at 1 2. Next I should north."
    assert embedded["texts"][actions][choice] == "north"
    assert order == [2, 0, 1, 3, 5, 4]
    assert probabilities == [0.5, 0.2, 0.1, 0.1, 0.05, 0.05]
    assert reward == -0.05
    assert (episode["success"], episode["truncated"], episode["start"]) == (False, True, "full/137, seed 7")


def test_texts_are_stored_once(bare_run: Path) -> None:
    write_episodes(bare_run, [episode_row(seed=seed) for seed in range(4)])
    embedded = json.loads(sample(read_verdicts(read_run(bare_run))[0], 10**6)[0])
    assert len(embedded["episodes"]) == 4
    assert len(embedded["texts"]) == 5  # two states, two reflections, one list of actions


def test_players_without_distribution_or_reflection(bare_run: Path) -> None:
    row = episode_row()
    row["turns"][0]["decision"]["log_probs"] = None
    row["turns"][0]["reflection"] = None
    row["turns"][1]["decision"]["log_probs"] = [0.0, float("-inf"), None, float("nan"), -1e9, -1e9]
    write_episodes(bare_run, [row])
    first, second = json.loads(sample(read_verdicts(read_run(bare_run))[0], 10**6)[0])["episodes"][0]["turns"]
    assert (first[1], first[4]) == (None, None)
    assert second[4] == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_no_text_can_close_the_script_element(bare_run: Path) -> None:
    row = episode_row()
    row["turns"][0]["reflection"] = "</script><script>alert(1)</script><!--"
    write_episodes(bare_run, [row])
    text, _ = sample(read_verdicts(read_run(bare_run))[0], 10**6)
    assert "<" not in text
    assert "</script><script>alert(1)</script><!--" in json.loads(text)["texts"]


def test_where_the_room_ends_all_methods_have_shown_the_same_starts(bare_run: Path) -> None:
    for method in ("sft", "reflect_rl"):
        rows = [episode_row(seed=seed, mode=mode) for mode in ("pickup", "full") for seed in range(8)]
        write_episodes(bare_run, rows, method)
    verdicts, _ = read_verdicts(read_run(bare_run))
    full, count = sample(verdicts, 10**6)
    assert count == 32
    text, count = sample(verdicts, len(full) // 2)
    episodes = json.loads(text)["episodes"]
    assert 8 <= count == len(episodes) < 32
    # Rounds of four: each mode by each method, the same start in all.
    rounds = [episodes[at : at + 4] for at in range(0, count - 3, 4)]
    for number, played in enumerate(rounds):
        assert {episode["start"] for episode in played} == {f"full/137, seed {number}"}
        assert len({(episode["method"], episode["mode"]) for episode in played}) == 4
    assert sample(verdicts, 10)[1] == 0


def test_a_long_episode_leaves_its_room_to_shorter_ones(bare_run: Path) -> None:
    long = episode_row(seed=0)
    long["turns"] = [
        turn | {"observation": turn["observation"] | {"text": f"state {number}"}}
        for number, turn in enumerate(long["turns"] * 500)
    ]
    write_episodes(bare_run, [long, episode_row(seed=1)])
    text, count = sample(read_verdicts(read_run(bare_run))[0], 3000)
    embedded = json.loads(text)
    assert (count, [episode["start"] for episode in embedded["episodes"]]) == (1, ["full/137, seed 1"])
    assert not any("state 7" in text for text in embedded["texts"])


def test_a_player_without_probabilities_surprises_nobody(bare_run: Path) -> None:
    row = episode_row()
    for turn in row["turns"]:
        turn["decision"]["log_probs"] = None
    write_episodes(bare_run, [row])
    (episode,) = json.loads(sample(read_verdicts(read_run(bare_run))[0], 10**6)[0])["episodes"]
    assert episode["surprise"] is None
