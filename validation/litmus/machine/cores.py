"""The two cores of the abstract machine, its state, and how memory changes.

A's program never waits for anything but its store buffer, completions and B's reply; going on early shuts out nothing
for anybody, so it does. B's loads and locked operations are steps of their own: their values depend on the instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from ....models.durability.rules import Event, RequestKind, Scope, Target
from ....sim.trace import Stage
from .plan import LitmusPlan, ProgramStep, Relayed, Update

CORE_EVENTS = (Event.LOAD, Event.STATUS_READ, Event.SFENCE, Event.CLFLUSH, Event.DOORBELL)
HOST, DEVICE = str(Target.MEMORY), str(Target.PMR)
Value = int | None | tuple[int | None, ...]
Action = tuple[str, int, int]
"""A step's action: its kind, and the numbers of the request, update, line or place in a program that it concerns."""
_T = TypeVar("_T")


class State(NamedTuple):
    """A state: hashable, and equal to every state that allows the same future. Sets of updates are bit masks."""

    a: int
    b: int
    a_stores: tuple[tuple[int, int], ...]
    local: tuple[int, ...]
    b_stores: tuple[int, ...]
    weak: int
    """The updates that B's issued and not yet fenced write-backs wait for."""
    strong: int
    """The updates that a CLFLUSH under way waits for."""
    done: int
    """Requests that have executed."""
    values: tuple[Value, ...]
    """By request: the payload fetched, the values that a READ has returned, an atomic's old value."""
    ways: tuple[tuple[int, ...], ...]
    """By way to memory: the TLPs in it, each a set of updates."""
    loose: int
    """ATOMIC WRITEs that are not placed yet."""
    memory: tuple[int, ...]
    medium: tuple[int, ...]
    """The contents that would survive a power failure, of the lines that an outcome names."""
    queued: tuple[int, ...]
    """The contents of those lines that have been in the write pending queue, where the caches survive and the IIO's
    write cache does not.
    """
    pending: int
    """Issued and not visible."""
    dirty: int
    """Visible and not yet where they survive (of the lines that an outcome asks for)."""
    unseen: int
    """Persistent and not visible."""
    received: tuple[tuple[int, ...], ...]
    """By queue pair: SENDs that B has not taken."""
    replies: int
    registers: tuple[int | None, ...]
    relay: int
    """The operations of B's adapter that it is through with; a request of it is on its way."""
    stop: int
    """Before which of its operations A loses power; -1: it is not said yet."""
    lost: int
    """The requests of A that never arrive."""


