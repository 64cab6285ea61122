"""The console by itself: served by uvicorn until it is told to stop."""

from __future__ import annotations

import socket

import uvicorn

from runnerq.console.web.setup import App

GRACE = 5
"""Seconds that answers under way have to end."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free. OSError if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def serve(app: App, listening: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; both are raised again at the end, as if nobody had caught them."""
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # What a proxy says of others is not believed: nobody told us that there is one.
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE,
    )
    uvicorn.Server(config).run(sockets=[listening])
