"""What is shown of runs: one by its id, its beginning or its key; lists, counts, histories, results; what happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from datetime import datetime

import click
import pytest

from runnerq.cli import main
from runnerq.cli.acting import context
from runnerq.cli.filters import MOST_ON_A_PAGE, ON_A_PAGE
from runnerq.cli.watching import EntrySeen, RunSeen, watched
from runnerq.clock import ManualClock
from runnerq.persistence.memory import MemoryStorage
from runnerq.persistence.records import Status
from runnerq.runtime.worker import Worker
from tests.cli.counter import ACTIVITIES, WORKFLOWS, Counter


def every_command(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands that are no groups, with their words."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        below = command.get_command(ctx, name)
        assert below is not None
        yield from every_command(below, (*path, name))


def ids(counter: Counter, *words: str) -> list[str]:
    return [run["id"] for run in counter.answer("list", *words)["items"]]


class TestPicking:
    def test_the_beginning_of_an_id_will_do_where_no_other_begins_so(self, counter: Counter) -> None:
        run_id = counter.start()
        assert counter.answer("show", run_id[:8])["run"]["id"] == run_id
        assert counter.answer("show", run_id.replace("-", "").upper())["run"]["id"] == run_id
        other = counter.start()
        several = counter.call("show", run_id[:8])
        assert (several.exit_code, run_id in several.stderr, other in several.stderr) == (2, True, True)
        assert counter.answer("show", run_id[:35])["run"]["id"] == run_id

    def test_a_key_names_its_run(self, counter: Counter) -> None:
        run_id = counter.start("keyed", "--key", "order-1")
        assert counter.call("show", "--key", "order-1", "--workflow", "keyed", "-o", "id").stdout.strip() == run_id
        assert counter.call("history", "--key", "order-2", "--workflow", "keyed").exit_code == 3

    def test_whatever_is_about_one_run_takes_it_by_its_key(self, counter: Counter) -> None:
        without = [
            " ".join(path)
            for path, command in every_command(main)
            if any(param.type.name == "pick" for param in command.params if isinstance(param, click.Argument))
            and not any("--key" in param.opts for param in command.params)
        ]
        assert without == []
        named = ("--key", "k", "--workflow", "greeting")
        later = counter.start("greeting", '"Ada"', "--key", "k", "--delay", "1d")
        assert counter.call("reschedule", *named, "1h").exit_code == 0
        assert counter.call("reschedule", later[:8], "1s", "-o", "id").stdout.strip() == later
        assert counter.call("run-now", *named).exit_code == 0
        counter.work()
        assert counter.call("fork", *named, "--from-entry", "1").exit_code == 0
        assert counter.answer("audit", "--run", later[:23])["items"][-1]["action"] == "start"
        dead = counter.start("failing", "--key", "k")
        counter.work()
        assert counter.call("dead", "redrive", "--key", "k", "--workflow", "failing").exit_code == 0
        assert counter.status(dead) == "pending"
        for wrong in (("--key", "k"), ("--key", "k", "--workflow", "failing", "--queue", "q"), (dead, "--key", "k")):
            assert counter.call("dead", "redrive", *wrong).exit_code == 2

    @pytest.mark.parametrize(
        "words",
        [("abc",), ("0123456",), ("0" * 33,), (), ("--key", "k"), ("01234567", "--key", "k", "--workflow", "w")],
    )
    def test_what_names_no_run_is_exit_code_2(self, counter: Counter, words: tuple[str, ...]) -> None:
        assert counter.call("show", *words).exit_code == 2


class TestLists:
    def test_they_are_paged_as_the_api_pages(self, counter: Counter) -> None:
        started = [counter.start("listed", "--key", f"list-{n}") for n in range(3)]
        page = counter.answer("list", "--workflow", "listed", "--limit", "2")
        assert [run["id"] for run in page["items"]] == started[:0:-1]
        assert ids(counter, "--workflow", "listed", "--cursor", page["next_cursor"]) == started[:1]
        assert ids(counter, "--oldest-first") == started
        other = counter.call("list", "--workflow", "another", "--cursor", page["next_cursor"])
        assert (other.exit_code, "cursor" in other.stderr) == (2, True)
        shown = counter.call("list", "--workflow", "listed", "--limit", "2")
        assert (started[2] in shown.stdout, "more: --cursor" in shown.stderr) == (True, True)

    def test_each_form_has_the_same_runs(self, counter: Counter) -> None:
        started = [counter.start("listed") for _ in range(2)][::-1]
        assert counter.call("list", "-o", "id").stdout.split() == started
        lines = [json.loads(line) for line in counter.call("list", "-o", "jsonl").stdout.splitlines()]
        assert lines == counter.answer("list")["items"]
        plain = counter.call("list").stdout
        assert all(run_id in plain for run_id in started)
        assert "\x1b[" not in plain

    def test_a_pipe_gets_all_there_are_and_people_a_page(self, counter: Counter) -> None:
        async def fill() -> list[str]:
            runs = [await client.start("listed") for _ in range(MOST_ON_A_PAGE + ON_A_PAGE + 1)]
            return [run.id for run in runs[::-1]]

        client = counter.client()
        started = asyncio.run(fill())
        assert counter.call("list", "--workflow", "listed", "-o", "id").stdout.split() == started
        assert len(counter.call("list", "-o", "jsonl").stdout.splitlines()) == len(started)
        assert counter.call("list", "-o", "id", "--limit", "3").stdout.split() == started[:3]
        assert len(counter.answer("list")["items"]) == ON_A_PAGE
        assert "more: --cursor" in counter.call("list").stderr
        assert "more" not in counter.call("list", "-o", "id").stderr

    def test_conditions_are_options_or_the_words_of_the_api(self, counter: Counter) -> None:
        failed, sought = counter.start("failing"), counter.start("sought", "--key", "a b", "--metadata", "team=shop")
        counter.work()
        for words in (
            ("--id", sought[:20]), ("--id", sought.replace("-", ""), "--roots"), ("--key-prefix", "a"),
            ("--where", "key='a b'"), ("--metadata", "team=shop"), ("--where", "meta=team=shop", "--status", "pending"),
            ("--where", "status=pending status=running workflow=sought since=1h"),
        ):  # fmt: skip
            assert ids(counter, *words) == [sought], words
        assert ids(counter, "--error", "BOOM", "--ended-since", "1h") == [failed]
        assert ids(counter, "--where", "ended_until=1h") == ids(counter, "--version", "7") == []

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--metadata", "nothing"), "name=value"),
            (("--id", "order-1"), "order-1"),
            (("--error", ""), "it is empty"),
            (("--version", "-1"), "-1"),
            (("--status", "exploded"), "exploded"),
            (("--limit", "0"), "0"),
            (("--since", "yesterday"), "neither so long ago"),
            (("--parent", "x"), "not a run id"),
            (("--where", "status"), "write name=value"),
            (("--where", "limit=3"), "write name=value"),
            (("--where", "colour=red"), "there is no such parameter"),
            (("--where", "queue='open"), "cannot be read"),
        ],
    )
    def test_a_condition_that_is_none_is_exit_code_2(self, counter: Counter, words: tuple[str, ...], says: str) -> None:
        done = counter.call("list", *words)
        assert (done.exit_code, says in done.stderr, done.stdout) == (2, True, ""), done.stderr

    def test_runs_are_counted_and_grouped(self, counter: Counter) -> None:
        for number in range(3):
            counter.start("counted", "--queue", f"q{number % 2}")
        for words, printed in (((), "3"), (("--cap", "2"), "2+"), (("--cap", "3"), "3"), (("--until", "1h"), "0")):
            assert counter.call("count", "--workflow", "counted", *words).stdout == f"{printed}\n"
        assert counter.answer("count", "--status", "blocked") == {"n": 0, "capped": False}
        groups = counter.answer("aggregate", "--by", "queue")["groups"]
        assert groups == [{"value": "q0", "count": 2}, {"value": "q1", "count": 1}]
        assert "newest 1 runs" in counter.call("aggregate", "--cap", "1").stderr

    def test_an_answer_without_ids_refuses_to_print_them(self, counter: Counter) -> None:
        assert counter.call("count", "-o", "id").exit_code == 2

    def test_brackets_in_what_people_wrote_are_shown_as_they_are(self, counter: Counter) -> None:
        run_id = counter.start("greeting", '"[/etc/shop] :smile: list[int]"', "--key", "k[bold]1")
        counter.work()
        assert "k[bold]1" in counter.call("list", "--key-prefix", "k[").stdout
        for command in ("show", "history"):
            assert "Hello, [/etc/shop] :smile: list[int]!" in counter.call(command, run_id).stdout

    def test_control_characters_of_other_people_do_not_reach_the_terminal(self, counter: Counter) -> None:
        run_id = counter.start("x", "--key", "a\x1b]52;c;cm0=\x07\nb", "--metadata", "note=\x1b[2J")
        for words in (
            ("list",),
            ("show", run_id),
            ("cancel", "--where", "workflow=x"),
            ("tail", "--after", "0", "--limit", "1"),
        ):
            shown = counter.call(*words).output
            assert not set(shown) & {"\x1b", "\x07"}, words
        assert "a\\x1b]52;c;cm0=\\x07\\nb" in counter.call("list").stdout
        assert len(counter.call("list").stdout.splitlines()) == 2


class TestOneRun:
    def test_a_tree_has_all_that_belong_to_it(self, counter: Counter) -> None:
        root = counter.start("fanned", "2", "1")
        counter.work()
        nodes = counter.answer("tree", root)["nodes"]
        assert [(node["depth"], node["children"]["n"]) for node in nodes] == [(0, 2), (1, 0), (1, 0)]
        lines = counter.call("tree", root).stdout.splitlines()
        assert [node["run"]["id"] in line for node, line in zip(nodes, lines, strict=True)] == [True] * 3

    def test_a_history_is_shown_by_entries_by_rows_and_as_json_with_whole_values(self, counter: Counter) -> None:
        long = "x" * 5_000
        run_id = counter.start("greeting", json.dumps(long))
        counter.work()
        entries = counter.answer("history", run_id)["entries"]
        assert [(entry["kind"], entry["name"], entry["state"]) for entry in entries] == [
            ("started", "greeting", "answered"),
            ("step", "greet", "answered"),
        ]
        assert entries[1]["value"]["cut"] is True
        assert counter.call("history", run_id, "-o", "id").stdout == "1\n"
        assert counter.answer("history", run_id, "--view", "full")["rows"][0]["kind"] == "started"
        assert counter.answer("history", run_id, "--view", "json")[1]["value"] == {"text": f"Hello, {long}!"}
        wrong = counter.call("history", run_id, "--generation", "9")
        assert (wrong.exit_code, "generations 1 to 1" in wrong.stderr) == (2, True)
        assert counter.call("history", run_id, "-f", "--page", "2").exit_code == 2
        assert "runnerq why ID" in counter.call("history", counter.start()).stderr

    def test_a_result_is_the_value_itself_or_the_answer_of_the_api(self, counter: Counter) -> None:
        done, failed, open_ = counter.start("greeting", '"Ada"'), counter.start("failing"), counter.start()
        counter.work()
        assert json.loads(counter.call("result", done).stdout) == {"text": "Hello, Ada!"}
        told = counter.answer("result", done)
        assert (told["status"], told["ended"], json.loads(told["result"]["text"])) == (
            "completed", True, {"text": "Hello, Ada!"},
        )  # fmt: skip
        wrong = counter.call("result", failed)
        assert (wrong.exit_code, wrong.stdout) == (1, "")
        assert "ended as dead_letter: ValueError: boom" in wrong.stderr
        wrong = counter.call("result", failed, "-o", "json")
        assert (wrong.exit_code, json.loads(wrong.stdout)["error"]["message"]) == (1, "boom")
        not_yet = counter.call("result", open_)
        assert (not_yet.exit_code, not_yet.stdout, "add --wait" in not_yet.stderr) == (124, "", True)
        assert counter.call("result", open_, "--wait=10ms", "-o", "jsonl").exit_code == 124

    def test_a_run_is_followed_until_it_ends(self, counter: Counter) -> None:
        done, failed = counter.start("greeting", '"Ada"'), counter.start("failing")
        counter.work()
        lines = counter.call("watch", done).stdout.splitlines()
        assert ["step" in line for line in lines] == [False, True, False]
        assert "completed" in lines[-1]
        seen = [json.loads(line) for line in counter.call("watch", done, "-o", "json").stdout.splitlines()]
        times = [datetime.fromisoformat(each["at"] if "at" in each else each["entry"]["answered_at"]) for each in seen]
        assert times == sorted(times)
        watched_ = counter.call("watch", failed, "-o", "json")
        assert (watched_.exit_code, json.loads(watched_.stdout.splitlines()[-1])["run"]["status"]) == (1, "dead_letter")
        entries = [
            json.loads(line) for line in counter.call("history", failed, "-f", "-o", "jsonl").stdout.splitlines()
        ]
        assert entries == counter.answer("history", failed)["entries"]

    async def test_what_changes_of_a_run_is_seen_as_it_changes(self, counter: Counter) -> None:
        async with (
            counter.client() as client,
            Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests") as worker,
        ):
            run = await client.start("waiting")
            await run.reached(Status.WAITING)
            seen = []
            async for each in watched(context(client), run.id):
                seen.append(each)
                if isinstance(each, EntrySeen) and each.entry.kind == "signal" and each.entry.state == "asked":
                    await run.send("go", 7)
            await worker.idle()
        states = [each.entry.state for each in seen if isinstance(each, EntrySeen) and each.entry.kind == "signal"]
        assert states == ["asked", "answered"]
        runs = [each for each in seen if isinstance(each, RunSeen)]
        assert (runs[0].run.status, runs[-1].run.status) == (Status.WAITING, Status.COMPLETED)

    async def test_a_run_is_shown_with_the_time_since_when_it_stands_so(self, counter: Counter) -> None:
        clock = ManualClock()
        counter.storage = MemoryStorage(clock)
        async with counter.client() as client:
            run = await client.start("mistaken")
            clock.advance(60)
            async with Worker(client, workflows=WORKFLOWS, activities=ACTIVITIES, build="tests"):
                await run.reached(Status.BLOCKED)
            block = await counter.storage.block(run.id)
            clock.advance(60)
            async with aclosing(watched(context(client), run.id)) as news:
                shown = await anext(seen async for seen in news if isinstance(seen, RunSeen))
        assert block is not None
        assert (shown.run.status, shown.at) == (Status.BLOCKED, block.at)


def test_what_happens_is_followed_from_a_cursor_on(counter: Counter) -> None:
    first = counter.start()
    [event] = [
        json.loads(line)
        for line in counter.call("tail", "--after", "0", "--limit", "1", "-o", "json").stdout.splitlines()
    ]
    assert (event["kind"], event["run_id"]) == ("started", first)
    counter.call("cancel", first)
    line = counter.call("tail", "--after", event["cursor"], "--limit", "1").stdout
    assert line.split()[1:3] == ["cancelled", first]
    refused = counter.call("tail", "--after", "yesterday", "--limit", "1")
    assert (refused.exit_code, "cursor" in refused.stderr) == (2, True)