def bits(mask: int) -> Iterator[int]:
    """The numbers in a mask, upwards."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def replace_at(items: tuple[_T, ...], index: int, item: Any) -> tuple[_T, ...]:
    """The tuple with one item changed."""
    return (*items[:index], item, *items[index + 1 :])


class Cores:
    """The steps of A's and B's cores, over a :class:`LitmusPlan`."""

    def __init__(self, plan: LitmusPlan) -> None:
        self.plan = plan
        operations = plan.test.a
        self._posted = [0]
        numbers = iter(range(len(operations)))
        self._number = [next(numbers) if operation.request else -1 for operation in operations]
        for number in self._number:
            self._posted.append(self._posted[-1] | (1 << number if number >= 0 else 0))
        self._relay_posts = [(1 << i, 1 << one.request) for i, one in enumerate(plan.relay) if one.request >= 0]
        self._last = [max(plan.earlier(i), default=-1) for i in range(len(plan.requests))]
        targets = [plan.layout.target[name] for name in plan.variables]
        self._target = [str(target) for target in targets]
        self._scopes = {
            (event, str(target)): plan.core_rules(event, target)
            for event in (*CORE_EVENTS, Event.READ_COMPLETION)
            for target in Target
        }
        self._shows = {
            (event, i): plan.returns(event, i)
            for event in (Event.READ_COMPLETION, Event.ATOMIC_RESULT, Event.LOAD)
            for i in range(len(plan.variables))
        }
        self._past_caches = {
            str(target): sum(u.bit for u in plan.updates if u.operation.verb == "ntst" and u.target is target)
            for target in Target
        }
        self._step_of = {step.update.number: i for i, step in enumerate(plan.program) if step.update is not None}
        self._safe = [plan.safe_stage(update) for update in plan.updates]

    # memory ---------------------------------------------------------------------------------------------
    def value_of(self, state: State, number: int) -> int:
        """The value that an update writes."""
        update = self.plan.updates[number]
        operation = update.operation
        if update.request < 0 or operation.request is not RequestKind.ATOMIC:
            fetched = update.request >= 0 and (operation.source or operation.element)
            payload = state.values[update.request] if fetched else operation.values[-1]
        elif operation.verb == "CAS":
            payload = operation.values[1]
        else:
            old = state.values[update.request]
            assert isinstance(old, int)
            payload = (old + operation.values[0]) % (1 << 64)
        assert isinstance(payload, int)
        return payload

    def stored(self, medium: tuple[int, ...], number: int, state: State) -> tuple[int, ...]:
        """The medium with one update in it."""
        for i in self.plan.updates[number].fields:
            medium = replace_at(medium, i, self.value_of(state, number))
        return medium

    def _covered(self, state: State) -> set[int]:
        """Variables whose persistent value is newer than the visible one."""
        return {i for number in bits(state.unseen) for i in self.plan.updates[number].fields}

    def place(self, state: State, number: int) -> State:
        """The state after an update became visible."""
        update, value, bit = self.plan.updates[number], self.value_of(state, number), 1 << number
        memory = state.memory
        for i in update.fields:
            memory = replace_at(memory, i, value)
        was_unseen = state.unseen & bit
        state = state._replace(memory=memory, pending=state.pending & ~bit, unseen=state.unseen & ~bit)
        if update.line not in self.plan.tracked or was_unseen:
            return state
        if self.plan.past_llc:
            state = self._taken_from_caches(state, update)
        if self._safe[number] <= Stage.VISIBLE:
            covered = self._covered(state)
            medium = state.medium
            for i in update.fields:
                medium = medium if i in covered else replace_at(medium, i, value)
            state = state._replace(medium=medium)
            if not self.plan.past_llc:
                return state
        return state._replace(dirty=state.dirty | bit)

    def _taken_from_caches(self, state: State, update: Update) -> State:
        """A DMA write past the caches takes its line along into the IIO's write cache, which is not certain to survive.

        Contents that had not been in the write pending queue may go with it: partial writes merge with the caches'
        contents.
        """
        if update.request < 0:
            return state
        medium, covered = state.medium, self._covered(state)
        for i, at in enumerate(self.plan.line_of):
            if at == update.line and i not in covered:
                medium = replace_at(medium, i, state.queued[i])
        return state._replace(medium=medium)

    def write_back(self, state: State, line: int) -> State:
        """The visible content of a line goes to where it survives."""
        medium = self.copied(state, line)
        queued = self.copied(state._replace(medium=state.queued), line) if self.plan.past_llc else state.queued
        return state._replace(medium=medium, queued=queued, dirty=state.dirty & ~self.plan.line_mask[line])

    def copied(self, state: State, line: int) -> tuple[int, ...]:
        """The medium with the visible content of a line."""
        covered, medium = self._covered(state), state.medium
        for i, at in enumerate(self.plan.line_of):
            if at == line and i not in covered:
                medium = replace_at(medium, i, state.memory[i])
        return medium

    def returns_visible(self, event: Event, variable: int) -> bool:
        """Whether every value that the event returns is visible to everybody."""
        return self._shows[event, variable]

    def scopes(self, event: Event, target: str) -> frozenset[Scope]:
        """The scopes of updates that an event at a kind of memory waits for."""
        return self._scopes[event, target]

    def coming(self, state: State, update: Update) -> bool:
        """Whether B has a store still before it."""
        return self._step_of[update.number] >= state.b

    def returned(self, state: State, event: Event, variable: int) -> list[int]:
        """Values that a read may return: coherent memory's, and those on their way there unless a rule forbids it."""
        found = [state.memory[variable]]
        if not self._shows[event, variable]:
            way = self.plan.word_mask[variable] & state.pending
            found += [self.value_of(state, n) for n in bits(way) if self.plan.updates[n].request >= 0]
        return list(dict.fromkeys(found))

    # requests, as A sees them ----------------------------------------------------------------------------
    def posted(self, state: State) -> int:
        """The requests of A, and of B's adapter, that have been posted or let go."""
        found = self._posted[state.a]
        for done, request in self._relay_posts:
            found |= request if state.relay & done else 0
        return found

    def completed(self, state: State) -> int:
        """The requests whose completion A may poll: they complete in order."""
        found = 0
        for request in bits(self.posted(state)):
            last = self._last[request]
            if (state.done | self.plan.silent) >> request & 1 and (last < 0 or found >> last & 1):
                behind = self.plan.ack[request].behind(state.pending, state.dirty, state.unseen)
                found |= 0 if behind else 1 << request
        return found

    def arrived(self, state: State) -> int:
        """The requests that B's adapter has: posted, their payload fetched, what their fence waits for completed."""
        found, complete = 0, self.completed(state)
        for request in bits(self.posted(state) & ~state.lost):
            last, operation = self._last[request], self.plan.requests[request]
            fetched = not (operation.source or operation.element) or state.values[request] is not None
            in_order = last < 0 or (found | state.lost) >> last & 1
            if fetched and in_order and not self.plan.fence[request] & ~complete:
                found |= 1 << request
        return found

    # A ------------------------------------------------------------------------------------------------
    def run_a(self, state: State, log: list[str] | None) -> State | None:
        """A's next operation, if nothing holds it back."""
        program = self.plan.test.a
        if state.a == len(program) or state.a >= state.stop:
            return None
        operation, request = program[state.a], self._number[state.a]
        after = state._replace(a=state.a + 1)
        if operation.verb == "st":
            local = self.plan.locals.index(operation.source)
            after = after._replace(a_stores=(*state.a_stores, (local, operation.values[0])))
        elif operation.verb == "poll":
            wanted = [i for i in bits(self._posted[state.a]) if self.plan.requests[i].qp == operation.qp]
            if sum(1 << i for i in wanted) & ~self.completed(state):
                return None
        elif operation.verb == "wait":
            if not state.replies:
                return None
            after = after._replace(replies=state.replies - 1)
        elif state.a_stores and Scope.CORE_EARLIER in self._scopes[Event.DOORBELL, HOST]:
            return None
        elif operation.inline and operation.source:
            local = self.plan.locals.index(operation.source)
            newest = [value for at, value in state.a_stores if at == local]
            payload = newest[-1] if newest else state.local[local]
            after = after._replace(values=replace_at(state.values, request, payload))
        if log is not None:
            log.append(f"A: {operation.text}")
        return after

    def local_steps(self, state: State) -> Iterator[tuple[Action, str, State]]:
        """A's store buffer drains; its adapter fetches payloads."""
        if state.a_stores:
            local, value = state.a_stores[0]
            after = state._replace(a_stores=state.a_stores[1:], local=replace_at(state.local, local, value))
            yield ("drain", 0, 0), f"A's store {self.plan.locals[local]}={value} becomes visible", after
        for request in bits(self.posted(state)):
            operation = self.plan.requests[request]
            if (operation.source or operation.element) and state.values[request] is None:
                what, value = self._fetched(state, request)
                text = f"{what} for {operation.text}"
                yield ("fetch", request, 0), text, state._replace(values=replace_at(state.values, request, value))

    def _fetched(self, state: State, request: int) -> tuple[str, int]:
        """What an adapter fetches now: a payload, or a work request whose bytes name it; in words, and the payload."""
        operation, plan = self.plan.requests[request], self.plan
        if request < plan.of_a:
            value = state.local[plan.locals.index(operation.source)]
            return f"A's adapter fetches {operation.source}={value}", value
        if operation.source:
            value = state.memory[plan.index[operation.source]]
            return f"B's adapter fetches {operation.source}={value}", value
        written = state.memory[plan.index[operation.element]]
        value = written if written and "work request in memory" in plan.table.cross_channel else operation.values[0]
        return f"B's adapter reads the work request: WRITE of {value},", value

    # B's adapter ----------------------------------------------------------------------------------------
    def run_relay(self, state: State, log: list[str] | None) -> State | None:
        """The next operation of B's adapter that nothing holds back."""
        for i, one in enumerate(self.plan.relay):
            if state.relay >> i & 1 or (one.before >= 0 and not state.relay >> one.before & 1):
                continue
            if not self._has_come(state, one) or sum(n for at, n in one.enables if state.relay >> at & 1) < one.turn:
                continue
            if log is not None:
                log.append(f"B's adapter: {one.operation.text}")
            return state._replace(relay=state.relay | 1 << i)
        return None

    def _has_come(self, state: State, one: Relayed) -> bool:
        """Whether the receive completions that a WAIT is for are there."""
        return all(
            request >= 0
            and state.done >> request & 1
            and not self.plan.received[request].behind(state.pending, state.dirty, state.unseen)
            for request in one.messages
        )

    def woken(self, state: State, qp: str) -> int | None:
        """The packet of a queue pair that has woken B's thread: its steps up to there are done."""
        arrived = self.arrived(state)
        for request in bits(arrived & ~state.done):
            operation = self.plan.requests[request]
            if operation.qp == qp and operation.packet is not None and operation.packet.by_thread:
                ready = not self.plan.before[request] & ~state.done
                behind = self.plan.needs[request].behind(state.pending, state.dirty, state.unseen)
                return request if ready and not behind else None
        return None

    # B ------------------------------------------------------------------------------------------------
    def run_b(self, state: State, log: list[str] | None) -> State | None:
        """B's next step, if nothing holds it back and going on at once shuts out nothing."""
        if state.b == len(self.plan.program):
            return None
        step = self.plan.program[state.b]
        following = self._b(state, step)
        if following is None:
            return None
        if log is not None and step.verb not in ("write back", "clflush"):
            log.append(f"B: {step.operation.text}")
        return following._replace(b=state.b + 1)

    def _b(self, state: State, step: ProgramStep) -> State | None:
        match step.verb:
            case "recv":
                turn = self.plan.qps.index(step.operation.qp)
                waiting = state.received[turn]
                if not waiting or self.plan.received[waiting[0]].behind(state.pending, state.dirty, state.unseen):
                    return None
                return state._replace(received=replace_at(state.received, turn, waiting[1:]))
            case "st" | "ntst":
                assert step.update is not None
                number = step.update.number
                return state._replace(b_stores=(*state.b_stores, number), pending=state.pending | 1 << number)
            case "write back" | "clflush":
                line = self.plan.line_of[step.variable]
                mask = self.plan.line_mask[line] & (state.dirty | self._own(state))
                event = Event.CLFLUSH if step.verb == "clflush" else Event.SFENCE
                waits = mask if Scope.FLUSHED in self._scopes[event, self._target[step.variable]] else 0
                return (
                    state._replace(strong=waits) if step.verb == "clflush" else state._replace(weak=state.weak | waits)
                )
            case "clflushed":
                return None if state.strong & self._unsettled(state) else state._replace(strong=0)
            case "fence":
                return state._replace(weak=0) if self._fenced(state) else None
            case "spin":
                allowed = step.operation.values[0] in self._loaded(state, step.variable)
                return state if allowed and not self._barred(state, Event.LOAD, step.variable) else None
            case "awake":
                return state if self.woken(state, step.operation.qp) is not None else None
            case "answer":
                request = self.woken(state, step.operation.qp)
                return None if request is None else state._replace(done=state.done | 1 << request)
            case "pmrsts":
                return None if self._held(state, Event.STATUS_READ, DEVICE) else state
            case "reply" | "tell":
                held = any(
                    self._own(state, target) and Scope.CORE_EARLIER in self._scopes[Event.DOORBELL, target]
                    for target in (HOST, DEVICE)
                )
                return None if held else state._replace(replies=state.replies + (step.verb == "reply"))
        return None

    def _own(self, state: State, target: str | None = None, past_caches: bool | None = False) -> int:
        """B's stores that are not visible yet, ordinary ones to ``target`` if not said otherwise."""
        found = 0
        for number in state.b_stores:
            update = self.plan.updates[number]
            fits = past_caches is None or (update.operation.verb == "ntst") == past_caches
            if fits and target in (None, str(update.target)):
                found |= 1 << number
        return found

    def _fenced(self, state: State) -> bool:
        """Whether an SFENCE, or what contains one, may be done."""
        for target in (HOST, DEVICE):
            scopes = self._scopes[Event.SFENCE, target]
            if Scope.CORE_EARLIER in scopes and self._own(state, target):
                return False
            past_caches = self._past_caches[target] & self._unsettled(state)
            if Scope.CORE_NT_EARLIER in scopes and past_caches:
                return False
        return not state.weak & self._unsettled(state)

    def _unsettled(self, state: State) -> int:
        """The updates that flushes and fences wait for: until the write pending queue has them, not for the medium."""
        return state.pending | (state.dirty if self.plan.safe <= Stage.QUEUED else 0)

    def _held(self, state: State, event: Event, target: str) -> bool:
        """Whether a read of a device waits: for this core's stores to it, for what its buffer holds."""
        scopes = self._scopes[event, target]
        own = Scope.CORE_EARLIER in scopes and self._own(state, target, past_caches=None)
        return bool(own) or (Scope.DEVICE_EARLIER in scopes and bool(state.dirty & self.plan.device_mask))

    def _barred(self, state: State, event: Event, variable: int) -> bool:
        return self._held(state, event, self._target[variable])

    def _loaded(self, state: State, variable: int) -> list[int]:
        """The values that a load of B may return: B's own latest store (to memory that is cached), or memory's."""
        own = [n for n in state.b_stores if variable in self.plan.updates[n].fields]
        if own and self._target[variable] == HOST:
            return [self.value_of(state, own[-1])]
        return self.returned(state, Event.LOAD, variable)

    def core_steps(self, state: State) -> Iterator[tuple[Action, str, State]]:
        """B's store buffers drain; it loads, or has a locked operation done."""
        before: set[object] = set()  # words, and the ways that keep order
        for number in state.b_stores:
            update = self.plan.updates[number]
            past_caches = update.operation.verb == "ntst"
            ways = {*update.fields} if past_caches else {*update.fields, str(update.target)}
            if not before & ways:
                after = state._replace(b_stores=tuple(n for n in state.b_stores if n != number))
                name = self.plan.variables[update.fields[0]]
                text = f"B's store {name}={update.operation.values[0]} becomes visible"
                yield ("place", number, 0), text, self.place(after, number)
            before |= ways
        if state.b == len(self.plan.program):
            return
        step = self.plan.program[state.b]
        if step.verb == "ld" and not self._barred(state, Event.LOAD, step.variable):
            for value in self._loaded(state, step.variable):
                registers = replace_at(state.registers, step.register, value)
                text = f"B: {step.operation.text} -> {value}"
                yield ("B", state.b, 0), text, state._replace(registers=registers, b=state.b + 1)
        elif step.verb == "cpucas" and self._fenced(state) and not self._barred(state, Event.LOAD, step.variable):
            assert step.update is not None
            old, number = state.memory[step.variable], step.update.number
            registers = replace_at(state.registers, step.register, old)
            after = state._replace(registers=registers, b=state.b + 1, weak=0)
            if old == step.operation.values[0]:
                after = self.place(after, number)
            yield ("B", state.b, 0), f"B: {step.operation.text} -> {old}", after
