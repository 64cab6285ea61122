"""Workflows for the hash seeds' test: another process loads them from here."""

from __future__ import annotations

from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.testing.flows import mail

CITIES = ["cairo", "lima", "oslo", "paris", "quito", "tokyo", "turin", "vienna"]


@workflow
def tour(ctx: Context) -> Flow[None]:
    """Goes through a set: in another order in each process."""
    for city in set(CITIES):
        yield ctx.step(mail, city)


@workflow
def sorted_tour(ctx: Context) -> Flow[None]:
    for city in sorted(set(CITIES)):
        yield ctx.step(mail, city)
