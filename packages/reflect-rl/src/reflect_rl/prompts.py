"""Views become text here and nowhere else, for supervised training, rollouts, RL updates and evaluation alike.

The prompt has the paper's fixed order (Reflect-RL: single-prompt action enumeration): `state`, ` # Analyze:`,
`reflection`, `numbered actions`, ` # Action:`, `choice`. Without a reflection the Analyze part is left out. The
reflection player reads `state` and ` # Analyze:`, and never the action list.

In games whose states number actions, a reflection ends in `Next: ACTION =NUMBER.`. Small models copy the name of an
action well and its number badly, and a policy that has learned to trust numbers then does something else than it is
told. Which number an action has is no judgement: the state says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import repeat

from reflect_rl.envs.base import EnvSpec, HasRules
from reflect_rl.errors import ModelError
from reflect_rl.types import View

TEMPLATE_VERSION = 1
"""Raised with every change of the rendered text; part of each result's fingerprint."""

ANALYZE = " # Analyze:\n"

ACTIONS = "\nActions:"

ACTION = "\n # Action:\n"

MARK = re.compile(r" =(\d{1,4})\b")
"""The number of an action inside a text."""


def reflection_prompt(view: View) -> str:
    r"""Prompt of the reflection player.

    >>> from reflect_rl.types import Observation
    >>> reflection_prompt(View(Observation("You are at 3.", ("left", "right")), (0, 1)))
    'You are at 3. # Analyze:\n'
    """
    return view.observation.text + ANALYZE


def state_in(prompt: str) -> str:
    r"""The state of a prompt, to tell in a message which one it is.

    >>> state_in("You are at 3. # Analyze:\nGo left.\nActions: 0 right 1 left\n # Action:\n")
    'You are at 3.'
    """
    state = prompt.partition(ANALYZE)[0]
    return state.rpartition(ACTIONS)[0] or state


def _state(view: View) -> str:
    return view.observation.text if view.reflection is None else reflection_prompt(view) + view.reflection


def policy_prompt(view: View, labels: Sequence[str]) -> str:
    r"""Prompt of the policy player under `choice_token` scoring; its answer is one label.

    >>> from reflect_rl.types import Observation
    >>> policy_prompt(View(Observation("You are at 3.", ("left", "right")), (1, 0), "Go left."), ("0", "1"))
    'You are at 3. # Analyze:\nGo left.\nActions: 0 right 1 left\n # Action:\n'
    """
    text = _state(view)
    return text + _listed(view, labels, text)


def lines_prompt(view: View) -> str:
    r"""Prompt of the policy player under `line_end` scoring: a line for each action, and no labels.

    >>> from reflect_rl.types import Observation
    >>> lines_prompt(View(Observation("You are at 3.", ("left", "right")), (1, 0), "Go left."))
    'You are at 3. # Analyze:\nGo left.\nActions:\n right\n left\n # Action:\n'
    """
    text = _state(view)
    return text + _listed(view, (), text)


def parts_of(prompt: str) -> tuple[str, list[str], str]:
    r"""Text before the list, its lines, and what follows them, of a `lines_prompt`.

    >>> parts_of("You are at 3.\nActions:\n right\n left\n # Action:\n")
    ('You are at 3.\nActions:\n', [' right', ' left'], ' # Action:\n')
    """
    # The last list: a state may quote another one.
    text, heading, listed = prompt.removesuffix(ACTION).rpartition(ACTIONS + "\n")
    return text + heading, listed.split("\n"), ACTION.lstrip("\n")


def exercise_prompt(view: View, wanted: str) -> str:
    r"""A `lines_prompt` that names a listed action and asks for it. It tells nothing about any game.

    >>> from reflect_rl.types import Observation
    >>> exercise_prompt(View(Observation("You are at 3.", ("left", "right")), (1, 0)), "right")
    'You are at 3.\nWanted: right.\nActions:\n right\n left\n # Action:\n'
    """
    return f"{view.observation.text}\nWanted: {wanted}." + _listed(view, (), "")


