"""The table of operations as routes: a request is read, its operation done, its answer written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from runnerq.console.api.given import body_of, query_of
from runnerq.console.api.openapi import api_document, as_text
from runnerq.console.api.operations import IN_PATH, ROOT, Operation, Reply
from runnerq.console.api.table import OPERATIONS
from runnerq.console.api.wire import wire
from runnerq.console.models.filters import BadFields
from runnerq.console.names import unquoted
from runnerq.console.web.context import Here
from runnerq.console.web.guards import action, view
from runnerq.console.web.stopping import Stopping, until_stopping
from runnerq.console.web.streams import stream_to

JSON = "application/json"
ONCE = "Idempotency-Key"
LONGEST_KEY = 255


def route_of(operation: Operation) -> HTTPRouteHandler:
    """The handler that answers an operation."""

    async def answer(here: Here, **in_path: str) -> Response[bytes]:
        given = await _given(here, operation, in_path)
        answered = await (_unless_stopped if operation.waits else _done)(operation, here, given)
        reply = answered if isinstance(answered, Reply) else Reply(answered, operation.statuses[0])
        headers = {} if reply.location is None else {"Location": here.url(f"{ROOT}{reply.location}")}
        return Response(encoded(reply.value), status_code=reply.status, media_type=JSON, headers=headers)

    answer.__name__ = operation.name
    path = ROOT + IN_PATH.sub(r"{\1:str}", operation.path)
    if operation.permission is None:
        return view(path)(answer)
    return action(operation.permission, path, method=operation.method)(answer)  # type: ignore[arg-type] # never GET


def encoded(answer: Any) -> bytes:
    """The answer as JSON; several of a kind are an object with ``items``, so that more can be said beside them."""
    sent = wire(answer)
    return msgspec.json.encode({"items": sent} if isinstance(answer, tuple) else sent)


@view(f"{ROOT}/events")
async def events(here: Here) -> Stream:
    """What happens, as server-sent events, each by itself; with ``watch`` of these runs alone."""
    return await stream_to(here, whole=True)


@view(f"{ROOT}/openapi.json", apart=True)
async def openapi(here: Here) -> Response[str]:
    """The API's document."""
    del here
    return Response(as_text(api_document()), media_type=JSON)


# --- reading ----------------------------------------------------------------------------------------------------------


async def _given(here: Here, operation: Operation, in_path: Mapping[str, str]) -> dict[str, Any]:
    # A name with a `/` is percent-encoded twice: servers decode once, before they route.
    given: dict[str, Any] = {name: unquoted(text) for name, text in in_path.items()}
    if operation.query is not None:
        given["query"] = query_of(operation.query, here.query.fields)
    elif here.query.fields:
        raise BadFields(dict.fromkeys(here.query.fields, "this takes no parameters"))
    if operation.body is not None:
        given["body"] = _once(here, operation, body_of(operation.body, await _body(here)))
    return given


async def _body(here: Here) -> bytes:
    body = await here.request.body()
    if body and here.request.content_type[0].lower() != JSON:
        raise HTTPException(status_code=415, detail=f"The body has to be {JSON}, and Content-Type has to say so.")
    return body


def _once(here: Here, operation: Operation, body: msgspec.Struct) -> msgspec.Struct:
    """The body, with the request's ``Idempotency-Key`` where it has none of its own and can have one."""
    key = here.request.headers.get(ONCE)
    if not key or operation.once is None or getattr(body, operation.once) is not None:
        return body
    if len(key) > LONGEST_KEY:
        raise BadFields({ONCE: f"it has {len(key)} characters: at most {LONGEST_KEY} are taken"})
    return msgspec.structs.replace(body, **{operation.once: key})


# --- doing ------------------------------------------------------------------------------------------------------------


async def _done(operation: Operation, here: Here, given: dict[str, Any]) -> Any:
    return await operation.do(here.context, **given)


async def _unless_stopped(operation: Operation, here: Here, given: dict[str, Any]) -> Any:
    """The answer, if it is there before the server is to stop: what waits must not hold that up."""
    doing = asyncio.create_task(_done(operation, here, given))
    stop = asyncio.create_task(until_stopping())
    try:
        await asyncio.wait({doing, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Stopping
        return doing.result()
    finally:
        doing.cancel()
        stop.cancel()
        await asyncio.wait({doing, stop})


HANDLERS: list[HTTPRouteHandler] = [*map(route_of, OPERATIONS), events, openapi]
