"""What other people wrote reaches a terminal without what moves its cursor, and on the line where it belongs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

import pytest
from click.shell_completion import ShellComplete

from runnerq.cli.completion import PROGRAM, VARIABLE
from runnerq.cli.dev.narrator import STYLES, Narrator
from runnerq.cli.main import main
from runnerq.cli.output import show_one
from runnerq.cli.shared import Given
from runnerq.cli.telling import LogFormatter, harmless, on_a_line, say
from tests.cli.counter import Counter

HARMFUL = "a\x1b[2J\x07\x9b2J\r\u202eb\u2028"
WRITTEN_OUT = "a\\x1b[2J\\x07\\x9b2J\\x0d\\u202eb\\u2028"


def test_what_moves_a_cursor_or_turns_a_line_around_is_written_out() -> None:
    assert harmless(f"{HARMFUL}\n\tü") == f"{WRITTEN_OUT}\n\tü"
    assert on_a_line(f"{HARMFUL}\n\tü") == f"{WRITTEN_OUT}\\n\\tü"


def test_a_key_adds_no_line_to_the_question_and_no_message_has_more_than_its_own(counter: Counter) -> None:
    counter.start("x", "--key", f"{HARMFUL}\n  01a2  forged  completed")
    said = counter.call("cancel", "--where", "workflow=x", typed="n\n").stderr
    assert [line for line in said.splitlines() if line.startswith("  01a2  forged")] == []
    assert f"{WRITTEN_OUT}\\n  01a2  forged" in said


def test_json_says_the_same_without_them(counter: Counter) -> None:
    counter.start("x", "--key", HARMFUL)
    for output in ("json", "jsonl"):
        shown = counter.call("list", "-o", output).stdout
        assert harmless(shown) == shown
        answer = json.loads(shown)
        [row] = answer["items"] if output == "json" else [answer]
        assert row["key"] == HARMFUL


@pytest.mark.parametrize(("terminal", "shown"), [(True, "a\\u202eb\\n"), (False, "a\u202eb\n")])
def test_a_name_is_as_it_is_for_a_program_and_harmless_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, shown: str
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    show_one("id", {}, name="a\u202eb\n", table=lambda: "")
    assert capsys.readouterr().out == f"{shown}\n"


@pytest.mark.parametrize("voice", sorted(STYLES))
def test_no_voice_of_dev_speaks_to_the_terminal_itself(capsys: pytest.CaptureFixture[str], voice: str) -> None:
    Narrator().say(voice, f"{HARMFUL}\nsecond")
    Narrator().voice(voice)(f"ERROR {HARMFUL}")
    first, second, logged, _ = capsys.readouterr().out.split("\n")
    assert first.endswith(f"  {WRITTEN_OUT}")
    assert second.strip() == "second"
    assert logged.endswith(f"  ERROR {WRITTEN_OUT}")


def test_what_is_logged_of_an_error_is_harmless_with_its_stack() -> None:
    record = logging.LogRecord("runnerq", logging.ERROR, "file", 1, "%s failed", (HARMFUL,), None)
    try:
        raise ValueError(HARMFUL)
    except ValueError:
        record.exc_info = sys.exc_info()
    told = LogFormatter("%(message)s").format(record)
    assert f"{WRITTEN_OUT} failed\nTraceback" in told
    assert told.endswith(f"ValueError: {WRITTEN_OUT}")


def test_what_stands_beside_a_completed_word_is_one_line(counter: Counter) -> None:
    """zsh reads lines in triples: a line more would be a word that is offered."""
    name = f"x\nplain\n$(touch it)\n{HARMFUL}"

    async def started() -> str:
        async with counter.client() as client:
            return (await client.start(name)).id

    run = asyncio.run(started())
    shell = ShellComplete(main, {"obj": Given(counter.client)}, PROGRAM, VARIABLE)
    [offered] = shell.get_completions(["show"], run[:8])
    assert offered.value == run
    assert str(offered.help).startswith(f"x\\nplain\\n$(touch it)\\n{WRITTEN_OUT} pending")


def test_what_nobody_reads_any_more_is_lost_and_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        say("stopping")
        say("all have stopped")
    # As it was closed, what was kept for it did not fail either.
