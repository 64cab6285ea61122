"""What must hold of the log of a load, whatever happened: no limit was exceeded at any time.

What is compared is sound: it never blames the limits for what the log cannot tell.

- A run is inside its limit at least from its first line to its last, and was admitted between the sending of its claim
  and the answer. The last line of a killed process is the killing.
- Of those that are inside when one enters, the last was admitted after the entering one's claim was sent; so there are
  no more of them than the rule allowed at some time since then.
- Of the admissions of one rule, no more than ``n`` lie surely within one span.
- While a rule was being changed, both the old and the new one may have held.
- An attempt runs once; again only where the process that ran it first was killed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from tests.faults.ledger import Ledger, Line
from tests.limits.plan import Rule

FOR_EVER = float("inf")


class Span(msgspec.Struct, frozen=True):
    """One stay inside: of which run, under which claim, since when it may have been admitted, from when to when."""

    scope: str
    key: str
    run_id: str
    token: str
    entry: str
    attempt: str
    process: str
    sent: float
    began: float
    ended: float

    @property
    def place(self) -> tuple[str, str]:
        return self.run_id, self.token


class InForce(msgspec.Struct, frozen=True):
    """A rule may have held from here to there."""

    rule: Rule
    since: float
    until: float

    def touches(self, since: float, until: float) -> bool:
        return self.since <= until and since <= self.until


class Claimed(msgspec.Struct, frozen=True):
    """A run was admitted between these times."""

    run_id: str
    token: str
    sent: float
    answered: float


class Observed(msgspec.Struct, frozen=True):
    """What the log says. ``limits`` are scope and key of each run, as it said from inside; ``killed`` process ids."""

    spans: tuple[Span, ...]
    claims: tuple[Claimed, ...]
    rules: dict[str, tuple[InForce, ...]]
    limits: dict[str, tuple[str, str]]
    killed: frozenset[str]


class Judged(msgspec.Struct):
    """What was found: where limits were exceeded, in words; how often as many were inside as may, or were admitted."""

    faults: list[str] = []
    full: int = 0
    rates_used_up: int = 0
    again: int = 0


def observed(ledger: Ledger) -> Observed:
    """Read the books. Raises AssertionError for a log that contradicts itself."""
    claims = tuple(
        Claimed(run_id, token, float(sent), line.at)
        for line in ledger.read("claimed")
        for sent, run_id, token in [line.words]
    )
    sent = {(claim.run_id, claim.token): claim.sent for claim in claims}
    spans = tuple(sorted(_spans(ledger, sent), key=lambda span: span.began))
    limits = {span.run_id: (span.scope, span.key) for span in spans}
    killed = frozenset(line.words[0] for line in ledger.read("killed"))
    return Observed(spans, claims, _rules(ledger.read("rules")), limits, killed)


def _spans(ledger: Ledger, sent: dict[tuple[str, str], float]) -> Iterable[Span]:
    killed = {line.words[0]: line.at for line in ledger.read("killed")}
    entered: dict[Sequence[str], float] = {}
    for line in ledger.read("inside"):
        side, *words = line.words
        if side == "in":
            assert tuple(words) not in entered, f"the same attempt is inside twice: {words}"
            entered[tuple(words)] = line.at
        else:
            yield _span(words, entered.pop(tuple(words)), line.at, sent)
    for left, began in entered.items():
        yield _span(left, began, killed.get(left[-1], FOR_EVER), sent)


def _span(words: Sequence[str], began: float, ended: float, sent: dict[tuple[str, str], float]) -> Span:
    scope, key, run_id, token, entry, attempt, process = words
    return Span(scope, key, run_id, token, entry, attempt, process, sent[run_id, token], began, ended)


def _rules(lines: Iterable[Line]) -> dict[str, tuple[InForce, ...]]:
    """By scope, the rules that were set, in order: from when the call began to when the next one had been answered."""
    asked: dict[str, list[tuple[float, Rule]]] = defaultdict(list)
    answered: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        side, scope, text = line.words
        if side == "asked":
            asked[scope].append((line.at, msgspec.json.decode(text, type=Rule)))
        else:
            answered[scope].append(line.at)
    return {
        scope: tuple(
            InForce(rule, at if nth else 0.0, until)
            for nth, ((at, rule), until) in enumerate(zip(rules, [*answered[scope][1:], FOR_EVER], strict=True))
        )
        for scope, rules in asked.items()
    }


# --- what must hold ---------------------------------------------------------------------------------------------------


def judged(seen: Observed) -> Judged:
    """Compare all that was seen with the rules."""
    found = Judged()
    _judge_places(seen, found)
    _judge_rates(seen, found)
    _judge_repeats(seen, found)
    return found


def _judge_places(seen: Observed, found: Judged) -> None:
    inside: dict[str, list[Span]] = defaultdict(list)
    for span in seen.spans:
        here = [each for each in inside[span.scope] if each.ended > span.began]
        here.append(span)
        inside[span.scope] = here
        rules = [each.rule for each in seen.rules.get(span.scope, ()) if each.touches(span.sent, span.began)]
        most = [rule.concurrency for rule in rules if rule.concurrency is not None]
        if len(most) < len(rules) or not most or len({rule.per_key for rule in rules}) > 1:
            continue
        places = {each.place for each in here if not rules[0].per_key or each.key == span.key}
        found.full += len(places) == max(most)
        if len(places) > max(most):
            found.faults.append(
                f"{len(places)} runs of {span.scope!r} ({span.key!r}) inside at {span.began:.6f}, {max(most)} may be"
            )


def _judge_rates(seen: Observed, found: Judged) -> None:
    for scope, rules in seen.rules.items():
        for force in rules:
            if force.rule.rate is None:
                continue
            groups: dict[str, list[Claimed]] = defaultdict(list)
            for claim in seen.claims:
                run_scope, key = seen.limits.get(claim.run_id, ("", ""))
                # What one of two rules has let in is nobody's.
                under = [each for each in rules if each.touches(claim.sent, claim.answered)]
                if run_scope == scope and under == [force]:
                    groups[key if force.rule.per_key else ""].append(claim)
            for key, claims in groups.items():
                _judge_rate(f"{scope!r} ({key!r})", claims, force.rule.rate, found)


def _judge_rate(what: str, claims: list[Claimed], rate: tuple[int, float], found: Judged) -> None:
    most, per = rate
    claims.sort(key=lambda claim: claim.sent)
    for nth, first in enumerate(claims):
        surely = sum(each.answered < first.sent + per for each in claims[nth:])
        found.rates_used_up += surely == most
        if surely > most:
            found.faults.append(f"{surely} runs of {what} admitted within {per} s of {first.sent:.6f}, {most} may be")


def _judge_repeats(seen: Observed, found: Judged) -> None:
    began: dict[tuple[str, str, str], list[Span]] = defaultdict(list)
    for span in seen.spans:
        began[span.run_id, span.entry, span.attempt].append(span)
    for (run_id, entry, attempt), spans in began.items():
        found.again += len(spans) - 1
        if sum(span.process not in seen.killed for span in spans) > 1:
            found.faults.append(f"attempt {attempt} of entry {entry} of run {run_id} began {len(spans)} times")
