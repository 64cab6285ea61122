"""What the console's tests and pictures look at: a little of everything that can become of a run.

    seeded = await seed(client, dsn)       a fresh database; returns when all of it has come about

Tests that change something start runs of their own; what is seeded is only looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from runnerq.client.client import Client
from runnerq.client.handle import Handle
from runnerq.client.schedule import Schedule
from runnerq.persistence.records import Priority, Status
from runnerq.runtime.worker import Worker
from tests.browser import shop
from tests.browser.past import gap_before, long_history
from tests.browser.patience import PATIENCE

SECRET = "hunter2-very-secret"  # noqa: S105 - it is looked for, and opens nothing
"""Stands under masked keys only: a page that shows it has shown a secret."""
EXACT = 2**60 + 1
"""No float is it."""
MARKUP = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"
BIG = 900_000
CHILDREN = 220
MANY = 250
LONG = 20_000


class Seeded(msgspec.Struct, frozen=True):
    """Ids of the runs that tests look at, by what became of them."""

    done: str
    waiting: str
    failed: str
    dead: str
    retrying: str
    scheduled: str
    running: str
    sleeping: str
    wide: str
    blocked: str
    cancelled: str
    unserved: str
    exact: str
    secret: str
    big: str
    markup: str
    long: str
    named: str


async def seed(client: Client, dsn: str) -> Seeded:
    """Fill an empty database: everything has come to where it stays while a worker of ``shop.AFTER`` is there."""
    # The oldest, which no first page of a list and no picture has.
    named = await client.options(
        queue="n" * 100, key="named-" + "k" * 200, delay=timedelta(days=1), metadata={"m" * 60: "v" * 180}
    ).start("w" * 200)
    await client.queues.pause("bulk")
    await client.limits.set("stripe", concurrency=5)
    await client.limits.set("customer", rate=(100, timedelta(minutes=1)), per_key=True)
    await _schedules(client)
    async with Worker(
        client, workflows=shop.BEFORE, activities=shop.STEPS, queues=("default", "bulk"), max_workers=60,
        build="2026.11.1", shutdown_grace=0,
    ):  # fmt: skip
        blocked = await client.options(key="account-77").start(shop.move_account_before, "ACC-0077")
        seeded = await _runs(client, blocked.id, named.id)
    # Under other code, which cannot follow what is on record.
    async with Worker(client, workflows=[shop.move_account_after], activities=[shop.echo], build="2026.11.2"):
        await blocked.send(shop.GO_ON, None)
        await blocked.reached(Status.BLOCKED, timeout=PATIENCE)
    await gap_before(dsn, seeded.done, "answered", "5", timedelta(days=3, hours=4))
    await long_history(dsn, seeded.long, LONG)
    return seeded


async def _schedules(client: Client) -> None:
    schedules = client.schedules
    await schedules.put(
        Schedule("nightly-report", shop.nightly_report, ("EU",), cron="0 3 * * *", zone="Europe/Berlin")
    )
    await schedules.put(
        Schedule("office-hours", shop.nightly_report, ("US",), cron="*/15 9-17 * * mon-fri", zone="America/New_York")
    )
    await schedules.put(Schedule("warm-cache", shop.greet, ("cache",), every=timedelta(hours=6), jitter=60))
    await schedules.pause("warm-cache")


async def _runs(client: Client, blocked: str, named: str) -> Seeded:
    """Start one of each, and wait until each is where it stays."""
    await client.start_many(shop.greet, [(name,) for name in ("Ada", "Grace", "Edsger", "Barbara") * 15])
    wide = await client.options(key="import-7").start(shop.import_catalogue, "acme", CHILDREN)
    shops = await _orders(client)
    troubles = await _troubles(client)
    odd = await _oddities(client)
    parked = await _parked(client)
    await _ended([wide, *odd.values()])
    ids = {name: handle.id for name, handle in {**shops, **troubles, **parked, **odd}.items()}
    return Seeded(wide=wide.id, blocked=blocked, named=named, **ids)


async def _orders(client: Client) -> dict[str, Handle[Any]]:
    options = {"metadata": {"team": "shop", "region": "eu-central"}, "priority": Priority.HIGH}
    done = await client.options(key="order-1042", **options).start(shop.checkout, shop.order("A-1042"))
    waiting = await client.options(key="order-1043", limit="stripe", **options).start(
        shop.checkout, shop.order("A-1043", "Grace Hopper", lines=5)
    )
    await done.reached(Status.WAITING, timeout=PATIENCE)
    await done.send(shop.APPROVAL, shop.Decision(True, "desk@shop.example"))
    await _ended([done])
    await waiting.reached(Status.WAITING, timeout=PATIENCE)
    return {"done": done, "waiting": waiting}


async def _troubles(client: Client) -> dict[str, Handle[Any]]:
    failed = await client.options(key="payout-311", metadata={"team": "finance"}).start(
        shop.pay_supplier, "DE89 3704 0044 0532 0130 00", 129_900
    )
    letters = [await client.start(shop.notify_warehouse, f"A-{1000 + n}", 37 * n) for n in range(1, 8)]
    await client.start(shop.fail_with, "the label printer is out of paper")
    cancelled = await client.options(key="question-1").start(shop.ask, "Is the parcel there?")
    await cancelled.reached(Status.WAITING, timeout=PATIENCE)
    await cancelled.cancel("the customer called")
    retrying = await client.start(shop.fetch_exchange_rates, "2026-11-30")
    await client.start(shop.refresh_prices, "2026-11-30")
    await retrying.reached(Status.RETRYING, timeout=PATIENCE)
    await _ended([failed, cancelled, *letters])
    return {"failed": failed, "dead": letters[0], "cancelled": cancelled, "retrying": retrying}


async def _oddities(client: Client) -> dict[str, Handle[Any]]:
    marked = client.options(key=MARKUP, metadata={"note": MARKUP})
    return {
        "exact": await client.start(shop.echo, EXACT),
        "secret": await client.start(
            shop.echo, {"user": "ada", "password": SECRET, "nested": [{"api_key": SECRET, "card_number": SECRET}]}
        ),
        "big": await client.start(shop.echo, {"text": "lorem ipsum " * (BIG // 12)}),
        "markup": await marked.start(shop.parse, MARKUP),
        "long": await client.options(key="long").start(shop.count_up, 3),
    }


async def _parked(client: Client) -> dict[str, Handle[Any]]:
    sleeping = await client.options(key="customer-9").start(
        shop.onboard_customer, "ada@lovelace.example", password=SECRET
    )
    running = await client.options(key="video-5").start(shop.transcode_video, "keynote-2026-a-very-long-title.mov")
    await client.options(queue="bulk").start(shop.greet, "later")
    await client.options(queue="idle").start_many(shop.ask, [(f"question {n}",) for n in range(MANY)])
    parked = {
        "sleeping": sleeping,
        "running": running,
        "scheduled": await client.options(delay=timedelta(hours=2)).start(shop.nightly_report, "APAC"),
        "unserved": await client.options(queue="fax").start("send_fax", "+49 30 123456"),
    }
    await sleeping.reached(Status.WAITING, timeout=PATIENCE)
    await running.reached(Status.RUNNING, timeout=PATIENCE)
    return parked


async def _ended(handles: Sequence[Handle[Any]]) -> None:
    for handle in handles:
        await handle.reached(*_ENDS, timeout=PATIENCE)


_ENDS = (Status.COMPLETED, Status.FAILED, Status.DEAD_LETTER, Status.CANCELLED)
