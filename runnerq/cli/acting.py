"""How a command changes something: it is done, and written down in the audit with who did it and why."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import click

from runnerq.client.client import Client
from runnerq.console.actions.doing import Deed, Done, done
from runnerq.console.models.context import context_of

T = TypeVar("T")

reason_option = click.option("--reason", help="Why: it is kept in the audit.")


async def acted(
    client: Client,
    action: str,
    verb: Callable[[], Awaitable[bool]],
    *,
    run_id: str | None = None,
    target: str | None = None,
    reason: str | None = None,
    request: Mapping[str, Any] | None = None,
) -> bool:
    """Do it, and write down what came of it, also where it is refused; whether it changed anything."""

    async def work() -> Done:
        return Done(message=f"{action} of {target or run_id}", changed=await verb())

    deed = Deed(action=action, run_id=run_id, target=target, reason=reason, request=request)
    return (await done(context_of(client, person()), deed, work)).changed


def person() -> str:
    """Who calls the command, as far as this machine knows."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
