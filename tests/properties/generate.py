"""Random cases, for Hypothesis: small, with something of everything, and shrinking towards a single step."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.properties.cases import Came, Case
from tests.properties.faults import AT_COMMITS, KINDS, Fault
from tests.properties.programs import (
    CHANNELS,
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
    numbered,
)

_seconds = st.sampled_from([0.0, 0.5, 1.0, 3.0])
_channels = st.sampled_from(CHANNELS)

STEPS: st.SearchStrategy[Node] = st.one_of(
    st.builds(Step, takes=_seconds),
    st.builds(Step, fails=st.sampled_from([0, 1, 2]), attempts=st.sampled_from([1, 2, 3]), takes=_seconds),
    st.builds(Step, fatal=st.booleans(), takes=_seconds),
)
SLEEPS: st.SearchStrategy[Node] = st.builds(Sleep, seconds=_seconds)
WAITS: st.SearchStrategy[Node] = st.builds(
    Wait, channel=_channels, timeout=st.sampled_from([None, 0.0, 0.5, 2.0]), default=st.booleans(), latest=st.booleans()
)
"""A wait without a default is one without a timeout, or one that may fail."""
TIMED_WAITS: st.SearchStrategy[Node] = st.builds(
    Wait, channel=_channels, timeout=st.sampled_from([0.0, 0.5, 2.0]), default=st.booleans()
)
TELLS: st.SearchStrategy[Node] = st.builds(Tell, channel=_channels)


def _blocks(nodes: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[Block]:
    return st.lists(nodes, min_size=least, max_size=most).map(lambda made: Block(tuple(made)))


GROUPS = ("all", "gather", "race")
INNER = ("command", "branch", *GROUPS)
PAIRS = tuple((outer, inner) for outer in GROUPS for inner in INNER)


class _Parts:
    """Strategies for the parts of one program. ``waits`` are the waits that may occur: in a child, whom nobody outside
    can reach, every wait is timed. Unless it ``raises``, nothing of the code's own does: in a cleanup it would hide
    what is behind it."""

    def __init__(self, waits: st.SearchStrategy[Node], *, raises: bool = True) -> None:
        self.commands = st.one_of(STEPS, STEPS, SLEEPS, waits, TELLS)
        self.leaves = st.one_of(STEPS, SLEEPS, waits, TELLS, st.builds(Publish))
        if raises:
            undos = st.builds(Compensate, fails=st.booleans())
            self.leaves = st.one_of(self.leaves, self.leaves, self.leaves, st.one_of(st.builds(Raise), undos))

    @cache  # noqa: B019 - two of them, for good
    def children(self) -> st.SearchStrategy[Node]:
        return st.builds(Child, n=st.just(0), body=CHILD_BODIES)

    @cache  # noqa: B019 - two of them, for good
    def spawns(self, then: str) -> st.SearchStrategy[Node]:
        return st.builds(
            Spawn, n=st.just(0), body=CHILD_BODIES, between=_blocks(st.one_of(SLEEPS, STEPS), 0, 1),
            then=st.just(then),
        )  # fmt: skip

    @cache  # noqa: B019 - two of them, for good
    def tries(self, depth: int, catches: str) -> st.SearchStrategy[Node]:
        return st.builds(
            Try, n=st.just(0), body=_blocks(self.nodes(depth - 1), 1, 2), cleanup=_blocks(CLEANUPS, 0, 2),
            catches=st.just(catches),
        )  # fmt: skip

    @cache  # noqa: B019 - two of them, for good
    def branches(self, depth: int) -> st.SearchStrategy[Block]:
        return _blocks(self.nodes(depth - 1), 0, 2)

    @cache  # noqa: B019 - two of them, for good
    def groups(self, depth: int) -> st.SearchStrategy[Node]:
        """Composites of any kind, with members of any."""
        return st.sampled_from(PAIRS).flatmap(lambda pair: self.pair(depth, *pair))

    @cache  # noqa: B019 - two of them, for good
    def pair(self, depth: int, outer: str, inner: str) -> st.SearchStrategy[Node]:
        """A composite of one kind with a member of one kind, among others."""
        others = st.lists(st.one_of(self.commands, self.branches(depth), self.children()), max_size=2)
        members = st.tuples(others, self.member(depth, inner), st.integers(0, 2)).map(
            lambda drawn: (*drawn[0][: drawn[2]], drawn[1], *drawn[0][drawn[2] :])
        )
        options: dict[str, Any] = {}
        if outer == "gather":
            options = {"limit": st.sampled_from([None, 1, 2]), "return_errors": st.booleans()}
        return st.builds(Group, n=st.just(0), kind=st.just(outer), members=members, **options)

    @cache  # noqa: B019 - two of them, for good
    def member(self, depth: int, kind: str) -> st.SearchStrategy[Any]:
        if kind == "command":
            return self.commands
        if kind == "branch":
            nested = self.pair(depth - 1, "all", "branch") if depth > 1 else SLEEPS
            branch = nested.map(lambda node: Block((node,)))
            return st.one_of(self.branches(depth), branch, branch)
        if depth > 1:
            return st.sampled_from(INNER).flatmap(lambda inner: self.pair(depth - 1, kind, inner))
        members = st.lists(self.commands, min_size=1, max_size=2).map(tuple)
        return st.builds(Group, n=st.just(0), kind=st.just(kind), members=members)

    @cache  # noqa: B019 - two of them, for good
    def nodes(self, depth: int) -> st.SearchStrategy[Node]:
        if depth <= 0:
            return self.leaves
        caught = st.sampled_from(["errors", "cancel", "nothing"]).flatmap(lambda what: self.tries(depth, what))
        deeper = st.one_of(self.groups(depth), caught)
        return st.one_of(self.leaves, self.leaves, deeper, self.children())


CLEANUPS = _Parts(TIMED_WAITS, raises=False).leaves
CHILD_BODIES = st.deferred(lambda: _blocks(_Parts(TIMED_WAITS).nodes(1), 1, 2))
ROOT = _Parts(WAITS)

COMMANDS: dict[str, st.SearchStrategy[Node]] = {
    "step": STEPS,
    "step that is retried": st.builds(Step, fails=st.just(1), attempts=st.sampled_from([2, 3]), takes=_seconds),
    "step that fails for good": st.builds(Step, fatal=st.just(True)),
    "step whose attempts are used up": st.builds(Step, fails=st.just(2), attempts=st.sampled_from([1, 2])),
    "steps side by side": st.builds(
        lambda first, second: Group(0, "all", (Step(takes=first), Step(takes=second))), _seconds, _seconds
    ),
    "sleep": SLEEPS,
    "wait": st.builds(Wait, channel=_channels, latest=st.booleans()),
    "wait with timeout": st.builds(Wait, channel=_channels, timeout=st.sampled_from([0.0, 0.5, 2.0])),
    "wait with default": st.builds(Wait, channel=_channels, timeout=st.just(0.5), default=st.just(True)),
    "wait for the latest": st.builds(Wait, channel=_channels, timeout=st.just(2.0), latest=st.just(True)),
    "send": TELLS,
    "child": ROOT.children(),
    "spawn": ROOT.spawns("result"),
    "spawn and cancel": ROOT.spawns("cancel"),
    "spawn and send": ROOT.spawns("tell"),
    "spawn and leave": ROOT.spawns("leave"),
    "publish": st.builds(Publish),
    "raise": st.builds(Raise),
    "except Exception": ROOT.tries(2, "errors"),
    "except Cancelled": ROOT.tries(2, "cancel"),
    "finally": ROOT.tries(2, "nothing"),
    "compensate": st.builds(Compensate, fails=st.sampled_from([True, True, False])),
    "compensate in a branch": st.builds(Compensate, fails=st.sampled_from([True, True, False])).map(
        lambda node: Group(0, "all", (Block((node,)), Block((node, Step()))))
    ),
    "patched": st.builds(Patch, n=st.just(0), body=_blocks(ROOT.nodes(1), 0, 2)),
    "continue_as_new": st.just(Continue(0, Block())),
    "continue_as_new that is swallowed": st.just(Continue(0, Block(), swallowed=True)),
    "gather of many": st.builds(
        Group, n=st.just(0), kind=st.just("gather"), limit=st.sampled_from([1, 2]), return_errors=st.booleans(),
        members=st.lists(STEPS, min_size=2, max_size=4).map(tuple),
    ),
}  # fmt: skip
"""A command that a case is made to have, by name."""


def _last(nodes: tuple[Node, ...], next_one: Block) -> tuple[Node, ...]:
    """What goes on in another generation comes last, as nothing behind it would be reached."""
    first = [node for node in nodes if not isinstance(node, Continue)]
    last = [Continue(0, next_one, node.swallowed) for node in nodes if isinstance(node, Continue)]
    return (*first, *last[:1])


def _program(stratum: int) -> st.SearchStrategy[Block]:
    """Most of what fails in it is caught, so that what is behind it is reached."""
    names = list(COMMANDS)
    forced = [COMMANDS[names[(step * stratum + step) % len(names)]] for step in (1, 7, 11)]
    if _forced_fault(stratum) == "wake lost":
        # It takes a run that is parked and woken.
        forced[0] = st.one_of(COMMANDS["child"], COMMANDS["wait"])
    elif _forced_fault(stratum) == "send reply lost":
        forced[0] = TELLS
    parts = [*forced, ROOT.pair(2, *PAIRS[stratum % len(PAIRS)])]

    later = _blocks(ROOT.nodes(1), 0, 2)
    end = st.sampled_from([[], [Raise()]])

    def arranged(
        nodes: tuple[Node, ...], order: int, caught: int, more: list[Node], next_one: Block, end: list[Node]
    ) -> Block:
        turned = _last((*nodes[order:], *nodes[:order]), next_one)
        guarded = [
            node if index == caught else Try(0, Block((node,)), Block(), "errors") for index, node in enumerate(turned)
        ]
        return numbered(Block((*more, *guarded, *end)))

    more = st.lists(ROOT.nodes(1), max_size=1)
    return st.builds(arranged, st.tuples(*parts), st.integers(0, 3), st.integers(0, 9), more, later, end)


def _forced_fault(stratum: int) -> str:
    kinds = (*KINDS, "wake lost", "send reply lost")
    return kinds[stratum % len(kinds)]


@cache
def _fault(kind: str) -> st.SearchStrategy[Fault]:
    late = {"wake lost": [1], "send reply lost": [1]}.get(kind, [1, 2, 3, 4, 6, 9] if kind in AT_COMMITS else [1, 2])
    return st.builds(Fault, kind=st.just(kind), at=st.sampled_from(late))


STRATA = len(PAIRS) * 4
"""As many kinds of case as there must be for each thing to occur often enough: see ``cases``."""


@cache
def cases(stratum: int) -> st.SearchStrategy[Case]:
    """Cases of one stratum: each must have one nesting, three commands and one fault, and has others by chance."""
    chance = st.one_of([_fault(kind) for kind in (*KINDS, "wake lost", "wake lost", "send reply lost")])
    faults = st.tuples(_fault(_forced_fault(stratum)), st.lists(chance, max_size=2))
    return st.builds(
        Case,
        program=_program(stratum),
        signals=st.lists(st.builds(Came, after=_seconds, channel=_channels), max_size=3).map(tuple),
        faults=st.one_of(faults.map(lambda drawn: (drawn[0], *drawn[1])), faults.map(lambda drawn: (drawn[0],))),
        cancel_after=st.sampled_from([None] * 7 + [0.3, 1.2, 2.5, 4.0]),
        cache=st.sampled_from([100, 0]),
        seed=st.integers(0, 2**16),
    )
