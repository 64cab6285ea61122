# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# pyright: basic, reportUnnecessaryTypeIgnoreComment=true
"""Only type-checked: users who annotate nothing get no errors, and no types either."""

from typing import Any, assert_type

import runnerq as rq


@rq.activity
def charge(order, amount):
    return order, amount


@rq.workflow
def checkout(ctx, order):
    receipt = yield ctx.step(charge, order, 1.0)
    shipment = yield from ctx.child(charge, receipt, 1.0)
    return shipment


@rq.workflow(version=2)
def half_annotated(ctx: rq.Context, order):
    receipt = yield from ctx.step(charge, order, 1.0)
    both = yield ctx.all(ctx.step(charge, order, 2.0), checkout(ctx, order))
    return receipt, both


async def start(client: rq.Client):
    run = await client.start(checkout, "hat")
    assert_type(run, rq.Handle[Any])
    return await run.result()
