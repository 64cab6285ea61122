"""Which values fit a schema as msgspec writes it, what is said of those that do not, and what is wanted in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import msgspec
import pytest

from runnerq.console.models.fitting import misfit, words


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(msgspec.Struct):
    sku: str
    quantity: int = 1


class Order(msgspec.Struct, forbid_unknown_fields=True):
    lines: list[Line]
    colour: Colour = Colour.RED
    next: Order | None = None


class Paid(msgspec.Struct, tag="paid"):
    cents: int


class Refused(msgspec.Struct, tag="refused"):
    why: str


def schema_of(type_: Any) -> tuple[Any, Any]:
    [schema], components = msgspec.json.schema_components([type_], ref_template="#/$defs/{name}")
    return schema, {"$defs": components}


FITS = (
    (Any, {"whatever": [1]}), (bool, True), (int, 2), (int, 2.0), (int, 2**70), (float, 1), (str, ""), (None, None),
    (int | None, None), (int | str, "a"), (list[int], []), (tuple[int, str], [1, "a"]), (dict[str, int], {"a": 1}),
    (Literal["a", 1], 1), (Colour, "blue"), (datetime, "2026-01-01T00:00:00Z"), (timedelta, "PT1S"), (Decimal, 1.5),
    (Line, {"sku": "a", "more": 1}), (Paid | Refused, {"type": "paid", "cents": 1}),
    (Order, {"lines": [{"sku": "a"}], "next": {"lines": []}}),
)  # fmt: skip
DOES_NOT = (
    (bool, None, "expected true or false, got null"),
    (bool, "maybe", "expected true or false, got a text"),
    (bool, 1, "expected true or false, got a number"),
    (int, True, "expected a whole number, got true"),
    (int, 1.5, "expected a whole number, got a number"),
    (str, 1, "expected a text, got a number"),
    (int | None, "a", "expected a whole number, or null, got a text"),
    (Colour, "green", 'expected one of "blue", "red", got a text'),
    (list[int], [1, "2"], "[1]: expected a whole number, got a text"),
    (tuple[int, str], [1], "expected 2 entries, got 1"),
    (dict[str, int], {"a": "b"}, "a: expected a whole number, got a text"),
    (Line, {}, "'sku' is missing"),
    (Order, {"lines": [], "color": "red"}, "there is no 'color': there are lines, colour, next"),
    (Order, {"lines": [{"sku": "a", "quantity": "x"}]}, "lines[0].quantity: expected a whole number, got a text"),
)


@pytest.mark.parametrize(("type_", "value"), FITS)
def test_what_a_decoder_takes_fits(type_: Any, value: Any) -> None:
    schema, within = schema_of(type_)
    assert misfit(schema, value, within) is None


@pytest.mark.parametrize(("type_", "value", "told"), DOES_NOT)
def test_what_no_decoder_takes_is_told_with_its_place(type_: Any, value: Any, told: str) -> None:
    schema, within = schema_of(type_)
    assert misfit(schema, value, within) == told
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, type_)


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        (bool, "true or false"),
        (int | None, "a whole number, or null"),
        (list[str], "an array, each a text"),
        (Line, "an object with sku (a text), quantity (a whole number; may be left out)"),
        (Any, "anything"),
    ],
)
def test_a_schema_is_said_in_words(type_: Any, wanted: str) -> None:
    assert words(*schema_of(type_)) == wanted
