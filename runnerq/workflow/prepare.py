"""What a command needs before it is asked for: the digest of its arguments, and what is sent encoded.

Rules
- It is done for a whole composite before any of it is asked, so that a value that cannot be encoded is an error at the
  user's line and leaves nothing half asked.
- What a function or channel takes is judged where the code comes for the first time, and never again: a signature may
  change while what was asked by the old one is on record. A refusal is on record as a patch's mark is, so that replay
  refuses the same; where none is, the call was asked for, or goes the way it went.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from runnerq.errors import ConfigurationError, DecodingError, EncodingError, UsageError
from runnerq.serialization.codec import Codec
from runnerq.serialization.digest import digest
from runnerq.workflow.commands import ATTEMPTED, AllSpec, ChildSpec, Command, SendSpec, SignalSpec, SleepSpec
from runnerq.workflow.identity import Identity
from runnerq.workflow.recorder import Recorder
from runnerq.workflow.tree import Branch
from runnerq.workflow.types import check_answer_type, check_arguments

_MANY = 256


class Preparation:
    """Prepares the commands of one run, and what it ends with: a result, or arguments of its next generation."""

    def __init__(self, codec: Codec, identity: Identity, recorder: Recorder) -> None:
        self._codec = codec
        self._recorder = recorder
        self._workflow = identity.info.workflow
        self._run_id = identity.info.id
        self._check_child = identity.check_child
        self._check_arguments = identity.check_arguments
        self._good: set[Any] = set()
        self._key = self._run_id.replace("-", "").encode()

    def result(self, value: Any) -> str:
        """The result as it is stored. Raises EncodingError, naming the run."""
        return self._codec.encode(value, f"the result of workflow {self._workflow!r}, run {self._run_id}")

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Arguments of the run's next generation as they are stored. Raises EncodingError or UsageError."""
        text = self._codec.encode_call(args, kwargs, f"the arguments that run {self._run_id} continues with")
        self._check_arguments(text)
        return text

    def prepare(self, command: Command[Any], branch: Branch) -> None:
        """Fill in ``digest`` and ``payload`` of what a branch asks for, of members too.

        Raises EncodingError, naming the command and the run; UsageError for a function or type that could never answer.
        """
        if command.kind in ATTEMPTED:
            self._check_call(command, branch)
            arguments = command.args
        else:
            arguments = self._prepare_other(command, branch)
        try:
            command.digest = digest(arguments, command.kwargs, self._key)
        except EncodingError as error:
            what = f"an argument of {command!r} of run {self._run_id}"
            raise EncodingError(what, error.reason, error.path) from error.__cause__
        for member in command.members:
            if isinstance(member, Command):
                self.prepare(member, branch)

    def _check_call(self, command: Command[Any], branch: Branch) -> None:
        # A workflow calls few functions often, each with as many arguments as ever.
        call: Any = (command.kind, command.fn, len(command.args), *command.kwargs)
        try:
            if call in self._good:
                return
        except TypeError:  # it cannot be hashed
            call = None
        check_answer_type(command)
        try:
            check_arguments(command)
        except UsageError:
            if self._refuses(command, branch):
                raise
            return
        if call is not None:
            if len(self._good) >= _MANY:
                self._good.clear()
            self._good.add(call)

    def _sendable(self, command: Command[Any], value: Any, type_: Any, branch: Branch) -> str:
        """A signal's payload. UsageError if the channel does not take it: whoever waits for it could only fail."""
        what = f"the signal {command.name!r} from run {self._run_id}"
        text = self._codec.encode(value, what)
        if type_ is not Any:
            try:
                self._codec.decode(text, type_, what)
            except (DecodingError, ConfigurationError) as error:
                if self._refuses(command, branch):
                    raise UsageError(str(error)) from error
        return text

    def _refuses(self, command: Command[Any], branch: Branch) -> bool:
        """Whether what does not fit is an error here: in replay only where it was one."""
        return self._recorder.patched(f"{command!r} refused", branch.place)

    def _prepare_other(self, command: Command[Any], branch: Branch) -> tuple[Any, ...]:
        """Check what the command is given, encode what is sent, and answer what its digest is made of."""
        match command.spec:
            case SleepSpec(seconds, until):
                return seconds, until
            case SignalSpec(_, timeout, default, has_default, latest):
                check_answer_type(command)
                return timeout, has_default, default, latest
            case SendSpec(to, value, type_):
                if command.kind == "send":
                    command.payload = self._sendable(command, value, type_, branch)
                return to, value
            case ChildSpec(None):
                self._check_child(command)
                self._check_call(command, branch)
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
