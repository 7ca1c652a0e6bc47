"""A kitchen written by hand, small enough to work out every answer of the game on paper; TextWorld can play it too.

    place   receptacles                    things
    loc 8   (the middle of the room)
    loc 7   countertop 1                   apple 2, knife 1
    loc 6   fridge 1 (closed)              apple 1 (cool)
    loc 5   microwave 1 (closed)
    loc 4   sinkbasin 1
    loc 3   cabinet 2, cabinet 1 (closed)  in cabinet 2: mug 1, spoon 1 (in the mug)
    loc 2   dresser 1                      desklamp 1, watch 1
    loc 1   safe 1 (closed, on it)         the same watch 1

A chair stands at the countertop, in no receptacle.
"""

from __future__ import annotations

from alfworld_native.record import GameRecord, TaskType

OPENING = (
    "-= Welcome to TextWorld, ALFRED! =-\n\n"
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, a countertop 1, "
    "a dresser 1, a fridge 1, a microwave 1, a safe 1, and a sinkbasin 1.\n\n"
    "Your task is to: "
)

PLACED = """
(and (exists (?r - receptacle) (exists (?o - object)
    (and (inReceptacle ?o ?r) (objectType ?o {object}Type) (receptacleType ?r {target}Type) {also}))))"""
LIT = """
(and
    (exists (?ot - object ?r - receptacle ?a - agent ?l - location)
        (and (objectType ?ot {target}Type) (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l)
            (atLocation ?a ?l) (inReceptacle ?ot ?r)))
    (exists (?o - object ?a - agent) (and (objectType ?o {object}Type) (holds ?a ?o))))"""
TWO = """
(and (exists (?r - receptacle) (exists (?o1 - object)
    (and (objectType ?o1 {object}Type) (receptacleType ?r {target}Type) (inReceptacle ?o1 ?r)
        (exists (?o2 - object)
            (and (not (= ?o1 ?o2)) (objectType ?o2 {object}Type) (receptacleType ?r {target}Type)
                (inReceptacle ?o2 ?r)))))))"""

GOALS: dict[TaskType, tuple[str, str]] = {
    "pick_and_place_simple": ("put a mug in countertop.", PLACED.format(object="Mug", target="CounterTop", also="")),
    "look_at_obj_in_light": ("look at watch under the desklamp.", LIT.format(object="Watch", target="DeskLamp")),
    "pick_clean_then_place_in_recep": (
        "put a clean apple in fridge.",
        PLACED.format(object="Apple", target="Fridge", also="(cleanable ?o) (isClean ?o)"),
    ),
    "pick_heat_then_place_in_recep": (
        "heat some apple and put it in countertop.",
        PLACED.format(object="Apple", target="CounterTop", also="(heatable ?o) (isHot ?o)"),
    ),
    "pick_cool_then_place_in_recep": (
        "cool some apple and put it in countertop.",
        PLACED.format(object="Apple", target="CounterTop", also="(coolable ?o) (isCool ?o)"),
    ),
    "pick_two_obj_and_place": ("put two apple in sinkbasin.", TWO.format(object="Apple", target="SinkBasin")),
}
"""The sentence and the PDDL goal, by kind of task."""

WINNING: dict[TaskType, tuple[str, ...]] = {
    "pick_and_place_simple": (
        *("go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2"),
        *("go to countertop 1", "put mug 1 in/on countertop 1"),
    ),
    "look_at_obj_in_light": ("go to dresser 1", "take watch 1 from dresser 1", "use desklamp 1"),
    "pick_clean_then_place_in_recep": (
        *(
            "go to countertop 1",
            "take apple 2 from countertop 1",
            "go to sinkbasin 1",
            "clean apple 2 with sinkbasin 1",
        ),
        *("go to fridge 1", "open fridge 1", "put apple 2 in/on fridge 1"),
    ),
    "pick_heat_then_place_in_recep": (
        *("go to countertop 1", "take apple 2 from countertop 1", "go to microwave 1", "heat apple 2 with microwave 1"),
        *("go to countertop 1", "put apple 2 in/on countertop 1"),
    ),
    "pick_cool_then_place_in_recep": (
        *("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1"),
        *("go to countertop 1", "put apple 1 in/on countertop 1"),
    ),
    "pick_two_obj_and_place": (
        *("go to countertop 1", "take apple 2 from countertop 1", "go to sinkbasin 1", "put apple 2 in/on sinkbasin 1"),
        *("go to fridge 1", "open fridge 1", "take apple 1 from fridge 1"),
        *("go to sinkbasin 1", "put apple 1 in/on sinkbasin 1"),
    ),
}
"""Commands that win each of them as fast as can be, in wording 2.1.1."""

