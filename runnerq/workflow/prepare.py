"""What a command needs before it is asked for: the digest of its arguments, and a child's encoded input.

Done for a whole composite before any of it is asked, so that a value that cannot be encoded is an error at the user's
line and leaves nothing half asked.
"""

from __future__ import annotations

from typing import Any

from runnerq.errors import DepthExceeded
from runnerq.serialization.codec import Codec
from runnerq.serialization.digest import digest
from runnerq.workflow.commands import AllSpec, Command, SendSpec, SignalSpec, SleepSpec


def prepare(command: Command[Any], codec: Codec, key: bytes, run_id: str, may_have_children: bool) -> None:
    """Fill in ``digest`` and ``payload``. Raises EncodingError, naming the command and the run, or DepthExceeded."""
    kind = command.kind
    if kind == "step":
        command.digest = digest(command.args, command.kwargs, key)
        return
    if kind in ("child", "spawn"):
        if command.fn is not None:
            if not may_have_children:
                raise DepthExceeded(run_id, command.name)
            command.payload = codec.encode_call(command.args, command.kwargs, f"the input of {command!r} of run {run_id}")
        command.digest = digest(command.args, command.kwargs, key)
        return
    spec = command.spec
    if isinstance(spec, SendSpec):
        if kind == "send":
            command.payload = codec.encode(spec.value, f"the signal {command.name!r} from run {run_id}")
        command.digest = digest((spec.run_id, spec.value), {}, key)
    elif isinstance(spec, SleepSpec):
        command.digest = digest((spec.seconds, spec.until), {}, key)
    elif isinstance(spec, SignalSpec):
        command.digest = digest((spec.timeout, spec.has_default, spec.default, spec.latest), {}, key)
    elif isinstance(spec, AllSpec):
        shape = (len(command.members), spec.as_list, spec.limit, spec.return_errors)
        command.digest = digest(shape, {}, key)
    elif kind == "race":
        command.digest = digest((len(command.members),), {}, key)
    else:
        command.digest = digest((), command.kwargs, key)
    for member in command.members:
        if isinstance(member, Command):
            prepare(member, codec, key, run_id, may_have_children)
