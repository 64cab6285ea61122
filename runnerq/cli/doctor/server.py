"""Checks of the server itself: what it is, how it is set, and what stands in its way."""

from __future__ import annotations

import re

from runnerq.cli.doctor.finding import Finding, error, many, ok, size, span, warn
from runnerq.cli.doctor.patient import Patient
from runnerq.persistence.postgres.condition import HeldBack, Server, TableCondition

CLOCKS_APART = 2.0
"""Seconds that clocks may be apart."""
SHORT_STATEMENT = 15_000
"""Milliseconds that a statement must be let take: claims and turns are given up after that by themselves."""
NEARLY_ALL = 0.9
"""The share of connections above which the next one may be refused."""
NOTICED = 1_000
"""Dead rows of a table from which their share is shown."""
MANY_DEAD = 10_000
DEAD_SHARE = 0.5
"""A table that has so many dead rows, and so large a share of them, is not cleared as it should be."""
SHOWN = 5
# What a finding shows goes into tickets, and a query may have a password in it. One that is cut off has no end.
_LITERALS = re.compile(r"'(?:[^'\\]|''|\\.|\\$)*(?:'|$)|\$(\w*)\$.*?(?:\$\1\$|$)", re.DOTALL)


async def server(patient: Patient) -> Finding:
    """Which Postgres it is, and whether it takes writes."""
    return of_server(await patient.condition.server())


def of_server(seen: Server) -> Finding:
    """The same, of a server that was looked at."""
    found = f"PostgreSQL {seen.version}, database {seen.database!r} ({size(seen.size)}), role {seen.role!r}"
    if seen.standby:
        return error(
            "server", f"{found}: it is a standby", "give the address of the primary: nothing can be written here"
        )
    return ok("server", found)


async def settings(patient: Patient) -> Finding:
    """Settings that lose data, or keep statements from working."""
    return of_settings(await patient.condition.server())


def of_settings(seen: Server) -> Finding:
    """The same, of a server that was looked at."""
    harmful = list[str]()
    risky = list[str]()
    for name, why in (
        ("fsync", "a crash of the machine can destroy the database"),
        ("full_page_writes", "a crash of the machine can destroy the database"),
        ("autovacuum", "dead rows are never cleared, and claims get slower and slower"),
        ("track_counts", "autovacuum does not know when to work"),
    ):
        if seen.settings.get(name) == "off":
            harmful.append(f"{name} is off: {why}")
    if seen.settings.get("default_transaction_read_only") == "on":
        harmful.append("default_transaction_read_only is on: nothing can be written")
    isolation = seen.settings.get("default_transaction_isolation", "read committed")
    if isolation != "read committed":
        risky.append(
            f"default_transaction_isolation is {isolation!r}: transactions of steps have it, and so have single "
            "statements through a pooler, where busy moments will look like failures"
        )
    if seen.settings.get("synchronous_commit") == "off":
        risky.append(
            "synchronous_commit is off: in a crash of the server the last answers are lost, and their steps run again"
        )
    timeout = int(seen.settings.get("statement_timeout", "0"))
    if 0 < timeout < SHORT_STATEMENT:
        risky.append(f"statement_timeout is {timeout:,} ms: busy moments will look like failures")
    advice = f"set it for role {seen.role!r} or in postgresql.conf"
    if harmful:
        return error("settings", many(len(harmful), "setting does harm", "settings do harm"), advice, *harmful, *risky)
    if risky:
        return warn("settings", many(len(risky), "setting is risky", "settings are risky"), advice, *risky)
    return ok("settings", "nothing that loses data or stops statements")


async def connections(patient: Patient) -> Finding:
    """How many connections are left."""
    return of_connections(await patient.condition.server())


def of_connections(seen: Server) -> Finding:
    """The same, of a server that was looked at."""
    most = int(seen.settings["max_connections"])
    found = f"{seen.taken:,} of {most:,} are taken"
    if seen.taken >= most * NEARLY_ALL:
        advice = "raise max_connections, or put a pooler before the server: a client takes up to 20, a worker one more"
        return warn("connections", found, advice)
    return ok("connections", found)


async def clock(patient: Patient) -> Finding:
    """Whether this machine's clock is the database's."""
    return of_clock(await patient.condition.server())


def of_clock(seen: Server) -> Finding:
    """The same, of a server that was looked at."""
    if abs(seen.ahead) <= CLOCKS_APART + seen.give:
        return ok("clock", "this machine's clock and the database's agree")
    way = "ahead of" if seen.ahead > 0 else "behind"
    found = f"this machine's clock is {span(abs(seen.ahead))} {way} the database's"
    return warn(
        "clock", found, "let both be set by NTP: run ids begin with the caller's time, so lists are out of order"
    )


async def transactions(patient: Patient) -> Finding:
    """Who has had a transaction open for minutes, so that dead rows stay."""
    held = await patient.condition.held_back(patient.open_for)
    sees_all = (await patient.condition.server()).sees_all
    blind = () if sees_all else ("other roles' transactions are seen by members of pg_read_all_stats alone",)
    if not held:
        return ok("transactions", f"none has been open for {span(patient.open_for)}", *blind)
    return warn(
        "transactions",
        f"{many(len(held), 'has', 'have')} been open for {span(patient.open_for)} or longer: dead rows may be kept for "
        "it, and migrations wait",
        "let whoever has it open end it, or end it with: select pg_terminate_backend(PID)",
        *map(_told, held),
        *blind,
    )


def _told(held: HeldBack) -> str:
    whose = f"{held.kind} of {held.name or 'an unnamed application'}"
    parts = [
        whose if held.pid is None else f"{whose}, pid {held.pid}",
        f"role {held.role}" if held.role else "",
        "" if held.age is None else f"open for {span(held.age)}",
        "dead rows are kept for it" if held.keeps else "",
        held.state or "",
        _LITERALS.sub("'•••'", held.query or ""),
    ]
    return ", ".join(part for part in parts if part)


async def tables(patient: Patient) -> Finding:
    """How large the tables are, and whether they are cleared of dead rows."""
    found = await patient.condition.tables()
    if not found:
        return ok("tables", "there are none yet")
    largest = ", ".join(f"{each.name} {size(each.bytes)}{_dead(each)}" for each in found[:SHOWN])
    summary = f"{size(sum(each.bytes for each in found))} in all, the largest: {largest}"
    wrong = [told for each in found for told in _wrong(each)]
    if wrong:
        advice = (
            "run `vacuum` on the table and see what keeps autovacuum away: a transaction that is open for long, or a "
            "setting; an index is built by `runnerq migrate`"
        )
        return warn("tables", summary, advice, *wrong)
    return ok("tables", summary)


def _dead(table: TableCondition) -> str:
    share = table.dead / max(1, table.alive + table.dead)
    return f" ({share:.0%} dead)" if table.dead >= NOTICED else ""


def _wrong(table: TableCondition) -> list[str]:
    told = [
        f"index {index} of {table.name} is not in use: it is being built, or that was broken off"
        for index in table.broken
    ]
    if not table.cleared:
        told.append(f"autovacuum is turned off for {table.name}")
    if table.dead >= MANY_DEAD and table.dead >= (table.alive + table.dead) * DEAD_SHARE:
        last = "never" if table.cleared_at is None else f"{table.cleared_at:%Y-%m-%d %H:%M}Z"
        told.append(
            f"{table.name} has {table.dead:,} dead rows beside {table.alive:,} that count; last cleared: {last}"
        )
    return told


CHECKS = (server, settings, connections, clock, transactions, tables)
