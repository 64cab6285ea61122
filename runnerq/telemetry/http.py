"""``/healthz``, ``/readyz`` and ``/metrics`` of one worker, answered in threads of their own.

Rules
- Its threads are no part of the worker's event loop: while that is held up, they say so, and still answer for metrics.
- It only tells: GET and HEAD, a few fixed paths, no input is read beyond the request's head.
- So many requests are answered at once. Each has so long to be sent, all of it, and as long to be answered. Where all
  places are taken, whoever has been sending for longest is cut off: nobody holds up a probe by sending slowly.
- It listens on the loopback address unless another one is given. There it answers only whoever asks for an address or
  for localhost: a page in a browser, whose own name somebody has made to mean this machine, reads nothing.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from socketserver import TCPServer
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from runnerq.errors import ConfigurationError

log = logging.getLogger("runnerq")

LOOPBACK = "127.0.0.1"
AT_ONCE = 16
SHUTTING = 0.2
"""Seconds between two looks whether it is to listen no more."""
PATIENCE = 10.0
"""Seconds that a client has to send its request, and again to take the answer."""
ROOM = 1.0
"""Seconds in which a place is free whose request was cut off."""

Address: TypeAlias = tuple[str, int]


class Answer(msgspec.Struct, frozen=True):
    """An answer."""

    status: int
    content_type: str
    body: bytes


Pages: TypeAlias = Mapping[str, Callable[[], Answer]]
"""What answers at each path; called in a thread."""


def text(status: int, body: str) -> Answer:
    """An answer in plain text."""
    return Answer(status, "text/plain; charset=utf-8", f"{body}\n".encode())


def address_of(given: object) -> Address:
    """Where to listen: a port (of 127.0.0.1), a pair of host and port, or text such as ``9000`` and ``0.0.0.0:9000``.

    ConfigurationError for what is neither. Port 0 is one that is free; an empty host is 127.0.0.1.
    """
    host, port = LOOPBACK, given
    match given:
        case (str(host), port):
            pass
        case str():
            named, _, port = given.rpartition(":")
            host = named.removeprefix("[").removesuffix("]")
        case _:
            pass
    if isinstance(port, str) and port.isascii() and port.isdigit():
        port = int(port)
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise ConfigurationError(f"http={given!r}: expected a port, as in http=9000, or a host and a port")
    return host or LOOPBACK, port


class Endpoints:
    """The server. It listens from ``open`` to ``close``; ``patience`` is the seconds that a request has."""

    def __init__(self, address: Address, pages: Pages, patience: float = PATIENCE) -> None:
        self._wanted = address
        self._patience = patience
        self._pages = pages
        self._server: _Server | None = None

    @property
    def address(self) -> Address | None:
        """Where it listens; None while it does not."""
        if self._server is None:
            return None
        host, port, *_ = self._server.server_address
        return str(host), int(port)

    def open(self) -> None:
        """Listen. ConfigurationError if that cannot be."""
        try:
            server = _Server(self._wanted, self._pages, self._patience)
        except OSError as error:
            host, port = self._wanted
            raise ConfigurationError(f"http= cannot listen on {host}:{port}: {error}") from error
        self._server = server
        threading.Thread(target=server.serve_forever, args=(SHUTTING,), name="runnerq-http", daemon=True).start()

    def close(self) -> None:
        """Listen no more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, pages: Pages, patience: float) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._patience = patience
        self._places = threading.BoundedSemaphore(AT_ONCE)
        # Since when which request is being sent, the oldest first; written by each one's thread too.
        self._sending: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(address, partial(_Handler, pages, _is_local(address[0]), self.is_sent))

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the DNS for a name that nobody wants to know.
        TCPServer.server_bind(self)

    # --- in the thread that listens -----------------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        # Of each wait within the request; the whole of it is looked after here.
        request.settimeout(self._patience)
        if not self._places.acquire(blocking=False) and not self._made_room():
            self.shutdown_request(request)
            return
        with self._lock:
            self._sending[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread has begun that would give the place back.
            self._left(request)
            raise

    def service_actions(self) -> None:
        """Cut off what has been sent for too long; called after each request, and each look whether to go on."""
        late = time.monotonic() - self._patience
        with self._lock:
            for request in [request for request, began in self._sending.items() if began < late]:
                self._cut(request)

    def _made_room(self) -> bool:
        """Whether there is a place now, that somebody had who was still sending."""
        with self._lock:
            oldest = next(iter(self._sending), None)
            if oldest is not None:
                self._cut(oldest)
        return oldest is not None and self._places.acquire(timeout=ROOM)

    def _cut(self, request: socket.socket) -> None:
        del self._sending[request]
        with suppress(OSError):
            # Its thread reads an end, and closes it.
            request.shutdown(socket.SHUT_RDWR)

    # --- in the thread of a request -----------------------------------------------------------------------------------

    def is_sent(self, request: socket.socket) -> None:
        """All of this request is here: it is not cut off any more."""
        with self._lock:
            self._sending.pop(request, None)

    def _left(self, request: socket.socket) -> None:
        self.is_sent(request)
        self._places.release()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._left(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's signature
        log.debug("a request for health or metrics was broken off: %r", sys.exception())


class _Handler(BaseHTTPRequestHandler):
    server_version = "runnerq"
    sys_version = ""

    def __init__(self, pages: Pages, only_local: bool, is_sent: Callable[[socket.socket], None], *args: Any) -> None:
        self._pages = pages
        self._only_local = only_local
        self._is_sent = is_sent
        # It answers in here.
        super().__init__(*args)

    def do_GET(self) -> None:
        page = self._page()
        self._head(page)
        with suppress(ConnectionError):
            self.wfile.write(page.body)

    def do_HEAD(self) -> None:
        self._head(self._page())

    def _page(self) -> Answer:
        self._is_sent(self.connection)
        if self._only_local and not _is_asked_here(self.headers.get("Host")):
            return text(HTTPStatus.MISDIRECTED_REQUEST, "ask for localhost or for an address")
        page = self._pages.get(self.path.partition("?")[0])
        if page is None:
            return text(HTTPStatus.NOT_FOUND, f"there is {', '.join(self._pages)}")
        try:
            return page()
        except Exception:
            # Whatever it is, whoever asks is to hear that it failed.
            log.exception("answering %s failed", self.path)
            return text(HTTPStatus.INTERNAL_SERVER_ERROR, "this failed; the worker's log has the reason")

    def _head(self, page: Answer) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's word
        log.debug("http: %s", format % args)


def _is_local(host: str) -> bool:
    """Whether nobody but this machine gets to what listens there."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_asked_here(given: str | None) -> bool:
    """Whether this ``Host`` is no name that somebody can give a machine. Browsers always send one."""
    if given is None:
        return True
    try:
        name = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _is_address(name)
