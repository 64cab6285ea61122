"""The API's document, made of the table of operations: OpenAPI 3.1, right wherever the console is mounted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, get_origin

import msgspec

from runnerq.console.api.operations import Operation
from runnerq.console.api.shapes import Problem
from runnerq.console.api.table import OPERATIONS
from runnerq.console.api.wire import wire_type

Json: TypeAlias = dict[str, Any]

REFERENCE = "#/components/schemas/{name}"

ABOUT = "Runs and what is around them, as JSON: names in snake_case, times RFC 3339 in UTC, durations in seconds."
RULES = tuple(
    """\
What is asked for with `GET` changes nothing. Each other operation takes the permission that it names.
Payloads are shown with secrets masked. Integers are exact, however large: read them with a parser that keeps them.
A listing has `items` and `next_cursor`: give that as `cursor`, with the same filter, for what follows.
Every error is `application/problem+json` (RFC 9457): `errors` names the fields that were wrong.
What an action asks for is true after it, however often it is sent: `changed` is false where nothing was left to do.
Starts and signals count once an `Idempotency-Key`: it is the key of a run, the dedup id of a signal, without one.
A body is `application/json`. What changes something is sent with that `Content-Type`, also where it has no body.
A script in a browser sends the page's token, too, as `X-CSRF-Token`: cookies alone change nothing.
A name in a path is percent-encoded; one that holds a `/` twice (`%252F`): servers decode once before they route.
""".splitlines()
)

ONCE: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Counts once: what is sent again with it answers what there is.",
    "schema": {"type": "string", "maxLength": 255},
}
EVENTS: Json = {
    "get": {
        "operationId": "follow_events",
        "summary": "What happens, as it happens, as server-sent events.",
        "description": (
            "`hello` comes first: what is asked for after it is no older than what follows. Each message is a change: "
            "`type` says what happened (`started`, `completed`, `failed`, `dead_letter`, `cancelled`, `blocked`, ...), "
            "`id` is the run's. Payloads are not told. `resync` says that some were left out: look again. A stream "
            "ends after five minutes; `Last-Event-ID` goes on from there."
        ),
        "tags": ["events"],
        "parameters": [
            {
                "name": "watch",
                "in": "query",
                "required": False,
                "description": "Ids of runs: only their changes.",
                "schema": {"type": "array", "items": {"type": "string"}},
            }
        ],
        "responses": {
            "200": {"description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in (401, 403, 503)},
        },
    }
}

PROBLEMS: Mapping[int, str] = {
    400: "What was given cannot be; `errors` names the fields.",
    401: "Nobody is signed in.",
    403: "The permission that `detail` names is missing.",
    404: "There is no such thing.",
    409: "It does not apply to the run as that is now: `run_status` says what it is.",
    413: "The body is larger than 1 MB.",
    415: "The body is not `application/json`.",
    503: "The database does not answer, or the server is about to stop: ask again after `Retry-After` seconds.",
    504: "The database took too long over it: ask for less.",
}


def document(operations: Iterable[Operation]) -> Json:
    """The document of these operations. The same operations make the same document, to the letter."""
    table = sorted(operations, key=lambda operation: (operation.path, operation.method))
    schemas = _Schemas(table)
    paths: Json = {"/events": EVENTS}
    for operation in table:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "runnerq",
            "version": "1",
            "description": "\n".join([ABOUT, "", *(f"- {rule}" for rule in RULES)]),
        },
        # Relative to this document, which lies at /api/v1/openapi.json: right under any prefix, behind any proxy.
        "servers": [{"url": "../v1"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas.components,
            "responses": {str(status): _problem(words, schemas) for status, words in PROBLEMS.items()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


@cache
def api_document() -> Json:
    """The document of the API."""
    return document(OPERATIONS)


def as_text(made: Json) -> str:
    """A document as it is sent, and kept in the repository."""
    return msgspec.json.format(msgspec.json.encode(made), indent=2).decode() + "\n"


class _Schemas:
    """The schemas of everything that the operations take and answer."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        taken = [each for one in operations for each in (one.query, one.body) if each is not None]
        answered = [wire_type(one.answer) for one in operations]
        every = [*taken, *answered, Problem]
        schemas, components = msgspec.json.schema_components(every, ref_template=REFERENCE)
        self._of = dict(zip(map(repr, every), schemas, strict=True))
        self._properties = components
        queries = {one.query.__name__ for one in operations if one.query is not None}
        taken_as_given = {one.body.__name__ for one in operations if one.body is not None} | {Problem.__name__}
        self.components = {
            name: _in_markdown(component if name in taken_as_given else _whole(component))
            for name, component in sorted(components.items())
            if name not in queries
        }

    def taken(self, type_: type[msgspec.Struct]) -> Json:
        return self._of[repr(type_)]

    def answered(self, answer: Any) -> Json:
        schema = self._of[repr(wire_type(answer))]
        if get_origin(answer) is not tuple:
            return schema
        return {"type": "object", "properties": {"items": schema}, "required": ["items"]}

    def parameters(self, query: type[msgspec.Struct]) -> list[Json]:
        component = self._properties[query.__name__]
        required = component["required"]
        return [
            {"name": name, "in": "query", "required": name in required, **_described(schema)}
            for name, schema in component["properties"].items()
        ]


