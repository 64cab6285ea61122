"""What read models and actions are given by a test."""

from __future__ import annotations

from runnerq.client.client import Client
from runnerq.console.access import ALL, Principal
from runnerq.console.models.batches import Batches
from runnerq.console.models.cache import Cache
from runnerq.console.models.context import Context
from runnerq.console.models.paging import Cursors
from runnerq.console.models.redaction import Redactor, mask


def context_of(client: Client, name: str = "ada", redact: Redactor = mask) -> Context:
    """Somebody who may do everything, and sees what everybody sees."""
    return Context(client, Principal(name, ALL), Cursors(), Cache(), Batches(), redact)
