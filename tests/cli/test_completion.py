"""What a shell is offered when Tab is pressed, and the command line inside of another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from litestar.cli.main import litestar_group

from runnerq.cli.completion import PROGRAM, VARIABLE
from runnerq.cli.main import main
from runnerq.cli.shared import Given
from tests.cli.counter import Counter

NOBODY = "postgresql://postgres:secret@127.0.0.1:1/nowhere"


def offered(counter: Counter, *words: str) -> list[str]:
    """What completes the last word."""
    shell = ShellComplete(main, {"obj": Given(counter.client)}, PROGRAM, VARIABLE)
    return [str(item.value) for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_commands_and_options_are_offered_by_their_beginning(counter: Counter) -> None:
    assert offered(counter, "re") == ["replay", "result", "retry", "reschedule"]
    assert offered(counter, "queue", "p") == ["pause"]
    assert offered(counter, "list", "--sta") == ["--status"]
    assert offered(counter, "list", "--output", "js") == ["json", "jsonl"]


def test_runs_workflows_and_queues_are_offered_as_the_database_has_them(counter: Counter) -> None:
    run = counter.start("--queue", "mails")
    counter.work()
    for words in (["show"], ["cancel"], ["send"], ["tree"], ["fork"], ["audit", "--run"]):
        assert offered(counter, *words, run[:8]) == [run]
        assert offered(counter, *words, "ffff") == []
    for words in (["start"], ["list", "--workflow"], ["worker", "shop", "--only"]):
        assert sorted(offered(counter, *words, "gree")) == ["greet", "greeting"]
    for words in (["queue", "pause"], ["list", "--queue"], ["start", "greeting", "--queue"]):
        assert offered(counter, *words, "ma") == ["mails"]


def test_what_a_run_waits_for_is_offered_behind_its_name(counter: Counter) -> None:
    run = counter.start("waiting", "--key", "order-42")
    counter.work()
    for words in (["send", run], ["signal", run[:8]], ["send", "--key", "order-42", "--workflow", "waiting"]):
        assert offered(counter, *words, "g") == ["go"]
        assert offered(counter, *words, "go", "") == []


def test_modules_of_the_folder_are_offered_a_part_at_a_time(
    counter: Counter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    for file in ("shop/__init__.py", "shop/workflows.py", "shop.test.py", "shopping.py"):
        (tmp_path / file).write_text("")
    for words in (["worker"], ["dev"], ["check"], ["replay", "--module"]):
        assert offered(counter, *words, "sho") == ["shop", "shopping"]
        assert offered(counter, *words, "shop.w") == ["shop.workflows"]


def test_a_name_that_a_shell_would_not_take_as_it_is_is_not_offered(counter: Counter) -> None:
    counter.start("--queue", "mails; rm -rf")
    assert offered(counter, "list", "--queue", "") == []


def test_where_nothing_can_be_looked_up_nothing_is_offered_and_nothing_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = ShellComplete(main, {}, PROGRAM, VARIABLE)
    assert shell.get_completions(["show", "--dsn", NOBODY], "") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_this_command(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert (done.exit_code, f"{VARIABLE}={shell}_complete" in done.stdout) == (0, True), done.output


def test_it_is_a_command_of_litestar_with_the_same_answers_and_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # litestar looks for an app in what is below
    call = CliRunner().invoke
    shown = call(litestar_group, ["runnerq", "--help"])
    assert (shown.exit_code, "  worker  " in shown.stdout) == (0, True), shown.output
    done = call(litestar_group, ["runnerq", "check", "no.such.module"])
    assert (done.exit_code, done.stderr.startswith("Error: there is no module 'no.such.module'")) == (2, True)
    # What litestar gives to commands of its own, by the names of their parameters, is not given to these.
    assert call(litestar_group, ["runnerq", "completion", "zsh"]).exit_code == 0
