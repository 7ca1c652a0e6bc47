"""Kinds of things and receptacles in ALFWorld's games: what holds what, what can be done with what, and the tasks.

The properties are the same in all 3,553 training games; the weights are counts in them.
"""

from __future__ import annotations

from typing import Final

from alfworld_native._rooms import RoomKind
from alfworld_native.record import TaskType


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAMP: Final = "DeskLamp"
"""Kind of lamp that `look_at_obj_in_light` needs; floor lamps are in no receptacle, so they cannot be used."""

THINGS: Final = _words("""
    SaltShaker HousePlant Candle SprayBottle Bowl Window CD Egg Glassbottle Sink Pillow Spoon SoapBottle TeddyBear
    ButterKnife Cup Plate RemoteControl Tomato Statue HandTowel Knife StoveKnob LightSwitch Pen Painting DishSponge Vase
    Mug ToiletPaper Box Mirror Ladle Fork Blinds Footstool KeyChain Cloth Laptop TissueBox PepperShaker FloorLamp
    WateringCan Apple Pan PaperTowel PaperTowelRoll Newspaper Television Chair CellPhone CreditCard Lettuce BasketBall
    Potato Curtains Boots Pencil AlarmClock ToiletPaperRoll Spatula Book Bread SoapBar Watch DeskLamp Kettle Pot
    ScrubBrush WineBottle ShowerDoor Bathtub LaundryHamperLid ShowerGlass Poster TennisRacket BaseballBat Towel Plunger
    """)
"""Kinds of things that a problem declares, in its order."""

RECEPTACLES: Final = _words("""
    Safe Drawer CoffeeMachine HandTowelHolder SinkBasin Dresser LaundryHamper TVStand BathtubBasin Cabinet Fridge Desk
    Toilet Cart SideTable Sofa CoffeeTable DiningTable CounterTop GarbageCan ArmChair Shelf Microwave Toaster Bed
    PaintingHanger TowelHolder ToiletPaperHanger StoveBurner Ottoman
    """)
"""Kinds of receptacles that a problem declares, in its order."""

FIXED: Final = _kinds(
    """
    Window LightSwitch Mirror Blinds Chair Painting Curtains Poster HousePlant DeskLamp FloorLamp Television Sink
    StoveKnob Bathtub ShowerDoor ShowerGlass LaundryHamperLid Footstool
    """
)
"""Kinds of things that cannot be picked up."""

CLEANABLE: Final = _kinds(
    """
    Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Kettle Knife Ladle Lettuce Mug Pan Plate Pot Potato SoapBar
    Spatula Spoon Tomato
    """
)
HEATABLE: Final = _kinds("Apple Bread Cup Egg Mug Plate Potato Tomato")
COOLABLE: Final = _kinds("Apple Bowl Bread Cup Egg Lettuce Mug Pan Plate Pot Potato Tomato WineBottle")
SLICEABLE: Final = _kinds("Apple Bread Egg Lettuce Potato Tomato")
TOGGLEABLE: Final = frozenset((LAMP, "FloorLamp"))
CONTAINERS: Final = _kinds("Bowl Box Cup Mug Pan Plate Pot")
"""Things that other things can lie in."""

LOOKED_AT: Final = _kinds(
    """
    AlarmClock Book Bowl Box CD CellPhone CreditCard KeyChain Laptop Mug Newspaper Pen Pencil Pillow Plate Statue
    TissueBox Vase Watch
    """
)
"""Kinds of things to look at under a lamp."""

OPENABLE: Final[dict[str, float]] = {"Cabinet": 0.83, "Drawer": 0.84, "Fridge": 1.0, "Microwave": 1.0, "Safe": 0.83}
"""Share of the receptacles of a kind that can be opened; the others stand open, like all other kinds."""

