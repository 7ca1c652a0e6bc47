"""Unusual architectures have the scores, gradients and texts of plain passes, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BartConfig,
    BertGenerationConfig,
    CpmAntConfig,
    DogeConfig,
    FalconConfig,
    GPTNeoConfig,
    Llama4TextConfig,
    OpenAIGPTConfig,
    PegasusConfig,
    Phi3Config,
    PreTrainedConfig,
    PreTrainedModel,
    xLSTMConfig,
)

from reflect_rl.config import ModelConfig
from reflect_rl.errors import ModelError
from reflect_rl.models.generate import _groups, generate
from reflect_rl.models.load import LanguageModel, forked_rng, load_model
from reflect_rl.models.network import reads_trees
from reflect_rl.models.score import check_scoring, completion_losses, score
from tiny_models import save_tiny, tiny_tokenizer

CONTEXT = 64
# The second begins as the first, the third is short.
PROMPTS = [list(range(5, 35)), [*range(5, 30), 60, 61, 62, 63], [70, 71, 72]]
ACTIONS = [[[20, 21, 0], [20, 21, 22, 0], [24, 0]]] * 3
NAMES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
KEYS = {"num_key_value_heads": 1, "max_position_embeddings": CONTEXT}
DECODER = {
    "d_model": 16,
    "decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": CONTEXT,
}

Load = Callable[[PreTrainedConfig], tuple[LanguageModel, PreTrainedModel]]


@pytest.fixture
def loaded(tmp_path) -> Load:
    """A function that loads a tiny model of a configuration as we do, and as transformers does."""
    tokenizer = tiny_tokenizer("gpt2")

    def load(config: PreTrainedConfig) -> tuple[LanguageModel, PreTrainedModel]:
        config.vocab_size = len(tokenizer)
        with forked_rng(0):
            made: Any = AutoModelForCausalLM.from_config(config)
        # Weights of the usual size give nearly uniform distributions, on which mistakes would not show.
        with torch.no_grad():
            for weight in made.parameters():
                weight.mul_(4 if weight.dim() > 1 else 1)
        made.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        ours = load_model(ModelConfig(device="cpu"), tmp_path, trainable=True)
        return ours, AutoModelForCausalLM.from_pretrained(tmp_path).eval()

    return load


def neo(window: int, kind: str = "local") -> GPTNeoConfig:
    types = [[["global", kind], 1]]
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_layers": 2, "num_heads": 2, "attention_types": types}
    return GPTNeoConfig(**shape, window_size=window, max_position_embeddings=512, **ENDS)


ENDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
FALCON = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, **ENDS}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1, "intermediate_size_mlp": 32, "head_dim": 8}
CONFIGS = {
    "gpt-neo": neo(4),
    "openai-gpt": OpenAIGPTConfig(n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2),
    "falcon": FalconConfig(**FALCON),
    "falcon with alibi": FalconConfig(**FALCON, alibi=True),
    "llama4_text": Llama4TextConfig(**NAMES | KEYS | EXPERTS | ENDS),
    "doge": DogeConfig(**NAMES | KEYS | ENDS),
    "bart": BartConfig(**DECODER, **ENDS),
}


def alone(plain: PreTrainedModel, prompt: list[int], actions: list[list[int]]) -> torch.Tensor:
    """log π(a|s) under `sum`, from a pass for each action."""
    raw = []
    for action in actions:
        logits = plain(torch.tensor([prompt + action])).logits[0].log_softmax(-1)
        raw.append(logits[len(prompt) - 1 + torch.arange(len(action)), torch.tensor(action)].sum())
    return torch.stack(raw).log_softmax(-1)


@torch.no_grad()
def written(plain: PreTrainedModel, prompt: list[int], count: int) -> list[int]:
    """The likeliest tokens after a prompt, each from a whole pass, up to the end token."""
    new: list[int] = []
    while len(new) < count and new[-1:] != [0]:
        new.append(int(plain(torch.tensor([prompt + new])).logits[0, -1].argmax()))
    return new


@pytest.mark.parametrize("name", CONFIGS)
def test_scores_and_gradients_are_those_of_plain_passes(loaded, name, monkeypatch):
    # Whatever reads trees reads the beginning of the first two prompts once.
    monkeypatch.setattr("reflect_rl.models.network.REUSE_WIDTH", 1)
    monkeypatch.setattr("reflect_rl.models.score.REUSE_TOKENS", 1)
    ours, plain = loaded(CONFIGS[name])
    check_scoring(ours)
    found = score(ours, PROMPTS, ACTIONS, "sum").log_probs
    expected = torch.stack([alone(plain, prompt, actions) for prompt, actions in zip(PROMPTS, ACTIONS, strict=True)])
    assert float(expected.detach().exp().std(1).min()) > 1e-3
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    for table in (found, expected):
        (table * torch.tensor([1.0, -2.0, 0.5])).sum().backward()
    for (part, weight), theirs in zip(ours.model.named_parameters(), plain.parameters(), strict=True):
        assert (weight.grad is None) == (theirs.grad is None), part
        if theirs.grad is not None:
            torch.testing.assert_close(weight.grad, theirs.grad, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("name", CONFIGS)
def test_texts_are_those_of_each_prompt_alone(loaded, name):
    ours, plain = loaded(CONFIGS[name])
    expected = [written(plain, prompt, 6) for prompt in PROMPTS]
    assert len({tuple(new) for new in expected}) > 1
    assert generate(ours, PROMPTS, 6) == expected


@pytest.mark.parametrize(("kind", "reads"), [("local", False), ("global", True)])
def test_a_window_shows_that_is_wider_than_the_tree(loaded, kind, reads):
    ours, _ = loaded(neo(256, kind))
    assert reads_trees(ours) == reads


def test_the_search_for_a_window_leaves_the_model_in_training(loaded):
    ours, _ = loaded(neo(4))
    ours.model.train()
    del vars(ours.model)["_reflect_rl_reads_trees"]
    assert not reads_trees(ours)
    assert all(module.training for module in ours.model.modules())


@pytest.mark.parametrize("config", [BartConfig(**DECODER), PegasusConfig(**DECODER), xLSTMConfig(hidden_size=16)])
def test_models_that_count_columns_write_prompts_of_one_length_together(config):
    with torch.device("meta"):
        model = LanguageModel(AutoModelForCausalLM.from_config(config), tiny_tokenizer("gpt2"))
    assert list(_groups(model, [9, 5, 9, 5, 7], 100)) == [[1, 3], [4], [0, 2]]


def test_models_that_are_given_positions_write_prompts_of_all_lengths_together(tmp_path):
    model = load_model(ModelConfig(device="cpu"), save_tiny("gpt2", tmp_path), trainable=False)
    assert list(_groups(model, [9, 5, 9, 5, 7], 100)) == [[1, 3, 4, 0, 2]]


def longrope() -> Phi3Config:
    factors = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    shape = NAMES | KEYS | ENDS
    return Phi3Config(**shape, original_max_position_embeddings=20, rope_scaling=factors)


@torch.no_grad()
def test_the_context_of_longrope_ends_with_its_short_factors(loaded):
    ours, plain = loaded(longrope())
    prompts = [list(range(5, 21)), list(range(30, 35))]
    expected = torch.stack([alone(plain, prompt, ACTIONS[0]) for prompt in prompts])
    torch.testing.assert_close(score(ours, prompts, ACTIONS[:2], "sum").log_probs, expected, atol=1e-5, rtol=0)
    assert generate(ours, prompts, 4) == [written(plain, prompt, 4) for prompt in prompts]
    with pytest.raises(ModelError, match=r"16 tokens and 5 are to follow, .* holds 20 with LongRoPE's short factors\."):
        generate(ours, prompts, 5)
    for refused in (
        lambda: score(ours, [*prompts, list(range(21))], [[[3], [4]]] * 3),
        lambda: completion_losses(ours, [list(range(21))], [[0] * 20 + [1]]),
    ):
        with pytest.raises(ModelError, match=r"21 tokens, the model's context holds 20 with LongRoPE's"):
            refused()


@pytest.mark.parametrize(
    "config",
    [
        BertGenerationConfig(**NAMES, max_position_embeddings=CONTEXT, is_decoder=False, **ENDS),
        CpmAntConfig(hidden_size=16, dim_ff=32, num_hidden_layers=2, num_attention_heads=2, dim_head=8),
    ],
)
def test_models_that_look_at_later_tokens_are_refused(loaded, config):
    ours, _ = loaded(config)
    with pytest.raises(ModelError, match=rf"'{config.model_type}' model .* no causal language model\. Choose"):
        check_scoring(ours)


def test_a_causal_one_of_the_same_type_is_not(loaded):
    ours, _ = loaded(BertGenerationConfig(**NAMES, max_position_embeddings=CONTEXT, is_decoder=True, **ENDS))
    check_scoring(ours)
