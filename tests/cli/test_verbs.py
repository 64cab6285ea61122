"""What is done to one run: started, sent to, cancelled, retried, forked, put off, deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runnerq.ids import new_run_id
from tests.cli.counter import Counter


class TestStart:
    def test_the_id_alone_is_printed_so_that_a_shell_can_keep_it(self, counter: Counter) -> None:
        started = counter.call("start", "nobody_serves_this", "1", "[2]")
        run_id = started.stdout.strip()
        shown = counter.answer("show", run_id)["run"]
        assert (shown["id"], shown["workflow"], shown["status"]) == (run_id, "nobody_serves_this", "pending")
        assert "No worker has registered 'nobody_serves_this'" in started.stderr
        assert "did you mean" not in started.stderr

    def test_a_name_that_looks_like_one_that_is_known_is_told_which(self, counter: Counter) -> None:
        counter.work()
        assert "did you mean 'greeting'" in counter.call("start", "greting", '"Ada"').stderr

    def test_arguments_are_given_by_place_and_by_name_as_text_or_json(self, counter: Counter) -> None:
        run_id = counter.start("x", "1", "-P", "name=Ada=1", "-P", "tags:=[1, 2]", "-P", "note=")
        arguments = counter.answer("export", run_id)["arguments"]
        assert arguments == {"args": [1], "kwargs": {"name": "Ada=1", "tags": [1, 2], "note": ""}}

    def test_a_key_makes_one_run_and_what_a_taken_one_means_is_said_with_it(self, counter: Counter) -> None:
        first = counter.answer("start", "keyed", "--key", "order-1")
        again = counter.call("start", "keyed", "--key", "order-1")
        assert (first["created"], again.stdout.strip()) == (True, first["run_id"])
        assert "was there before" in again.stderr
        refused = counter.call("start", "keyed", "--key", "order-1", "--on-duplicate", "no_reuse")
        assert (refused.exit_code, first["run_id"] in refused.stderr) == (4, True)
        assert counter.answer("start", "keyed", "--key", "order-1", "--on-duplicate", "allow_reuse")["created"]

    def test_options_are_those_of_the_api(self, counter: Counter) -> None:
        run_id = counter.start("--at", "2100-01-01", "--priority", "high", "--queue", "slow", "--metadata", "team=shop",
                               "--limit", "customer", "--limit-key", "7")  # fmt: skip
        shown = counter.answer("show", run_id)
        assert datetime.fromisoformat(shown["run"]["due_at"]) == datetime(2100, 1, 1, tzinfo=UTC)
        assert (shown["run"]["priority"], shown["run"]["queue"], shown["metadata"]) == (
            "high", "slow", [["team", "shop"]],
        )  # fmt: skip
        assert shown["limit"] == {"scope": "customer", "key": "7"}

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("x", "{bad"), "is not JSON"),
            (("x", "@/no/such/file"), "cannot be read"),
            (("x", "NaN"), "cannot be stored"),
            (("x", '"\\ud800"'), "cannot be stored"),
            (("x", '"\udcff"'), "is no text in UTF-8"),  # as Python has bytes that are none
            (("x", "[" * 5_000 + "]" * 5_000), "nested deeper than"),
            (("x", "-P", "a:=" + "[" * 5_000 + "]" * 5_000), "nested deeper than"),
            (("x", "9" * 5_000), "is not JSON"),
            (("x", "--key", ""), "--key is empty"),
            (("x", "--on-duplicate", "allow_reuse"), "give --key as well"),
            (("x", "--wait", "[1]"), "put --wait last"),
            (("x", "-P", "nothing"), "neither NAME=TEXT nor NAME:=JSON"),
            (("x", "-P", "n:=[1"), "is not JSON"),
            (("x", "-P", "n=1", "-P", "n=2"), "more than once"),
            (("x", "--limit-key", "7"), "--limit-key is of a --limit"),
            (("x", "--delay", "soon"), "not a duration"),
        ],
    )
    def test_what_cannot_be_started_is_exit_code_2(
        self, counter: Counter, arguments: tuple[str, ...], says: str
    ) -> None:
        done = counter.call("start", *arguments)
        assert (done.exit_code, says in done.stderr, done.stdout) == (2, True, ""), done.stderr


class TestSend:
    def test_a_signal_that_counted_before_says_so(self, counter: Counter) -> None:
        run_id = counter.start()
        assert "Sent 'go'" in counter.call("send", run_id, "go", "1", "--dedup", "d").stderr
        assert counter.answer("signal", run_id, "go", "1", "--dedup", "d")["changed"] is False

    def test_a_run_is_named_by_its_key_and_its_workflow(self, counter: Counter) -> None:
        run_id = counter.start("keyed", "--key", "order-1")
        sent = counter.answer("send", "--key", "order-1", "--workflow", "keyed", "go", '{"n": 1}')
        assert (sent["changed"], sent["run_id"]) == (True, run_id)
        unknown = counter.call("send", "--key", "order-2", "--workflow", "keyed", "go")
        assert (unknown.exit_code, "order-2" in unknown.stderr) == (3, True)

    @pytest.mark.parametrize("words", [("only-one",), ("a", "b", "c", "d"), ("--key", "k", "go")])
    def test_what_is_no_signal_is_exit_code_2(self, counter: Counter, words: tuple[str, ...]) -> None:
        assert counter.call("send", *words).exit_code == 2

    def test_a_run_that_has_ended_takes_none(self, counter: Counter) -> None:
        run_id = counter.start()
        counter.call("cancel", run_id, "--reason", "no more")
        assert counter.call("send", run_id, "go").exit_code == 4


class TestChanging:
    def test_each_verb_answers_whether_it_changed_anything(self, counter: Counter) -> None:
        delayed = counter.start("--delay", "1h")
        for verb, again in (
            (("run-now", delayed), False),
            (("reschedule", delayed, "2100-01-01"), False),
            (("priority", delayed, "low"), False),
            (("cancel", delayed), False),
            (("terminate", delayed), False),
        ):
            first = counter.answer(*verb)
            assert (first["changed"], first["run_id"]) == (verb[0] != "terminate", delayed), verb
            assert counter.answer(*verb)["changed"] is again, verb
        assert counter.answer("delete", delayed)["changed"] is True
        assert counter.call("show", delayed).exit_code == 3

    def test_a_pending_run_is_put_off_by_a_duration_or_to_a_time(self, counter: Counter) -> None:
        run_id = counter.start()
        assert counter.call("reschedule", run_id, "2h").exit_code == 0
        due = datetime.fromisoformat(counter.answer("show", run_id)["run"]["due_at"])
        assert timedelta(hours=1) < due - datetime.now(UTC) <= timedelta(hours=2)
        assert "2100-01-01 00:00:00Z" in counter.call("reschedule", run_id, "2100-01-01").stderr
        assert "Nothing changed" in counter.call("reschedule", run_id, "2100-01-01T01:00+01:00").stderr

    def test_a_failed_run_is_retried_and_a_completed_one_is_not(self, counter: Counter) -> None:
        failed, done = counter.start("failing"), counter.start("greeting", '"Ada"')
        counter.work()
        assert "It goes on" in counter.call("retry", failed).stderr
        counter.work()
        entries = counter.answer("history", failed)["entries"]
        assert [entry["kind"] for entry in entries].count("reopened") == 1
        refused = counter.call("retry", done)
        assert (refused.exit_code, "retry does not apply" in refused.stderr) == (4, True)

    def test_a_fork_is_a_run_of_its_own_from_an_entry_on(self, counter: Counter) -> None:
        run_id = counter.start("greeting", '"Ada"')
        counter.work()
        forked = counter.call("fork", run_id, "--from-entry", "1").stdout.strip()
        counter.work()
        shown = counter.answer("show", forked)
        assert (shown["run"]["status"], shown["forked_from"]["id"]) == ("completed", run_id)
        unknown = counter.call("fork", run_id, "--from-entry", "99")
        assert (unknown.exit_code, "99" in unknown.stderr) == (2, True)

    def test_what_is_open_is_not_deleted(self, counter: Counter) -> None:
        refused = counter.call("delete", counter.start())
        assert (refused.exit_code, "cancel or terminate it first" in refused.stderr) == (4, True)

    def test_a_time_that_no_calendar_has_is_refused_in_a_line(self, counter: Counter) -> None:
        refused = counter.call("reschedule", counter.start(), "9999999d")
        assert (refused.exit_code, "too far off" in refused.stderr) == (2, True)

    def test_who_did_it_and_why_is_in_the_audit(self, counter: Counter) -> None:
        run_id = counter.start()
        counter.call("priority", run_id, "high", "--reason", "the boss waits")
        [row] = [each for each in counter.answer("audit", "--run", run_id)["items"] if each["action"] == "priority"]
        assert (row["reason"], row["outcome"]) == ("the boss waits", "done")


@pytest.mark.parametrize(
    "words",
    [
        ("show",), ("history",), ("tree",), ("why",), ("watch",), ("result",), ("cancel",), ("terminate",), ("retry",),
        ("run-now",), ("delete",), ("send", "go"), ("reschedule", "1h"), ("priority", "low"),
        ("fork", "--from-entry", "1"), ("dead", "redrive"),
    ],
)  # fmt: skip
def test_a_run_that_is_not_there_is_exit_code_3_in_one_line(counter: Counter, words: tuple[str, ...]) -> None:
    ends = 2 if words[0] == "dead" else 1
    done = counter.call(*words[:ends], new_run_id(), *words[ends:])
    assert (done.exit_code, done.stderr.count("\n"), done.stdout) == (3, 1, ""), done.stderr
    assert done.stderr.startswith("Error: there is no run")
