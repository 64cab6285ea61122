"""Values of many classes, shared by the tests of this folder."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID

import msgspec


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(TypedDict):
    street: str
    number: NotRequired[int]


class Item(msgspec.Struct, frozen=True):
    name: str
    price: Decimal = Decimal(1)
    tags: tuple[str, ...] = ()


class Card(msgspec.Struct, tag="card"):
    number: str


class Transfer(msgspec.Struct, tag="transfer"):
    iban: str


@dataclass
class Order:
    id: UUID
    items: list[Item] = field(default_factory=list)
    colour: Colour | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    value: int
    children: tuple[Tree, ...] = ()


class OrderId(str):
    """A str with a class of its own."""

    __slots__ = ()


class Euros(float):
    __slots__ = ()


class Pieces(int):
    """An int that says something else of itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return "many"

    __repr__ = __str__


CustomerId = NewType("CustomerId", str)

ORDER = Order(
    UUID("018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f"),
    [Item("shoe", Decimal("19.90"), ("new", "red"))],
    Colour.RED,
)

EXAMPLES: list[tuple[object, object]] = [
    (None, None),
    (True, bool),
    (0, int),
    (-(2**63), int),
    (2**70, int),
    (10**400, int),
    (-(2**70), int | str),
    (1.5, float),
    (5e-324, float),
    (1.7976931348623157e308, float),
    ("", str),
    ("nul \0 in between", str),
    ("snowman ☃ and \U0001f600", str),
    (b"\x00\xff not text", bytes),
    ([1, 2], list[int]),
    ((1, "a"), tuple[int, str]),
    ((), tuple[()]),
    ({1, 2, 3}, set[int]),
    (frozenset({"a"}), frozenset[str]),
    ({"a": {"b": None}}, dict[str, dict[str, int | None]]),
    ({1: "a", -2: "b"}, dict[int, str]),
    ({Colour.RED: 1}, dict[Colour, int]),
    ({date(2024, 2, 29): 1}, dict[date, int]),
    (datetime(2024, 5, 9, 12, 30, 15, 123456), datetime),  # noqa: DTZ001  # naive times are kept as they are
    (datetime(2024, 5, 9, 12, 30, 15, 1, tzinfo=UTC), datetime),
    (datetime(2024, 5, 9, 12, 30, tzinfo=timezone(timedelta(hours=5, minutes=45))), datetime),
    (datetime.max.replace(tzinfo=UTC), datetime),
    (date(1, 1, 1), date),
    (time(23, 59, 59, 999999), time),
    (timedelta(days=-1, microseconds=3), timedelta),
    (timedelta.max, timedelta),
    (Decimal("1E+30"), Decimal),
    (Decimal("0.10"), Decimal),
    (UUID("018f3d5e-7a0c-7c2b-8b7e-0a1b2c3d4e5f"), UUID),
    (Colour.BLUE, Colour),
    (Level.HIGH, Level),
    (Point(1, 2), Point),
    ({"street": "High"}, Address),
    (Item("hat"), Item),
    (ORDER, Order),
    ([ORDER, None], list[Order | None]),
    (Card("4711"), Card | Transfer),
    (Transfer("DE02"), Card | Transfer | None),
    (Tree(1, (Tree(2), Tree(3, (Tree(4),)))), Tree),
    (OrderId("o-1"), OrderId),
    ([Euros(1.5)], list[Euros]),
    ({"hat": Pieces(2)}, dict[str, Pieces]),
    (CustomerId("c-1"), CustomerId),
]
