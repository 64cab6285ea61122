"""What a request gives, read into Structs. What cannot be read is BadFields, with an error for each field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from runnerq.console.models.filters import BadFields
from runnerq.serialization.nesting import MAX_DEPTH, too_deep

S = TypeVar("S", bound=msgspec.Struct)

WHOLE = "body"
"""The name of a body's error that is in no field."""
_PLACE = re.compile(r"^(?P<why>.*?)(?: - at `\$?\.?(?P<field>[^`]*)`)?$", re.DOTALL)


def query_of(type_: type[S], params: Mapping[str, Sequence[str]]) -> S:
    """The query that these parameters give; an empty value counts as none.

    One that there is not is an error as well: what is misspelled must not widen what is asked for.
    """
    fields = {field.name: field for field in msgspec.structs.fields(type_)}
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, texts in params.items():
        field = fields.get(name)
        given = [text for text in texts if text]
        several = field is not None and get_origin(_plain(field.type)) is tuple
        if field is None:
            errors[name] = f"there is no such parameter: it is one of {', '.join(fields)}"
        elif len(given) > 1 and not several:
            errors[name] = "it is given more than once"
        elif given:
            try:
                values[name] = msgspec.convert(given if several else given[0], field.type, strict=False)
            except msgspec.ValidationError as error:
                choices = _choices(field.type)
                errors[name] = f"{_why(error)}{f': it is one of {choices}' if choices else ''}"
    errors |= {field.name: "it is missing" for field in fields.values() if _lacks(field, values, errors)}
    if errors:
        raise BadFields(errors)
    return type_(**values)


def body_of(type_: type[S], body: bytes) -> S:
    """The body that this JSON gives; none is an empty object."""
    if too_deep(body):
        raise BadFields({WHOLE: f"it is nested deeper than {MAX_DEPTH} levels"})
    try:
        return msgspec.json.decode(body or b"{}", type=type_)
    except msgspec.ValidationError as error:
        place = _PLACE.match(str(error))
        field = (place["field"] if place else None) or WHOLE
        known = f": there are {', '.join(_fields(type_))}" if field == WHOLE else ""
        raise BadFields({field: f"{_why(error)}{known}"}) from error
    except msgspec.DecodeError as error:
        raise BadFields({WHOLE: f"it is no JSON: {error}"}) from error


def _fields(type_: type[msgspec.Struct]) -> list[str]:
    """The names of its fields, those that cannot be left out first."""
    fields = msgspec.structs.fields(type_)
    return [field.encode_name for field in sorted(fields, key=lambda field: not field.required)]


def _choices(type_: Any) -> str:
    """The values of what has few, such as a status, or of several of them."""
    inner = _plain(type_)
    for each in (inner, *get_args(inner)):
        plain = _plain(each)
        if get_origin(plain) is Literal:
            return ", ".join(map(str, get_args(plain)))
        if isinstance(plain, type) and issubclass(plain, Enum):
            return ", ".join(str(member.value) for member in plain)
    return ""


def _lacks(field: msgspec.structs.FieldInfo, values: Mapping[str, Any], errors: Mapping[str, str]) -> bool:
    return field.required and field.name not in values and field.name not in errors


def _plain(type_: Any) -> Any:
    """The type without what is said about it."""
    return getattr(type_, "__origin__", type_) if hasattr(type_, "__metadata__") else type_


def _why(error: msgspec.ValidationError) -> str:
    """What is wrong, without the place: the field says that."""
    place = _PLACE.match(str(error))
    return place["why"] if place else str(error)
