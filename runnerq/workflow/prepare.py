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


def prepare(
    command: Command[Any], codec: Codec, key: bytes, run_id: str, check_child: Callable[[Command[Any]], None]
) -> None:
    """Fill in ``digest`` and ``payload``, of members too.

    Raises EncodingError, naming the command and the run; UsageError for a function or type that could never answer, or
    what ``check_child`` raises.
    """
    arguments = command.args
    if command.kind == "step":
        check_answer_type(command)
    else:
        if command.spec == ChildSpec(None):
            check_child(command)
        arguments = _prepare_other(command, codec, run_id)
    try:
        command.digest = digest(arguments, command.kwargs, key)
    except EncodingError as error:
        what = f"an argument of {command!r} of run {run_id}"
        raise EncodingError(what, error.reason, error.path) from error.__cause__
    for member in command.members:
        if isinstance(member, Command):
            prepare(member, codec, key, run_id, check_child)


def published(command: Command[Any]) -> Iterator[Command[Any]]:
    """The publishes among a command and its members."""
    if command.kind == "publish":
        yield command
    for member in command.members:
        if isinstance(member, Command):
            yield from published(member)


def _prepare_other(command: Command[Any], codec: Codec, run_id: str) -> tuple[Any, ...]:
    """Check what the command is given, encode what is sent, and answer what its digest is made of."""
    match command.spec:
        case SleepSpec(seconds, until):
            return seconds, until
        case SignalSpec(_, timeout, default, has_default, latest):
            check_answer_type(command)
            return timeout, has_default, default, latest
        case SendSpec(to, value):
            if command.kind == "send":
                command.payload = codec.encode(value, f"the signal {command.name!r} from run {run_id}")
            return to, value
        case ChildSpec(None):
            check_answer_type(command)
            what = f"the input of {command!r} of run {run_id}"
            command.payload = codec.encode_call(command.args, command.kwargs, what)
            return command.args
        case ChildSpec(child_id):
            return (child_id,)
        case AllSpec(as_list, limit, return_errors):
            return len(command.members), as_list, limit, return_errors
        case None:
            if command.kind == "publish":
                command.payload = codec.encode(command.kwargs, f"what run {run_id} publishes")
                return ()
            return (len(command.members),)
        case _:
            assert_never(command.spec)
