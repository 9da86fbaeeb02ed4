"""A meter of a run: dependent round trips of operations, traffic by pair of machines, what schemes count themselves.

A system has one only where it is asked for (``System(..., metered=True)``): its threads are of a kind that reports, and
its adapters are listened to. All that happens, happens at the same instants with a meter and without.

*Depth* is counted in messages, one way each. A request is one deeper than all that its thread has heard of in this
operation; the completion of a one-sided request of this operation is two deeper than what its thread knew at the post,
a message that is received is one deeper than what its sender knew. A client's operation does not depend on a WRITE that
was posted before it began. An adapter that goes through a primitive's steps knows of the update that brought them: a
thread that it wakes is one deeper than its post, a message of its own another one. Requests under way together have one
depth. An operation's round trips are half the depth of what its client has heard at the end. What a thread finds in
memory is known by its last byte; where nobody knows who wrote it, and the thread had posted something, it counts as the
answer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from typing_extensions import override

from ..sim.clock import Clock
from .cpu import Deadline, Thread
from .cpu.software import Code
from .cpu.spinning import Seen
from .nic.nic import Nic
from .primitives.language import Step
from .primitives.order import PrimitiveOrder
from .verbs import RECEIVE_COMPLETIONS, SIGNALED, Opcode, QueuePair, SendWR, Span, WorkCompletion
from .verbs.opcodes import ATOMICS, NON_POSTED, RECEIVING, Status

ATOMIC_BYTES = 8
PLACED = frozenset({Opcode.IBV_WR_RDMA_WRITE, Opcode.PRIMITIVE_WRITE})
"""A thread may find what they carry where they have written it."""
HEARD = RECEIVE_COMPLETIONS | {Opcode.IBV_WC_DRIVER1}
"""Completions of what others have sent."""


@dataclass
class PairTraffic:
    """What has gone from one machine to another."""

    verbs: Counter[str] = field(default_factory=Counter)
    """Work requests posted, by verb."""
    messages: int = 0
    """Requests, and responses that carry a result (READ, atomics, FLUSH, ATOMIC WRITE); no acknowledgements."""
    payload_bytes: int = 0


FOUND = "DMA and polling"
"""The hop from an adapter to the thread that spins on what it writes."""


class GaugeSummary(NamedTuple):
    """A gauge over time: its mean weighted by time, its extremes, its last value."""

    mean: float
    least: float
    most: float
    last: float


class Gauge:
    """A value that stays until the next is set."""

    def __init__(self, clock: Clock, value: float) -> None:
        self._clock = clock
        self._since_ps = self._set_ps = clock.now_ps
        self._area = 0.0
        self.value = self._least = self._most = value

    def set(self, value: float) -> None:
        """It has this value from now on."""
        now_ps = self._clock.now_ps
        self._area += self.value * (now_ps - self._set_ps)
        self._set_ps, self.value = now_ps, value
        self._least, self._most = min(self._least, value), max(self._most, value)

    def summary(self) -> GaugeSummary:
        """Until now; the mean is over the time since its first value."""
        now_ps = self._clock.now_ps
        area, total_ps = self._area + self.value * (now_ps - self._set_ps), now_ps - self._since_ps
        return GaugeSummary(area / total_ps if total_ps else self.value, self._least, self._most, self.value)


class OperationCounts(NamedTuple):
    """What one operation has taken."""

    depth: int
    """Dependent messages, one way each: twice its round trips."""
    counts: Counter[str]
    """What the scheme's code counted for it."""


