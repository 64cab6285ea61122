"""How a command asks and acts: as the console does, with the same reads and actions, which the audit keeps.

The cursors of a listing hold from one call of a command to the next: nobody is kept out by their signature, since
whoever calls a command has the database.
"""

from __future__ import annotations

import getpass
import os
import socket

import click

from runnerq.client.client import Client
from runnerq.console.access import ALL, Principal
from runnerq.console.models.batches import Batches
from runnerq.console.models.cache import Cache
from runnerq.console.models.context import Context
from runnerq.console.models.paging import Cursors
from runnerq.console.models.redaction import Redactor, mask

CURSORS = b"runnerq, the command line"

unchecked_option = click.option(
    "--unchecked", is_flag=True, help="Do it also where the code is known not to take such values."
)
reason_option = click.option("--reason", help="Why: it is kept in the audit.")


def context(client: Client, redact: Redactor = mask) -> Context:
    """What reads and actions of the console are given by a command: whoever calls it may do everything."""
    return Context(client, Principal(person(), ALL), Cursors(CURSORS), Cache(), Batches(), redact)


def person() -> str:
    """Who calls the command, as far as this machine knows."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user may have no name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
