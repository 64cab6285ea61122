"""A workflow, its worker and its caller in one process: a step, a pause, a signal, a result."""

from __future__ import annotations

import asyncio

import runnerq as rq

REPLY = rq.Signal("reply", str)


@rq.activity
def greet(name: str) -> str:
    print(f"greeting {name}")
    return f"Hello, {name}!"


@rq.workflow
def hello(ctx: rq.Context, name: str) -> rq.Flow[str]:
    greeting = yield from ctx.step(greet, name)  # recorded: it never runs again, whatever crashes from here on
    yield from ctx.sleep(0.1)  # parked: nothing but a row in Postgres, for a tenth of a second or for a month
    yield from ctx.publish(greeted=name)
    reply = yield from ctx.signal(REPLY)  # parked until somebody sends it, from this process or any other
    return f"{greeting} {reply}"


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[hello], activities=[greet]):
        run = await client.start(hello, "Ada")
        await run.wait(lambda state: "greeted" in state)
        await run.send(REPLY, "Hello yourself.")
        print(await run.result(timeout=30))
        for entry in await run.history():
            print(f"{entry.position or '-':>2} {entry.kind:<8} {entry.name:<6} {entry.state}")


if __name__ == "__main__":
    asyncio.run(main())
