"""Computed, not measured: memory and hours of online RL for larger models.

    python -m reflect_bench.sizes

Memory is `models.memory.estimate`: policy with adapters of rank 16, bfloat16, and the frozen reflection player beside
it. Hours are operations divided by a rate; decoding, games and waiting come on top. The rates of a processor and of a
GPU are measured (a LoRA step of SmolLM2-135M, its operations counted as here). Wider models may use more of a GPU.
Eight GPUs are taken as eight times as fast.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, PretrainedConfig, Qwen3Config

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models.memory import estimate
from reflect_rl.models.score import ACTIVATIONS_ON_CPU

PROMPT_TOKENS, REFLECTION_TOKENS = 300, 30
UNIQUE = 0.5
"""Share of different prompts among the turns of an update."""
TURNS = 100_000
RATES = {"2 CPU cores": 640e9, "one H100": 66e12, "eight H100": 8 * 66e12}
"""Operations a second; the first two are measured (docs/reference/speed.md)."""


def _llama(width: int, layers: int, inner: int, heads: int, shared: int, vocabulary: int) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        intermediate_size=inner,
        num_attention_heads=heads,
        num_key_value_heads=shared,
        vocab_size=vocabulary,
        tie_word_embeddings=vocabulary < 100_000,
    )


SHAPES: dict[str, PretrainedConfig] = {
    "SmolLM2-135M": _llama(576, 30, 1536, 9, 3, 49_152),
    "SmolLM2-360M": _llama(960, 32, 2560, 15, 5, 49_152),
    "SmolLM2-1.7B": _llama(2048, 24, 8192, 32, 32, 49_152),
    "Qwen3-4B": Qwen3Config(
        hidden_size=2560,
        num_hidden_layers=36,
        intermediate_size=9728,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151_936,
        tie_word_embeddings=True,
    ),
    "Llama-3.1-8B": _llama(4096, 32, 14_336, 32, 8, 128_256),
}


def operations_per_turn(parameters: int) -> float:
    """Operations of a turn: 2 for each weight and token forward, 4 in a step that trains adapters alone.

    One pass of the policy to act, one step to learn, and the reflection player's prompt and answer.

    >>> operations_per_turn(1)
    1230.0
    """
    learnt = UNIQUE * PROMPT_TOKENS * (2 + 4)
    return parameters * (learnt + 2 * UNIQUE * (PROMPT_TOKENS + REFLECTION_TOKENS))


def hours(parameters: int, rate: float) -> float:
    """Hours for 100,000 turns."""
    return TURNS * operations_per_turn(parameters) / rate / 3600


def main() -> None:
    """Print the table."""
    table = Table("model", "memory, GB", *(f"{name}, hours" for name in RATES), title="Computed, not measured")
    setting = ModelConfig(precision="bfloat16", lora=LoRAConfig(rank=16))
    for name, shape in SHAPES.items():
        need = estimate(shape, setting, models=2, micro_batch_tokens=1200, activations=ACTIVATIONS_ON_CPU)
        times = (f"{hours(need.parameters, rate):.2f}" for rate in RATES.values())
        table.add_row(name, f"{need.total / 1e9:.1f}", *times)
    Console().print(table)


if __name__ == "__main__":
    main()
