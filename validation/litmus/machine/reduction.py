"""Partial-order reduction: which of the steps of a state have to be tried, the others being tried later all the same.

The method is stubborn sets (Valmari, "Stubborn sets for reduced state space generation", 1991). Every step is an
occurrence of an *action*. An action is described by the cells that its outcome depends on and the cells it changes;
two actions that share none may swap places. From one action that is possible now a set is closed:

- with a possible action, all that do not swap with it, and the steps that the machine takes by itself after it;
- with one that is not possible yet, all that could help to make it so.

Actions outside the set can then neither be disturbed by it nor disturb it, so an execution that begins outside may as
well begin with the set. The values that a look shows must not get lost on that way: registers get values and A gets
through its list for good, but a step that changes the content which would survive a power failure takes an older image
away. So a set is only taken if something in it does not. Executions end, so nothing is put off for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....models.durability.rules import Event, RequestKind, Scope
from ....sim.trace import Stage
from .cores import DEVICE, Action, State, bits
from .machine import AbstractMachine
from .plan import RECEIVED, LitmusPlan, Needs, Update

Cell = tuple[str, int]
Cells = set[Cell]
RAW_OF_B = ("ld", "cpucas")
"""Steps of B that are never taken by themselves."""


class Reduction:
    """The actions of a machine's plan; :meth:`enough` chooses among the actions possible in a state."""

    def __init__(self, machine: AbstractMachine) -> None:
        self.machine = machine
        self.plan: LitmusPlan = machine.plan
        self.actions: list[Action] = []
        self._guard: list[Cells] = []
        self._reads: list[Cells] = []
        self._writes: list[Cells] = []
        self._takes_away = 0
        self._by_itself = 0
        for action, guard, reads, writes, by_itself, takes_away in _Describe(machine).all():
            bit = 1 << len(self.actions)
            self.actions.append(action)
            self._guard.append(guard)
            self._reads.append(reads | writes)
            self._writes.append(writes)
            self._by_itself |= bit if by_itself else 0
            self._takes_away |= bit if takes_away else 0
        self.index = {action: i for i, action in enumerate(self.actions)}
        everyone = range(len(self.actions))
        writers: dict[Cell, int] = {}
        for i, writes in enumerate(self._writes):
            for cell in writes:
                writers[cell] = writers.get(cell, 0) | 1 << i
        touched: dict[Cell, int] = {}
        for i, reads in enumerate(self._reads):
            for cell in reads:
                touched[cell] = touched.get(cell, 0) | 1 << i
        guarded: dict[Cell, int] = {}
        for i in bits(self._by_itself):
            for cell in self._guard[i]:
                guarded[cell] = guarded.get(cell, 0) | 1 << i
        self._clashes = [
            _union(touched.get(cell, 0) for cell in self._writes[i])
            | _union(writers.get(cell, 0) for cell in self._reads[i])
            for i in everyone
        ]
        self._helpers = [_union(writers.get(cell, 0) for cell in self._guard[i]) for i in everyone]
        self._wakes = [_union(guarded.get(cell, 0) for cell in self._writes[i]) for i in everyone]

    def enough(self, state: State, possible: Iterable[Action]) -> frozenset[Action] | None:
        """The possible actions that have to be tried now; None for all of them."""
        enabled = _union(1 << self.index[action] for action in possible)
        if not enabled & (enabled - 1):
            return None
        alive = self._alive(state)
        best, fewest = enabled, enabled.bit_count()
        for seed in bits(enabled):
            chosen = self._closed(1 << seed, enabled, alive)
            size = (chosen & enabled).bit_count()
            if size < fewest and chosen & enabled & ~self._takes_away:
                best, fewest = chosen & enabled, size
                if size == 1:
                    break
        return None if best == enabled else frozenset(self.actions[i] for i in bits(best))

    def _closed(self, chosen: int, enabled: int, alive: int) -> int:
        todo = chosen
        while todo:
            low = todo & -todo
            i = low.bit_length() - 1
            todo ^= low
            more = 0
            if low & enabled:
                more = self._clashes[i] | self._wakes[i]
            elif low & self._by_itself:
                more = self._clashes[i] | self._wakes[i] | self._helpers[i]
            else:
                more = self._helpers[i]
            more &= alive & ~chosen
            chosen |= more
            todo |= more
            if chosen & enabled == enabled:
                break
        return chosen

    def _alive(self, state: State) -> int:
        """The actions that may still occur."""
        plan, found = self.plan, 0
        coming = state.pending | _union(
            u.bit
            for u in plan.updates
            if (not state.done >> u.request & 1 if u.request >= 0 else self.machine.coming(state, u))
        )
        for i, (kind, about, which) in enumerate(self.actions):
            match kind:
                case "A":
                    lives = about >= state.a
                case "B":
                    lives = about >= state.b
                case "drain":
                    lives = bool(state.a_stores) or state.a < len(plan.test.a)
                case "relay":
                    lives = not state.relay >> about & 1
                case "fetch":
                    lives = state.values[about] is None
                case "read":
                    known = state.values[about]
                    lives = None in known if isinstance(known, tuple) else known is None
                case "execute":
                    lives = not state.done >> about & 1
                case "place":
                    lives = bool(coming >> about & 1)
                case "unseen":
                    lives = not state.done >> about & 1 and bool(coming & ~state.unseen & 1 << which)
                case _:
                    lives = bool((coming | state.dirty) & plan.line_mask[about])
            found |= 1 << i if lives else 0
        return found


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


