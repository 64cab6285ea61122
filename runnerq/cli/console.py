"""``runnerq console``: the web console by itself."""

from __future__ import annotations

import logging
import os
import signal
from ipaddress import ip_address
from shlex import join

import click

from runnerq.cli.environment import PortOption
from runnerq.cli.leash import Leash, taken_from_stdin
from runnerq.cli.shared import Database, Refused, takes_database
from runnerq.cli.telling import log_to_stderr, say

MISSING = "the console needs litestar, jinja2 and uvicorn: pip install 'runnerq[console]'"
LONGEST_STOP = 10.0
"""Seconds that one that is kept has to end, pages that are open included."""
_ITS_OWN = frozenset({"litestar", "jinja2", "uvicorn"})


@click.command()
@click.option(
    "--host", envvar="RUNNERQ_CONSOLE_HOST", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port",
    cls=PortOption,
    envvar="RUNNERQ_CONSOLE_PORT",
    type=click.IntRange(0, 65535),
    default=8787,
    show_default=True,
    help="Port to listen on; 0 takes one that is free.",
)
@click.option(
    "--prefix", envvar="RUNNERQ_CONSOLE_PREFIX", default="/", show_default=True, help="Path to be found under."
)
@click.option("--read-only", is_flag=True, envvar="RUNNERQ_CONSOLE_READ_ONLY", help="Let nobody change anything.")
@click.option("--token-env", metavar="NAME", help="Ask for the token that is in this environment variable.")
@click.option("--insecure", is_flag=True, help="Let everybody do everything, from everywhere.")
@click.option("--open", "opens", is_flag=True, envvar="RUNNERQ_CONSOLE_OPEN", help="Open it in the browser.")
@click.option(
    "--kept",
    is_flag=True,
    hidden=True,
    allow_from_autoenv=False,
    help="Stop when stdin closes: so `runnerq dev` says it.",
)
@takes_database
def console(
    host: str,
    port: int,
    prefix: str,
    read_only: bool,
    token_env: str | None,
    insecure: bool,
    opens: bool,
    kept: bool,
    database: Database,
) -> None:
    """Serve the web console.

    Without --token-env it answers this machine alone, and listens on no other address. The database need not be there:
    the console says so, and goes on when it is.
    """
    try:
        from runnerq.console.access import ALL, Principal  # noqa: PLC0415 - litestar, for those who want it
        from runnerq.console.console import Console  # noqa: PLC0415 - as above
        from runnerq.console.web.auth import token_auth  # noqa: PLC0415 - as above
        from runnerq.console.web.serving import listen, serve  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _ITS_OWN:
            raise
        raise Refused(MISSING, 2) from error

    if token_env and insecure:
        raise click.UsageError("--token-env and --insecure exclude each other")
    if not token_env and not insecure and not _is_loopback(host):
        raise click.UsageError(
            f"--host {host} can be reached from elsewhere, and without a token anybody there could do everything: give "
            "--token-env NAME, or say --insecure"
        )
    base = "/" + prefix.strip("/")
    auth = token_auth(env=token_env) if token_env else None
    if kept:
        _stop_when_stdin_closes()
    shown = Console(
        database.client(migrate=False),
        auth=(lambda _: Principal("anybody", ALL)) if insecure else auth,
        read_only=read_only,
        base_path=base,
        command_options=_reached_by(database),
    )
    try:
        listening = listen(host, port)
    except OSError as error:
        raise Refused(f"cannot listen on {host}:{port}: {error.strerror or error}; --port takes another", 1) from error
    # `runnerq dev` says itself that this is for its developer alone.
    level = logging.ERROR if kept else logging.WARNING
    log_to_stderr(level, "%(asctime)s %(levelname)s %(name)s: %(message)s")
    address = f"http://{_in_url(host)}:{listening.getsockname()[1]}{base}"
    if insecure:
        say("INSECURE: whoever reaches this address sees every payload and can start, cancel and delete every run")
    say(f"console at {address}{f', the token is in ${token_env}' if token_env else ''}; Ctrl-C stops it")
    if opens:
        click.launch(address)
    serve(shown.app(base), listening)


def _reached_by(database: Database) -> str:
    """The options that lead another command to the same database, without what is secret."""
    from runnerq.persistence.postgres.greeting import without_secrets  # noqa: PLC0415 - asyncpg

    options = list[str]()
    if database.dsn:
        options += ["--dsn", without_secrets(database.dsn) or "DSN"]
    return join([*options, *(["--schema", database.schema] if database.schema != "runnerq" else [])])


def _stop_when_stdin_closes() -> None:
    Leash(taken_from_stdin(), LONGEST_STOP).closed.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _in_url(host: str) -> str:
    """As a browser on this machine has it."""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - what was asked for, put in words
        return "localhost"
    return f"[{host}]" if ":" in host else host
