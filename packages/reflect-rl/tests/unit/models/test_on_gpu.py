"""What only a GPU can show: captured passes compute what others do, and a capture that fails harms nothing."""

from __future__ import annotations

import pytest
import torch

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models.decode import written
from reflect_rl.models.generate import generate
from reflect_rl.models.graphs import SEEN, Graphs, captured
from reflect_rl.models.load import LanguageModel, forked_rng, load_model
from reflect_rl.models.network import GRAPHS, backbone
from reflect_rl.models.score import check_scoring, score
from tiny_models import save_tiny

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

ACTIONS = (((7,), (9,), (11,)),)


@pytest.fixture(params=["llama", "gpt2", "qwen"])
def folder(request, tmp_path) -> str:
    return str(save_tiny(request.param, tmp_path / "model"))


def on(device: str, folder: str) -> LanguageModel:
    model = load_model(ModelConfig(device=device, lora=LoRAConfig(rank=2)), folder, trainable=True)
    for name, weight in model.model.named_parameters():
        if "lora_B" in name:
            weight.data.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name))))
    return model


def prompts(model: LanguageModel) -> list[list[int]]:
    return [model.encode(f"Taxi at {number} 4. Blocked: east.") for number in range(5)]


def gradients(model: LanguageModel, passes: int) -> list[torch.Tensor]:
    model.model.zero_grad(set_to_none=True)
    for _ in range(passes):
        # Held until the next one is there, as training loops do.
        loss = -score(model, prompts(model), ACTIONS * 5).log_probs[:, 0].sum()
        loss.backward()
    return [weight.grad.cpu() for weight in model.model.parameters() if weight.grad is not None]


def test_captured_gradients_are_those_of_a_processor_also_within_a_step(folder):
    gpu, cpu = on("cuda", folder), on("cpu", folder)
    gradients(gpu, SEEN + 2)
    held: Graphs = vars(gpu.model)[GRAPHS]
    assert held.passes
    assert all(one is not None for one in held.passes.values())
    for ours, theirs in zip(gradients(gpu, 2), gradients(cpu, 2), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_captured_texts_are_those_of_a_processor(folder):
    gpu, cpu = on("cuda", folder), on("cpu", folder)
    assert generate(gpu, prompts(gpu), 20) == generate(cpu, prompts(cpu), 20)


def test_what_is_drawn_comes_from_the_seed(folder):
    model = on("cuda", folder)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            drawn.append(written(model, prompts(model), 20, sampled=True).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def ask_the_processor(*_: object) -> None:
    torch.ones(1, device="cuda").item()


def test_a_model_that_cannot_be_captured_runs_as_it_is_and_numbers_are_still_drawn(folder):
    model = on("cuda", folder)
    expected = generate(model, prompts(model), 20)
    other = on("cuda", folder)
    backbone(other.model).register_forward_hook(ask_the_processor)
    with pytest.warns(UserWarning, match="cannot be captured"):
        assert generate(other, prompts(other), 20) == expected
    assert torch.rand(3, device="cuda").shape == (3,)
    torch.nn.functional.dropout(torch.ones(9, device="cuda"), 0.5)


def test_a_capture_draws_nothing():
    place = torch.zeros(3, device="cuda")
    torch.manual_seed(3)
    expected = torch.rand(2, device="cuda")
    torch.manual_seed(3)
    (replay,) = captured(place.device, None, lambda: place.copy_(torch.rand(3, device="cuda")))
    assert torch.equal(torch.rand(2, device="cuda"), expected)
    replay()
    assert place.abs().sum() > 0


def test_passes_of_other_shapes_share_the_memory_of_their_activations(folder):
    model, held = on("cuda", folder), []
    for rows in (48, 32, 24, 16):
        long = [model.encode("Taxi at 0 4. Blocked: east.") * 4] * rows
        long = [[5 + row % 7, 5 + row // 7, *prompt] for row, prompt in enumerate(long)]
        for _ in range(SEEN + 1):
            (-score(model, long, ACTIONS * rows).log_probs[:, 0].sum()).backward()
        torch.cuda.synchronize()
        held.append(torch.cuda.memory_reserved())
    # Each keeps its own states and what it is given, but not its activations.
    assert max(held) < 1.5 * held[0]


def test_scoring_is_proved_in_bfloat16(folder):
    model = load_model(ModelConfig(device="cuda", precision="bfloat16"), folder, trainable=False)
    check_scoring(model)


def test_a_seed_is_that_of_the_texts_which_are_drawn(folder):
    gpu = on("cuda", folder)

    def drawn(seed: int) -> list[list[int]]:
        with forked_rng(seed, gpu.device):
            return generate(gpu, prompts(gpu), 20, sampled=True)

    first = drawn(0)
    torch.randn(3, device="cuda")
    assert drawn(0) == first
    assert drawn(1) != first
