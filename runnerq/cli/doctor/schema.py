"""Checks of the schema, and of what this role may do in it."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from runnerq.cli.doctor.finding import Finding, error, many, ok
from runnerq.cli.doctor.patient import Patient


async def schema(patient: Patient) -> Finding:
    """Whether the tables are there, and are those of this version."""
    seen = await patient.condition.schema()
    if seen.fits:
        gone = await patient.condition.missing_tables()
        if gone:
            found = f"{seen.schema!r} is at version {seen.present}, and has lost {many(len(gone), 'table')}"
            return error("schema", found, "somebody has renamed or dropped what is named here: put it back", *gone)
        return ok("schema", f"{seen.schema!r} is at version {seen.present}, as this code needs")
    if seen.present > seen.newest:
        found = f"{seen.schema!r} is at version {seen.present}, and this code knows none beyond {seen.newest}"
        return error("schema", found, "it was migrated by a newer runnerq: upgrade this one")
    if not seen.present:
        return error(
            "schema", f"there are no tables of runnerq in {seen.schema!r}", "run `runnerq migrate`", *seen.missing
        )
    found = f"{seen.schema!r} is at version {seen.present}, and this code needs {seen.newest}"
    return error("schema", found, "run `runnerq migrate`; workers may go on meanwhile", *seen.missing)


async def rights(patient: Patient) -> Finding | None:
    """Whether this role may do what the library does. None where there is nothing yet to have a right to."""
    missing = sorted(await patient.condition.missing_rights())
    if not missing:
        if not (await patient.condition.schema()).present:
            return None
        return ok("rights", "this role may do all that is needed")
    role = (await patient.condition.server()).role
    whose, where = _quoted(role), _quoted(patient.condition.schema_name)
    by_name = [(name, ", ".join(right for _, right in some)) for name, some in groupby(missing, itemgetter(0))]
    return error(
        "rights",
        f"role {role!r} lacks rights on {many(len(by_name), 'object')}",
        f"let their owner run: grant usage on schema {where} to {whose}; grant select, insert, update, delete on all "
        f"tables in schema {where} to {whose}; grant execute on all functions in schema {where} to {whose}",
        *(f"{name}: {rights}" for name, rights in by_name),
    )


def _quoted(name: str) -> str:
    """The name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


CHECKS = (schema, rights)
