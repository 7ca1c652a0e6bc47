"""TRL's GRPOTrainer on household games with a tiny model; and the tools alone."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from alfworld_native import GameError, generate_games, open_game
from alfworld_native.compat.experts import shortest_plan
from alfworld_native.trainers.trl import HouseholdTools, rows

EXAMPLE = Path(__file__).parents[2] / "examples" / "trl_grpo.py"


def plan(number):
    return shortest_plan(open_game(generate_games("train", 1, first=number)[0]).start())


def test_the_tools_play_a_game_to_its_reward():
    tools = HouseholdTools()
    with pytest.raises(GameError, match="call reset"):
        tools.act("look")
    row = rows(3)[2]
    assert "Commands: " in tools.reset(**row)
    with pytest.raises(GameError, match="a command is a text such as 'look', not 3"):
        tools.act(3)
    for command in plan(2):
        assert tools.get_reward() == 0.0
        told = tools.act(command)
    assert told.endswith("The game is over.")
    assert tools.get_reward() == 1.0
    # After the end nothing changes.
    assert tools.act("look") == told


def test_a_row_without_a_game_is_refused():
    with pytest.raises(TypeError, match="'game'"):
        HouseholdTools().reset(prompt=[])


def test_an_episode_ends_with_its_commands():
    tools = HouseholdTools()
    tools.reset(game=0, max_episode_steps=2)
    assert "Commands: " in tools.act("look")
    assert tools.act("look").endswith("The game is over.")
    assert tools.get_reward() == 0.0


@pytest.fixture
def tiny(tmp_path):
    """A model of a few thousand weights, whose tokens are bytes, with a chat template that has tools."""
    trl = pytest.importorskip("trl")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(letters)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bytes_only.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytes_only, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    tokenizer.chat_template = template.read_text()
    config = transformers.Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16384,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = transformers.Qwen2ForCausalLM(config)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.filterwarnings("ignore")
def test_three_steps_of_grpo_pay_the_rollout_that_wins(tiny, tmp_path, monkeypatch):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    number = min(range(30), key=lambda each: len(plan(each)))
    winning = plan(number)
    settings = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=3,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=8192,
        max_tool_calling_iterations=len(winning),
        learning_rate=1e-3,
        report_to="none",
        use_cpu=True,
        save_strategy="no",
        logging_steps=1,
    )
    trainer = GRPOTrainer(
        model=str(tiny),
        args=settings,
        train_dataset=Dataset.from_list([rows(1, first=number)[0]] * 6),
        environment_factory=HouseholdTools,
    )
    tokenizer = trainer.processing_class
    turns = {"next": 0}

    def spoken(prompt_ids, *_, **__):
        # The tiny model cannot write a call, so this does: the first rollout wins, the second looks around.
        turn = (
            0 if len(prompt_ids) == 2 and not any("tool_response" in tokenizer.decode(ids) for ids in prompt_ids) else 1
        )
        turns["next"] = 0 if turn == 0 else turns["next"] + 1
        ids = []
        for at in range(len(prompt_ids)):
            command = winning[turns["next"]] if at == 0 and turns["next"] < len(winning) else None
            text = call(command) if command else "done"
            ids.append(tokenizer(f"{text}<|im_end|>")["input_ids"])
        return ids, None

    def call(command):
        return f"<tool_call>\n{json.dumps({'name': 'act', 'arguments': {'command': command}})}\n</tool_call>"

    monkeypatch.setattr(trainer, "_generate_single_turn", spoken)
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    logs = [log for log in trainer.state.log_history if "reward" in log]
    assert trainer.state.global_step == 3
    # One of two rollouts won in every step.
    assert [log["reward"] for log in logs] == [0.5, 0.5, 0.5]
    assert all(log["tools/failure_frequency"] == 0 for log in logs)
    assert any(not weight.equal(before[name]) for name, weight in trainer.model.named_parameters())


@pytest.mark.filterwarnings("ignore")
def test_the_example_trains(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # Short answers of two rollouts keep the random model's talk short; the rest of the script is as it stands.
    small = 'per_device_train_batch_size=2, num_generations=2, use_cpu=True, save_strategy="no", output_dir'
    script = tmp_path / "script.py"
    script.write_text(EXAMPLE.read_text().replace("4096", "16").replace("output_dir", small))
    monkeypatch.setattr(sys, "argv", ["trl_grpo.py", str(tiny), "3"])
    runpy.run_path(str(script))
    assert "train_runtime" in capsys.readouterr().out
