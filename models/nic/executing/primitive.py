"""A primitive's program at the responder's adapter: its steps, on the components that everything else uses.

A run starts each step once the steps that it waits for have ended, so steps may overlap. A step takes the time of the
components that it uses. Its end is an event of the ordering rules about the writes that it was behind when it began:
the writes that a ``drain`` before it has passed on to PCIe, or preceding updates of the queue pair where the step says
so. A step that no other step waits for proves nothing, however late its answer comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ....sim.trace import NEVER, Chunk
from ...durability.ordering import Covered
from ...durability.places import Domain
from ...durability.rules import Event, Placement, RequestKind, Target
from ...primitives.language import Step
from ...primitives.order import PrimitiveOrder, Range
from ...primitives.vocabulary import StepPlace
from ...verbs.objects import WorkCompletion
from ...verbs.opcodes import Opcode, Status
from ...verbs.ties import STEP, STEP_REQUESTS
from ..adapter import Adapter
from ..inbound import Proof
from ..message import mark
from ..packets import GRH_BYTES
from .known import KnownFacts, Written, together

if TYPE_CHECKING:
    from ..ends import ReceiveEnd
    from ..message import Message
    from ..protection import Regions
    from ..staging import Gate
    from .order import Running


def execute(nic: Adapter, end: ReceiveEnd, message: Message, not_before_ps: int, running: Running) -> None:
    """It is the turn of a packet of a primitive's own, which may have no effect before ``not_before_ps``."""
    run = PrimitiveRun(nic, end, message, running)
    if not_before_ps > nic.clock.now_ps:
        nic.clock.hardware(not_before_ps, message.key + STEP, run.start, None)
    else:
        run.start(None)


def arrived(nic: Adapter, end: ReceiveEnd, message: Message) -> None:
    """The last packet of an update has been accepted on whose arrival the adapter acts."""
    run = PrimitiveRun(nic, end, message, end.order.begin(RequestKind.FLUSH))
    if end.reliable and run.order.program.answers:
        end.responses.expect(message)
    elif end.reliable:
        nic.answers.acknowledge(end, message, end.inbound.acknowledged(nic.regions.place(message.work)))
    run.start(None)


def in_memory(regions: Regions, key: int, order: PrimitiveOrder) -> PrimitiveOrder:
    """An order whose ranges are where a file's bytes lie in memory, if the key is a file's."""
    if not regions.files:
        return order
    pieces = tuple(piece for address, length in order.ranges for piece in regions.places(key, address, length))
    return replace(order, ranges=pieces)


