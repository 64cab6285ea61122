"""A storage whose payloads are sealed on their way in and opened on their way out."""

from __future__ import annotations

from runnerq.persistence.coded.opening import Opening
from runnerq.persistence.coded.sealing import would_seal
from runnerq.persistence.coded.storage import coded

__all__ = ["Opening", "coded", "would_seal"]
