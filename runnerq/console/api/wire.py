"""How what the models show goes out as JSON: the same structs, but for what is made for a page.

- A payload is its value, not its text. Where it was cut it is null: ``GET /runs/{id}/payloads/{which}`` has it whole.
- Pairs of a name and a value are an object. Parameters of a list are one too, a name with several values has a list.
- What is kept as JSON text is JSON.

``wire_type`` says of a type what it becomes, for the document; ``wire`` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

import msgspec

from runnerq.console.models.audit import AuditRow
from runnerq.console.models.batches import BatchView
from runnerq.console.models.filters import RunQuery
from runnerq.console.models.overview import Alert, Tile
from runnerq.console.models.payloads import Payload
from runnerq.console.models.types import TypeVersion

Params: TypeAlias = dict[str, str | list[str]]
Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time, which has its zone: that of the database's answers is UTC."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A payload. ``redacted`` says that something in it is masked, ``size`` how many bytes it has as it is stored.

    ``cut``: it is too long to be shown here, and ``value`` is null. Where it cannot be opened ``value`` is null, too,
    and ``sealed`` says why.
    """

    value: Any
    size: int
    cut: bool
    redacted: bool
    sealed: str | None


def _value(payload: Payload) -> Value:
    shown = payload.sealed is None and not payload.cut
    return Value(
        value=_parsed(payload.text) if shown else None,
        size=payload.size,
        cut=payload.cut,
        redacted=payload.redacted,
        sealed=payload.sealed,
    )


def _params(pairs: Iterable[tuple[str, str]]) -> Params:
    params: dict[str, list[str]] = {}
    for name, value in pairs:
        params.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in params.items()}


def _parsed(text: str) -> msgspec.Raw:
    # Without the white space that is for the eye; numbers stay as they are written.
    return msgspec.Raw(msgspec.json.format(text.encode("utf-8"), indent=-1))


class Form(msgspec.Struct, frozen=True):
    """What a type, or one field, becomes."""

    type: Any
    make: Callable[[Any], Any]


_TYPES: Mapping[type, Form] = {
    Payload: Form(Value, _value),
    RunQuery: Form(Params, lambda query: _params(query.to_params())),
}
_FIELDS: Mapping[tuple[type, str], Form] = {
    (Alert, "params"): Form(Params, _params),
    (AuditRow, "request"): Form(Any, _parsed),
    (BatchView, "params"): Form(Params, _params),
    (Tile, "params"): Form(Params, _params),
    (TypeVersion, "options"): Form(Any, _parsed),
    (TypeVersion, "schema"): Form(Any, _parsed),
}


@cache
def wire_type(type_: Any) -> Any:
    """What a value of this type goes out as; the very type where that is what it is."""
    if type_ is datetime:
        return Moment
    if type_ in _TYPES:
        return _TYPES[type_].type
    if (pairs := _pair(type_)) is not None:
        return dict[pairs[0], pairs[1]]  # type: ignore[valid-type] # a type made at run time
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return _wire_struct(type_) if _finds(type_, {datetime, *_TYPES}, set()) else type_
    args = get_args(type_)
    if not args or not _finds(type_, {datetime, *_TYPES}, set()):
        return type_
    origin: Any = get_origin(type_)
    mapped = tuple(wire_type(each) for each in args)
    return reduce(or_, mapped) if origin in (Union, UnionType) else origin[mapped]


def wire(value: Any) -> Any:
    """The value as it goes out."""
    known: Any = type(value)
    if known in _TYPES:
        return _TYPES[known].make(value)
    if known in (tuple, list):
        return [wire(each) for each in value]
    if not isinstance(value, msgspec.Struct) or not _differs(known):
        return value
    return {name: make(getattr(value, name)) for name, make in _plan(known).items()}


@cache
def _plan(type_: type[msgspec.Struct]) -> dict[str, Callable[[Any], Any]]:
    return {field.name: _maker(type_, field) for field in msgspec.structs.fields(type_)}


def _maker(type_: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Callable[[Any], Any]:
    form = _FIELDS.get((type_, field.name))
    if form is not None:
        return lambda value: None if value is None else form.make(value)
    return dict if _pair(field.type) is not None else wire


def _wire_struct(type_: type[msgspec.Struct]) -> type[msgspec.Struct]:
    fields = [(field.name, _field_type(type_, field)) for field in msgspec.structs.fields(type_)]
    return msgspec.defstruct(type_.__name__, fields, namespace={"__doc__": type_.__doc__}, kw_only=True, frozen=True)


def _field_type(type_: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Any:
    form = _FIELDS.get((type_, field.name))
    if form is None:
        return wire_type(field.type)
    return form.type | None if type(None) in get_args(field.type) and form.type is not Any else form.type


@cache
def _differs(type_: Any) -> bool:
    """Whether a value of this type may hold what goes out in another form."""
    return _finds(type_, _TYPES.keys(), set())


def _finds(type_: Any, sought: Collection[Any], seen: set[Any]) -> bool:
    """Whether one of these types is in this one, or a field that has a form of its own."""
    if type_ in seen:
        return False
    seen.add(type_)
    if type_ in sought or _pair(type_) is not None:
        return True
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        fields = msgspec.structs.fields(type_)
        return any((type_, field.name) in _FIELDS or _finds(field.type, sought, seen) for field in fields)
    return any(_finds(each, sought, seen) for each in get_args(type_))


def _pair(type_: Any) -> tuple[Any, Any] | None:
    """Of any number of pairs, the types of a pair's two."""
    if get_origin(type_) is not tuple:
        return None
    args = get_args(type_)
    if len(args) != 2 or args[1] is not Ellipsis or get_origin(args[0]) is not tuple:
        return None
    pair = get_args(args[0])
    return (pair[0], pair[1]) if len(pair) == 2 and pair[1] is not Ellipsis else None
