"""Whether a value fits a JSON Schema, and what a schema wants, in words.

Only what is sure to be refused is told: what this does not know of a schema is taken to fit. Numbers and texts are told
apart no finer than those who decode them do, who take ``2.0`` for a whole number, and a number where a text of some
format is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

DEEPEST = 60
"""Levels of a value that are looked at."""
MOST_NAMED = 8
"""Fields or choices that are named in words."""


def misfit(schema: Schema, value: Any, within: Schema, at: str = "", level: int = 0) -> str | None:
    """What is wrong with the first part of the value that does not fit: ``ok: expected true or false, got a text``.

    ``within`` has the definitions that the schema refers to. None: it fits, as far as is known.
    """
    schema = _followed(schema, within)
    if level > DEEPEST:
        return None
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        if any(misfit(each, value, within, at, level + 1) is None for each in choices):
            return None
        return _told(at, schema, within, value)
    if "const" in schema and not _same(schema["const"], value):
        return _told(at, schema, within, value)
    if "enum" in schema and not any(_same(each, value) for each in schema["enum"]):
        return _told(at, schema, within, value)
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        return None
    if not _KINDS[kind](value, schema):
        return _told(at, schema, within, value)
    if isinstance(value, dict):
        return _misfit_in_object(schema, value, within, at, level)
    if isinstance(value, list):
        return _misfit_in_array(schema, value, within, at, level)
    return None


def words(schema: Schema, within: Schema, level: int = 0) -> str:
    """What fits, in words: ``true or false``, ``an object with ok (true or false), by (a text; may be left out)``."""
    schema = _followed(schema, within)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return ", or ".join(dict.fromkeys(words(each, within, level + 1) for each in choices[:MOST_NAMED]))
    if "const" in schema:
        return _written(schema["const"])
    if "enum" in schema:
        return f"one of {', '.join(_written(each) for each in schema['enum'][:MOST_NAMED])}"
    match schema.get("type"):
        case "array" if level < 2 and isinstance(schema.get("items"), Mapping):
            return f"an array, each {words(schema['items'], within, level + 1)}"
        case "object" if level < 2 and schema.get("properties"):
            return f"an object with {_fields(schema, within, level)}"
        case str() as kind:
            return _NAMES.get(kind, kind)
        case _:
            return "anything"


def _fields(schema: Schema, within: Schema, level: int) -> str:
    required = schema.get("required", ())
    names = list(schema["properties"].items())
    told = [
        f"{name} ({words(inside, within, level + 1)}{'' if name in required else '; may be left out'})"
        for name, inside in names[:MOST_NAMED]
    ]
    return ", ".join(told + (["more"] if len(names) > MOST_NAMED else []))


def _misfit_in_object(schema: Schema, value: Mapping[str, Any], within: Schema, at: str, level: int) -> str | None:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{_place(at)}{name!r} is missing"
    more = schema.get("additionalProperties", True)
    for name, inside in value.items():
        here = f"{at}.{name}" if at else name
        if name in known:
            found = misfit(known[name], inside, within, here, level + 1)
        elif more is False:
            found = f"{_place(at)}there is no {name!r}: there are {', '.join(list(known)[:MOST_NAMED]) or 'none'}"
        else:
            found = misfit(more, inside, within, here, level + 1) if isinstance(more, Mapping) else None
        if found is not None:
            return found
    return None


def _misfit_in_array(schema: Schema, value: list[Any], within: Schema, at: str, level: int) -> str | None:
    first = schema.get("prefixItems", ())
    rest = schema.get("items", True)
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if rest is False:
        most = min(most, len(first))
    if not least <= len(value) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}" if "maxItems" in schema else f"{least} or more"
        return f"{_place(at)}expected {wanted} entries, got {len(value)}"
    for index, inside in enumerate(value):
        wanted_one = first[index] if index < len(first) else rest
        if isinstance(wanted_one, Mapping):
            found = misfit(wanted_one, inside, within, f"{at}[{index}]", level + 1)
            if found is not None:
                return found
    return None


def _followed(schema: Schema, within: Schema) -> Schema:
    for _ in range(DEEPEST):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = within.get("$defs", {}).get(reference.rpartition("/")[2], {})
    return {}


def _told(at: str, schema: Schema, within: Schema, value: Any) -> str:
    return f"{_place(at)}expected {words(schema, within)}, got {_kind(value)}"


def _place(at: str) -> str:
    return f"{at}: " if at else ""


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return _written(value)
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "an array"
        case _:
            return "an object"


def _written(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case _:
            return str(value)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: ``true`` is no 1."""
    return bool(isinstance(one, bool) == isinstance(other, bool) and one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Mapping[str, Callable[[Any, Schema], bool]] = {
    "null": lambda value, _: value is None,
    "boolean": lambda value, _: isinstance(value, bool),
    "integer": lambda value, _: _is_number(value) and value == value // 1,
    "number": lambda value, _: _is_number(value),
    "string": lambda value, schema: isinstance(value, str) or ("format" in schema and _is_number(value)),
    "array": lambda value, _: isinstance(value, list),
    "object": lambda value, _: isinstance(value, dict),
}
_NAMES: Mapping[str, str] = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "an array",
    "object": "an object",
}