class Meter:
    """The meter of one system."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.traffic: dict[tuple[str, str], PairTraffic] = {}
        """By (from, to): the names of two machines."""
        self.counts: dict[str, Counter[str]] = {}
        """By machine: what its roles have counted, and its threads outside of any operation."""
        self.gauges: dict[tuple[str, str], Gauge] = {}
        """By (machine, name)."""
        self._of_span: dict[int, Counter[str]] = {}
        self.posted: dict[QueuePair, deque[tuple[int, int]]] = {}
        """By queue pair: (wr_id, depth) of the requests whose completions may still come, in order."""
        self.messages: dict[QueuePair, deque[int]] = {}
        """By queue pair that sends, of datagrams by the one that they go to: the depths of messages that nobody has
        received yet, in order."""
        self.written: dict[tuple[str, int], Span] = {}
        """By machine and last byte: whose WRITE goes there, until a thread that spins on that byte has found it."""
        self.depths: dict[tuple[str, int], tuple[int, int]] = {}
        """The same: the depth of that WRITE, and the instant of its post."""
        self.woken: dict[tuple[QueuePair, int], int] = {}
        """By queue pair and wr_id of the adapter's own event: the depth of the update whose steps wake a thread."""
        self._notified = 0
        """The depth of the update whose steps send a message now."""

    # what schemes count -----------------------------------------------------------------------------------------
    def count(self, machine: str, span: Span | None, name: str, number: int) -> None:
        """``number`` more of what is called ``name``: for the operation of ``span``, else for the machine."""
        if span is not None:
            self._of_span.setdefault(id(span), Counter())[name] += number
        else:
            self.counts.setdefault(machine, Counter())[name] += number

    def gauge(self, machine: str, name: str, value: float) -> None:
        """A machine's gauge has this value from now on."""
        known = self.gauges.get((machine, name))
        if known is None:
            self.gauges[machine, name] = Gauge(self._clock, value)
        else:
            known.set(value)

    # operations ---------------------------------------------------------------------------------------------------
    def begins(self, thread: Thread) -> None:
        """An operation begins on a client's thread, which knows nothing yet."""
        if isinstance(thread, MeteredThread):
            thread.depth, thread.unanswered, thread.invokes = 0, None, True
            thread.began_ps = self._clock.now_ps

    def ended(self, thread: Thread, span: Span) -> OperationCounts:
        """The operation of ``span``, a client's ``thread``'s, is over."""
        depth = thread.depth if isinstance(thread, MeteredThread) else 0
        return OperationCounts(depth, self._of_span.pop(id(span), Counter()))

    # threads and adapters -----------------------------------------------------------------------------------------
    def follow(self, thread: Thread, machine: str) -> None:
        """A new thread of a machine reports here."""
        if isinstance(thread, MeteredThread):
            thread.meter, thread.machine = self, machine

    def listen(self, nic: Nic) -> None:
        """Count what is posted to this adapter from now on."""
        ring, ring_list, originate = nic.ring, nic.ring_list, nic.originate

        def count_and_ring(qp: QueuePair, work: SendWR, payload: bytes) -> None:
            self._posts(qp, work)
            ring(qp, work, payload)

        def count_and_ring_list(qp: QueuePair, works: Sequence[SendWR], payloads: Sequence[bytes]) -> None:
            for work in works:
                self._posts(qp, work)
            ring_list(qp, works, payloads)

        def count_and_originate(qp: QueuePair, work: SendWR, payload: bytes) -> None:
            if not qp.error:
                self._posts(qp, work)
                self.sends(qp, work, 1 + self._notified)
            originate(qp, work, payload)

        nic.ring, nic.ring_list, nic.originate = count_and_ring, count_and_ring_list, count_and_originate

    def sends(self, qp: QueuePair, work: SendWR, depth: int) -> None:
        """A message of that depth leaves, which somebody is going to receive."""
        to = qp if work.destination is None else work.destination.end.qp
        self.messages.setdefault(to, deque()).append(depth)

    def followed(self, order: PrimitiveOrder, to: QueuePair | None, depth: int) -> PrimitiveOrder:
        """The same order, of an update of that depth to a queue pair, whose wake-ups and messages report here."""
        interrupt, notify = order.interrupt, order.notify

        def wake(steps: tuple[Step, ...], of: PrimitiveOrder, back: Callable[[], None]) -> int:
            assert interrupt is not None
            number = interrupt(steps, of, back)
            if to is not None:
                self.woken[to, number] = depth
            return number

        def send(step: Step, span: Any, key: int) -> None:
            assert notify is not None
            self._notified = depth
            notify(step, span, key)

        return replace(order, interrupt=interrupt and wake, notify=notify and send)

    def _between(self, here: str, there: str) -> PairTraffic:
        found = self.traffic.get((here, there))
        if found is None:
            found = self.traffic[here, there] = PairTraffic()
        return found

    def _posts(self, qp: QueuePair, work: SendWR) -> None:
        to = qp.peer if work.destination is None else work.destination.end.qp
        if to is None:
            return
        opcode, here, there = work.opcode, qp.device.name, to.device.name
        out = self._between(here, there)
        out.verbs[str(opcode)] += 1
        out.messages += 1
        if opcode in PLACED and work.span is not None and work.length:
            self.written[there, work.remote_address + work.length - 1] = work.span
        back_bytes = ATOMIC_BYTES if opcode in ATOMICS else work.length if opcode is Opcode.IBV_WR_RDMA_READ else 0
        if opcode in ATOMICS:
            out.payload_bytes += ATOMIC_BYTES * (1 + (opcode is Opcode.IBV_WR_ATOMIC_CMP_AND_SWP))
        elif opcode not in NON_POSTED or opcode is Opcode.IBV_WR_ATOMIC_WRITE:
            out.payload_bytes += work.length
        if opcode in NON_POSTED:
            back = self._between(there, here)
            back.messages += 1
            back.payload_bytes += back_bytes


