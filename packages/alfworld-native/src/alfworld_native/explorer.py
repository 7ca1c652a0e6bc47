"""An expert of household games who knows what the player knows: where to look next, what to do with what was found.

It reads a `Scene`, so it sees neither the facts of the game nor the list of actions. The order of its search is that of
likelihood for effort (`likelihood.py`); nothing else in it is about particular rooms.
"""

from __future__ import annotations

from collections.abc import Iterator

from alfworld_native.engine import Step
from alfworld_native.likelihood import OPENABLE, likelihood
from alfworld_native.memory import Memory
from alfworld_native.scene import Found, Scene, goal_of, scene_of
from alfworld_native.sentence import TREATMENTS, kind_of, number_of


class Explorer:
    """Player of one episode: it remembers what the game says, and searches where things are likely to be.

    Args:
        first: what the game opens with (`State.first`).

    Raises:
        GameError: the text opens no household game, or its task is none of ALFWorld's sentences.
    """

    def __init__(self, first: Step) -> None:
        self.memory = Memory(first.feedback, first.admissible)

    def command(self) -> str:
        """The next command; one that is admissible."""
        command = advised(scene_of(self.memory))
        return command if command in self.memory.admissible else "look"

    def observe(self, command: str, step: Step) -> None:
        """Take up what the game answered to a command."""
        self.memory.update(command, step.feedback, step.admissible)


def advised(scene: Scene) -> str:
    """The command that an expert gives who has seen what the scene says.

    >>> advised(Scene("put some tomato on microwave.", unseen=("cabinet 1", "fridge 1", "microwave 1")))
    'go to fridge 1'
    """
    if not scene.held:
        return _fetch(scene)
    # Any thing of the right kind will do, so the kind is compared, not the name.
    if kind_of(scene.held) == goal_of(scene).object_kind:
        return _lit(scene) if goal_of(scene).task_type == "look_at_obj_in_light" else _delivered(scene)
    # A wrong thing blocks the only hand; it is put down wherever that is possible.
    return _able(scene, "put ", "move ") or _discarded(scene)


def _able(scene: Scene, *beginnings: str) -> str:
    """The first command of the scene that begins so; empty when there is none."""
    return next((command for command in scene.can if command.startswith(beginnings)), "")


def _gone(scene: Scene, receptacle: str) -> str:
    """The way to a receptacle, and into it."""
    if receptacle not in scene.here:
        return f"go to {receptacle}"
    # Examining is left when it is open: a second receptacle of this place has not been seen yet.
    return _able(scene, f"open {receptacle}") or f"examine {receptacle}"


def _discarded(scene: Scene) -> str:
    """The way to a receptacle for a thing that the task is not about and that cannot be put down here."""
    # The receptacle that it came from most likely accepts it.
    if scene.origin and scene.origin not in scene.here:
        return _gone(scene, scene.origin)
    elsewhere = [name for name in scene.receptacles if name not in scene.here]
    held = kind_of(scene.held)
    likeliest = max(elsewhere, key=lambda name: likelihood(held, kind_of(name)), default="")
    # Opening something here is one turn, and may uncover a receptacle that accepts the thing.
    return _able(scene, "open ") or (f"go to {likeliest}" if likeliest else "look")


def _delivered(scene: Scene) -> str:
    """The next command with the wanted thing in hand: treat it, then put it where it belongs."""
    tool, target = aims(scene)
    if tool:
        verb = TREATMENTS[goal_of(scene).task_type][0]
        return _able(scene, f"{verb} ") or _gone(scene, tool)
    if target not in scene.here:
        # The opening lists all receptacles, so an empty target means that the room has none.
        return f"go to {target}" if target else _search(scene)
    puts = (command for command in scene.can if command.startswith(("put ", "move ")))
    return next((command for command in puts if command.endswith(f" {target}")), "") or _gone(scene, target)


def _lit(scene: Scene) -> str:
    """The next command with the thing to look at in hand: use the lamp, go to it, or look for it."""
    lamp = next((entry for entry in scene.found if kind_of(entry.thing) == goal_of(scene).target_kind), None)
    return _able(scene, "use ") or (f"go to {lamp.receptacle}" if lamp else _search(scene))