ACCEPTS: Final[dict[str, frozenset[str]]] = {
    kind: _kinds(things)
    for kind, things in {
        "ArmChair": "Book Box CellPhone Cloth CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
        "BathtubBasin": "Cloth DishSponge HandTowel SoapBar",
        "Bed": "BaseballBat BasketBall Book CellPhone Laptop Pillow TennisRacket",
        "Cabinet": """
            Book Bowl Box CD Candle Cloth Cup DishSponge Glassbottle HandTowel Kettle Ladle Mug Newspaper Pan
            PepperShaker Plate Plunger Pot SaltShaker SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Vase
            WateringCan WineBottle
        """,
        "Cart": """
            Candle Cloth DishSponge HandTowel Plunger SoapBar SoapBottle SprayBottle TissueBox ToiletPaper
        """,
        "CoffeeMachine": "Mug",
        "CoffeeTable": """
            Book Bowl Box Candle CellPhone CreditCard KeyChain Laptop Newspaper Pen Pencil Plate RemoteControl
            Statue TissueBox Vase Watch WateringCan
        """,
        "CounterTop": """
            AlarmClock Apple Book Bowl Bread ButterKnife CD Candle CellPhone Cloth CreditCard Cup DishSponge Egg
            Fork Glassbottle HandTowel Kettle KeyChain Knife Ladle Laptop Lettuce Mug Pan Pen Pencil
            PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon SprayBottle
            Statue TissueBox ToiletPaper Tomato Vase WineBottle
        """,
        "Desk": """
            AlarmClock BasketBall Book Bowl Box CD CellPhone Cloth CreditCard KeyChain Laptop Mug Pen Pencil
            RemoteControl Statue TennisRacket TissueBox Vase Watch WateringCan
        """,
        "DiningTable": """
            AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth
            CreditCard Cup DishSponge Egg Fork Glassbottle Kettle KeyChain Knife Ladle Laptop Lettuce Mug
            Newspaper Pan Pen Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBottle Spatula
            Spoon SprayBottle Statue TennisRacket TissueBox Tomato Vase Watch WateringCan WineBottle
        """,
        "Drawer": """
            Book ButterKnife CD Candle CellPhone Cloth CreditCard DishSponge Fork HandTowel KeyChain Knife Ladle
            Newspaper Pen Pencil PepperShaker RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon
            SprayBottle TissueBox ToiletPaper Watch WateringCan
        """,
        "Dresser": """
            AlarmClock BasketBall Book Bowl Box CD Candle CellPhone Cloth CreditCard KeyChain Laptop Mug
            Newspaper Pen Pencil Plate RemoteControl SprayBottle Statue TennisRacket TissueBox ToiletPaper Vase
            Watch WateringCan
        """,
        "Fridge": "Apple Bowl Bread Cup Egg Glassbottle Lettuce Mug Pan Plate Pot Potato Tomato WineBottle",
        "GarbageCan": """
            Apple Bread CD Cloth DishSponge Egg HandTowel Lettuce Newspaper Pen Pencil Potato SoapBar SoapBottle
            SprayBottle TissueBox ToiletPaper Tomato WineBottle
        """,
        "HandTowelHolder": "HandTowel",
        "LaundryHamper": "Cloth",
        "Microwave": "Apple Bowl Bread Cup Egg Glassbottle Mug Plate Potato Tomato",
        "Ottoman": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
        "Safe": "CD CellPhone CreditCard KeyChain Statue Vase",
        "Shelf": """
            AlarmClock Book Bowl Box CD Candle CellPhone Cloth CreditCard Cup DishSponge Glassbottle HandTowel
            Kettle KeyChain Mug Newspaper Pen Pencil PepperShaker Plate Pot RemoteControl SaltShaker SoapBar
            SoapBottle SprayBottle Statue TissueBox ToiletPaper Vase Watch WateringCan WineBottle
        """,
        "SideTable": """
            AlarmClock Apple BaseballBat BasketBall Book Bowl Box Bread ButterKnife CD Candle CellPhone Cloth
            CreditCard Cup DishSponge Egg Fork HandTowel Kettle KeyChain Knife Laptop Lettuce Mug Newspaper Pan
            Pen Pencil PepperShaker Plate Pot Potato RemoteControl SaltShaker SoapBar SoapBottle Spatula Spoon
            SprayBottle Statue TennisRacket TissueBox ToiletPaper Tomato Vase Watch WateringCan WineBottle
        """,
        "SinkBasin": """
            Apple Bowl ButterKnife Cloth Cup DishSponge Egg Fork Glassbottle HandTowel Kettle Knife Ladle
            Lettuce Mug Pan Plate Pot Potato SoapBar Spatula Spoon Tomato
        """,
        "Sofa": "Book Box CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl",
        "StoveBurner": "Kettle Pan Pot",
        "TVStand": "TissueBox",
        "Toilet": "Candle Cloth DishSponge HandTowel SoapBar SoapBottle SprayBottle TissueBox ToiletPaper",
        "ToiletPaperHanger": "ToiletPaper",
        "TowelHolder": "Towel",
    }.items()
}
"""Kinds of things that can be put in or on a kind of receptacle; kinds that are not listed take nothing."""

