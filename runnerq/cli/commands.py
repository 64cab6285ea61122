"""The group of all commands: each is imported when it is asked for, so that ``--help`` and completion are fast.

Rules
- Nothing here imports a command, the client or msgspec: what the help says of a command stands beside where it is.
- An error of the library is a line that says what to do, and an exit code; never a stack trace.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import groupby
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from runnerq.cli.environment import with_its_variable
from runnerq.cli.streams import FULL, drop_stdout, make_usable
from runnerq.cli.telling import say
from runnerq.errors import RunnerQError

INTERRUPTED = 130
WHOLE = 1000
"""Characters of a sentence that is not to be cut."""


class Refused(RunnerQError):
    """An error of the command line itself, with its exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Place(NamedTuple):
    """Where a command is defined, as ``module:attribute`` below this package, and what the help says of it."""

    section: str
    where: str
    help: str

    def command(self) -> click.Command:
        """The command, imported."""
        module, _, attribute = self.where.partition(":")
        found = getattr(importlib.import_module(f"{__package__}.{module}"), attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{self.where} is {found!r}: expected a command")
        return found


class Placed(MutableMapping[str, click.Command]):
    """The commands of a table by name, as click's groups have theirs; one is imported when it is looked up."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> click.Command:
        return self._places[name].command()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError(f"{name} cannot be put here: commands stand in the table")

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"{name} cannot be taken away: commands stand in the table")


class Noun(click.Group):
    """What stands under a noun: its help says the first sentence of each whole."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(WHOLE)) for name in sorted(self.commands)]
            )


class Commands(click.Group):
    """The commands of a table, listed by its sections; the library's errors become a line and an exit code.

    ``apart()`` is the same for a group of somebody else's that changes all commands of those below it, as litestar's
    does: it has none to be changed, which would import all of them.
    """

    def __init__(self, places: Mapping[str, Place], **settings: Any) -> None:
        super().__init__(commands=Placed(places), **settings)
        self.places = places
        self._settings = settings

    def apart(self) -> Commands:
        same = Commands(self.places, **self._settings)
        same.commands = {}
        return same

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        place = self.places.get(cmd_name)
        return None if place is None else place.command()

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as above
        return list(self.places)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        widest = max(map(len, self.places))
        for section, named in groupby(self.places.items(), key=lambda each: each[1].section):
            with formatter.section(section):
                formatter.write_dl([(name.ljust(widest), place.help) for name, place in named])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=place.help) for name, place in self.places.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for each in args:
            try:
                each.encode()
            except UnicodeEncodeError as error:
                # Nothing that is stored, and no message, can have it.
                raise click.UsageError(f"{each!r} is no text in UTF-8", ctx) from error
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        make_usable()
        try:
            return super().invoke(ctx)
        except Refused as error:
            say(f"Error: {error}")
            ctx.exit(error.exit_code)
        except RunnerQError as error:
            from runnerq.cli.exits import exit_code  # noqa: PLC0415 - where it is needed: it brings the console's errors

            say(f"Error: {' '.join(str(error).split())}")
            ctx.exit(exit_code(error))
        except click.BadParameter as error:
            raise with_its_variable(error) from error
        except OSError as error:
            if error.errno not in FULL:
                raise
            drop_stdout()
            say(f"Error: the answer cannot be written: {error.strerror}")
            ctx.exit(1)
        except KeyboardInterrupt:
            say("interrupted")
            ctx.exit(INTERRUPTED)
