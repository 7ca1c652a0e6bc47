"""The model of `[model]` as it comes, asked in words: a policy in the style of ReAct, and a reflection player.

Both get the prompts of the chat players (`prompts.py`), as one message, since not every chat template has a place for a
second one. Between rules and state stand example turns, where the run asks for some (few-shot, Brown et al. 2020): the
solver's turns on training tasks, with the reflections of the game's teacher.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Self

import numpy as np

from reflect_rl.config import EMBEDDED
from reflect_rl.data.generate import demonstrations
from reflect_rl.envs.base import EnvSpec, HasSolver, NumbersActions
from reflect_rl.models.generate import generate, text_of
from reflect_rl.models.load import LanguageModel, load_model
from reflect_rl.models.score import check_context
from reflect_rl.players.reflectors import CachedReflector
from reflect_rl.prompts import ANALYZE, Messages, advice_text, reflector_messages, rules_of
from reflect_rl.runs.demonstrate import excluded_states
from reflect_rl.types import NO_ACTION, Decision, Observation, View, stream
from reflect_served.players.prompts import CHAT_TEMPLATE_VERSION, parse_choice, policy_messages
from reflect_served.settings import PROMPTED, prompted_config

if TYPE_CHECKING:  # they load more than a player needs
    from reflect_rl.runs.config import RunConfig
    from reflect_rl.types import Decoding, Episode, Turn

ANSWER, ADVICE = "# Answer", "# Advice"
"""Headings after which a model without a chat template goes on."""
NEXT = "\n# State"
"""Heading of a next question."""
MOST_KEPT = 50_000
"""Answers that a policy remembers; a greedy answer is a function of its question."""


class _Asked:
    """A model that is asked in words.

    Args:
        model: in any mode; it is put back into it.
        rules: the game in words.
        heading: over an answer.
        examples: question and answer of each example.
        max_new_tokens: longest answer.
        limit: name of the setting of `max_new_tokens`.
    """

    def __init__(
        self,
        model: LanguageModel,
        rules: str,
        heading: str,
        examples: Sequence[tuple[str, str]],
        max_new_tokens: int,
        limit: str,
    ) -> None:
        self.model, self.rules, self.heading = model, rules, heading
        self.max_new_tokens, self.limit = max_new_tokens, limit
        self._shown = [f"{question}\n\n{heading}\n{answer}" for question, answer in examples]

    def answers(self, asked: Sequence[Messages], views: Sequence[View]) -> list[tuple[str, bool]]:
        """The most likely answer to each question, and whether it was cut off at the limit of its length.

        Args:
            asked: the questions.
            views: of the same states.

        Raises:
            ModelError: a question with its answer is longer than the model's context.
        """
        prompts = [self.model.encode_prompt(self.text(messages)) for messages in asked]
        longest = max(range(len(prompts)), key=lambda row: len(prompts[row]))
        # Here, because token ids alone would not show the user which state it is, and what to set.
        check_context(
            self.model,
            len(prompts[longest]),
            views[longest].observation.text,
            self.max_new_tokens,
            most_new=self.limit,
            shortening="prompted.examples" if self._shown else "",
        )
        # The model may be one that is being trained, which must go on in the mode that it was in.
        network = self.model.model
        was_training = network.training
        network.eval()
        found = generate(self.model, prompts, self.max_new_tokens)
        network.train(was_training)
        # Shown examples, a model goes on with a next state that it makes up: the answer ends before it.
        parts = [text_of(self.model, ids).partition(NEXT) for ids in found]
        return [
            (text, not end and self.model.end_id not in ids) for ids, (text, end, _) in zip(found, parts, strict=True)
        ]

    def text(self, messages: Messages) -> str:
        """The whole question: rules, examples, state."""
        (_, rules), (_, state) = messages
        # Without a template the model goes on writing, so the text ends where the answer begins.
        heading = [] if self.model.chat else [f"{self.heading}\n"]
        return "\n\n".join([rules, *self._shown, state, *heading])


class _Prompted:
    """Parts that the prompted policy and the prompted reflection player share."""

    @classmethod
    def mistakes(cls, run: RunConfig) -> Iterator[str]:
        """Mistakes about the model, which must be able to read, and about the examples."""
        if run.model.path == EMBEDDED:
            yield (
                f"model.path: {PROMPTED!r} asks the model of [model] as it comes, and the embedded one has learned "
                "nothing. Set model.path to an instruction-tuned model."
            )
        count = prompted_config(run).examples
        if count and run.env.capability(HasSolver) is None:
            yield f"prompted.examples: {run.env.name} has no solver whose {count} turns could be shown. Set it to 0."


class PromptedPolicy(_Prompted):
    """Thinks, and names a number of the list; an answer that names none is `NO_ACTION`, as that of a chat model.

    Args:
        model: who is asked.
        rules: the game in words.
        examples: turns that each question shows.
        max_new_tokens: longest answer, its thought included.
        name: of the player.
    """

    sees_oracle = False

    def __init__(
        self,
        model: LanguageModel,
        rules: str,
        examples: Sequence[Turn] = (),
        max_new_tokens: int = 160,
        name: str = PROMPTED,
    ) -> None:
        shown = [(policy_messages(rules, _view(turn))[1][1], _choice(turn)) for turn in examples]
        self.name, self.examples = name, len(shown)
        self._asked = _Asked(model, rules, ANSWER, shown, max_new_tokens, "prompted.max_new_tokens")
        self._known: dict[str, tuple[str, bool]] = {}

    @classmethod
    def for_run(cls, run: RunConfig, method: str, decoding: Decoding) -> Self:
        """The model of `[model]` as the policy of a method."""
        model, settings = load_model(run.model, trainable=False), prompted_config(run)
        return cls(model, rules_of(run.env), examples_of(run), settings.max_new_tokens, method)

    @classmethod
    def decodings(cls, run: RunConfig) -> Sequence[Decoding]:
        """The likeliest answer is the only one that is asked for."""
        return ("greedy",)

    @property
    def origin(self) -> dict[str, str | int]:
        """Form of the prompts, for the record."""
        return {"chat_template": CHAT_TEMPLATE_VERSION, "answers": f"text, {self.examples} examples"}

    @property
    def model_name(self) -> str:
        """Name or folder of the model."""
        return self._asked.model.name

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """Ask for a decision on each view, which keeps the answer in the model's own words.

        Raises:
            ModelError: a question with its answer is longer than the model's context.
        """
        asked = [policy_messages(self._asked.rules, view) for view in views]
        keys = [state for _, (_, state) in asked]
        if len(self._known) > MOST_KEPT:
            self._known = {}
        pairs = zip(keys, asked, views, strict=True)
        fresh = {key: (messages, view) for key, messages, view in pairs if key not in self._known}
        if fresh:
            questions, states = zip(*fresh.values(), strict=True)
            self._known |= dict(zip(fresh, self._asked.answers(questions, states), strict=True))
        return [self._decision(view, *self._known[key]) for view, key in zip(views, keys, strict=True)]

    def _decision(self, view: View, answer: str, is_cut: bool) -> Decision:
        # A number at the cut may be the beginning of a longer one, where there are so many.
        is_open = is_cut and len(view.order) > 10 and answer[-1:].isdigit()
        said = None if is_open else parse_choice(answer, len(view.order))
        return Decision(NO_ACTION if said is None else view.order[said], self.name, answer=answer)


class PromptedReflector(_Prompted, CachedReflector):
    """Writes reflections when asked in words; greedy, batched, cached.

    Args:
        model: who is asked.
        env: the environment, for its rules.
        max_new_tokens: longest reflection in tokens.
        cache_size: states to remember; the least recently used go first.
        examples: turns with reflections that each question shows.
    """

    name = PROMPTED

    def __init__(
        self,
        model: LanguageModel,
        env: EnvSpec,
        max_new_tokens: int = 96,
        cache_size: int = 50_000,
        examples: Sequence[Turn] = (),
    ) -> None:
        game = env.capability(NumbersActions)
        super().__init__(cache_size, None if game is None else game.action_numbers)
        rules = rules_of(env)
        shown = [(reflector_messages(rules, _view(turn))[1][1], turn.reflection or "") for turn in examples]
        self._asked = _Asked(model, rules, ADVICE, shown, max_new_tokens, "reflector.max_new_tokens")

    @classmethod
    def for_run(cls, run: RunConfig, method: str, decoding: Decoding) -> Self:
        """The model of `[model]` as the reflection player of a run; method and decoding change nothing."""
        settings = run.reflector
        model = load_model(run.model, trainable=False)
        return cls(model, run.env, settings.max_new_tokens, settings.cache_size, examples_of(run))

    def _write(self, prompts: Sequence[str]) -> list[str]:
        # The cache works with the prompt of trained players, so the state is taken out of it again.
        views = [View(Observation(prompt.removesuffix(ANALYZE), ()), ()) for prompt in prompts]
        asked = [reflector_messages(self._asked.rules, view) for view in views]
        return [advice_text(answer) for answer, _ in self._asked.answers(asked, views)]


def examples_of(run: RunConfig) -> list[Turn]:
    """Turns of the solver that a run's questions show, each of another training task.

    They are the same in all jobs of a run: drawn with its first seed, from episodes without random actions.
    """
    count = prompted_config(run).examples
    if not count:
        return []
    seed, excluded = run.seeds[0], excluded_states(run)
    positive = demonstrations(run.data, run.env, count, seed, excluded=excluded)["positive"]
    return list(islice(_drawn(positive, excluded, stream(seed, "prompted examples")), count))


def _drawn(episodes: Sequence[Episode], excluded: frozenset[str], drawn: np.random.Generator) -> Iterator[Turn]:
    for episode in episodes:
        # A state in which a held-out task begins is no example either.
        turns = [turn for turn in episode.turns if turn.observation.state not in excluded]
        if turns:
            yield turns[int(drawn.integers(len(turns)))]


def _view(turn: Turn) -> View:
    # The reflection is the thought of the answer, and no part of the question.
    return View(turn.observation, tuple(range(len(turn.observation.actions))))


def _choice(turn: Turn) -> str:
    thought = f"{turn.reflection}\n" if turn.reflection else ""
    return f"{thought}Action: {turn.decision.index}"
