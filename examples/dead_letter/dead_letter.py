"""Runs whose attempts are used up become dead letters: somebody is told, and after the repair they go on."""

from __future__ import annotations

import asyncio

import runnerq as rq

DEAD = rq.RunFilter(workflow="mail", status=rq.Status.DEAD_LETTER)
mail_server_is_up = False
told: asyncio.Queue[str] = asyncio.Queue()


@rq.activity
async def tell_somebody(letter: rq.DeadLetter) -> None:
    """A run of its own, queued in the very commit that made the dead letter."""
    error = f"{letter.error.type}: {letter.error.message}" if letter.error else letter.reason
    await told.put(f"{letter.name} of {letter.input}, after {letter.attempts} attempts, {error}")


@rq.activity(retry=rq.RetryPolicy(max_attempts=2, base=0.1), on_dead_letter=tell_somebody)
async def mail(to: str) -> str:
    if not mail_server_is_up:
        raise ConnectionError("the mail server does not answer")
    return f"a mail to {to}"


async def main() -> None:
    global mail_server_is_up  # noqa: PLW0603 - what somebody repairs
    async with rq.connect() as client, rq.Worker(client, activities=[mail, tell_somebody]):
        run = await client.start(mail, "ada")
        try:
            await run.result(timeout=60)
        except rq.RunFailed as failed:
            print(f"{failed.status}: {failed.__cause__!r}")
        print("told:", await told.get())
        print("dead letters of mail:", await client.count(DEAD))
        mail_server_is_up = True
        print("repaired; redriven:", await client.redrive(DEAD))  # or one: client.redrive(run.id)
        print("sent:", await client.handle(run.id).result(timeout=60))
        print("dead letters of mail:", await client.count(DEAD))


if __name__ == "__main__":
    asyncio.run(main())
