"""What occurs in cases, counted: each kind of command, each nesting of branches, each fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from runnerq.persistence.records import Sent
from tests.properties.cases import Case
from tests.properties.faults import AT_BEATS, AT_CLAIMS, AT_COMMITS, AT_SENDS, AT_WAKES
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
    all_nodes,
    parts,
)
from tests.properties.world import Played

LEAST = 0.05

COMMANDS = (
    "step that answers", "step that is retried", "step that fails for good", "step whose attempts are used up", "sleep",
    "signal without timeout", "signal with timeout", "signal with default", "signal for the latest", "send", "child",
    "spawn, result", "spawn, cancel", "spawn, send", "spawn, left alone", "publish", "raise", "except Exception",
    "except Cancelled", "finally with commands", "cancel from outside", "all", "gather", "gather with limit",
    "gather with return_errors", "race", "compensate", "undo that ran", "undo that failed", "patched",
    "continue_as_new",
)  # fmt: skip
_KINDS = ("all", "gather", "race")
NESTINGS = (
    *[f"{outer} of {inner}" for outer in _KINDS for inner in ("command", "branch", *_KINDS)],
    "branch in branch", "composite in a branch", "three levels",
)  # fmt: skip
FAULTS = (*AT_COMMITS, *AT_CLAIMS, *AT_WAKES, *AT_BEATS, *AT_SENDS, "completions reordered", "cache off", "cache on")
_THEN = {
    "result": "spawn, result",
    "cancel": "spawn, cancel",
    "tell": "spawn, send",
    "leave": "spawn, left alone",
}
_PLAIN: dict[type, str] = {
    Sleep: "sleep",
    Tell: "send",
    Publish: "publish",
    Raise: "raise",
    Child: "child",
    Compensate: "compensate",
    Patch: "patched",
    Continue: "continue_as_new",
}


class Census:
    """Counts cases by what occurs in them."""

    def __init__(self) -> None:
        self.cases = 0
        self.counts: Counter[str] = Counter()
        self.virtual_seconds = 0.0

    def add(self, played: Played, reached: frozenset[int]) -> None:
        """Count a case; of its program, the nodes that were come to."""
        self.cases += 1
        self.virtual_seconds += played.seconds
        commands = _commands(played.case, reached)
        nestings = _nestings(played.case.program, reached)
        self.counts.update({*commands, *nestings, *_faults(played)})

    def share(self, what: str) -> float:
        return self.counts[what] / max(1, self.cases)

    def rare(self, least: float = LEAST) -> list[str]:
        """What occurs in too few cases."""
        return [what for what in (*COMMANDS, *NESTINGS, *FAULTS) if self.share(what) < least]

    def table(self) -> str:
        lines = [f"{self.cases} cases, {self.virtual_seconds:,.0f} virtual seconds"]
        for title, names in (("commands", COMMANDS), ("nestings", NESTINGS), ("faults", FAULTS)):
            lines.append(f"  {title}")
            lines += [f"    {name:34} {self.counts[name]:6} {self.share(name):6.1%}" for name in names]
        return "\n".join(lines)


def _commands(case: Case, reached: frozenset[int]) -> Iterator[str]:
    for node in all_nodes(case.program):
        if node.n in reached:
            yield from _command(node)


def _command(node: Node) -> Iterator[str]:
    match node:
        case Step():
            yield from _step(node)
        case Wait():
            yield "signal without timeout" if node.timeout is None else "signal with timeout"
            if node.default and node.timeout is not None:
                yield "signal with default"
            if node.latest:
                yield "signal for the latest"
        case Spawn():
            yield _THEN[node.then]
        case Group():
            yield node.kind
            if node.limit is not None:
                yield "gather with limit"
            if node.return_errors:
                yield "gather with return_errors"
        case Try():
            yield from {"errors": ["except Exception"], "cancel": ["except Cancelled"]}.get(node.catches, [])
            if node.cleanup.nodes:
                yield "finally with commands"
        case _:
            yield _PLAIN[type(node)]


def _step(node: Step) -> Iterator[str]:
    if node.fatal:
        yield "step that fails for good"
        return
    yield "step that answers" if node.fails < node.attempts else "step whose attempts are used up"
    if node.fails and node.attempts > 1:
        yield "step that is retried"


def _nestings(
    part: Node | Block, reached: frozenset[int], levels: int = 0, *, in_branch: bool = False
) -> Iterator[str]:
    if not isinstance(part, Block) and part.n not in reached:
        return
    if isinstance(part, Group):
        levels += 1
        if levels == 3:
            yield "three levels"
        if in_branch:
            yield "composite in a branch"
        for member in part.members:
            match member:
                case Block():
                    yield f"{part.kind} of branch"
                    if in_branch:
                        yield "branch in branch"
                case Group():
                    yield f"{part.kind} of {member.kind}"
                case _:
                    yield f"{part.kind} of command"
            yield from _nestings(member, reached, levels, in_branch=in_branch or isinstance(member, Block))
        return
    if isinstance(part, Child | Spawn | Continue):
        levels, in_branch = 0, False
    for inner in parts(part):
        yield from _nestings(inner, reached, levels, in_branch=in_branch)


def _faults(played: Played) -> Iterator[str]:
    undone = {began.n for began in played.begun if began.position.startswith("u")}
    if undone:
        yield "undo that ran"
    if any(isinstance(node, Compensate) and node.fails and node.n in undone for node in all_nodes(played.case.program)):
        yield "undo that failed"
    if played.cancel is Sent.SENT:
        yield "cancel from outside"
    yield from (fault for fault, count in played.happened.items() if count)
    yield "cache on" if played.case.cache else "cache off"