Described = tuple[Action, Cells, Cells, Cells, bool, bool]
"""An action; the cells that have to change for it to become possible; the cells that its outcome depends on once it
is possible; the cells it changes; whether the machine takes it by itself; whether it takes away a value that a look may
show."""


class _Describe:
    """The cells that each action of a machine depends on and changes."""

    def __init__(self, machine: AbstractMachine) -> None:
        self.machine = machine
        self.plan = machine.plan
        self.accepted_survives = machine.accepted_survives and bool(self.plan.tracked)

    def all(self) -> Iterator[Described]:
        """Every action that any execution may have."""
        plan = self.plan
        yield from self._of_a()
        yield from self._of_relay()
        for request in range(len(plan.requests)):
            yield from self._of_request(request)
        for update in plan.updates:
            if update.operation.verb != "cpucas":
                yield self._placed(update)
        for line in plan.tracked:
            words = [i for i, at in enumerate(plan.line_of) if at == line]
            mine = [u for u in plan.updates if u.line == line]
            dirty = {("dirty", u.number) for u in mine}
            reads = {("memory", i) for i in words} | {("unseen", u.number) for u in mine}
            yield ("write back", line, 0), dirty, reads, dirty | {("medium", i) for i in words}, False, True
        yield from self._of_b()

    # cells ------------------------------------------------------------------------------------------------
    def _needs(self, needs: Needs) -> Cells:
        queued = needs.queued | needs.unseen
        return (
            {("pending", n) for n in bits(needs.visible | queued)}
            | {("dirty", n) for n in bits(queued)}
            | {("unseen", n) for n in bits(needs.unseen)}
        )

    def _arrived(self, request: int) -> Cells:
        """The cells that B's adapter needs before it has a request: the post, the payload, the needs of its fence."""
        plan, found = self.plan, {self._position(request)}
        for one in (*plan.earlier(request), request):
            if plan.requests[one].source or plan.requests[one].element:
                found.add(("value", one))
            for waited in bits(plan.fence[one]):
                found |= self._completed(waited)
        return found

    def _completed(self, request: int) -> Cells:
        found: Cells = set()
        for one in (*self.plan.earlier(request), request):
            found |= {("done", one)} | self._needs(self.plan.ack[one])
        return found

    def _position(self, request: int) -> Cell:
        """The cell that changes when a request is posted, or let go."""
        positions: list[Cell] = [("A", i) for i, operation in enumerate(self.plan.test.a) if operation.request]
        positions += [("relay", i) for i, one in enumerate(self.plan.relay) if one.request >= 0]
        return positions[request]

    def _pending_at(self, variable: int) -> Cells:
        return {("pending", n) for n in bits(self.plan.word_mask[variable])}

    def _seen(self, event: Event, variable: int) -> Cells:
        """The cells that the value of a read depends on."""
        shows = self.machine.returns_visible(event, variable)
        return {("memory", variable)} | (set() if shows else self._pending_at(variable))

    def _own(self) -> Cells:
        return {("stored", u.number) for u in self.plan.updates if u.request < 0}

    def _barred(self, event: Event, target: str) -> Cells:
        scopes = self.machine.scopes(event, target)
        found = self._own() if Scope.CORE_EARLIER in scopes else set()
        if Scope.DEVICE_EARLIER in scopes:
            found |= {("dirty", n) for n in bits(self.plan.device_mask)}
        return found

    def _placing(self, update: Update) -> tuple[Cells, Cells, bool]:
        """The cells that an update needs and changes on becoming visible, and whether an older image is lost by it."""
        plan, number = self.plan, update.number
        same = [u for u in plan.updates if u.line == update.line]
        writes = {("memory", i) for i in update.fields} | {("pending", number)}
        if update.line not in plan.tracked:
            return set(), writes, self.accepted_survives
        reads = {("unseen", u.number) for u in same}
        writes |= {("dirty", number), ("unseen", number)}
        at_once = plan.safe_stage(update) <= Stage.VISIBLE
        if at_once or plan.past_llc:
            writes |= {("medium", i) for i, at in enumerate(plan.line_of) if at == update.line}
        return reads, writes, at_once or plan.past_llc or self.accepted_survives

    # A ----------------------------------------------------------------------------------------------------
    def _of_a(self) -> Iterator[Described]:
        plan, request = self.plan, -1
        for i, operation in enumerate(plan.test.a):
            request += 1 if operation.request else 0
            guard: Cells = {("A", i - 1)}
            reads: Cells = set()
            writes: Cells = {("A", i)}
            if operation.verb == "st":
                writes.add(("A's stores", 0))
            elif operation.verb == "poll":
                for j in range(request + 1):
                    if plan.requests[j].qp == operation.qp:
                        guard |= self._completed(j)
            elif operation.verb == "wait":
                guard.add(("replies", 0))
            else:
                guard.add(("A's stores", 0))
                if operation.inline and operation.source:
                    reads |= {("A's stores", 0), ("local", plan.locals.index(operation.source))}
                    writes.add(("value", request))
            yield ("A", i, 0), guard, reads, writes, True, False
        if any(operation.verb == "st" for operation in plan.test.a):
            cells: Cells = {("A's stores", 0)}
            yield ("drain", 0, 0), cells, cells, cells | {("local", i) for i in range(len(plan.locals))}, False, False

    def _of_relay(self) -> Iterator[Described]:
        for i, one in enumerate(self.plan.relay):
            guard: Cells = {("relay", at) for at in (one.before, *(at for at, _ in one.enables))}
            for request in one.messages:
                if request >= 0:
                    guard |= {("done", request)} | self._needs(self.plan.received[request])
            yield ("relay", i, 0), guard, set(), {("relay", i)}, True, False

    # requests ---------------------------------------------------------------------------------------------
    def _of_request(self, request: int) -> Iterator[Described]:
        plan, operation, kind = self.plan, self.plan.requests[request], self.plan.kinds[request]
        if operation.source or operation.element:
            name, of_a = operation.source or operation.element, request < plan.of_a
            cell = ("local", plan.locals.index(name)) if of_a else ("memory", plan.index[name])
            yield ("fetch", request, 0), {self._position(request)}, {cell}, {("value", request)}, False, False
        ready = self._arrived(request) | {("done", j) for j in bits(plan.before[request])}
        needs = self._needs(plan.needs[request])
        if kind is RequestKind.READ:
            for chunk, fields in enumerate(self.machine.chunks(request)):
                barred = set().union(
                    *(self._barred(Event.READ_COMPLETION, str(plan.layout.target[n])) for n in operation.names)
                )
                reads = needs | barred | set().union(*(self._seen(Event.READ_COMPLETION, i) for i in fields))
                writes: Cells = {("done", request), (f"chunk {chunk}", request)}
                yield ("read", request, chunk), ready | needs | barred, reads, writes, False, False
            return
        issued: Cells = {("done", request)}
        for mask in plan.tlps[request]:
            issued |= {("pending", n) for n in bits(mask)}
            if plan.strict and kind is not RequestKind.ATOMIC_WRITE:
                issued.add((f"order of {plan.updates[mask.bit_length() - 1].target}", plan.qps.index(operation.qp)))
        if operation.verb in RECEIVED:
            issued.add(("received", plan.qps.index(operation.qp)))
        if kind is RequestKind.ATOMIC:
            yield from self._of_atomic(request, ready, needs, issued)
            return
        flush = kind is RequestKind.FLUSH
        if operation.packet is not None and operation.packet.notifies:
            issued.add(("replies", 0))
        guard = ready | (needs if flush else set())
        yield ("execute", request, 0), guard, guard - ready, issued, self.machine.eager(request), self.accepted_survives
        if flush:
            for number in bits(plan.needs[request].unseen):
                writes = {("unseen", number)} | {("medium", i) for i in plan.updates[number].fields}
                own: Cells = {("pending", number), ("done", request)}
                yield ("unseen", request, number), ready | own, own, writes, False, True

    def _of_atomic(self, request: int, ready: Cells, needs: Cells, issued: Cells) -> Iterator[Described]:
        """Its operand is read; later it has executed, and its result is on its way."""
        plan, operation = self.plan, self.plan.requests[request]
        variable = plan.index[operation.names[0]]
        others = [j for j, kind in enumerate(plan.kinds) if kind is RequestKind.ATOMIC and j != request]
        at_it: Cells = set()
        if self.machine.returns_visible(Event.ATOMIC_RESULT, variable):
            at_it = {(cell, j) for j in others for cell in ("value", "done")}
            at_it |= {("pending", n) for n in bits(plan.atomics_mask & plan.word_mask[variable])}
        reads = needs | at_it | self._seen(Event.ATOMIC_RESULT, variable)
        yield ("read", request, 0), ready | needs | at_it, reads, {("value", request)}, False, False
        yield ("execute", request, 0), {("value", request)}, set(), issued, False, self.accepted_survives

    # to memory --------------------------------------------------------------------------------------------
    def _placed(self, update: Update) -> Described:
        plan, number = self.plan, update.number
        reads, writes, takes_away = self._placing(update)
        guard: Cells = {("pending", number)}
        if update.request < 0:
            guard |= self._own()
            writes = writes | {("stored", number)}
        elif plan.kinds[update.request] is RequestKind.ATOMIC_WRITE:
            needs = self._needs(plan.needs[update.request])
            guard, reads = guard | needs, reads | needs
        else:
            qp = plan.requests[update.request].qp
            guard |= {
                ("pending", u.number) for u in plan.updates if u.request >= 0 and plan.requests[u.request].qp == qp
            }
        return ("place", number, 0), guard, reads, writes, False, takes_away

    # B ----------------------------------------------------------------------------------------------------
    def _of_b(self) -> Iterator[Described]:
        plan = self.plan
        unsettled: Cells = {("pending", u.number) for u in plan.updates if u.request < 0}
        """The updates of B's own, which a fence may wait for."""
        for i, step in enumerate(plan.program):
            guard: Cells = {("B", i - 1)}
            reads: Cells = set()
            writes: Cells = {("B", i)}
            takes_away = False
            target = str(plan.layout.target[plan.variables[step.variable]]) if step.variable >= 0 else ""
            match step.verb:
                case "recv":
                    turn = plan.qps.index(step.operation.qp)
                    for j, operation in enumerate(plan.requests):
                        if operation.verb in RECEIVED and operation.qp == step.operation.qp:
                            reads |= self._needs(plan.received[j])
                    guard |= reads | {("received", turn)}
                case "st" | "ntst":
                    assert step.update is not None
                    writes |= {("stored", step.update.number), ("pending", step.update.number)}
                case "write back" | "clflush":
                    line = plan.line_of[step.variable]
                    mine = {("dirty", n) for n in bits(plan.line_mask[line])}
                    reads |= mine | self._own()
                    unsettled |= mine | {("pending", n) for n in bits(plan.line_mask[line])}
                case "clflushed":
                    guard |= unsettled
                case "fence":
                    guard |= unsettled | self._own()
                case "spin":
                    reads |= self._seen(Event.LOAD, step.variable) | self._own() | self._barred(Event.LOAD, target)
                    guard |= reads
                case "pmrsts":
                    reads |= self._barred(Event.STATUS_READ, DEVICE)
                    guard |= reads
                case "awake" | "answer":
                    for j, operation in enumerate(plan.requests):
                        if operation.packet is not None and operation.packet.by_thread:
                            reads |= self._needs(plan.needs[j]) | {("done", k) for k in bits(plan.before[j])}
                            guard |= reads | self._arrived(j) | {("done", j)}
                            if step.verb == "answer":
                                writes.add(("done", j))
                case "reply" | "tell":
                    guard |= self._own()
                    if step.verb == "reply":
                        writes.add(("replies", 0))
                case "ld":
                    barred = self._barred(Event.LOAD, target)
                    reads |= self._seen(Event.LOAD, step.variable) | self._own() | barred
                    guard |= barred
                case "cpucas":
                    assert step.update is not None
                    barred = self._barred(Event.LOAD, target)
                    reads_placed, placed, takes_away = self._placing(step.update)
                    reads |= reads_placed | barred | self._seen(Event.LOAD, step.variable)
                    writes |= placed
                    guard |= unsettled | self._own() | barred
            yield ("B", i, 0), guard, reads, writes, step.verb not in RAW_OF_B, takes_away