class PrimitiveRun:
    """One execution of a primitive's program."""

    def __init__(self, nic: Adapter, end: ReceiveEnd, message: Message, running: Running) -> None:
        self.nic = nic
        self.end = end
        self.message = message
        assert isinstance(message.work.order, PrimitiveOrder)
        self.order = in_memory(nic.regions, message.work.rkey, message.work.order)
        self._pieces = nic.regions.places(message.work.rkey, *message.work.order.span)
        """Where the bytes lie in memory from the first of its updates to the last."""
        program = self.order.program
        running.holds = frozenset(map(RequestKind, program.holds))
        self._running = running
        self._gate: Gate | None = None
        """Where the epoch ends, once it has an entry of the persist buffer."""
        self._waits = {step.id: set(program.after[step.id]) for step in program.steps}
        self._number = {step.id: number for number, step in enumerate(program.steps)}
        self._left = len(program.steps)
        self._known: dict[str, KnownFacts] = {}
        """By step: the facts that are certain when it begins; once it has ended, those that are certain then."""
        self._answer: Proofs | None = None
        """The proofs by the answer."""

    # the order of steps ---------------------------------------------------------------------------------------
    def start(self, _: object) -> None:
        """Begin with the steps that wait for nothing."""
        for step in [step for step in self.order.program.steps if not self._waits[step.id]]:
            self._begin(step, ())

    def _begin(self, step: Step, before: tuple[str, ...]) -> None:
        if self.end.gone and (self._gate is None or self.nic.off_ps < NEVER):
            return  # what is left of the program goes with the queue pair, unless writes in the buffer wait for it
        self._known[step.id] = together([self._known[name] for name in before])
        _DO[step.place, step.do](self, step)

    def _end(self, step: Step, *proofs: Proof) -> None:
        """A step has ended: start the steps that waited for it."""
        self._known[step.id] = self._known[step.id].proved(*proofs)
        mark(self.message, step.hop, self.nic.clock.now_ps)
        program = self.order.program
        for other in program.steps:
            waits = self._waits[other.id]
            if step.id in waits:
                waits.discard(step.id)
                if not waits:
                    self._begin(other, program.after[other.id])
        self._left -= 1
        if not self._left:
            self._over()

    def _over(self) -> None:
        """All steps have ended: their proofs hold for every request executed behind them."""
        every = tuple(dict.fromkeys(chain.from_iterable(map(attrgetter("proofs"), self._known.values()))))
        if every:
            proof = self._answer if self._answer is not None and self._answer.of == every else Proofs(every)
            self.end.inbound.executed(RequestKind.FLUSH, proof, self._running.holds)
        if self._gate is not None:
            self.nic.responder.drain.open_gate(self.end, self._gate)
        self.end.order.end(self._running, self.nic.clock.now_ps)

    def _later(self, step: Step, at_ps: int, then: Callable[[Step], None]) -> None:
        self.nic.clock.hardware(at_ps, self._key(step), then, step)

    def _key(self, step: Step, request: int = 0) -> int:
        return self.message.key + STEP + self._number[step.id] * STEP_REQUESTS + request

    def _observe_before(self, step: Step) -> None:
        """The proofs by the steps before it hold from now on: another effect comes behind them."""
        for proof in self._known[step.id].proofs:
            proof(self.nic.clock.now_ps)

    # the adapter ------------------------------------------------------------------------------------------------
    def _drain(self, step: Step) -> None:
        nic = self.nic
        owners = [self.end] if step["of"] == "queue pair" else [qp.end.receive for qp in nic.queue_pairs]
        known = self._known[step.id] = self._known[step.id].drains(owner.inbound.accepted() for owner in owners)
        proofs = []
        for channels, flags in (known.drained or {}).values():
            lanes, releases = tuple(channels.items()), tuple(flags.items())
            proofs.append(Proof(partial(nic.ordering.happened, Event.STAGING_DRAINED, qp=lanes, releases=releases)))
        waiting = {"n": 1}

        def left() -> None:
            waiting["n"] -= 1
            if not waiting["n"]:
                at_ps = max(nic.clock.now_ps, nic.slot.link.free_ps)
                self._later(step, at_ps, lambda step: self._end(step, *proofs))

        for owner in owners:
            waiting["n"] += nic.responder.drain.behind(owner, left)
        left()

    def _takes(self, step: Step) -> None:
        duration_ps = step["takes"]
        assert isinstance(duration_ps, int)
        self._later(step, self.nic.clock.now_ps + duration_ps, self._end)

    def _compute(self, step: Step) -> None:
        """The step's engine takes one packet after the other, if it is busy with each for a while."""
        takes_ps, occupies_ps, now_ps = step["takes"], step["occupies"], self.nic.clock.now_ps
        assert isinstance(takes_ps, int) and isinstance(occupies_ps, int | None)
        engines = self.nic.responder.engines
        start_ps = now_ps if occupies_ps is None else max(now_ps, engines.get(step.id, 0))
        if occupies_ps is not None:
            engines[step.id] = start_ps + occupies_ps
        self._later(step, start_ps + takes_ps, self._end)

    def _buffer(self, step: Step) -> None:
        entries = step["entries"]
        assert isinstance(entries, int)

        def entered() -> None:
            self._gate = self.nic.responder.drain.close(self.end)
            self._end(step)

        self.end.order.enter(self._running, entries, entered)

    def _copy(self, step: Step) -> None:
        """The payloads have to be in their buffers: parts of them that wait in staging go first."""
        if not self.nic.responder.drain.behind(self.end, partial(self._copy_now, step)):
            self._copy_now(step)

    def _copy_now(self, step: Step) -> None:
        """Read each message's payload, and write it where it belongs; only messages of this queue pair are here."""
        nic, messages = self.nic, self.end.messages
        assert messages is not None
        ranges = self.order.ranges[: len(messages)]
        left = {"n": len(ranges)}
        if not ranges:
            self._end(step)
            return

        def copied(target: Range, data: bytes, _: list[Chunk]) -> None:
            if self.end.gone:
                return
            nic.responder.post_write(self.end, self.message, RequestKind.WRITE, Placement.STRICT, data, target[0])
            left["n"] -= 1
            if not left["n"]:
                self._end(step)

        nic.slot.settle(self._key(step))
        for number, target in enumerate(ranges):
            message = messages.popleft() + (0 if self.end.qp.peer is not None else GRH_BYTES)
            nic.slot.dma.read(self._key(step, 1 + number), message, target[1], partial(copied, target))

    def _write_flag(self, step: Step) -> None:
        flag = self.order.flag
        assert flag is not None
        self._observe_before(step)
        self.nic.responder.post_write(self.end, self.message, RequestKind.WRITE, Placement.STRICT, flag[1], flag[0])
        self._end(step)

    def _interrupt(self, step: Step) -> None:
        """The thread's chain is part of this step, and reports its own proofs."""
        self._observe_before(step)
        self.nic.slot.complete(self.end.qp.recv_cq, self._wakes(step, partial(self._rung, step)), self._key(step))

    def _wakes(self, step: Step, back: Callable[[], None]) -> WorkCompletion:
        """The completion that starts a chain on the thread; the thread calls ``back`` at its end."""
        order = self.order
        assert order.interrupt is not None
        number = order.interrupt(order.program.chains[step.id], order, back)
        return WorkCompletion(number, Status.IBV_WC_SUCCESS, Opcode.IBV_WC_DRIVER1, 0, self.end.qp, self.message.span)

    def _watch(self, step: Step) -> None:
        """The thread spins, and finds the last byte once it is visible: it looks at it itself (``Service``)."""
        nic, queue = self.nic, self.end.qp.recv_cq
        visible_ps = self.end.inbound.lanes(self.order.span[0]).placed_ps
        found = self._wakes(step, partial(self._end, step))
        self._later(step, max(nic.clock.now_ps, visible_ps), lambda _: queue.push(found))

    def _rung(self, step: Step) -> None:
        """The thread has done its part and rings the doorbell."""
        self._later(step, self.nic.clock.now_ps + self.nic.parameters.doorbell_ps, self._end)

    def _acknowledge(self, step: Step) -> None:
        nic, now_ps = self.nic, self.nic.clock.now_ps
        if self.end.gone:
            self._end(step)
            return
        proofs = self._known[step.id].proofs
        proof = self._answer = Proofs(proofs) if proofs else None
        if self.message.opcode is Opcode.PRIMITIVE:
            nic.answers.answer(self.end, self.message, now_ps, b"", proof)
        elif self.end.reliable:
            nic.answers.acknowledge(self.end, self.message, proof)
        self._end(step)

    def _notify(self, step: Step) -> None:
        self._observe_before(step)
        assert self.order.notify is not None
        self.order.notify(step, self.message.span, self._key(step))
        self._end(step)

    # PCIe and the root complex ----------------------------------------------------------------------------------
    def _placement(self, step: Step) -> Placement:
        """How the step's request is ordered behind writes."""
        return self.end.inbound.placement(step["relaxed"] is True and self.nic.regions.relaxed(self.message.work.rkey))

    def _observer(
        self, event: Event, step: Step, address: int, placement: Placement, returned: list[Chunk] | None = None
    ) -> Proof:
        """The report of ``event`` on a request to ``address``: about the writes that were drained before it."""
        host = self.nic.host
        to = host.destination(address)
        lanes, releases = self._known[step.id].lanes(to.number)
        observe = partial(
            self.nic.ordering.happened,
            event,
            here=host.circumstances(address, placement),
            qp=tuple(lanes.items()),
            releases=tuple(releases.items()),
            returned=returned if returned is not None else (),
            device=to.number if to.target is Target.PMR and returned is not None else None,
            issued_ps=self.nic.clock.now_ps,
        )
        return Proof(observe)

    def _see(self, step: Step, address: int, placement: Placement) -> None:
        """The request pushes writes drained before it: they are visible once the root complex has looked at it."""
        host = self.nic.host
        here = host.circumstances(address, placement)
        if self.nic.ordering.rules(Event.ZERO_LENGTH_READ, here):
            known = self._known[step.id]
            self._known[step.id] = known.sees(*known.lanes(host.destination(address).number))

    def _read(self, step: Step) -> None:
        nic, length, placement = self.nic, step["length"], self._placement(step)
        assert isinstance(length, int)
        start, whole = self.order.address(str(step["address"]))
        address = max(0, start + whole - length) if step["address"] == "last byte" else start
        returned: list[Chunk] = []
        if length:
            observe = self._observer(Event.READ_COMPLETION, step, address, placement, returned)
        else:
            observe = self._observer(Event.ZERO_LENGTH_READ, step, address, placement)
        self._see(step, address, placement)

        def done(_: bytes, chunks: list[Chunk]) -> None:
            returned.extend(chunks)
            self._end(step, observe)

        nic.slot.settle(self._key(step))
        relaxed = placement is Placement.RELAXED and not self.nic.switches.reads_push_relaxed
        placed_ps = 0 if relaxed else self.end.inbound.lanes(address).placed_ps
        nic.slot.dma.read(self._key(step, 1), address, length, done, by_line=True, not_before_ps=placed_ps)

    def _request(self, step: Step) -> None:
        nic, end, behind = self.nic, self.end, step["behind"]
        if behind == "drained":
            self._ask(step, self._placement(step))
        elif not nic.responder.drain.behind(end, partial(self._ask, step)):
            self._ask(step)

    def _ask(self, step: Step, placement: Placement = Placement.STRICT) -> None:
        nic, behind = self.nic, step["behind"]
        address = self.order.span[0]
        if behind == "drained":
            observe = self._observer(Event.ZERO_LENGTH_READ, step, address, placement)
            self._see(step, address, placement)
        else:
            lanes, releases = self.end.inbound.accepted().get(nic.host.destination(address).number, ((), ()))
            self._known[step.id] = self._known[step.id].sees(dict(lanes), dict(releases))
            covered, _ = self._covered(step, str(behind))
            observe = Proof(self.end.inbound.observer(Event.FLUSH_GLOBAL, address, covered=covered))

        def look(ready_ps: int, back_ps: int) -> None:
            self._known[step.id] = replace(self._known[step.id], back_ps=back_ps)
            proofs = (observe,) if step["promise"] else ()
            self._later(step, ready_ps, lambda step: self._end(step, *proofs))

        nic.slot.settle(self._key(step))
        relaxed = placement is Placement.RELAXED and not self.nic.switches.reads_push_relaxed
        placed_ps = 0 if relaxed else self.end.inbound.lanes(address).placed_ps
        nic.slot.dma.request(self._key(step, 1), address, 0, look, not_before_ps=placed_ps)

    def _complete(self, step: Step) -> None:
        nic = self.nic
        answered_ps = nic.slot.link.read_completion(nic.clock.now_ps + self._known[step.id].back_ps, 0)
        self._later(step, answered_ps, self._end)

    def _covered(self, step: Step, extent: str) -> tuple[list[Covered], list[Covered]]:
        """Updates in an extent: the ones that are certainly visible when this step begins, and all."""
        nic = self.nic
        if extent == "region":
            pieces = nic.regions.all_places(self.message.work.rkey)
        elif extent == "drained":
            device, _ = nic.host.memory.locate(self.order.span[0])
            pieces = [(device.base, device.space.size_bytes)]
        else:
            pieces = self._pieces
        behind = self._known[step.id].behind or {}
        ends: list[ReceiveEnd] = [qp.end.receive for qp in nic.queue_pairs]
        owners = [end for end in ends if end is self.end or any(c in behind for c in _channels(end))]
        found = [piece for end in owners for piece in end.inbound.covered(pieces)]
        every = [piece for piece in found if piece.chunk.kept_ps <= nic.clock.now_ps]  # not those of later epochs
        certain = [piece for piece in every if piece.chunk.position < behind.get(piece.chunk.channel, 0)]
        return certain, every

    def _write_back(self, step: Step) -> None:
        nic = self.nic
        host, keep = nic.host, step.do == "write back" and nic.responder.flush_keeps_lines
        certain, every = self._covered(step, str(step["lines"]))
        device, _ = host.memory.locate(self.order.span[0])
        done_ps = issued_ps = nic.clock.now_ps
        written: list[Written] = []
        if not host.peer_of(self.order.span[0]):
            for line in sorted({line for piece in every for line in piece.lines}):
                queued_ps = host.flush_line(device, line, issued_ps, keep)
                written.append(Written(device, queued_ps, host.home.stored_ps(device.number, line)))
                done_ps = issued_ps
                issued_ps += nic.responder.flush_issue_ps
        known = self._known[step.id]
        lines, covered = (*known.written, *written), (*known.covered, *certain)
        self._known[step.id] = replace(known, written=lines, covered=covered)
        self._later(step, done_ps, self._end)

    def _wait(self, step: Step) -> None:
        now_ps = self.nic.clock.now_ps
        known = self._known[step.id]
        event = Event.LINES_QUEUED
        if step.place is StepPlace.MEDIUM:
            event = Event.LINES_STORED
        elif step["until"] == "persistent":
            event = Event.FLUSH_PERSISTENT
        done_ps = now_ps
        for line in known.written:
            persistent = event is Event.FLUSH_PERSISTENT and line.device.domain is Domain.MEDIA
            stored = persistent or event is Event.LINES_STORED
            done_ps = max(done_ps, line.queued_ps, line.stored_ps if stored else 0)
        observe = Proof(self.end.inbound.observer(event, self.order.span[0], covered=known.covered))
        self._later(step, done_ps, lambda step: self._end(step, observe))


