"""The requester's part of a primitive: it posts updates in the way that the primitive needs, then its packets.

``persist`` does it for one operation and returns at the primitive's own end. ``post`` returns at once, with a ticket to
``wait`` for, so that operations may be under way together; with ``batching`` one run of the steps covers several.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..primitives.language import Step
from ..primitives.messages import FLAG, TRAILER, WINDOW_BITS, message_of
from ..primitives.order import PrimitiveOrder, Range, address_of
from ..primitives.plan import PrimitivePlan
from ..primitives.vocabulary import FOLLOWS, LEVELS, PLACEMENTS, UPDATE, VERBS
from ..verbs.objects import CompletedWithError, CompletionQueue, WorkCompletion
from ..verbs.opcodes import RECEIVE_COMPLETIONS, Opcode, SendFlags, Status
from ..verbs.work import RecvWR, SendWR

if TYPE_CHECKING:
    from ..cpu.software import Deadline
    from ..cpu.thread import Thread
    from ..system import Node
    from ..verbs.objects import QueuePair
    from .service import Service, ServiceEnd

Code = Generator[Any, Any, Any]
Update = tuple[int, bytes]
Flag = tuple[int, bytes]

BUFFERS = 256
"""How many requests' payloads may be under way: their buffers are used in turn."""
REPLIES = 64
"""Receive buffers for what answers."""
FLAG_BYTES = 8
WRITING = ("ATOMIC_WRITE", "WRITE", "FETCH_ADD")
"""Verbs of a ``send`` that write the flag, or count it up."""


class PrimitiveFailed(CompletedWithError):
    """A request of a primitive completed with an error."""


@dataclass
class Ticket:
    """Updates under way: ``places`` is where their bytes are to be looked for at the responder.

    A message that stays in its receive buffer counts with its trailer, without which nothing says where it belongs.
    """

    places: list[Range]
    targets: list[Range]
    """The ranges where they belong: other places for SENDs that are not copied yet."""
    rkey: int
    flag: Flag | None = None
    awaited: list[int] = field(default_factory=list)
    """Work requests whose completion is the end; or how many messages are, by their numbers."""
    posted: int = 0
    """The work request of its last update."""
    started: bool = False
    """The steps have been posted."""
    done: bool = False
    updates: int = 1


class SharedCompletions:
    """A completion queue of several queue pairs of one thread, which waits for whichever of them is next."""

    def __init__(self, thread: Thread, node: Node) -> None:
        self.thread = thread
        self.cq: CompletionQueue = node.create_cq()
        self.takers: dict[int, Callable[[WorkCompletion], None]] = {}
        """By the number of a queue pair: who takes its completions; what nobody takes is dropped."""

    def take_next(self, deadline: Deadline | None = None) -> Code:
        """Poll for one completion, and give it to its taker; returns False where the deadline passes before."""
        completion = yield from self.thread.poll(self.cq, deadline)
        if completion is not None and completion.qp.number in self.takers:
            self.takers[completion.qp.number](completion)
        return completion is not None


