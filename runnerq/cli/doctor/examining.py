"""All checks, one after the other. What one cannot look at is a finding of its own; what needs what is wrong is
skipped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from runnerq.cli.addresses import located
from runnerq.cli.doctor import fleet, schema, server, wake_ups
from runnerq.cli.doctor.finding import Finding, Report, error
from runnerq.cli.doctor.patient import Patient
from runnerq.cli.shared import Database
from runnerq.errors import ConfigurationError, RunnerQError, SchemaError
from runnerq.persistence.postgres.condition import condition_of
from runnerq.persistence.postgres.faults import sqlstate_of
from runnerq.persistence.postgres.greeting import place_of

T = TypeVar("T")

CONNECT_PATIENCE = 5.0
"""Seconds that a server may take to answer."""
HEAR_PATIENCE = 3.0
"""Seconds that a wake-up may take to be heard."""

SERVER_CHECKS = (*server.CHECKS, *wake_ups.CHECKS, *schema.CHECKS)
NAMES = tuple(check.__name__.replace("_", "-") for check in (*SERVER_CHECKS, *fleet.CHECKS))
WRONG_SCHEMA = frozenset({"login", "schema", "rights"})
"""Checks whose error is exit code 5."""
UNUSABLE = WRONG_SCHEMA | {"pooler"}
"""Checks whose error no client can be opened with."""


def exit_code(report: Report) -> int:
    """What the command ends with."""
    wrong = {finding.check for finding in report.findings if finding.level == "error"}
    if wrong & WRONG_SCHEMA:
        return 5
    return 1 if wrong else 0


async def examine(database: Database, *, open_for: float) -> Report:
    """Look at everything that can be looked at."""
    findings = list[Finding]()
    place = "this folder"
    try:
        database.check_there()
        async with located(database) as address:
            place = place_of(address.dsn)
            async with condition_of(address.dsn, database.schema, patience=CONNECT_PATIENCE) as condition:
                patient = Patient(condition=condition, address=address, open_for=open_for, patience=HEAR_PATIENCE)
                findings += filter(None, [await _looked(check, patient) for check in SERVER_CHECKS])
                if not any(each.level == "error" and each.check in UNUSABLE for each in findings):
                    async with address.database(database).client(migrate=False) as client:
                        findings += filter(None, [await _looked(check, client.storage) for check in fleet.CHECKS])
    except RunnerQError as fault:
        findings.append(_without(fault))
    seen = {finding.check for finding in findings}
    return Report(
        ok=all(finding.level != "error" for finding in findings),
        place=place,
        findings=tuple(findings),
        skipped=tuple(name for name in NAMES if name not in seen),
    )


async def _looked(check: Callable[[T], Awaitable[Finding | None]], at: T) -> Finding | None:
    try:
        return await check(at)
    except RunnerQError as fault:
        name = check.__name__.replace("_", "-")
        return error(name, f"it could not be looked at: {fault}", "see the other findings first")


def _without(fault: RunnerQError) -> Finding:
    """What a database is that cannot be connected to."""
    told = " ".join(str(fault).split())
    state = sqlstate_of(fault.__cause__) if fault.__cause__ is not None else ""
    if state.startswith("28"):
        return error("login", told, "see the user and the password in the DSN, and pg_hba.conf of the server")
    if state == "3D000":
        return error("database", told, "make it with `createdb`, or name another one in the DSN")
    if isinstance(fault, SchemaError):
        return error("server", told, "use a server and a database that fit")
    if isinstance(fault, ConfigurationError):
        return error(
            "database", told, "give --dsn or set RUNNERQ_DSN; `runnerq dev` and `runnerq demo` bring one of their own"
        )
    return error("database", told, "see that the server runs, and that its address can be reached from here")
