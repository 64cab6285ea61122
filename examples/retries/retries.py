"""A step that fails: it is tried again after a pause, or given up, and the workflow goes another way."""

from __future__ import annotations

import asyncio

import runnerq as rq


class Declined(rq.NonRetryableError):
    """The bank says no, and will say so tomorrow: no further attempt is made."""


@rq.activity(retry=rq.RetryPolicy(max_attempts=5, base=0.1, factor=2.0), timeout=10)
async def charge(card: str) -> str:
    attempt = rq.current().attempt
    print(f"  {card}: attempt {attempt}")
    match card:
        case "slow bank" if attempt < 3:
            raise ConnectionError("the bank does not answer")  # any exception is a failed attempt
        case "busy bank" if attempt < 2:
            raise rq.RetryableError("the bank is busy", after=0.2)  # it said itself when to come back
        case "empty":
            raise Declined("there is no money on it")
    return f"{card} has paid"


@rq.activity(retry=2)  # two attempts; retry=1 would be the only one
async def charge_by_mail(card: str) -> str:
    raise TimeoutError(f"{card}: no letter has come back, attempt {rq.current().attempt}")


@rq.workflow
def pay(ctx: rq.Context, card: str) -> rq.Flow[str]:
    try:
        return (yield from ctx.step(charge, card))
    except Declined:  # recorded as the answer of this step: each replay raises it here again
        pass
    impatient = ctx.options(retry=rq.RetryPolicy(max_attempts=2, base=0.1))  # for this call alone
    return (yield from impatient.step(charge_by_mail, card))


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[pay]):
        for card in ("slow bank", "busy bank", "empty"):
            print(f"{card}:")
            run = await client.start(pay, card)
            try:
                print(f"  {await run.result(timeout=60)}")
            except rq.RunFailed as failed:
                print(f"  {failed.status}: {failed.__cause__!r}")
            for entry in await run.history():
                if entry.kind == "step":
                    print(f"  step {entry.position} {entry.name}: {entry.state}")


if __name__ == "__main__":
    asyncio.run(main())
