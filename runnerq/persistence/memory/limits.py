"""Limits in memory: places and admissions are counted anew whenever they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from runnerq.persistence.memory.book import Book, Open
from runnerq.persistence.records import HEAD_START, MANY_KEYS, Limit, LimitRecord, LimitRule

_Bucket = tuple[str, str]


@dataclass(slots=True)
class _Line:
    """Ready runs of one key, served alike, by rank; ``turn`` is when the key was admitted last, and its place among
    those that were at the same time."""

    bucket: _Bucket
    turn: tuple[datetime, int]
    rows: list[Open] = field(default_factory=list)


def set_rule(book: Book, rule: LimitRule, now: datetime) -> None:
    """Make or change the rule of a scope; one that is as it was is left alone."""
    known = book.rules.get(rule.scope)
    if known is not None and known[0] == rule:
        return
    book.rules[rule.scope] = (rule, now)
    if known is None or known[0].per_key != rule.per_key:
        _begin_anew(book, rule.scope)
    _tell(book, rule.scope)


def delete_rule(book: Book, scope: str) -> bool:
    """End the rule of a scope."""
    if book.rules.pop(scope, None) is None:
        return False
    _begin_anew(book, scope)
    _tell(book, scope)
    return True


def records(book: Book) -> list[LimitRecord]:
    """All rules, by scope."""
    held = [limit.scope for row, limit in _limited(book) if row.state == "running"]
    keys = {limit for row, limit in _limited(book) if _is_ready(row)}
    return [
        LimitRecord(
            rule=rule,
            changed_at=changed_at,
            running=held.count(scope),
            waiting=min(MANY_KEYS, sum(limit.scope == scope for limit in keys)),
        )
        for scope, (rule, changed_at) in sorted(book.rules.items())
    ]


def admitted(book: Book, ready: Iterable[Open], most: int, now: datetime) -> list[tuple[datetime, Open]]:
    """Of these ready runs that have limits, those that may be taken, each with the rank at which it stands among all
    others: each line's first by turn, then each one's second; the first of them where their smallest rank is."""
    lines = sorted(_lines(book, ready), key=lambda line: line.turn)
    free = {line.bucket: _free(book, line.bucket, now) for line in lines}
    fair: list[Open] = []
    for place in range(max((len(line.rows) for line in lines), default=0)):
        for line in lines:
            if place < len(line.rows) and free[line.bucket] > 0 and len(fair) < most:
                free[line.bucket] -= 1
                fair.append(line.rows[place])
    return list(zip(sorted(row.rank for row in fair), fair, strict=True))


def admit(book: Book, row: Open, now: datetime) -> None:
    """It is taken: its key has had its turn, and a rate counts it."""
    limit = book.limit_of(row)
    if limit is None:
        return
    book.admitted += 1
    book.turns[limit] = (now, book.admitted)
    rule, bucket = _rule(book, limit.scope), _bucket(book, limit)
    if rule.rate is None or rule.per is None:
        book.admissions.pop(bucket, None)
        return
    span = timedelta(seconds=rule.per)
    recent = [at for at in book.admissions.get(bucket, ()) if at > now - span]
    book.admissions[bucket] = [*recent, now]


def next_open(book: Book, now: datetime) -> datetime | None:
    """When a rate admits the next run of what waits for it."""
    waiting = {_bucket(book, limit) for row, limit in _limited(book) if _is_ready(row)}
    times = [at for bucket in waiting if (at := _opens_at(book, bucket, now)) is not None]
    return min(times, default=None)


def _lines(book: Book, ready: Iterable[Open]) -> Iterable[_Line]:
    lines: dict[tuple[str, str, Limit], _Line] = {}
    for row in sorted(ready, key=lambda row: (row.rank, row.run_id)):
        new, limit = book.runs[row.run_id].new, book.limit_of(row)
        if limit is None:
            continue
        since = row.rank + timedelta(seconds=HEAD_START[new.priority])
        turn = book.turns.get(limit, (since, 0))
        line = lines.setdefault((new.queue, new.served, limit), _Line(_bucket(book, limit), turn))
        line.rows.append(row)
    return lines.values()


def _free(book: Book, bucket: _Bucket, now: datetime) -> int:
    """How many more this bucket may admit now."""
    rule = _rule(book, bucket[0])
    free = len(book.open)
    if rule.concurrency is not None:
        held = sum(row.state == "running" and _bucket(book, limit) == bucket for row, limit in _limited(book))
        free = min(free, rule.concurrency - held)
    if rule.rate is not None:
        free = min(free, rule.rate - len(_recent(book, bucket, now)))
    return max(0, free)


def _opens_at(book: Book, bucket: _Bucket, now: datetime) -> datetime | None:
    """When its rate, which admits nothing now, does so again."""
    rule, recent = _rule(book, bucket[0]), _recent(book, bucket, now)
    if rule.rate is None or rule.per is None or len(recent) < rule.rate:
        return None
    return recent[len(recent) - rule.rate] + timedelta(seconds=rule.per)


def _recent(book: Book, bucket: _Bucket, now: datetime) -> list[datetime]:
    rule = _rule(book, bucket[0])
    if rule.per is None:
        return []
    return [at for at in book.admissions.get(bucket, ()) if at > now - timedelta(seconds=rule.per)]


def _rule(book: Book, scope: str) -> LimitRule:
    known = book.rules.get(scope)
    return known[0] if known is not None else LimitRule(scope=scope, per_key=True)


def _bucket(book: Book, limit: Limit) -> _Bucket:
    return limit.scope, limit.key if _rule(book, limit.scope).per_key else ""


def _limited(book: Book) -> Iterator[tuple[Open, Limit]]:
    """The open runs that have a limit."""
    for row in book.open.values():
        limit = book.limit_of(row)
        if limit is not None:
            yield row, limit


def _is_ready(row: Open) -> bool:
    return row.state == "pending" and row.due_at is None


def _begin_anew(book: Book, scope: str) -> None:
    book.admissions = {bucket: times for bucket, times in book.admissions.items() if bucket[0] != scope}


def _tell(book: Book, scope: str) -> None:
    """Whoever waits for this scope is to be looked at."""
    for row, limit in _limited(book):
        if limit.scope == scope and _is_ready(row):
            book.heard.queues.add(book.runs[row.run_id].new.queue)
