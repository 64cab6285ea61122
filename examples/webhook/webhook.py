"""A webhook that is delivered five times and booked once: a key makes one run of them, a transaction books it once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen
from uuid import uuid4

import runnerq as rq

if TYPE_CHECKING:
    from asyncpg import Connection

ACCOUNT = f"account-{uuid4()}"  # a new one each time that this program is run, as its database stays


async def book(connection: Connection, account: str, cents: int) -> int:
    """The balance. The row and the entry that the step is done are one commit: both are there, or neither is."""
    await connection.execute("create table if not exists ledger (account text, cents int)")
    await connection.execute("insert into ledger values ($1, $2)", account, cents)
    return int(await connection.fetchval("select sum(cents) from ledger where account = $1", account) or 0)


@rq.workflow
def payment(ctx: rq.Context, account: str, cents: int) -> rq.Flow[int]:
    return (yield from ctx.transaction(book, account, cents))


class Webhook(BaseHTTPRequestHandler):
    """Answers when the run is on record, not when it is done: the sender need not wait, and nothing can be lost."""

    client: rq.SyncClient

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        run = self.client.options(key=event["id"]).start(payment, ACCOUNT, event["cents"])
        self.send_response(202)
        self.end_headers()
        self.wfile.write(run.id.encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - as the base class has it


def deliver(url: str, event: Mapping[str, object]) -> str:
    """What the payment provider does, until it gets an answer, and sometimes once more."""
    with urlopen(Request(url, json.dumps(event).encode())) as response:  # noqa: S310 - an address of our own
        run_id: str = response.read().decode()
    return run_id


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[payment]):
        Webhook.client = rq.SyncClient.of(client)
        with ThreadingHTTPServer(("127.0.0.1", 0), Webhook) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}/"
            for cents in (500, 250):
                event = {"id": f"event-{uuid4()}", "cents": cents}
                runs = await asyncio.gather(*(asyncio.to_thread(deliver, url, event) for _ in range(5)))
                balance = await client.handle(runs[0], returns=int).result(timeout=60)
                print(f"{cents} cents, delivered {len(runs)} times: {len(set(runs))} run, the balance is {balance}")
            server.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
