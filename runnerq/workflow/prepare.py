"""What a command needs before it is asked for: the digest of its arguments, and what is sent encoded.

Done for a whole composite before any of it is asked, so that a value that cannot be encoded is an error at the user's
line and leaves nothing half asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, assert_never

from runnerq.errors import EncodingError
from runnerq.serialization.codec import Codec
from runnerq.serialization.digest import digest
from runnerq.workflow.commands import AllSpec, ChildSpec, Command, SendSpec, SignalSpec, SleepSpec
from runnerq.workflow.types import check_answer_type

_MANY = 256


class Preparation:
    """Prepares the commands of one run. ``check_child`` raises for a child that could never be started."""

    def __init__(self, codec: Codec, run_id: str, check_child: Callable[[Command[Any]], None]) -> None:
        self._codec = codec
        self._run_id = run_id
        self._key = run_id.replace("-", "").encode()
        self._check_child = check_child
        self._good: set[Any] = set()

    def prepare(self, command: Command[Any]) -> None:
        """Fill in ``digest`` and ``payload``, of members too.

        Raises EncodingError, naming the command and the run; UsageError for a function or type that could never answer.
        """
        if command.kind == "step":
            self._check_step(command)
            arguments = command.args
        else:
            arguments = self._prepare_other(command)
        try:
            command.digest = digest(arguments, command.kwargs, self._key)
        except EncodingError as error:
            what = f"an argument of {command!r} of run {self._run_id}"
            raise EncodingError(what, error.reason, error.path) from error.__cause__
        for member in command.members:
            if isinstance(member, Command):
                self.prepare(member)

    def _check_step(self, command: Command[Any]) -> None:
        # A workflow calls few functions often.
        try:
            if command.fn in self._good:
                return
            if len(self._good) >= _MANY:
                self._good.clear()
            check_answer_type(command)
            self._good.add(command.fn)
        except TypeError:  # it cannot be hashed
            check_answer_type(command)

    def _prepare_other(self, command: Command[Any]) -> tuple[Any, ...]:
        """Check what the command is given, encode what is sent, and answer what its digest is made of."""
        match command.spec:
            case SleepSpec(seconds, until):
                return seconds, until
            case SignalSpec(_, timeout, default, has_default, latest):
                check_answer_type(command)
                return timeout, has_default, default, latest
            case SendSpec(to, value):
                if command.kind == "send":
                    what = f"the signal {command.name!r} from run {self._run_id}"
                    command.payload = self._codec.encode(value, what)
                return to, value
            case ChildSpec(None):
                self._check_child(command)
                check_answer_type(command)
                what = f"the input of {command!r} of run {self._run_id}"
                command.payload = self._codec.encode_call(command.args, command.kwargs, what)
                return command.args
            case ChildSpec(child_id):
                return (child_id,)
            case AllSpec(as_list, limit, return_errors):
                return len(command.members), as_list, limit, return_errors
            case None:
                if command.kind == "publish":
                    command.payload = self._codec.encode(command.kwargs, f"what run {self._run_id} publishes")
                    return ()
                return (len(command.members),)
            case _:
                assert_never(command.spec)


def published(command: Command[Any]) -> Iterator[Command[Any]]:
    """The publishes among a command and its members."""
    if command.kind == "publish":
        yield command
    for member in command.members:
        if isinstance(member, Command):
            yield from published(member)
