"""The one workflow that carries out any program, its steps, and what an observer of a replay sees of it.

Rules
- What it does depends on the program and the answers alone; what it tells an observer goes nowhere else.
- Everything it returns is described: JSON, with errors as ``["error", type, what of]``.
- A step writes down that it began outside of any storage, so that nothing of ours can make it look as if it had not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from runnerq.errors import Cancelled, ChildFailed, NonRetryableError, SignalTimeout, UsageError
from runnerq.retry import RetryPolicy
from runnerq.runtime.current import current
from runnerq.workflow.commands import Command, Flow, Winner
from runnerq.workflow.context import ChildHandle, Context
from runnerq.workflow.declare import activity, workflow
from tests.properties.programs import (
    Block,
    Child,
    Compensate,
    Continue,
    Group,
    Node,
    Patch,
    Publish,
    Raise,
    Sleep,
    Spawn,
    Step,
    Tell,
    Try,
    Wait,
    read,
    written,
)

BACKOFF = 0.2
"""Seconds before a step's second attempt, in whatever time the case is played."""
STOPPED = ["stopped"]
NO_SIGNAL = "no signal"
REFUSED = "refused"


class Flaky(Exception):
    """An attempt failed; another may do better."""


class Fatal(NonRetryableError):
    """No other attempt will do better."""


class Oops(Exception):
    """Raised by the workflow's own code."""


class Log(Protocol):
    """Who writes down what steps do."""

    def began(self, n: int, attempt: int) -> None: ...

    def ended(self, n: int) -> None: ...


LOG: ContextVar[Log] = ContextVar("log")
SCALE: ContextVar[float] = ContextVar("scale", default=1.0)
"""What the programs' seconds are multiplied with."""
OBSERVER: ContextVar[Callable[[int, Any], None]] = ContextVar("observer", default=lambda n, told: None)
REACHED: ContextVar[Callable[[int], None]] = ContextVar("reached", default=lambda n: None)
"""Told of each node that the workflow comes to."""


@activity
async def work(n: int, fails: int, fatal: bool, takes: float) -> int:
    attempt = current().attempt
    LOG.get().began(n, attempt)
    try:
        await asyncio.sleep(takes * SCALE.get())
    finally:
        LOG.get().ended(n)
    if fatal:
        raise Fatal(n)
    if attempt <= fails:
        raise Flaky(n)
    return n


@activity
async def undo(n: int, fails: bool) -> None:
    attempt = current().attempt
    LOG.get().began(n, attempt)
    try:
        await asyncio.sleep(0.1 * SCALE.get())
    finally:
        LOG.get().ended(n)
    if fails:
        raise Fatal(n)


@workflow
def program(ctx: Context, text: str) -> Flow[list[Any]]:
    return (yield from walked(ctx, read(text)))


def walked(ctx: Context, block: Block) -> Flow[list[Any]]:
    values: list[Any] = []
    for node in block.nodes:
        values.append((yield from performed(ctx, node)))
    return values


def performed(ctx: Context, node: Node) -> Flow[Any]:
    REACHED.get()(node.n)
    match node:
        case Raise(n):
            raise Oops(n)
        case Try():
            return (yield from tried(ctx, node))
        case Spawn():
            return (yield from spawned(ctx, node))
        case Compensate(n, fails):
            ctx.compensate(undo, n, fails)
            OBSERVER.get()(n, n)
            return n
        case Patch(n, body):
            if not ctx.patched(f"change {n}"):
                return "as it was"
            return (yield from walked(ctx, body))
        case Continue():
            return continued(ctx, node)
        case _:
            return (yield from asked(node.n, made(ctx, node)))


def made(ctx: Context, member: Node | Block) -> Any:
    """The command or branch that this is."""
    scale = SCALE.get()
    if not isinstance(member, Block):
        REACHED.get()(member.n)
    match member:
        case Block():
            return walked(ctx, member)
        case Step(n, fails, attempts, fatal, takes):
            retry = RetryPolicy(max_attempts=attempts, base=BACKOFF * scale, jitter=0)
            return ctx.options(retry=retry).step(work, n, fails, fatal, takes)
        case Sleep(_, seconds):
            return ctx.sleep(seconds * scale)
        case Wait():
            return _wait(ctx, member, scale)
        case Tell(n, channel):
            return ctx.send(ctx.info.id, channel, n)
        case Publish(n):
            return ctx.publish(**{f"p{n}": n})
        case Child(n, body):
            return ctx.options(metadata={"n": str(n)}).child(program, written(body))
        case Group(_, "gather", members, limit, return_errors):
            errors: Any = return_errors
            return ctx.gather([made(ctx, each) for each in members], limit=limit, return_errors=errors)
        case Group(_, kind, members):
            return getattr(ctx, kind)(*[made(ctx, each) for each in members])
        case _:
            raise ValueError(f"{member!r} is no command")


def _wait(ctx: Context, node: Wait, scale: float) -> Command[Any]:
    if node.timeout is None:
        return ctx.signal(node.channel, latest=node.latest)
    timeout = node.timeout * scale
    if node.default:
        return ctx.signal(node.channel, timeout=timeout, default=NO_SIGNAL, latest=node.latest)
    return ctx.signal(node.channel, timeout=timeout, latest=node.latest)


def asked(n: int, command: Command[Any]) -> Flow[Any]:
    try:
        answer = yield command
    except GeneratorExit:
        raise
    except BaseException as error:
        OBSERVER.get()(n, told(error))
        raise
    value = shown(answer)
    OBSERVER.get()(n, value)
    return value


def tried(ctx: Context, node: Try) -> Flow[Any]:
    try:
        return (yield from walked(ctx, node.body))
    except Exception as error:
        if node.catches != "errors":
            raise
        return ["caught", told(error)]
    except Cancelled:
        if node.catches != "cancel":
            raise
        return STOPPED
    finally:
        if node.cleanup.nodes:
            yield from walked(ctx, node.cleanup)


def spawned(ctx: Context, node: Spawn) -> Flow[Any]:
    handle: ChildHandle
    try:
        handle = yield ctx.options(metadata={"n": str(node.n)}).spawn(program, written(node.body))
    except Cancelled as cancelled:
        OBSERVER.get()(node.n, told(cancelled))
        raise
    between = yield from walked(ctx, node.between)
    answer: Any = None
    match node.then:
        case "result":
            answer = yield from asked(node.n, handle.result())
        case "cancel":
            answer = yield from asked(node.n, handle.cancel())
        case "tell":
            answer = yield from asked(node.n, handle.send("blue", node.n))
        case "leave":
            pass
    return [between, answer]


def continued(ctx: Context, node: Continue) -> Any:
    try:
        return ctx.continue_as_new(written(node.body))
    except (UsageError, Cancelled) as error:
        OBSERVER.get()(node.n, told(error))
        if isinstance(error, Cancelled):
            raise
        return REFUSED
    except BaseException:
        if not node.swallowed:
            raise
        return "swallowed"


def shown(answer: Any) -> Any:
    match answer:
        case Winner(index, value):
            return ["winner", index, shown(value)]
        case list() | tuple():
            return [shown(each) for each in answer]
        case BaseException():
            return told(answer)
        case _:
            return answer


def told(error: BaseException) -> list[Any]:
    """An exception in what can be compared: its class, and what it is about."""
    match error:
        case Cancelled():
            return ["cancelled"]
        case SignalTimeout(channel=about) | ChildFailed(status=about):
            return ["error", type(error).__name__, about]
        case Flaky() | Fatal() | Oops():
            return ["error", type(error).__name__, error.args[0]]
        case _:
            return ["error", type(error).__name__, None]
