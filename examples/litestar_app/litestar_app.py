"""Orders over HTTP in Litestar: one handler starts a checkout, one sends its approval; the console is at /runnerq."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from litestar import Litestar, Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

import runnerq as rq
from runnerq.console import Console, RunnerQPlugin


@dataclass
class Order:
    id: str
    item: str


@dataclass
class Decision:
    approved: bool
    by: str


APPROVAL = rq.Signal("approval", Decision)
RunnerQ = NamedDependency[rq.Client]  # what the plugin gives to handlers


@rq.activity
async def charge_card(order: Order) -> str:
    return f"receipt for a {order.item}"


@rq.workflow
def checkout(ctx: rq.Context, order: Order) -> rq.Flow[str]:
    decision = yield from ctx.signal(APPROVAL, timeout=timedelta(days=2))  # parked: no task, no connection, only rows
    if not decision.approved:
        return f"{decision.by} has declined it"
    return (yield from ctx.step(charge_card, order))


@post("/orders")
async def place(data: JSONBody[Order], runnerq: RunnerQ) -> dict[str, str]:
    run = await runnerq.options(key=data.id).start(checkout, data)  # the same order twice is the same run
    return {"run": run.id}


@post("/orders/{order_id:str}/approval")
async def decide(order_id: FromPath[str], data: JSONBody[Decision], runnerq: RunnerQ) -> dict[str, bool]:
    return {"sent": await runnerq.handle_by_key(checkout, order_id).send(APPROVAL, data)}


@get("/orders/{order_id:str}")
async def show(order_id: FromPath[str], runnerq: RunnerQ) -> dict[str, str]:
    run = runnerq.handle_by_key(checkout, order_id)
    status = await run.status()
    return {"status": status, "result": await run.result() if status == rq.Status.COMPLETED else ""}


def no_such_order(_: Request[Any, Any, Any], error: rq.RunNotFound) -> Response[dict[str, str]]:
    return Response({"detail": f"there is no order {error.key!r}"}, status_code=404)


client = rq.connect()  # $RUNNERQ_DSN, else an embedded Postgres in this folder
app = Litestar(
    [place, decide, show],
    exception_handlers={rq.RunNotFound: no_such_order},
    plugins=[RunnerQPlugin(client, console=Console(client), worker=rq.Worker(client, workflows=[checkout]))],
)
