"""The abstract machine of a litmus test: states, and the steps that the rule table admits in each.

Requests of a queue pair arrive at B's adapter in the order of the posts and execute when ``executed_before`` lets them
and their needs are met. The payload of a WRITE, a SEND or an atomic then waits in its queue pair's way to memory (one
for each kind of destination) and becomes visible at any later time: in order where placement is strict, in any order
else, word by word unless lines are whole. A line's visible content is written back at any time. B's core has a store
buffer, A's core has one over its local variables. Each line that an outcome asks the medium for has a second content,
the one that would survive a power failure now: so a crash is no step, but a look at that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from ....models.durability.rules import Event, RequestKind
from ....sim.trace import Stage
from ..language.program import CrashMoment
from .cores import Action, Cores, State, bits, replace_at
from .plan import RECEIVED, LitmusPlan

LEAVES = {
    "media": "the line of {} reaches the medium",
    "pmr": "the device makes the line of {} persistent",
}
"""The write-back of a line in words, by domain, where it does not lead into the write pending queue."""


class Move(NamedTuple):
    """A step as the explorer sees it: which action it is, what happens, in words, and the state after it."""

    action: Action
    text: str
    state: State


class AbstractMachine(Cores):
    """Steps of one plan. ``start`` is the initial state; ``moves`` yields what may happen next.

    Unless ``reduced``, a step that shuts out no other is tried like all others: more states, the same answers.
    """

    def __init__(self, plan: LitmusPlan, reduced: bool = True) -> None:
        super().__init__(plan)
        self._reduced = reduced
        self._eager = [eager and reduced for eager in plan.eager]
        self._ways: list[tuple[str, object]] = sorted(
            {(plan.requests[u.request].qp, u.target) for u in plan.updates if u.request >= 0},
            key=lambda way: (way[0], str(way[1])),
        )
        self._way_of = {
            u.number: self._ways.index((plan.requests[u.request].qp, u.target))
            for u in plan.updates
            if u.request >= 0
        }  # fmt: skip
        self._chunks = {
            i: [[plan.index[name] for name in unit] for unit in plan.units(plan.requests[i].names)]
            for i, kind in enumerate(plan.kinds)
            if kind is RequestKind.READ
        }
        self._domain = plan.profile.domain
        self.accepted_survives = any(stage is Stage.ACCEPTED for stage in self._safe)

    def start(self, log: list[str] | None = None) -> State:
        """The state before anything but what happens by itself."""
        plan = self.plan
        zeros = (0,) * len(plan.variables)
        values = tuple(
            (None,) * len(operation.names) if operation.request is RequestKind.READ else None
            for operation in plan.requests
        )
        state = State(
            a=0, b=0, a_stores=(), local=(0,) * len(plan.locals), b_stores=(), weak=0, strong=0, done=0, values=values,
            ways=((),) * len(self._ways), loose=0, memory=zeros, medium=zeros,
            queued=zeros if plan.past_llc else (), pending=0, dirty=0, unseen=0,
            received=((),) * len(plan.qps), replies=0, registers=(None,) * len(plan.b_registers),
            relay=0, stop=-1 if plan.crash is CrashMoment.A else len(plan.test.a), lost=0,
        )  # fmt: skip
        return self.settle(state, log)

    def settle(self, state: State, log: list[str] | None = None) -> State:
        """Let everything happen that shuts out nothing: A's program, most of B's, the acceptance of WRITEs."""
        while self._reduced and state.stop >= 0:
            following = (
                self.run_a(state, log)
                or self.run_b(state, log)
                or self.run_relay(state, log)
                or self._accept_eagerly(state, log)
            )
            if following is None:
                break
            state = following
        return state

    def eager(self, request: int) -> bool:
        """Whether a request is accepted, or answered, by itself as soon as it may be."""
        return self._eager[request]

    def chunks(self, request: int) -> list[list[int]]:
        """The variables of a READ, grouped by the part of memory that it reads at once."""
        return self._chunks[request]

    # requests at B's adapter ----------------------------------------------------------------------------
    def _may_execute(self, state: State, request: int, arrived: int) -> bool:
        missing = self.plan.before[request] & ~(state.done | state.lost)
        return bool(arrived >> request & 1) and not state.done >> request & 1 and not missing

    def _accept_eagerly(self, state: State, log: list[str] | None) -> State | None:
        arrived = self.arrived(state)
        for request in bits(arrived & ~state.done):
            flush = self.plan.kinds[request] is RequestKind.FLUSH
            if not self._eager[request] or not self._may_execute(state, request, arrived):
                continue
            if not (flush and self._behind(state, request)):
                if log is not None:
                    log.append(self._accepted(request))
                return self._accept(state, request)
        return None

    def _accepted(self, request: int) -> str:
        does = "answers" if self.plan.kinds[request] is RequestKind.FLUSH else "accepts"
        return f"B's adapter {does} {self.plan.requests[request].text}"

    def _behind(self, state: State, request: int) -> bool:
        return self.plan.needs[request].behind(state.pending, state.dirty, state.unseen)

    def _accept(self, state: State, request: int) -> State:
        """A WRITE, SEND, ATOMIC WRITE or FLUSH executes; its payload is on its way."""
        plan, operation = self.plan, self.plan.requests[request]
        state = state._replace(done=state.done | 1 << request)
        if operation.packet is not None and operation.packet.notifies:
            state = state._replace(replies=state.replies + 1)
        if operation.verb in RECEIVED:
            turn = plan.qps.index(operation.qp)
            waiting = (*state.received[turn], request)
            state = state._replace(received=replace_at(state.received, turn, waiting))
        return self._issue(state, request)

    def _issue(self, state: State, request: int) -> State:
        plan = self.plan
        for tlp in plan.tlps[request]:
            state = state._replace(pending=state.pending | tlp)
            if plan.kinds[request] is RequestKind.ATOMIC_WRITE:
                state = state._replace(loose=state.loose | tlp)
                continue
            turn = self._way_of[tlp.bit_length() - 1]
            way = state.ways[turn]
            way = (*way, tlp) if plan.strict else ((way[0] if way else 0) | tlp,)
            state = state._replace(ways=replace_at(state.ways, turn, way))
        return state

    def moves(self, state: State) -> Iterator[Move]:
        """Everything that may happen next; what then happens by itself is not in it yet."""
        for action, text, following in self._raw(state):
            yield Move(action, text, following)

    def take(self, state: State, text: str, log: list[str]) -> State:
        """The step called ``text`` again, with what then happens by itself in ``log``."""
        log.append(text)
        return self.settle(next(after for _, name, after in self._raw(state) if name == text), log)

    def _raw(self, state: State) -> Iterator[tuple[Action, str, State]]:
        if state.stop < 0:
            yield from self._deaths(state)
            return
        if not self._reduced:
            relay = (self.run_relay, "B's adapter", state.relay)
            for run, program, at in ((self.run_a, "A", state.a), (self.run_b, "B", state.b), relay):
                following = run(state, None)
                if following is not None:
                    yield (program, at, 0), f"{program} goes on", following
        yield from self.local_steps(state)
        arrived = self.arrived(state)
        for request in bits(arrived & ~state.done):
            if self._may_execute(state, request, arrived):
                yield from self._execute(state, request)
        for turn, way in enumerate(state.ways):
            if way:
                yield from self._place_from(state, turn, way)
        for number in bits(state.loose):
            if not self._behind(state, self.plan.updates[number].request):
                after = state._replace(loose=state.loose & ~(1 << number))
                yield ("place", number, 0), f"{self._shown(state, number)} is placed", self.place(after, number)
        if state.dirty:
            yield from self._written_back(state)
        yield from self._unseen(state, arrived)
        yield from self.core_steps(state)

    def _deaths(self, state: State) -> Iterator[tuple[Action, str, State]]:
        """A loses power before one of its operations, and what it has posted does not arrive from some packet on."""
        program, requests = self.plan.test.a, self.plan.requests
        for stop in range(len(program) + 1):
            there = self._posted[stop]
            where = f"before {program[stop].text}" if stop < len(program) else "behind its list"
            for lost in self._losses(there):
                gone = ", ".join(requests[i].text for i in bits(lost))
                text = f"A is to lose power {where}" + (f"; what never arrives: {gone}" if gone else "")
                yield ("die", stop, lost), text, state._replace(stop=stop, lost=lost)

    def _losses(self, posted: int) -> Iterator[int]:
        """The sets of posted requests that may be lost: of each queue pair all from some request on."""
        in_order = "packets in order" in self.plan.table.cross_channel
        choices: list[list[int]] = []
        for qp in self.plan.qps:
            mine = [1 << i for i in bits(posted) if self.plan.requests[i].qp == qp]
            if in_order:
                choices.append([sum(mine[kept:]) for kept in range(len(mine), -1, -1)])
            else:
                choices += [[0, bit] for bit in mine]
        for chosen in product(*choices):
            yield sum(chosen)

    def _execute(self, state: State, request: int) -> Iterator[tuple[Action, str, State]]:
        kind = self.plan.kinds[request]
        if kind is RequestKind.READ:
            names = self.plan.requests[request].names
            held = any(self._barred(state, Event.READ_COMPLETION, self.plan.index[name]) for name in names)
            if not held and not self._behind(state, request):
                yield from self._read(state, request)
        elif kind is RequestKind.ATOMIC:
            yield from self._atomic(state, request)
        elif self._by_thread(request):
            return
        elif not self._eager[request] and not (kind is RequestKind.FLUSH and self._behind(state, request)):
            yield ("execute", request, 0), self._accepted(request), self._accept(state, request)

    def _by_thread(self, request: int) -> bool:
        packet = self.plan.requests[request].packet
        return packet is not None and packet.by_thread

    def _read(self, state: State, request: int) -> Iterator[tuple[Action, str, State]]:
        """One of the READ's chunks is read; they are read in any order."""
        operation, known = self.plan.requests[request], state.values[request]
        assert isinstance(known, tuple)
        for chunk, fields in enumerate(self._chunks[request]):
            turns = [operation.names.index(self.plan.variables[i]) for i in fields]
            if known[turns[0]] is not None:
                continue
            for found in product(*(self.returned(state, Event.READ_COMPLETION, i) for i in fields)):
                after = known
                for turn, value in zip(turns, found, strict=True):
                    after = replace_at(after, turn, value)
                done = state.done | (1 << request if None not in after else 0)
                seen = ", ".join(f"{self.plan.variables[i]}={v}" for i, v in zip(fields, found, strict=True))
                text = f"B's adapter reads {seen} for {operation.text}"
                yield (
                    ("read", request, chunk),
                    text,
                    state._replace(values=replace_at(state.values, request, after), done=done),
                )

    def _atomic(self, state: State, request: int) -> Iterator[tuple[Action, str, State]]:
        """The operand is read, behind the results of other atomics; later the result is on its way to memory."""
        operation, old = self.plan.requests[request], state.values[request]
        variable = self.plan.index[operation.names[0]]
        if old is not None:
            after = state._replace(done=state.done | 1 << request)
            writes = operation.verb == "FAA" or old == operation.values[0]
            text = f"B's adapter has done {operation.text}"
            yield ("execute", request, 0), text, self._issue(after, request) if writes else after
        elif not self._behind(state, request) and not self._atomics_at(state, variable):
            for value in self.returned(state, Event.ATOMIC_RESULT, variable):
                text = f"B's adapter reads {operation.names[0]}={value} for {operation.text}"
                yield ("read", request, 0), text, state._replace(values=replace_at(state.values, request, value))

    def _atomics_at(self, state: State, variable: int) -> bool:
        """Whether the adapter has another atomic on that word under way, whose result has to be visible first."""
        if not self.returns_visible(Event.ATOMIC_RESULT, variable):
            return False
        name, plan = self.plan.variables[variable], self.plan
        begun = any(
            state.values[i] is not None and not state.done >> i & 1
            for i, kind in enumerate(plan.kinds)
            if kind is RequestKind.ATOMIC and name in plan.requests[i].names
        )
        return begun or bool(state.pending & plan.atomics_mask & plan.word_mask[variable])

    # from the adapter to memory, from memory to the medium ---------------------------------------------------
    def _shown(self, state: State, number: int) -> str:
        update = self.plan.updates[number]
        value = self.value_of(state, number)
        return " and ".join(f"{self.plan.variables[i]}={value}" for i in update.fields)

    def _place_from(self, state: State, turn: int, way: tuple[int, ...]) -> Iterator[tuple[Action, str, State]]:
        for number in bits(way[0]):
            if self.plan.behind_in_block[number] & way[0]:
                continue
            left = way[0] & ~(1 << number)
            rest = (left, *way[1:]) if left else way[1:]
            after = state._replace(ways=replace_at(state.ways, turn, rest))
            yield ("place", number, 0), f"{self._shown(state, number)} becomes visible", self.place(after, number)

    def _written_back(self, state: State) -> Iterator[tuple[Action, str, State]]:
        plan = self.plan
        for line in plan.tracked:
            dirty = state.dirty & plan.line_mask[line]
            if dirty:
                names = ", ".join(plan.variables[i] for i, at in enumerate(plan.line_of) if at == line)
                where = LEAVES.get(self._domain, "the line of {} leaves for the write pending queue").format(names)
                yield ("write back", line, 0), where, self.write_back(state, line)

    def _unseen(self, state: State, arrived: int) -> Iterator[tuple[Action, str, State]]:
        """A FLUSH that is under way may make updates persistent that are not visible yet."""
        plan = self.plan
        for request in bits(arrived & ~state.done):
            if plan.kinds[request] is RequestKind.FLUSH and self._may_execute(state, request, arrived):
                for number in bits(plan.needs[request].unseen & state.pending & ~state.unseen):
                    unseen = state._replace(unseen=state.unseen | 1 << number)
                    text = f"{self._shown(state, number)} becomes persistent, unseen"
                    queued = self.stored(state.queued, number, unseen) if plan.past_llc else ()
                    medium = self.stored(unseen.medium, number, unseen)
                    yield ("unseen", request, number), text, unseen._replace(medium=medium, queued=queued)

    # the values that a look at a state shows --------------------------------------------------------------
    def media(self, state: State) -> set[tuple[int, ...]]:
        """The contents that B's medium may hold after a power failure in this state."""
        if not self.accepted_survives:
            return {state.medium}
        found: set[tuple[int, ...]] = set()  # requests that the adapter has accepted land first
        todo, seen = [state], {state}
        while todo:
            here = todo.pop()
            ways = [
                after for turn, way in enumerate(here.ways) if way for _, _, after in self._place_from(here, turn, way)
            ]
            for number in bits(here.loose):
                if not self._behind(here, self.plan.updates[number].request):
                    after = here._replace(loose=here.loose & ~(1 << number))
                    ways.append(self.place(after, number))
            if not ways:
                found.add(here.medium)
            for after in ways:
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        return found

    def a_finished(self, state: State) -> bool:
        """Whether A is through its list."""
        return state.a == len(self.plan.test.a)

    def ended(self, state: State) -> bool:
        """Whether both are, and nothing is under way; after A's death, whether nothing can happen any more."""
        if self.plan.crash is CrashMoment.A:
            return state.a == state.stop and next(self._raw(state), None) is None
        through = self.a_finished(state) and state.b == len(self.plan.program)
        posted = self.posted(state)
        return through and not state.pending and state.done == posted and self.run_relay(state, None) is None

    def registers(self, state: State) -> dict[str, int]:
        """The registers that have a value: A's once the request has completed."""
        found = {n: v for n, v in zip(self.plan.b_registers, state.registers, strict=True) if v is not None}
        complete = self.completed(state) if self.plan.crash is not CrashMoment.A else 0
        for request in bits(complete):
            known, names = state.values[request], self.plan.requests[request].registers
            for name, value in zip(names, known if isinstance(known, tuple) else (known,), strict=False):
                if value is not None:
                    found[name] = value
        return found
