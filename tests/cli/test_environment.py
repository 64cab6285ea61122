"""Every option has a twin in the environment; colours are for a terminal alone; each error has its exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter as Counts
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import runnerq
from runnerq.cli import main
from runnerq.cli.environment import PortOption
from runnerq.cli.exits import EXIT_CODES, exit_code
from runnerq.cli.rendering import print_cells, print_sheet
from runnerq.cli.sheets import Branch, Styled, fields
from runnerq.console.access import Forbidden
from runnerq.console.models.filters import BadFields
from runnerq.console.models.paging import BadCursor
from runnerq.errors import (
    ConfigurationError,
    EncodingError,
    KeyTaken,
    ResultTimeout,
    RunCancelled,
    RunFinished,
    RunnerQError,
    RunNotFound,
    ScheduleNotFound,
    SchemaError,
    StorageUnavailable,
    UsageError,
    WrongState,
)
from tests.cli.conftest import ROOT
from tests.cli.counter import Counter

QUOTED = re.compile(r'"(RUNNERQ_[A-Z_]+)"')


def options(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Option]]:
    """Every option there is, with the beginning that its twin has in the environment."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from options(below, (*path, name))
    prefix = "_".join(("RUNNERQ", *path)).replace("-", "_").upper()
    yield from ((prefix, each) for each in command.params if isinstance(each, click.Option))


def test_an_options_twin_is_named_as_the_option_is() -> None:
    for prefix, option in options(main):
        flags = {flag.lstrip("-").replace("-", "_") for flag in (*option.opts, *option.secondary_opts)}
        told = f"{prefix}: {option.opts} is {option.name!r} in the code: name it so, or give it an envvar="
        assert option.envvar is not None or option.name in flags, told


def twins() -> Iterator[tuple[str, click.Option]]:
    """Every twin that an option has by its name."""
    for prefix, option in options(main):
        if option.allow_from_autoenv and option.envvar is None:
            yield f"{prefix}_{option.name}".upper(), option


def test_what_is_asked_each_time_or_said_by_a_keeper_or_has_another_twin_has_none_by_its_name() -> None:
    without = {option.opts[-1] for _, option in options(main) if not option.allow_from_autoenv}
    assert without == {"--yes", "--kept", "--kept-by", "--dsn", "--direct-dsn", "--pooled"}
    assert {option.opts[-1] for _, option in twins() if option.hidden} == set()


# What Kubernetes tells every process of a namespace about a service, such as one that is named runnerq-console.
OF_A_SERVICE = re.compile(r"_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT(_\d+_(TCP|UDP|SCTP)|$)")


def test_no_option_is_taken_from_what_kubernetes_says_of_a_service() -> None:
    with_port = [option for name, option in twins() if OF_A_SERVICE.search(name)]
    with_port += [option for _, option in options(main) if OF_A_SERVICE.search(str(option.envvar))]
    assert with_port
    assert [option.opts for option in with_port if not isinstance(option, PortOption)] == []


@pytest.mark.parametrize(
    ("variable", "value", "port"),
    [("RUNNERQ_PORT", "tcp://10.0.0.3:8787", 1), ("RUNNERQ_PORT", "udp://[::1]:1", 1), ("RUNNERQ_PORT", "2", 2)],
)
def test_a_port_is_passed_over_where_it_is_the_address_of_a_service(variable: str, value: str, port: int) -> None:
    @click.command(context_settings={"auto_envvar_prefix": "RUNNERQ"})
    @click.option("--port", cls=PortOption, type=int, default=1)
    def command(port: int) -> None:
        click.echo(port)

    assert CliRunner().invoke(command, env={variable: value}).output == f"{port}\n"


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (("list",), "RUNNERQ_LIST_LIMIT"),
        (("console",), "RUNNERQ_CONSOLE_PORT"),
        (("queue", "list"), "RUNNERQ_OUTPUT"),
        (("worker", "shop"), "RUNNERQ_WORKER_HTTP"),
        (("dev", "shop"), "RUNNERQ_DEV_POLL_INTERVAL"),
    ],
)
def test_what_cannot_be_read_from_a_twin_is_told_with_its_name(
    counter: Counter, words: tuple[str, ...], variable: str
) -> None:
    done = counter.call(*words, environment={variable: "what"})
    assert (done.exit_code, f"(it stands in ${variable})" in " ".join(done.stderr.split())) == (2, True), done.stderr