def _listed(view: View, labels: Sequence[str], text: str) -> str:
    """The actions under their labels, or on lines of their own where there are none.

    Some games write the number of an action into the state or the reflection, ` =8`. Where labels are letters, such an
    action carries the same mark in the list, so that the number still leads to the label.
    """
    marked = {int(number) for number in MARK.findall(text)}
    listed = []
    # An action without a label would be missing from the list, and could still be the one that is played.
    if labels and len(labels) < len(view.order):
        raise ModelError(
            f"{len(view.order)} actions are listed, and the policy has {len(labels)} labels for them. Set max_actions "
            f"of the game to {len(view.order)} or more, or leave such states out."
        )
    # Not strict: there are as many labels as the longest list of actions needs.
    for label, index in zip(labels or repeat(""), view.order, strict=False):
        # Where labels are numbers they say the same already, and a mark would only lengthen the prompt.
        mark = f" ={index}" if index in marked and not label.isdigit() else ""
        # With a space, as inside a sentence: a name has then the same tokens in the list and in a reflection.
        start = f" {label} " if labels else "\n "
        action = view.observation.actions[index]
        if not labels:
            # Where a line is an action, its own line breaks would make it several.
            action = " ".join(action.splitlines())
        listed.append(f"{start}{action}{mark}")
    return ACTIONS + "".join(listed) + ACTION


def action_text_prompt(view: View) -> str:
    """Prompt of the policy player under `sum` and `token_mean` scoring, where each action's own text is scored."""
    return _state(view) + ACTION


NEXT = "Next: "
"""The last sentence begins with it, in the games of both companion packages."""

NUMBER = re.compile(r" =\d+$")


def recommended(reflection: str) -> str | None:
    """The action that the last sentence names, listed or not; None where there is no such sentence.

    >>> recommended("I look for mug. Next: go to shelf 1 =8.")
    'go to shelf 1'
    """
    # The last one: a reflection may have another `Next: ` before it.
    _, found, advised = reflection.rpartition(NEXT)
    return NUMBER.sub("", advised.strip().removesuffix(".")) if found else None


def numbered(reflection: str) -> bool:
    """Tell whether the action of the last sentence has a number.

    >>> numbered("I look for mug. Next: go to shelf 1 =8."), numbered("I look for mug. Next: go to shelf 1.")
    (True, False)
    """
    return NEXT in reflection and NUMBER.search(reflection.strip().removesuffix(".")) is not None


def with_right_number(reflection: str, numbers: Mapping[str, int]) -> str:
    """The reflection with the number that the action of its last sentence has, and without one where it has none.

    Args:
        reflection: what a player wrote.
        numbers: of the actions that the state names.

    >>> with_right_number("I look for mug. Next: go to shelf 1 =8.", {"go to shelf 1": 5})
    'I look for mug. Next: go to shelf 1 =5.'
    >>> with_right_number("I look for mug. Next: go to shelf 2 =8.", {"go to shelf 1": 5})
    'I look for mug. Next: go to shelf 2.'
    """
    action = recommended(reflection)
    if action is None:
        return reflection
    # No number is better than a wrong one, which the policy would follow.
    number = f" ={numbers[action]}" if action in numbers else ""
    return f"{reflection.rpartition(NEXT)[0]}{NEXT}{action}{number}."


Messages = tuple[tuple[str, str], ...]
"""Role and text of each message."""

ANY_GAME = """\
A game of several turns. Each turn changes the state, and the state tells what the goal is. Reach the goal in few \
turns."""
"""Stands in for the rules of a game that does not tell any."""


def rules_of(spec: EnvSpec) -> str:
    """The rules of the game in words, or a sentence that fits any game where it tells none."""
    game = spec.capability(HasRules)
    return ANY_GAME if game is None else game.rules


ADVISER = """\
You advise a player of a game, who chooses the actions. You are shown the state of the game.

# The game
{rules}

# How to answer
In one paragraph of one to three short sentences: what the last action did and whether it was good, which facts of \
the state matter now, and at the end what to do next and why. Say only what follows from the state and the rules. The \
player reads your text beside the state: write no heading, no list and no greeting."""

THOUGHTS = re.compile(r"\s*(?:<think>)?(?:(?!<think>).)*</think>|\s*<think>.*", re.DOTALL)
"""Thoughts that some reasoning models put before their answer. Where the template has begun the thoughts, the answer
shows only their end; without an end there is no answer."""


def reflector_messages(rules: str, view: View) -> Messages:
    """Prompt of a chat model that advises; it never holds the list of actions."""
    return ("system", ADVISER.replace("{rules}", rules)), ("user", f"# State\n{view.observation.text}")


def spoken(text: str) -> str:
    """The answer without the thoughts that some models put before it."""
    thoughts = THOUGHTS.match(text)
    return text[thoughts.end() if thoughts else 0 :].strip()


def advice_text(text: str) -> str:
    r"""A chat model's reflection as the policy reads it: one line, without the model's thoughts.

    >>> advice_text("<think>hm</think>\n\nI was wrong.\nNext:  left.")
    'I was wrong. Next: left.'
    """
    return " ".join(spoken(text).split())
