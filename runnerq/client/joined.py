"""A client whose starts and sends are part of a transaction of the caller's: ``client.options(connection=...)``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Never, TypeVar

from runnerq.client.core import Core
from runnerq.errors import UsageError
from runnerq.persistence.protocol import Joined, Storage

T = TypeVar("T")

_ONLY = (
    "only start, start_many and send can be part of your own transaction: for all else use the client itself, without "
    "options(connection=)"
)


class JoinedCore(Core):
    """Starts and sends in the caller's transaction, and refuses all else, which would not be part of it."""

    lasting = False

    def __init__(self, outside: Core, connection: object) -> None:
        super().__init__(_Nowhere(), None, outside.codec, outside.chain, outside.telemetry)
        self._outside = outside
        self._connection = connection

    @property
    def outside(self) -> Core:
        return self._outside

    @property
    def storage(self) -> Storage:
        raise UsageError(_ONLY)

    @property
    def writes(self) -> Joined:
        return self._outside.storage.joined(self._connection)

    async def _sent_again(self, send: Callable[[], Awaitable[T]]) -> T:
        # After an error the transaction is aborted: the caller runs it again, or nobody does.
        return await send()


class _Nowhere:
    """Where the storage of no client of its own comes from."""

    @property
    def place(self) -> str:
        return "where the transaction is"

    async def open(self) -> Never:
        raise UsageError(_ONLY)

    async def close(self) -> Never:
        raise UsageError(_ONLY)
