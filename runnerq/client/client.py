"""The client asks: it starts runs, sends to them, and looks at them. What runs them is a Worker."""

from __future__ import annotations

from runnerq.client.base import PAYLOAD_LIMIT
from runnerq.client.looks import Looks
from runnerq.client.starts import Starts
from runnerq.client.verbs import Verbs

__all__ = ["PAYLOAD_LIMIT", "Client"]


class Client(Starts, Verbs, Looks):
    """Starts runs and looks at them. ``Client(storage)`` is for a storage that you made; else use ``connect``."""
