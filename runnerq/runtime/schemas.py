"""What a function is called with, as a JSON Schema: for forms and other programs that start it by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from runnerq.serialization.signatures import Signature

REFERENCE = "#/$defs/{name}"
OURS = "x-runnerq"
"""What a JSON Schema has no word for: ``positional`` names the parameters that may be given by position, ``more`` says
that further ones are taken, ``signals`` has the schema of each channel whose type is known."""


def input_schema(signature: Signature, channels: Mapping[str, Any] | None = None) -> str | None:
    """An object with a property for each parameter, JSON text; None where a type has no JSON Schema.

    ``*args`` is no property: what is given beyond the parameters has no name. ``channels`` are the types of the signals
    that a workflow takes; those that have no JSON Schema are left out.
    """
    named = (*signature.positional, *signature.keyword_only)
    rest = signature.var_keyword
    types = [each.type for each in named] + ([] if rest is None else [rest.type])
    taken = {name: type_ for name, type_ in (channels or {}).items() if _has_schema(type_)}
    try:
        found, components = msgspec.json.schema_components([*types, *taken.values()], ref_template=REFERENCE)
        schemas, signals = found[: len(types)], found[len(types) :]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {each.name: schema for each, schema in zip(named, schemas, strict=False)},
            "required": [each.name for each in named if each.required],
            "additionalProperties": False if rest is None else schemas[-1],
            OURS: {
                "positional": [each.name for each in signature.positional],
                "more": signature.var_positional is not None,
                "signals": dict(zip(taken, signals, strict=True)),
            },
        }
        if components:
            schema["$defs"] = components
        return msgspec.json.encode(schema).decode()
    except Exception:  # noqa: BLE001 - types are user code, and a worker does without a schema
        return None


def _has_schema(type_: Any) -> bool:
    try:
        msgspec.json.schema(type_)
    except Exception:  # noqa: BLE001 - as above
        return False
    return True