class Proofs(Proof):
    """Several proofs as one: all are reported together."""

    __slots__ = ("of",)

    def __init__(self, of: tuple[Proof, ...]) -> None:
        super().__init__(self._observe_all)
        self.of = of

    def _observe_all(self, at_ps: int) -> None:
        for proof in self.of:
            proof(at_ps)


def _channels(end: ReceiveEnd) -> list[int]:
    return [channel for lanes, releases in end.inbound.accepted().values() for channel, _ in (*lanes, *releases)]


_DO: dict[tuple[StepPlace, str], Callable[[PrimitiveRun, Step], Any]] = {
    (StepPlace.RESPONDER_NIC, "drain"): PrimitiveRun._drain,
    (StepPlace.RESPONDER_NIC, "look up"): PrimitiveRun._takes,
    (StepPlace.RESPONDER_NIC, "compute"): PrimitiveRun._compute,
    (StepPlace.RESPONDER_NIC, "buffer"): PrimitiveRun._buffer,
    (StepPlace.RESPONDER_NIC, "copy"): PrimitiveRun._copy,
    (StepPlace.RESPONDER_NIC, "write flag"): PrimitiveRun._write_flag,
    (StepPlace.RESPONDER_NIC, "interrupt"): PrimitiveRun._interrupt,
    (StepPlace.RESPONDER_CPU, "watch"): PrimitiveRun._watch,
    (StepPlace.WIRE, "acknowledge"): PrimitiveRun._acknowledge,
    (StepPlace.WIRE, "notify"): PrimitiveRun._notify,
    (StepPlace.PCIE, "read"): PrimitiveRun._read,
    (StepPlace.PCIE, "request"): PrimitiveRun._request,
    (StepPlace.PCIE, "complete"): PrimitiveRun._complete,
    (StepPlace.LLC, "write back"): PrimitiveRun._write_back,
    (StepPlace.LLC, "invalidate"): PrimitiveRun._write_back,
    (StepPlace.IMC, "wait"): PrimitiveRun._wait,
    (StepPlace.MEDIUM, "wait"): PrimitiveRun._wait,
}
