"""The instructions of a core that touch memory, as x86 names them: loads, stores, flushes, fences.

A store retires into its core's store buffer and drains in program order; nothing proves that it has left before a
fence, a doorbell or another agent's read says so. ``clwb`` and ``clflushopt`` take effect with the next ``sfence``,
``clflush`` at once; ``ntstore`` goes through write-combining buffers until an ``sfence`` (Intel SDM; Yang et al.,
FAST'20).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from typing_extensions import override

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.clock import Clock
from ...sim.trace import Chunk, Flush
from ..durability.ordering import Event, Ordering
from ..durability.rules import Target
from ..host.attached import AttachedMemory
from ..host.hostmemory import HostMemory
from ..memory.devices import DEVICE_SPAN_BITS, OFFSET_MASK, AddressSpace
from ..profiles.parameters.cpu import CpuParameters
from .core import Core, LateFlush
from .looking import Looking
from .software import Code, SoftwareThread

CrcOf = Callable[[bytes], int | None]
"""The checksum that a record's head says the rest has; None where it says none."""

_SAMPLED_BYTES = 1 << 20
"""Caches are asked for so many bytes of a range that is touched: what is behind misses them as the first ones do."""
_BITS_PS = 8 * 10**12
"""Bits of a byte times picoseconds of a second."""


