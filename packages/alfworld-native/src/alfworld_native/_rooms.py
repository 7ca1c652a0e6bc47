"""The four kinds of room: which receptacles and things they have, how many, and where things lie.

Hand-made tables, rounded from the counts of ALFWorld's 3,553 training games (no other split was looked at). One row
of the first table is a receptacle; of the second, a thing and where it lies:

    receptacle  % of rooms that have it  fewest  mean  most
    thing       % of rooms that have it  fewest-most  place weight ...   (`beside`: lies in no receptacle)

A weight is what a place gets where the room has it, so that it does not depend on how many rooms have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, get_args

RoomKind = Literal["kitchen", "living room", "bedroom", "bathroom"]

ROOM_KINDS: Final[tuple[RoomKind, ...]] = get_args(RoomKind)

BESIDE: Final = "beside"


@dataclass(frozen=True, slots=True)
class Fixture:
    """A kind of receptacle in a kind of room."""

    kind: str
    share: float
    """Share of the rooms that have it, in [0, 1]."""
    fewest: int
    mean: float
    most: int


@dataclass(frozen=True, slots=True)
class Item:
    """A kind of thing in a kind of room."""

    kind: str
    share: float
    """Share of the rooms that have it, in [0, 1]."""
    fewest: int
    most: int
    places: tuple[tuple[str, float], ...]
    """Kind of receptacle, or `BESIDE`, and its weight."""


@dataclass(frozen=True, slots=True)
class Room:
    """Receptacles and things that a kind of room can have."""

    fixtures: tuple[Fixture, ...]
    items: tuple[Item, ...]


@cache
def room(kind: RoomKind) -> Room:
    """The catalogue of a kind of room."""
    fixtures, items = (table.split("\n") for table in TABLES[kind])
    return Room(
        tuple(_fixture(row.split()) for row in fixtures if row.strip()),
        tuple(_item(row.split()) for row in items if row.strip()),
    )


def _fixture(cells: list[str]) -> Fixture:
    kind, share, fewest, mean, most = cells
    return Fixture(kind, int(share) / 100, int(fewest), float(mean), int(most))


def _item(cells: list[str]) -> Item:
    kind, share, numbers, *places = cells
    fewest, most = numbers.split("-")
    # A place and its weight take turns in the row.
    weights = tuple((place, float(weight)) for place, weight in zip(places[::2], places[1::2], strict=True))
    return Item(kind, int(share) / 100, int(fewest), int(most), weights)


TABLES: Final[dict[RoomKind, tuple[str, str]]] = {
    "kitchen": (
        """
        SinkBasin 100 1 1 1
        Cabinet 100 2 13.6 27
        CounterTop 100 1 2.3 4
        CoffeeMachine 100 1 1 1
        Toaster 100 1 1 1
        Microwave 100 1 1 1
        StoveBurner 100 4 4.1 6
        Fridge 100 1 1 1
        GarbageCan 100 1 1 1
        Drawer 97 1 6.1 27
        DiningTable 57 1 1.3 3
        Shelf 20 3 3 3
        SideTable 11 1 1 1
        Safe 4 1 1 1
        """,
        """
        Apple 100 1-3 DiningTable 21 CounterTop 19 Fridge 19 SideTable 13 Microwave 10 GarbageCan 10 SinkBasin 7
        Bowl 100 1-3 Cabinet 29 DiningTable 22 CounterTop 17 Fridge 17 Shelf 7 SideTable 3 SinkBasin 3
        Bread 100 1-2 CounterTop 43 DiningTable 42 Fridge 9 SideTable 5
        Cup 100 1-3 DiningTable 19 Cabinet 17 CounterTop 16 Fridge 15 SideTable 12 SinkBasin 7 Shelf 7 Microwave 5
        DishSponge 100 1-3 CounterTop 20 Cabinet 19 DiningTable 17 Drawer 17 Shelf 10 SinkBasin 6 SideTable 5
        Egg 100 1-3 Fridge 20 CounterTop 19 DiningTable 17 SideTable 12 SinkBasin 10 GarbageCan 10 Microwave 10
        Fork 100 1-3 CounterTop 32 DiningTable 31 Drawer 17 SideTable 10 SinkBasin 6 beside 3
        Knife 100 1-3 CounterTop 36 DiningTable 34 Drawer 16 SideTable 6 beside 4 SinkBasin 4
        Lettuce 100 1-3 DiningTable 37 CounterTop 30 Fridge 17 SideTable 10 SinkBasin 4
        LightSwitch 100 1-1 beside 100
        Mug 100 1-3 CoffeeMachine 16 Cabinet 15 DiningTable 14 Fridge 13 CounterTop 12 SideTable 8 Microwave 7
        Pan 100 1-2 CounterTop 39 StoveBurner 38 DiningTable 10 Cabinet 9 Fridge 5
        PepperShaker 100 1-3 Cabinet 23 CounterTop 21 DiningTable 20 SideTable 15 Drawer 10 Shelf 10
        Plate 100 1-3 Cabinet 31 CounterTop 24 DiningTable 22 Fridge 7 Shelf 7 beside 6
        Pot 100 1-2 StoveBurner 66 CounterTop 15 DiningTable 8 Fridge 5 Cabinet 4
        Potato 100 1-3 DiningTable 23 CounterTop 23 Fridge 21 SideTable 10 SinkBasin 9 Microwave 8 GarbageCan 5
        SaltShaker 100 1-3 CounterTop 22 Cabinet 22 DiningTable 21 SideTable 15 Drawer 10 Shelf 10
        Sink 100 1-1 beside 89 CounterTop 11
        SoapBottle 100 1-3 DiningTable 25 CounterTop 23 Cabinet 21 Shelf 12 SideTable 9 GarbageCan 7
        Spatula 100 1-3 CounterTop 35 DiningTable 34 Drawer 17 SinkBasin 7 SideTable 4
        Spoon 100 1-3 DiningTable 29 CounterTop 28 Drawer 21 SideTable 12 SinkBasin 8 beside 3
        StoveKnob 100 4-4 beside 100
        Tomato 100 1-3 DiningTable 27 Fridge 26 CounterTop 23 SideTable 11 GarbageCan 7 SinkBasin 5
        ButterKnife 97 1-3 CounterTop 44 DiningTable 35 SideTable 9 Drawer 6 SinkBasin 4
        Window 89 1-2 beside 94 CounterTop 6
        Chair 84 1-2 beside 100
        Kettle 52 1-3 StoveBurner 38 CounterTop 24 Cabinet 22 DiningTable 11
        WineBottle 42 1-3 DiningTable 32 CounterTop 28 Cabinet 19 Shelf 12 GarbageCan 7
        HousePlant 36 1-1 CounterTop 66 DiningTable 34
        Ladle 35 1-3 CounterTop 36 DiningTable 21 Cabinet 21 Drawer 16 beside 3
        PaperTowelRoll 35 1-1 CounterTop 34 Shelf 27 DiningTable 17 SideTable 12 GarbageCan 9
        Glassbottle 24 1-3 Cabinet 24 CounterTop 21 DiningTable 19 Shelf 14 SinkBasin 7 Fridge 7 GarbageCan 6
        Blinds 21 1-1 beside 100
        Statue 15 1-3 Shelf 79 CounterTop 18 DiningTable 3
        Vase 15 2-3 Shelf 69 CounterTop 15 Cabinet 14
        Book 11 1-2 CounterTop 52 Shelf 18 DiningTable 15 Cabinet 11 Drawer 4
        CellPhone 11 1-3 Drawer 38 CounterTop 35 DiningTable 26
        CreditCard 9 1-3 Shelf 49 CounterTop 27 Drawer 22
        Mirror 9 1-1 beside 100
        Curtains 7 1-1 beside 100
        Pencil 7 1-3 Drawer 36 DiningTable 29 CounterTop 26 GarbageCan 9
        SprayBottle 7 1-3 DiningTable 33 CounterTop 28 Cabinet 28 GarbageCan 10
        Pen 6 1-3 DiningTable 48 CounterTop 31 Drawer 17 GarbageCan 4
        """,
    ),
    "living room": (
        """
        GarbageCan 100 1 1 1
        Sofa 100 1 1.2 2
        ArmChair 92 1 1.4 3
        CoffeeTable 83 1 1.2 2
        SideTable 82 1 2.0 5
        Drawer 78 1 5.1 21
        DiningTable 48 1 1.2 2
        Dresser 38 1 1.1 2
        Shelf 37 1 6.0 14
        TVStand 35 1 1.2 2
        Cabinet 16 1 4.4 8
        Ottoman 12 1 1 1
        """,
        """
        Box 100 1-2 DiningTable 27 Cabinet 15 CoffeeTable 14 Sofa 12 beside 8 Shelf 5 SideTable 5 Dresser 5
        CreditCard 100 1-3 TVStand 13 DiningTable 12 Sofa 12 CoffeeTable 11 Dresser 11 Drawer 10 Shelf 9
        FloorLamp 100 1-1 beside 100
        HousePlant 100 1-1 SideTable 30 beside 29 CoffeeTable 15 Dresser 14 TVStand 6 DiningTable 6
        KeyChain 100 1-3 beside 14 CoffeeTable 13 TVStand 11 Drawer 11 SideTable 11 DiningTable 8 Dresser 8
        Laptop 100 1-2 DiningTable 27 CoffeeTable 18 Sofa 17 Dresser 13 TVStand 9 Ottoman 8 SideTable 6 ArmChair 3
        LightSwitch 100 1-1 beside 100
        Painting 100 1-3 beside 100
        Pillow 100 1-1 Sofa 78 ArmChair 21
        RemoteControl 100 1-3 CoffeeTable 17 TVStand 14 DiningTable 13 Dresser 13 Sofa 11 SideTable 9 Ottoman 7
        Television 100 1-1 TVStand 43 Dresser 38 beside 14 CoffeeTable 4
        Statue 96 1-4 Shelf 27 DiningTable 21 CoffeeTable 16 TVStand 13 SideTable 12 Dresser 10
        Window 96 1-4 beside 100
        Chair 70 1-7 beside 100
        Newspaper 62 1-3 DiningTable 21 Shelf 17 CoffeeTable 12 Dresser 12 Sofa 11 SideTable 10 Ottoman 6
        Vase 56 1-5 Shelf 42 DiningTable 14 Dresser 12 CoffeeTable 10 TVStand 7 SideTable 6 Cabinet 5 beside 3
        WateringCan 50 1-1 beside 62 Shelf 22 CoffeeTable 14
        Watch 49 1-3 CoffeeTable 18 TVStand 17 Dresser 16 Drawer 16 SideTable 13 DiningTable 13 Shelf 6
        Curtains 35 1-2 beside 90 SideTable 10
        Plate 35 1-2 DiningTable 55 Shelf 18 CoffeeTable 15 SideTable 7 TVStand 3
        TissueBox 34 1-3 CoffeeTable 26 DiningTable 24 Shelf 18 SideTable 13 TVStand 13 Dresser 4 Drawer 3
        Book 26 1-3 Dresser 39 CoffeeTable 22 DiningTable 12 Sofa 10 ArmChair 8 SideTable 6
        DeskLamp 25 1-1 SideTable 91 CoffeeTable 9
        CellPhone 21 1-3 Dresser 27 Ottoman 16 SideTable 11 CoffeeTable 11 DiningTable 10 Drawer 9 Sofa 8 Shelf 3
        Boots 20 1-1 beside 100
        Pen 20 1-3 Dresser 34 CoffeeTable 24 SideTable 14 TVStand 10 Shelf 7 DiningTable 4 Drawer 4
        Pencil 17 1-3 SideTable 25 CoffeeTable 21 Dresser 12 TVStand 12 Shelf 10 Drawer 8 DiningTable 6
        Bowl 11 1-3 DiningTable 39 TVStand 28 CoffeeTable 17 Shelf 10 SideTable 5
        Mirror 10 1-1 beside 100
        Candle 9 1-4 SideTable 33 DiningTable 28 CoffeeTable 22 TVStand 12 Dresser 3
        """,
    ),
    "bedroom": (
        """
        Bed 100 1 1.2 2
        GarbageCan 100 1 1 1
        Drawer 96 2 6.1 17
        Desk 70 1 1.1 2
        Shelf 68 1 4.4 14
        SideTable 66 1 1.3 2
        Dresser 46 1 1.1 2
        LaundryHamper 28 1 1 1
        ArmChair 19 1 1.6 3
        Safe 16 1 1 1
        Cabinet 16 1 2.7 4
        DiningTable 13 1 1 1
        """,
        """
        AlarmClock 100 1-2 DiningTable 28 Desk 24 Dresser 19 Shelf 15 SideTable 14
        Book 100 1-3 Bed 32 Desk 18 DiningTable 13 Cabinet 10 Drawer 8 Dresser 7 ArmChair 7 SideTable 4
        CD 100 1-3 DiningTable 22 Drawer 14 Dresser 14 Desk 14 SideTable 9 beside 8 Cabinet 5 Shelf 5 ArmChair 4
        CellPhone 100 1-3 Bed 17 DiningTable 15 Desk 14 Dresser 12 Drawer 10 ArmChair 9 SideTable 9 Safe 7 Shelf 7
        CreditCard 100 1-3 Drawer 17 DiningTable 15 Dresser 15 Shelf 15 Desk 14 SideTable 14 ArmChair 10
        KeyChain 100 1-3 DiningTable 16 Dresser 14 Drawer 14 Desk 13 SideTable 12 Safe 11 Shelf 11 ArmChair 7
        Laptop 100 1-2 Bed 56 Desk 20 DiningTable 13 Dresser 6 ArmChair 5
        LightSwitch 100 1-1 beside 100
        Mirror 100 1-1 beside 95 Dresser 5
        Pen 100 1-3 DiningTable 27 Desk 21 Dresser 17 Shelf 12 SideTable 12 Drawer 10
        Pencil 100 1-3 DiningTable 27 Desk 18 SideTable 15 Shelf 14 Dresser 14 Drawer 10 GarbageCan 3
        Pillow 100 1-2 Bed 96 ArmChair 4
        Window 100 1-2 beside 89 Shelf 7 Dresser 4
        Blinds 91 1-2 beside 100
        Chair 79 1-2 beside 100
        DeskLamp 71 1-1 Dresser 33 Desk 31 SideTable 26 Shelf 10
        Mug 51 1-3 DiningTable 30 Desk 22 Dresser 15 Shelf 11 SideTable 10 Cabinet 10
        Box 47 1-1 beside 75 Desk 14 Shelf 11
        Bowl 45 1-2 Desk 32 DiningTable 26 Shelf 22 Dresser 16 SideTable 3
        Painting 42 1-2 beside 100
        BaseballBat 41 1-1 beside 100
        TennisRacket 40 1-1 beside 100
        BasketBall 37 1-1 beside 100
        TeddyBear 35 1-1 Bed 75 beside 25
        LaundryHamperLid 28 1-1 beside 100
        HousePlant 27 1-1 Shelf 44 Desk 33 Dresser 14 beside 9
        Poster 24 1-2 beside 100
        Cloth 19 1-3 beside 100
        Statue 15 1-2 Shelf 37 Dresser 35 Desk 22 SideTable 4
        TissueBox 14 1-3 DiningTable 52 Desk 22 Drawer 11 Shelf 7 SideTable 6
        RemoteControl 12 1-3 Desk 23 Drawer 20 DiningTable 19 ArmChair 16 SideTable 12 beside 5 Dresser 3
        Television 12 1-1 beside 60 Dresser 40
        Boots 10 1-1 beside 100
        Curtains 7 1-2 beside 100
        Watch 7 1-3 DiningTable 53 Drawer 13 Shelf 12 Dresser 10 Desk 9 SideTable 4
        Vase 6 1-3 Dresser 45 Shelf 38 Desk 9 SideTable 8
        """,
    ),
    "bathroom": (
        """
        ToiletPaperHanger 100 1 1 1
        HandTowelHolder 100 1 1.5 4
        SinkBasin 100 1 1.5 2
        GarbageCan 100 1 1 1
        Toilet 100 1 1 1
        TowelHolder 100 1 1.3 2
        CounterTop 86 1 1.2 2
        BathtubBasin 67 1 1 1
        Drawer 58 1 4.7 8
        Cabinet 44 2 4.4 9
        Shelf 25 1 2.0 4
        Cart 8 1 1 1
        Dresser 8 1 1 1
        SideTable 6 1 1 1
        """,
        """
        Candle 100 1-3 SideTable 17 CounterTop 15 Toilet 13 Cabinet 13 Shelf 12 Drawer 10 Cart 9 Dresser 6
        Cloth 100 1-3 BathtubBasin 22 Cabinet 22 Drawer 13 CounterTop 10 Dresser 9 Shelf 9 Cart 9 SinkBasin 4
        HandTowel 100 1-1 HandTowelHolder 100
        LightSwitch 100 1-1 beside 100
        Mirror 100 1-1 beside 89 CounterTop 11
        Plunger 100 1-1 beside 100
        ScrubBrush 100 1-1 beside 100
        Sink 100 1-2 beside 82 SinkBasin 14 CounterTop 5
        SoapBar 100 1-3 SideTable 16 Cabinet 14 CounterTop 12 Drawer 10 BathtubBasin 9 Cart 9 Shelf 8 Toilet 8
        SoapBottle 100 1-3 Cabinet 20 Shelf 16 CounterTop 15 Dresser 12 Toilet 11 SideTable 9 Cart 6 beside 5
        SprayBottle 100 1-3 SideTable 18 Cart 18 CounterTop 15 Cabinet 15 Shelf 11 Toilet 11 Dresser 8
        ToiletPaper 100 2-3 CounterTop 12 Cabinet 12 Toilet 11 Shelf 10 Dresser 10 SideTable 9 Drawer 9 beside 9
        Towel 100 1-1 TowelHolder 100
        Bathtub 71 1-1 beside 91 BathtubBasin 9
        Window 66 1-2 beside 100
        ShowerDoor 58 1-1 beside 100
        ShowerGlass 42 1-1 beside 74 Shelf 26
        TissueBox 25 1-3 Shelf 36 SideTable 19 Cart 16 CounterTop 13 Drawer 11 Cabinet 4
        DishSponge 24 1-3 Cart 28 Shelf 17 Drawer 15 BathtubBasin 12 CounterTop 10 Cabinet 5 SinkBasin 5 Toilet 3
        PaperTowelRoll 16 1-1 Cart 29 Shelf 27 CounterTop 17 Toilet 13 beside 10 GarbageCan 4
        FloorLamp 8 2-2 beside 59 SinkBasin 41
        Footstool 5 1-1 beside 100
        Painting 5 1-1 beside 100
        """,
    ),
}
