"""The back-end: it holds the structures' memory, and replays their memory logs.

Source: rNVM, sections 3.3, 4.2 and 5.5, algorithm 3. Front-ends reach its memory by one-sided RDMA and tell it nothing:
a thread for each log looks for the next transaction, verifies its checksum, stores its entries, flushes their lines and
moves the LPN on. The sequence number of the structure is odd meanwhile. Among the entries of a batch is the operation
log's LPN: so what is replayed and which operations are done change together.

What the paper leaves open is read so. The thread flushes a transaction in the log before it stores the first entry,
unless the platform says that what is visible lasts (``pmem_has_auto_flush``): half a transaction in the data needs the
log. It flushes the data before the sequence number is even and before the LPN moves. Where it copies its logs to a
mirror (:mod:`.mirror`) another thread copies the operations. After a failure it replays whole transactions from the LPN
on and gives the next one a number that no record has which is left in the ring: of records that had been on their way
at once, a later one may have come and the one before not.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from ...models.cpu import Signal, Thread
from ...models.cpu.looking import Looking
from ...models.durability.places import Domain
from ...models.persist.requester import PrimitiveFailed
from ...models.persist.service import Service
from ...models.storage.waiting import Lock
from ...models.system import Node
from ...models.verbs import QueuePair
from ..parts.onesided import VerbsError
from ..parts.rpc import Listener
from ..scheme import Role
from .area import Area, AreaLayout, Loading, word_of
from .link import Link
from .mirror import PIECE, Copies, Mirror, OwnMemory
from .records import LINE, WORD, NoTransactionError, Position, RecordHead, Write, body_at, head_of, lines_of, writes_of
from .rfp import CallRequest, RfpServer
from .slabs import ALLOCATE

if TYPE_CHECKING:
    from ..structures.structure import Structure
    from .mode import RnvmMode

Code = Generator[Any, Any, Any]

_AUTOMATIC = frozenset({Domain.EADR, Domain.WSP, Domain.NONE})
"""The domains that need no flush of what is visible; what no failure leaves needs none either."""


class BackEndGone(Exception):
    """The back-end has died while a front-end was taking a structure over, or another takes it over now."""


class Writer:
    """The front-end that writes a structure, as the connection manager of the back-end knows it."""

    def __init__(self, ends: Sequence[QueuePair]) -> None:
        self.ends = ends
        """The back-end's ends of its queue pairs."""


