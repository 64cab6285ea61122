"""The web console: pages, an API and live updates over the client, in any web app or by itself.

    app = Litestar(plugins=[RunnerQPlugin(client, console=Console(client, auth=token_auth()))])      # in Litestar
    app.mount("/runnerq", Console(client, auth=token_auth()).app())                      # in FastAPI, Starlette
    runnerq console                                                                      # by itself

Names are loaded when they are asked for: the command line uses what lies below without the ``console`` extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runnerq.console.access import ALL, READ_ONLY, Principal
    from runnerq.console.console import Console
    from runnerq.console.plugin import RunnerQPlugin
    from runnerq.console.web.auth import basic_auth, forwarded_user, token_auth

__all__ = [
    "ALL",
    "READ_ONLY",
    "Console",
    "Principal",
    "RunnerQPlugin",
    "basic_auth",
    "forwarded_user",
    "token_auth",
]

_HOME = {
    "ALL": "access",
    "READ_ONLY": "access",
    "Principal": "access",
    "Console": "console",
    "RunnerQPlugin": "plugin",
    "basic_auth": "web.auth",
    "forwarded_user": "web.auth",
    "token_auth": "web.auth",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
