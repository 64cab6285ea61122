"""``check_hash_seeds``: what depends on the order of a set shows in a process of another seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runnerq.errors import ConfigurationError
from runnerq.testing import Environment, check_hash_seeds
from runnerq.workflow.commands import Flow
from runnerq.workflow.context import Context
from runnerq.workflow.declare import workflow
from tests.testing.seeded import sorted_tour, tour


@workflow
def here(ctx: Context) -> Flow[int]:
    yield ctx.sleep(1)
    return 1


async def test_the_order_of_a_set_is_seen_and_a_sorted_one_is_well(tmp_path: Path) -> None:
    async with Environment(workflows=[tour, sorted_tour]) as env:
        await (await env.start(tour)).result()
        await (await env.start(sorted_tour)).result()
        journals = env.journals()
    reports = check_hash_seeds(journals, [tour, sorted_tour], seeds=(1, 2, 3))
    assert [report.workflow for report in reports] == ["tour", "sorted_tour"] * 3
    # Of three seeds at most one has this process's order, all but surely.
    assert sum(report.diverged for report in reports if report.workflow == "tour") >= 2
    assert not any(report.diverged for report in reports if report.workflow == "sorted_tour")
    file = tmp_path / "journal.json"
    file.write_text(json.dumps(journals[1]))
    assert not check_hash_seeds([file], [sorted_tour], seeds=(4,))[0].diverged


async def test_a_workflow_of_a_test_module_is_loaded_from_its_file() -> None:
    async with Environment(workflows=[here]) as env:
        await (await env.start(here)).result()
        assert not check_hash_seeds(env.journals(), [here], seeds=(1,))[0].diverged


def test_a_workflow_made_inside_a_function_cannot_be_loaded() -> None:
    @workflow
    def inside(ctx: Context) -> Flow[None]:
        yield ctx.sleep(1)

    with pytest.raises(ConfigurationError, match="top of a module"):
        check_hash_seeds([], [inside])
