"""What stands under a noun of the blocking client: ``client.queues`` and its like."""

from __future__ import annotations

from typing import Any

from runnerq.client.audit import Audit
from runnerq.client.limits import Limits
from runnerq.client.queues import Queues
from runnerq.client.schedules import Schedules
from runnerq.client.sync.delegation import Blocking, blocking, told_as
from runnerq.client.sync.handle import SyncHandle


class SyncQueues(Blocking[Queues]):
    """The queues of one client, for code without an event loop."""

    __slots__ = ()

    list = blocking(Queues.list)
    pause = blocking(Queues.pause)
    resume = blocking(Queues.resume)


class SyncSchedules(Blocking[Schedules]):
    """The schedules of one database, for code without an event loop."""

    __slots__ = ()

    put = blocking(Schedules.put)
    list = blocking(Schedules.list)
    get = blocking(Schedules.get)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    backfill = blocking(Schedules.backfill)
    delete = blocking(Schedules.delete)

    @told_as(Schedules.trigger)
    def trigger(self, name: str) -> SyncHandle[Any]:
        return SyncHandle(self._loop.call(lambda: self._asked.trigger(name)), self._loop)


class SyncLimits(Blocking[Limits]):
    """The limits of one database, for code without an event loop."""

    __slots__ = ()

    set = blocking(Limits.set)
    list = blocking(Limits.list)
    get = blocking(Limits.get)
    delete = blocking(Limits.delete)


class SyncAudit(Blocking[Audit]):
    """What people did, for code without an event loop."""

    __slots__ = ()

    record = blocking(Audit.record)
    list = blocking(Audit.list)
