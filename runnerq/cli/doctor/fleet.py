"""Checks of who works, and of what waits in vain. They ask any storage."""

from __future__ import annotations

import re
from collections import Counter

from runnerq.cli.doctor.finding import Finding, error, many, ok, span, warn
from runnerq.cli.doctor.server import CLOCKS_APART
from runnerq.console.models.fleet import Fleet, silence_words
from runnerq.persistence.protocol import Storage
from runnerq.persistence.records import Status, WorkerRecord
from runnerq.runtime.builds import version

OVERDUE = 60.0
"""Seconds after its time at which a schedule's tick should long have been fired."""


async def workers(storage: Storage) -> Finding:
    """Whether somebody works, and works well."""
    found = await storage.workers()
    alive = [worker for worker in found if worker.alive]
    now = await storage.now()
    silent = [(each, seconds) for each in found if (seconds := each.silent_for(now)) is not None]
    wrong = [
        f"{_named(each)} is silent for {silence_words(seconds)}; its runs are not taken from it yet"
        for each, seconds in silent
    ]
    for each in alive:
        if each.load.stuck:
            stuck = many(each.load.stuck, "thread or task that does", "threads or tasks that do")
            wrong.append(f"{_named(each)} has {stuck} not come back")
        if each.clock_off is not None and abs(each.clock_off) > CLOCKS_APART:
            way = "ahead of" if each.clock_off > 0 else "behind"
            wrong.append(f"the clock of {each.host} is {span(abs(each.clock_off))} {way} the database's")
    slots = sum(each.slots for each in alive)
    taken = sum(each.load.held for each in alive)
    stopping = sum(not each.claims for each in alive)
    asked = f" ({stopping} asked to stop)" if stopping else ""
    summary = (
        f"{many(len(alive), 'is', 'are')} alive{asked}, with {taken:,} of {many(slots, 'slot')} taken"
        if alive
        else f"none lives{f'; {len(silent)} silent' if silent else ''}"
    )
    if wrong:
        return warn("workers", summary, "start those that are stuck or silent anew; let clocks be set by NTP", *wrong)
    return ok("workers", summary)


async def versions(storage: Storage) -> Finding:
    """Whether all workers run this version of runnerq."""
    mine = version()
    alive = [worker for worker in await storage.workers() if worker.alive]
    others = [each for each in alive if each.library != mine]
    if mine is None or not others:
        return ok("versions", f"runnerq {mine or 'of a folder'}" + (", as all workers that live" if alive else ""))
    details = [f"{_named(each)} runs runnerq {each.library or 'that is older still'}" for each in others]
    older = [each for each in others if _numbers(each.library) < _numbers(mine)]
    if older:
        found = f"{many(len(older), 'worker runs', 'workers run')} an older runnerq than this {mine}"
        return warn("versions", found, "deploy them anew: `runnerq workers drain ID` stops one in order", *details)
    found = f"{many(len(others), 'worker runs', 'workers run')} another runnerq than this {mine}"
    return warn("versions", found, "upgrade this one: it may not know all that they write", *details)


def _numbers(library: str | None) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", library or "")))


async def queues(storage: Storage) -> Finding:
    """Whether what is ready is served by somebody who lives."""
    open_ = await storage.stats()
    fleet = Fleet(await storage.now(), tuple(await storage.workers()), tuple(await storage.queues()), ())
    paused = [queue for queue in fleet.queues if queue.paused_at is not None]
    waiting = Counter[tuple[str, str]]()
    for depth in open_.depths:
        named = (depth.name, f"{depth.name}@{depth.version}")
        if depth.status is Status.PENDING and not any(fleet.serving(served, depth.queue) for served in named):
            waiting[named[1] if depth.version else depth.name, depth.queue] += depth.count
    unserved = [
        f"{many(count, 'run')} of {name} on queue {queue}"
        for (name, queue), count in waiting.most_common()
        if queue not in {each.name for each in paused}
    ]
    held = [f"queue {each.name} is paused, with {many(each.ready, 'ready run')} on it" for each in paused]
    if unserved:
        advice = "start a worker that registers these, on these queues: `runnerq worker MODULE -q QUEUE`"
        found = "ready runs wait for a worker, and none takes them up"
        return error("queues", found, advice, *unserved, *held)
    if held:
        return warn(
            "queues", f"{many(len(held), 'queue is', 'queues are')} paused", "`runnerq queue resume NAME`", *held
        )
    return ok("queues", "all that is ready is served")


async def blocked(storage: Storage) -> Finding:
    """Whether runs are blocked."""
    counts = Counter[str]()
    for depth in (await storage.stats()).depths:
        if depth.status is Status.BLOCKED:
            counts[depth.name] += depth.count
    if not counts:
        return ok("blocked", "no run is blocked")
    return error(
        "blocked",
        f"{many(counts.total(), 'run is', 'runs are')} blocked: the code does not do what is on record, or failed by a "
        "fault of its own",
        "`runnerq list --status blocked` and `runnerq show ID` say where; deploy code that follows, or "
        "`runnerq retry ID`",
        *(f"{count:,} of {name}" for name, count in counts.most_common()),
    )


async def schedules(storage: Storage) -> Finding:
    """Whether schedules start what somebody knows, in time."""
    now = await storage.now()
    known = {definition.name for definition in await storage.definitions()}
    found = await storage.schedules()
    wrong = list[str]()
    for each in found:
        if each.row.workflow not in known:
            wrong.append(f"{each.row.name!r} starts {each.row.workflow!r}, which no worker ever registered")
        late = None if each.next_at is None else (now - each.next_at).total_seconds()
        if each.paused_at is None and late is not None and late > OVERDUE:
            wrong.append(f"{each.row.name!r} was due {span(late)} ago: workers fire schedules, and none has")
    if wrong:
        advice = "start a worker that registers what they start, or `runnerq schedule delete NAME`"
        starts = many(len(wrong), "schedule starts", "schedules start")
        return warn("schedules", f"{starts} nothing, or too late", advice, *wrong)
    return ok("schedules", f"{many(len(found), 'schedule')}, all in time")


def _named(worker: WorkerRecord) -> str:
    return f"worker {worker.id} (host {worker.host}, pid {worker.pid})"


CHECKS = (workers, versions, queues, blocked, schedules)