def test_a_variable_says_no_yes(counter: Counter) -> None:
    counter.start()
    done = counter.call("cancel", "--where", "status=pending", environment={"RUNNERQ_CANCEL_YES": "1"})
    assert (done.exit_code, "say --yes" in done.stderr) == (2, True)


def test_no_two_options_have_the_same_twin_and_none_that_of_another_setting() -> None:
    own = Counts(name for name, _ in twins())
    assert [name for name, count in own.items() if count > 1] == []
    assert set(own) & _settings() == set()


def _settings() -> set[str]:
    """The variables that the code itself names."""
    return {
        name
        for path in Path(runnerq.__file__).parent.rglob("*.py")
        for name in QUOTED.findall(path.read_text(encoding="utf-8"))
    }


def test_a_twin_counts_where_the_option_is_not_given(counter: Counter) -> None:
    run_id = counter.start()
    counter.start("another")
    twins = {"RUNNERQ_LIST_WORKFLOW": "nobody_serves_this", "RUNNERQ_OUTPUT": "id"}
    assert counter.call("list", environment=twins).stdout.split() == [run_id]
    assert counter.call("list", "--workflow", "none", environment=twins).stdout == ""


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_a_terminal_has_colours_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_color: str, coloured: bool
) -> None:
    for name, value in (("NO_COLOR", no_color), ("TERM", "xterm-256color"), ("FORCE_COLOR", "1")):
        monkeypatch.setenv(name, value)
    failed = Styled("failed", "red")
    print_cells([failed, "boom"])
    print_sheet(fields([("status", failed)]))
    print_sheet(Branch((failed,)))
    lines = capsys.readouterr().out.splitlines()
    assert ["\x1b[31m" in line for line in lines] == [coloured] * 3


def test_no_command_but_the_console_needs_its_extra() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("litestar", "jinja2", "uvicorn", "prometheus_client", "opentelemetry")))
from runnerq.cli import main
from tests.cli.test_environment import options
print(len(list(options(main))) > 100)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("True\n", "")


RUN = "01a22dca-59fe-77f3-94f5-98c935117b04"


def taken_port() -> ConfigurationError:
    error = ConfigurationError("http= cannot listen on 127.0.0.1:9000")
    error.__cause__ = OSError("Address already in use")
    return error


def refused_login() -> StorageUnavailable:
    class WrongPassword(Exception):
        sqlstate = "28P01"

    error = StorageUnavailable("Postgres says no")
    error.__cause__ = WrongPassword()
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunCancelled(RUN, None), 1),
        (taken_port(), 1),
        (StorageUnavailable("nobody answers"), 1),
        (ConfigurationError("no"), 2),
        (UsageError("no"), 2),
        (EncodingError("the input", "it is no JSON"), 2),
        (BadFields({"limit": "no"}), 2),
        (BadCursor(), 2),
        (RunNotFound(RUN), 3),
        (ScheduleNotFound("nightly"), 3),
        (RunFinished(RUN), 4),
        (KeyTaken("x", "k", RUN), 4),
        (WrongState(RUN, "completed", "retry"), 4),
        (Forbidden("ada", "cancel"), 5),
        (SchemaError("it is older"), 5),
        (refused_login(), 5),
        (ResultTimeout(RUN, "pending", 1.0), 124),
    ],
)
def test_an_error_has_the_exit_code_of_its_kind(error: RunnerQError, code: int) -> None:
    assert exit_code(error) == code


def test_no_kind_of_error_stands_behind_one_that_has_it_in_it() -> None:
    for place, (kind, _) in enumerate(EXIT_CODES):
        assert not any(issubclass(kind, before) for before, _ in EXIT_CODES[:place]), kind
