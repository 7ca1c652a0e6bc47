"""Prompts of chat models that play or advise, and the reading of their answers.

The prompts are in the style of ReAct (Yao et al. 2023, arXiv:2210.03629): the rules of the game in words, the state and
the numbered actions; first a thought, then an action. What was done before is a part of the state text, as for all
players, so a prompt is no longer than its state.

An answer is read strictly, because a guess at what was meant would flatter the model: one number of the list, named
once, at the end. Everything else is no answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from reflect_rl.prompts import Messages, spoken
from reflect_rl.types import View

CHAT_TEMPLATE_VERSION = 2
"""Raised with every change of the prompts or of the reading of answers; a part of each result row of a chat model."""

PLAYER = """\
You play a game, one turn at a time. You are shown the state of the game and a numbered list of the actions that are \
possible now, and choose one of them.

# The game
{rules}

# How to answer
{format}"""

THOUGHT_FORMAT = """\
First think, in a few short sentences: what the last action did, what you know now, and which action is the best next \
step and why. Then write as the last line

Action: N

where N is the number of one action of the list. Write nothing after it, and no other line that begins with "Action:". \
An answer that does not end like this, or names a number that is not in the list, wastes the turn.

Example of an answer:
The last action brought me closer. The door is to the left, and nothing is in the way.
Action: 2"""

JSON_FORMAT = """\
Answer with a JSON object of two fields: "thought", a few short sentences (what the last action did, what you know \
now, which action is the best next step and why), and "action", the number of that action in the list. An answer that \
is anything else, or names a number that is not in the list, wastes the turn.

Example of an answer:
{"thought": "The last action brought me closer. The door is to the left, and nothing is in the way.", "action": 2}"""

NUMBER_FORMAT = """\
Answer with the number of one action of the list, and with nothing else. Any other answer wastes the turn."""

FENCE = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)
ACTION = re.compile(r"[*_`]*action[*_`]*\s*:[*_`\s]*(.*?)[*_`.\s]*", re.IGNORECASE)
"""A line that names an action; models like to emphasise it."""
NUMBER = re.compile(r"0|[1-9][0-9]{0,3}")


def policy_messages(rules: str, view: View, *, as_json: bool = False) -> Messages:
    r"""Prompt of a chat model that chooses an action after a thought.

    Args:
        rules: the game in words.
        view: the state, its reflection if there is one, and the actions in listing order.
        as_json: ask for a JSON object (`choice_schema`) instead of a last line.

    >>> from reflect_rl.types import Observation
    >>> seen = View(Observation("You are at 3.", ("left", "right")), (1, 0), "Go left.")
    >>> print(policy_messages("Walk.", seen)[1][1])
    # State
    You are at 3.
    <BLANKLINE>
    # Advice
    Go left.
    <BLANKLINE>
    # Actions
    0: right
    1: left
    """
    return _player(rules, JSON_FORMAT if as_json else THOUGHT_FORMAT, view)


def number_messages(rules: str, view: View) -> Messages:
    """Prompt of a chat model that answers with the number alone, so that its first token is the choice."""
    return _player(rules, NUMBER_FORMAT, view)


def _player(rules: str, answer_format: str, view: View) -> Messages:
    state = f"# State\n{view.observation.text}"
    advice = f"\n\n# Advice\n{view.reflection}" if view.reflection else ""
    listed = "\n".join(f"{number}: {view.observation.actions[index]}" for number, index in enumerate(view.order))
    return (
        # `replace` and not `format`: rules and formats contain braces of their own.
        ("system", PLAYER.replace("{rules}", rules).replace("{format}", answer_format)),
        ("user", f"{state}{advice}\n\n# Actions\n{listed}"),
    )


def choice_schema(count: int) -> dict[str, Any]:
    """JSON schema of an answer that names one of `count` actions after a thought."""
    return {
        "type": "object",
        "properties": {"thought": {"type": "string"}, "action": {"type": "integer", "enum": list(range(count))}},
        "required": ["thought", "action"],
        "additionalProperties": False,
    }


def parse_choice(text: str, count: int) -> int | None:
    r"""The number that an answer names, None where it is no valid answer.

    Valid are: text whose last line is `Action: N`, where no line names another; the number alone; a JSON object with
    the integer `action`. One code fence may stand around the whole.

    Args:
        text: the answer.
        count: of the listed actions; their numbers are 0 to `count` - 1.

    >>> parse_choice("The door is left.\nAction: 2", 3), parse_choice("2", 3), parse_choice('{"action": 2}', 3)
    (2, 2, 2)
    >>> parse_choice("Action: 3", 3), parse_choice("Action: left", 3), parse_choice("Action: 1\nAction: 2", 3)
    (None, None, None)
    """
    text = spoken(text)
    if (fenced := FENCE.fullmatch(text)) is not None:
        text = fenced[1].strip()
    number = _of_object(text) if text.startswith("{") else _of_lines([line.strip() for line in text.splitlines()])
    return number if number is not None and number < count else None


def _of_lines(lines: Sequence[str]) -> int | None:
    if len(lines) == 1 and NUMBER.fullmatch(lines[0]):
        return int(lines[0])
    named = [found[1] if (found := ACTION.fullmatch(line)) else None for line in lines]
    # A model that names two actions has not decided; the last one would be a guess.
    different = {name for name in named if name is not None}
    last = named[-1] if named else None
    return int(last) if last is not None and len(different) == 1 and NUMBER.fullmatch(last) else None


def _of_object(text: str) -> int | None:
    try:
        # json keeps the last of two equal keys, which would be a guess at what the model meant.
        value = json.loads(text, object_pairs_hook=_once)
    # Deeply nested brackets, which a model that repeats itself writes, exceed the recursion limit.
    except (ValueError, RecursionError):
        return None
    # `type(...) is int`, because JSON's true and false are ints in Python.
    number = value.get("action") if isinstance(value, dict) else None
    return number if type(number) is int and number >= 0 else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that names each field once.

    Raises:
        ValueError: it names one twice.
    """
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a field is named twice")
    return dict(pairs)


