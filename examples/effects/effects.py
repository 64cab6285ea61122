"""Side effects that must not happen twice: an idempotency key for one call, a checkpoint for a long row of them."""

from __future__ import annotations

import asyncio

import runnerq as rq

AGAIN = rq.RetryPolicy(max_attempts=3, base=0.1)


class Bank:
    """Stands for a payment provider: it charges once for each idempotency key, however often it is asked."""

    def __init__(self) -> None:
        self.receipts: dict[str, str] = {}

    async def charge(self, cents: int, *, idempotency_key: str) -> str:
        if idempotency_key in self.receipts:
            print("  bank: I know this key, it is charged already")
        else:
            print(f"  bank: charging {cents} cents")
            self.receipts[idempotency_key] = f"receipt {len(self.receipts) + 1}"
        return self.receipts[idempotency_key]


bank = Bank()


@rq.activity(retry=AGAIN)
async def charge(cents: int) -> str:
    receipt = await bank.charge(cents, idempotency_key=rq.current().idempotency_key)  # the same for every attempt
    if rq.current().attempt == 1:
        raise ConnectionError("the bank's answer was lost on its way")
    return receipt


@rq.activity(retry=AGAIN)
async def mail(customers: list[str]) -> int:
    """One long step of many small effects: it says how far it is, and begins there when it is run again."""
    done = rq.current().heartbeat_details or 0
    print(f"  mail: beginning at customer {done + 1}")
    for number, customer in enumerate(customers[done:], start=done + 1):
        print(f"  mail: to {customer}")
        rq.current().heartbeat(number)  # kept for the next attempt, also after a crash of the worker
        if number == 2 and rq.current().attempt == 1:
            raise ConnectionError("the mail server hung up")
    return len(customers)


@rq.workflow
def launch(ctx: rq.Context, customers: list[str]) -> rq.Flow[str]:
    receipt = yield from ctx.step(charge, 900)
    sent = yield from ctx.step(mail, customers)
    return f"{receipt}, {sent} mails"


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[launch]):
        run = await client.start(launch, ["ada", "bob", "cleo", "dan"])
        print(await run.result(timeout=60))
        print("charges at the bank:", len(bank.receipts))


if __name__ == "__main__":
    asyncio.run(main())
