"""Reflections on household games, made of facts that the state text has: no more is known than the player sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from alfworld_native.explorer import advised, aims, pending, sought
from alfworld_native.scene import Found, Scene, goal_of, read_scene
from alfworld_native.sentence import TREATMENTS, kind_of

Fullness = Literal["command", "goal", "facts"]
"""End of a reflection: the command to give next, what to seek next, or neither."""


def reflect(state: str, fullness: Fullness = "command") -> str:
    """The reflection of an expert who sees the state text.

    Raises:
        ValueError: the text is no state of a household game.
    """
    scene = read_scene(state)
    return reflection_text(scene, advised(scene)) if fullness == "command" else goal_text(scene, fullness)


def reflection_text(scene: Scene, advice: str, *, judged: bool = True) -> str:
    """A reflection from facts that code can check, the advice last.

    It says whether the last command was a mistake and why, what is in hand, what is missing, and what to do
    next; with the number of the command where the state gives it.

    Args:
        scene: what the player saw.
        advice: the command to give next.
        judged: whether a mistake is named.

    >>> scene = Scene("cool some apple and put it in shelf.", ("desk 1",), "apple 1", unseen=("fridge 1", "shelf 1"))
    >>> reflection_text(scene, "go to fridge 1")
    'I hold apple 1. It must be cool: that is done at fridge 1. Next: go to fridge 1.'
    """
    wrong = mistake(scene) if judged else ""
    # The number saves the policy looking the command up in a long list.
    number = f" ={scene.numbers[advice]}" if advice in scene.numbers else ""
    parts = [
        f"The last action was a mistake: {wrong}." if wrong else "",
        f"I hold {_in_hand(scene)}.",
        _subgoal(scene),
        f"Next: {advice}{number}.",
    ]
    return " ".join(part for part in parts if part)


def goal_text(scene: Scene, fullness: Fullness = "goal", *, judged: bool = True) -> str:
    """A reflection without a command: the player finds out by itself which one helps.

    It says whether the last command was a mistake and why, where one is, what is in hand, and where wanted things are;
    as a goal also what to seek next. A receptacle that is to be found is named by its kind: the player may not have
    seen it.

    Args:
        scene: what the player saw.
        fullness: `goal`, or `facts` for a reflection that sets no goal.
        judged: whether a mistake is named.

    >>> scene = Scene("cool some apple and put it in shelf.", ("desk 1",), "apple 1", unseen=("fridge 1", "shelf 1"))
    >>> goal_text(scene)
    'I am at desk 1. I hold apple 1. It is not cool. Seek: fridge.'
    >>> goal_text(scene, "facts")
    'I am at desk 1. I hold apple 1. It is not cool.'
    """
    wrong = mistake(scene) if judged else ""
    here = scene.here[0] if scene.here else ""
    closed = ", which is closed" if here in (*scene.closed, *scene.shut) else ""
    parts = [
        f"The last action was a mistake: {wrong}." if wrong else "",
        f"I am at {here}{closed}." if here else "I am in the middle of the room.",
        f"I hold {_in_hand(scene)}.",
        f"It is not {_condition(scene)}." if _must_treat(scene) else "",
        *(f"{entry.thing} is in {entry.receptacle}." for entry in _sightings(scene)),
        f"Seek: {_goal(scene)}." if fullness == "goal" else "",
    ]
    return " ".join(part for part in parts if part)


def _must_treat(scene: Scene) -> bool:
    wanted = kind_of(scene.held) == goal_of(scene).object_kind
    return wanted and bool(_condition(scene)) and _condition(scene) not in scene.conditions


MOST_SIGHTINGS: Final = 2
"""Wanted things that a reflection without a command names; more would say the same again."""


def _sightings(scene: Scene) -> tuple[Found, ...]:
    """Things that were seen and could be the next step."""
    goal = goal_of(scene)
    if not scene.held:
        return pending(scene)[:MOST_SIGHTINGS]
    lamps = (entry for entry in scene.found if kind_of(entry.thing) == goal.target_kind)
    return tuple(lamps)[:1] if goal.task_type == "look_at_obj_in_light" else ()


def _goal(scene: Scene) -> str:
    """Target of the search: a thing, or a kind of receptacle; a name only if it was seen."""
    goal = goal_of(scene)
    if scene.held and kind_of(scene.held) != goal.object_kind:
        return f"a place to put down {scene.held}"
    if not scene.held:
        return pending(scene)[0].thing if pending(scene) else goal.object_kind
    if goal.task_type == "look_at_obj_in_light":
        return goal.target_kind
    if _must_treat(scene):
        tool = aims(scene)[0]
        return kind_of(tool) if tool else TREATMENTS[goal.task_type][2][0]
    # A pair must end in one receptacle, so the one that holds the first thing has a name.
    first = next((entry.receptacle for entry in scene.found if kind_of(entry.receptacle) == goal.target_kind), "")
    return first if first and goal.task_type == "pick_two_obj_and_place" else goal.target_kind


def _in_hand(scene: Scene) -> str:
    return " ".join([*scene.conditions, scene.held]) if scene.held else "nothing"


def _subgoal(scene: Scene) -> str:
    """Next part of the task, and its reason."""
    goal = goal_of(scene)
    # The hand holds one thing, so a wrong one is the first obstacle.
    if scene.held and kind_of(scene.held) != goal.object_kind:
        return f"The task needs {goal.object_kind}, so it must be put down."
    if scene.held and goal.task_type == "look_at_obj_in_light":
        lamp = next((entry for entry in scene.found if kind_of(entry.thing) == goal.target_kind), None)
        return f"{lamp.thing} is at {lamp.receptacle}." if lamp else _search(scene)
    if scene.held:
        tool, target = aims(scene)
        return f"It must be {_condition(scene)}: that is done at {tool}." if tool else f"It belongs in {target}."
    if found := pending(scene):
        return f"{found[0].thing} is in {found[0].receptacle}."
    return _search(scene)


def _search(scene: Scene) -> str:
    placed = [entry for entry in scene.found if kind_of(entry.thing) == goal_of(scene).object_kind]
    # The half of a pair that was found already is not sought again.
    another = "another " if placed and goal_of(scene).task_type == "pick_two_obj_and_place" else ""
    return f"I look for {another}{sought(scene)[0]}."


def _condition(scene: Scene) -> str:
    """Condition that the task wants the thing to have; empty when none."""
    return TREATMENTS[goal_of(scene).task_type][1] if goal_of(scene).task_type in TREATMENTS else ""


def mistake(scene: Scene) -> str:
    """Reason why the last command was a mistake, as far as the state text shows; empty when it was none."""
    verb, _, rest = scene.last.partition(" ")
    reason = REASONS.get(verb)
    # The game's own verdict outranks every rule below.
    if scene.result == "Nothing happens.":
        return "nothing happened"
    return reason(scene, rest) if reason else ""


def _gone(scene: Scene, rest: str) -> str:
    name = rest.removeprefix("to ")
    if _is_needless(scene):
        return f"nothing is needed at {name}"
    # A way to a known place is a mistake only for a player who is still searching.
    if scene.held or pending(scene) or not scene.again or name not in scene.known:
        return ""
    return f"{name} was searched before"


def _is_needless(scene: Scene) -> bool:
    """True for a player who knows where to go, and is elsewhere."""
    goal = goal_of(scene)
    if not scene.held:
        found = pending(scene)
        return bool(found) and found[0].receptacle not in scene.here
    if kind_of(scene.held) != goal.object_kind:
        return False
    if goal.task_type == "look_at_obj_in_light":
        lamps = [entry.receptacle for entry in scene.found if kind_of(entry.thing) == goal.target_kind]
        return bool(lamps) and not set(lamps) & set(scene.here)
    # The tool comes before the target as long as the thing must be treated.
    return next((name for name in aims(scene) if name), "") not in scene.here


def _opened(scene: Scene, rest: str) -> str:
    return f"nothing is needed from {rest}" if _is_needless(scene) else ""


def _closed(scene: Scene, rest: str) -> str:
    return f"{rest} need not be closed"


def _taken(scene: Scene, rest: str) -> str:
    thing, _, receptacle = rest.partition(" from ")
    goal = goal_of(scene)
    if kind_of(thing) != goal.object_kind:
        return f"{thing} is not needed"
    # Taking a delivered thing out again undoes work.
    if goal.task_type == "pick_two_obj_and_place" and aims(scene)[1] == receptacle:
        return f"{thing} was where it belongs"
    return ""


def _put(scene: Scene, rest: str) -> str:
    thing, _, receptacle = rest.replace(" in/on ", " to ").partition(" to ")
    goal, condition = goal_of(scene), _condition(scene)
    if kind_of(thing) != goal.object_kind:
        return ""
    if goal.task_type == "look_at_obj_in_light":
        return f"{thing} must stay in hand"
    # The scene is the one after the put, so the thing is among those found, with its conditions.
    if condition and not any(entry.thing == thing and condition in entry.conditions for entry in scene.found):
        return f"{thing} is not {condition} yet"
    return "" if aims(scene)[1] == receptacle else f"{thing} does not belong there"


def _treated(scene: Scene, rest: str) -> str:
    thing = rest.partition(" with ")[0]
    verb = scene.last.partition(" ")[0]
    # No treatment is wanted in the other tasks, and "" equals no verb.
    wanted = TREATMENTS.get(goal_of(scene).task_type, ("", "", ()))[0]
    return "" if verb == wanted and kind_of(thing) == goal_of(scene).object_kind else f"there was no need to {verb} it"


def _used(scene: Scene, rest: str) -> str:
    goal = goal_of(scene)
    helps = goal.task_type == "look_at_obj_in_light" and kind_of(rest) == goal.target_kind
    return "" if helps else "no light is needed"


def _idle(scene: Scene, rest: str) -> str:
    # Examining a receptacle for the first time is the one look that tells something.
    return "" if rest in scene.receptacles and not scene.again else "it told nothing new"


def _sliced(scene: Scene, rest: str) -> str:
    return "nothing needs slicing"


REASONS: Final[dict[str, Callable[[Scene, str], str]]] = {
    "go": _gone,
    "open": _opened,
    "close": _closed,
    "take": _taken,
    "put": _put,
    "move": _put,
    **dict.fromkeys(("clean", "heat", "cool"), _treated),
    "use": _used,
    **dict.fromkeys(("examine", "look", "inventory", "help"), _idle),
    "slice": _sliced,
}
"""First word of a command -> why it was a mistake, given the scene after it and the rest of the command."""
