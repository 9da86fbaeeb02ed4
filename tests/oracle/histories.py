"""Random histories of one object, and the conditions once more by their literal definitions and brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from rpsim.protocols.guarantees import Condition
from rpsim.scenarios.history import History, Operation, Torn, Value
from rpsim.validation.oracle import RegisterHistory

UPDATES = frozenset({"put"})
TORN = Torn("8 of 64 bytes")
NOBODYS = 99
FOREVER = 10**9
LATER = 2 * FOREVER

Choose = Callable[[int], int]
"""A number from 0 to one less than the argument: drawn by Hypothesis, or by a generator with a fixed seed."""


@dataclass
class Case:
    history: History
    crash_ps: int
    recovered: Value
    loaded: bool
    again: tuple[Value, ...] = ()
    """What further reads after recovery return, one after the other."""

    @property
    def reads_after(self) -> tuple[Value, ...]:
        return (self.recovered, *self.again)

    @property
    def initial(self) -> Value:
        return 0 if self.loaded else None

    def loaded_objects(self) -> frozenset[str]:
        return frozenset({"x"}) if self.loaded else frozenset()

    def before_crash(self) -> list[Operation]:
        """The operations as they stand at the crash: what returned later is pending."""
        return [
            o
            if o.return_ps is not None and o.return_ps <= self.crash_ps
            else Operation(o.number, o.process, o.f, o.object, o.argument, o.invoke_ps)
            for o in self.history.operations
            if o.invoke_ps <= self.crash_ps
        ]


def random_case(choose: Choose, most: int = 6, zero_length: bool = True, reads_after: int = 1) -> Case:
    """A case of up to ``most`` operations on few instants, so that ties, overlaps and pending ones are common."""
    count = choose(most + 1)
    history = History(UPDATES)
    puts = [choose(5) < 3 for _ in range(count)]
    stamps = [number for number, put in enumerate(puts, 1) if put]
    odd = [TORN, None, NOBODYS, 0]
    clean = choose(3) > 0
    now = 0
    for put in puts:
        now += choose(4)
        number = len(history.operations) + 1  # each is a process's only one
        operation = history.invoke(number, "put" if put else "get", "x", None, now)
        operation.argument = operation.number if put else None
        length = choose(6) if zero_length else 1 + choose(5)
        fate = choose(10)
        if fate < 7:
            result = None
            if not put:
                possible: list[Value] = [s for s in stamps if not clean or history_knows(history, s, now + length)]
                possible += [0, 0] if clean else odd
                result = possible[choose(len(possible))]
            history.complete(operation, "ok", now + length, result)
        elif fate == 7:
            history.complete(operation, "info", now + length)
        elif fate == 8:
            history.complete(operation, "fail", now + length)
    results: list[Value] = [*stamps, *stamps, 0, *([] if clean else odd)]
    recovered = results[choose(len(results))]
    crash_ps = now + choose(8) if choose(4) else choose(now + 8)
    again = tuple(results[choose(len(results))] for _ in range(choose(3))) if reads_after > 1 else ()
    return Case(history, crash_ps, recovered, loaded=choose(5) > 0, again=again[: reads_after - 1])


def history_knows(history: History, stamp: int, by_ps: int) -> bool:
    return any(o.argument == stamp and o.invoke_ps <= by_ps for o in history.operations)


def feed(case: Case, register: RegisterHistory, order: Choose) -> None:
    """Hand the events up to the crash to ``register`` in time order, those of one instant in any order.

    It is asked in between, which must not change what it answers later.
    """
    waiting = [o for o in case.history.operations if o.invoke_ps <= case.crash_ps]
    running: list[Operation] = []
    while True:
        events = [(o.invoke_ps, 1, o) for o in waiting]
        events += [(o.return_ps, 0, o) for o in running if o.return_ps is not None and o.return_ps <= case.crash_ps]
        if not events:
            return
        first = min(time for time, _, _ in events)
        now = [event for event in events if event[0] == first]
        _, invoked, operation = now[order(len(now))]
        if invoked:
            waiting.remove(operation)
            running.append(operation)
            register.invoke(operation)
        else:
            running.remove(operation)
            register.complete(operation)
        register.judge(case.recovered)


# the literal definitions ---------------------------------------------------------------------------------------


def violated(case: Case) -> frozenset[Condition]:
    """What ``case`` violates, by quantifiers and by trying all linearizations."""
    by_condition = {
        Condition.COMMITTED: committed(case),
        Condition.MONOTONIC: monotonic(case),
        Condition.NO_LOST_ACK: no_lost_ack(case),
        Condition.LINEARIZABLE: linearizable(case),
        Condition.DURABLE: linearizable(case),
        Condition.PERSISTENT: linearizable(case),  # the processes after the crash are fresh ones
        Condition.STRICT: linearizable(case, killed_by_ps=case.crash_ps),
    }
    return frozenset(condition for condition, holds in by_condition.items() if not holds)


def committed(case: Case) -> bool:
    operations = case.before_crash()
    reads = [(o.result, o.return_ps) for o in operations if o.f == "get" and o.outcome == "ok"]
    return all(
        value == case.initial
        or any(
            w.f == "put" and w.argument == value and w.outcome != "fail" and w.invoke_ps <= (by_ps or 0)
            for w in operations
        )
        for value, by_ps in [*reads, *((value, FOREVER) for value in case.reads_after)]
    )


def monotonic(case: Case) -> bool:
    operations = case.before_crash()
    reads = [o for o in operations if o.f == "get" and o.outcome == "ok"]
    puts = {o.argument: o for o in operations if o.f == "put" and o.outcome != "fail"}

    def is_version(read: Operation) -> bool:
        write = puts.get(read.result)
        return read.result == case.initial or (write is not None and write.invoke_ps <= read.return_ps)

    def certainly_older(one: Value, other: Value) -> bool:
        if other == one:
            return False
        if case.loaded and one is None:
            return True
        if other == case.initial:
            return False
        if one == case.initial:
            return True
        if one not in puts:
            return False
        proofs = [puts[one].return_ps] if puts[one].outcome == "ok" else []
        proofs += [r.return_ps for r in reads if r.result == one and is_version(r)]
        return any(proof < puts[other].invoke_ps for proof in proofs)

    versions = [read.result for read in reads if is_version(read)]
    return not any(certainly_older(later, earlier) for earlier in versions for later in case.reads_after)


def no_lost_ack(case: Case) -> bool:
    """An update is lost if a read shows that it is, and no read that it is not."""
    puts = [o for o in case.before_crash() if o.f == "put" and o.outcome != "fail"]
    acknowledged: list[Operation | None] = [o for o in puts if o.outcome == "ok"]
    acknowledged += [None] if case.loaded else []  # the load
    return all(any(survives(case, puts, update, value) for value in case.reads_after) for update in acknowledged)


def survives(case: Case, puts: list[Operation], update: Operation | None, value: Value) -> bool:
    if value == case.initial:
        return update is None
    write = next((o for o in puts if o.argument == value), None)
    if write is None or update is None:
        return write is not None
    return write.outcome != "ok" or not (write.return_ps or 0) < update.invoke_ps


def linearizable(case: Case, killed_by_ps: int = LATER) -> bool:
    """``killed_by_ps``: by when the updates that were pending at the crash take effect, if at all."""
    operations = case.before_crash()
    fixed = [(o.invoke_ps, o.return_ps or 0, o.f, o.argument, o.result) for o in operations if o.outcome == "ok"]
    fixed += [(FOREVER + i, FOREVER + i, "get", None, value) for i, value in enumerate(case.reads_after)]
    optional = [o for o in operations if o.f == "put" and o.outcome in (None, "info")]
    for chosen in product((False, True), repeat=len(optional)):
        taken = [
            (o.invoke_ps, killed_by_ps, o.f, o.argument, None) for o, take in zip(optional, chosen, strict=True) if take
        ]
        if any(True for _ in orders(fixed + taken, case.initial)):
            return True
    return False


Row = tuple[int, int, str, Value, Value]


def orders(rows: list[Row], state: Value) -> Iterator[None]:
    """One None for each legal order of ``rows`` from ``state``."""
    if not rows:
        yield None
    for index, (invoke_ps, _, f, argument, result) in enumerate(rows):
        others = rows[:index] + rows[index + 1 :]
        if any(other[1] < invoke_ps for other in others):
            continue
        if f == "put":
            yield from orders(others, argument)
        elif result == state:
            yield from orders(others, state)