TOOLS: Final[dict[TaskType, str]] = {
    "pick_clean_then_place_in_recep": "SinkBasin",
    "pick_heat_then_place_in_recep": "Microwave",
    "pick_cool_then_place_in_recep": "Fridge",
}
"""The receptacle that does it; never the one the thing goes to."""

TASK_ROOMS: Final[dict[TaskType, dict[RoomKind, int]]] = {
    "pick_and_place_simple": {"kitchen": 79, "living room": 210, "bedroom": 237, "bathroom": 264},
    "look_at_obj_in_light": {"living room": 51, "bedroom": 257},
    "pick_clean_then_place_in_recep": {"kitchen": 501, "bathroom": 149},
    "pick_heat_then_place_in_recep": {"kitchen": 459},
    "pick_cool_then_place_in_recep": {"kitchen": 533},
    "pick_two_obj_and_place": {"kitchen": 124, "living room": 216, "bedroom": 240, "bathroom": 233},
}
"""Training games of each task by kind of room."""

TARGETS: Final[dict[TaskType, dict[str, int]]] = {
    "pick_and_place_simple": {
        "Toilet": 89, "ArmChair": 71, "Desk": 57, "SideTable": 57, "Sofa": 53, "GarbageCan": 53, "Shelf": 52,
        "Dresser": 45, "CoffeeTable": 43, "ToiletPaperHanger": 42, "Drawer": 39, "CounterTop": 35, "Cabinet": 33,
        "DiningTable": 27, "Ottoman": 20, "Bed": 19, "Safe": 18, "Microwave": 15, "Cart": 12, "Fridge": 7,
        "StoveBurner": 3,
    },
    "pick_clean_then_place_in_recep": {
        "DiningTable": 99, "CounterTop": 96, "Drawer": 82, "Cabinet": 58, "Microwave": 50, "Fridge": 40,
        "SideTable": 40, "Shelf": 40, "StoveBurner": 37, "Toilet": 32, "CoffeeMachine": 32, "GarbageCan": 31,
        "Cart": 11, "Dresser": 2,
    },
    "pick_heat_then_place_in_recep": {
        "Fridge": 105, "Cabinet": 71, "CounterTop": 66, "GarbageCan": 55, "CoffeeMachine": 55, "SideTable": 44,
        "DiningTable": 43, "Shelf": 20,
    },
    "pick_cool_then_place_in_recep": {
        "Microwave": 97, "DiningTable": 93, "CounterTop": 89, "Cabinet": 64, "CoffeeMachine": 47, "GarbageCan": 46,
        "Shelf": 45, "StoveBurner": 39, "SideTable": 13,
    },
    "pick_two_obj_and_place": {
        "Drawer": 112, "ArmChair": 68, "Cabinet": 67, "Toilet": 59, "Desk": 55, "Shelf": 52, "GarbageCan": 52,
        "CoffeeTable": 50, "Dresser": 48, "Sofa": 47, "SideTable": 42, "CounterTop": 37, "Bed": 31,
        "DiningTable": 29, "Fridge": 19, "Cart": 16, "Microwave": 11, "Ottoman": 11, "Safe": 7,
    },
}  # fmt: skip
"""Training games of each task by the kind of receptacle that the thing goes to."""
