"""Hidden states below the trained blocks are read once; scores, losses and gradients stay what they were."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reflect_rl.config import LoRAConfig, ModelConfig
from reflect_rl.models import network
from reflect_rl.models.frozen import FROZEN, FrozenBlocks, frozen_of
from reflect_rl.models.kept import Kept
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.score import completion_losses, score
from reflect_rl.training.learner import no_dropout
from tiny_models import KINDS, save_tiny

FIRST = tuple(range(30, 42))
PROMPTS = [FIRST, (*FIRST, 50, 51, 52), (60, 61, 62, 63, 64, 65), (70, 71, 72, 73)]
LABELS = [[[20], [21], [22]]] * len(PROMPTS)
MASKS = [[0] * (len(prompt) - 3) + [1, 0, 1] for prompt in PROMPTS]
Pass = Callable[[LanguageModel], torch.Tensor]


def choose(model: LanguageModel) -> torch.Tensor:
    """Scores of listed actions."""
    return score(model, PROMPTS, LABELS).log_probs


def cut(model: LanguageModel) -> torch.Tensor:
    """The same, a prompt a pass."""
    return score(model, PROMPTS, LABELS, max_tokens=1).log_probs


def learn(model: LanguageModel) -> torch.Tensor:
    """Losses of completions."""
    return completion_losses(model, PROMPTS, MASKS)[:, None]


@pytest.fixture(params=KINDS)
def folder(request, tmp_path) -> Path:
    return save_tiny(request.param, tmp_path, layers=3)


def load(folder: Path, train_layers: int = 1, rank: int = 0, **settings: object) -> LanguageModel:
    """A model on whose scores mistakes show."""
    config = ModelConfig(
        device="cpu", train_layers=train_layers, lora=LoRAConfig(rank=rank, dropout=0.5 if rank else 0), **settings
    )
    found = load_model(config, folder, trainable=True)
    with torch.no_grad():
        for weight in found.model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    return found


def kept(model: LanguageModel) -> FrozenBlocks:
    found = frozen_of(model.model)
    assert found is not None
    return found


def computed(model: LanguageModel, passed: Pass) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """What a pass gives, and the gradients of a sum of it."""
    model.model.zero_grad()
    result = passed(model)
    (result[:, 0] * torch.tensor([1.0, -2.0, 3.0, 0.5])[torch.arange(len(result)) % 4]).sum().backward()
    gradients = {name: weight.grad for name, weight in model.model.named_parameters() if weight.grad is not None}
    return result.detach(), gradients


@pytest.mark.parametrize("passed", [choose, cut, learn])
@pytest.mark.parametrize("rank", [0, 2])
def test_scores_losses_and_gradients_are_those_of_whole_passes(folder, passed, rank):
    whole, model = load(folder, rank=rank), load(folder, rank=rank)
    vars(whole.model).pop(FROZEN)
    expected, gradients = computed(whole, passed)
    for _ in range(2):
        found, own = computed(model, passed)
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
        assert own.keys() == gradients.keys()
        for name in own:
            torch.testing.assert_close(own[name], gradients[name], atol=1e-4, rtol=1e-3)
    assert kept(model).bytes > 0


def test_a_prompt_is_read_by_the_frozen_blocks_once(folder):
    model = load(folder)
    read: list[int] = []
    kept(model).below[0].register_forward_hook(lambda *_: read.append(1))
    choose(model)
    choose(model)
    with torch.no_grad():
        choose(model)
    assert len(read) == len(PROMPTS)


def test_states_do_not_depend_on_what_was_kept(folder):
    """So an interrupted training, which begins with nothing kept, goes on to the same weights."""
    model = load(folder)
    expected, gradients = computed(model, choose)
    kept(model).most_bytes = 0
    kept(model).clear()
    found, own = computed(model, choose)
    assert kept(model).bytes == 0
    assert torch.equal(found, expected)
    assert all(torch.equal(own[name], gradients[name]) for name in own)


def test_the_oldest_prompts_go_first(folder):
    model = load(folder)
    frozen = kept(model)
    one, two, three = ((5, 6, 7), (8, 9, 10), (11, 12, 13))
    frozen.most_bytes = 2 * frozen.states(one).numel() * 4
    frozen.states(two)
    # Asked for again, the first is no longer the oldest.
    frozen.states(one)
    frozen.states(three)
    assert list(frozen._held) == [one, three]


def test_other_weights_forget_what_was_kept(folder):
    model = load(folder)
    before = choose(model).detach()
    with torch.no_grad():
        for weight in kept(model).below[0].parameters():
            weight.add_(0.5)
    changed = choose(model).detach()
    vars(model.model).pop(FROZEN)
    assert not torch.allclose(changed, before, atol=1e-3)
    torch.testing.assert_close(changed, choose(model).detach(), atol=2e-5, rtol=1e-5)


def test_nothing_is_dropped_below_while_a_model_learns(folder):
    """Dropout in frozen blocks would make each reading of a prompt another one."""
    model = load(folder, rank=2)
    expected = learn(model).detach()
    model.model.train()
    learn(model)
    states = kept(model).states(PROMPTS[1][:-1])
    assert model.model.training
    model.model.eval()
    assert torch.equal(kept(model).states(PROMPTS[1][:-1]), states)
    assert torch.equal(learn(model).detach(), expected)


def test_activations_can_be_computed_again(folder):
    whole, model = load(folder, train_layers=2), load(folder, train_layers=2, gradient_checkpointing=True)
    expected, gradients = computed(whole, choose)
    # As the learner leaves it: the layers that recompute are in training mode, and nothing drops.
    model.model.train()
    no_dropout(model.model)
    found, own = computed(model, choose)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
    assert own.keys() == gradients.keys()
    for name in own:
        torch.testing.assert_close(own[name], gradients[name], atol=1e-4, rtol=1e-3)


def test_prompts_that_share_a_row_have_their_own_states(folder, monkeypatch):
    model = load(folder)
    expected, gradients = computed(model, choose)
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    monkeypatch.setattr("reflect_rl.models.score.REUSE_TOKENS", 1)
    found, own = computed(model, choose)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
    for name in own:
        torch.testing.assert_close(own[name], gradients[name], atol=1e-4, rtol=1e-3)


def test_prompts_that_share_most_of_a_row_are_read_together(folder, monkeypatch):
    """Each by itself would be read more slowly, and states that grow hardly come back."""
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    monkeypatch.setattr("reflect_rl.models.score.REUSE_TOKENS", 1)
    model = load(folder)
    score(model, [(*FIRST, token) for token in (50, 51, 52)], LABELS[:3])
    assert kept(model).bytes == 0


def test_texts_of_actions_are_read_as_before(folder):
    model = load(folder)
    score(model, PROMPTS, [[[20, 21], [22]]] * len(PROMPTS), "sum")
    assert kept(model).bytes == 0


def test_nothing_is_kept_where_all_blocks_are_trained_or_none(folder):
    assert frozen_of(load(folder, train_layers=0).model) is None
    assert frozen_of(load(folder, train_layers=3).model) is None
    assert frozen_of(load_model(ModelConfig(device="cpu", train_layers=1), folder, trainable=False).model) is None
    thawed = load(folder)
    assert frozen_of(thawed.model.requires_grad_(True)) is None


def test_nothing_is_kept_of_a_network_that_does_more_than_run_its_blocks(folder, monkeypatch):
    """What the trained blocks read is then not all that the others give them."""
    monkeypatch.setattr("reflect_rl.models.frozen._StandIn.forward", lambda self, *_, **__: 2 * self._states.flip(-1))
    model = load(folder)
    assert frozen_of(model.model) is None
    choose(model)


def test_a_player_that_keeps_prompts_goes_on_from_them(folder, monkeypatch):
    """States that grow would be read whole by the frozen blocks in every turn."""
    monkeypatch.setattr(network, "REUSE_WIDTH", 1)
    monkeypatch.setattr("reflect_rl.models.score.REUSE_TOKENS", 1)
    model, prompts = load(folder), Kept()
    with torch.no_grad():
        score(model, PROMPTS, LABELS, kept=prompts)
    assert prompts.bytes > 0
    assert kept(model).bytes == 0


def test_weights_that_replace_others_forget_what_was_kept(folder):
    model = load(folder)
    before = kept(model).states(FIRST)
    block = kept(model).below[0]
    for module in block.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, torch.nn.Parameter(weight.detach() + 0.5, requires_grad=False))
    assert not torch.equal(kept(model).states(FIRST), before)


def test_the_blocks_are_in_place_after_a_pass_that_fails(folder):
    model = load(folder)
    names = [name for name, _ in model.model.named_modules()]
    with pytest.raises(ZeroDivisionError), kept(model).replaced(torch.zeros(1, 2, 16)):
        raise ZeroDivisionError
    assert [name for name, _ in model.model.named_modules()] == names


def test_a_copy_of_a_model_has_frozen_blocks_of_its_own(folder):
    """Trainings from Python copy the model that they are given."""
    model = load(folder)
    choose(model)
    twin = replace(model, model=copy.deepcopy(model.model))
    assert kept(twin).bytes == 0
    assert kept(twin).below[0] in set(twin.model.modules())
    assert torch.equal(choose(twin), choose(model))
    assert kept(twin).bytes == kept(model).bytes
