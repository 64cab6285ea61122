"""The console as people have it, in a process of its own: ``python -m tests.browser.server DSN [FILE]``.

It serves one database under every mount that the docs name, each on a port of its own, beside a worker of
``shop.AFTER``. FILE is what stacks name as the shop's. Once all answer it prints their addresses as a JSON object, and
serves until it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Mapping
from typing import Any

import uvicorn
from fastapi import FastAPI
from litestar import Litestar, Router

from runnerq.client.client import Client
from runnerq.client.connect import connect
from runnerq.console import Console, RunnerQPlugin, token_auth
from runnerq.runtime.worker import Worker
from tests.browser import shop
from tests.browser.told import told_as

TOKEN = "a token that only the tests have"  # noqa: S105 - and it is of no use elsewhere
BUILD = "2026.11.2"


def sites(client: Client) -> Mapping[str, tuple[Any, str]]:
    """What is served: a name, the application, and the path below its address at which the console begins."""
    fastapi = FastAPI()
    fastapi.mount("/ops/runs", Console(client).app())
    inner = Router("/inner", route_handlers=[Console(client).router("/console")])
    return {
        "open": (Console(client).app(), ""),
        "token": (Console(client, auth=token_auth(TOKEN, name="desk")).app(), ""),
        "reader": (Console(client, read_only=True).app(), ""),
        "fastapi": (fastapi, "/ops/runs"),
        "litestar": (Litestar(plugins=[RunnerQPlugin(client, console=Console(client), path="/runnerq")]), "/runnerq"),
        "nested": (Litestar(path="/outer", route_handlers=[inner]), "/outer/inner/console"),
        "proxied": (Behind(Console(client).app(), "/behind/a/proxy"), "/behind/a/proxy"),
    }


class Behind:
    """A proxy that gives an application what is below a prefix, and says so as ASGI has it."""

    def __init__(self, app: Any, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "root_path": self._prefix}
        await self._app(scope, receive, send)


def listening() -> socket.socket:
    """A port of its own on loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


async def main(dsn: str) -> None:
    addresses = {}
    async with (
        connect(dsn, migrate=False) as client,
        Worker(
            client, workflows=shop.AFTER, activities=shop.STEPS, max_workers=40, build=BUILD, queues=("default", "bulk")
        ),
        asyncio.TaskGroup() as servers,
    ):
        for name, (app, path) in sites(client).items():
            listener = listening()
            config = uvicorn.Config(app, log_level="warning", access_log=False)
            servers.create_task(_Server(config).serve([listener]))
            addresses[name] = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
        print(json.dumps(addresses), flush=True)


class _Server(uvicorn.Server):
    """One of several in a process: none of them takes its signals."""

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()


if __name__ == "__main__":
    for shown_as in sys.argv[2:]:
        told_as(shown_as)
    asyncio.run(main(sys.argv[1]))
