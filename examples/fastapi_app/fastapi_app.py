"""Orders over HTTP in FastAPI: one handler starts a checkout, one sends its approval; the console is at /runnerq."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

import runnerq as rq
from runnerq.console import Console


@dataclass
class Order:
    id: str
    item: str


@dataclass
class Decision:
    approved: bool
    by: str


APPROVAL = rq.Signal("approval", Decision)


@rq.activity
async def charge_card(order: Order) -> str:
    return f"receipt for a {order.item}"


@rq.workflow
def checkout(ctx: rq.Context, order: Order) -> rq.Flow[str]:
    decision = yield from ctx.signal(APPROVAL, timeout=timedelta(days=2))  # parked: no task, no connection, only rows
    if not decision.approved:
        return f"{decision.by} has declined it"
    return (yield from ctx.step(charge_card, order))


client = rq.connect()  # $RUNNERQ_DSN, else an embedded Postgres in this folder
console = Console(client)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with client, console.lifespan(), rq.Worker(client, workflows=[checkout]):
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/runnerq", console.app())


@app.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, str]:
    run = await client.options(key=order.id).start(checkout, order)  # the same order twice is the same run
    return {"run": run.id}


@app.post("/orders/{order_id}/approval", status_code=201)
async def decide(order_id: str, decision: Decision) -> dict[str, bool]:
    return {"sent": await client.handle_by_key(checkout, order_id).send(APPROVAL, decision)}


@app.get("/orders/{order_id}")
async def show(order_id: str) -> dict[str, str]:
    run = client.handle_by_key(checkout, order_id)
    status = await run.status()
    return {"status": status, "result": await run.result() if status == rq.Status.COMPLETED else ""}


@app.exception_handler(rq.RunNotFound)
async def no_such_order(_: Request, error: rq.RunNotFound) -> JSONResponse:
    return JSONResponse({"detail": f"there is no order {error.key!r}"}, status_code=404)
