"""What a spawn answers with: a started child, or a detached run, seen from the workflow that started it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from runnerq.errors import UsageError
from runnerq.workflow.commands import ChildSpec, Command, SendSpec, Signal, channel_name, channel_type
from runnerq.workflow.driver import Driver
from runnerq.workflow.options import DEFAULTS, CallOptions

T = TypeVar("T")


class ChildHandle:
    """A started child, seen from its parent; or a detached run, seen from the one that spawned it."""

    __slots__ = ("_detached", "_driver", "_fn", "_name", "_options", "id")

    def __init__(
        self,
        driver: Driver | None,
        child_id: str,
        name: str = "",
        fn: Callable[..., Any] | None = None,
        *,
        options: CallOptions = DEFAULTS,
        detached: bool = False,
    ) -> None:
        self.id = child_id
        self._driver = driver
        self._name = name
        self._fn = fn
        self._options = options
        self._detached = detached

    def result(self) -> Command[Any]:
        """Wait for the child, parked; answers its result, or raises ChildFailed or ChildCancelled.

        Raises UsageError for a detached run: it tells nobody of its end.
        """
        if self._detached:
            raise UsageError(
                f"{self!r} is detached, and tells nobody of its end: spawn it without detached=True to wait for its "
                "result, or have it send a signal"
            )
        return Command(
            self._driver, "child", self._name, fn=self._fn, options=self._options, spec=ChildSpec(self.id)
        )  # fmt: skip

    def send(self, channel: Signal[T] | str, value: T) -> Command[None]:
        """Send it a signal."""
        spec = SendSpec(self.id, value, channel_type(channel))
        return Command(self._driver, "send", channel_name(channel), options=self._options, spec=spec)

    def cancel(self) -> Command[bool]:
        """Ask it to cancel; answers whether that changed anything (a finished run is not changed)."""
        return Command(self._driver, "cancel", self._name, options=self._options, spec=SendSpec(self.id))

    def __repr__(self) -> str:
        return f"ChildHandle({self._name!r}, {self.id!r})"


if TYPE_CHECKING:
    from typing import Generic

    R_co = TypeVar("R_co", covariant=True)

    class Spawned(ChildHandle, Generic[R_co]):
        """A ChildHandle typed with its result; it exists for type checkers only."""

        def result(self) -> Command[R_co]: ...