class Instructions(SoftwareThread):
    """The part of a thread that touches memory: what each instruction costs, and what it proves."""

    def __init__(
        self,
        clock: Clock,
        ordering: Ordering,
        cpu: CpuParameters,
        host: HostMemory,
        core: Core,
        name: str,
        pinned: bool = True,
    ) -> None:
        super().__init__(clock, cpu, core, name, pinned)
        self.host = host
        self._attached = host.attached
        self._ordering = ordering

    @override
    def leave(self, to: Core) -> int:
        """The scheduler moves it to another core; returns when all that it has flushed here is queued.

        A context switch has a full barrier (Linux, Documentation/memory-barriers.txt), and a locked instruction orders
        flushes as a fence does (Intel SDM, CLWB): other agents see its stores from here before it runs there.
        """
        core, trace, now_ps = self.core, self._ordering.trace, self.now_ps
        if to.host is not None:
            self.host, self._attached = to.host, to.host.attached
        flushes, core.flushes = core.flushes, []
        left = core, trace.count(core.stores), trace.count(core.ntstores), flushes
        self.core = to
        done_ps = max(now_ps, core.fence_ps, core.fills.stored_ps)
        self.clock.call_at(done_ps, self._left, left)
        return done_ps

    def _left(self, left: tuple[Core, int, int, list[Flush]]) -> None:
        core, stored, written, flushes = left
        if core.fence_ps > self.now_ps:  # a flush has left meanwhile that waited for its line
            self.clock.call_at(core.fence_ps, self._left, left)
            return
        self._ordering.happened(
            Event.SFENCE,
            self.now_ps,
            core=((core.stores, stored),),
            core_nt=((core.ntstores, written),),
            flushes=flushes,
        )
        self.host.drain(core.stores, core.ntstores)

    def looking(self) -> Looking:
        """For a loop that looks at memory until another agent has written there: a round begins now."""
        return Looking(self, self.host.memory)

    def _copy_ps(self, length: int) -> int:
        return length * _BITS_PS // self._cpu.memcpy_bits_per_s

    def _writer(self, what: str) -> str:
        return f"{what} by {self.name}" + (f", {self.span.label}" if self.span else "")

    # memory ---------------------------------------------------------------------------------------------
    def load(self, address: int, length: int) -> Code:
        """Load ``length`` bytes; returns them."""
        core, clock = self.core, self.clock
        if not core.undivided:
            yield from self._turn()
            core = self.core
        start_ps = clock._now
        device = self._attached[address >> DEVICE_SPAN_BITS]
        cost_ps = device.access_ps(address & OFFSET_MASK, length, False, core.agent, core.fills)
        self.account.memory_ps += cost_ps
        yield core.run(self, cost_ps)
        data, seen = device.load(clock._now, address & OFFSET_MASK, length)
        if seen or self.host.peers:
            self._looked(Event.LOAD, clock._now, address, start_ps, seen)
        return data

    def load_all(self, addresses: Sequence[int], length: int) -> Code:
        """Load ``length`` bytes at each of these addresses, none of which depends on another load; returns them.

        A core that executes out of order has as many of them under way as it has fill buffers: it takes until the last.
        """
        core = self.core
        if not core.undivided:
            yield from self._turn()
            core = self.core
        start_ps, took_ps, found = self.clock._now, 0, []
        for address in addresses:
            cost_ps = self.host.access_ps(address, length, False, core.agent, core.fills)
            took_ps = max(took_ps, cost_ps)
        self.account.memory_ps += took_ps
        yield core.run(self, took_ps)
        for address in addresses:
            data, seen = self.host.load(self.clock._now, address, length)
            if seen or self.host.peers:
                self._looked(Event.LOAD, self.clock._now, address, start_ps, seen)
            found.append(data)
        return found

    def touch(self, address: int, length: int, *, store: bool = False) -> Code:
        """The time of loads of a range, or of stores to it, whose bytes the code that runs here does not look at: it
        knows them, or makes them when somebody looks. A long range takes as long a byte as its first megabyte.
        """
        yield from self._turn()
        core, copy_ps, some = self.core, self._copy_ps(length) if store else 0, min(length, _SAMPLED_BYTES)
        access_ps = self.host.access_ps(address, some, store, core.agent, core.fills) * length // max(1, some)
        self.account.memory_ps += access_ps
        self.account.copy_ps += copy_ps
        yield core.run(self, access_ps + copy_ps)

    def prefetch(self, address: int, length: int) -> Code:
        """``prefetcht0`` of each line of a range: on its way to the cache; the core waits for a fill buffer only.

        Loads without a use of their values cost the same: a core that executes out of order goes on behind them.
        """
        done = 0
        while done < length:
            take = min(LINE_BYTES - (address + done) % LINE_BYTES, length - done)
            if not self.core.undivided:
                yield from self._turn()
            wait_ps = max(0, self.core.fills.busy_ps[0] - self.now_ps)
            if wait_ps:
                self.account.memory_ps += wait_ps
                yield self.core.run(self, wait_ps)
                if not self.core.undivided:
                    yield from self._turn()
            cost_ps = self.host.access_ps(address + done, take, False, self.core.agent, self.core.fills, wait=False)
            self.account.memory_ps += cost_ps
            yield self.core.run(self, cost_ps)
            done += take

    def _looked(self, event: Event, at_ps: int, address: int, issued_ps: int, seen: Sequence[Chunk] = ()) -> None:
        """A read has come back: of a peer device it has pushed this core's posted stores before it.

        An uncached read empties write-combining buffers too, a load through a write-combining mapping does not (Intel
        SDM, volume 3, section 12.3.1): it pushes what a fence or an uncached read has sent before.
        """
        to, stores = self.host.destination(address), self.core.stores
        attached = self.host.attached[address >> DEVICE_SPAN_BITS]
        if event is Event.STATUS_READ or attached.uncached:
            self.host.drain(stores, self.core.ntstores)
        self._ordering.happened(
            event,
            at_ps,
            here=self.host.circumstances(address),
            core=(*self.host.mmio_stores(stores, address), *self.host.mmio_stores(self.core.ntstores, address)),
            returned=attached.returned(seen, (stores, self.core.ntstores)),
            reader=stores,
            device=None if to.target is Target.MEMORY else to.number,
            issued_ps=issued_ps,
        )

    def read_pmrsts(self, address: int) -> Code:
        """Read the register PMRSTS of the device in whose persistent memory region ``address`` is."""
        if not self.core.undivided:
            yield from self._turn()
        start_ps = self.now_ps
        yield self.core.run(self, self.host.status_read_ps(address, start_ps))
        self._looked(Event.STATUS_READ, self.now_ps, address, start_ps)

    def store(self, address: int, data: bytes) -> Code:
        """Store ``data``, in program order, word after word."""
        core = self.core
        if not core.undivided:
            yield from self._turn()
            core = self.core
        device, offset = self._attached[address >> DEVICE_SPAN_BITS], address & OFFSET_MASK
        access_ps = device.access_ps(offset, len(data), True, core.agent, core.fills)
        copy_ps = self._copy_ps(len(data))
        self.account.memory_ps += access_ps
        self.account.copy_ps += copy_ps
        yield core.run(self, access_ps + copy_ps)
        core, traced = self.core, device.device.traced
        device.store(offset, data, core.stores, self._writer("store") if traced else "", self.clock._now)
        if core.pauses is not None:
            core.may_pause(self.clock._now, traced)

    def ntstore(self, address: int, data: bytes) -> Code:
        """Non-temporal stores: past the caches, unordered until an ``sfence``."""
        device, offset = self._attached[address >> DEVICE_SPAN_BITS], address & OFFSET_MASK
        done = 0
        while done < len(data):  # each line leaves when it is full
            take = min(LINE_BYTES - (offset + done) % LINE_BYTES, len(data) - done)
            if not self.core.undivided:
                yield from self._turn()
            cost_ps = max(0, self.core.fills.busy_ps[0] - self.now_ps) + self._cpu.ntstore_ps
            self.account.flush_ps += cost_ps
            yield self.core.run(self, cost_ps)
            core, now_ps, piece = self.core, self.now_ps, data[done : done + take]
            queued_ps = device.ntstore(offset + done, piece, core.ntstores, self._writer("ntstore"), now_ps)
            core.fills.take(max(queued_ps, now_ps + self._cpu.ntstore_hold_ps + device.write_hold_ps))
            core.fence_ps = max(core.fence_ps, queued_ps, device.drained_ps((offset + done) // LINE_BYTES))
            done += take

    def memcpy(self, destination: int, source: int, length: int) -> Code:
        """Copy by loads and stores: the time to start, then to bring its lines and to move its bytes, which overlap.

        It takes what the slowest of the three does; lines to load and lines to store share the fill buffers.
        """
        if length >= self._cpu.memcpy_string_bytes:
            self.account.copy_ps += self._cpu.memcpy_start_ps
            yield self.core.run(self, self._cpu.memcpy_start_ps)
        if not self._cpu.memcpy_overlaps or not length:
            data = yield from self.load(source, length)
            yield from self.store(destination, data)
            return
        if not self.core.undivided:
            yield from self._turn()
        core, start_ps = self.core, self.clock._now
        load_ps = self.host.access_ps(source, length, False, core.agent, core.fills)
        store_ps = self.host.access_ps(destination, length, True, core.agent, core.fills)
        memory_ps = max(load_ps, store_ps)
        copy_ps = max(0, self._copy_ps(length) - memory_ps)
        self.account.memory_ps += memory_ps
        self.account.copy_ps += copy_ps
        yield core.run(self, memory_ps + copy_ps)
        data, seen = self.host.load(self.clock._now, source, length)
        if seen or self.host.peers:
            self._looked(Event.LOAD, self.clock._now, source, start_ps, seen)
        core, traced = self.core, self.host.attached[destination >> DEVICE_SPAN_BITS].device.traced
        writer = self._writer("store") if traced else ""
        self.host.store(destination, data, core.stores, writer, self.clock._now)
        if core.pauses is not None:
            core.may_pause(self.clock._now, traced)

    def crc32(self, address: int, length: int) -> Code:
        """The CRC32 of a range; returns it.

        Loads run ahead of the arithmetic, which depends on nothing but them: the time is that of the slower of the two.
        """
        before_ps = self.account.memory_ps
        data = yield from self.load(address, length)
        yield from self._checksum(length, self.account.memory_ps - before_ps)
        return zlib.crc32(data)

    def crc32_matches(self, address: int, length: int, expected: int) -> Code:
        """Whether a range has this CRC32; returns that. An explorer of crash states may decide (``Core.deciding``)."""
        if self.core.deciding is None:
            return (yield from self.crc32(address, length)) == expected
        if not self.core.undivided:
            yield from self._turn()
        start_ps = self.now_ps
        access_ps = self.host.access_ps(address, length, False, self.core.agent, self.core.fills)
        self.account.memory_ps += access_ps
        yield self.core.run(self, access_ps)
        found = self.core.deciding(self.host.memory, address, length, expected)
        if found is None:
            device = self._attached[address >> DEVICE_SPAN_BITS]
            data, seen = device.load(self.now_ps, address & OFFSET_MASK, length)
            if seen or self.host.peers:
                self._looked(Event.LOAD, self.now_ps, address, start_ps, seen)
            found = zlib.crc32(data) == expected
        yield from self._checksum(length, access_ps)
        return found

    def fetched_matches(self, memory: AddressSpace, address: int, length: int, head: int, crc: CrcOf) -> bool | None:
        """Whether what a READ of another node's ``memory`` is going to fetch has its checksum, if an explorer of crash
        states decides that before (``Core.deciding``); else None.

        The first ``head`` bytes say by ``crc`` which checksum the others have, None if they cannot tell.
        """
        if self.core.deciding is None:
            return None
        device, offset = memory.locate(address)
        expected = crc(device.space.read(self.clock.now_ps, offset, head))
        return None if expected is None else self.core.deciding(memory, address + head, length - head, expected)

    def crc32_of(self, data: bytes) -> Code:
        """The CRC32 of bytes that the code has at hand already; returns it."""
        yield from self._checksum(len(data))
        return zlib.crc32(data)

    def _checksum(self, length: int, loading_ps: int = 0) -> Code:
        """The time of the arithmetic over ``length`` bytes beyond the time in which they were loaded."""
        cost_ps = max(0, self._cpu.crc_ps_per_byte * length - loading_ps)
        self.account.crc_ps += cost_ps
        yield self.core.run(self, cost_ps)

    # persistence ------------------------------------------------------------------------------------------
    def clwb(self, address: int, length: int) -> Code:
        """Write the lines of a range back; done with the next ``sfence``."""
        return self._write_back(address, length, self._cpu.clwb_ps, keep=not self._cpu.clwb_invalidates)

    def clflushopt(self, address: int, length: int) -> Code:
        """Write the lines of a range back and drop them; done with the next ``sfence``."""
        return self._write_back(address, length, self._cpu.clflushopt_ps, keep=False)

    def _write_back(self, address: int, length: int, cost_ps: int, keep: bool) -> Code:
        device, offset = self._attached[address >> DEVICE_SPAN_BITS], address & OFFSET_MASK
        account, number = self.account, device.device.number
        for line in lines(offset, length):
            if not self.core.undivided:
                yield from self._turn()
            core, now_ps = self.core, self.clock._now
            flush = self._ordering.trace.flush(number, line, core.stores, now_ps)
            if not core.fair:
                core.flushes.append(flush)
            wait_ps = max(0, core.fills.busy_ps[0] - now_ps)
            account.flush_lines += 1
            account.flush_ps += wait_ps + cost_ps
            yield core.run(self, wait_ps + cost_ps)  # then the line is on its way, and the next one's turn has come
            core = self.core
            if core.fair:  # only now: its thread may have moved, and a fence of others in between does not cover it
                core.flushes.append(flush)
            owned_ps = device.owned_ps(line)
            if owned_ps > self.clock._now and (yield from self._flush_late(core, device, line, keep, owned_ps)):
                continue
            queued_ps = device.write_back(line, self.clock._now, keep)
            core.fills.take(queued_ps)
            core.fence_ps = max(core.fence_ps, queued_ps, device.drained_ps(line))

    def _flush_late(self, core: Core, device: AttachedMemory, line: int, keep: bool, owned_ps: int) -> Code:
        """A flush of a line that the core has not got yet leaves then; the core goes on, if it has room for one more.

        Returns False where it had none, and the line has come meanwhile.
        """
        if len(core.late) >= core.fills.count:
            first = core.late.popleft()
            yield from self._flushing(core, first.leaves_ps)
            yield from self._flushing(core, first.queued_ps)
            if owned_ps <= self.clock._now:
                return False
        flush = LateFlush(owned_ps)
        core.late.append(flush)
        core.fills.stored_ps = max(core.fills.stored_ps, owned_ps)
        self.clock.thread_call(owned_ps, core.agent, self._leaves, (flush, core, device, line, keep))
        return True

    def _flushing(self, core: Core, until_ps: int) -> Code:
        """The core waits until then for a flush."""
        wait_ps = until_ps - self.clock._now
        if wait_ps > 0:
            self.account.flush_ps += wait_ps
            yield core.run(self, wait_ps)

    def _leaves(self, late: tuple[LateFlush, Core, AttachedMemory, int, bool]) -> None:
        flush, core, device, line, keep = late
        flush.queued_ps = device.write_back(line, self.clock._now, keep)
        core.fence_ps = max(core.fence_ps, flush.queued_ps, device.drained_ps(line))

    def clflush(self, address: int, length: int) -> Code:
        """Write the lines of a range back and drop them, one after the other, each before any later store."""
        device, offset = self.host.memory.locate(address)
        for line in lines(offset, length):
            if not self.core.undivided:
                yield from self._turn()
            wait_ps = self.host.attached[device.index].owned_ps(line) - self.now_ps
            if wait_ps > 0:
                self.account.flush_ps += wait_ps
                yield self.core.run(self, wait_ps)
                if not self.core.undivided:
                    yield from self._turn()
            issued_ps = self.now_ps
            flush = self._ordering.trace.flush(device.number, line, self.core.stores, issued_ps)
            queued_ps = self.host.flush_line(device, line, issued_ps, keep=False)
            written_back = queued_ps > issued_ps
            cost_ps = max(self._cpu.clflush_ps, queued_ps - issued_ps) if written_back else self._cpu.clflush_clean_ps
            self.account.flush_lines += 1
            self.account.flush_ps += cost_ps
            yield self.core.run(self, cost_ps)
            self._ordering.happened(Event.CLFLUSH, self.now_ps, flushes=[flush])

    def wbinvd(self) -> Code:
        """Write all lines of the host's caches back and drop them, as a machine does that flushes when power fails.

        It completes, as ``clflush`` does for one line, when memory has them (Intel SDM, volume 2: a serializing
        instruction).
        """
        if not self.core.undivided:
            yield from self._turn()
        devices = {device.number for device in self.host.memory.by_index}
        flushes = self._ordering.trace.flush_all(devices, self.core.stores, self.now_ps)
        cost_ps = self.host.flush_all() - self.now_ps
        self.account.flush_ps += cost_ps
        yield self.core.run(self, cost_ps)
        self._ordering.happened(Event.CLFLUSH, self.now_ps, flushes=flushes)

    def sfence(self) -> Code:
        """Wait until this core's stores are visible and its flushes and non-temporal stores are queued.

        Where a fence empties the queues of a DIMM (``Controller.fence_drains``) it waits for that too, which takes time
        and proves no more. It knows nothing of DMA in flight.
        """
        trace = self._ordering.trace
        if not self.core.undivided:
            yield from self._turn()
        core = self.core
        stores, ntstores = len(core.store_buffer.chunks), trace.count(core.ntstores)
        flushes, core.flushes = core.flushes, []
        fills, issued_ps = core.fills, self.clock._now
        wait_ps = core.fills.stored_ps - self.clock._now
        if wait_ps > 0:  # behind its stores, and what is to be flushed leaves then
            self.account.flush_ps += wait_ps
            yield core.run(self, wait_ps)
            if not self.core.undivided:
                yield from self._turn()
        cost_ps = max(0, core.fence_ps - self.now_ps) + self._cpu.sfence_ps
        self.account.fences += 1
        self.account.flush_ps += cost_ps
        yield self.core.run(self, cost_ps)
        fills.fenced(issued_ps, self.now_ps)
        self.host.drain(core.stores, core.ntstores)
        self._ordering.happened(
            Event.SFENCE,
            self.now_ps,
            core=((core.stores, stores),),
            core_nt=((core.ntstores, ntstores),),
            flushes=flushes,
        )
        core.may_pause(self.now_ps)

    def flush(self, address: int, length: int) -> Code:
        """Every line with the best instruction of this processor, then ``sfence``: what ``pmem_persist`` does."""
        yield from getattr(self, self._cpu.flush_instruction)(address, length)
        yield from self.sfence()
