"""Limits: how runs wait for places, and how rules are changed.

Rules
- The truth is the runs themselves. Places are counted, never kept: those in use are the rows that are running, so a
  crash leaves no number wrong. What is kept is hints: which lines there are, and which are worth a look.
- A *bucket* is what is counted together, a key or a whole scope. Whoever admits from it has its row, and nobody else
  meanwhile. It counts in its statement's snapshot, which is as good as under the lock if the row has not changed since:
  its place on disk (ctid) tells. A bucket carries its rule, so that who has it has the rule.
- A *gate* is where the ready runs of a (queue, served) pair wait for a bucket. Claims look at open gates alone, those
  first that were admitted from least recently, and at no more than they need. A gate is shut when its bucket
  has no place left, opens at a time when its rate admits the next, and goes when nothing waits there.
- At the gate of a whole scope each key has a *lane*; they take turns.
- A run that becomes ready only says so by its row (``lined`` is null). Before a claim that may meet such runs they are
  *lined up*: gates and lanes are made, each gate as a claim would leave it. Nobody who starts, sends or wakes knows of
  gates, or waits for one.
- Whoever makes or removes gates, or changes a rule, has the one row of ``lining``. Claims remove gates and lanes too,
  but only such ones as have not changed since their snapshot; lining up changes all that it touches.
- A place that becomes free is a hint of its worker (``ClaimRequest.freed``), or of the statement that took it away; the
  gates of its bucket open, if they are shut. Whoever has shut gates, or made them shut, looks at them once more after
  its commit, for it may have counted before that hint. ``relieve`` finds what hints have missed.
- Locks: lining, buckets, lanes, gates, each by key; claims wait for none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from runnerq.persistence.postgres.core import Core
from runnerq.persistence.postgres.lending import Lent, Record
from runnerq.persistence.postgres.texts import plain
from runnerq.persistence.records import MANY_KEYS, Limit, LimitRecord, LimitRule, Relieved, Wake

LINES_AT_ONCE = 500
LINED_AT_ONCE = 500
"""Lines of each pair that one look goes over, and runs that it lines up of them."""

_MENDED_AT_ONCE = 200
"""Lines, and buckets, that one look over the limits goes through beside the shut gates."""

_Pair = tuple[str, str]


class Lines(Core):
    """Rules, gates and lanes."""

    _mended_to: tuple[str | None, ...] = (None,) * 4
    _forgotten_to: tuple[str | None, ...] = (None,) * 2
    _lined_to: tuple[str | None, ...] = (None,) * 2

    async def set_limit(self, rule: LimitRule) -> None:
        scope = plain(rule.scope, "the scope")
        given = (scope, rule.concurrency, rule.rate, None if rule.per is None else float(rule.per), rule.per_key)
        await self._change_rule("put_rule", scope, *given)

    async def delete_limit(self, scope: str) -> bool:
        return await self._change_rule("drop_rule", plain(scope, "the scope"), scope)

    async def limits(self) -> list[LimitRecord]:
        records = await self._connections.fetch_upkeep(self._statements["read_limits"], MANY_KEYS)
        return [_record(record) for record in records]

    async def relieve(self, after: str | None, limit: int) -> Relieved:
        place = _place(after)
        records = await self._connections.fetch_upkeep(self._statements["relieve_gates"], *place, limit)
        opened = [record for record in records if record["opened"]]
        mended = await self._mend()
        forgotten = await self._forget()
        self._changes.tell(Wake(queues=frozenset(record["queue"] for record in opened).union(mended)))
        last = records[-1] if len(records) == limit else None
        return Relieved(
            mended=len(opened) + len(mended) + forgotten,
            next=None if last is None else msgspec.json.encode(_key(last)).decode(),
        )

    async def _line_up(
        self, pairs: Sequence[_Pair], lines: int = LINES_AT_ONCE, others: int = LINED_AT_ONCE
    ) -> set[Limit] | None:
        """Go over so many lines, make gates for those that have none, and line up so many others; the buckets whose
        gates were made shut, to be looked at once more after the commit. None, if somebody else lines up just now."""
        queues, served = [queue for queue, _ in pairs], [name for _, name in pairs]
        [record] = await self._connections.fetch_quick(
            self._statements["line_up"], queues, served, *self._lined_to, lines, LINED_AT_ONCE, others
        )
        if not record["had"]:
            return None
        self._lined_to = (record["scope"], record["key"])
        return shut_of(record)

    async def _open_gates(self, freed: Iterable[Limit]) -> set[_Pair]:
        """Have claims look at these limits again, where they have places; the pairs for which that opened a gate."""
        limits = sorted(set(freed))
        opened: set[_Pair] = set()
        for first in range(0, len(limits), LINED_AT_ONCE):
            some = limits[first : first + LINED_AT_ONCE]
            scopes, keys = [limit.scope for limit in some], [limit.key for limit in some]
            records = await self._connections.fetch_quick(self._statements["open_gates"], scopes, keys)
            opened |= {(record["queue"], record["served"]) for record in records}
        return opened

    async def _tell_freed(self, records: Iterable[Record]) -> None:
        """Open the gates of what these rows say has lost its place, and tell whoever claims there."""
        freed = {
            Limit(record["limit_scope"], record["limit_key"]) for record in records if record["limit_scope"] is not None
        }
        opened = await self._open_gates(freed)
        self._changes.tell(Wake(queues=frozenset(queue for queue, _ in opened)))

    async def _change_rule(self, statement: str, scope: str, *given: object) -> bool:
        """Whether that is a change. A rule that is as it was costs nobody anything, so that each deploy may set it."""

        async def change(connection: Lent) -> Record | None:
            # Apart: each is to see what was committed while the one before it waited.
            await connection.fetch(self._statements["hold_lining"])
            if not await connection.fetch(self._statements[statement], *given):
                return None
            await connection.fetch(self._statements["hold_buckets"], scope)
            [applied] = await connection.fetch(self._statements["apply_rule"], scope)
            return applied

        applied = await self._connections.in_transaction(change)
        if applied is None:
            return False
        await self._open_gates(shut_of(applied))
        self._changes.tell(Wake(queues=frozenset(applied["queues"])))
        return True

    async def _mend(self) -> list[str]:
        """Look at the next lines; the queues of the runs that no gate led to, one each."""
        [record] = await self._connections.fetch_upkeep(
            self._statements["mend_lines"], *self._mended_to, _MENDED_AT_ONCE
        )
        last = tuple(record[name] for name in ("queue", "served", "scope", "key"))
        self._mended_to = last if record["looked"] == _MENDED_AT_ONCE else (None,) * 4
        return list(record["queues"])

    async def _forget(self) -> int:
        """Look at the next buckets; how many of them, and of their gates, nobody needs any more and are gone."""

        async def look(connection: Lent) -> Sequence[Record]:
            if not await connection.fetch(self._statements["try_lining"]):
                return ()
            return await connection.fetch(self._statements["forget_buckets"], *self._forgotten_to, _MENDED_AT_ONCE)

        records = await self._connections.in_transaction(look)
        if not records:
            return 0
        [record] = records
        whole = record["looked"] == _MENDED_AT_ONCE
        self._forgotten_to = (record["scope"], record["key"]) if whole else (None,) * 2
        return int(record["forgotten"])


def shut_of(record: Record) -> set[Limit]:
    """The buckets whose gates were shut."""
    return {Limit(*bucket) for bucket in zip(record["shut_scopes"], record["shut_keys"], strict=True)}


def _key(record: Record) -> tuple[str, ...]:
    return tuple(record[name] for name in ("scope", "key", "queue", "served"))


def _place(after: str | None) -> tuple[str | None, ...]:
    """Where a look goes on."""
    return (None,) * 4 if after is None else msgspec.json.decode(after, type=tuple[str, str, str, str])


def _record(record: Record) -> LimitRecord:
    rule = LimitRule(
        scope=record["scope"],
        concurrency=record["concurrency"],
        rate=record["rate"],
        per=record["per"],
        per_key=record["per_key"],
    )
    return LimitRecord(rule=rule, changed_at=record["changed_at"], running=record["running"], waiting=record["waiting"])
