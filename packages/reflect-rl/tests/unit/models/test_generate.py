"""Greedy generation: the argmax continuation of each prompt, whatever it is batched with."""

from __future__ import annotations

import pytest
import torch

from reflect_rl.config import ModelConfig
from reflect_rl.errors import ModelError
from reflect_rl.models.generate import _RoomyLayer, generate, generate_greedy
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.players.reflectors import FrozenReflector
from reflect_rl.types import Observation, View
from tiny_models import KINDS, save_tiny

TEXTS = ["Taxi", "Passenger waits at 0 4. Blocked: east.", "Find the file that answers the question. cd ..", "0"]
NEW_TOKENS = 12


@pytest.fixture(scope="module")
def families(tmp_path_factory) -> dict[str, LanguageModel]:
    folder = tmp_path_factory.mktemp("families")
    config = ModelConfig(device="cpu")
    models = {kind: load_model(config, save_tiny(kind, folder / kind), trainable=False) for kind in KINDS}
    for model in models.values():
        # Larger weights make continuations that vary instead of repeating one token.
        for weight in model.model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    return models


@pytest.fixture(params=KINDS)
def model(request, families) -> LanguageModel:
    return families[request.param]


@torch.no_grad()
def by_hand(model: LanguageModel, prompt: list[int], limit: int = NEW_TOKENS, end: int | None = None) -> list[int]:
    """The argmax of a whole forward pass, again and again."""
    new: list[int] = []
    while len(new) < limit:
        token = int(model.model(torch.tensor([prompt + new])).logits[0, -1].argmax())
        if token == (model.end_id if end is None else end):
            break
        new.append(token)
    return new


def test_a_batch_of_mixed_lengths_equals_the_argmax_of_each_prompt_alone(model):
    prompts = [model.encode(text) for text in TEXTS]
    expected = [by_hand(model, prompt) for prompt in prompts]
    assert len({tuple(new) for new in expected}) == len(TEXTS)
    assert generate_greedy(model, prompts, NEW_TOKENS) == [model.decode(new) for new in expected]


@pytest.mark.parametrize("max_tokens", [1, 60, 100_000])
def test_the_size_of_batches_changes_nothing(model, max_tokens):
    prompts = [model.encode(text) for text in (*TEXTS, *TEXTS[::-1])]
    assert generate(model, prompts, 8, max_tokens=max_tokens) == [generate(model, [p], 8)[0] for p in prompts]


def test_the_length_limit_counts_new_tokens(model):
    prompt = model.encode(TEXTS[1])
    for limit in (1, 5):
        assert generate_greedy(model, [prompt], limit) == [model.decode(by_hand(model, prompt, limit))]


def test_the_end_token_ends_a_text_and_is_not_part_of_it(model, monkeypatch):
    prompts = [model.encode(text) for text in TEXTS]
    free = [by_hand(model, prompt) for prompt in prompts]
    # Let a token that one continuation holds be the end token: that text is cut there.
    place, row, end = max((k, row, t) for row, new in enumerate(free) for k, t in enumerate(new) if t not in new[:k])
    monkeypatch.setattr(type(model), "end_id", property(lambda _: end))
    texts = generate_greedy(model, prompts, NEW_TOKENS)
    assert texts[row] == model.decode(free[row][:place])
    assert texts == [model.decode(by_hand(model, prompt, end=end)) for prompt in prompts]


def test_generation_defaults_that_come_with_a_model_are_not_used(model, monkeypatch):
    prompts = [model.encode(text) for text in TEXTS]
    expected = generate_greedy(model, prompts, NEW_TOKENS)
    monkeypatch.setattr(model.model.generation_config, "repetition_penalty", 9.0)
    monkeypatch.setattr(model.model.generation_config, "min_new_tokens", NEW_TOKENS)
    monkeypatch.setattr(model.model.generation_config, "suppress_tokens", list(range(0, len(model.tokenizer), 2)))
    assert generate_greedy(model, prompts, NEW_TOKENS) == expected
    assert model.model.generation_config.repetition_penalty == 9.0


def test_no_prompts_no_texts(model):
    assert generate_greedy(model, [], 5) == []


def test_a_model_in_training_mode_is_refused(model):
    model.model.train()
    with pytest.raises(ValueError, match=r"call eval\(\) first"):
        generate(model, [model.encode(TEXTS[0])], 5)
    model.model.eval()


def test_a_prompt_that_leaves_no_room_is_refused(model):
    with pytest.raises(ModelError, match=r"510 tokens and 5 .* holds 512\. Lower reflector\.max_new_tokens"):
        generate_greedy(model, [[7] * 510, [7]], 5)


def test_no_product_with_the_vocabulary_is_of_a_cut_tensor(model):
    # torch copies the weights of the vocabulary for each row of a cut, which costs more than the text.
    seen: list[bool] = []
    head = model.model.get_output_embeddings()
    with head.register_forward_hook(lambda _, states, logits: seen.append(states[0].is_contiguous())):
        generate(model, [model.encode(text) for text in TEXTS], 3)
    assert seen == [True] * 3
    assert not head._forward_pre_hooks


def test_a_state_too_long_for_its_reflection_is_shown(families):
    reflector = FrozenReflector(families["llama"], max_new_tokens=500)
    views = [View(Observation(text, ("a",)), (0,)) for text in ("short", "Passenger waits at 0 4. " * 3)]
    with pytest.raises(ModelError, match=r"whose state begins 'Passenger waits at 0 4\. .* and 500 are to follow"):
        reflector.reflect(views)


def test_wide_models_read_what_prompts_begin_with_alike_once(model, monkeypatch, passes):
    texts = [*TEXTS[:3], TEXTS[2] + " Now ls.", TEXTS[2] + " Now stop, please.", TEXTS[1]]
    prompts = [model.encode(text) for text in texts]
    expected = generate(model, prompts, NEW_TOKENS)
    assert len({tuple(new) for new in expected}) > 3
    monkeypatch.setattr("reflect_rl.models.network.REUSE_WIDTH", 1)
    monkeypatch.setattr("reflect_rl.models.score.REUSE_TOKENS", 1)
    read = passes(model)
    assert generate(model, prompts, NEW_TOKENS) == expected
    # The prompts in one pass, where what they share stands once; then a token of each at a time.
    assert read[1] == (len(texts), 1)
    assert read[0][0] * read[0][1] < sum(map(len, prompts)) - len(prompts[2]) - len(prompts[1])
    assert generate(model, [*prompts, [5]], NEW_TOKENS)[:-1] == expected, "a prompt of one token is read as before"


@pytest.mark.parametrize("width", [1, 10_000])
def test_a_new_token_is_written_behind_the_others_and_nothing_is_copied(model, monkeypatch, width):
    # transformers' own cache copied all keys and values for each token, which took more time than the products.
    made = []
    update = _RoomyLayer.update

    def watched(layer, *parts, **rest):
        before = [whole.data_ptr() for whole in layer.whole]
        result = update(layer, *parts, **rest)
        made.append((before, [part.data_ptr() for part in result], result[0].shape[2]))
        return result

    monkeypatch.setattr("reflect_rl.models.network.REUSE_WIDTH", width)
    monkeypatch.setattr(_RoomyLayer, "update", watched)
    prompts = [model.encode(text) for text in TEXTS]
    new = generate(model, prompts, NEW_TOKENS)
    assert max(length for *_, length in made) == max(map(len, prompts)) + max(map(len, new)) - 1
    later = [(before, after) for before, after, _ in made if before]
    assert len(later) >= (NEW_TOKENS - 1) * model.model.config.num_hidden_layers
    assert all(before == after for before, after in later)
