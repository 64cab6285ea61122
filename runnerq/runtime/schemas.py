"""What a function is called with, as a JSON Schema: for forms and other programs that start it by name."""

from __future__ import annotations

from typing import Any

import msgspec

from runnerq.serialization.signatures import Signature


def input_schema(signature: Signature) -> str | None:
    """An object with a property for each parameter, JSON text; None where a type has no JSON Schema.

    ``*args`` is no property: what is given beyond the parameters has no name.
    """
    named = (*signature.positional, *signature.keyword_only)
    rest = signature.var_keyword
    types = [each.type for each in named] + ([] if rest is None else [rest.type])
    try:
        schemas, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {each.name: schema for each, schema in zip(named, schemas, strict=False)},
            "required": [each.name for each in named if each.required],
            "additionalProperties": False if rest is None else schemas[-1],
        }
        if components:
            schema["$defs"] = components
        return msgspec.json.encode(schema).decode()
    except Exception:  # noqa: BLE001 - types are user code, and a worker does without a schema
        return None
