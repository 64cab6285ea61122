"""Many runs at once, dead letters, schedules, queues and workers: what operators do, done on the pages."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from runnerq.client.schedule import Schedule
from runnerq.persistence.records import RunFilter, Status
from tests.browser import shop
from tests.browser.looking import confirm
from tests.browser.patience import PATIENCE
from tests.browser.seed import MANY
from tests.browser.world import World, process

pytestmark = pytest.mark.asyncio(loop_scope="session")

BATCH = re.compile(r"/batches/[0-9a-f-]+$")


async def test_three_selected_runs_are_cancelled_and_no_other(page: Page, world: World) -> None:
    runs = await world.client.options(queue="selected").start_many(shop.ask, [(f"{n}",) for n in range(5)])
    await page.goto(world.url("/runs?queue=selected"))
    for run in runs[:3]:
        await page.locator(f"#run-{run.id} input[type=checkbox]").check()
    await expect(page.locator("[data-count]")).to_have_text("3")
    await page.locator("#bulk button[value=cancel]").click()
    await page.get_by_label("Reason").fill("asked by mistake")
    await page.get_by_role("button", name="Cancel 3 runs").click()
    await expect(page).to_have_url(BATCH)
    await expect(page.locator("#batch-state")).to_have_text("done")
    assert [await run.status() for run in runs] == ["cancelled"] * 3 + ["pending"] * 2


async def test_all_that_match_are_cancelled_by_a_batch_that_shows_how_far_it_is(page: Page, world: World) -> None:
    await world.client.options(queue="many").start_many(shop.ask, [(f"{n}",) for n in range(MANY)])
    await page.goto(world.url("/runs?queue=many&status=pending"))
    await page.get_by_role("link", name="all that match").click()
    await page.get_by_role("link", name="Cancel", exact=True).click()
    await page.get_by_label("Reason").fill("the queue is closed")
    await page.get_by_role("button", name=f"Cancel {MANY} runs").click()
    await expect(page).to_have_url(BATCH)
    await expect(page.locator("main")).to_contain_text("100 %")
    await expect(page.locator("main")).to_contain_text(f"{MANY} of {MANY}")
    assert await world.client.count(RunFilter(queue="many", status=(Status.CANCELLED,))) == MANY
    await page.goto(world.url("/audit"))
    await expect(page.locator("main tr", has_text="the queue is closed").first).to_be_visible()


async def test_a_group_of_dead_letters_is_redriven(page: Page, world: World) -> None:
    letters = await world.client.start_many(shop.lose_parcel, [(f"B-{n}",) for n in range(1, 4)])
    for letter in letters:
        await letter.reached("dead_letter", timeout=PATIENCE)
    ended = [(await letter.info()).ended_at for letter in letters]
    await page.goto(world.url("/dead-letter"))
    group = page.locator("main tr", has_text="lose_parcel")
    await expect(group).to_have_count(1)
    await expect(group.locator(".num").first).to_have_text("3")
    await group.get_by_role("link", name="Redrive…").click()
    await page.get_by_role("button", name="Redrive 3 runs").click()
    await expect(page.locator("#batch-state")).to_have_text("done")
    # They have gone on, and are lost again.
    for letter, before in zip(letters, ended, strict=True):
        await letter.reached("dead_letter", timeout=PATIENCE)
        assert (await letter.info()).ended_at != before


async def test_selected_schedules_stay_selected_while_the_list_moves_and_are_paused(page: Page, world: World) -> None:
    names = ["selected-1", "selected-2", "selected-3"]
    for name in names:
        await world.client.schedules.put(Schedule(name, shop.greet, ("all",), cron="0 3 * * *"))
    await page.goto(world.url("/schedules"))
    every = page.get_by_label("Select all schedules")
    await every.check()
    ticks = page.locator("#bulk [name=id]")
    await expect(page.locator("[data-count]")).to_have_text(str(await ticks.count()))
    await every.uncheck()
    for name in names[:2]:
        await page.get_by_label(f"Select {name}").check()
    # The list is fetched again, with the drawing of a run that there was not.
    row = page.locator("main tr", has_text="selected-1")
    await expect(row.locator("svg.spark")).to_have_count(0)
    await world.client.schedules.trigger("selected-1")
    await expect(row.get_by_role("img", name="Last runs: 1")).to_be_visible()
    await expect(page.locator("[data-count]")).to_have_text("2")
    await expect(page.locator("#bulk [name=id]:checked")).to_have_count(2)
    await page.locator("#chosen button[value=pause]").click()
    await page.get_by_label("Reason").fill("the warehouse moves")
    await page.get_by_role("button", name="Pause 2 schedules").click()
    await expect(page.locator("main")).to_contain_text("Paused 2 schedules")
    paused = [info.name for info in await world.client.schedules.list() if info.name in names and info.paused_at]
    assert paused == names[:2]
    for name in names:
        await world.client.schedules.delete(name)


async def test_a_schedule_is_paused_resumed_triggered_and_backfilled(page: Page, world: World) -> None:
    name = "hourly-under-test"
    await world.client.schedules.put(Schedule(name, shop.greet, ("hour",), cron="0 * * * *", overlap="allow"))
    await page.goto(world.url(f"/schedules/{name}"))
    await expect(page.locator(".lede")).to_contain_text("every hour")
    coming = page.locator("section[aria-labelledby=h-next] time[datetime]")
    assert await coming.count() >= 5
    await confirm(page.get_by_role("button", name="Pause…"))
    await expect(page.locator("main")).to_contain_text("None while it is paused")
    info = await world.client.schedules.get(name)
    assert info is not None
    assert info.paused_at is not None
    await page.get_by_role("button", name="Resume", exact=True).click()
    await expect(coming.first).to_be_visible()
    await confirm(page.get_by_role("button", name="Trigger…"))
    runs = page.locator("section[aria-labelledby=h-last] a.id")
    await expect(runs).to_have_count(1)
    now = datetime.now(UTC)
    await page.get_by_role("button", name="Backfill…").click()
    await page.get_by_label("From").fill((now - timedelta(hours=3)).strftime("%Y-%m-%d %H:00"))
    await page.get_by_label("To", exact=True).fill(now.strftime("%Y-%m-%d %H:00"))
    await page.locator("#backfill button.primary").click()
    await expect(page.locator(".note")).to_contain_text("3")
    assert await world.client.count(RunFilter(workflow="greet", since=now)) >= 3
    await confirm(page.get_by_role("button", name="Delete…"))
    assert await world.client.schedules.get(name) is None


async def test_a_paused_queue_takes_up_nothing_until_it_is_resumed(page: Page, world: World) -> None:
    await page.goto(world.url("/queues/bulk"))
    await expect(page.locator("main .note.warn")).to_contain_text("Paused")
    run = await world.client.options(queue="bulk").start(shop.greet, "held")
    assert await run.status() == "pending"
    await page.get_by_role("button", name="Resume", exact=True).click()
    assert await run.result(timeout=PATIENCE) == "hello held"
    await confirm(page.get_by_role("button", name="Pause…"), reason="the disk is full")
    await expect(page.locator("main .note.warn")).to_contain_text("the disk is full")
    assert [queue.name for queue in await world.client.queues.list() if queue.paused_at] == ["bulk"]


async def test_a_worker_that_was_killed_is_shown_as_gone(page: Page, world: World) -> None:
    async with process("-m", "tests.browser.worker", world.dsn) as worker:
        await worker.first_line()
        await page.goto(world.url("/workers"))
        row = page.locator("main tr", has_text=f"pid {worker.process.pid}")
        await expect(row).to_contain_text("alive")
    await expect(row).to_contain_text("gone")
