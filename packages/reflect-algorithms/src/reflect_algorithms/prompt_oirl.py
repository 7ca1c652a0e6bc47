"""Prompt-OIRL (Sun, Hüyük and van der Schaar 2023): which prompt is best for a start, learned from a log of prompts.

A prompted model has played starts under several templates. A reward model learns from that log whether a template wins
from a start. At test time the template with the highest prediction is played; the language model does not choose it:

    loss = -mean [won · log r(s, p) + (1 - won) · log(1 - r(s, p))],   p*(s) = argmax_p r(s, p)

The objective, the features and the choice were checked against the abstract, published summaries and the authors' code
(holarissun/Prompt-OIRL); the paper's own text could not be read here, so no equation is numbered.

Differs from the paper: (1) a question is the first state of a game, and an answer is right when the game is won; (2)
the learner is logistic regression on products of word features of start and template, where the paper has gradient
boosting on embeddings by a model behind an API; (3) templates are those of the log, where the paper may also choose
among new ones; (4) the held-out template is evaluated on starts that nothing was learned from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from reflect_rl.envs.base import EnvSpec
from reflect_rl.errors import UserError
from reflect_rl.prompts import rules_of
from reflect_rl.rollout import NoReflector, Policy, Request, play
from reflect_rl.store import read_jsonl, write_jsonl
from reflect_rl.types import Decision, Task, View, seed_for
from reflect_rl.watchdog import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    import numpy as np

RIDGE = 1e-3
"""Weight of the squared norm of the coefficients."""

WORD = re.compile(r"\w+|[^\w\s]")
LONGEST = 3
"""Words of the longest feature: `is at 0` tells more than `0`."""


@dataclass(frozen=True, slots=True)
class Template:
    """A way to put a state before a model."""

    name: str
    text: str
    """With `{state}`, and `{rules}` where the rules of the game are to stand."""

    def filled(self, state: str, rules: str) -> str:
        """The prompt of a state.

        >>> Template("hint", "{state} Be quick.").filled("You are at {3}.", "")
        'You are at {3}. Be quick.'
        """
        # One pass over the template alone, so that braces of a state are no places.
        filling = {"{state}": state, "{rules}": rules}
        return re.sub(r"\{state\}|\{rules\}", lambda found: filling[found[0]], self.text)


TEMPLATES = (
    Template("plain", "{state}"),
    Template("rules", "{rules}\n\n{state}"),
    Template("rules_last", "{state}\n\n{rules}"),
    Template("expert", "You are an expert at this game.\n\n{state}"),
    Template("careful", "{state}\nA mistake can lose the game. Avoid it."),
    Template("goal", "{state}\nChoose the action that comes nearest to the goal."),
    Template("steps", "{rules}\n\n{state}\nLet us think step by step."),
)
"""Templates to begin with; any other list of at least two may be logged."""


def read_templates(path: Path) -> tuple[Template, ...]:
    """Templates of a JSON file, a list of objects with `name` and `text`.

    Raises:
        UserError: the file is missing or no such list, two templates have one name, or a text lacks `{state}`.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        templates = tuple(Template(str(row["name"]), str(row["text"])) for row in rows)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"prompt_oirl: {path} must be a JSON list of objects with the texts 'name' and 'text' "
            f"({type(error).__name__}: {error})."
        ) from error
    names = [template.name for template in templates]
    for template in templates:
        # The log of a template is a file of its name.
        if (
            "{state}" not in template.text
            or names.count(template.name) > 1
            or not re.fullmatch(r"[\w-]+", template.name)
        ):
            raise UserError(
                f"prompt_oirl: the template {template.name!r} of {path} needs a name of its own, of letters, digits, "
                "- and _, and a text with the place {state}."
            )
    return templates


