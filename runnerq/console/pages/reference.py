"""``/api``: what the API can be asked, made of its document. No scripts, and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import groupby
from typing import Any

import msgspec
from litestar import Response

from runnerq.console.api.openapi import ABOUT, RULES, Json, api_document
from runnerq.console.api.operations import ROOT
from runnerq.console.web.context import Here
from runnerq.console.web.guards import view
from runnerq.console.web.rendering import page

NAMES = {"me": "Who asks", "dead-letter": "Dead letter"}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter, or a field of what is sent or answered. ``where``: ``path``, ``query``, ``header``, ``body``."""

    where: str
    name: str
    type: str
    needed: bool
    words: str


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """An operation. ``paragraphs`` are what there is to say beyond its summary; ``answer`` is a type."""

    name: str
    method: str
    path: str
    summary: str
    paragraphs: tuple[str, ...]
    takes: tuple[Field, ...]
    answer: str
    tells: tuple[Field, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Operations on one kind of thing."""

    name: str
    operations: tuple[Described, ...]


@view("/api", apart=True)
async def reference(here: Here) -> Response[str]:
    """All operations."""
    return page(here, "api.html", about=ABOUT, rules=RULES, groups=groups(), root=ROOT)


@cache
def groups() -> tuple[Group, ...]:
    """What is in the document, by the first part of the path; runs first."""
    schemas = api_document()["components"]["schemas"]
    described = [
        (operation["tags"][0], _described(path, method, operation, schemas))
        for path, methods in api_document()["paths"].items()
        for method, operation in methods.items()
    ]
    described.sort(key=lambda tagged: (tagged[0] != "runs", tagged[0]))
    return tuple(
        Group(name=NAMES.get(tag) or tag.capitalize(), operations=tuple(operation for _, operation in of_tag))
        for tag, of_tag in groupby(described, key=lambda tagged: tagged[0])
    )


def _described(path: str, method: str, operation: Json, schemas: Mapping[str, Json]) -> Described:
    takes = [_field(each["in"], each["name"], each["schema"], each) for each in operation.get("parameters", ())]
    body = operation.get("requestBody")
    if body is not None:
        takes += sorted(_fields("body", _schema(body["content"]), schemas), key=lambda field: not field.needed)
    answered = _schema(next(iter(operation["responses"].values()))["content"])
    return Described(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        paragraphs=tuple(filter(None, operation.get("description", "").split("\n\n"))),
        takes=tuple(takes),
        answer=in_words(answered),
        tells=tuple(_fields("answer", answered, schemas)),
    )


def _schema(content: Json) -> Json:
    schema: Json = next(iter(content.values()))["schema"]
    return schema


def _fields(where: str, schema: Json, schemas: Mapping[str, Json]) -> list[Field]:
    """The fields of an object, or of what there are many of."""
    if "$ref" in schema:
        return _fields(where, schemas[_named(schema)], schemas)
    if list(schema.get("properties", ())) == ["items"]:
        return _fields(where, schema["properties"]["items"]["items"], schemas)
    required = schema.get("required", ())
    return [
        _field(where, name, inside, {**inside, "required": name in required})
        for name, inside in schema.get("properties", {}).items()
    ]


def _field(where: str, name: str, schema: Json, said: Json) -> Field:
    needed = bool(said.get("required")) and where != "answer"
    return Field(where=where, name=name, type=in_words(schema), needed=needed, words=said.get("description", ""))


def in_words(schema: Any) -> str:
    """A type as one reads it: ``text``, ``list of RunRow``, ``number or null``."""
    if "$ref" in schema:
        return _named(schema)
    if "anyOf" in schema:
        return " or ".join(in_words(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(each) for each in schema["enum"])
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"[{', '.join(in_words(each) for each in schema['prefixItems'])}]"
        case "array":
            return f"list of {in_words(schema.get('items', {}))}"
        case "object" if list(schema.get("properties", ())) == ["items"]:
            return f"items: {in_words(schema['properties']['items'])}"
        case "string":
            return "time" if schema.get("format") == "date-time" else "text"
        case None:
            return "any JSON"
        case known:
            return str(known)


def _named(schema: Json) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


HANDLERS = [reference]