def _whole(component: Json) -> Json:
    """What is answered has every field, also those that have a default."""
    if component.get("type") != "object" or "properties" not in component:
        return component
    properties = {name: _without_default(schema) for name, schema in component["properties"].items()}
    return {**component, "properties": properties, "required": list(properties)}


def _in_markdown(component: Json) -> Json:
    if "description" not in component:
        return component
    return {**component, "description": component["description"].replace("``", "`")}


def _without_default(schema: Json) -> Json:
    return {name: value for name, value in schema.items() if name != "default"}


def _described(schema: Json) -> Json:
    """A parameter has its description beside its schema, not in it."""
    rest = {name: value for name, value in schema.items() if name != "description"}
    if rest.get("default", ...) is None:
        del rest["default"]
    said: Json = {"description": schema["description"]} if "description" in schema else {}
    return {**said, "schema": rest}


def _operation(operation: Operation, schemas: _Schemas) -> Json:
    described: Json = {"operationId": operation.name, "summary": operation.summary}
    needs = "" if operation.permission is None else f"Takes the permission `{operation.permission}`."
    if words := "\n\n".join(filter(None, [operation.description, needs])):
        described["description"] = words
    described["tags"] = [operation.path.split("/")[1]]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in operation.in_path
    ]
    if operation.query is not None:
        parameters += schemas.parameters(operation.query)
    if operation.once is not None:
        parameters.append(ONCE)
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        required = bool(schemas.components[operation.body.__name__]["required"])
        content = _content("application/json", schemas.taken(operation.body))
        described["requestBody"] = {"required": required, "content": content}
    said = "What was asked for." if operation.method == "GET" else "What was done."
    content = _content("application/json", schemas.answered(operation.answer))
    described["responses"] = {
        **{str(status): {"description": said, "content": content} for status in sorted(operation.statuses)},
        **{str(status): {"$ref": f"#/components/responses/{status}"} for status in _problems(operation)},
    }
    return described


def _problems(operation: Operation) -> list[int]:
    acts = operation.method != "GET"
    present = {
        400: operation.query is not None or operation.body is not None or bool(operation.in_path),
        401: True,
        403: True,
        404: bool(operation.in_path),
        409: acts,
        413: operation.body is not None,
        415: operation.body is not None,
        503: True,
        504: True,
    }
    return [status for status, may_be in present.items() if may_be]


def _problem(words: str, schemas: _Schemas) -> Json:
    return {"description": words, "content": _content("application/problem+json", schemas.taken(Problem))}


def _content(media: str, schema: Json) -> Json:
    return {media: {"schema": schema}}
