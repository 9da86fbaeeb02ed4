"""The responder's part of a primitive: registered memory, receive buffers, and the thread that does the CPU's steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from ...sim.bytespace import LINE_BYTES
from ..cpu.software import Signal
from ..durability.places import Domain
from ..durability.rules import Target
from ..nic.packets import GRH_BYTES
from ..primitives.language import Primitive, Step
from ..primitives.messages import FLAG, TRAILER, TRAILER_BYTES, WINDOW_BITS, ranges_in
from ..primitives.order import PrimitiveOrder, Range
from ..primitives.plan import PrimitivePlan, plan
from ..primitives.vocabulary import UPDATE
from ..verbs.files import FileRegion
from ..verbs.objects import WorkCompletion
from ..verbs.opcodes import FLUSHES, REMOTE, Access, Opcode, QpType, SendFlags, Status
from ..verbs.work import ManagedQueue, MemoryRegion, RecvWR, SendWR
from .requester import PrimitiveRequester, SharedCompletions

if TYPE_CHECKING:
    from ..cpu.thread import Thread
    from ..system import Node
    from ..verbs.objects import CompletionQueue, QueuePair

Code = Generator[Any, Any, Any]

REPLY_BYTES = 8
SLOT_BYTES = (1 << 16) + GRH_BYTES + TRAILER_BYTES


class ServiceEnd:
    """The responder's end of one queue pair."""

    def __init__(self, qp: QueuePair, slots: list[int], reply: int, destination: QueuePair | None) -> None:
        self.qp = qp
        self.destination = destination
        """Of datagrams: the requester's."""
        self.header_bytes = 0 if destination is None else GRH_BYTES
        """The bytes before a message in its buffer."""
        self.slots = slots
        """Receive buffers, in the order in which messages fill them."""
        self.reply = reply
        """Where replies are built."""
        self.flag = 0
        """The word of its flag, if there is one."""
        self.left = False
        """Whether nothing more is done of what has come on it."""
        self.requester: PrimitiveRequester