class TemplatedPolicy:
    """A player that reads every state through a template.

    Args:
        player: who plays.
        template: the template.
        rules: of the game, in words.
    """

    sees_oracle = False

    def __init__(self, player: Policy, template: Template, rules: str) -> None:
        self.player, self.template, self.rules, self.name = player, template, rules, player.name

    def decide(self, views: Sequence[View], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        """The player's decisions about the prompts."""
        return self.player.decide([self._seen(view) for view in views], rngs)

    def _seen(self, view: View) -> View:
        text = self.template.filled(view.observation.text, self.rules)
        return replace(view, observation=replace(view.observation, text=text))


@dataclass(frozen=True, slots=True)
class Trial:
    """A row of the log: one episode under one template."""

    start: str
    """Key of the task."""
    state: str
    """Text of its first state."""
    template: str
    """Name of the template."""
    won: bool


def logged_trials(
    spec: EnvSpec,
    tasks: Sequence[Task],
    player: Policy,
    templates: Sequence[Template],
    folder: Path,
    seed: int,
    *,
    episodes_per_start: int = 1,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Trial]:
    """Play all starts under all templates; what was played before, a file for each template, is read again.

    Args:
        spec: the environment.
        tasks: the starts.
        player: the prompted model.
        templates: to play under; episodes of different templates draw the same random numbers.
        folder: place of the files.
        seed: of all randomness in play.
        episodes_per_start: episodes of each start under each template.
        limits: how long the environment and the player may take.
    """
    requests = [
        Request(task, seed_for(seed, "prompts", task.key, copy)) for task in tasks for copy in range(episodes_per_start)
    ]
    trials: list[Trial] = []
    for template in templates:
        path = folder / f"{template.name}.jsonl"
        if not path.exists():
            prompted = TemplatedPolicy(player, template, rules_of(spec))
            episodes = play(spec, requests, NoReflector(), prompted, limits=limits)
            rows = (Trial(e.task.key, e.turns[0].observation.text, template.name, e.success) for e in episodes)
            write_jsonl(path, map(asdict, rows))
        trials += [Trial(**row) for row in read_jsonl(path, "Delete it to play the template again.")]
    return trials


class WordFeatures:
    """Word sequences of texts as unit vectors with a constant, (N, 1 + V).

    Args:
        texts: those that the V sequences are taken from; one that all of them have tells nothing and is left out.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        found = [_sequences(text) for text in dict.fromkeys(texts)]
        shared = set.intersection(*found)
        # Sorted: sets have another order in each process.
        self.column = {name: k for k, name in enumerate(sorted(set.union(*found) - shared))}

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Features of texts; word sequences that were not seen before count nothing."""
        table = torch.zeros(len(texts), len(self.column), dtype=torch.float64)
        for row, text in enumerate(texts):
            table[row, [self.column[name] for name in _sequences(text) if name in self.column]] = 1.0
        table = torch.nn.functional.normalize(table)
        return torch.cat([torch.ones(len(texts), 1, dtype=table.dtype), table], 1)


def _sequences(text: str) -> set[str]:
    words = WORD.findall(text)
    return {" ".join(words[k : k + n]) for n in range(1, LONGEST + 1) for k in range(len(words) - n + 1)}


class PromptReward:
    """r(s, p) = σ(x(s)ᵀ W z(p)): the probability that a template wins from a start.

    Args:
        trials: what it learns from.
        templates: texts of their templates.
        ridge: weight of ‖W‖² beside the mean loss.

    Raises:
        UserError: there is no trial, or one is of an unknown template.
    """

    def __init__(self, trials: Sequence[Trial], templates: Sequence[Template], ridge: float = RIDGE) -> None:
        self.texts = {template.name: template.text for template in templates}
        unknown = sorted({trial.template for trial in trials} - set(self.texts))
        if not trials or unknown:
            raise UserError(f"prompt_oirl: {f'no template has the name {unknown[0]!r}' if unknown else 'no trials'}.")
        self.of_state = WordFeatures([trial.state for trial in trials])
        self.of_template = WordFeatures([self.texts[trial.template] for trial in trials])
        x, z = self._features([(trial.state, trial.template) for trial in trials])
        won = torch.tensor([trial.won for trial in trials], dtype=torch.float64)
        self.weights = torch.zeros(x.shape[1], z.shape[1], dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([self.weights], max_iter=500, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            logits = ((x @ self.weights) * z).sum(1)
            value = torch.nn.functional.binary_cross_entropy_with_logits(logits, won)
            value = value + ridge * self.weights.square().sum()
            value.backward()
            return value

        optimizer.step(loss)
        self.weights = self.weights.detach()

    def _features(self, pairs: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor]:
        return self.of_state([state for state, _ in pairs]), self.of_template([self.texts[name] for _, name in pairs])

    def predicted(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """(N,) r of pairs of a first state and the name of a template."""
        x, z = self._features(pairs)
        return ((x @ self.weights) * z).sum(1).sigmoid()

    def best(self, state: str, names: Sequence[str]) -> str:
        """The template that is most likely to win from a state; of equal ones the first."""
        return names[int(self.predicted([(state, name) for name in names]).argmax())]


@dataclass(frozen=True)
class PromptReport:
    """Worth of the choice on held-out starts, in success rates, and the quality of r."""

    chosen: float
    """The template that r chooses for each start."""
    best_single: float
    """The template that won most often from the starts that were learned from, for all."""
    random: float
    """Templates drawn uniformly."""
    oracle: float
    """The best template of each start in hindsight; with few episodes of each it is also the luckiest."""
    accuracy: float
    """Share of the held-out trials whose verdict r predicts."""
    held_out_template_error: float
    """Mean over templates of |predicted - observed success|, where r has not seen trials of the template."""
    mean_of_others_error: float
    """The same if the prediction is the success of the other templates: what r has to beat."""


def report_of(
    learned: Sequence[Trial], held_out: Sequence[Trial], templates: Sequence[Template], ridge: float = RIDGE
) -> PromptReport:
    """Learn from trials and measure on those of other starts; no further episode is played.

    Args:
        learned: trials to learn from.
        held_out: trials of other starts, of each under all templates.
        templates: of the trials.
        ridge: see `PromptReward`.

    Raises:
        UserError: a start is on both sides, a held-out start lacks a template, or there are fewer than two templates.
    """
    names = [template.name for template in templates]
    rates = {(t.start, t.template): _rate(held_out, t.start, t.template) for t in held_out}
    states = {trial.start: trial.state for trial in held_out}
    missing = [(start, name) for start in states for name in names if (start, name) not in rates]
    both = sorted({trial.start for trial in learned} & set(states))
    if len(names) < 2 or missing or both or not states:
        raise UserError(
            "prompt_oirl: the report needs two templates or more, held-out starts that each was played from, and none "
            f"of them among the learned ones (missing: {missing[:3]}, on both sides: {both[:3]})."
        )
    reward = PromptReward(learned, templates, ridge)
    single = max(names, key=lambda name: _rate(learned, None, name))
    errors = [_unseen_template(learned, held_out, templates, template, ridge) for template in templates]
    verdicts = reward.predicted([(trial.state, trial.template) for trial in held_out]) > 0.5
    return PromptReport(
        chosen=_mean([rates[start, reward.best(state, names)] for start, state in states.items()]),
        best_single=_mean([rates[start, single] for start in states]),
        random=_mean([rates[start, name] for start in states for name in names]),
        oracle=_mean([max(rates[start, name] for name in names) for start in states]),
        accuracy=_mean([float(said == trial.won) for said, trial in zip(verdicts.tolist(), held_out, strict=True)]),
        held_out_template_error=_mean([error for error, _ in errors]),
        mean_of_others_error=_mean([error for _, error in errors]),
    )


def _unseen_template(
    learned: Sequence[Trial], held_out: Sequence[Trial], templates: Sequence[Template], unseen: Template, ridge: float
) -> tuple[float, float]:
    """Errors of r, and of the mean of the others, about a template that nothing was learned of."""
    others = [trial for trial in learned if trial.template != unseen.name]
    observed = _rate(held_out, None, unseen.name)
    pairs = [(trial.state, unseen.name) for trial in held_out if trial.template == unseen.name]
    predicted = float(PromptReward(others, templates, ridge).predicted(pairs).mean())
    return abs(predicted - observed), abs(_mean([float(trial.won) for trial in others]) - observed)


def _rate(trials: Sequence[Trial], start: str | None, template: str) -> float:
    """Share of won episodes of a template, from one start or from all (None)."""
    return _mean([float(t.won) for t in trials if t.template == template and start in (None, t.start)])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