class MeteredThread(Thread):
    """A thread that reports to its system's meter."""

    meter: Meter
    machine: str
    depth = 0
    """How deep the operation under way is, as far as this thread knows."""
    unanswered: int | None = None
    """The depth of the last post, as long as nothing has been heard since."""
    invokes = False
    """Whether it is a client's: it has operations of its own; others work for whoever wrote what they find."""
    began_ps = 0
    """When the operation under way began, of a client's."""

    @override
    def present_work(self) -> Any:
        return self.span, self.depth

    @override
    def take_up(self, work: Any) -> None:
        self.span, depth = work
        self.depth, self.unanswered = 0 if self.span is None else depth, None  # nobody knows whose work that is

    @override
    def count(self, name: str, number: int = 1) -> None:
        self.meter.count(self.machine, self.span, name, number)

    def _noted(self, qp: QueuePair, works: Iterable[SendWR]) -> None:
        for work in works:
            if work.send_flags in SIGNALED:
                self.meter.posted.setdefault(qp, deque()).append((work.wr_id, self.depth))
            if isinstance(work.order, PrimitiveOrder):
                to = qp.peer if work.destination is None else work.destination.end.qp
                work.order = self.meter.followed(work.order, to, self.depth)
            if work.opcode in RECEIVING:
                self.meter.sends(qp, work, self.depth)
            elif work.opcode in PLACED and qp.peer is not None and work.length:
                last = work.remote_address + work.length - 1
                self.meter.depths[qp.peer.device.name, last] = self.depth, self.now_ps
            self.unanswered = self.depth

    @override
    def post_send(self, qp: QueuePair, work: SendWR) -> Code:
        self._noted(qp, (work,))
        return super().post_send(qp, work)

    @override
    def post_list(self, qp: QueuePair, works: Sequence[SendWR]) -> Code:
        if len(works) > 1:  # one alone is posted by itself
            self._noted(qp, works)
        return super().post_list(qp, works)

    @override
    def _seen(self, completion: WorkCompletion) -> None:
        if completion.status is not Status.IBV_WC_SUCCESS:
            heard = self.depth
        elif completion.opcode in HEARD:
            heard = 1 + self._sent(completion)
            if completion.span is None or completion.span is not self.span:  # another operation's
                self.depth = heard
        else:
            heard = self._answered(completion)
            if completion.span is not self.span:  # of an operation before, which did not wait for it
                heard = self.depth
        super()._seen(completion)
        self.depth, self.unanswered = max(self.depth, heard), None

    def _sent(self, completion: WorkCompletion) -> int:
        """The depth of the message, or of the update, that has come."""
        if completion.opcode is Opcode.IBV_WC_DRIVER1:
            return self.meter.woken.pop((completion.qp, completion.wr_id), self.depth)
        sent = self.meter.messages.get(completion.qp.peer or completion.qp)
        return sent.popleft() if sent else self.depth

    def _answered(self, completion: WorkCompletion) -> int:
        """The depth of the answer to an own request."""
        posted = self.meter.posted.get(completion.qp)
        while posted:  # in order
            wr_id, depth = posted.popleft()
            if wr_id == completion.wr_id:
                return depth + 2
        return self.depth

    @override
    def spin(
        self, ranges: Sequence[Seen], deadline: Deadline | None = None, queue_pairs: Iterable[QueuePair] = ()
    ) -> Code:
        number = yield from super().spin(ranges, deadline, queue_pairs)
        if number is not None:
            address, seen = ranges[number]
            place = self.machine, address + len(seen) - 1
            before, written = self.span, self.meter.depths.pop(place, None)
            self._found(self.meter.written.pop(place, None))
            if written is not None:
                depth, posted_ps = written
                if not self.invokes or posted_ps >= self.began_ps:  # else the operation has not waited for it
                    self.depth = 1 + (depth if self.span is not before else max(depth, self.depth - 1))
                    self.unanswered = None
            elif self.unanswered is not None:
                self.depth, self.unanswered = max(self.depth, self.unanswered + 2), None
        return number

    def _found(self, span: Span | None) -> None:
        """The thread has found bytes that the operation of ``span`` has written, or nobody knows whose."""
        if not self.invokes:
            self.span = span
        if span is not None and span is self.span:
            span.mark(FOUND, self.now_ps)


class PartHistory:
    """Who did what to a part of a system that programs share, in the rows that ``rpsim check`` reads: an operation is
    noted twice, when it is invoked and when it has returned (``ok``).
    """

    def __init__(self, clock: Clock) -> None:
        self.rows: list[dict[str, Any]] = []
        self._clock = clock

    def add(self, process: str, kind: str, f: str, value: Any) -> None:
        """A process invokes an operation, or it returns, now."""
        self._note({"process": process, "type": kind, "f": f, "value": value})

    def crash(self) -> None:
        """The process that served the part has died: what it was at never returns."""
        if self.rows:
            self._note({"type": "crash", "node": "system"})

    def _note(self, row: dict[str, Any]) -> None:
        self.rows.append({**row, "time": self._clock.now_ps / 1000})
