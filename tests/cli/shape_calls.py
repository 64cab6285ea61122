"""How each command is called so that its JSON can be compared with the shape that is stored for it.

A name is the command's, and behind a comma what is different about another call of it. ``{done}`` and the like stand
for runs that ``seeded`` makes; ``{fresh}`` and ``{delayed}`` are new ones for each
call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal

import msgspec

from runnerq.ids import new_token
from runnerq.persistence.records import WorkerRow
from tests.cli.counter import Counter


class Call(msgspec.Struct, frozen=True):
    """The words of a command, without ``-o json``; where it is called, and what it ends with."""

    words: tuple[str, ...]
    on: Literal["kept", "changing", "postgres"]
    code: int = 0


def read(words: str, code: int = 0) -> Call:
    """A command that changes nothing, where nothing is changed."""
    return Call(tuple(words.split()), "kept", code)


def change(words: str, code: int = 0) -> Call:
    """A command that changes something; the others of this kind are called there as well, in any order."""
    return Call(tuple(words.split()), "changing", code)


def on_postgres(words: str, code: int = 0) -> Call:
    """A command that looks at the database itself: an empty one, with the schema."""
    return Call(tuple(words.split()), "postgres", code)


CALLS: Mapping[str, Call] = {
    "start": change('start greeting "Ada" --key shape'),
    "start, waited for": change("start nobody_serves_this --wait=1ms", code=124),
    "list": read("list --limit 2 --status waiting --status dead_letter"),
    "count": read("count"),
    "aggregate": read("aggregate --by workflow"),
    "show": read("show {done}"),
    "show, waiting": read("show {waiting}"),
    "show, blocked": read("show {blocked}"),
    "show, dead": read("show {dead}"),
    "history": read("history {done}"),
    "history, full": read("history {done} --view full"),
    "history, json": read("history {dead} --view json"),
    "history, followed": read("history {done} -f"),
    "tree": read("tree {parent}"),
    "why": read("why {waiting}"),
    "why, blocked": read("why {blocked}"),
    "watch": read("watch {done}"),
    "result": read("result {done}"),
    "result, dead": read("result {dead}", code=1),
    "send": change("send {fresh} go 1"),
    "signal": change("signal {fresh} go 1"),
    "cancel": change("cancel {fresh}"),
    "cancel, many": change("cancel {fresh} {delayed} --yes"),
    "cancel, not done": change("cancel --where workflow=waiting --dry-run"),
    "terminate": change("terminate {fresh}"),
    "retry": change("retry {dead_1}"),
    "run-now": change("run-now {delayed}"),
    "reschedule": change("reschedule {fresh} 2h"),
    "priority": change("priority {fresh} low"),
    "fork": change("fork {done} --from-entry 1"),
    "delete": change("delete {ended}"),
    "prune": read("prune --older-than 365d --dry-run"),
    "export": read("export {done}"),
    "dead list": read("dead list --limit 1"),
    "dead groups": read("dead groups"),
    "dead redrive": change("dead redrive {dead_2}"),
    "dead discard": change("dead discard {dead_3}"),
    "queue list": read("queue list"),
    "queue show": read("queue show paused"),
    "queue pause": change("queue pause slow --reason tired"),
    "queue resume": change("queue resume slow"),
    "limits list": read("limits list"),
    "limits set": change("limits set stripe --concurrency 2"),
    "limits delete": change("limits delete stripe"),
    "schedule list": read("schedule list"),
    "schedule show": read("schedule show nightly"),
    "schedule create": change("schedule create hourly resting --every 1h"),
    "schedule put": change("schedule put hourly resting --every 2h"),
    "schedule pause": change("schedule pause nightly"),
    "schedule resume": change("schedule resume nightly"),
    "schedule trigger": change("schedule trigger nightly"),
    "schedule backfill": change("schedule backfill nightly --since 2026-01-01T00:00 --until 2026-01-02T00:00"),
    "schedule delete": change("schedule delete spare"),
    "workers list": read("workers list"),
    "workers show": read("workers show {worker}"),
    "workers drain": change("workers drain {worker}"),
    "stats": read("stats"),
    "tail": read("tail --after 0 --limit 1"),
    "audit": read("audit --limit 2 --action queue-pause"),
    "check": read("check tests.cli.flows"),
    "replay": read("replay {file} -m tests.cli.flows"),
    "version": read("version"),
    "migrate": on_postgres("migrate"),
    "migrate, status": on_postgres("migrate --status"),
    "migrate, not done": on_postgres("migrate --dry-run --schema missing"),
    "doctor": on_postgres("doctor --schema missing", code=5),
}

NO_ANSWER: Mapping[str, str] = {
    "worker": "it serves until it is stopped",
    "console": "it serves until it is stopped",
    "dev": "it serves until it is stopped",
    "demo": "it tells a story",
    "completion": "it prints a script for a shell",
}
"""Commands that have no answer, and why."""


def seeded() -> tuple[Counter, dict[str, str]]:
    """A bit of everything, and the ids of its runs by what became of them."""
    counter = Counter()
    ids = {
        "done": counter.start("greeting", '"Ada"', "--metadata", "team=shop"),
        "waiting": counter.start("waiting", "--key", "w"),
        "blocked": counter.start("mistaken"),
        "parent": counter.start("keeping"),
        "ended": counter.start(),
        **{name: counter.start("failing") for name in ("dead", "dead_1", "dead_2", "dead_3")},
    }
    counter.call("cancel", ids["ended"])
    counter.work()
    for words in (
        "limits set customer --concurrency 5 --rate 100/1m",
        "schedule create nightly resting --every 1h",
        "schedule create spare resting --every 1h",
        "queue pause paused --reason closed",
    ):
        assert counter.call(*words.split()).exit_code == 0, words
    # It lives as long as its lease, without a beat.
    row = WorkerRow(id=new_token(), lease=3600.0, host="h", pid=1, build="b", queues=("paused",), served=("resting@1",))
    asyncio.run(counter.storage.register(row, []))
    ids["worker"] = str(row.id)
    return counter, ids