class Service:
    """Serves one primitive on one node, for any number of queue pairs.

    ``receive_in`` names the memory device of the receive buffers, ``slots`` is how many each queue pair has, of
    ``slot_bytes`` each for an update and its trailer; where a message brings the flag too it has a line for that.
    ``follows`` and ``transport`` choose among the primitive's own.
    """

    def __init__(
        self,
        primitive: Primitive,
        node: Node,
        *,
        receive_in: str = "dram",
        slots: int = 16,
        slot_bytes: int = SLOT_BYTES,
        follows: str | None = None,
        transport: str | None = None,
    ) -> None:
        """Raises InputError for steps that cannot be executed in their order, ValueError for a transport or a way of
        updates that the primitive does not allow.
        """
        if follows is not None and follows not in primitive.follows:
            raise ValueError(f"{primitive.name} follows {', '.join(primitive.follows)}, not {follows}")
        if transport is not None and transport not in primitive.transport:
            raise ValueError(f"{primitive.name} is for {', '.join(primitive.transport)}, not {transport}")
        self.plan: PrimitivePlan = plan(primitive, follows)
        self.primitive = primitive
        self.node = node
        self.qp_type = QpType(transport or primitive.transport[0])
        self.receive_in = receive_in
        self.slots = slots if self.plan.messages else 0
        self.slot_bytes = slot_bytes + (LINE_BYTES if self.plan.brings_flag(UPDATE) else 0)
        self._spins = any(step.do == "watch" for program in self.plan.programs.values() for step in program.steps)
        """Its thread looks at memory in a loop, which nothing interrupts."""
        self.domain = node.process(node.name).alloc_pd()
        self._received, self._sent = node.create_cq(), node.create_cq()
        self.regions: list[MemoryRegion] = []
        """The regions that updates may go to; an immediate names them by their place here."""
        self._ends: dict[int, ServiceEnd] = {}
        self._spare: list[ServiceEnd] = []
        """Ends whose queue pairs are no more: the next ones have their buffers."""
        self._at: ServiceEnd | None = None
        """The end whose message or chain the thread is at."""
        self._moved = Signal(node.system.clock)
        """Raised when the thread has done with one."""
        self._interrupts = itertools.count(1)
        self._chains: dict[int, tuple[tuple[Step, ...], PrimitiveOrder, Callable[[], None], ServiceEnd]] = {}

    @property
    def needs_thread(self) -> bool:
        """Whether a thread has to run :meth:`serve`."""
        return self.plan.needs_thread

    # connections ------------------------------------------------------------------------------------------------
    def register(
        self, address: int, length: int, access: Access | None = None, page_bytes: int | None = None
    ) -> MemoryRegion:
        """Open a range of the node's memory to updates; by default it may also be flushed, where memory can be."""
        if access is None:
            access = self._open_to(address)
        region = self.domain.reg_mr(address, length, access, page_bytes)
        self.regions.append(region)
        return region

    def register_file(self, extents: Sequence[Range]) -> FileRegion:
        """Open a file to updates, whose addresses are offsets in it; it may also be flushed, where memory can be."""
        region = self.domain.reg_file_mr(extents, self._open_to(extents[0][0]))
        self.regions.append(region)
        return region

    def _open_to(self, address: int) -> Access:
        """What updates may do: flush too, where memory can be flushed."""
        device, _ = self.node.memory.locate(address)
        lasts = device.domain is not Domain.NONE and self.node.host.destination(address).target is Target.MEMORY
        return REMOTE | FLUSHES if lasts else REMOTE

    def register_by(self, thread: Thread, address: int, length: int, page_bytes: int | None = None) -> Code:
        """As :meth:`register`, by a program that runs: it takes the time to pin the pages."""
        access = self._open_to(address)
        region = yield from thread.reg_mr(self.domain, address, length, access=access, page_bytes=page_bytes)
        self.regions.append(region)

    def register_file_by(self, thread: Thread, extents: Sequence[Range]) -> Code:
        """As :meth:`register_file`, by a program that runs: it takes the time of an entry for each extent."""
        region = yield from thread.reg_file_mr(self.domain, extents, access=self._open_to(extents[0][0]))
        self.regions.append(region)

    def append_by(self, thread: Thread, region: FileRegion, address: int, length: int) -> Code:
        """A file that updates may go to grows, by a program that runs; returns the region as it is now."""
        found = yield from thread.append_extent(self.domain, region, address, length)
        self.regions[self.regions.index(region)] = found
        return found

    def in_memory(self, place: Range) -> list[Range]:
        """Where a range lies that updates name: in pieces, if it is a file's."""
        for region in self.regions:
            if isinstance(region, FileRegion) and region.covers(*place):
                return region.places(*place)
        return [place]

    def region_of(self, address: int) -> tuple[int, MemoryRegion]:
        """The region that an address lies in, and its number. Raises ValueError if it is not registered."""
        for number, region in enumerate(self.regions):
            if region.covers(address, 1):
                return number, region
        raise ValueError(f"the address {address:#x} is in no region that this service has registered")

    def connect(
        self,
        thread: Thread,
        node: Node,
        shared: SharedCompletions | None = None,
        *,
        managed: ManagedQueue | None = None,
        send_cq: CompletionQueue | None = None,
        arrived: CompletionQueue | None = None,
        patience: str | None = None,
    ) -> PrimitiveRequester:
        """A new queue pair for ``thread`` on ``node``: the client's end, which completes in a ``shared`` queue, or in
        two of its own (``send_cq`` may be one).

        It may be ``managed``. With ``arrived`` the responder's end is cross-channel, and what it receives completes
        there: messages that are not the primitive's. Who has waited with ``patience`` for a message of the responder's
        CPU (``"10 ms"``) looks whether that is still there; without it he waits for ever.
        """
        sent = shared.cq if shared is not None else send_cq or node.create_cq()
        both = shared is not None or bool(self.plan.tells and not self.plan.by_message)
        cqs = sent, sent if both else node.create_cq()
        theirs = node.process(thread.name).alloc_pd().create_qp(*cqs, self.qp_type, managed=managed)
        ours = self.domain.create_qp(
            self._sent, arrived or self._received, self.qp_type, cross_channel=arrived is not None
        )
        datagrams = self.qp_type is QpType.IBV_QPT_UD
        if not datagrams:
            ours.connect(theirs)
        dram = self.node.memory["dram"]
        memory = self.node.memory[self.receive_in]
        before = self._spare.pop() if self._spare else None
        slots = before.slots if before is not None else []
        if self.slots and before is None:
            first = memory.allocate(self.slots * self.slot_bytes, "receive buffers", align=4096)
            slots = [first + number * self.slot_bytes for number in range(self.slots)]
            self.register(first, self.slots * self.slot_bytes)
        for slot in slots:
            ours.post_recv(RecvWR(slot, slot, self.slot_bytes))
        if any(step.do == "copy" for program in self.plan.programs.values() for step in program.steps):
            self.node.nic.keep_messages(ours)
        reply = before.reply if before is not None else dram.allocate(64, "reply")
        end = self._ends[ours.number] = ServiceEnd(ours, slots, reply, theirs if datagrams else None)
        if self.plan.flagged:
            end.flag = before.flag if before is not None else self.flag_word()
        end.requester = PrimitiveRequester(self, end, thread, node, theirs, end.flag, shared, patience)
        return end.requester

    def leave(self, qp: QueuePair) -> Code:
        """Of a queue pair of this service that has been destroyed, and has all placed: the thread does nothing more of
        what has come on it, and the next one has its buffers. Returns when the thread is at nothing of it.
        """
        end = self._ends.pop(qp.number)
        end.left = True
        while self._at is end:
            yield self._moved.changed()
        self._spare.append(end)

    def fence(self) -> Code:
        """Let no queue pair in any more; returns when what they had accepted is visible, and nothing comes later."""
        ends, self._ends = list(self._ends.values()), {}
        for end in ends:
            end.qp.destroy()
        for end in ends:
            yield end.qp.placed()

    def flag_word(self) -> int:
        """A word for a queue pair's flag, in the memory that the first region is in."""
        if not self.regions:
            raise ValueError("no memory has been registered yet")
        first = self.regions[0]
        device, _ = self.node.memory.locate(
            first.extents[0].address if isinstance(first, FileRegion) else first.address
        )
        address = device.allocate(64, "flag", align=64)
        self.register(address, 64)
        return address

    # the thread -------------------------------------------------------------------------------------------------
    def serve(self, thread: Thread) -> Code:
        """Receive messages and interrupts, go through their steps, for ever."""
        while True:
            completion: WorkCompletion = yield from thread.poll(self._received, busy=self._spins)
            if completion.opcode is Opcode.IBV_WC_DRIVER1:
                steps, order, back, end = self._chains.pop(completion.wr_id)
                if end.left:
                    continue
                self._at = end
                thread.span = completion.span
                yield from self._chain(thread, steps, end, list(order.ranges), order.flag)
                if not steps or steps[0].do != "watch":
                    yield from thread.work(self.node.nic.parameters.post_wqe_ps)
                back()
            elif completion.status is Status.IBV_WC_SUCCESS and completion.qp.number in self._ends:
                yield from self._message(thread, completion)
            thread.span = self._at = None
            self._moved.set()

    def _message(self, thread: Thread, completion: WorkCompletion) -> Code:
        """Read the message's ranges, go through its chain, and give its buffer back."""
        end = self._at = self._ends[completion.qp.number]
        slot, chains, payload = completion.wr_id, self.plan.chains, None
        carrier, flag = end.requester.under_way.popleft(), b""
        if carrier in chains:
            if completion.imm_data is not None:
                number, offset = completion.imm_data >> WINDOW_BITS, completion.imm_data & ((1 << WINDOW_BITS) - 1)
                ranges = [(self.regions[number].address + offset, completion.byte_len)]
            elif carrier == UPDATE:
                behind = self.plan.trailer_bytes
                start, length = slot + end.header_bytes, completion.byte_len - end.header_bytes - behind
                trailer = yield from thread.load(start + length, behind)
                payload, ranges, flag = (start, length), [TRAILER.unpack_from(trailer)], trailer[TRAILER_BYTES:]
            else:
                length = completion.byte_len - end.header_bytes
                message = yield from thread.load(slot + end.header_bytes, length)
                if self.plan.brings_flag(carrier):
                    message, flag = message[: -FLAG.size], message[-FLAG.size :]
                ranges = ranges_in(message)
            yield from self._chain(thread, chains[carrier], end, ranges, FLAG.unpack(flag) if flag else None, payload)
        thread.post_recv(end.qp, RecvWR(slot, slot, self.slot_bytes))

    def _chain(
        self,
        thread: Thread,
        steps: tuple[Step, ...],
        end: ServiceEnd,
        targets: list[Range],
        flag: tuple[int, bytes] | None,
        payload: Range | None = None,
    ) -> Code:
        """Go through CPU steps; ``payload`` is where an update lies that came as a message, before its trailer."""
        targets = [piece for target in targets for piece in self.in_memory(target)]
        places = targets if payload is None else [(payload[0], payload[1] + self.plan.trailer_bytes)]
        for step in steps:
            match step.do:
                case "watch":  # the turn of the loop that finds it
                    yield from thread.load(places[0][0] + places[0][1] - 1, 1)
                case "compute":
                    yield from thread.work(step["takes"])  # type: ignore[arg-type]
                case "copy":
                    assert payload is not None
                    copied = payload[0]
                    for address, length in targets:
                        yield from thread.memcpy(address, copied, length)
                        copied += length
                    places = targets
                case "flush":
                    yield from self._flush(thread, step, places, flag)
                case "fence":
                    yield from thread.sfence()
                case "read pmrsts":
                    target = targets[0][0]
                    if self.node.host.destination(target).pmrwbm:
                        yield from thread.read_pmrsts(target)
                case "store flag":
                    assert flag is not None
                    yield from thread.store(*flag)
                case "reply":
                    yield from self.reply(thread, end, step)
            if thread.span is not None:
                thread.span.mark(step.hop, thread.now_ps)

    def _flush(self, thread: Thread, step: Step, places: list[Range], flag: tuple[int, bytes] | None) -> Code:
        word = str(step["instruction"])
        instruction = getattr(thread, self.node.cpu.flush_instruction if word == "best" else word)
        if step["lines"] == "flag":
            assert flag is not None
            places = [(flag[0], len(flag[1]))]
        for address, length in places:
            if step["lines"] == "last line":
                yield from instruction(address + length - 1, 1)
            else:
                yield from instruction(address, length)

    def reply(self, thread: Thread, end: ServiceEnd, step: Step) -> Code:
        """SEND a few bytes, unsignalled: that they come is the answer."""
        return thread.post_send(end.qp, self._message_of(step, end))

    def _message_of(self, step: Step, end: ServiceEnd) -> SendWR:
        """The message of a step. Where others send some as well its immediate says whose it is."""
        immediate, flags = self.plan.immediate(step), SendFlags.IBV_SEND_INLINE
        opcode = Opcode.IBV_WR_SEND if immediate is None else Opcode.IBV_WR_SEND_WITH_IMM
        work = SendWR(0, opcode, end.reply, REPLY_BYTES, send_flags=flags, destination=end.destination)
        work.imm_data = immediate or 0
        return work

    # programs of the adapter that need the thread -------------------------------------------------------------------
    def interrupted(self, end: ServiceEnd) -> Callable[[tuple[Step, ...], PrimitiveOrder, Callable[[], None]], int]:
        """Remembers a chain that an interrupt starts, and gives it a number."""

        def remember(steps: tuple[Step, ...], order: PrimitiveOrder, back: Callable[[], None]) -> int:
            number = next(self._interrupts)
            self._chains[number] = steps, order, back, end
            return number

        return remember

    def notify(self, end: ServiceEnd) -> Callable[[Step, Any, int], None]:
        """Sends the adapter's own message."""

        def send(step: Step, span: Any, key: int) -> None:
            work = self._message_of(step, end)
            work.span = span
            self.node.nic.originate(end.qp, work, bytes(REPLY_BYTES))

        return send


def serve(service: Service, thread: Thread) -> Code:
    """Run :meth:`Service.serve` of a service on a thread."""
    return service.serve(thread)