def label_log_probs(alternatives: Sequence[tuple[str, float]], count: int) -> tuple[float, ...] | None:
    """Log π(number) from the likeliest first tokens of an answer that is a number, None where they do not tell it.

    Numbers that are not among the tokens share what is left of the probability, and none gets more than the least of
    those that are. With more than ten actions the tokens must show that the tokenizer keeps larger numbers whole:
    otherwise `1` may be the beginning of `12`.

    Args:
        alternatives: tokens and their log-probabilities.
        count: of the listed actions.

    Returns:
        (count,) of a distribution over the listed numbers.

    >>> [round(math.exp(value), 2) for value in label_log_probs([("1", math.log(0.6)), ("0", math.log(0.2))], 2)]
    [0.25, 0.75]
    """
    # Some tokenizers join the space before a number to its token.
    known = [(token.strip(), value) for token, value in alternatives if math.isfinite(value)]
    numbers = [(int(token), math.exp(value)) for token, value in known if NUMBER.fullmatch(token)]
    # Only one digit seen among many actions: the tokenizer may split `12` into `1` and `2`.
    if count > 10 and all(number < 10 for number, _ in numbers):
        return None
    masses = [0.0] * count
    for number, mass in numbers:
        if number < count:
            # Added up: `1` and ` 1` are two tokens for the same number.
            masses[number] += mass
    if not any(masses):
        return None
    missing = masses.count(0.0)
    left = max(0.0, 1.0 - math.fsum(math.exp(value) for _, value in known)) / max(missing, 1)
    floor = max(min(left, *(math.exp(value) for _, value in known)), LEAST_MASS)
    logs = [math.log(mass or floor) for mass in masses]
    total = math.log(math.fsum(math.exp(value) for value in logs))
    return tuple(value - total for value in logs)


LEAST_MASS = 1e-12
"""Probability of a number that a server does not list, when nothing is left for it: small, and its logarithm finite."""