def aims(scene: Scene) -> tuple[str, str]:
    """Two receptacles: the one that treats the thing, while it must be treated, and the one it belongs in.

    Empty texts where the task has none. A lamp is a thing, and no receptacle.
    """
    goal = goal_of(scene)
    tool = ""
    if goal.task_type in TREATMENTS:
        _, condition, tools = TREATMENTS[goal.task_type]
        # Conditions are those of the thing in hand; with another thing in hand the treatment is still ahead.
        if condition not in scene.conditions or kind_of(scene.held) != goal.object_kind:
            # A sink basin before a sink: the later wording cleans at basins only.
            tool = next((_best(scene, kind) for kind in tools if _of_kind(scene, kind)), "")
    return tool, "" if goal.task_type == "look_at_obj_in_light" else _best(scene, goal.target_kind)


def _of_kind(scene: Scene, kind: str) -> list[str]:
    return [name for name in scene.receptacles if kind_of(name) == kind]


def _best(scene: Scene, kind: str) -> str:
    """The best receptacle of a kind; empty where there is none.

    For a task with two things it is the one that holds most of them. Otherwise a receptacle at hand comes first, then
    one that is not closed.
    """
    goal = goal_of(scene)
    # The pair has to end in one receptacle, so the second thing follows the first.
    inside = [entry.receptacle for entry in scene.found] if goal.task_type == "pick_two_obj_and_place" else []
    obstructed = {*scene.closed, *scene.shut}

    def order(name: str) -> tuple[int, bool, bool, bool, int]:
        # The number comes last, so that ties go to the lowest one.
        return -inside.count(name), name not in scene.here, name in obstructed, name in scene.unseen, number_of(name)

    return min(_of_kind(scene, kind), key=order, default="")


def pending(scene: Scene) -> tuple[Found, ...]:
    """Things that were seen and are still to be fetched, best first: what is at hand, else what was treated already."""
    goal, target = goal_of(scene), aims(scene)[1]
    wanted = [entry for entry in scene.found if kind_of(entry.thing) == goal.object_kind]
    if goal.task_type == "pick_two_obj_and_place":
        # A thing that lies in the target already is done with.
        wanted = [entry for entry in wanted if entry.receptacle != target]
    condition = TREATMENTS[goal.task_type][1] if goal.task_type in TREATMENTS else ""
    return tuple(
        sorted(wanted, key=lambda entry: (entry.receptacle not in scene.here, condition not in entry.conditions))
    )


def _fetch(scene: Scene) -> str:
    """The next command towards the wanted thing."""
    # A loop over at most one entry, as nothing may be pending.
    for entry in pending(scene)[:1]:
        return _able(scene, f"take {entry.thing} from ") or _gone(scene, entry.receptacle)
    return _search(scene)


def sought(scene: Scene) -> tuple[str, ...]:
    """Kinds of things that are still to be found, the more urgent first; a held thing needs no more looking for."""
    goal = goal_of(scene)
    # Things in the target are not pending, so a second one of the pair is still sought.
    known = {kind_of(entry.thing) for entry in pending(scene)} | {kind_of(scene.held)}
    kinds = [goal.object_kind]
    if goal.task_type == "look_at_obj_in_light":
        kinds.append(goal.target_kind)
        known |= {kind_of(entry.thing) for entry in scene.found}
    return tuple(kind for kind in kinds if kind not in known) or (goal.object_kind,)


def _search(scene: Scene) -> str:
    """Look where something sought is likeliest for the turns it takes; `look` when all was searched."""
    best = max(_prospects(scene), key=lambda prospect: prospect[0], default=(0.0, "look"))
    return best[1]


def _prospects(scene: Scene) -> Iterator[tuple[float, str]]:
    """(likelihood for each turn, first command) of every receptacle that was not looked into."""
    kinds = sought(scene)
    for name in (*scene.closed, *scene.unseen):
        kind = kind_of(name)
        # A receptacle at hand that was not looked into costs one turn: to open or examine it.
        turns = (name not in scene.here) + (name in scene.closed or kind in OPENABLE or name in scene.here)
        yield likelihood(kinds[0], kind) / turns, _gone(scene, name)
