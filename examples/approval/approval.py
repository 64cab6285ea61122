"""A person decides, over HTTP: the run waits parked, asks somebody else when nobody answers, and hears the answer."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

import runnerq as rq

DECISION = rq.Signal("decision", bool)


@rq.workflow
def expense(ctx: rq.Context, what: str) -> rq.Flow[str]:
    for manager, patience in (("ann", 0.2), ("the boss", 48 * 3600)):
        yield from ctx.publish(asked=manager)  # what a page can show; a mail with a link would be a step
        approved = yield from ctx.signal(DECISION, timeout=patience, default=None)  # parked: only rows
        if approved is not None:
            return f"{what}: {'approved' if approved else 'refused'} by {manager}"
    return f"{what}: nobody has answered"


class Web(BaseHTTPRequestHandler):
    """GET /<run> shows a run, POST /<run> with true or false decides. Stands for your web framework's handlers."""

    client: rq.SyncClient

    def do_GET(self) -> None:
        run = self.client.handle(self.path.strip("/"))
        self.answer({"status": run.status(), **run.state()})

    def do_POST(self) -> None:
        decision = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer({"sent": self.client.send(self.path.strip("/"), DECISION, decision)})

    def answer(self, value: Any) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - as the base class has it


def ask(url: str, body: bytes | None = None) -> str:
    """What a browser or curl would do."""
    print("  GET" if body is None else f"  POST {body.decode()}", end=" -> ")
    with urlopen(Request(url, body)) as response:  # noqa: S310 - an address of our own
        text: str = response.read().decode()
    print(text)
    return text


async def main() -> None:
    async with rq.connect() as client, rq.Worker(client, workflows=[expense]):
        Web.client = rq.SyncClient.of(client)
        with ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            run = await client.start(expense, "a new chair")
            url = f"http://127.0.0.1:{server.server_port}/{run.id}"
            await run.wait(lambda state: state.get("asked") == "the boss", timeout=60)
            await run.reached(rq.Status.WAITING, timeout=60)
            await asyncio.to_thread(ask, url)
            await asyncio.to_thread(ask, url, b"true")
            print(await run.result(timeout=60))
            server.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
