"""What went wrong alike, what was done when, what people did; and lists that are read both ways."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runnerq.client.client import Client
from runnerq.client.patience import patience
from runnerq.errors import ReadTimeout
from runnerq.ids import new_run_id
from runnerq.persistence.records import End, RunFilter, Status
from runnerq.serialization.failures import modules_snapshot, record
from tests.client.shop import ORDER, Player, checkout, mail, resize


class TestFinding:
    async def test_a_list_is_read_from_either_end_and_back(self, client: Client) -> None:
        ids = [handle.id for handle in await client.start_many(resize, [(n,) for n in range(5)])]
        first = await client.list(limit=2, oldest=True)
        assert [info.id for info in first.items] == ids[:2]
        second = await client.list(limit=2, cursor=first.next, oldest=True)
        assert [info.id for info in second.items] == ids[2:4]
        back = await client.list(limit=2, cursor=second.items[0].id)
        assert [info.id for info in back.items] == [ids[1], ids[0]]

    async def test_the_beginning_of_an_id_is_taken_as_people_copy_it(self, client: Client) -> None:
        run = await client.start(checkout, ORDER)
        for prefix in (run.id, run.id[:16], run.id[:9], run.id.replace("-", ""), run.id.upper()):
            assert [info.id for info in (await client.list(RunFilter(id_prefix=prefix))).items] == [run.id]

    @pytest.mark.parametrize(
        ("where", "says"),
        [
            ({"id_prefix": "order-1"}, "id_prefix='order-1'"),
            ({"id_prefix": ""}, "id_prefix=''"),
            ({"error": ""}, "error=''"),
            ({"error": "x" * 201}, "200 characters"),
            ({"fingerprint": "card"}, "client.failures"),
            ({"ended_since": datetime(2030, 1, 1)}, "ended_since"),  # noqa: DTZ001 - the fault that is meant
        ],
    )
    async def test_a_condition_that_can_be_none_is_a_value_error(
        self, client: Client, where: dict[str, Any], says: str
    ) -> None:
        with pytest.raises(ValueError, match=says):
            await client.list(RunFilter(**where))


class TestFailures:
    async def test_what_failed_alike_is_one_group_that_a_filter_finds(self, client: Client, player: Player) -> None:
        ids = [await _failed(client, player, f"card {n} was declined") for n in (4711, 42)]
        await _failed(client, player, "no such customer")
        found = await client.failures()
        assert not found.capped
        group = found.groups[0]
        assert (group.workflow, group.status, group.count, group.sample_id) == ("resize", Status.FAILED, 2, ids[1])
        assert (group.type, group.message) == ("ValueError", "card 42 was declined")
        where = RunFilter(workflow=group.workflow, status=group.status, fingerprint=group.fingerprint)
        assert {info.id for info in (await client.list(where)).items} == set(ids)

    async def test_dead_letters_of_one_group_are_redriven_alone(self, client: Client, player: Player) -> None:
        one = await _failed(client, player, "card 1 was declined", "dead_letter")
        other = await _failed(client, player, "no such customer", "dead_letter")
        [group] = [each for each in (await client.failures()).groups if each.sample_id == one]
        assert await client.redrive(RunFilter(fingerprint=group.fingerprint)) == 1
        assert [(await client.info(run_id)).status for run_id in (one, other)] == [Status.PENDING, Status.DEAD_LETTER]


class TestActivity:
    async def test_every_span_is_there_whether_anything_happened_or_not(self, client: Client, player: Player) -> None:
        await client.start_many(mail, [("a",), ("b",)])
        await _failed(client, player, "no")
        now = datetime.now(UTC)
        spans = await client.activity(now - timedelta(hours=1), now + timedelta(minutes=1), span=600)
        assert [span.at - spans[0].at for span in spans] == [timedelta(minutes=10 * nth) for nth in range(len(spans))]
        assert spans[0].at <= now - timedelta(hours=1)
        assert sum(span.started for span in spans) == 3
        [last] = [span for span in spans if span.failed]
        assert last.p50 is not None
        assert last.p95 is not None
        assert last.p50 <= last.p95 < 60
        assert all(span.p50 is None for span in spans if span is not last)

    async def test_of_one_workflow_or_of_each(self, client: Client) -> None:
        await client.start_many(mail, [("a",), ("b",)])
        await client.start(resize, 1)
        now = datetime.now(UTC)
        since, until = now - timedelta(hours=1), now + timedelta(minutes=1)
        assert sum(span.started for span in await client.activity(since, until, workflow="mail")) == 2
        of_each = await client.activity_by_workflow(since, until)
        assert [(each.workflow, each.started) for each in of_each] == [("mail", 2), ("resize", 1)]

    async def test_where_nothing_happened_it_still_says_whose_it_is(self, client: Client) -> None:
        now = datetime.now(UTC)
        for workflow in ("mail", None):
            spans = await client.activity(now - timedelta(minutes=3), now, workflow=workflow)
            assert {span.workflow for span in spans} == {workflow}

    async def test_times_and_spans_that_cannot_be_are_refused(self, client: Client) -> None:
        now = datetime.now(UTC)
        for span in (0.5, 90):
            with pytest.raises(ValueError, match="whole minutes"):
                await client.activity(now, now, span=span)
        with pytest.raises(ValueError, match="longer ones"):
            await client.activity(now - timedelta(days=365), now)
        with pytest.raises(ValueError, match="time zone"):
            await client.activity(datetime(2030, 1, 1), now)  # noqa: DTZ001 - the fault that is meant


class TestAudit:
    async def test_what_people_did_is_listed_newest_first(self, client: Client) -> None:
        run_id = new_run_id()
        await client.audit.record("ann", "cancel", run_id=run_id, reason="asked to", request={"hard": False})
        await client.audit.record("bob", "pause", target="queue mails", outcome="it was paused already")
        first = await client.audit.list(limit=1)
        [paused] = first.items
        assert (paused.principal, paused.action, paused.target, paused.outcome) == (
            "bob", "pause", "queue mails", "it was paused already",
        )  # fmt: skip
        [cancelled] = (await client.audit.list(cursor=first.next)).items
        assert (cancelled.run_id, cancelled.reason, cancelled.request) == (run_id, "asked to", {"hard": False})
        assert [each.id for each in (await client.audit.list(run_id=run_id)).items] == [cancelled.id]
        assert [each.id for each in (await client.audit.list(principal="bob", action="pause")).items] == [paused.id]

    async def test_nobody_doing_nothing_is_refused(self, client: Client) -> None:
        for principal, action in (("", "cancel"), ("ann", "")):
            with pytest.raises(ValueError, match="who did what"):
                await client.audit.record(principal, action)
        with pytest.raises(ValueError, match="limit"):
            await client.audit.list(limit=0)


class TestPatience:
    async def test_what_is_asked_in_time_is_answered(self, client: Client) -> None:
        async with patience(60):
            assert (await client.list()).items == []

    async def test_a_timeout_of_the_callers_own_stays_what_it_was(self) -> None:
        with pytest.raises(TimeoutError) as raised:
            async with patience(60):
                raise TimeoutError("mine")
        assert not isinstance(raised.value, ReadTimeout)


async def _failed(client: Client, player: Player, message: str, status: str = "failed") -> str:
    run = await client.start(resize, 1)
    error = record(ValueError(message), modules_snapshot(), retryable=False)
    end = End(status="dead_letter" if status == "dead_letter" else "failed", error=error)
    await player.write(run.id, end)
    return run.id