class PrimitiveRequester:
    """The requester's side of a primitive on one queue pair."""

    def __init__(
        self,
        service: Service,
        end: ServiceEnd,
        thread: Thread,
        node: Node,
        qp: QueuePair,
        flag: int,
        shared: SharedCompletions | None = None,
        patience: str | None = None,
    ) -> None:
        self._shared = shared
        self._patience = patience if qp.reliable else None
        if shared is not None:
            shared.takers[qp.number] = self.take
        self.service = service
        self.plan = service.plan
        self._copies = _copies(service.plan)
        self.thread = thread
        self.node = node
        self.qp = qp
        self.packets = 0
        """Requests posted so far."""
        self._end = end
        self._flag_address = flag
        self._flags = itertools.count(1)
        self._numbers = itertools.count(1)
        self._completed = 0
        """The number of the last work request that has completed: they do so in order."""
        self._messages = self._answers = 0
        """Messages that are the end and have come; how many the tickets up to the last one need."""
        self._failure: WorkCompletion | None = None
        """The first completion with an error: the queue pair does nothing more."""
        self._sent_messages = 0
        self.under_way: deque[str] = deque()
        """Messages on their way to the responder: what each carries (``update``, or a step's id)."""
        self._open: deque[Ticket] = deque()
        """Posted and not done, in order."""
        self._batch: list[Ticket] = []
        """Tickets under way whose steps have not been posted."""
        self._buffers: list[tuple[int, int]] = [(0, 0)] * BUFFERS
        self._built_at: int | None = None
        """Where the program builds its updates; None: it has them in registered memory already."""
        self._dram = node.memory["dram"]
        self._inline_bytes = node.nic.parameters.inline_max_bytes
        self._replies = self._dram.allocate(64 * REPLIES, "replies")
        if self.plan.tells:
            for number in range(REPLIES):
                qp.post_recv(RecvWR(number, self._replies + 64 * number, 64))

    @property
    def slots(self) -> list[int]:
        """The responder's receive buffers, in the order in which messages fill them."""
        return self._end.slots

    def build_updates(self, room: int) -> None:
        """From now on the program stores each update, of at most ``room`` bytes, into a buffer before it is posted, as
        it builds a message. One update may be under way.
        """
        self._built_at = self._dram.allocate(room + self.plan.trailer_bytes, "message buffer", align=64)

    # the whole --------------------------------------------------------------------------------------------------
    def persist(self, updates: Iterable[Update], flag: Flag | None = None) -> Code:
        """Make updates durable as far as the primitive goes; returns where their bytes are to be looked for.

        ``flag`` is what steps write that name a flag (None: a word of this queue pair, counting up). Raises
        :class:`PrimitiveFailed`, and ValueError for addresses that are not registered.
        """
        ticket = yield from self.post(updates, flag)
        yield from self.wait(ticket)
        return ticket.places

    def post(self, updates: Iterable[Update], flag: Flag | None = None) -> Code:
        """As ``persist``, without waiting for the end; returns a :class:`Ticket`.

        Steps that poll wait all the same. With ``batching`` the steps are posted with the last update of a batch.
        """
        ticket = yield from self._write(list(updates), flag)
        self._batch.append(ticket)
        if sum(each.updates for each in self._batch) >= self.service.primitive.batching:
            yield from self._run_batch()
        return ticket

    def wait(self, ticket: Ticket) -> Code:
        """Wait until the primitive has ended for this ticket; earlier tickets end first."""
        if not ticket.started:
            yield from self._run_batch()
        by_message = self.plan.by_message
        while not self.ended(ticket):
            if by_message and self._patience is not None:
                if not (yield from self._take_next(self.qp.recv_cq, self.thread.deadline(self._patience))):
                    yield from self._look_after()
            else:
                yield from self._take_next(self.qp.recv_cq if by_message else self.qp.send_cq)

    def ended(self, ticket: Ticket) -> bool:
        """Whether the primitive has ended for this ticket, as far as completions have been taken.

        Raises :class:`PrimitiveFailed` if a request of the queue pair failed before.
        """
        count = self._messages if self.plan.by_message else self._completed
        while self._open and self._open[0].started and (self._open[0].awaited or (0,))[-1] <= count:
            self._open.popleft().done = True
        if self._failure is not None and not ticket.done:
            raise PrimitiveFailed(self._failure)
        return ticket.done

    # its halves -------------------------------------------------------------------------------------------------
    def write(self, updates: Iterable[Update]) -> Code:
        """Post updates alone; returns where their bytes are to be looked for."""
        ticket = yield from self._write(list(updates), None)
        self._open.remove(ticket)
        return ticket.places

    def requests(self, ranges: Sequence[Range]) -> list[SendWR]:
        """The work requests of the steps about some ranges, for a program that posts and awaits them by itself."""
        _, region = self.service.region_of(ranges[0][0])
        ticket = Ticket(list(ranges), list(ranges), region.key)
        return [self._request(step, ticket) for step in self.plan.requester if step.do == "send"]

    def flush(self, ranges: Sequence[Range], flag: Flag | None = None) -> Code:
        """The primitive's steps alone, about ranges that are written already; returns at its end."""
        _, region = self.service.region_of(ranges[0][0])
        ticket = Ticket(list(ranges), list(ranges), region.key, self._flag(flag))
        self._open.append(ticket)
        self._batch.append(ticket)
        yield from self.wait(ticket)

    # updates ----------------------------------------------------------------------------------------------------
    def _write(self, updates: list[Update], flag: Flag | None) -> Code:
        """Post the updates; the ones by which the end is known are signalled."""
        if not updates:
            raise ValueError("no updates to persist")
        targets = [(address, len(data)) for address, data in updates]
        _, region = self.service.region_of(targets[0][0])
        room = self.service.slot_bytes - self._end.header_bytes - self.plan.trailer_bytes
        for address, length in targets:
            if not region.covers(address, length):
                raise ValueError(
                    f"{length} bytes at {address:#x} are not in the region that the first update begins in"
                )
            if self.plan.follows == "SEND" and length > room:
                raise ValueError(f"an update of {length} bytes, while receive buffers take {room}")
        ticket = Ticket(targets, targets, region.key, self._flag(flag), updates=len(updates))
        self._open.append(ticket)
        copies = self._copies
        for number, (address, data) in enumerate(updates):
            last = number == len(updates) - 1
            place, work, payload = self._update(address, data, ticket)
            yield from self._build(work, payload)
            if place is not None and not copies:
                ticket.places = [place if at == number else one for at, one in enumerate(ticket.places)]
                ticket.rkey = self.service.region_of(place[0])[1].key
            polled = any(step.do == "poll" and step["of"] == UPDATE for step in self.plan.requester)
            if last and (polled or (self.plan.awaited == UPDATE and not self.plan.by_message)):
                work.send_flags |= SendFlags.IBV_SEND_SIGNALED
                ticket.awaited = [work.wr_id]
                ticket.posted = work.wr_id
            yield from self._post(work)
        if self.plan.awaited == UPDATE and self.plan.by_message:
            self._answers += len(updates)
            ticket.awaited = [self._answers]
        return ticket

    def _update(self, address: int, data: bytes, ticket: Ticket) -> tuple[Range | None, SendWR, bytes]:
        """Where an update stays that is not copied, its work request, and what travels."""
        number, region = self.service.region_of(address)
        opcode, program = FOLLOWS[self.plan.follows], self.plan.programs.get(UPDATE)
        place = None
        work = self._work(opcode, 0, 0, address, region.key)
        payload = data
        if self.plan.follows == "SEND":
            payload = data + TRAILER.pack(address, len(data)) + self._carried_flag(UPDATE, ticket)
            slot = self._end.slots[self._sent_messages % len(self._end.slots)]
            place = slot + self._end.header_bytes, len(payload)
        elif self.plan.follows == "WRITE_WITH_IMM":
            offset = address - region.address
            if offset >> WINDOW_BITS or number >> (32 - WINDOW_BITS):
                raise ValueError(f"an immediate cannot name the byte {offset} of region {number}")
            work.imm_data = number << WINDOW_BITS | offset
        if self.plan.follows != "WRITE":
            self._sent_messages += 1
            self.under_way.append(UPDATE)
        if program is not None:
            work.opcode = Opcode.PRIMITIVE_SEND if self.plan.follows == "SEND" else Opcode.PRIMITIVE_WRITE
            where = (address, len(data)) if place is None or self._copies else place
            work.order = self._order(UPDATE, [where], ticket.flag)
        return place, work, payload

    def _build(self, work: SendWR, payload: bytes) -> Code:
        """Put an update where the adapter finds it: the program stores it there, or has it somewhere already."""
        if self._built_at is None:
            self._fill(work, payload)
            return
        yield from self.thread.store(self._built_at, payload)
        self._name(work, self._built_at, len(payload))

    def _fill(self, work: SendWR, payload: bytes) -> None:
        """Put a payload where the adapter finds it: the program has it in registered memory already."""
        turn = work.wr_id % BUFFERS
        address, size = self._buffers[turn]
        if size < len(payload):
            size = max(64, len(payload))
            address = self._dram.allocate(size, "payload", align=64)
            self._buffers[turn] = address, size
        self._dram.space.poke(address - self._dram.base, payload)
        self._name(work, address, len(payload))

    def _name(self, work: SendWR, address: int, length: int) -> None:
        """A work request's payload lies there; it goes inline where it fits."""
        work.local_address, work.length = address, length
        if length <= self._inline_bytes:
            work.send_flags |= SendFlags.IBV_SEND_INLINE

    # steps ------------------------------------------------------------------------------------------------------
    def _run_batch(self) -> Code:
        """Post the steps, once, for all tickets that wait for theirs."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        whole = replace(batch[-1])
        whole.places = [place for ticket in batch for place in ticket.places]
        whole.targets = [target for ticket in batch for target in ticket.targets]
        sent: dict[str, int] = {UPDATE: batch[-1].posted}
        fenced = False
        for step in self.plan.requester:
            match step.do:
                case "wait":
                    yield from self.thread.work(step["takes"])  # type: ignore[arg-type]
                    self._mark(step)
                case "fence":
                    fenced = True
                case "poll":
                    yield from self._until(sent[str(step["of"])])
                    self._mark(step)
                case "send":
                    work = self._request(step, whole)
                    if fenced:
                        work.send_flags |= SendFlags.IBV_SEND_FENCE
                    fenced = False
                    sent[step.id] = work.wr_id
                    yield from self._post(work)
        for ticket in batch:
            ticket.started = True
            if self.plan.awaited != UPDATE:
                if self.plan.by_message:
                    ticket.awaited = [self._answers + 1]
                else:
                    ticket.awaited = [sent[self.plan.awaited]]
        if self.plan.awaited != UPDATE and self.plan.by_message:
            self._answers += 1

    def _mark(self, step: Step) -> None:
        if self.thread.span is not None:
            self.thread.span.mark(step.hop, self.thread.now_ps)

    def _request(self, step: Step, ticket: Ticket) -> SendWR:
        """The work request of a ``send``."""
        verb = step["verb"]
        if verb is None:
            order = self._order(step.id, ticket.targets if self._copies else ticket.places, ticket.flag)
            address, length = order.address(str(step["address"]))
            work = self._work(Opcode.PRIMITIVE, 0, length, address, ticket.rkey)
            work.order = order
        elif verb == "SEND":
            work = self._work(VERBS["SEND"], 0, 0, 0, 0)
            self._fill(work, message_of(ticket.places) + self._carried_flag(step.id, ticket))
            self._sent_messages += 1
            self.under_way.append(step.id)
        else:
            work = self._verb(step, str(verb), ticket)
        if self._is_signalled(step):
            work.send_flags |= SendFlags.IBV_SEND_SIGNALED
        return work

    def _verb(self, step: Step, verb: str, ticket: Ticket) -> SendWR:
        word = str(step["address"])
        flag = ticket.flag if word == "flag" or verb in WRITING else None
        start = min(address for address, _ in ticket.places)
        span = start, max(address + length for address, length in ticket.places) - start
        address, length = address_of("flag" if flag is not None else word, span, flag)
        rkey = self.service.region_of(address)[1].key
        work = self._work(VERBS[verb], 0, length, address, rkey)
        match verb:
            case "READ":
                wanted = step["length"]
                assert isinstance(wanted, int)
                if word == "last byte":
                    work.remote_address = max(span[0], address + 1 - wanted) if wanted else address
                work.length = wanted
                self._fill(work, bytes(wanted))
                work.send_flags &= ~SendFlags.IBV_SEND_INLINE
            case "FLUSH":
                work.flush_type = PLACEMENTS[str(step["placement"])]
                work.flush_level = LEVELS[str(step["level"])]
            case "FETCH_ADD":
                work.compare_add = 1
                self._fill(work, bytes(FLAG_BYTES))
                work.send_flags &= ~SendFlags.IBV_SEND_INLINE
            case _:
                assert flag is not None
                self._fill(work, flag[1])
        return work

    def _carried_flag(self, carrier: str, ticket: Ticket) -> bytes:
        """The flag's bytes in a message whose chain at the responder names the flag."""
        if not self.plan.brings_flag(carrier):
            return b""
        assert ticket.flag is not None
        return FLAG.pack(*ticket.flag)

    def _is_signalled(self, step: Step) -> bool:
        polled = any(other.do == "poll" and other["of"] == step.id for other in self.plan.requester)
        return polled or (self.plan.awaited == step.id and not self.plan.by_message)

    def _order(self, carrier: str, ranges: Sequence[Range], flag: Flag | None) -> PrimitiveOrder:
        service, end = self.service, self._end
        program = self.plan.programs[carrier]
        return PrimitiveOrder(program, tuple(ranges), flag, service.interrupted(end), service.notify(end))

    def _flag(self, flag: Flag | None) -> Flag | None:
        """The flag of some updates: the caller's, or the next of this queue pair; None if no step writes one."""
        if flag is not None or not self.plan.flagged:
            return flag
        return self._flag_address, next(self._flags).to_bytes(FLAG_BYTES, "little")

    # work requests --------------------------------------------------------------------------------------------------
    def _work(self, opcode: Opcode, local: int, length: int, address: int, rkey: int) -> SendWR:
        return SendWR(next(self._numbers), opcode, local, length, address, rkey, send_flags=SendFlags.NONE)

    def _post(self, work: SendWR) -> Code:
        self.packets += 1
        if self._end.destination is not None:
            work.destination = self._end.qp
        return self.thread.post_send(self.qp, work)

    def _until(self, number: int) -> Code:
        """Poll until this work request has completed."""
        while self._completed < number:
            if self._failure is not None:
                raise PrimitiveFailed(self._failure)
            yield from self._take_next(self.qp.send_cq)

    def _look_after(self) -> Code:
        """No message comes: READ nothing at the responder, which fails if that is gone.

        Raises :class:`PrimitiveFailed`.
        """
        work = self._work(Opcode.IBV_WR_RDMA_READ, self._replies, 0, 0, 0)
        work.send_flags |= SendFlags.IBV_SEND_SIGNALED
        yield from self._post(work)
        yield from self._until(work.wr_id)

    def _take_next(self, queue: CompletionQueue, deadline: Deadline | None = None) -> Code:
        """Poll for the next completion, and give it to whom it belongs; False where the deadline passes before."""
        if self._shared is not None:
            return (yield from self._shared.take_next(deadline))
        completion = yield from self.thread.poll(queue, deadline)
        if completion is not None:
            self.take(completion)
        return completion is not None

    def take(self, completion: WorkCompletion) -> None:
        """A completion of this queue pair has been polled."""
        if completion.status is not Status.IBV_WC_SUCCESS:
            self._failure = self._failure or completion
        elif completion.opcode in RECEIVE_COMPLETIONS:
            self._messages += self.plan.is_end(completion.imm_data)
            self.thread.post_recv(self.qp, RecvWR(completion.wr_id, self._replies + 64 * completion.wr_id, 64))
        else:
            self._completed = completion.wr_id


def _copies(plan: PrimitivePlan) -> bool:
    """Whether a step copies."""
    steps = (*(s for p in plan.programs.values() for s in p.steps), *(s for c in plan.chains.values() for s in c))
    return any(step.do == "copy" for step in steps)
