"""Values of classes that others make: pydantic models, attrs classes, generics, flags; each with its type."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Generic, Literal, NamedTuple, TypedDict, TypeVar
from uuid import UUID

import attrs
import msgspec
import pydantic
from pydantic import ConfigDict, Field, RootModel, SecretStr

T = TypeVar("T")


class Basket(pydantic.BaseModel):
    owner: str
    items: list[int] = []


class Aliased(pydantic.BaseModel):
    """One name in Python, another in JSON."""

    order_id: int = Field(alias="orderId")


class AliasedTwice(pydantic.BaseModel):
    """One name in Python, others when it is read, and another when it is written."""

    order_id: int = Field(validation_alias=pydantic.AliasChoices("orderId", "id"), serialization_alias="order")


class Closed(pydantic.BaseModel):
    """A field that is worked out, in a class that takes no others than its own."""

    model_config = ConfigDict(extra="forbid")
    cents: int

    @pydantic.computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def euros(self) -> float:
        return self.cents / 100


class Strict(pydantic.BaseModel):
    """No text for a date, no list for a tuple."""

    model_config = ConfigDict(strict=True)
    day: date
    id: UUID
    price: Decimal
    tags: tuple[str, ...]
    seen: set[int]


class Blob(pydantic.BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes


class Password(pydantic.BaseModel):
    """A secret that says how it is written."""

    word: SecretStr

    @pydantic.field_serializer("word", when_used="json")
    def shown(self, word: SecretStr) -> str:
        return word.get_secret_value()


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Tone(enum.StrEnum):
    LOUD = "loud"


@attrs.define
class Parcel:
    weight: Decimal
    stamps: list[date] = attrs.field(factory=list)


@attrs.frozen
class Crate(Generic[T]):
    inside: T


@dataclass(kw_only=True, slots=True)
class Box(Generic[T]):
    inside: T


class Jar(msgspec.Struct, Generic[T]):
    inside: T


class Pair(NamedTuple, Generic[T]):  # type: ignore[misc]  # from 3.11 on it can be
    left: T
    right: T


class Shelf(TypedDict, Generic[T]):
    top: T


OTHERS: list[tuple[object, object]] = [
    (Basket(owner="nul \0", items=[2**62]), Basket),
    ([Basket(owner="a"), Basket(owner="b")], list[Basket]),
    ({"a": Aliased(orderId=1)}, dict[str, Aliased]),
    (AliasedTwice(orderId=2), AliasedTwice),
    (Closed(cents=995), Closed),
    (
        Strict(day=date(2024, 2, 29), id=UUID(int=1), price=Decimal("1.10"), tags=("a", "b"), seen={1, 2}),
        Strict | None,
    ),
    (Blob(data=b"\x00\xff"), Blob),
    (Password(word=SecretStr("hush")), Password),
    (Page[Basket](items=[Basket(owner="a")]), Page[Basket]),
    (RootModel[list[int]]([1, 2]), RootModel[list[int]]),
    (Dog(name="Rex"), Cat | Dog),
    ([Cat(), Dog(name="Rex"), None], list[Annotated[Cat | Dog, Field(discriminator="kind")] | None]),
    (Access.READ | Access.WRITE, Access),
    ({Tone.LOUD: 11}, dict[Tone, int]),
    (Parcel(Decimal("1.50"), [date(2024, 1, 1)]), Parcel),
    (Crate(Parcel(Decimal(1))), Crate[Parcel]),
    (Box(inside=(1, b"\xff")), Box[tuple[int, bytes]]),
    (Jar({"a": Jar(None)}), Jar[dict[str, Jar[None]]]),
    (Pair(UUID(int=1), UUID(int=2)), Pair[UUID]),
    ({"top": Box(inside=1)}, Shelf[Box[int]]),
    ([1, "a", None], list[int | str | None]),
    ("loud", Literal["loud", 11]),
]  # fmt: skip
