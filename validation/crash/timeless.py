"""A thread whose instructions take no time, for those who ask what code does and not how long it takes.

After a power failure recovery and a read are run for thousands of images, and all that is asked is what they return:
caches, queues and wires only cost time then. What such a thread can do by itself (instructions, and an RDMA READ on a
connection on which nothing else is under way) happens at once; whatever needs others, calls to a server, WRITEs and
atomics, sleeping, waiting, takes its usual way through the models. Only :data:`AT_ONCE` instructions happen
at once, and then only some, so that a loop that waits for somebody lets time pass.
"""

from __future__ import annotations

from typing_extensions import override

from ...models.cpu import Deadline, Thread
from ...models.cpu.software import Code
from ...models.host.hostmemory import HostMemory
from ...models.memory.devices import DEVICE_SPAN_BITS, OFFSET_MASK
from ...models.nic.nic import Nic
from ...models.verbs import SIGNALED, CompletionQueue, Opcode, QueuePair, SendWR, Status, WorkCompletion
from ...sim.bytespace import LINE_BYTES
from ...sim.trace import NEVER

AT_ONCE = 1 << 14
"""So many instructions without time passing: more than code needs, most often, that does not wait for somebody."""
THEN = 16
"""And so many between those that take their time, from then on."""


class TimelessThread(Thread):
    """A thread on a core of its own; its stores are not traced, so that nobody may ask what a crash leaves of them."""

    _free = AT_ONCE
    _wrote = False
    """Whether it has posted anything but READs that happened at once: what is behind that takes its usual way."""

    def _at_once(self) -> bool:
        """Whether the next instruction happens at once."""
        core = self.core
        if core.fair or core.held or self.host.peers:
            return False
        self._free -= 1
        if self._free < 0:
            self._free = THEN
            return False
        return True

    # memory ---------------------------------------------------------------------------------------------
    @override
    def load(self, address: int, length: int) -> Code:
        if self._at_once():
            device = self.host.memory.by_index[address >> DEVICE_SPAN_BITS]
            return device.space.read(self.clock._now, address & OFFSET_MASK, length)
        return (yield from super().load(address, length))

    @override
    def store(self, address: int, data: bytes) -> Code:
        if self._at_once():
            _put(self.host, address, data)
        else:
            yield from super().store(address, data)

    @override
    def ntstore(self, address: int, data: bytes) -> Code:
        if self._at_once():
            _put(self.host, address, data)
        else:
            yield from super().ntstore(address, data)

    @override
    def memcpy(self, destination: int, source: int, length: int) -> Code:
        """What only is copied nobody looks at: whatever it holds, the copy has the same course."""
        by_index, there = self.host.memory.by_index, destination >> DEVICE_SPAN_BITS
        if source >> DEVICE_SPAN_BITS == there and self._at_once():
            space, start = by_index[there].space, destination & OFFSET_MASK
            space.copy(self.clock._now, start, source & OFFSET_MASK, length)
            space.tell(self.clock._now, start, length)
        else:
            yield from super().memcpy(destination, source, length)

    @override
    def _checksum(self, length: int, loading_ps: int = 0) -> Code:
        if not self._at_once():
            yield from super()._checksum(length, loading_ps)

    @override
    def crc32_matches(self, address: int, length: int, expected: int) -> Code:
        deciding = self.core.deciding
        if deciding is not None and self._at_once():
            found = deciding(self.host.memory, address, length, expected)
            if found is not None:
                return found
            return (yield from self.crc32(address, length)) == expected
        return (yield from super().crc32_matches(address, length, expected))

    # persistence: nobody asks --------------------------------------------------------------------------------
    @override
    def _write_back(self, address: int, length: int, cost_ps: int, keep: bool) -> Code:
        if not self._at_once():
            yield from super()._write_back(address, length, cost_ps, keep)

    @override
    def clflush(self, address: int, length: int) -> Code:
        if not self._at_once():
            yield from super().clflush(address, length)

    @override
    def sfence(self) -> Code:
        if not self._at_once():
            yield from super().sfence()

    # software ------------------------------------------------------------------------------------------------
    @override
    def work(self, cost_ps: int) -> Code:
        if not self._at_once():
            yield from super().work(cost_ps)

    # verbs --------------------------------------------------------------------------------------------------
    @override
    def post_send(self, qp: QueuePair, work: SendWR) -> Code:
        if work.opcode is Opcode.IBV_WR_RDMA_READ and self._is_idle(qp, work) and self._at_once():
            if not qp.unchecked:
                qp.check(work)
            assert qp.peer is not None
            nic = qp.peer.end.nic
            pieces = nic.regions.places(work.rkey, work.remote_address, work.length)
            _put(self.host, work.local_address, b"".join(_fetched(nic, *piece) for piece in pieces))
            qp.posted += 1
            posted = qp.end.nic.posted
            posted[work.opcode] = posted.get(work.opcode, 0) + 1
            done = WorkCompletion(work.wr_id, Status.IBV_WC_SUCCESS, work.opcode, work.length, qp, self.span, slots=1)
            qp.send_cq.push(done)
        else:
            self._wrote = True
            yield from super().post_send(qp, work)

    def _is_idle(self, qp: QueuePair, work: SendWR) -> bool:
        """Whether a READ on this connection meets nothing that is under way, and both ends allow it."""
        peer = qp.peer
        if peer is None or not qp.reliable or qp.posted or self._wrote:
            return False
        if qp.error or peer.error or qp.end.off_ps < NEVER or peer.end.off_ps < NEVER:
            return False
        if peer.end.nic.host.peers or qp.end.nic.host is not self.host:
            return False
        if not work.length or work.send_flags not in SIGNALED:
            return False
        allowed: bool = qp.end.nic.regions.local(work.lkey, work.local_address, work.length, written=True)
        return allowed and peer.end.nic.regions.refuses(work) is None

    @override
    def poll(self, queue: CompletionQueue, deadline: Deadline | None = None, *, busy: bool = False) -> Code:
        if self._at_once():
            completion = queue.pop()
            if completion is not None:
                self._takes(completion)
                self._seen(completion)
                return completion
        return (yield from super().poll(queue, deadline, busy=busy))


def _fetched(nic: Nic, address: int, length: int) -> bytes:
    """What an adapter reads, line by line in the order that its arbiter draws."""
    host, offset = nic.host, address & OFFSET_MASK
    space = host.memory.by_index[address >> DEVICE_SPAN_BITS].space
    space.catch_up(host.clock._now)
    first = offset // LINE_BYTES
    count = (offset + length - 1) // LINE_BYTES - first + 1
    space.touch([first + turn for turn in nic.slot.dma.order(count)])
    return space.peek(offset, length)


def _put(host: HostMemory, address: int, data: bytes) -> None:
    """Let coherent memory show bytes from now on."""
    space, offset = host.memory.by_index[address >> DEVICE_SPAN_BITS].space, address & OFFSET_MASK
    space.catch_up(host.clock._now)
    space.poke(offset, data)
    space.tell(host.clock._now, offset, len(data))