KITCHEN = """
(define (problem kitchen)
(:domain alfred)
(:objects
    agent1 - agent
    Apple_bar_a Apple_bar_b Knife_bar_a Mug_bar_a Spoon_bar_a DeskLamp_bar_a Watch_bar_a Chair_bar_a - object
    AppleType KnifeType ButterKnifeType MugType SpoonType DeskLampType WatchType ChairType SinkType - otype
    Cabinet_bar_a Cabinet_bar_b CounterTop_bar_a Dresser_bar_a Fridge_bar_a Microwave_bar_a - receptacle
    Safe_bar_a Sink_bar_a_bar_SinkBasin - receptacle
    CabinetType CounterTopType DresserType FridgeType MicrowaveType SafeType SinkBasinType - rtype
    loc_bar_a loc_bar_b loc_bar_c loc_bar_d loc_bar_e loc_bar_f loc_bar_g loc_bar_h - location
)
(:init
    (= (total-cost) 0)
    (atLocation agent1 loc_bar_a)
    (receptacleAtLocation CounterTop_bar_a loc_bar_b) (receptacleType CounterTop_bar_a CounterTopType)
    (receptacleAtLocation Fridge_bar_a loc_bar_c) (receptacleType Fridge_bar_a FridgeType)
    (receptacleAtLocation Microwave_bar_a loc_bar_d) (receptacleType Microwave_bar_a MicrowaveType)
    (receptacleAtLocation Sink_bar_a_bar_SinkBasin loc_bar_e) (receptacleType Sink_bar_a_bar_SinkBasin SinkBasinType)
    (receptacleAtLocation Cabinet_bar_a loc_bar_f) (receptacleType Cabinet_bar_a CabinetType)
    (receptacleAtLocation Cabinet_bar_b loc_bar_f) (receptacleType Cabinet_bar_b CabinetType)
    (receptacleAtLocation Dresser_bar_a loc_bar_g) (receptacleType Dresser_bar_a DresserType)
    (receptacleAtLocation Safe_bar_a loc_bar_h) (receptacleType Safe_bar_a SafeType)
    (openable Fridge_bar_a) (openable Microwave_bar_a) (openable Cabinet_bar_a) (openable Cabinet_bar_b)
    (openable Safe_bar_a)

    (canContain CounterTopType AppleType) (canContain CounterTopType KnifeType) (canContain CounterTopType MugType)
    (canContain CounterTopType SpoonType) (canContain FridgeType AppleType) (canContain FridgeType MugType)
    (canContain MicrowaveType AppleType) (canContain MicrowaveType MugType) (canContain SinkBasinType AppleType)
    (canContain SinkBasinType KnifeType) (canContain SinkBasinType MugType) (canContain CabinetType MugType)
    (canContain CabinetType SpoonType) (canContain DresserType WatchType) (canContain DresserType DeskLampType)
    (canContain SafeType WatchType)

    (objectType Apple_bar_a AppleType) (inReceptacle Apple_bar_a CounterTop_bar_a) (pickupable Apple_bar_a)
    (cleanable Apple_bar_a) (heatable Apple_bar_a) (coolable Apple_bar_a) (sliceable Apple_bar_a)
    (objectAtLocation Apple_bar_a loc_bar_b)
    (objectType Apple_bar_b AppleType) (inReceptacle Apple_bar_b Fridge_bar_a) (pickupable Apple_bar_b)
    (cleanable Apple_bar_b) (heatable Apple_bar_b) (coolable Apple_bar_b) (sliceable Apple_bar_b)
    (objectAtLocation Apple_bar_b loc_bar_c) (isCool Apple_bar_b)
    (objectType Knife_bar_a KnifeType) (inReceptacle Knife_bar_a CounterTop_bar_a) (pickupable Knife_bar_a)
    (cleanable Knife_bar_a) (objectAtLocation Knife_bar_a loc_bar_b)
    (objectType Mug_bar_a MugType) (inReceptacle Mug_bar_a Cabinet_bar_a) (pickupable Mug_bar_a)
    (cleanable Mug_bar_a) (heatable Mug_bar_a) (coolable Mug_bar_a) (isReceptacleObject Mug_bar_a)
    (objectAtLocation Mug_bar_a loc_bar_f)
    (objectType Spoon_bar_a SpoonType) (inReceptacle Spoon_bar_a Cabinet_bar_a) (pickupable Spoon_bar_a)
    (inReceptacleObject Spoon_bar_a Mug_bar_a) (objectAtLocation Spoon_bar_a loc_bar_f)
    (objectType DeskLamp_bar_a DeskLampType) (inReceptacle DeskLamp_bar_a Dresser_bar_a) (toggleable DeskLamp_bar_a)
    (objectAtLocation DeskLamp_bar_a loc_bar_g)
    (objectType Watch_bar_a WatchType) (inReceptacle Watch_bar_a Dresser_bar_a) (inReceptacle Watch_bar_a Safe_bar_a)
    (pickupable Watch_bar_a) (objectAtLocation Watch_bar_a loc_bar_h)
    (objectType Chair_bar_a ChairType) (objectAtLocation Chair_bar_a loc_bar_b)  ; in no receptacle
)
(:goal GOAL)
)
"""


def kitchen(task_type: TaskType = "pick_and_place_simple") -> str:
    """The PDDL problem of the kitchen with the goal of this kind."""
    return KITCHEN.replace("GOAL", GOALS[task_type][1])


def kitchen_record(task_type: TaskType = "pick_and_place_simple") -> GameRecord:
    """The same as a record."""
    sentence, _ = GOALS[task_type]
    return GameRecord(key=f"kitchen/{task_type}", task_type=task_type, goal=sentence, problem=kitchen(task_type))
