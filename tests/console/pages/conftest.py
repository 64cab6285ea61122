from __future__ import annotations

import pytest

import runnerq as rq
from runnerq.client.client import Client
from tests.console.pages.reading import payout, transfer


@pytest.fixture
async def failed(client: Client) -> list[str]:
    """Three payouts that have used up their attempts."""
    async with rq.Worker(client, workflows=[payout], activities=[transfer]):
        runs = [await client.start(payout, f"{number:04}") for number in range(3)]
        for run in runs:
            with pytest.raises(rq.RunFailed):
                await run.result(timeout=10)
    return [run.id for run in runs]
