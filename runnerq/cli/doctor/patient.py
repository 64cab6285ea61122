"""What the checks of a server are given."""

from __future__ import annotations

import msgspec

from runnerq.cli.addresses import Located
from runnerq.persistence.postgres.condition import Condition


class Patient(msgspec.Struct, frozen=True, kw_only=True):
    """A server that has answered. ``open_for`` is how many seconds a transaction may be open without being named here,
    ``patience`` how long a wake-up may take to be heard."""

    condition: Condition
    address: Located
    open_for: float
    patience: float