class TakeOver:
    """A structure that a front-end takes over, as the connection manager of the back-end knows it: nobody else takes it
    over, and no reader comes to it, until that is done or has failed.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        """The connection of who takes it over."""
        self._adapter = link.node.nic
        self._failed = False
        self._waiting: list[Signal] = []

    @property
    def abandoned(self) -> bool:
        """Whether it has failed, be it that who takes over is dead: another has to do it from its beginning."""
        node = self.link.node
        dead = node.off or node.nic is not self._adapter  # be its power back or not
        return self._failed or dead or any(end.error for end in self.link.ends())

    def end(self, *, failed: bool = False) -> None:
        """It is done, or has failed: those that wait look again."""
        self._failed = failed
        for signal in self._waiting:
            signal.set()
        self._waiting.clear()

    def ended(self, thread: Thread, server: Node) -> Code:
        """Wait for its end, or until one of the two machines is found dead: look again."""
        signal = Signal(thread.clock)
        self._waiting.append(signal)
        for end in self.link.ends():
            end.watchers.append(signal.set)
        for node in (self.link.node, server):
            node.watched_by.append(signal)
        yield from thread.wait(signal)


class BackEnd(Role, memory=("dram", "pm"), cores=8):
    """The machine with the structures: a core for calls, the others for the threads of the logs."""

    scheme: Structure
    logged: ClassVar[bool] = True
    """Whether there are logs, which it replays."""

    def __init__(self, scheme: Structure, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.mode: type[RnvmMode] = scheme.mode  # type: ignore[assignment]
        self.pm = node.memory["pm"]
        log_bytes = self.mode.log_bytes() if self.logged else 0
        self.areas, self.start_of_memory, self.length = AreaLayout.on(self.pm, scheme, log_bytes)
        self.loaded_bytes = [0] * len(self.areas)
        """By structure: how many bytes of data there are at first."""
        self.loaded_keys: list[Sequence[int]] = [()] * len(self.areas)

    def load(self, number: int, entries: Mapping[int, bytes]) -> None:
        """Before time zero: a structure that holds these, and its lines of the naming area; so has the mirror."""
        for machine in (self, *self.scheme.roles.get("mirror", ())):
            area = machine.areas[number]
            image = Loading(machine.pm, area)
            self.scheme.algorithm.load(image, area.root, entries, self.sizes.value_bytes)
            for address, word in area.words():
                image.put(address, word)
            image.done()
        for machine in (self, *self.scheme.roles.get("spare", ())):
            machine.loaded_bytes[number] = image.next - area.data
            machine.loaded_keys[number] = list(entries)

    def mirror(self) -> Mirror | None:
        """The mirror that this machine copies its logs to."""
        if self.logged and self.mode.option("mirror") == "back-end" and not self.scheme.lost("mirror"):
            return self.scheme.roles["mirror"][0]  # type: ignore[no-any-return]
        return None

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        self.key = self.listener.register(self.start_of_memory, self.length).key
        self.service = None
        if self.scheme.over is not None and self.logged:
            self.service = Service(self.scheme.primitive, self.node)
            self.service.register(self.start_of_memory, self.length)
        self.heaps = [area.bitmap() for area in self.areas if area.block_bytes]
        self.missing: set[int] = set()
        """Structures that are lost: there is no copy of them."""
        self.copies: dict[int, Copies] = {}
        """By structure: what copies its memory log to the mirror."""
        self.operation_copies: dict[int, Copies] = {}
        """By structure: what copies its operation log."""
        self.replaying = [Lock(self.system.clock) for _ in self.areas]
        """By structure: whoever has it may move its LPN, or copy all of it."""
        for heap in self.heaps:
            heap.changed = None if self.mirror() is None else set()
        self.calls = RfpServer(self.node, self.listener.door, self.allocate, self.sizes.clients + len(self.areas))
        self.writers: dict[int, Writer] = {}
        """By structure: the front-end that writes it."""
        for signal in getattr(self, "moved", ()):
            signal.set()  # whoever waits for the process before
        for before in getattr(self, "takeovers", {}).values():
            before.end(failed=True)
        self.takeovers: dict[int, TakeOver] = {}
        """By structure: its take-over that is under way, or the last one that has failed."""
        self.moved = [Signal(self.system.clock) for _ in self.areas]
        """By structure: raised when a transaction has been replayed."""
        self.positions: dict[int, Position] = {}
        """By structure: where the next transaction begins."""

    @override
    def start(self) -> None:
        process = self.node.process(self.node.name)
        if self.heaps:
            process.start(self.calls.serve(self.node.thread(0, f"{self.node.name} calls")))
        if self.logged:
            if self.mirror() is not None and self.mode.copied_before():
                self.positions.clear()  # nobody reads what has been replayed before it is on the mirror
            for area in self.areas:
                process.start(self.serve(self.log_thread(area.number), area))
        self.listener.listen()

    def is_wanted(self) -> None:
        """A front-end that is not connected wants to be: this machine is told."""

    def log_thread(self, number: int) -> Thread:
        """A thread on one of the cores for logs; one that posts copies is called as the process is that has its queue
        pairs.
        """
        core = 1 + number % (len(self.node.cores) - 1) if len(self.node.cores) > 1 else 0
        return self.node.thread(core, self.node.name + (f" log {number}" if self.mirror() is None else ""))

    def allocate(self, thread: Thread, request: CallRequest) -> Code:
        """Serve a call: some blocks of a structure's heap are wanted, or given back."""
        heap = self.heaps[request.f >> 8]
        if request.f & 0xFF == ALLOCATE:
            return (yield from heap.allocate(thread, request.count)) or 0
        yield from heap.free(thread, request.address, request.count)
        return 0

    # a thread of a log ----------------------------------------------------------------------------------------------
    def serve(self, thread: Thread, area: Area) -> Code:
        """Replay what comes into a structure's memory log, for ever."""
        yield from self.begin_copies(thread, area)
        yield from self.find_position(thread, area)
        while True:
            self.moved[area.number].set()
            head = yield from self.next_transaction(thread, area)
            yield from self.replaying[area.number].acquire(thread, exclusive=True)
            yield from self.replay(thread, area, head)
            self.replaying[area.number].release()

    def find_position(self, thread: Thread, area: Area) -> Code:
        """Read the LPN."""
        self.positions[area.number] = Position.unpack((yield from thread.load(area.lpn, WORD)))

    def next_transaction(self, thread: Thread, area: Area) -> Code:
        """Look until the next transaction is there as a whole; returns its head.

        While nothing of it is there, the loop looks at its head; once that is, it verifies the checksum again and
        again: the rest is on its way.
        """
        looking: Looking | None = None
        while True:
            place = area.memory_log.at(self.positions[area.number])
            seen = yield from thread.load(place, RecordHead.size)
            head = head_of(seen, self.positions[area.number].sequence)
            if head is None:
                looking = None
                yield from thread.spin([(place, seen)])
            elif (yield from self.is_whole(thread, area, head)):
                return head
            else:
                looking = looking or thread.looking()
                yield from looking.again([(place, lines_of(head.length) * LINE)], self.moved[area.number], ())

    def is_whole(self, thread: Thread, area: Area, head: RecordHead) -> Code:
        """Whether the body behind a head has its checksum."""
        place = area.memory_log.at(self.positions[area.number]) + body_at(head.length)
        return (yield from thread.crc32_matches(place, head.length, head.body_crc))

    def replay(self, thread: Thread, area: Area, head: RecordHead) -> Code:
        """Store a transaction's entries, durably, and move the LPN behind it."""
        position = self.positions[area.number]
        place = area.memory_log.at(position)
        yield from self.make_durable(thread, place, lines_of(head.length) * LINE)
        body = yield from thread.load(place + body_at(head.length), head.length)
        writes = writes_of(body)
        yield from self.copy(thread, area, position, body, writes)
        yield from self.count_up(thread, area)
        for address, data in writes:
            yield from thread.store(address, data)
        yield from self.flush(thread, writes)
        yield from self.count_up(thread, area)
        yield from self.copied(area)
        yield from self.advance(thread, area, area.memory_log.behind(position, head.length))

    def make_durable(self, thread: Thread, address: int, length: int) -> Code:
        """Flush a transaction in the log, where what is visible may be lost."""
        if self.pm.domain not in _AUTOMATIC:
            yield from thread.flush(address, length)

    def flush(self, thread: Thread, writes: Iterable[Write]) -> Code:
        """Flush the lines of some writes, each once, with one fence."""
        lines = sorted({line for at, data in writes for line in range(at // LINE, (at + len(data) - 1) // LINE + 1)})
        instruction = getattr(thread, self.node.cpu.flush_instruction)
        first = 0
        for turn, line in enumerate(lines):
            if turn + 1 == len(lines) or lines[turn + 1] != line + 1:
                yield from instruction(lines[first] * LINE, (line + 1 - lines[first]) * LINE)
                first = turn + 1
        yield from thread.sfence()

    def count_up(self, thread: Thread, area: Area) -> Code:
        """Make the sequence number odd, or even again: algorithm 3."""
        number = int.from_bytes((yield from thread.load(area.sequence, WORD)), "little") + 1
        yield from thread.store(area.sequence, number.to_bytes(WORD, "little"))
        self.count("steps of sequence numbers")
        self.gauge(f"sequence number of structure {area.number}", number)

    def advance(self, thread: Thread, area: Area, position: Position) -> Code:
        """Move the LPN, durably."""
        yield from thread.store(area.lpn, word_of(position))
        yield from thread.flush(area.lpn, WORD)
        self.positions[area.number] = position

    # the mirror -----------------------------------------------------------------------------------------------------
    def begin_copies(self, thread: Thread, area: Area) -> Code:
        """Where this machine copies: a way to the mirror, and where it is not as it was at time zero, all there is."""
        mirror = self.mirror()
        if mirror is None:
            return
        yield from mirror.fence(area)
        most_bytes = max(2 * PIECE, (area.memory_log.lines + 1) * LINE)
        copies = Copies(mirror, thread, self.node, area, most_bytes)
        if self.scheme.failures:
            yield from copies.all_of(OwnMemory(thread))
        self.copies[area.number] = copies
        if "oplog" in self.mode.options:
            own = self.log_thread(len(self.areas) + area.number)
            operations = self.operation_copies[area.number] = Copies(mirror, own, self.node, area, most_bytes)
            operations.follow(copies)
            self.node.process(self.node.name).start(self.copy_operations(own, area, operations))

    def copy(self, thread: Thread, area: Area, position: Position, body: bytes, writes: list[Write]) -> Code:
        """Copy a transaction, and before it the allocator's bits that have changed."""
        copies = self.copies.get(area.number)
        if copies is None:
            return
        if self.heaps:
            heap = self.heaps[area.number]
            changed, heap.changed = heap.changed or (), set()
            for word in sorted(changed):
                yield from copies.put(word, (yield from thread.load(word, WORD)))
        yield from copies.transaction(position, body, writes)
        if self.mode.option("mirrored") == "before":
            yield from copies.settle()
        yield from self.join_mirror(area, copies)
        if self.mode.option("mirrored") == "before":
            yield from thread.store(area.copied, word_of(area.memory_log.behind(position, len(body))))

    def copied(self, area: Area) -> Code:
        """Wait until the copy has arrived: then the transaction commits."""
        copies = self.copies.get(area.number)
        if copies is not None:
            yield from copies.settle()
            yield from self.join_mirror(area, copies)

    def join_mirror(self, area: Area, by: Copies) -> Code:
        """If the mirror was gone, be it for one of the two threads that copy a structure, and is there again: copy all
        to it. Whoever calls this has the structure's lock.
        """
        both = [each[area.number] for each in (self.copies, self.operation_copies) if area.number in each]
        if any(each.alone for each in both):
            for each in both:
                each.alone = True
            yield from by.join_again(OwnMemory(by.link.thread), next((each for each in both if each is not by), None))

    def copy_operations(self, thread: Thread, area: Area, copies: Copies) -> Code:
        """Copy what comes into a structure's operation log, for ever."""
        log, before = area.operation_log, self.mode.option("mirrored") == "before"
        position, looking = Position.unpack(bytes(WORD)), None
        while True:
            lpn = yield from thread.load(area.operations_lpn, WORD)
            if Position.unpack(lpn).sequence > position.sequence:
                position = Position.unpack(lpn)
            place = log.at(position)
            seen = yield from thread.load(place, RecordHead.size)
            head = head_of(seen, position.sequence)
            if head is None:
                looking = None
                yield from thread.spin([(place, seen), (area.operations_lpn, lpn)])
            elif (found := (yield from OwnMemory(thread).record(log, position))) is None:
                looking = looking or thread.looking()
                ranges = [(place, lines_of(head.length) * LINE), (area.operations_lpn, WORD)]
                yield from looking.again(ranges, self.moved[area.number], ())
            else:
                looking, link = None, copies.link
                yield from copies.operation(log, position, found[1])
                if before:
                    yield from copies.settle()
                if copies.alone or copies.link is not link:  # the other thread copies all: until then there is no copy
                    yield from self.replaying[area.number].acquire(thread, exclusive=True)
                    yield from self.join_mirror(area, copies)
                    self.replaying[area.number].release()
                    if not copies.alone:
                        continue  # that all may have been copied before this record came
                position = log.behind(position, head.length)
                if before:
                    yield from thread.store(area.operations_copied, word_of(position))

    # front-ends -----------------------------------------------------------------------------------------------------
    def fence(self, area: Area) -> Code:
        """Nothing more of a structure's writer is taken; what has been taken is there when this returns."""
        before = self.writers.get(area.number)
        for end in () if before is None else before.ends:
            end.destroy()
            yield end.placed()

    def forget_writer(self, area: Area) -> None:
        """A structure has no writer any more: its inbox for calls is another's."""
        before = self.writers.pop(area.number, None)
        if before is not None:
            self.calls.release(before.ends)

    def retire(self, area: Area) -> Code:
        """Have a structure come to rest that is taken over: nothing of its writer before can arrive, and what has come
        is replayed. Raises :class:`BackEndGone` if this machine dies meanwhile, or its process.
        """
        taking, moved = self.takeovers[area.number], self.moved[area.number]
        yield from self.fence(area)
        thread = self.node.thread(0, f"{self.node.name} connections")
        self.node.watched_by.append(moved)
        rests = False
        while self.takeovers.get(area.number) is taking and not self.node.off:
            if rests:
                self.forget_writer(area)
                return
            position = self.positions.get(area.number)
            if position is not None:
                head = head_of(
                    (yield from thread.load(area.memory_log.at(position), RecordHead.size)), position.sequence
                )
                whole = head is not None and (yield from self.is_whole(thread, area, head))
                rests = not whole and position is self.positions.get(area.number)  # else that was another one's place
            if not rests and position is self.positions.get(area.number):
                changed = moved.changed()
                try:
                    yield changed
                finally:
                    moved.forget(changed)
        raise BackEndGone

    # after a failure ------------------------------------------------------------------------------------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return range(len(self.areas)) if self.logged else ()

    @override
    def units_of(self, object: Hashable) -> Iterable[Hashable]:
        return (self.scheme.structure_of(object),) if self.logged else ()

    @override
    def recover_unit(self, thread: Thread, unit: Hashable) -> Code:
        """Replay the whole transactions of a log, make its sequence number even, and renumber what follows."""
        assert isinstance(unit, int)
        area = self.areas[unit]
        yield from self.find_position(thread, area)
        number = int.from_bytes((yield from thread.load(area.sequence, WORD)), "little")
        if number % 2:
            yield from thread.store(area.sequence, (number + 1).to_bytes(WORD, "little"))
            yield from thread.flush(area.sequence, WORD)
        while True:
            position = self.positions[unit]
            head = head_of((yield from thread.load(area.memory_log.at(position), RecordHead.size)), position.sequence)
            if head is None or not (yield from self.is_whole(thread, area, head)):
                break
            try:
                yield from self.replay(thread, area, head)
            except NoTransactionError:  # torn, with the checksum of the whole
                break
        yield from self.advance(thread, area, area.memory_log.renumbered(self.positions[unit]))


class PlainBackEnd(BackEnd):
    """One without logs: its only code is that of the allocator."""

    logged = False

    @override
    def retire(self, area: Area) -> Code:
        """There is nothing to replay: nothing of the writer before can arrive."""
        taking = self.takeovers[area.number]
        yield from self.fence(area)
        if self.takeovers.get(area.number) is not taking or self.node.off:
            raise BackEndGone
        self.forget_writer(area)


BROKEN = (VerbsError, PrimitiveFailed, BackEndGone)
"""What a front-end is told by whose connection has broken."""
