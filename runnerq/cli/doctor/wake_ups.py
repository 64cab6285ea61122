"""Checks of the way between here and the server: a pooler, and whether wake-ups come through."""

from __future__ import annotations

from runnerq.cli.doctor.finding import Finding, error, ok, warn
from runnerq.cli.doctor.patient import Patient
from runnerq.persistence.postgres.greeting import look

_POLLED = "start, send and end of a run are seen by polling alone, every 5 s unless poll_interval says otherwise"


async def pooler(patient: Patient) -> Finding:
    """Whether a pooler is between, and a way past it is known."""
    address, here = patient.address, patient.condition.seen
    if not (here.pooled or address.pooled or address.direct_dsn):
        return ok("pooler", "none is between")
    if address.direct_dsn is None:
        return warn(
            "pooler",
            f"a pooler is between, and wake-ups do not come through it: {_POLLED}",
            "give the server's own address as --direct-dsn or $RUNNERQ_DIRECT_DSN; a killed worker is then missed in "
            "seconds and not in a minute",
        )
    direct = await look(address.direct_dsn, patient.patience)
    advice = "give the address of Postgres itself"
    if direct.pooled:
        return error("pooler", "--direct-dsn leads to a pooler, too: no client or worker can be opened so", advice)
    if (direct.started, direct.database) != (here.started, here.database):
        found = f"--direct-dsn leads to another database, {direct.database!r}: no client or worker can be opened so"
        return error("pooler", found, advice)
    return ok("pooler", "one is between, and there is a way past it")


async def wake_ups(patient: Patient) -> Finding:
    """Whether a wake-up that is sent is heard: one is."""
    address = patient.address
    way = address.direct_dsn
    through = patient.condition.seen.pooled or address.pooled
    if way is not None:
        through = (await look(way, patient.patience)).pooled
    if through:
        return ok("wake-ups", "none are sent through a pooler")
    if await patient.condition.hears(way, patient.patience):
        return ok("wake-ups", "one was sent, and heard")
    return warn(
        "wake-ups",
        f"one was sent, and not heard within {patient.patience:g} s: {_POLLED}",
        "if a pooler is between, say --pooled and give --direct-dsn; else see that both lead to the same server",
    )


CHECKS = (pooler, wake_ups)
